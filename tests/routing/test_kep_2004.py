"""Exact bounds of subsetting (KEP-2004). Scenarios prove each row of the test plan: `tests/scenarios/README.md`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from random import Random
from typing import Final

import pytest
from tests.builders.structs import a_node, a_service, nodes_in, not_ready, pods_in
from tests.clusters import Cluster, endpoints_in, only_family
from tests.reference import kep_2004

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Number
from zoneward.routing.configuration import Configuration, HintsSettings, MissingCPU, SubsettingSettings
from zoneward.routing.rules import Reason
from zoneward.slices.plan import ServicePlan

THREE_ZONES: Final[Mapping[str, Number]] = {"a": 4, "b": 4, "c": 4}
"""Alike, so that subsetting starts at 12 endpoints and stops at 6."""

Groups = dict[str, dict[str, int]]
"""Endpoints by the zones that consume them, as slices say it (``""`` for all), and by the zone where they are."""


def evenly(total: int, zones: str = "abc") -> dict[str, int]:
    """``total`` Pods, spread over the zones as evenly as possible."""
    return {zone: (total + len(zones) - 1 - index) // len(zones) for index, zone in enumerate(zones)}


def a_cluster(
    value: str,
    pods: Mapping[str, int],
    *,
    cpu: Mapping[str, Number] = THREE_ZONES,
    algorithm: str | None = None,
    settings: SubsettingSettings | None = None,
) -> Cluster:
    return Cluster(
        service=a_service(subsetting=value, algorithm=algorithm),
        nodes=nodes_in(cpu),
        pods=pods_in(pods),
        configuration=Configuration(subsetting=settings if settings is not None else SubsettingSettings()),
    )


def consumers(slice_: EndpointSlice) -> str:
    """The zones of a slice, by nothing but the text of its annotation or label."""
    annotation = (slice_.metadata.annotations or {}).get(names.ZONES_ANNOTATION)
    return annotation or (slice_.metadata.labels or {}).get(names.ZONE_LABEL, "")


def groups_in(slices: Sequence[EndpointSlice]) -> Groups:
    groups: dict[str, Counter[str]] = {}
    for slice_ in slices:
        for endpoint in slice_.endpoints or ():
            groups.setdefault(consumers(slice_), Counter())[endpoint.zone or ""] += 1
    return {zones: dict(located) for zones, located in sorted(groups.items())}


def groups_of(plan: ServicePlan) -> Groups:
    return groups_in(only_family(plan).changes.after)


def expect_groups(plan: ServicePlan, expected: Groups) -> None:
    assert groups_of(plan) == expected
    assert only_family(plan).decision.active


def expect_one_for_all(plan: ServicePlan, pods: Mapping[str, int]) -> None:
    """As without subsetting: one slice, without label or annotation."""
    (only,) = only_family(plan).changes.after
    assert Counter(endpoint.zone for endpoint in only.endpoints or ()) == Counter(pods)
    assert consumers(only) == ""
    assert names.APPROACH_ANNOTATION not in (only.metadata.annotations or {})
    assert not only_family(plan).decision.active


def reason(plan: ServicePlan) -> Reason:
    return only_family(plan).decision.reason


def by_the_rules(nodes: Mapping[str, int], pods: Mapping[str, int], algorithm: str = "local") -> Groups | None:
    """What the independent implementation makes of the numbers; None where its rules end in random."""
    zones = sorted(nodes)
    allocated = kep_2004.allocate(algorithm, [nodes[zone] for zone in zones], [pods.get(zone, 0) for zone in zones])
    if allocated is None:
        return None
    groups: Groups = {}
    for group in allocated:
        # Only own groups and those that all zones consume alike are asked for here.
        consuming = [zone for zone, weight in zip(zones, group.weights, strict=True) if weight]
        key = "" if len(consuming) == len(zones) else ",".join(consuming)
        groups[key] = {zone: count for zone, count in zip(zones, group.located, strict=True) if count}
    return dict(sorted(groups.items()))


def test_groups_of_random_clusters_are_those_of_the_independent_implementation() -> None:
    chance = Random(2004)
    active = 0
    for _ in range(40):
        nodes = {zone: chance.randint(1, 8) for zone in "abcd"}
        pods = {zone: chance.randint(0, 20) for zone in "abcd"}
        plan = a_cluster("Auto", pods, cpu=nodes).plan()
        expected = by_the_rules(nodes, pods) if sum(pods.values()) >= 15 else None
        if expected is None:
            expect_one_for_all(plan, {zone: count for zone, count in pods.items() if count})
        else:
            expect_groups(plan, expected)
            active += 1
    assert active > 24


def started(zones: str, total: int, settings: SubsettingSettings, *, before: int | None = None) -> bool:
    """Whether subsetting is on with ``total`` Pods, alone or after a settled cluster of ``before`` Pods."""
    cpu = dict.fromkeys(zones, 4)
    cluster = a_cluster("Auto", evenly(total if before is None else before, zones), cpu=cpu, settings=settings)
    if before is not None:
        cluster = cluster.settled().with_(pods=pods_in(evenly(total, zones)))
    return only_family(cluster.plan()).decision.active


@pytest.mark.parametrize("padding", [0, 3, 5])
@pytest.mark.parametrize("threshold", ["3", "2.5"])
@pytest.mark.parametrize("zones", ["ab", "abcde"])
def test_it_starts_and_stops_exactly_at_the_bounds(zones: str, threshold: str, padding: int) -> None:
    """On at n >= threshold x zones + padding, off at n <= threshold x zones - padding, else as before.

    The algorithm is the one that no number of endpoints overloads, so that nothing else stops it."""
    settings = SubsettingSettings(algorithm="random", starting_threshold=Fraction(threshold), padding=padding)
    middle = Fraction(threshold) * len(zones)
    start, stop = ceil(middle + padding), floor(middle - padding)
    many = 3 * start
    assert not started(zones, start - 1, settings)
    assert started(zones, start, settings)
    if start > stop:
        assert stop < 1 or not started(zones, stop, settings, before=many)
        assert started(zones, max(stop + 1, 1), settings, before=many)
        for index in range(max(stop + 1, 2), start):
            assert not started(zones, index, settings, before=index - 1)
            assert started(zones, index, settings, before=many)
    else:
        # What starts at n = 3 x zones does not stop there, or it would switch on and off with every plan.
        assert not started(zones, stop - 1, settings, before=many)
        assert started(zones, start, settings, before=start)


def test_only_ready_endpoints_count_for_the_threshold() -> None:
    """Twelve Pods of which one is not ready are eleven endpoints; twelve of which six are ready are off again."""
    twelve = pods_in(evenly(12))
    almost = a_cluster("Auto", {}).with_(pods=not_ready(twelve, twelve[0].metadata.name))
    assert reason(almost.plan()) is Reason.BELOW_STARTING_THRESHOLD
    settled = a_cluster("Auto", evenly(12)).settled()
    for unready_count, active in ((5, True), (6, False)):
        # One of each zone in turn, so that nobody is overloaded by it.
        leaving = {f"{zone}-{index:04}" for index in range(2) for zone in "abc"}
        chosen = sorted(leaving, key=lambda name: name[::-1])[:unready_count]
        pods = not_ready(twelve, *chosen)
        assert only_family(settled.with_(pods=pods).plan()).decision.active is active


@pytest.mark.parametrize("total", [7, 11])
def test_what_was_required_is_nothing_that_stays_on_under_auto(total: int) -> None:
    settled = a_cluster("Require", evenly(total)).settled()
    assert set(groups_in(settled.slices)) == {"a", "b", "c"}
    plan = settled.with_(service=a_service(subsetting="Auto")).plan()
    expect_one_for_all(plan, evenly(total))
    assert reason(plan) is Reason.BELOW_STARTING_THRESHOLD


def test_between_the_bounds_hints_stay_on_as_groups_do() -> None:
    """With the encoding ``hints``, what was before is read back from slices that have no label."""
    settings = SubsettingSettings(encoding="hints")
    assert not only_family(a_cluster("Auto", evenly(11), settings=settings).plan()).decision.active
    settled = a_cluster("Auto", evenly(12), settings=settings).settled()
    assert len(settled.slices) == 1
    for total, active in ((11, True), (7, True), (6, False)):
        plan = settled.with_(pods=pods_in(evenly(total))).plan()
        assert only_family(plan).decision.active is active
        hinted = {endpoint.hints is not None for endpoint in endpoints_in(only_family(plan).slices)}
        assert hinted == {active}


@pytest.mark.parametrize("missing", ["count-nodes", "disable"])
def test_where_a_node_has_no_cpu_nodes_are_counted(missing: MissingCPU) -> None:
    """KEP-2004 § Assumptions. What the setting for hints does is of no meaning here: three Nodes, one and one."""
    nodes = (*nodes_in({"a": 4, "b": 40, "c": 40}), a_node("more-1", "a", cpu=4), a_node("more-2", "a", cpu=None))
    cluster = a_cluster("Auto", {"a": 5, "b": 5, "c": 5}).with_(
        nodes=nodes, configuration=Configuration(hints=HintsSettings(missing_cpu=missing))
    )
    expected = by_the_rules({"a": 3, "b": 1, "c": 1}, {"a": 5, "b": 5, "c": 5})
    assert expected == {"a": {"a": 5, "b": 2, "c": 2}, "b": {"b": 3}, "c": {"c": 3}}
    expect_groups(cluster.plan(), expected)
