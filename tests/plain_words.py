"""``python -m tests.plain_words``: words that the docs and ``--help`` do not use, each with what to write instead.

Part of ``make check``. The list is short on purpose: it keeps a dialect from coming back, and does not teach English.
"""

import re
import sys
from collections.abc import Iterator
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
_PATTERNS: Final = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): instead for words, instead in INSTEAD.items()}


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
    # What stands in a block of code or between backquotes is output or a name.
    for number, line in enumerate(_without_code(text), 1):
        for pattern, instead in _PATTERNS.items():
            for found in pattern.finditer(line):
                yield number, found[0], instead


def _without_code(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        yield "" if inside else re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def main() -> int:
    """Print each place. Returns the exit status: 1 where there is one."""
    found = [(name, *each) for name, text in pages() for each in old_words(text)]
    for name, number, word, instead in found:
        print(f"{name}:{number}: {word!r}: write {instead}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
