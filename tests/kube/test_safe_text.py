"""A spreadsheet that opens what we write calculates nothing."""

import csv
from io import StringIO

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoneward.kube.safe_text import CSV_FORMULA, safe_csv_cell


@pytest.mark.parametrize("value", [-0.5, -3, 0, 1e-6, True, None, "", "a", "a=1", "1-1", "'=1"])
def test_numbers_and_all_other_text_stay(value: object) -> None:
    assert safe_csv_cell(value) is value or safe_csv_cell(value) == value


@given(st.lists(st.one_of(st.text(), st.floats(allow_nan=False), st.text("=+-@\t\r\n',\"a")), min_size=1, max_size=4))
@settings(max_examples=50)
def test_no_cell_of_a_row_that_is_read_again_begins_as_a_formula(cells: list[str | float]) -> None:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerow(map(safe_csv_cell, cells))
    (row,) = csv.reader(StringIO(text.getvalue()), strict=True) if text.getvalue() != "\n" else ([""],)
    assert len(row) == len(cells)
    for cell, value in zip(row, cells, strict=True):
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) or isinstance(value, float)
        assert cell.isprintable()


@given(st.lists(st.text("=+-@\t\r\n',\"ab"), min_size=1))
@settings(max_examples=50)
def test_columns_follow_the_same_rule(texts: list[str]) -> None:
    column = pl.Series("a", texts).str.replace(CSV_FORMULA, "'${1}")
    assert [each.startswith("'") and not text.startswith("'") for each, text in zip(column, texts, strict=True)] == [
        text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for text in texts
    ]
