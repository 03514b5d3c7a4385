"""Tables as pages: every cell is there, in the style that a terminal gives it, and nothing of it is taken for HTML."""

from xml.etree import ElementTree

import pytest

from zoneward.report.html import Source
from zoneward.report.table_parts import TableParts, styled
from zoneward.report.terminal_text import StyledText, Text, join_wrapped

SOURCE = Source("a cluster", "2026-01-02 03:04Z", "1.2.3")
NASTY = "</td><script>alert(1)</script>&\"'\x1b[31m\u202e"


def parts(*rows: tuple[StyledText, ...], is_grouped: bool = False) -> TableParts:
    return TableParts(
        above=(Text("Demand: ").append("a", "bold"),),
        columns=("SERVICE", "APPROACH", "SCORE", ""),
        rows=rows,
        right=("SCORE",),
        below=join_wrapped(["first", "second"], "dim"),
        is_grouped=is_grouped,
    )


def shown(page: str) -> list[list[str]]:
    """The cells of the table, of a page that is XML, too."""
    doctype, _, rest = page.partition("\n")
    assert doctype == "<!DOCTYPE html>"
    table = next(ElementTree.fromstring(rest).iter("table"))
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_page_and_terminal_show_the_same_cells() -> None:
    row = (Text("shop/cart"), Text("local", "green"), Text("97.1"), Text("why").append(" so", "red"))
    assert shown(parts(row).as_page("Plan", made_by="zoneward plan", source=SOURCE))[1:] == [
        ["shop/cart", "local", "97.1", "why so"]
    ]


def test_rows_without_a_name_belong_to_the_group_above() -> None:
    rows = (
        (Text("shop/cart"), Text("local"), Text("97.1"), Text()),
        (Text(), Text("PreferSameZone"), Text("98.0"), Text("best")),
        (Text("shop/api"), Text("local"), Text("1.0"), Text()),
    )
    page = parts(*rows, is_grouped=True).as_page("Compared", made_by="zoneward compare", source=SOURCE)
    assert shown(page) == [
        ["APPROACH", "SCORE", ""],
        ["shop/cart"],
        ["local", "97.1", ""],
        ["PreferSameZone", "98.0", "best"],
        ["shop/api"],
        ["local", "1.0", ""],
    ]


def test_empty_table_has_header_and_notes() -> None:
    page = parts().as_page("Plan", made_by="zoneward plan", source=SOURCE)
    assert shown(page) == [["SERVICE", "APPROACH", "SCORE", ""]]
    assert "first" in page


def test_foreign_text_is_escaped() -> None:
    row = (Text(NASTY), Text(NASTY, "green"), Text(NASTY), Text(NASTY).append(NASTY, "red"))
    for is_grouped in (True, False):
        page = parts(row, is_grouped=is_grouped).as_page(NASTY, made_by="zoneward plan", source=SOURCE)
        assert page.count("<script") == 1, "that of the page itself"
        assert any("alert(1)" in cell for row in shown(page) for cell in row)


def test_the_innermost_style_wins_and_default_is_none() -> None:
    text = Text("", "green").append("a").append("b", "red").append("c", "default")
    assert styled(text).html == '<span class="green">a</span><span class="red">b</span>c'
    # Where letters may run to the left, the text is kept apart from what is beside it.
    assert styled(Text("é")).html == "<bdi>é</bdi>"


@pytest.mark.parametrize("is_grouped", [True, False])
def test_long_tables_are_split_between_groups(is_grouped: bool) -> None:
    rows = [
        (Text(f"svc-{index}" if index % 7 == 0 or not is_grouped else ""), Text(f"a{index}"), Text("1.0"), Text())
        for index in range(1000)
    ]
    page = parts(*rows, is_grouped=is_grouped).as_page("Plan", made_by="zoneward plan", source=SOURCE)
    tables = list(ElementTree.fromstring(page.partition("\n")[2]).iter("table"))
    assert 8 <= len(tables) <= 12
    head = next(tables[0].iter("tr"))
    assert "".join(head[0].itertext()) == ("APPROACH" if is_grouped else "SERVICE")
    texts = [
        element.text for table in tables for element in table.iter() if element.text and element.text.startswith("a")
    ]
    assert [element for element in texts if element[1:].isdigit()] == [f"a{index}" for index in range(1000)]
    for table in tables if is_grouped else ():
        for body in table.iter("tbody"):
            names = ["".join(row[0].itertext()) for row in body.iter("tr")]
            assert names[0].startswith("svc-")
            assert [int(name[1:]) // 7 for name in names[1:]] == [int(names[0][4:]) // 7] * (len(names) - 1)
    regions = [element.get("aria-label") for element in ElementTree.fromstring(page.partition("\n")[2]).iter("div")]
    named = [region for region in regions if region]
    assert len(named) == len(set(named)) == len(tables)
