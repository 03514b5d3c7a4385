"""Lazy rebalance, from slices to slices (KEP-2004 § Optimizations): an update that overloads nobody is all there is.

A full rebalance to compare with is the same plan from slices that do not say what was in force: they hold the same
groups, and nothing to be lazy about.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Final

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster, only_family, written
from tests.properties.random_clusters import examples

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Pod
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.slices.existing import approach_of_slice
from zoneward.slices.plan import FamilyPlan

ALGORITHMS: Final = tuple(SUBSETTING_ALGORITHMS)

Zones = tuple[str, ...]
"""Those that consume a slice; none where all do."""


def stripped(slices: Iterable[EndpointSlice]) -> tuple[EndpointSlice, ...]:
    """The same slices without the annotation that says what was in force."""
    return tuple(
        replace(
            slice_,
            metadata=replace(
                slice_.metadata,
                annotations={
                    name: value
                    for name, value in (slice_.metadata.annotations or {}).items()
                    if name != names.APPROACH_ANNOTATION
                }
                or None,
            ),
        )
        for slice_ in slices
    )


def full(cluster: Cluster) -> FamilyPlan:
    """The plan of a cluster without laziness."""
    return only_family(cluster.with_(slices=stripped(cluster.slices)).plan())


def changed(family: FamilyPlan, before: Iterable[EndpointSlice]) -> int:
    """Slices that are created, deleted, or differ in more than that annotation."""
    by_name = {slice_.metadata.name: slice_ for slice_ in stripped(before)}
    updated = sum(1 for slice_ in stripped(family.changes.update) if slice_ != by_name[slice_.metadata.name])
    return updated + len(family.changes.create) + len(family.changes.delete)


def zones_of(slice_: EndpointSlice) -> Zones:
    annotation = (slice_.metadata.annotations or {}).get(names.ZONES_ANNOTATION)
    if annotation:
        return tuple(part.partition("=")[0] for part in annotation.split(","))
    label = (slice_.metadata.labels or {}).get(names.ZONE_LABEL)
    return (label,) if label else ()


def groups_in(slices: Iterable[EndpointSlice], everybody: Zones = ()) -> dict[str, Zones]:
    """The zones that consume each Pod; ``everybody`` where all do."""
    return {
        endpoint.target_ref.name: zones_of(slice_) or everybody
        for slice_ in slices
        for endpoint in slice_.endpoints or ()
        if endpoint.target_ref is not None
    }


def zones_in(cluster: Cluster) -> Zones:
    return cluster.cluster_state.demand.zones


def moved_by(family: FamilyPlan, cluster: Cluster) -> set[str]:
    """Pods that were in a group, and that other zones consume now; where a decision starts, also those that were in
    none, and that their own zone does not consume now."""
    after = groups_in(family.slices, zones_in(cluster))
    before = groups_in(cluster.slices)
    located = {
        endpoint.target_ref.name: endpoint.zone or ""
        for slice_ in family.slices
        for endpoint in slice_.endpoints or ()
        if endpoint.target_ref is not None
    }
    starts = is_start(family, cluster.slices)
    return {
        name
        for name, zones in after.items()
        if (zones != before[name] if before.get(name) else starts and located[name] not in zones)
    }


def is_start(family: FamilyPlan, slices: Iterable[EndpointSlice]) -> bool:
    """Whether the slices were written for something else."""
    written_for = {(slice_.metadata.annotations or {}).get(names.APPROACH_ANNOTATION) for slice_ in slices}
    return written_for != {family.decision.in_force}


def laziness(family: FamilyPlan) -> bool | None:
    """The answer of the rule; None where it was not asked."""
    return next((rule.passed for rule in family.decision.rules if rule.rule == "lazy-rebalance"), None)


def a_cluster(
    pods: Mapping[str, int], *, algorithm: str = "local", settings: SubsettingSettings | None = None
) -> Cluster:
    return Cluster(
        service=a_service(subsetting="Auto", algorithm=algorithm),
        nodes=nodes_in({"a": 4, "b": 4, "c": 4}),
        pods=pods_in(pods),
        configuration=Configuration(subsetting=settings if settings is not None else SubsettingSettings()),
    )


@dataclass(frozen=True)
class Churn:
    """What a rolling update came to: slices changed, endpoints moved, and the share of traffic in its zone after it."""

    changed: int
    moved: int
    in_zone: float


def rolling_update(pods: Mapping[str, int], *, lazy: bool, any_zone: bool) -> Churn:
    """Every Pod is replaced, one at a time, in a random order that is always the same; with ``any_zone``, the new Pod
    lands in a random zone.

    The controller syncs after every Pod that is added or removed."""
    chance = Random(2004)
    old = list(pods_in(pods))
    chance.shuffle(old)
    nodes = [pod.spec.node_name for pod in old]
    if any_zone:
        chance.shuffle(nodes)
    cluster = a_cluster(pods).settled()
    running = {pod.metadata.name: pod for pod in old}
    slices = moved = 0
    in_zone = 0.0
    for index, (leaving, node) in enumerate(zip(old, nodes, strict=True)):
        coming = a_pod(f"new-{index:04}", node, ips=(f"10.200.0.{index + 1}",))
        for step in (coming, leaving):
            if step is coming:
                running[coming.metadata.name] = coming
            else:
                del running[leaving.metadata.name]
            before = cluster.slices if lazy else stripped(cluster.slices)
            cluster = cluster.with_(slices=before, pods=tuple(running.values()))
            plan = cluster.plan()
            family = only_family(plan)
            assert family.decision.active
            slices += changed(family, before)
            moved += family.decision.moved
            assert family.traffic is not None
            assert family.traffic.in_zone is not None
            in_zone = family.traffic.in_zone
            cluster = cluster.after(plan)
    return Churn(slices, moved, in_zone)


@pytest.mark.parametrize("any_zone", [False, True], ids=["in the same zone", "in any zone"])
def test_a_rolling_update_changes_fewer_slices_than_without_laziness(any_zone: bool) -> None:
    """80 Pods in zones that expect 26.7 each. At least one slice changes each time; laziness is near that."""
    lazy, without = (
        rolling_update({"a": 40, "b": 24, "c": 16}, lazy=lazy, any_zone=any_zone) for lazy in (True, False)
    )
    assert 160 <= lazy.changed < without.changed
    assert lazy.changed <= 176
    assert lazy.moved < without.moved
    assert lazy.in_zone >= without.in_zone - float(SubsettingSettings().in_zone_tolerance)


def test_an_update_that_would_overload_somebody_is_a_full_rebalance() -> None:
    settled = a_cluster({"a": 4, "b": 4, "c": 4}).settled()
    plan = settled.with_(pods=pods_in({"a": 4, "b": 4, "c": 2})).plan()
    family = only_family(plan)
    assert laziness(family) is False
    assert family.decision.moved == 1
    assert Counter(groups_in(family.slices).values()) == {("a",): 3, ("b",): 4, ("c",): 3}
    assert sorted(zones_of(slice_) for slice_ in written(plan)) == [("a",), ("c",)]


@pytest.mark.parametrize(("tolerance", "lazy"), [(Fraction(1), True), (Fraction(1, 10), False)])
def test_an_update_that_costs_too_much_traffic_in_its_zone_is_a_full_rebalance(tolerance: Fraction, lazy: bool) -> None:
    """Zone a's own four leave, while four that serve zone c stay; four in zone c come, where zone a lacks four.

    Nobody is overloaded by what is left over, but two thirds of the traffic would go to another zone.
    """
    settings = SubsettingSettings(in_zone_tolerance=tolerance)
    settled = a_cluster({"a": 8, "b": 4}, settings=settings).settled()
    before = groups_in(settled.slices)
    staying = [pod for pod in settled.pods if before[pod.metadata.name] != ("a",)]
    changed_pods = settled.with_(pods=(*staying, *pods_in({"c": 4})))
    family = only_family(changed_pods.plan())
    assert laziness(family) is lazy
    assert family.decision.moved == (0 if lazy else 4)
    assert family.traffic is not None
    assert family.traffic.in_zone == pytest.approx(1 / 3 if lazy else 1)


@pytest.mark.parametrize("after", ALGORITHMS)
@pytest.mark.parametrize("before", ALGORITHMS)
def test_another_algorithm_is_a_full_rebalance(before: str, after: str) -> None:
    """To the counts that it would have from the start; the same one again changes nothing."""
    settled = a_cluster({"a": 11, "b": 8, "c": 1}, algorithm=before).settled()
    fresh = a_cluster({"a": 11, "b": 8, "c": 1}, algorithm=after)
    plan = settled.with_(service=fresh.service).plan()
    family = only_family(plan)
    if before == after:
        assert not written(plan)
        return
    assert laziness(family) is None
    assert family.decision.allocation == only_family(fresh.plan()).decision.allocation
    assert family.decision.in_force == f"Subsetting/{after}"
    assert family.decision.moved == len(moved_by(family, settled))


@st.composite
def updates(draw: st.DrawFn, *, most: int = 10, algorithms: Sequence[str] = ALGORITHMS) -> Cluster:
    """A settled cluster of two to four zones in which some Pods have gone and others have come, after an update or two
    that are settled as well."""
    zones = "abcd"[: draw(st.integers(2, 4))]
    settings = SubsettingSettings(
        starting_threshold=Fraction(1, 2),
        padding=0,
        in_zone_tolerance=draw(st.sampled_from((Fraction(0), Fraction(1, 10), Fraction(1, 10), Fraction(1)))),
    )
    pods = list(pods_in({zone: draw(st.integers(0, most)) for zone in zones}))
    cluster = Cluster(
        service=a_service(subsetting="Auto", algorithm=draw(st.sampled_from(tuple(algorithms)))),
        nodes=nodes_in({zone: draw(st.integers(1, 5)) for zone in zones}),
        pods=tuple(pods),
        configuration=Configuration(subsetting=settings),
    )
    created = 0
    for _ in range(draw(st.integers(1, 3))):
        cluster = cluster.settled()
        for index in sorted(draw(st.sets(st.integers(0, max(len(pods) - 1, 0)), max_size=4)), reverse=True):
            if index < len(pods):
                del pods[index]
        for zone in draw(st.lists(st.sampled_from(zones), max_size=4)):
            created += 1
            pods.append(a_pod(f"new-{created:02}", f"node-{zone}", ips=(f"10.200.0.{created}",)))
        cluster = cluster.with_(pods=tuple(pods))
    return cluster


@examples(40)
@given(updates())
def test_a_lazy_update_moves_and_overloads_nobody_and_writes_only_where_somebody_came_or_went(cluster: Cluster) -> None:
    """And every new endpoint is in one of the groups that existed before, or in one that a zone needs for itself."""
    plan = cluster.plan()
    family = only_family(plan)
    event(f"lazy: {laziness(family)}")
    assume(laziness(family))
    before, after = groups_in(cluster.slices), groups_in(family.slices)
    assert family.traffic is not None
    assert family.traffic.max_overload < float(cluster.configuration.subsetting.overload_threshold)
    assert family.decision.moved == len(moved_by(family, cluster)) == 0
    gone, came = before.keys() - after.keys(), after.keys() - before.keys()
    touched = {before[name] for name in gone} | {after[name] for name in came}
    # A slice that everybody left may be used again for a group that somebody came to, hence fewer.
    assert {zones_of(slice_) for slice_ in written(plan)} <= touched
    assert changed(family, cluster.slices) <= len(touched)
    assert all(zones in before.values() or len(zones) == 1 for zones in map(after.__getitem__, came))


@examples(40)
@given(updates())
def test_laziness_moves_less_than_a_full_rebalance_and_costs_no_more_than_the_tolerance(cluster: Cluster) -> None:
    """It never moves an endpoint that a full rebalance leaves. Traffic is predicted for our own proxies, for both plans
    by themselves."""
    lazy, anew = only_family(cluster.plan()), full(cluster)
    assume(lazy.decision.active and anew.decision.active)
    moved = moved_by(lazy, cluster)
    event(f"lazy: {laziness(lazy)}, moved {bool(moved)}")
    assert moved <= moved_by(anew, cluster)
    assert lazy.traffic is not None
    assert anew.traffic is not None
    assert anew.traffic.in_zone is not None
    assert lazy.traffic.in_zone is not None
    behind = anew.traffic.in_zone - lazy.traffic.in_zone
    assert behind <= float(cluster.configuration.subsetting.in_zone_tolerance) + 1e-9


@examples(40)
@given(updates(), st.sampled_from(ALGORITHMS))
def test_moved_is_the_number_of_endpoints_whose_group_changed(cluster: Cluster, algorithm: str) -> None:
    """Counted from slices before and after; half of the updates come with another algorithm."""
    for variant in (cluster, cluster.with_(service=a_service(subsetting="Auto", algorithm=algorithm))):
        family = only_family(variant.plan())
        if family.decision.active:
            assert family.decision.moved == len(moved_by(family, variant))


def fewest_moves(before: Mapping[str, Zones], after: Mapping[str, Zones], *, starts: bool) -> int:
    """Of all ways to give every zone's Pods the groups that its Pods have afterwards, the one that moves the fewest of
    those that were in a group. What the others get follows from their names: where a decision ``starts``, they count if
    their own zone does not consume them.
    """
    new = {name for name in after if not before.get(name)}
    fewest = sum(starts and name_of_zone(name) not in after[name] for name in new)
    for located in {name_of_zone(name) for name in after}:
        pods = [name for name in after if name_of_zone(name) == located]
        groups = [after[name] for name in pods]
        fewest += min(
            sum(name not in new and before[name] != zones for name, zones in zip(pods, order, strict=True))
            for order in set(permutations(groups))
        )
    return fewest


def name_of_zone(pod: str) -> str:
    """Pods are named after their zones here."""
    return pod[0]


@st.composite
def small_updates(draw: st.DrawFn) -> Cluster:
    """At most five Pods in each of two or three zones, before and after, under the names that say where they are."""
    zones = "abc"[: draw(st.integers(2, 3))]
    settings = SubsettingSettings(
        starting_threshold=Fraction(1, 2),
        padding=0,
        in_zone_tolerance=draw(st.sampled_from((Fraction(0), Fraction(1)))),
    )
    numbers = st.lists(st.integers(0, 7), unique=True, max_size=5)

    def some_pods() -> tuple[Pod, ...]:
        everybody = pods_in(dict.fromkeys(zones, 8))
        chosen = {f"{zone}-{index:04}" for zone in zones for index in draw(numbers)}
        return tuple(pod for pod in everybody if pod.metadata.name in chosen)

    algorithm = draw(st.sampled_from(ALGORITHMS))
    cluster = Cluster(
        service=a_service(subsetting="Auto", algorithm=algorithm),
        nodes=nodes_in({zone: draw(st.integers(1, 4)) for zone in zones}),
        pods=some_pods(),
        configuration=Configuration(subsetting=settings),
    )
    return cluster.settled().with_(pods=some_pods())


@examples(30)
@given(small_updates())
def test_a_full_rebalance_moves_as_few_as_its_counts_allow(cluster: Cluster) -> None:
    before = groups_in(cluster.slices)
    is_in_force = any(slice_.endpoints and approach_of_slice(slice_) for slice_ in cluster.slices)
    for family, starts in ((only_family(cluster.plan()), not is_in_force), (full(cluster), True)):
        if family.decision.active and not laziness(family):
            event(f"lazy: {laziness(family)}, moved {bool(family.decision.moved)}")
            assert family.decision.moved == fewest_moves(
                before, groups_in(family.slices, zones_in(cluster)), starts=starts
            )
