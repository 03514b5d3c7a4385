"""Text for terminals: single cells, aligned columns, whole tables. Nothing in it steers a terminal."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import rich.text
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table

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


def join_wrapped(texts: Iterable[str | StyledText], style: str = "") -> StyledText:
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
    widths = [
        max(max((row[number].cell_len for row in rows), default=0), cell_len(name))
        for number, name in enumerate(columns[:-1])
    ]
    longest = max((row[-1].cell_len for row in rows), default=0)
    rest = min(width - sum(widths) - 2 * len(widths), max(longest, cell_len(columns[-1])))
    # A column of numbers at the end is as wide as these; words there need some room in any case.
    widths.append(max(rest, 0 if columns[-1] in right else _LEAST_REASON))
    on_right = [name in right for name in columns]
    if not whole:
        head = _join_cells([Text(name, "bold") for name in columns], widths, on_right)
        rule = Text("─" * (sum(widths) + 2 * (len(widths) - 1)))
        return join_lines([head, rule, *(_join_cells(row, widths, on_right) for row in rows)])
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for number, name in enumerate(columns):
        last = number == len(columns) - 1
        table.add_column(
            Text(name), justify="right" if on_right[number] else "left", no_wrap=not last, width=widths[number]
        )
    for row in rows:
        table.add_row(*row)
    return table


def _join_cells(cells: Sequence[StyledText], widths: Sequence[int], on_right: Sequence[bool]) -> StyledText:
    """One line of text: a table of thousands of rows is laid out in a moment where a real one takes many."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for number, (cell, width, right) in enumerate(zip(cells, widths, on_right, strict=True)):
        if cell.cell_len > width:
            cell.truncate(width, overflow="ellipsis")
        room = " " * (width - cell.cell_len)
        line.append("  " if number else "").append(room if right else "").append_text(cell)
        line.append("" if right else room)
    return line


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


def render_text(table: RenderableType, *, color: bool, width: int, crop: bool = True) -> str:
    """Text of a table or of parts. ``width`` in columns; without ``crop``, lines that must not wrap may be longer."""
    console = Console(width=width, force_terminal=color, no_color=not color, color_system="standard" if color else None)
    with console.capture() as captured:
        console.print(table, crop=crop)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def render_lines(what: RenderableType, terminal: Terminal) -> list[str]:
    """Lines for a screen. Without colour it still shows what is bold, dim or in reverse."""
    console = Console(width=terminal.width, force_terminal=True, no_color=not terminal.color, color_system="standard")
    is_table = isinstance(what, StyledText) and what.no_wrap is True
    with console.capture() as captured:
        console.print(what, no_wrap=is_table or None, overflow="ellipsis" if is_table else None, highlight=False)
    return captured.get().splitlines()
