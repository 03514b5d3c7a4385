"""A row for each cluster, also where clusters differ in what is known of them."""

from msgspec.structs import replace
from tests.report.test_traffic_table import BOTH, USD, a_report, of_node

from zoneward.advice.actions import Advice, AdviceSummary
from zoneward.report.fleet_tables import ClusterResult, advice_table, report_table
from zoneward.report.terminal_text import render_text

SUMMARY = AdviceSummary(
    kubernetes="1.36",
    proxies={},
    zones={"a": 1, "b": 1},
    nodes_without_zone=0,
    services=1,
    weighed_by="bytes",
    in_zone=0.5,
    in_zone_reachable=0.5,
    in_zone_with_zoneward=0.5,
    worst=None,
    unit="USD",
    crossing=3.0,
    saved=2.0,
    saved_with_zoneward=2.0,
)
UNMEASURED = {"services": 0, "in_zone": None, "in_zone_reachable": None, "unit": None, "crossing": None, "saved": None}


def lines(table: str) -> list[list[str]]:
    heading, _, *rows = table.splitlines()
    return [heading.split(), *(row.split() for row in rows)]


def test_clusters_with_and_without_bytes_have_columns_for_both() -> None:
    bytes_counted = ClusterResult("bytes", a_report(BOTH, prices=USD))
    connections = ClusterResult("connections", a_report([of_node("a", with_bytes=False)], prices=USD))
    for results, headings in (
        ([bytes_counted, connections], ["GB", "USD", "CROSS"]),
        ([connections, bytes_counted], ["CROSS", "GB", "USD"]),
    ):
        table = render_text(report_table(results).for_terminal(100), color=False, width=100)
        heading, *rows = lines(table)
        assert heading == ["CLUSTER", "SERVICES", *headings, "SAVED", "\N{PLUS-MINUS SIGN}"]
        assert {row[0] for row in rows} == {"bytes", "connections"}


def test_amounts_of_any_cluster_have_a_column() -> None:
    measured = ClusterResult("measured", Advice(SUMMARY, ()))
    empty = ClusterResult("empty", Advice(replace(SUMMARY, **UNMEASURED), ()))
    for results in ([measured, empty], [empty, measured]):
        table = render_text(advice_table(results).for_terminal(120), color=False, width=120)
        assert "SAVES" in lines(table)[0]
        assert "2.00 USD" in table


def test_a_cluster_where_no_share_can_change_says_why() -> None:
    results = [
        ClusterResult("one", Advice(replace(SUMMARY, zones={"a": 2}), ())),
        ClusterResult("none", Advice(replace(SUMMARY, zones={}, in_zone=None), ())),
        ClusterResult("best", Advice(SUMMARY, ())),
    ]
    table = render_text(advice_table(results).for_terminal(160), color=False, width=160)
    for row, action in zip(
        table.splitlines()[2:],
        ("All nodes are in zone a: no traffic leaves it.", "is unknown (zoneward check).", "nothing to do"),
        strict=True,
    ):
        assert row.endswith(action)
