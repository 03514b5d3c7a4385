"""Hints that are kept: as long as little traffic is lost to other zones, and moved as little as possible then."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.builders.structs import a_pod, a_service, a_slice, an_endpoint, hints, nodes_in, pods_in
from tests.clusters import Cluster, only_family, written
from tests.properties.random_clusters import examples

from zoneward.kube.objects import EndpointSlice, Pod
from zoneward.routing.allocation import measures_of
from zoneward.routing.configuration import Configuration, HintsSettings
from zoneward.routing.score import IN_ZONE
from zoneward.slices.plan import FamilyPlan

AUTO: Final = "Hints/ProportionalZoneCPU"
TOLERANCE: Final = HintsSettings().in_zone_tolerance


def configured(tolerance: Fraction) -> Configuration:
    return Configuration(hints=HintsSettings(in_zone_tolerance=tolerance))


def hinted(located: str, serves: str) -> tuple[tuple[Pod, ...], EndpointSlice]:
    """Pods by where they are (a letter each), and their slice, in which each serves the zone of the other letter."""
    numbers = dict.fromkeys(located, 0)
    pods, endpoints = [], []
    for zone, served in zip(located, serves, strict=True):
        (pod,) = pods_in({zone: numbers[zone] + 1})[numbers[zone] :]
        numbers[zone] += 1
        pods.append(pod)
        name, address = pod.metadata.name, pod.status.pod_ip
        endpoints.append(an_endpoint(address, zone, node=f"node-{zone}", pod=name, hinted=hints(served)))
    return tuple(pods), a_slice("cart-1", *endpoints, in_force=AUTO)


def kept(located: str, serves: str, *, tolerance: Fraction = TOLERANCE, cpu: Sequence[int] = (4, 4, 4)) -> Cluster:
    """A cluster of as many zones as there are numbers, in which hints are in force."""
    pods, slice_ = hinted(located, serves)
    nodes = nodes_in(dict(zip("abcd", cpu, strict=False)))
    configuration = configured(tolerance)
    return Cluster(service=a_service("Auto"), nodes=nodes, pods=pods, slices=(slice_,), configuration=configuration)


def tolerated(family: FamilyPlan) -> bool | None:
    """The answer of the rule; None where it was not asked."""
    return next((rule.passed for rule in family.decision.rules if rule.rule == "in-zone-tolerance"), None)


def in_zone(cluster: Cluster, family: FamilyPlan) -> float:
    """As the decision itself predicts it."""
    allocation = family.decision.allocation
    assert allocation is not None
    return measures_of(allocation, cluster.cluster_state.demand.reduced)[IN_ZONE]


def anew(cluster: Cluster) -> FamilyPlan:
    """What the plan is where nothing was written before."""
    return only_family(cluster.with_(slices=()).plan())


@pytest.mark.parametrize(("tolerance", "stays"), [("1/4", True), ("2499/10000", False), ("0", False), ("1", True)])
def test_what_is_within_the_tolerance_stays_where_it_is(tolerance: str, stays: bool) -> None:
    """One of four in each zone serves the other one: a quarter of the traffic leaves its zone."""
    family = only_family(kept("aaaabbbb", "aaabbbba", cpu=(4, 4), tolerance=Fraction(tolerance)).plan())
    assert tolerated(family) is stays
    assert family.decision.moved == (0 if stays else 2)


def test_the_rule_tells_the_loss_and_the_tolerance() -> None:
    (rule,) = (
        rule
        for rule in only_family(kept("aaaabbbb", "aabbaabb", cpu=(4, 4)).plan()).decision.rules
        if rule.rule == "in-zone-tolerance"
    )
    assert rule.detail == "50 % less traffic in its zone than with a new allocation, 10 % at most"


def test_who_serves_another_zone_goes_on_serving_it() -> None:
    located = "aaaaaaaa" + "bb" + "cc"
    serves = "ccbbaabc" + "ab" + "ca"
    cluster = kept(located, serves)
    family = only_family(cluster.plan())
    assert tolerated(family) is False
    assert in_zone(cluster, family) == in_zone(cluster, anew(cluster))
    served = {
        one.target_ref.name: one.hints.for_zones[0].name
        for slice_ in family.slices
        for one in slice_.endpoints or ()
        if one.target_ref and one.hints and one.hints.for_zones
    }
    assert [served[f"a-000{index}"] for index in range(4)] == list("ccbb")
    assert family.decision.moved == 4


def test_with_compat_upstream_no_tolerance_is_asked() -> None:
    plans = [
        cluster.with_(configuration=cluster.configuration.as_upstream()).plan()
        for tolerance in ("0", "1/10", "1")
        for cluster in (kept("aaaabbbb", "aabbaabb", cpu=(4, 4), tolerance=Fraction(tolerance)),)
    ]
    assert plans[0].families[0].changes == plans[1].families[0].changes == plans[2].families[0].changes
    assert {tolerated(only_family(plan)) for plan in plans} == {None}


def in_three_zones(pods: int, threshold: str | None) -> Cluster:
    return Cluster(
        service=a_service("Auto", threshold=threshold),
        nodes=nodes_in({"a": 4, "b": 4, "c": 4}),
        pods=pods_in({"a": pods - 2, "b": 1, "c": 1}),
    )


@pytest.mark.parametrize(("threshold", "is_on"), [(None, False), ("20%", False), ("0.33", False), ("34%", True)])
def test_hints_start_below_the_service_s_own_threshold(threshold: str | None, is_on: bool) -> None:
    """Four endpoints in three zones: one zone and another are a third above fair."""
    assert only_family(in_three_zones(4, threshold).plan()).decision.active is is_on


@pytest.mark.parametrize(("threshold", "stays"), [("25%", True), ("23%", False)])
def test_hints_are_kept_ten_points_above_the_service_s_own_threshold(threshold: str, stays: bool) -> None:
    before = in_three_zones(6, threshold).settled()
    family = only_family(before.with_(pods=in_three_zones(4, threshold).pods).plan())
    assert family.decision.active is stays


@st.composite
def updates(draw: st.DrawFn) -> Cluster:
    """Two to four zones with hints in force, after a few updates that were carried out, and one that was not."""
    zones = "abcd"[: draw(st.integers(2, 4))]
    pods = list(pods_in({zone: draw(st.integers(0, 8)) for zone in zones}))
    cluster = Cluster(
        service=a_service("Auto"),
        nodes=nodes_in({zone: draw(st.integers(1, 5)) for zone in zones}),
        pods=tuple(pods),
        configuration=configured(draw(st.sampled_from((Fraction(0), TOLERANCE, TOLERANCE, Fraction(1))))),
    )
    created = 0
    for _ in range(draw(st.integers(1, 4))):
        cluster = cluster.settled()
        for index in sorted(draw(st.sets(st.integers(0, max(len(pods) - 1, 0)), max_size=5)), reverse=True):
            if index < len(pods):
                del pods[index]
        for zone in draw(st.lists(st.sampled_from(zones), max_size=5)):
            created += 1
            pods.append(a_pod(f"new-{created:02}", f"node-{zone}", ips=(f"10.200.0.{created}",)))
        cluster = cluster.with_(pods=tuple(pods), nodes=nodes_in({zone: draw(st.integers(1, 5)) for zone in zones}))
    return cluster


@examples(50)
@given(updates())
def test_a_plan_is_never_more_than_the_tolerance_behind_one_from_nothing(cluster: Cluster) -> None:
    family, fresh = only_family(cluster.plan()), anew(cluster)
    without = only_family(cluster.with_(configuration=configured(Fraction(1))).plan())
    if tolerated(family) is not False:
        assert family.changes == without.changes
    if family.decision.active and fresh.decision.active:
        behind = in_zone(cluster, fresh) - in_zone(cluster, family)
        event(f"tolerated: {tolerated(family)}, behind: {behind > 1e-9}")
        assert behind <= float(cluster.configuration.hints.in_zone_tolerance) + 1e-9
        assert tolerated(family) is not False or behind <= 1e-9
    again = cluster.settled().plan()
    assert not written(again)
    assert tolerated(only_family(again)) is not False
