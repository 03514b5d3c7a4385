"""Text for terminals: single cells, aligned columns, whole tables. Nothing in it steers a terminal."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import rich.text
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Span

from zoneward.kube.safe_text import printable

StyledText = rich.text.Text
"""Also what comes of a `Text` that is cut, split or joined."""
_SHORTEST_REASON, _LEAST_REASON = 24, 12
"""Columns for the reason: what names give way for, and what it has in any case."""
_SHORTEST_NAME: Final = 16
_LINE_END: Final = rich.text.Text("\n", no_wrap=True)


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a screen is drawn for: columns, lines, and whether it shows colours."""

    width: int
    height: int
    color: bool


class Text(rich.text.Text):
    """Text in one line, of which every character can be seen, whatever it is made of."""

    def __init__(self, text: str = "", style: str = "", **options: Any) -> None:
        super().__init__(printable(text), style, **options)

    def append(self, text: "rich.text.Text | str", style: Any = None) -> "Text":
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


def join_lines(texts: Iterable[str | StyledText], style: str = "") -> StyledText:
    """Each in a line of its own."""
    return _LINE_END.join(each if isinstance(each, StyledText) else Text(each, style) for each in texts)


def join_wrapped(texts: Iterable[str], style: str = "") -> StyledText:
    """The same, but lines that are too long continue below."""
    joined = join_lines(texts, style)
    joined.no_wrap = None
    return joined


# --- columns ----------------------------------------------------------------------------------------------------------


def align_columns(
    columns: Sequence[str],
    rows: Sequence[Sequence[StyledText]],
    *,
    right: Collection[str],
    width: int,
    whole: bool = False,
) -> RenderableType:
    """A table in which every column but the last is as wide as it needs to be.

    The last one takes the rest: it is cut, or, where the ``whole`` text is wanted, continues in more lines.
    """
    rows = _shorten_names(columns, rows, width)
    lengths = [[cell.cell_len for cell in row] for row in rows]
    *fitting, longest = (
        max((row[number] for row in lengths), default=0) if rows else 0 for number in range(len(columns))
    )
    widths = [max(length, cell_len(name)) for length, name in zip(fitting, columns[:-1], strict=True)]
    rest = min(width - sum(widths) - 2 * len(widths), max(longest, cell_len(columns[-1])))
    # A column of numbers at the end is as wide as these; words there need some room in any case.
    widths.append(max(rest, 0 if columns[-1] in right else _LEAST_REASON))
    on_right = [name in right for name in columns]
    if not whole:
        head = _join_cells([Text(name, "bold") for name in columns], map(cell_len, columns), widths, on_right)
        rule = Text("─" * (sum(widths) + 2 * (len(widths) - 1)))
        lines = (_join_cells(row, taken, widths, on_right) for row, taken in zip(rows, lengths, strict=True))
        return join_lines([head, rule, *lines])
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for number, name in enumerate(columns):
        last = number == len(columns) - 1
        table.add_column(
            Text(name), justify="right" if on_right[number] else "left", no_wrap=not last, width=widths[number]
        )
    for row in rows:
        table.add_row(*row)
    return table


def _join_cells(
    cells: Iterable[StyledText], lengths: Iterable[int], widths: Sequence[int], on_right: Sequence[bool]
) -> StyledText:
    """One line of text: a table of thousands of rows is laid out in a moment where a real one takes many."""
    parts: list[str] = []
    spans: list[Span] = []
    position = 0
    for cell, length, width, right in zip(cells, lengths, widths, on_right, strict=True):
        if length > width:
            cell = cell.copy()  # cells may be shared by many rows
            cell.truncate(width, overflow="ellipsis")
            length = cell.cell_len
        if parts:
            parts.append("  ")
            position += 2
        room = " " * (width - length)
        text = cell.plain
        start = position + len(room) if right else position
        if cell.style:
            spans.append(Span(start, start + len(text), cell.style))
        spans.extend(Span(each.start + start, each.end + start, each.style) for each in cell.spans)
        parts += (room, text) if right else (text, room)
        position += len(room) + len(text)
    return StyledText("".join(parts), no_wrap=True, overflow="ellipsis", spans=spans)


def _shorten_names(columns: Sequence[str], rows: Sequence[Sequence[StyledText]], width: int) -> list[list[StyledText]]:
    """Rows with names cut in their middle where the numbers beside them would find no room."""
    widths = (
        max(cell_len(name), max((row[number].cell_len for row in rows), default=0)) + 2
        for number, name in enumerate(columns[1:-1], start=1)
    )
    most = max(width - sum(widths) - _SHORTEST_REASON - 2, _SHORTEST_NAME)
    shortened = []
    for first, *rest in rows:
        if first.cell_len > most:
            half = (most - 1) // 2
            first = Text(f"{first.plain[: most - 1 - half]}…{first.plain[-half:]}")
        shortened.append([first, *rest])
    return shortened


# --- from text to characters ------------------------------------------------------------------------------------------


def render_text(table: RenderableType, *, color: bool, width: int) -> str:
    """Text of a table or of parts. ``width`` in columns."""
    if not color and isinstance(table, Group):
        return "".join(render_text(each, color=False, width=width) for each in table.renderables)
    if not color and isinstance(table, StyledText) and table.no_wrap:
        # As below, but a table of a hundred thousand lines takes a moment.
        lines = (line if cell_len(line) <= width else set_cell_size(line, width) for line in table.plain.split("\n"))
        return "".join(f"{line.rstrip()}\n" for line in lines)
    console = Console(width=width, force_terminal=color, no_color=not color, color_system="standard" if color else None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def render_lines(what: RenderableType, terminal: Terminal) -> list[str]:
    """Lines for a screen. Without colour it still shows what is bold, dim or in reverse."""
    console = Console(width=terminal.width, force_terminal=True, no_color=not terminal.color, color_system="standard")
    is_table = isinstance(what, StyledText) and what.no_wrap is True
    with console.capture() as captured:
        console.print(what, no_wrap=is_table or None, overflow="ellipsis" if is_table else None, highlight=False)
    return captured.get().splitlines()
