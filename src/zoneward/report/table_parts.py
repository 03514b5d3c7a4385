"""What a table shows, before it is laid out: for the columns of a terminal, or as a page."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rich.console import Group

from zoneward.report.html import (
    DARK_STYLE,
    Content,
    Markup,
    Source,
    footer,
    joined,
    name,
    page,
    table,
    table_with_header,
    tag,
)
from zoneward.report.terminal_text import StyledText, TableText, align_columns

TEXT_STYLE: Final = """
:root { --good: #116329; --middling: #7d4e00; --bad: #a40e26; }
@media screen and (prefers-color-scheme: dark) { :root { --good: #56d364; --middling: #e3b341; --bad: #ff8e86; } }
.bold { font-weight: 700; }
.dim { color: var(--soft); }
.green { color: var(--good); }
.yellow { color: var(--middling); }
.red { color: var(--bad); }
th.words, td.words { text-align: left; }
td.words:last-child { white-space: normal; overflow-wrap: anywhere; }
"""
"""For a page that shows a `Table`, or text with a style."""
NOTES_STYLE: Final = """
ul.notes { margin: 1rem 0 0; padding-left: 1.2rem; max-width: 60rem; font-size: .92em; color: var(--soft); }
"""
"""Of the list below a table."""
SEARCH_STYLE: Final = """
p.search { margin: .8rem 0; display: flex; flex-wrap: wrap; gap: .3rem .7rem; align-items: center; }
p.search[hidden] { display: none; }
input, select { font: inherit; color: var(--ink); background: var(--tint); border: 1px solid #768390;
  border-radius: 6px; padding: .3rem .6rem; max-width: 100%; }
input { width: 22rem; }
"""
"""Of `search_field`."""
SEARCH_SCRIPT: Final = """
function offerSearch(rows, textOf, what) {
  const field = document.getElementById("search");
  const others = document.querySelector("details.others");
  function filter() {
    const words = field.value.toLowerCase().split(" ").filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = textOf(row).toLowerCase();
      row.hidden = !words.every(function (word) { return text.includes(word); });
      count += row.hidden ? 0 : 1;
    }
    if (others) { others.open = words.length !== 0; }
    document.getElementById("found").textContent = count + " of " + rows.length + what;
  }
  field.addEventListener("input", filter);
  field.parentElement.hidden = false;
  filter();
}
function arrange(sorted, parents, sizes) {
  let next = 0;
  parents.forEach(function (parent, index) {
    parent.append.apply(parent, sorted.slice(next, next += sizes[index]));
  });
}
"""
"""Hides the rows that do not match, and orders rows across several parents, which keep their sizes. For all pages."""


def search_field(*more: Content, placeholder: str = "") -> Markup:
    """A field that the script shows: without it there is no search. ``more`` is shown beside it."""
    hint = {"placeholder": placeholder} if placeholder else {}
    return tag(
        "p",
        tag("label", "Search", for_="search"),
        tag("input", id="search", type="search", autocomplete="off", **hint),
        *more,
        tag("output", id="found", for_="search"),
        class_="search",
        hidden="hidden",
    )


# Bodies of tables are what is found and ordered: groups, or single rows, to which the rows of a total do not belong.
_SCRIPT: Final = """
const tables = Array.from(document.querySelectorAll("table.parts"));
const grouped = document.querySelector("table.parts th[colspan]") !== null;
function rowsOf(table) {
  return Array.from(table.tBodies).filter(function (body) { return grouped || body.rows.length === 1; });
}
const rows = tables.flatMap(rowsOf);
const sizes = tables.map(function (table) { return rowsOf(table).length; });
function textOf(cell) {
  const shown = Array.from(cell.childNodes).filter(function (node) { return node.nodeName !== "DETAILS"; });
  return shown.map(function (node) { return node.textContent; }).join("").trim();
}
function textOfRow(row) {
  return Array.from(row.rows).flatMap(function (line) { return Array.from(line.cells); }).map(textOf).join(" ");
}
function valueOf(row, column) {
  const text = textOf(row.rows[0].cells[column]);
  const number = parseFloat(text.split("\\u003e").pop().replace(/,/g, ""));
  return { text: text, number: Number.isNaN(number) ? null : number };
}
function order(column, upwards) {
  const sorted = rows.slice().sort(function (one, other) {
    const a = valueOf(one, column), b = valueOf(other, column);
    if (a.number !== null || b.number !== null) {
      if (a.number === null || b.number === null) { return a.number === null ? 1 : -1; }
      return upwards ? a.number - b.number : b.number - a.number;
    }
    return upwards ? a.text.localeCompare(b.text) : b.text.localeCompare(a.text);
  });
  arrange(sorted, tables, sizes);
}
if (!grouped) {
  for (const table of tables) {
    Array.from(table.tHead.rows[0].cells).forEach(function (cell, column) {
      if (!cell.textContent.trim()) { return; }
      const button = document.createElement("button");
      button.type = "button";
      button.className = "order";
      button.append.apply(button, Array.from(cell.childNodes));
      cell.append(button);
      button.addEventListener("click", function () {
        const upwards = cell.getAttribute("aria-sort") !== "ascending";
        for (const other of document.querySelectorAll("th[aria-sort]")) { other.removeAttribute("aria-sort"); }
        cell.setAttribute("aria-sort", upwards ? "ascending" : "descending");
        order(column, upwards);
      });
    });
  }
}
offerSearch(rows, textOfRow, "");
"""
_STYLE: Final = """
main { max-width: 1500px; }
.parts tbody[hidden] { display: none; }
.parts details { margin: 0; font-size: 14px; }
.parts details ul { margin: .2rem 0 .4rem; padding-left: 1.1rem; }
button.order { font: inherit; font-weight: 700; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; text-align: inherit; }
th[aria-sort=ascending] button::after { content: " \\25B4"; }
th[aria-sort=descending] button::after { content: " \\25BE"; }
.parts td:last-child { white-space: normal; min-width: 15rem; max-width: 34rem; overflow-wrap: anywhere; }
.parts th, .parts td { padding-left: 7px; padding-right: 7px; }
.parts tr th:first-child { padding-left: 0; min-width: 11rem; overflow-wrap: anywhere; }
@media (max-width: 560px) { .parts tr th:first-child { min-width: 6rem; max-width: 8rem; } }
.parts .wide { display: inline-block; }
.part { content-visibility: auto; }
"""
_ROWS: Final = 90
"""Of one table of a page, or a few more where a group has them."""
_ROW_HEIGHT: Final = 31
"""Pixels: what a row takes that nobody has seen yet."""
_LETTER: Final = 0.85
_CLASSES: Final = frozenset(("bold", "dim", "green", "yellow", "red"))


@dataclass(frozen=True, slots=True)
class Table:
    """A small table. Columns of ``right`` hold numbers. ``units``: columns whose names are always in capitals."""

    columns: Sequence[str]
    rows: Sequence[Sequence[StyledText]]
    right: Collection[str]
    units: Collection[str] = ()

    def for_terminal(self, width: int) -> TableText:
        """Laid out in ``width`` columns."""
        return align_columns(self.columns, self.rows, right=self.right, width=width)

    def as_element(self, label: str) -> Markup:
        """A table of a page that has `TEXT_STYLE`."""
        classes: list[dict[str, str]] = [{} if column in self.right else {"class_": "words"} for column in self.columns]
        head = (
            tag("th", column if column in self.units else column.lower(), scope="col", **of_cell)
            for column, of_cell in zip(self.columns, classes, strict=True)
        )
        rows = (
            tag(
                "tr",
                tag("th", styled(cells[0], as_content=name), scope="row"),
                *(tag("td", styled(cell), **of_cell) for cell, of_cell in zip(cells[1:], classes[1:], strict=True)),
            )
            for cells in self.rows
        )
        return table_with_header(head, [rows], label=label)


@dataclass(frozen=True, slots=True)
class TableParts:
    """A table with the lines above and below it. Columns of ``right`` hold numbers.

    ``is_grouped``: a row without a name in the first column belongs to the last one that has one. ``details``: what a
    page shows folded in each row, None for nothing; empty where no row has any.
    """

    above: tuple[StyledText, ...]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[StyledText]]
    right: Collection[str]
    below: StyledText
    is_grouped: bool = False
    details: Sequence[Markup | None] = ()

    def for_terminal(self, width: int) -> Group:
        """Laid out in ``width`` columns."""
        return Group(*self.above, align_columns(self.columns, self.rows, right=self.right, width=width), self.below)

    def as_page(self, title: str, *, made_by: str, source: Source, facts: Sequence[Markup] = ()) -> str:
        """An HTML page with everything in it: it needs no network, and without its script only search and order are
        missing. ``made_by`` is the command, ``facts`` the figures that come first.
        """
        columns = self.columns[1:] if self.is_grouped else self.columns
        left = "".join(
            f".parts th:nth-child({position}), .parts td:nth-child({position}) {{ text-align: left; }}\n"
            for position, column in enumerate(columns, start=1)
            if column not in self.right
        )
        return page(
            title,
            tag("h1", title),
            source.heading(),
            *([tag("dl", *facts, class_="facts large")] if facts else []),
            *(tag("p", styled(line)) for text in self.above for line in text.split("\n")),
            *([search_field()] if self.rows else []),
            *self._folded_tables(title),
            tag("ul", *(tag("li", styled(line)) for line in self.below.split("\n")), class_="notes"),
            footer(made_by),
            style=f"{DARK_STYLE}{TEXT_STYLE}{SEARCH_STYLE}{NOTES_STYLE}{_STYLE}{left}",
            script=SEARCH_SCRIPT + _SCRIPT if self.rows else "",
        )

    def _folded_tables(self, title: str) -> Iterator[Markup]:
        parts = self._parts()
        first, *others = self._tables(title, parts)
        yield first
        if others:
            left = sum(map(len, parts[1:]))
            yield tag("details", tag("summary", f"{left:,} more"), *others, class_="others")

    def _parts(self) -> list[list[list[Markup]]]:
        part: list[list[Markup]] = []
        parts = [part]
        rows = 0
        for group in self._groups():
            if rows >= _ROWS:
                parts.append(part := [])
                rows = 0
            part.append(group)
            rows += len(group)
        return parts

    def _tables(self, title: str, parts: Sequence[Sequence[list[Markup]]]) -> Iterator[Markup]:
        """One below the other: browsers lay out a long one for seconds, and of many only those that are in view."""
        head = self._head()
        for index, part in enumerate(parts, start=1):
            label = title if len(parts) == 1 else f"{title}, part {index} of {len(parts)}"
            height = _ROW_HEIGHT * sum(map(len, part))
            yield tag(
                "div",
                table(head, part, label=label, class_="parts"),
                class_="part",
                style=f"contain-intrinsic-size: auto {height}px",
            )

    def _groups(self) -> list[list[Markup]]:
        if self.is_grouped:
            return list(self._grouped_rows())
        groups: list[list[Markup]] = []
        for cells, details in zip(self.rows, self.details or [None] * len(self.rows), strict=True):
            if cells[0].plain or not groups:
                groups.append([])
            groups[-1].append(_row(cells, details))
        return groups

    def _head(self) -> list[Markup]:
        """Columns are as wide as their longest cell anywhere, but the first and the last, so that tables are alike."""
        skipped = int(self.is_grouped)
        last = len(self.columns) - 1
        return [
            tag("span", column, class_="wide", style=f"min-width: {self._width(index)}ch")
            if skipped < index < last and len(self.rows) > _ROWS
            else tag("span", column)
            for index, column in enumerate(self.columns)
            if index >= skipped
        ]

    def _width(self, column: int) -> int:
        """In digits: letters are narrower on the mean."""
        longest = max(row[column].cell_len for row in self.rows)
        return longest if self.columns[column] in self.right else round(longest * _LETTER)

    def _grouped_rows(self) -> Iterator[list[Markup]]:
        groups: list[list[Sequence[StyledText]]] = []
        for cells in self.rows:
            if cells[0].plain:
                groups.append([])
            groups[-1].append(cells)
        width = str(len(self.columns) - 1)
        for members in groups:
            title = tag("th", tag("bdi", members[0][0].plain), colspan=width, scope="rowgroup")
            yield [tag("tr", title), *(_row(cells[1:]) for cells in members)]


def folded(title: str, lines: Iterable[str]) -> Markup:
    """Lines that a reader unfolds."""
    return tag("details", tag("summary", title), tag("ul", *(tag("li", line) for line in lines)))


def _row(cells: Sequence[StyledText], details: Markup | None = None) -> Markup:
    first, *others, last = cells
    written = (tag("td", styled(other)) for other in others)
    more = () if details is None else (details,)
    return tag("tr", tag("th", styled(first, as_content=name), scope="row"), *written, tag("td", styled(last), *more))


def styled(text: StyledText, *, as_content: Callable[[str], Content] = str) -> Markup:
    """Text as HTML, each run of a style in an element of its class."""
    ends = sorted({0, len(text.plain), *(position for span in text.spans for position in (span.start, span.end))})
    parts = []
    for start, end in pairwise(ends):
        styles = [str(text.style), *(str(span.style) for span in text.spans if span.start <= start and end <= span.end)]
        # The last one wins, as on a terminal; "default" is none.
        style = next((style for style in reversed(styles) if style in _CLASSES or style == "default"), "default")
        part = as_content(text.plain[start:end])
        parts.append(part if style == "default" else tag("span", part, class_=style))
    # Elements are what takes browsers time: numbers and plain words need none.
    return joined(parts) if text.plain.isascii() else tag("bdi", *parts)
