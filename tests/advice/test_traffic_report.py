"""Traffic between zones now, with each setting, and saved: nothing appears and nothing is lost."""

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite, sqrt
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster
from tests.properties.random_clusters import examples

from zoneward.advice.cluster_abilities import ClusterAbilities
from zoneward.advice.comparison import recommend
from zoneward.advice.measured_flows import Flow, MeasuredFlows, ServiceFlows, ZonePair
from zoneward.advice.node_proxies import PROXY_KINDS, same_proxy_everywhere
from zoneward.advice.prices import Charge, PairPrices, Prices, with_price
from zoneward.advice.service_input import ServiceInput
from zoneward.advice.traffic_report import Figure, ReportTotals, ServiceReport, ranked, report_service
from zoneward.kube.objects import Service
from zoneward.kube.settings import read_settings

GB: Final = 10**9
START: Final = datetime(2026, 3, 1, tzinfo=UTC)
ABILITIES: Final = {
    "kube-proxy-1.37": ClusterAbilities(controller=False, slice_groups=False, kubernetes=36),
    "zoneward": ClusterAbilities(controller=True, slice_groups=True, kubernetes=36),
}
"""With each kind of proxy."""
SKEWED: Final = {
    ("a", "a"): Flow(700, 20.0 * GB, 50.0 * GB),
    ("a", "b"): Flow(300, 10.0 * GB, 20.0 * GB),
    ("b", "a"): Flow(100, 2.0 * GB, 8.0 * GB),
    ("c", "b"): Flow(50, 5.0 * GB, 1.0 * GB),
    ("", "b"): Flow(5, 1.0 * GB, 1.0 * GB),
    ("b", ""): Flow(5, 3.0 * GB, 1.0 * GB),
}
PRICES: Final = read_settings({"perGB": "0.01USD", "zones": {"a": {"b": "0.02USD"}, "b": {"a": "0.03USD"}}}, Prices)


def a_cluster(service: Service | None = None, **pods: int) -> Cluster:
    return Cluster(service=service or a_service(), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in(pods))


def started_in(flows: Mapping[ZonePair, Flow]) -> dict[str, int]:
    started: dict[str, int] = {}
    for (start, _), flow in flows.items():
        if start and flow.amount:
            started[start] = started.get(start, 0) + max(flow.connections, 1)
    return started


def reported(
    cluster: Cluster,
    flows: Mapping[ZonePair, Flow],
    *,
    charge: Charge | None = "one",
    external: Mapping[ZonePair, Flow] | None = None,
    proxy: str = "kube-proxy-1.37",
) -> ServiceReport:
    """Without a ``charge`` there are no prices."""
    service = ServiceFlows(flows, external or {}, started_in(flows))
    meta, kind, state = cluster.service.metadata, PROXY_KINDS[proxy], cluster.cluster_state
    measured = MeasuredFlows(
        services={(meta.namespace, meta.name, "IPv4"): service},
        connections={},
        has_bytes=True,
        zone_of={},
        since=START,
        until=START,
        shortest=1.0,
        longest=1.0,
    )
    (recommendation,) = recommend(
        ServiceInput(
            cluster.service,
            cluster.nodes,
            cluster.pods,
            cluster.slices,
            dataclasses.replace(state, consumer=kind.consumer, service_parts=measured.demand_parts(state.demand)),
        ),
        node_proxies=same_proxy_everywhere(cluster.nodes, kind),
        abilities=ABILITIES[proxy],
        flows=True,
    )
    report = report_service(
        measured,
        recommendation,
        prices=None if charge is None else PairPrices(with_price(PRICES, None, charge), {}),
        keep_threshold=0.3,
    )
    assert report is not None
    return report


def test_what_is_measured_is_what_left_its_zone_at_the_price_of_each_direction() -> None:
    report = reported(a_cluster(a=4, b=4, c=4).settled(), SKEWED)
    assert report.now.crossing.whole.value == 116 * GB
    assert report.now.crossing.amount.value == 46 * GB
    assert report.unknown_gb == 6
    assert report.now.in_zone == pytest.approx(70 / 116, abs=1e-6)
    assert report.now.crossing.money is not None
    # To the endpoint, and back.
    costs = (10 * 0.02 + 20 * 0.03, 2 * 0.03 + 8 * 0.02, 6 * 0.01)
    assert report.now.crossing.money.value == pytest.approx(sum(costs))
    both = reported(a_cluster(a=4, b=4, c=4).settled(), SKEWED, charge="both")
    assert both.now.crossing.money is not None
    assert both.now.crossing.money.value == pytest.approx(2 * sum(costs))


def test_same_zone_saves_everything_where_each_zone_has_endpoints_and_is_marked_where_it_overloads() -> None:
    report = reported(a_cluster(a=4, b=4, c=4).settled(), SKEWED)
    same = report.setting("PreferSameZone")
    assert same is not None
    assert same.crossing is not None
    assert same.saved is not None
    assert same.crossing.amount.value == 0.0
    assert same.saved.amount.value == pytest.approx(46 * GB)
    # 1000 of 1150 connections start in a, which has a third of the endpoints.
    assert same.max_overload == pytest.approx(1000 / 1150 * 3 - 1, abs=0.02)
    assert same.overloads
    assert report.best != "PreferSameZone"
    fitting = reported(a_cluster(a=21, b=3, c=1).settled(), SKEWED)
    assert fitting.best == "PreferSameZone"
    assert not fitting.setting("PreferSameZone").overloads  # type: ignore[union-attr]


def test_what_drops_traffic_is_never_the_best() -> None:
    """Zone c has no endpoint, and the traffic policy wants one on the node."""
    report = reported(a_cluster(a_service(internal="Local"), a=9, b=2).settled(), SKEWED)
    required = report.setting("PreferSameZone")
    assert required is not None
    assert required.dropped == pytest.approx(6 / 116, abs=1e-6)
    assert (required.crossing, required.saved) == (None, None), "what is dropped is not saved"
    assert (report.best, report.better) == (None, None)


def test_the_best_needs_nothing_and_the_better_one_only_the_controller() -> None:
    report = reported(a_cluster(a=8, b=4, c=1).settled(), SKEWED)
    best, better = report.setting(report.best), report.setting(report.better)
    assert best is not None
    assert better is not None
    assert (best.needs, better.needs) == (None, "controller")
    assert best.saved is not None
    assert better.saved is not None
    assert 0 < best.saved.weight < better.saved.weight
    assert not best.overloads
    assert not better.overloads


def test_margins_are_those_of_samples() -> None:
    """Of connections alone the binomial error; of an amount the one of a compound Poisson sample."""
    flows = {("a", "a"): Flow(60, 600.0, 0.0), ("a", "b"): Flow(40, 400.0, 0.0)}
    report = reported(a_cluster(a=4, b=4, c=4).settled(), flows, charge=None)
    share = report.now.crossing.amount.share_of(report.now.crossing.whole, spread=1)
    assert share is not None
    assert share == pytest.approx((0.4, 1.96 * sqrt(0.4 * 0.6 / 100)))
    assert report.now.crossing.amount.estimate(spread=2) == pytest.approx((400.0, 1.96 * sqrt(2 * 400.0**2 / 40)))
    assert Figure().share_of(Figure(), spread=1) is None
    assert report.now.crossing.money is None


def test_outside_traffic_is_in_no_other_figure() -> None:
    external = {("a", "b"): Flow(9, 7.0 * GB, 2.0 * GB), ("a", "a"): Flow(9, 7.0 * GB, 2.0 * GB)}
    cluster = a_cluster(a=4, b=4, c=4).settled()
    without, report = reported(cluster, SKEWED), reported(cluster, SKEWED, external=external)
    assert report.external.amount.value == 9 * GB
    assert as_builtins(structs.replace(report, external=without.external)) == as_builtins(without)


def as_builtins(report: ServiceReport) -> Any:
    return msgspec.to_builtins(report, enc_hook=lambda crossing: (crossing.amount, crossing.money, crossing.whole))


AMOUNTS = st.floats(0, 1e15)
FLOWS = st.dictionaries(
    st.tuples(*(st.sampled_from(("a", "b", "c", "d", "")),) * 2),
    st.builds(Flow, st.integers(0, 10**9), AMOUNTS, AMOUNTS),
    max_size=9,
)
PODS = st.dictionaries(st.sampled_from(("a", "b", "c")), st.integers(1, 9))
SETTINGS = st.sampled_from([a_service(), a_service(distribution="PreferClose"), a_service(internal="Local")])


@given(st.lists(st.tuples(SETTINGS, PODS, FLOWS), min_size=1, max_size=3), st.sampled_from(["one", "both", None]))
@examples(25)
def test_bytes_are_conserved_and_saved_is_now_minus_predicted(
    services: list[tuple[Service, dict[str, int], dict[ZonePair, Flow]]], charge: Charge | None
) -> None:
    totals, reports = ReportTotals(), []
    for service, pods, flows in services:
        report = reported(a_cluster(service, **pods).settled(), flows, charge=charge)
        reports.append(report)
        measured = ServiceFlows(flows, {}, started_in(flows))
        totals.add(report, measured)
        everything = sum(flow.amount for flow in flows.values())
        near = 1e-6 * max(everything, 1.0)
        assert report.now.crossing.whole.value + measured.unknown == pytest.approx(everything, abs=near)
        assert 0 <= report.now.crossing.amount.value <= report.now.crossing.whole.value + near
        for setting in report.settings:
            if setting.dropped:
                assert (setting.crossing, setting.saved) == (None, None)
                continue
            assert setting.crossing is not None
            assert setting.saved is not None
            assert -near <= setting.crossing.amount.value <= report.now.crossing.whole.value + near
            assert setting.saved.amount.value == pytest.approx(
                report.now.crossing.amount.value - setting.crossing.amount.value, abs=near
            )
            assert (setting.saved.money is None) == (charge is None)
            if setting.saved.money and setting.crossing.money and report.now.crossing.money:
                assert setting.saved.money.value == pytest.approx(
                    report.now.crossing.money.value - setting.crossing.money.value, abs=near
                )
            for crossing in (setting.crossing, setting.saved, report.now.crossing):
                for figure in (crossing.amount, crossing.money or Figure()):
                    assert all(map(isfinite, figure.estimate(spread=2)))
                    share = figure.share_of(report.now.crossing.whole, spread=2)
                    assert share is None or all(map(isfinite, share))
        assert report.gain >= 0
    assert totals.now.whole.value == pytest.approx(sum(totals.flows.values()))
    assert totals.best.saved.weight == pytest.approx(
        sum(entry.gain for entry in reports), abs=1e-6 * totals.now.whole.value
    )
    for total in totals.settings.values():
        assert total.saved.weight == pytest.approx(
            totals.now.weight - total.crossing.weight, abs=1e-6 * max(totals.now.whole.value, 1.0)
        )
    assert [entry.gain for entry in ranked(reports)] == sorted((entry.gain for entry in reports), reverse=True)


def test_totals_count_a_service_of_two_address_families_once() -> None:
    flows = {("a", "b"): Flow(100, 1.0 * GB, 1.0 * GB), ("b", "a"): Flow(100, 1.0 * GB, 1.0 * GB)}
    report = reported(a_cluster(a=1, b=1), flows)
    assert report.best is not None
    families = [report, structs.replace(report, address_type="IPv6")]
    totals = ReportTotals()
    for family in (*families, structs.replace(report, service="next")):
        totals.add(family, ServiceFlows(flows, {}, started_in(flows)))
    assert totals.services == 2
    assert totals.best.best == 2
    assert max(total.active for total in totals.settings.values()) == 2
    assert totals.now.amount.value == pytest.approx(3 * report.now.crossing.amount.value)
