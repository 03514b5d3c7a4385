"""Text for terminals: single cells, aligned columns, whole tables. Nothing in it steers a terminal."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, Final

import rich.text
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Span

from zoneward.kube.safe_text import printable

StyledText = rich.text.Text
"""Also the result of cutting, splitting or joining a `Text`."""
_SHORTEST_REASON, _LEAST_REASON = 24, 12
"""Columns for the reason: names are shortened to keep the first; with less than the second it moves below."""
_FEW_LINES: Final = 2
_SHORTEST_NAME: Final = 16
_INDENT: Final = "    "
_WRAPPING: Final = Console(width=80)
"""rich needs a console to wrap; each call passes its width."""
MOST_IN_ZONE: Final = 0.9
HALF_IN_ZONE: Final = 0.5
_LINE_END: Final = rich.text.Text("\n", no_wrap=True)


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a screen is drawn for: columns, lines, and whether it shows colours."""

    width: int
    height: int
    color: bool


class Text(rich.text.Text):
    """Text in one line in which every character is visible."""

    def __init__(self, text: str = "", style: str = "", **options: Any) -> None:
        super().__init__(printable(text), style, **options)

    def append(self, text: "rich.text.Text | str", style: Any = None) -> "Text":
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


def whole_percent(share: float, *, plus: bool = True) -> str:
    """``+12%``, or ``12%`` without ``plus``. A tiny decrease is no ``-0%``: ``+ 0.0`` turns its -0.0 into 0.0."""
    return f"{round(share, 2) + 0.0:{'+' if plus else ''}.0%}"


SHARE_COLORS: Final = f"IN ZONE green from {MOST_IN_ZONE:.0%}, yellow from {HALF_IN_ZONE:.0%}"
"""What `share_style` means, for a legend."""


def share_style(share: float | None) -> str:
    """Of a share of traffic that stays in its zone."""
    if share is None:
        return "dim"
    return "green" if share >= MOST_IN_ZONE else "yellow" if share >= HALF_IN_ZONE else "default"


def join_words(parts: Iterable[tuple[str, str]], *, between: str = ", ") -> Text:
    """Words, each with its style."""
    text = Text()
    for words, style in parts:
        text.append(between if text.plain else "", "default").append(words, style)
    return text


def join_marks(*marks: tuple[object, str, str]) -> Text:
    """The words of those marks whose first value is true, each with its style."""
    return join_words((words, style) for is_shown, words, style in marks if is_shown)


def percent(share: float | None) -> Text:
    """A share of traffic that stays in its zone."""
    return Text("-" if share is None else f"{share:.0%}", share_style(share))


def join_lines(texts: Iterable[str | StyledText], style: str = "") -> StyledText:
    """Each text on its own line."""
    return _LINE_END.join(text if isinstance(text, StyledText) else Text(text, style) for text in texts)


def join_wrapped(texts: Iterable[str | StyledText], style: str = "") -> StyledText:
    """The same, but lines that are too long continue below."""
    joined = join_lines(texts, style)
    joined.no_wrap = None
    return joined


# --- columns ----------------------------------------------------------------------------------------------------------


class TableText:
    """A table as lines of text, which knows the lines of each row."""

    def __init__(self, head: Sequence[StyledText], rows: Sequence[Sequence[StyledText]]) -> None:
        self.lines: tuple[StyledText, ...] = (*head, *chain.from_iterable(rows))
        ends = [len(head), *accumulate(map(len, rows), initial=len(head))][1:]
        self.row_lines: tuple[tuple[int, int], ...] = tuple(pairwise(ends))
        """The first line of each row, and the one after its last, counted from the head's first."""

    @property
    def text(self) -> StyledText:
        """All lines, with their styles."""
        return Text(no_wrap=True, overflow="ellipsis").append_text(join_lines(self.lines))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[StyledText]:
        yield self.text

    def mark_rows(self, rows: Iterable[int], style: str) -> StyledText:
        """The same table with these rows in a style."""
        lines = list(self.lines)
        for row in rows:
            for index in range(*self.row_lines[row]):
                lines[index] = lines[index].copy()
                lines[index].stylize(style)
        return join_lines(lines)


def align_columns(
    columns: Sequence[str],
    rows: Sequence[Sequence[StyledText]],
    *,
    right: Collection[str],
    width: int,
    cut: bool = False,
) -> TableText:
    """A table in which every column except the last is as wide as its content.

    The last one, the reason, gets the rest. Unless it may be ``cut``, long text continues below, on separate lines if
    there is hardly any room beside the other columns. If the other columns are too wide, the first ones that are not
    ``right``, the names, get a separate line.
    """
    on_right = [name in right for name in columns]
    whole = [tuple(_length(cell.plain) for cell in row) for row in rows]
    shortened, lengths = _shorten_names(rows, whole, _room_for_names(columns, whole, width))
    *widths, last = _widths(columns, lengths)
    # A last column of numbers needs its whole width, words need little: names are stacked to get it.
    needed = last if on_right[-1] else min(last, _LEAST_REASON)
    stacked, left = 0, next((index for index, is_right in enumerate(on_right) if is_right), 1)
    while sum(widths) + 2 * len(widths) + needed > width and stacked < left:
        widths = [0, *widths[1 if stacked == 0 else 2 :]]
        stacked += 1
        needed = needed if on_right[-1] else -2
    shown = zip(rows, whole, strict=True) if stacked else zip(shortened, lengths, strict=True)
    room = max(width - sum(widths) - 2 * len(widths), _LEAST_REASON if cut else 0)
    widths.append(last if on_right[-1] else min(room, max(last, _LEAST_REASON)))
    layout = _Layout(
        tuple(widths), tuple(on_right[max(stacked - 1, 0) :]), width, stacked=stacked, cut=cut or on_right[-1]
    )
    head = layout.lines([Text(name, "bold") for name in columns], list(map(cell_len, columns)))
    rule = Text("─" * min(max(line.cell_len for line in head), width))
    return TableText([*head, rule], [layout.lines(row, taken) for row, taken in shown])


def _length(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _widths(columns: Sequence[str], lengths: Iterable[Sequence[int]]) -> list[int]:
    longest = [max(column) for column in zip(*set(map(tuple, lengths)), strict=True)] or [0] * len(columns)
    return [max(cell_len(name), length) for name, length in zip(columns, longest, strict=True)]


def _room_for_names(columns: Sequence[str], lengths: Iterable[Sequence[int]], width: int) -> int:
    """Columns that the first cells may take so that the numbers beside them have room."""
    beside = sum(column_width + 2 for column_width in _widths(columns, lengths)[1:-1])
    return max(width - beside - _SHORTEST_REASON - 2, _SHORTEST_NAME)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the cells of a row become lines. The first ``stacked`` cells have a separate line."""

    widths: tuple[int, ...]
    on_right: tuple[bool, ...]
    width: int
    stacked: int
    cut: bool

    def lines(self, cells: Sequence[StyledText], lengths: Sequence[int]) -> list[StyledText]:
        """Much faster than a table of rich for thousands of rows.

        ``lengths`` are the columns that the cells take. The cells are not changed: rows may share them.
        """
        above = []
        if self.stacked:
            names = [cell for cell, length in zip(cells[: self.stacked], lengths, strict=False) if length]
            above = [Text("  ").join(names)] if names else []
            cells, lengths = [Text(), *cells[self.stacked :]], [0, *lengths[self.stacked :]]
        last, room = cells[-1], self.widths[-1]
        if self.cut or lengths[-1] <= room:
            return [*above, self._join(cells, lengths)]
        beside = last.wrap(_WRAPPING, room) if room >= _LEAST_REASON else ()
        if beside and (room >= _SHORTEST_REASON or len(beside) <= _FEW_LINES):
            first, *rest = beside
            indent = " " * (sum(self.widths[:-1]) + 2 * (len(self.widths) - 1))
            line = self._join([*cells[:-1], first], [*lengths[:-1], first.cell_len])
            return [*above, line, *(Text(indent).append_text(line_below) for line_below in rest)]
        below = last.wrap(_WRAPPING, max(self.width - len(_INDENT), 1))
        line = self._join([*cells[:-1], Text()], [*lengths[:-1], 0])
        return [*above, line, *(Text(_INDENT).append_text(line_below) for line_below in below)]

    def _join(self, cells: Sequence[StyledText], lengths: Sequence[int]) -> StyledText:
        parts: list[str] = []
        spans: list[Span] = []
        position = 0
        # A last column without any width would still have the blanks before it.
        shown = len(cells) if self.widths[-1] else len(cells) - 1
        for column in range(shown):
            part, styles = self._in_column(column, cells[column], lengths[column])
            parts.append(part)
            for start, end, style in styles:
                spans.append(Span(start + position, end + position, style))
            position += len(part)
        return StyledText("".join(parts), no_wrap=True, overflow="ellipsis", spans=spans)

    def _in_column(self, column: int, cell: StyledText, length: int) -> tuple[str, list[Span]]:
        """A cell as wide as its column, after two blanks where another one is before it; and its styles there."""
        width = self.widths[column]
        if length > width:
            cell = cell.copy()
            cell.truncate(width, overflow="ellipsis")
            length = cell.cell_len
        gap, room, text, right = "  " if column else "", " " * (width - length), cell.plain, self.on_right[column]
        start = len(gap) + len(room) if right else len(gap)
        styles = [Span(start, start + len(text), cell.style)] if cell.style else []
        styles += (Span(span.start + start, span.end + start, span.style) for span in cell.spans)
        return f"{gap}{room}{text}" if right else f"{gap}{text}{room}", styles


def _shorten_names(
    rows: Sequence[Sequence[StyledText]], lengths: Sequence[Sequence[int]], most: int
) -> tuple[list[Sequence[StyledText]], list[Sequence[int]]]:
    """Rows, and the lengths of their cells, with names of more than ``most`` columns cut in their middle, except names
    that would be the same then.
    """
    shortened, measured = list(rows), list(lengths)
    half = (most - 1) // 2
    cuts = {
        index: f"{rows[index][0].plain[: most - 1 - half]}…{rows[index][0].plain[-half:]}"
        for index, taken in enumerate(lengths)
        if taken[0] > most
    }
    names_of: dict[str, set[str]] = {}
    for index, text in cuts.items():
        names_of.setdefault(text, set()).add(rows[index][0].plain)
    for index, text in cuts.items():
        if len(names_of[text]) == 1:
            (_, *rest), (_, *others) = rows[index], lengths[index]
            cut = Text(text)
            shortened[index], measured[index] = [cut, *rest], (cut.cell_len, *others)
    return shortened, measured


# --- from text to characters ------------------------------------------------------------------------------------------


def render_text(table: RenderableType, *, color: bool, width: int, crop: bool = True) -> str:
    """Text of a table or of parts. ``width`` in columns; without ``crop``, lines that must not wrap may be longer."""
    if isinstance(table, TableText):
        table = table.text
    elif (
        not color
        and isinstance(table, Group)
        and any(isinstance(renderable, TableText) for renderable in table.renderables)
    ):
        return "".join(
            _plain_lines(renderable, width)
            if isinstance(renderable, TableText)
            else _printed(Group(renderable), False, width, crop)
            for renderable in table.renderables
        )
    return _printed(table, color, width, crop)


def _printed(what: RenderableType, color: bool, width: int, crop: bool) -> str:
    console = Console(width=width, force_terminal=color, no_color=not color, color_system="standard" if color else None)
    with console.capture() as captured:
        console.print(what, crop=crop)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _plain_lines(table: TableText, width: int) -> str:
    """The same for a table without colour, fast enough for a hundred thousand lines."""
    lines = []
    for line in table.lines:
        text = line.plain.rstrip()
        lines.append(f"{set_cell_size(text, width - 1)}…\n" if _length(text) > width else f"{text}\n")
    return "".join(lines)


def render_lines(what: RenderableType, terminal: Terminal) -> list[str]:
    """Lines for a screen. Without colour it still shows what is bold, dim or in reverse."""
    console = Console(width=terminal.width, force_terminal=True, no_color=not terminal.color, color_system="standard")
    is_table = isinstance(what, StyledText) and what.no_wrap is True
    with console.capture() as captured:
        console.print(what, no_wrap=is_table or None, overflow="ellipsis" if is_table else None, highlight=False)
    return captured.get().splitlines()
