"""The words and numbers of ``report``: what was measured, what was not, and what is in no figure. The picture of flows
keeps all of the traffic, and every line at its box.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.structs import nodes_in
from tests.properties.random_clusters import examples

from zoneward.advice.measured_flows import measure_flows
from zoneward.advice.prices import Prices
from zoneward.advice.traffic_report import Coverage, Crossing, Figure, ReportTotals, TrafficReport
from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, TrafficBytes
from zoneward.kube.settings import read_settings
from zoneward.report.traffic_page import flow_picture, largest_flows
from zoneward.report.traffic_table import ReportNumbers, describe_measuring, explain_figures, format_number
from zoneward.routing.demand import compute_demand

START = datetime(2026, 3, 1, tzinfo=UTC)
GB = 10.0**9


def of_node(zone: str, *, hours: float = 24, with_bytes: bool = True, complete: bool = True) -> MeasuredTraffic:
    sizes = {"a": TrafficBytes(10, 10)} if with_bytes else msgspec.UNSET
    service = ServiceTraffic(namespace="shop", service="cart", address_type="IPv4", zones={"a": 3}, bytes=sizes)
    until = START + timedelta(hours=hours)
    return MeasuredTraffic(
        node=f"node-{zone}", zone=zone, since=START, until=until, complete=complete, services=(service,)
    )


def a_report(
    documents: Iterable[MeasuredTraffic], *, prices: Prices | None = None, totals: ReportTotals | None = None
) -> TrafficReport:
    measured = measure_flows(documents)
    assert measured is not None
    return TrafficReport(
        services=(),
        totals=totals or ReportTotals(),
        measured=measured,
        coverage=Coverage.of(measured, compute_demand(nodes_in({"a": 4, "b": 4}))),
        prices=prices or Prices(),
        node_traffic={},
    )


BOTH = (of_node("a"), of_node("b"))
USD = read_settings({"perGB": "0.01USD", "zones": {"a": {"b": "1USD"}}, "charge": "both"}, Prices)
REGION = read_settings({"perGB": "0.01USD", "regions": {"eu": {"eu": "1USD"}}}, Prices)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (a_report(BOTH), "Measured on 2 of 2 ready nodes, 2026-03-01 00:00Z to 2026-03-02 00:00Z."),
        (a_report(BOTH), "No prices: --price-per-gb 0.01USD, or prices in the configuration, shows money."),
        (a_report([of_node("a")]), "Nothing is measured of b: the figures are without what starts there."),
        (a_report([of_node("a", hours=3)]), "Some nodes measured for 3 h only: a month has hours that are not like"),
        (a_report([BOTH[0], of_node("b", with_bytes=False)]), "node-b counted no bytes and is in no amount."),
        (a_report([BOTH[0], of_node("b", hours=0)]), "node-b measured for no time and is in no amount."),
        (a_report([BOTH[0], of_node("b", complete=False)]), "node-b did not count everything: some traffic is"),
        (a_report([of_node("a", with_bytes=False)], prices=USD), "No document has bytes: shares of connections, and"),
        (a_report(BOTH, prices=USD), "Prices: 0.01 USD a GB (10^9 bytes), charged where it leaves its zone and where"),
        (a_report(BOTH, prices=read_settings({"perGB": "1234567.5IDR"}, Prices)), "Prices: 1,234,567.5 IDR a GB (10^9"),
        (a_report(BOTH, prices=USD), "2 pairs of zones or regions have their own."),
        (a_report(BOTH, prices=REGION), "1 pair of zones or regions has its own."),
    ],
)
def test_the_first_lines_say_what_was_measured_and_at_which_price(report: TrafficReport, line: str) -> None:
    assert line in "\n".join(describe_measuring(report))


def test_what_is_in_no_figure_has_lines_of_its_own() -> None:
    totals = ReportTotals()
    totals.external, totals.unknown = Crossing(amount=Figure(12 * GB), money=Figure(0.12)), 3 * GB
    report = a_report(BOTH, prices=USD, totals=totals)
    lines = "\n".join(explain_figures(ReportNumbers(report)))
    assert "From outside of the cluster 12.0 GB more left their zone, 0.12 USD: they are in no figure above." in lines
    assert "3.00 GB started or ended in an unknown zone" in lines
    quiet = a_report(BOTH, prices=USD)
    assert "no figure above" not in "\n".join(explain_figures(ReportNumbers(quiet)))


def test_without_prices_what_is_saved_is_in_gb_and_without_bytes_a_share() -> None:
    amount, whole = Figure(2 * GB, 1e16, 1e16), Figure(4 * GB, 1e16)
    crossing = Crossing(amount, Figure(0.02, 1e-7, 1e-7), whole=whole)
    with_money, without = a_report(BOTH, prices=USD), a_report(BOTH)
    shares = a_report([of_node("a", with_bytes=False)])
    assert ReportNumbers(with_money).cells(crossing) == ["2.00", "0.02"]
    assert (ReportNumbers(without).value(crossing), ReportNumbers(without).margin(crossing)) == (
        "2.00",
        "0.28",
    )
    assert ReportNumbers(with_money).margin(crossing) == "<0.01"
    assert (ReportNumbers(shares).columns, ReportNumbers(shares).cells(crossing)) == (("CROSS",), ["50%"])
    assert ReportNumbers(shares).value(Crossing(amount)) == "-"
    assert ReportNumbers(with_money).cells(None) == ["-", "-"]
    assert replace(with_money, prices=Prices()).currency is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (-0.001, "0.00"),
        (-1.5, "-1.50"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (99.96, "100"),
        (1234567, "1,234,567"),
    ],
)
def test_numbers_have_three_digits_or_more(value: float, text: str) -> None:
    assert format_number(value) == text


FLOW_ZONES = st.sampled_from([f"eu-{letter}" for letter in "abcdefgh"])
FLOWS = st.dictionaries(st.tuples(FLOW_ZONES, FLOW_ZONES), st.floats(0, 1e18), max_size=40)


@given(FLOWS, st.integers(2, 9))
@examples(30)
def test_many_zones_are_taken_together_and_nothing_is_lost(flows: dict[tuple[str, str], float], most: int) -> None:
    result = largest_flows(flows, most)
    assert len({zone for pair in result for zone in pair}) <= most
    whole = sum(flows.values())
    assert abs(sum(result.values()) - whole) <= 1e-9 * whole
    if len({zone for pair in flows for zone in pair}) <= most:
        assert result == {pair: amount for pair, amount in flows.items() if amount}


def test_lines_fit_their_boxes_and_those_that_stay_are_below() -> None:
    flows = {("a", "a"): 60.0, ("a", "b"): 40.0, ("b", "b"): 10.0, ("c", "a"): 0.001}
    html = flow_picture(flows, described="described", total="110 GB").html
    widths = [float(width) for width in re.findall(r'stroke-width="([0-9.]+)"', html)]
    assert sum(widths) <= 60 * 1.2
    assert re.findall(r'<path [^>]*class="(\w+)"', html) == ["stays", "stays", "z0", "z2"]
    assert "91% of traffic" in html
    assert 'aria-label="described"' in html
