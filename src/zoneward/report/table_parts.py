"""What a table shows, before it is laid out: for the columns of a terminal, or as a page."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rich.console import Group

from zoneward.report.html import DARK_STYLE, Content, Markup, Source, footer, joined, name, page, tag
from zoneward.report.terminal_text import StyledText, TableText, align_columns

TEXT_STYLE: Final = """
:root { --good: #116329; --middling: #7d4e00; --bad: #a40e26; }
@media screen and (prefers-color-scheme: dark) { :root { --good: #56d364; --middling: #e3b341; --bad: #ff8e86; } }
.bold { font-weight: 700; }
.dim { color: var(--soft); }
.small { display: block; font-size: 12px; line-height: 16px; color: var(--soft); }
.green { color: var(--good); }
.yellow { color: var(--middling); }
.red { color: var(--bad); }
.code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
th.words, td.words { text-align: left; }
td.words:last-child { white-space: normal; overflow-wrap: anywhere; min-width: 10rem; max-width: 34rem; }
ul.notes { margin: 1rem 0 0; padding-left: 1.2rem; max-width: 60rem; font-size: .92em; color: var(--soft); }
"""
"""For a page that shows a `Table`, or text with a style."""
# Bodies of tables are found and ordered: groups, or single rows, perhaps with details below them, but no totals.
PARTS_SCRIPT: Final = """
const tables = Array.from(document.querySelectorAll("table.parts"));
const grouped = document.querySelector("table.parts th[colspan]") !== null;
function rowsOf(table) {
  return Array.from(table.tBodies).filter(function (body) {
    return grouped || body.rows.length === 1 || body.rows[1].cells.length === 1;
  });
}
const rows = tables.flatMap(rowsOf);
const sizes = tables.map(function (table) { return rowsOf(table).length; });
function textOfRow(row) {
  const lines = Array.from(row.rows).slice(0, grouped ? row.rows.length : 1);
  return lines.map(function (line) { return line.textContent; }).join(" ");
}
function valueOf(row, column) {
  const text = row.rows[0].cells[column].textContent.trim();
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
  let next = 0;
  tables.forEach(function (table, index) { table.append.apply(table, sorted.slice(next, next += sizes[index])); });
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
const field = document.getElementById("search");
const others = document.querySelector("details.others");
function filter() {
  const words = field.value.toLowerCase().split(" ").filter(Boolean);
  let count = 0;
  for (const row of rows) {
    const text = textOfRow(row).toLowerCase();
    row.hidden = !words.every(function (word) { return text.includes(word); });
    count += row.hidden ? 0 : 1;
  }
  if (others) { others.open = words.length !== 0; }
  document.getElementById("found").textContent = count + " of " + rows.length;
}
field.addEventListener("input", filter);
field.parentElement.hidden = false;
filter();
"""
"""Hides rows that do not match, and orders rows across all tables, which keep their sizes."""
PARTS_STYLE: Final = (
    TEXT_STYLE
    + """
p.search { margin: .8rem 0; display: flex; flex-wrap: wrap; gap: .3rem .7rem; align-items: center; }
p.search[hidden] { display: none; }
input { font: inherit; color: var(--ink); background: var(--tint); border: 1px solid #768390; border-radius: 6px;
  padding: .3rem .6rem; max-width: 100%; width: 22rem; }
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
.parts thead th, .parts thead td { font-weight: 700; border-bottom: 2px solid var(--ink); }
.parts td.details { padding: 0 0 4px; text-align: left; max-width: none; }
.parts tr:has(+ tr td.details) th, .parts tr:has(+ tr td.details) td { border-bottom: 0; }
.part { content-visibility: auto; }
"""
)
"""Of a page with `TableParts.as_elements`."""
_ROWS: Final = 90
"""Of one table of a page, or a few more where a group has them."""
_ROW_HEIGHT: Final = 31
"""Pixels: what a row takes that nobody has seen yet."""
_LETTER: Final = 0.85
_CLASSES: Final = frozenset(("bold", "dim", "green", "yellow", "red", "small", "code"))


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
        classes = _classes(self.columns, self.right)
        names = [name(column if column in self.units else column.lower()) for column in self.columns]
        return _element(names, [[_row(cells, classes) for cells in self.rows]], classes, label=label)


@dataclass(frozen=True, slots=True)
class TableParts:
    """A table with the lines above and below it. Columns of ``right`` hold numbers.

    ``is_grouped``: a row without a name in the first column belongs to the last one that has one. ``details``: what a
    page shows folded below each row, None for nothing; empty where no row has any.
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
        return page(
            title,
            tag("h1", title),
            source.heading(),
            *([tag("dl", *facts, class_="facts large")] if facts else []),
            *(tag("p", styled(line)) for text in self.above for line in text.split("\n")),
            *self.as_elements(title),
            self.notes(),
            footer(made_by),
            style=f"{DARK_STYLE}{PARTS_STYLE}",
            script=PARTS_SCRIPT if self.rows else "",
        )

    def as_elements(self, title: str) -> Iterator[Markup]:
        """The table with its search, of a page that has `PARTS_STYLE` and `PARTS_SCRIPT`."""
        if self.rows:
            yield tag(
                "p",
                tag("label", "Search", for_="search"),
                tag("input", id="search", type="search", autocomplete="off"),
                tag("output", id="found", for_="search"),
                class_="search",
                hidden="hidden",
            )
        parts = self._parts()
        first, *others = self._tables(title, parts)
        yield first
        if others:
            left = sum(map(len, parts[1:]))
            yield tag("details", tag("summary", f"{left:,} more"), *others, class_="others")

    def notes(self) -> Markup:
        """The lines below the table, as a list."""
        return tag("ul", *(tag("li", styled(line)) for line in self.below.split("\n")), class_="notes")

    def _parts(self) -> list[list[list[Markup]]]:
        part: list[list[Markup]] = []
        parts = [part]
        rows = 0
        for group in self._groups():
            if rows >= _ROWS:
                parts.append(part := [])
                rows = 0
            part.append(group)
            rows += 1 if self.details else len(group)
        return parts

    def _tables(self, title: str, parts: Sequence[Sequence[list[Markup]]]) -> Iterator[Markup]:
        """One below the other: browsers lay out a long one for seconds, and of many only those that are in view."""
        skipped = int(self.is_grouped)
        head, classes = self._head()[skipped:], _classes(self.columns, self.right)[skipped:]
        for index, part in enumerate(parts, start=1):
            label = title if len(parts) == 1 else f"{title}, part {index} of {len(parts)}"
            height = _ROW_HEIGHT * sum(map(len, part))
            element = _element(head, part, classes, label=label, class_="parts")
            yield tag("div", element, class_="part", style=f"contain-intrinsic-size: auto {height}px")

    def _groups(self) -> list[list[Markup]]:
        skipped, width = int(self.is_grouped), str(len(self.columns))
        classes = _classes(self.columns, self.right)[skipped:]
        groups: list[list[Markup]] = []
        for cells, details in zip(self.rows, self.details or [None] * len(self.rows), strict=True):
            if cells[0].plain or not groups:
                groups.append([])
                if self.is_grouped:
                    title = tag("th", tag("bdi", cells[0].plain), colspan=width, scope="rowgroup")
                    groups[-1].append(tag("tr", title))
            groups[-1].append(_row(cells[skipped:], classes))
            if details is not None:
                groups[-1].append(tag("tr", tag("td", details, colspan=width, class_="details")))
        return groups

    def _head(self) -> list[Content]:
        """Columns are as wide as their longest cell anywhere, but the first and the last, so that tables are alike."""
        first, last = int(self.is_grouped), len(self.columns) - 1
        return [
            tag("span", column, class_="wide", style=f"min-width: {self._width(index)}ch")
            if first < index < last and len(self.rows) > _ROWS
            else column
            for index, column in enumerate(self.columns)
        ]

    def _width(self, column: int) -> int:
        """In digits: letters are narrower on the mean."""
        longest = max(row[column].cell_len for row in self.rows)
        return longest if self.columns[column] in self.right else round(longest * _LETTER)


def folded(title: str, lines: Iterable[str]) -> Markup:
    """Lines that a reader unfolds."""
    return tag("details", tag("summary", title), tag("ul", *(tag("li", line) for line in lines)))


def _classes(columns: Sequence[str], right: Collection[str]) -> list[dict[str, str]]:
    return [{} if column in right else {"class_": "words"} for column in columns]


def _element(
    head: Iterable[Content],
    groups: Iterable[Iterable[Markup]],
    classes: Sequence[dict[str, str]],
    *,
    label: str,
    class_: str = "plain",
) -> Markup:
    """A table that scrolls sideways if there is no room for it; ``groups`` are whole rows."""
    header = [
        tag("th", title, scope="col", **of_cell) if title else tag("td")
        for title, of_cell in zip(head, classes, strict=True)
    ]
    body = (tag("tbody", *rows) for rows in groups)
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", *header)), *body, class_=class_),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=label,
    )


def _row(cells: Sequence[StyledText], classes: Sequence[dict[str, str]]) -> Markup:
    """Its first cell is its header."""
    first, *others = cells
    header = tag("th", styled(first, as_content=name), scope="row") if first.plain else tag("td")
    written = (tag("td", styled(cell), **of_cell) for cell, of_cell in zip(others, classes[1:], strict=True))
    return tag("tr", header, *written)


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
