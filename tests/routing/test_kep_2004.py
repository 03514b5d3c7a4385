"""The test plan of KEP-2004 in both of its versions: every row of unit tests, under that row's name.

The first version calls the annotation's values ``Prefer`` and ``Random``, the second ``Auto`` and ``Disabled``; a third
approach is ``Require``. Clusters are planned from Pods and Nodes; what was before is read back from slices.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from math import ceil, floor
from random import Random
from typing import Final, NamedTuple

import pytest
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import CLUSTER, Cluster, endpoints_in, only_family, written
from tests.reference import kep_2004

from zoneward.kube import names
from zoneward.kube.objects import Condition, EndpointSlice, Number, Pod
from zoneward.routing.configuration import Configuration, HintsSettings, MissingCPU, SubsettingSettings
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import (
    ZONEWARD,
    HonoredHints,
    endpoints_of_port,
    select_endpoints,
    slice_groups,
)
from zoneward.slices.plan import ServicePlan


class Words(NamedTuple):
    """What a version of the proposal calls the approaches."""

    auto: str
    disabled: str
    require: str = "Require"


FIRST: Final = Words("Prefer", "Random")
SECOND: Final = Words("Auto", "Disabled")

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
    starting: str | None = None,
    algorithm: str | None = None,
    settings: SubsettingSettings | None = None,
) -> Cluster:
    return Cluster(
        service=a_service(subsetting=value, starting=starting, algorithm=algorithm),
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


def conditions(plan: ServicePlan) -> dict[str, Condition]:
    return {condition.type: condition for condition in plan.conditions}


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


# --- Single Approach Test ---------------------------------------------------------------------------------------------


def expect_approaches(words: Words, pods: Mapping[str, int], auto: Groups, *, cpu: Mapping[str, Number]) -> None:
    """All three approaches in one cluster: groups as given, each endpoint in its own zone's, and one group for all."""
    expect_groups(a_cluster(words.auto, pods, cpu=cpu).plan(), auto)
    own = {zone: {zone: count} for zone, count in sorted(pods.items()) if count}
    expect_groups(a_cluster(words.require, pods, cpu=cpu).plan(), own)
    expect_one_for_all(a_cluster(words.disabled, pods, cpu=cpu).plan(), {k: v for k, v in pods.items() if v})


def small_or_large_number_of_nodes(words: Words) -> None:
    """One Node a zone, or hundreds: only the zones' shares of them count."""
    even = {"a": {"a": 4}, "b": {"b": 4}, "c": {"c": 4}}
    expect_approaches(words, evenly(12), even, cpu=THREE_ZONES)
    for nodes_per_zone in (2, 300):
        nodes = tuple(a_node(f"node-{zone}-{index}", zone) for zone in "abc" for index in range(nodes_per_zone))
        cluster = a_cluster(words.auto, evenly(12))
        expect_groups(cluster.with_(nodes=(*cluster.nodes, *nodes)).plan(), even)
    # 401, 251 and 51 Nodes; the Pods are all on three of them.
    numbers = {"a": 401, "b": 251, "c": 51}
    pods = {"a": 20, "b": 20, "c": 20}
    nodes = tuple(a_node(f"node-{zone}-{index}", zone) for zone, count in numbers.items() for index in range(count - 1))
    cluster = a_cluster(words.auto, pods)
    expected = by_the_rules(numbers, pods)
    assert expected is not None
    assert expected["a"] != {"a": 20}
    expect_groups(cluster.with_(nodes=(*cluster.nodes, *nodes)).plan(), expected)


def random_or_imbalanced_endpoints(words: Words) -> None:
    """All in one zone, most in one zone, and forty random spreads, which the rules decide."""
    expect_approaches(words, {"a": 12}, {"a": {"a": 4}, "b": {"a": 4}, "c": {"a": 4}}, cpu=THREE_ZONES)
    expect_approaches(
        words, {"a": 10, "b": 1, "c": 1}, {"a": {"a": 4}, "b": {"a": 3, "b": 1}, "c": {"a": 3, "c": 1}}, cpu=THREE_ZONES
    )
    chance = Random(2004)
    active = 0
    for _ in range(40):
        nodes = {zone: chance.randint(1, 8) for zone in "abcd"}
        pods = {zone: chance.randint(0, 20) for zone in "abcd"}
        plan = a_cluster(words.auto, pods, cpu=nodes).plan()
        expected = by_the_rules(nodes, pods) if sum(pods.values()) >= 15 else None
        if expected is None:
            expect_one_for_all(plan, {zone: count for zone, count in pods.items() if count})
        else:
            expect_groups(plan, expected)
            active += 1
    assert active > 24


def zero_endpoints_in_some_zones(words: Words) -> None:
    """Under Auto the zone gets what it expects; under Require its group is empty, so that it uses all."""
    pods = {"a": 8, "b": 4, "c": 0}
    expect_approaches(words, pods, {"a": {"a": 4}, "b": {"b": 4}, "c": {"a": 4}}, cpu=THREE_ZONES)
    assert used(a_cluster(words.auto, pods), "c") == {"a": 4}
    assert used(a_cluster(words.require, pods), "c") == {"a": 8, "b": 4}
    assert used(a_cluster(words.require, pods), "b") == {"b": 4}
    expect_approaches(words, {"b": 14}, {"a": {"b": 4}, "b": {"b": 6}, "c": {"b": 4}}, cpu=THREE_ZONES)


def used(cluster: Cluster, zone: str) -> dict[str, int]:
    """The endpoints that a proxy of our own uses in a zone, by where they are."""
    slices = only_family(cluster.plan()).slices
    selection = select_endpoints(
        tuple(endpoints_of_port(slices, "http").values()),
        policies=CLUSTER,
        honored=HonoredHints(zones=True, nodes=True),
        node="",
        zone=zone,
        groups=slice_groups(slices, ZONEWARD, cluster.configuration.gates),
    )
    return dict(Counter(endpoint.zone or "" for endpoint in selection.cluster or ()))


def invalid_annotation(words: Words) -> None:
    """It is as Disabled, and the condition Accepted says why; what was in force before is removed."""
    settled = a_cluster(words.auto, evenly(30)).settled()
    assert len(settled.slices) == 3
    for value in ("disable", "AUTO", " Auto", "prefer", "require", "RequireZone", "local", "true", "Banana"):
        plan = settled.with_(service=a_service(subsetting=value)).plan()
        expect_one_for_all(plan, evenly(30))
        assert reason(plan) is Reason.UNKNOWN_VALUE
        accepted = conditions(plan)[names.ACCEPTED_CONDITION]
        assert (accepted.status, accepted.reason) == ("False", "UnknownValue")
        assert repr(value) in accepted.message


# --- Auto Test --------------------------------------------------------------------------------------------------------


def invalid_starting_threshold(words: Words) -> None:
    """Three endpoints a zone again, with a rule and a condition that say so; it starts where that condition is met."""
    for value in ("", "0", "-1", "banana", "1001"):
        below, enough = (a_cluster(words.auto, evenly(total), starting=value).plan() for total in (11, 12))
        expect_one_for_all(below, evenly(11))
        assert reason(below) is Reason.BELOW_STARTING_THRESHOLD
        expect_groups(enough, {"a": {"a": 4}, "b": {"b": 4}, "c": {"c": 4}})
        for plan, programmed in ((below, "False"), (enough, "True")):
            rules = {rule.rule: rule for rule in only_family(plan).decision.rules}
            assert not rules["starting-threshold-annotation"].passed
            assert "so 3 is used" in rules["starting-threshold-annotation"].detail
            told = conditions(plan)
            assert told[names.ACCEPTED_CONDITION].status == "False"
            assert "so 3 is used" in told[names.ACCEPTED_CONDITION].message
            assert told[names.PROGRAMMED_CONDITION].status == programmed


def auto_endpoints_below_starting_threshold_plus_padding(words: Words) -> None:
    """With three zones that is 12: with fewer there is one slice, as without subsetting."""
    for index in range(12):
        plan = a_cluster(words.auto, evenly(index)).plan()
        expect_one_for_all(plan, {zone: count for zone, count in evenly(index).items() if count})
        assert reason(plan) is (Reason.BELOW_STARTING_THRESHOLD if index else Reason.NO_READY_ENDPOINTS)


def auto_endpoints_above_starting_threshold_plus_padding(words: Words) -> None:
    for total in (12, 13, 14, 50, 101, 400):
        pods = evenly(total)
        expect_groups(a_cluster(words.auto, pods).plan(), {zone: {zone: count} for zone, count in pods.items()})


# --- Approach Transition Test -----------------------------------------------------------------------------------------


def increase_to_between_starting_threshold_and_padding(words: Words) -> None:
    """9, 10 and 11 are not enough for what is off; the update writes the one slice there is."""
    for before in (3, 8):
        for total in (9, 10, 11):
            cluster = a_cluster(words.auto, evenly(before)).settled().with_(pods=pods_in(evenly(total)))
            plan = cluster.plan()
            expect_one_for_all(plan, evenly(total))
            assert reason(plan) is Reason.BELOW_STARTING_THRESHOLD
            assert len(written(plan)) == 1


def increase_to_above_starting_threshold_plus_padding(words: Words) -> None:
    """From one slice for all to one a zone; at 12 already. Nobody else writes anything after that."""
    for total in (12, 13, 30):
        before = a_cluster(words.auto, evenly(11)).settled()
        expect_one_for_all(a_cluster(words.auto, evenly(11)).plan(), evenly(11))
        plan = before.with_(pods=pods_in(evenly(total))).plan()
        expect_groups(plan, {zone: {zone: count} for zone, count in evenly(total).items()})
        assert len(only_family(plan).changes.after) == 3
        assert not written(before.with_(pods=pods_in(evenly(total))).after(plan).plan())


def decrease_to_between_starting_threshold_and_padding(words: Words) -> None:
    """What is on stays on, one endpoint after the other, down to 7; each step writes only the slice that loses one."""
    cluster = a_cluster(words.auto, evenly(12)).settled()
    for total in (11, 10, 9, 8, 7):
        cluster = cluster.with_(pods=pods_in(evenly(total)))
        plan = cluster.plan()
        expect_groups(plan, {zone: {zone: count} for zone, count in evenly(total).items()})
        assert len(written(plan)) == 1
        cluster = cluster.after(plan)
    # And in one go.
    expect_groups(
        a_cluster(words.auto, evenly(12)).settled().with_(pods=pods_in(evenly(8))).plan(),
        {"a": {"a": 3}, "b": {"b": 3}, "c": {"c": 2}},
    )


def decrease_to_below_starting_threshold_minus_padding(words: Words) -> None:
    """At 6 already it is off, and back in one slice for all."""
    settled = a_cluster(words.auto, evenly(12)).settled()
    for total in (6, 5, 1):
        plan = settled.with_(pods=pods_in(evenly(total))).plan()
        expect_one_for_all(plan, {zone: count for zone, count in evenly(total).items() if count})
        assert reason(plan) is Reason.BELOW_STARTING_THRESHOLD
        # Once off, it takes 12 again.
        off = settled.with_(pods=pods_in(evenly(total))).after(plan)
        expect_one_for_all(off.with_(pods=pods_in(evenly(11))).plan(), evenly(11))


def manually_change_the_annotation_to_another_approach(words: Words) -> None:
    """All six ways from one of the three to another; Pods are mostly in zone a, so that all three look different."""
    pods = {"a": 8, "b": 4, "c": 1}
    expected: dict[str, Groups] = {
        words.auto: {"a": {"a": 5}, "b": {"b": 4}, "c": {"a": 3, "c": 1}},
        words.require: {"a": {"a": 8}, "b": {"b": 4}, "c": {"c": 1}},
        words.disabled: {"": pods},
    }
    in_force = {words.auto: "Subsetting/local", words.require: "Subsetting/RequireZone", words.disabled: None}
    ways = tuple(permutations(expected, 2))
    assert len(ways) == 6
    for before, after in ways:
        settled = a_cluster(before, pods).settled()
        assert groups_in(settled.slices) == expected[before]
        changed = settled.with_(service=a_service(subsetting=after))
        plan = changed.plan()
        assert groups_of(plan) == expected[after]
        assert only_family(plan).decision.in_force == in_force[after]
        assert not written(changed.after(plan).plan())


def disabled_to_another_approach_and_back(words: Words) -> None:
    """The same one slice for all in the end, with the same endpoints."""
    pods = {"a": 8, "b": 4, "c": 1}
    first = a_cluster(words.disabled, pods).settled()
    for value in (words.require, words.auto):
        there = first.with_(service=a_service(subsetting=value)).settled()
        assert set(groups_in(there.slices)) == {"a", "b", "c"}
        back = there.with_(service=first.service).settled()
        expect_one_for_all(back.plan(), pods)
        assert not written(back.plan())
        assert {e.addresses for e in endpoints_in(back.slices)} == {e.addresses for e in endpoints_in(first.slices)}


# --- the tables -------------------------------------------------------------------------------------------------------

ROWS: Final[Mapping[str, Callable[[Words], None]]] = {
    test.__name__: test
    for test in (
        small_or_large_number_of_nodes,
        random_or_imbalanced_endpoints,
        zero_endpoints_in_some_zones,
        invalid_annotation,
        invalid_starting_threshold,
        auto_endpoints_below_starting_threshold_plus_padding,
        auto_endpoints_above_starting_threshold_plus_padding,
        increase_to_between_starting_threshold_and_padding,
        increase_to_above_starting_threshold_plus_padding,
        decrease_to_between_starting_threshold_and_padding,
        decrease_to_below_starting_threshold_minus_padding,
        manually_change_the_annotation_to_another_approach,
        disabled_to_another_approach_and_back,
    )
}


@pytest.mark.parametrize("words", [FIRST, SECOND], ids=["first version", "second version"])
@pytest.mark.parametrize("row", ROWS)
def test_row(row: str, words: Words) -> None:
    ROWS[row](words)


# --- exact bounds -----------------------------------------------------------------------------------------------------


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


def test_the_threshold_of_the_service_counts_instead_of_the_controller_s() -> None:
    for total, active in ((8, False), (9, True)):
        assert only_family(a_cluster("Auto", evenly(total), starting="2").plan()).decision.active is active


def test_only_ready_endpoints_count_for_the_threshold() -> None:
    """Twelve Pods of which one is not ready are eleven endpoints; twelve of which six are ready are off again."""
    twelve = pods_in(evenly(12))
    almost = a_cluster("Auto", {}).with_(pods=(not_ready(twelve[0]), *twelve[1:]))
    assert reason(almost.plan()) is Reason.BELOW_STARTING_THRESHOLD
    settled = a_cluster("Auto", evenly(12)).settled()
    for unready_count, active in ((5, True), (6, False)):
        # One of each zone in turn, so that nobody is overloaded by it.
        leaving = {f"{zone}-{index:04}" for index in range(2) for zone in "abc"}
        chosen = sorted(leaving, key=lambda name: name[::-1])[:unready_count]
        pods = tuple(not_ready(pod) if pod.metadata.name in chosen else pod for pod in twelve)
        assert only_family(settled.with_(pods=pods).plan()).decision.active is active


def not_ready(pod: Pod) -> Pod:
    return a_pod(pod.metadata.name, pod.spec.node_name, ips=[ip.ip for ip in pod.status.pod_ips or ()], ready=False)


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
