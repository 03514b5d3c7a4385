"""``python -m tests.plain_words``: words that the project does not use, with what to write instead.

Part of ``make check``. It reads the docs, ``--help``, and the strings, comments, docstrings and variable names of all
Python code. The list is short on purpose: it keeps a dialect from coming back, and does not teach English.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from zoneward.cli.main import cli

ROOT: Final = Path(__file__).parents[1]
INSTEAD: Final = {
    r"a right|rights": "permission, permissions",
    r"heed|heeds|heeded|heeding": "honor",
    r"tells?|told|telling": "report, say, show",
    r"anew": "again",
    r"by chance": "at random",
    r"complains?|complained|complaints?": "report, error",
    r"whoever": "a person, a client, a program that ...",
    r"is well|are well": "is enough, is right",
    r"nothing of that": "none of it",
    r"heard of|heard from|hears": "seen, received",
    r"thereby|therein|thereof": "a sentence of its own",
    r"goes on|go on|went on|going on": "continue",
    r"goes by|go by": "has the name, uses",
    r"ours": "Zoneward's",
    r"of yours|one's own": "your own, custom",
    r"so many": "this number of",
    r"but for": "except",
    r"by way of": "through",
    r"mends?|mended|mending": "repair, correct",
    r"stands? in for|stood in for": "replace",
    r"makes? of (?:it|them)": "do with it",
    r"keeps? off|keeping off": "not write, leave to the other",
}
"""From a regular expression, matched as whole words in any case, to what to write."""
INSTEAD_IN_CODE: Final = INSTEAD | {
    r"whatever": "any",
    r"theirs": "the owner's name",
    r"gives? way|gave way": "yield, stop",
    r"stands|stood": "is, is in",
    r"goes": "is removed, is sent, is deleted",
    r"of its own|of their own": "separate, custom",
    r"what is there": "the name of the thing",
    r"as good as|at most as": "as well as, at most",
    r"told from": "distinguished from",
}
"""The same for code, where the list is longer: the pages of ``docs/`` are not rewritten yet."""
NAMES: Final = {"each", "found", "number", "place", "kept", "some", "thing"}
"""Names that do not say what the value is."""


class Words:
    """Words that are not to be used: one regular expression for all of them, which is fast."""

    def __init__(self, instead: Mapping[str, str]) -> None:
        self._any = re.compile(rf"\b(?:{'|'.join(instead)})\b", re.IGNORECASE)
        self._instead = {re.compile(words, re.IGNORECASE): text for words, text in instead.items()}

    def search(self, line: str) -> Iterator[tuple[str, str]]:
        """Each word in ``line``, and what to write instead."""
        for match in self._any.finditer(line):
            yield match[0], next(text for words, text in self._instead.items() if words.fullmatch(match[0]))


_IN_PAGES: Final = Words(INSTEAD)
_IN_CODE: Final = Words(INSTEAD_IN_CODE)


def pages() -> Iterator[tuple[str, str]]:
    """Name and text of every page, and of the help of every command."""
    for path in sorted((*ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("tests/*/README.md"))):
        yield str(path.relative_to(ROOT)), path.read_text()
    yield "README.md", (ROOT / "README.md").read_text()
    # With its settings: click keeps the help option that it makes first, for the whole process.
    context = click.Context(cli, info_name="zoneward", **cli.context_settings)
    yield "zoneward --help", cli.get_help(context)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        own = click.Context(command, context, name, **command.context_settings)
        yield f"zoneward {name} --help", command.get_help(own)


def old_words(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, word and what to write instead, of every word in ``text`` that is not to be used. Code is left out."""
    # Blocks of code and text between backquotes are output or names.
    for line_number, line in enumerate(_without_code(text), 1):
        for word, instead in _IN_PAGES.search(line):
            yield line_number, word, instead


def _without_code(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        yield "" if inside else re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def code() -> Iterator[Path]:
    """All Python files except this one."""
    for folder in ("src", "tests", "e2e", "bench", "cluster", "release"):
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__))


def old_words_in_code(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, word and what to write instead: of comments and strings, and of the names that ``source`` binds."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                for word, instead in _IN_CODE.search(re.sub(r"`[^`]*`", "", line)):
                    yield token.start[0] + offset, word, instead
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in NAMES:
                yield node.lineno, name, "what the value is"


def main() -> int:
    """Print the old words with their lines. Returns the exit status: 1 where there are any."""
    problems = [(name, *problem) for name, text in pages() for problem in old_words(text)]
    for path in code():
        name = str(path.relative_to(ROOT))
        problems += ((name, *problem) for problem in old_words_in_code(path.read_text()))
    for name, line, word, instead in problems:
        print(f"{name}:{line}: {word!r}: write {instead}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
