"""Hints are on exactly where some assignment of endpoints to zones stays below the threshold in force."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster, endpoints_in, only_family, overload_threshold
from tests.properties.random_clusters import BALANCED, clusters, examples

from zoneward.kube.objects import is_ready
from zoneward.routing.algorithms.heuristics import PROPORTIONAL_ZONE_CPU
from zoneward.routing.allocation import Supply, allocate, threshold_parameters
from zoneward.routing.configuration import Configuration, HintsSettings
from zoneward.routing.rules import Reason

START, KEEP = HintsSettings().start_threshold, HintsSettings().keep_threshold
ZONES = ("a", "b", "c", "d")
MOST_ENDPOINTS = 8


def least_overload(demand: Mapping[str, int], endpoints: int) -> Fraction | None:
    """The least that the worst zone can be overloaded by, over all assignments; None where a zone must get nothing."""
    total = sum(demand.values())
    overloads = [
        max(Fraction(endpoints * weight, total * assigned.count(zone)) - 1 for zone, weight in demand.items())
        for assigned in combinations_with_replacement(demand, endpoints)
        if set(assigned) == set(demand)
    ]
    return min(overloads, default=None)


def every_demand() -> Iterator[tuple[int, ...]]:
    for zones in (2, 3, 4):
        yield from product((1, 2, 3, 5), repeat=zones)


@pytest.mark.parametrize("endpoints", range(1, MOST_ENDPOINTS + 1))
def test_the_heuristic_allocates_wherever_an_assignment_exists(endpoints: int) -> None:
    """All demands in these weights, at both thresholds. All endpoints are in the last zone, so that they must move."""
    for weights in every_demand():
        zones = ZONES[: len(weights)]
        least = least_overload(dict(zip(zones, weights, strict=True)), endpoints)
        for threshold in (START, KEEP):
            allocation = allocate(
                PROPORTIONAL_ZONE_CPU,
                dict(zip(zones, weights, strict=True)),
                Supply({zones[-1]: endpoints}),
                parameters=threshold_parameters(threshold, START),
            )
            assert (allocation is not None) == (least is not None and least < threshold), (weights, least)


@examples(75)
@given(clusters(setting=BALANCED, most_zones=4, most_pods=MOST_ENDPOINTS, tidy=True, others=False))
def test_hints_are_on_exactly_where_an_assignment_exists(cluster: Cluster) -> None:
    """At any moment of a cluster's life, where nothing but numbers prevents hints."""
    demand = cluster.cluster_state.demand
    for family in cluster.plan().families:
        if len(demand.zones) < 2:
            assert not family.decision.active
            continue
        ready = sum(map(is_ready, endpoints_in(family.changes.after)))
        least = least_overload(demand.weight_of, ready)
        threshold = overload_threshold(cluster, family)
        assert family.decision.active == (least is not None and least < threshold)
        if not family.decision.active:
            assert family.decision.reason in (Reason.TOO_FEW_ENDPOINTS, Reason.OVERLOAD)


def test_twelve_endpoints_in_five_equal_zones_are_exactly_at_20_percent_and_so_refused() -> None:
    """2.4 expected and 2 consumed: strictly below means that no rounding may decide. Just above 20 % they start."""
    assert least_overload(dict.fromkeys("abcde", 1), 12) == Fraction(1, 5)
    nodes, pods = nodes_in(dict.fromkeys("abcde", "3920m")), pods_in({"a": 12})
    cluster = Cluster(service=a_service("Auto"), nodes=nodes, pods=pods)
    decision = only_family(cluster.plan()).decision
    assert (decision.active, decision.reason) == (False, Reason.OVERLOAD)
    above = HintsSettings(start_threshold=Fraction(1, 5) + Fraction(1, 10**9))
    assert only_family(cluster.with_(configuration=Configuration(hints=above)).plan()).decision.active


def test_thirteen_endpoints_in_ten_equal_zones_are_exactly_at_30_percent_and_so_not_kept() -> None:
    """1.3 expected and 1 consumed. Ten are exactly fair, and twelve are at 20 %, which is kept."""
    zones = "abcdefghij"
    before = Cluster(
        service=a_service("Auto"), nodes=nodes_in(dict.fromkeys(zones, 2)), pods=pods_in(dict.fromkeys(zones, 1))
    ).settled()
    for more, active in ((1, True), (2, True), (3, False)):
        pods = pods_in({**dict.fromkeys(zones, 1), "a": 1 + more})
        assert only_family(before.with_(pods=pods).plan()).decision.active == active
