"""A spreadsheet that opens what we write calculates nothing."""

import csv
import json
import re
from io import StringIO

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoneward.kube.safe_text import CSV_FORMULA, escape_json, printable, safe_csv_cell


@pytest.mark.parametrize("value", [-0.5, -3, 0, 1e-6, True, None, "", "a", "a=1", "1-1", "'=1"])
def test_numbers_and_all_other_text_stay(value: object) -> None:
    assert safe_csv_cell(value) is value or safe_csv_cell(value) == value


@given(
    st.lists(
        st.one_of(st.text(), st.floats(allow_nan=False), st.text("=+-@\t\r\n',\"a \u00a0\u200b\uff1d\uff0d")),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=50)
def test_no_cell_of_a_csv_row_is_a_formula(cells: list[str | float]) -> None:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerow(map(safe_csv_cell, cells))
    (row,) = csv.reader(StringIO(text.getvalue()), strict=True) if text.getvalue() != "\n" else ([""],)
    assert len(row) == len(cells)
    for cell, value in zip(row, cells, strict=True):
        assert not re.match(CSV_FORMULA, cell) or isinstance(value, float)
        assert cell.isprintable()


@given(st.lists(st.text("=+-@\t\r\n',\"ab \ufeff\uff1d\uff20"), min_size=1))
@settings(max_examples=50)
def test_columns_follow_the_same_rule(texts: list[str]) -> None:
    column = pl.Series("a", texts).str.replace(CSV_FORMULA, "'${1}")
    assert [cell.startswith("'") and not text.startswith("'") for cell, text in zip(column, texts, strict=True)] == [
        re.match(CSV_FORMULA, text) is not None for text in texts
    ]


@pytest.mark.parametrize(
    "text",
    [
        "=1",
        "+1",
        "-1",
        "@a",
        "\t",
        " =1",
        "\u00a0=1",
        "\u3000\uff1d1",
        "\u200b=1",
        "\ufeff@a",
        "\uff1dcmd|' /c calc'!A0",
        "\uff0b1",
        "\uff0d1",
        "\uff20a",
    ],
)
def test_formula_gets_an_apostrophe(text: str) -> None:
    assert str(safe_csv_cell(text)).startswith("'")
    assert list(pl.Series("a", [text]).str.replace(CSV_FORMULA, "'${1}")) == [f"'{text}"]


@pytest.mark.parametrize("text", [" a=1", "", " ", "a", "1", "\uff0a=1", "日本 =1"])
def test_other_text_with_these_characters_in_it_stays(text: str) -> None:
    assert safe_csv_cell(text) == printable(text)


@given(st.text() | st.text("\x7f\x9b\u202e\u2066\u200b\ufe0f\u3164\u2028\ufeff\U000e0001aä日😀"))
def test_escaped_json_has_the_same_value_and_is_printable(text: str) -> None:
    document = json.dumps({"name": text}, ensure_ascii=False).encode(errors="replace")
    shown = escape_json(document)
    assert json.loads(shown) == json.loads(document)
    assert printable(shown.decode()) == shown.decode()


def test_printable_json_is_unchanged() -> None:
    document = '{\n  "name": "Zürich 日本 😀"\n}'.encode()
    assert escape_json(document) == document
