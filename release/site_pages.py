"""The repository as Sphinx reads it: the front page at the top, and a page for every file that a page links to."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

FRONT: Final = Path("docs", "site", "index.md")
GLOBS: Final = ("*.md", "docs/*.md", "*/README.md", "deploy/*/README.md", "tests/scenarios/README.md")
"""The pages of the site, by their paths in the repository."""
_LANGUAGES: Final = {".yaml": "yaml", ".py": "python", ".jsonl": "json", ".json": "json", ".toml": "toml"}
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_PICTURE: Final = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)|<img\b[^>]*>")


def prepare(tree: Path) -> None:
    """Changes a copy of the repository, ``tree``, into what ``docs/site/conf.py`` expects.

    The front page moves to the top, and its links with it. A link to a file that is no page, such as an example, leads
    to a page that shows this file: a reader of the site needs no code host, and sees the file of the same version.
    Files that only pages about tests link to are offered as they are; there are many. Other Markdown is deleted.
    """
    front = tree / FRONT
    (tree / "index.md").write_text(_LINK.sub(lambda link: _from_top(link[0]), front.read_text()))
    front.unlink()
    pages, shown = set(pages_of(tree)), set[Path]()
    for page in pages:
        if "tests" not in page.relative_to(tree).parts:
            page.write_text(_outside_of_code(page.read_text(), page, shown))
    for other in set(tree.rglob("*.md")) - pages:
        other.unlink()
    for file in shown:
        file.with_name(f"{file.name}.md").write_text(_page_of_file(file, tree))


def pages_of(tree: Path) -> Iterator[Path]:
    return (page for pattern in GLOBS for page in sorted(tree.glob(pattern)))


def pictures_without_text(page: str) -> list[str]:
    """The pictures of a page (its Markdown) that say nothing to people who do not see them."""
    return [
        match[0]
        for match in _PICTURE.finditer(_FENCED.sub("", page))
        if not ((match[1] or "").strip() or re.search(r"\balt=[\"'][^\"']", match[0]))
    ]


def _from_top(link: str) -> str:
    """A link of the front page, as seen from the top of the repository."""
    if urlsplit(link).scheme:
        return link
    return link.removeprefix("../../") if link.startswith("../../") else f"docs/{link.removeprefix('../')}"


def _outside_of_code(text: str, page: Path, shown: set[Path]) -> str:
    """``text`` with links to files changed into links to their pages, which are added to ``shown``."""

    def changed(link: re.Match[str]) -> str:
        parts = urlsplit(link[0])
        file = (page.parent / parts.path).resolve()
        if parts.scheme or not file.is_file() or file.suffix in {".md", ".svg", ".png"}:
            return link[0]
        shown.add(file)
        return f"{parts.path}.md"

    ends = [0, *(end for block in _FENCED.finditer(text) for end in block.span()), len(text)]
    pieces = (text[start:end] for start, end in pairwise(ends))
    return "".join(_LINK.sub(changed, piece) if index % 2 == 0 else piece for index, piece in enumerate(pieces))


def _page_of_file(file: Path, tree: Path) -> str:
    language = _LANGUAGES.get(file.suffix, "text")
    # Longer than any fence inside of the file.
    fence = "`" * 8
    text = file.read_text().rstrip("\n")
    name = file.relative_to(tree.resolve())
    # Nothing leads here but links, and a search finds the page that explains it first.
    return f"---\norphan: true\nnosearch: true\n---\n# `{name}`\n\n{fence}{language}\n{text}\n{fence}\n"
