"""What a table shows, before it is laid out: for the columns of a terminal, or as a page."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from rich.console import Group

from zoneward.report.html import DARK_STYLE, Content, Markup, name, page, table, tag
from zoneward.report.terminal_text import StyledText, align_columns

_STYLE: Final = """
:root { --good: #116329; --middling: #7d4e00; --bad: #a40e26; }
@media screen and (prefers-color-scheme: dark) { :root { --good: #56d364; --middling: #e3b341; --bad: #ff8e86; } }
main { max-width: 1500px; }
.bold { font-weight: 700; }
.dim { color: var(--soft); }
.green { color: var(--good); }
.yellow { color: var(--middling); }
.red { color: var(--bad); }
.parts td:last-child { white-space: normal; min-width: 15rem; max-width: 34rem; overflow-wrap: anywhere; }
.parts th, .parts td { padding-left: 7px; padding-right: 7px; }
.parts tr th:first-child { padding-left: 0; min-width: 11rem; overflow-wrap: anywhere; }
@media (max-width: 560px) { .parts tr th:first-child { min-width: 6rem; max-width: 8rem; } }
ul.notes { margin: 1rem 0 0; padding-left: 1.2rem; max-width: 60rem; font-size: .92em; color: var(--soft); }
"""
_CLASSES: Final = frozenset(("bold", "dim", "green", "yellow", "red"))


@dataclass(frozen=True, slots=True)
class TableParts:
    """A table with the lines above and below it. Columns of ``right`` hold numbers.

    ``is_grouped``: a row without a name in the first column belongs to the last one that has one.
    """

    above: tuple[StyledText, ...]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[StyledText]]
    right: Collection[str]
    below: StyledText
    is_grouped: bool = False

    def for_terminal(self, width: int) -> Group:
        """Laid out in ``width`` columns."""
        return Group(*self.above, align_columns(self.columns, self.rows, right=self.right, width=width), self.below)

    def as_page(self, title: str, *, made_by: str) -> str:
        """An HTML page with everything in it: it needs no script and no network. ``made_by`` is the command."""
        columns = self.columns[1:] if self.is_grouped else self.columns
        bodies = self._grouped_rows() if self.is_grouped else [map(_row, self.rows)]
        left = "".join(
            f".parts tr :nth-child({place}) {{ text-align: left; }}\n"
            for place, column in enumerate(columns, start=1)
            if column not in self.right
        )
        return page(
            title,
            tag("h1", title),
            *(tag("p", styled(line)) for text in self.above for line in text.split("\n")),
            table(columns, bodies, label=title, class_="parts"),
            tag("ul", *(tag("li", styled(line)) for line in self.below.split("\n")), class_="notes"),
            tag("footer", "Made by ", tag("code", made_by), ". For programs: ", tag("code", "-o json"), "."),
            style=f"{DARK_STYLE}{_STYLE}{left}",
        )

    def _grouped_rows(self) -> Iterator[list[Markup]]:
        number = 0

        def group(cells: Sequence[StyledText]) -> int:
            nonlocal number
            number += bool(cells[0].plain)
            return number

        for _, rows in groupby(self.rows, group):
            members = list(rows)
            width = str(len(self.columns) - 1)
            title = tag("th", tag("bdi", members[0][0].plain), colspan=width, scope="rowgroup")
            yield [tag("tr", title), *(_row(cells[1:]) for cells in members)]


def _row(cells: Sequence[StyledText]) -> Markup:
    first, *others = cells
    written = (tag("td", styled(each)) for each in others)
    return tag("tr", tag("th", styled(first, as_content=name), scope="row"), *written)


def styled(text: StyledText, *, as_content: Callable[[str], Content] = str) -> Markup:
    """Text as HTML, each run of a style in an element of its class."""
    ends = sorted({0, len(text.plain), *(place for span in text.spans for place in (span.start, span.end))})
    parts = []
    for start, end in pairwise(ends):
        styles = [str(text.style), *(str(each.style) for each in text.spans if each.start <= start and end <= each.end)]
        # The last one wins, as on a terminal; "default" is none.
        style = next((each for each in reversed(styles) if each in _CLASSES or each == "default"), "default")
        part = as_content(text.plain[start:end])
        parts.append(part if style == "default" else tag("span", part, class_=style))
    return tag("bdi", *parts)
