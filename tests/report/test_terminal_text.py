"""All text of tables and screens comes from one place, where it is made harmless."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group

import zoneward
from zoneward.report.terminal_text import StyledText, Text, align_columns, join_lines, join_wrapped, render_text


def test_only_one_module_builds_terminal_text() -> None:
    source = Path(zoneward.__file__).parent
    modules = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(r"^\s*(?:from|import) rich\.text\b", file.read_text(), re.MULTILINE)
    }
    assert modules == {"report/terminal_text.py"}


def test_lines_are_printed_by_one_function() -> None:
    """What is echoed elsewhere was rendered already, is a document, or is help."""
    source = Path(zoneward.__file__).parent
    echoed = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(
            r"click\.(?:echo|secho)\((?!.*(?:nl=False|color=True|format_message|\.source\(\)))", file.read_text()
        )
    }
    assert echoed <= {"cli/output.py", "cli/version.py"}


def test_text_has_exactly_the_given_lines() -> None:
    text = join_lines(["a\nb", Text("c\x1b[31md")], "dim")
    assert text.plain == "a?b\nc?[31md"
    assert join_wrapped(["a\r", "b"]).plain == "a?\nb"
    assert isinstance(text, StyledText)


COLUMNS = ("SERVICE", "APPROACH", "IN ZONE", "WORST", "SLICES", "TRAFFIC SENT TO")
RIGHT = {"IN ZONE", "WORST"}
LONG = "all zones: 2 endpoints for 3 zones: too few, one each"
ROWS = (
    ("shop/cart", "PreferSameZone", "100%", "+701%", "+1", "its own zone"),
    ("shop/checkout", "ProportionalZoneCPU", "36%", "+0%", "+1 =2", LONG),
    ("", "cluster-wide", "34%", "+0%", "", "all zones: nothing asked for"),
    ("payments/a-service-with-a-long-name", "", "", "", "", "nowhere: ExternalName"),
)  # fmt: skip

AT_100 = """\
SERVICE                        APPROACH             IN ZONE  WORST  SLICES  TRAFFIC SENT TO
────────────────────────────────────────────────────────────────────────────────────────────────────
shop/cart                      PreferSameZone          100%  +701%  +1      its own zone
shop/checkout                  ProportionalZoneCPU      36%    +0%  +1 =2   all zones: 2 endpoints
                                                                            for 3 zones: too few,
                                                                            one each
                               cluster-wide             34%    +0%          all zones: nothing asked
                                                                            for
payments/a-ser…th-a-long-name                                               nowhere: ExternalName
"""
AT_80 = """\
SERVICE           APPROACH             IN ZONE  WORST  SLICES  TRAFFIC SENT TO
────────────────────────────────────────────────────────────────────────────────
shop/cart         PreferSameZone          100%  +701%  +1      its own zone
shop/checkout     ProportionalZoneCPU      36%    +0%  +1 =2
    all zones: 2 endpoints for 3 zones: too few, one each
                  cluster-wide             34%    +0%          all zones:
                                                               nothing asked for
payments…ng-name                                               nowhere:
                                                               ExternalName
"""
AT_60 = """\
SERVICE
  APPROACH             IN ZONE  WORST  SLICES  TRAFFIC SENT
                                               TO
────────────────────────────────────────────────────────────
shop/cart
  PreferSameZone          100%  +701%  +1      its own zone
shop/checkout
  ProportionalZoneCPU      36%    +0%  +1 =2
    all zones: 2 endpoints for 3 zones: too few, one each
  cluster-wide             34%    +0%
    all zones: nothing asked for
payments/a-service-with-a-long-name
                                               nowhere:
                                               ExternalName
"""


def table(width: int, rows: tuple[tuple[str, ...], ...] = ROWS, columns: tuple[str, ...] = COLUMNS) -> str:
    aligned = align_columns(columns, [[Text(cell) for cell in row] for row in rows], right=RIGHT, width=width)
    return render_text(aligned, color=False, width=width)


@pytest.mark.parametrize(("width", "expected"), [(100, AT_100), (80, AT_80), (60, AT_60)])
def test_long_reason_continues_below(width: int, expected: str) -> None:
    assert table(width) == expected


WORDS = st.lists(st.text("abcxyz", min_size=1, max_size=9), max_size=14).map(" ".join)


@given(st.lists(st.tuples(st.just("shop/cart"), st.just("local"), WORDS, WORDS), min_size=1), st.integers(30, 120))
def test_reasons_are_complete_and_lines_fit(rows: list[tuple[str, ...]], width: int) -> None:
    rows = [(name, approach, index[:5].strip(), reason) for name, approach, index, reason in rows]
    text = table(width, tuple(rows), ("SERVICE", "APPROACH", "WORST", "TRAFFIC SENT TO"))
    assert max(map(len, text.splitlines())) <= width
    shown = text.split()
    for *_, reason in rows:
        for word in reason.split():
            assert word in shown


def test_a_table_knows_the_lines_of_its_rows() -> None:
    aligned = align_columns(COLUMNS, [[Text(cell) for cell in row] for row in ROWS], right=RIGHT, width=80)
    assert aligned.row_lines == ((2, 3), (3, 5), (5, 7), (7, 9))
    marked = aligned.mark_rows([1], "reverse")
    lines = marked.split("\n")
    assert [index for index, line in enumerate(lines) if line.spans] == [0, 3, 4]
    assert all(end == start for (_, end), (start, _) in pairwise(aligned.row_lines))


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), min_size=1), st.integers(20, 100), st.booleans())
def test_plain_table_has_the_same_lines(rows: list[tuple[str, ...]], width: int, cut: bool) -> None:
    """Large ones are then written without rich's console."""
    cells = [[Text(cell, "bold") for cell in row] for row in rows]
    heads = ("SERVICE", "APPROACH", "WORST", "TRAFFIC SENT TO")
    group = Group(
        Text("above"), align_columns(heads, cells, right=RIGHT, width=width, cut=cut), join_wrapped(["a", "b"])
    )
    colored = render_text(group, color=True, width=width)
    assert "\x1b" in colored
    plain = render_text(group, color=False, width=width).splitlines()
    expected = re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()
    for line, same in zip(plain, expected, strict=True):
        # rich's console marks what it cuts even where only blanks are lost, and has one column less for the text.
        assert line.rstrip() == same.rstrip() or line.startswith(same.rstrip().removesuffix("…").rstrip())
    assert max(map(len, plain)) <= width
    assert [[cell.plain for cell in row] for row in cells] == [list(row) for row in rows], "cells may be shared"
