"""Where upstream's hints fall short, measured on random clusters, Zoneward's must not."""

from fractions import Fraction
from typing import Final

import pytest
from hypothesis import event, given
from msgspec import structs
from msgspec.structs import replace
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import (
    ALL_HINTS,
    CLUSTER,
    Cluster,
    endpoints_in,
    only_family,
    overload_threshold,
    slices_after,
    written,
)
from tests.properties.random_clusters import BALANCED, SUBSETTING, clusters, examples

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointSlice, is_ready
from zoneward.routing.algorithms.heuristics import REQUIRE_ZONE, SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import endpoints_of_all_ports, select_endpoints
from zoneward.routing.zone_groups import group_of_slice
from zoneward.slices.plan import FamilyPlan


def selected(family: FamilyPlan, zone: str) -> int:
    everything = endpoints_of_all_ports(family.slices)
    selection = select_endpoints(everything, policies=CLUSTER, honored=ALL_HINTS, node="node-of-nobody", zone=zone)
    assert selection.cluster is not None
    return len(selection.cluster)


@examples(50)
@given(clusters(setting=BALANCED, tidy=True, others=False))
def test_no_zone_with_demand_is_at_the_threshold_in_force_and_none_gets_nothing(cluster: Cluster) -> None:
    """In exact fractions, of what proxies select, wherever hints are on."""
    demand = cluster.cluster_state.demand
    for family in cluster.plan().families:
        event(f"{family.decision.reason}")
        if not family.decision.active:
            continue
        allocation = family.decision.allocation
        assert allocation is not None
        ready = sum(map(is_ready, endpoints_in(family.slices)))
        for zone, weight in demand.weight_of.items():
            consumed = allocation.size((zone,))
            assert consumed > 0
            assert selected(family, zone) == consumed
            assert Fraction(ready * weight, demand.total) / consumed - 1 < overload_threshold(cluster, family)


@examples(40)
@given(clusters(setting=BALANCED | SUBSETTING, others=False))
def test_hints_are_on_in_all_slices_or_off_in_all(cluster: Cluster) -> None:
    """Endpoints that are not ready have them too, but none for a zone without ready endpoints. Where slices say who
    consumes them, no endpoint has one."""
    for family in cluster.plan().families:
        hinted = family.decision.active and not family.decision.has_slice_groups
        served = {
            zone.name
            for endpoint in endpoints_in(family.changes.after)
            if is_ready(endpoint) and endpoint.hints
            for zone in endpoint.hints.for_zones or ()
        }
        for slice_ in family.changes.after:
            for endpoint in slice_.endpoints or ():
                on = hinted and bool(slice_.ports) and (is_ready(endpoint) or bool(endpoint.zone))
                assert (endpoint.hints is not None) == on
                if endpoint.hints is not None and not is_ready(endpoint):
                    (zone,) = endpoint.hints.for_zones or ()
                    assert zone.name in served
                    assert zone.name == endpoint.zone or endpoint.zone not in served
                assert not (endpoint.hints and names.ZONE_LABEL in (slice_.metadata.labels or {}))


@examples(50)
@given(clusters(setting=BALANCED | SUBSETTING, others=False))
def test_every_endpoint_serves_a_zone_with_demand(cluster: Cluster) -> None:
    demand = cluster.cluster_state.demand
    # An approach that is on although a Node has no CPU counts Nodes, whether hints would or not.
    zones = set((demand.by_count if demand.without_cpu else demand).zones)
    for family in cluster.plan().families:
        if not family.decision.active or family.decision.heuristic == REQUIRE_ZONE.name:
            continue
        for slice_ in family.changes.after:
            group = group_of_slice(slice_)
            assert group is None or set(group.zones) <= zones
            for endpoint in slice_.endpoints or ():
                if endpoint.hints is not None:
                    assert {zone.name for zone in endpoint.hints.for_zones or ()} <= zones


def content(slice_: EndpointSlice) -> tuple[object, ...]:
    annotations = dict(slice_.metadata.annotations or {})
    annotations.pop(names.TRIGGER_TIME_ANNOTATION, None)
    return (
        replace(slice_.metadata, annotations=annotations, labels=slice_.metadata.labels or {}),
        slice_.address_type,
        slice_.endpoints or (),
        slice_.ports or (),
    )


@examples(50)
@given(clusters())
def test_a_slice_whose_content_does_not_change_is_not_written(cluster: Cluster) -> None:
    before = {slice_.metadata.name: slice_ for slice_ in cluster.slices}
    for family in cluster.plan(trigger_time="2026-11-21T08:00:00Z").families:
        changes = family.changes
        for slice_ in changes.update:
            assert content(slice_) != content(before[slice_.metadata.name])
        for slice_ in changes.unchanged:
            assert slice_ == before[slice_.metadata.name]
        names_written = [slice_.metadata.name for slice_ in (*changes.create, *changes.update, *changes.delete)]
        assert len(set(names_written)) == len(names_written)


def test_from_prefer_same_zone_to_auto_no_zone_stays_at_51_percent() -> None:
    """Upstream kept the hints of PreferSameZone where no slice had to change."""
    nodes = nodes_in({"a": 4, "b": 4})
    pods = pods_in({"a": 33, "b": 67})
    before = Cluster(service=a_service(distribution="PreferSameZone"), nodes=nodes, pods=pods).settled()
    traffic = only_family(before.plan()).traffic
    assert traffic is not None
    assert traffic.zones["a"].overload == pytest.approx(50 / 33 - 1)

    plan = before.with_(service=a_service("Auto")).plan()
    traffic = only_family(plan).traffic
    assert traffic is not None
    assert max(zone.overload or 0.0 for zone in traffic.zones.values()) < 0.2
    assert only_family(plan).decision.active


@examples(50)
@given(clusters(), clusters(history=False, others=False))
def test_an_event_is_told_only_when_something_changed(cluster: Cluster, other: Cluster) -> None:
    """After any change of the cluster: no event while conditions and the approach in force stay the same."""
    before = cluster.settled()
    now = before.with_(
        pods=other.pods,
        nodes=other.nodes,
        service=replace(
            before.service,
            spec=replace(before.service.spec, traffic_distribution=other.service.spec.traffic_distribution),
        ),
    )
    plan = now.plan()
    if plan.events:
        assert state(before) != state(now.after(plan))


def state(cluster: Cluster) -> tuple[object, ...]:
    in_force = {(slice_.metadata.annotations or {}).get(names.APPROACH_ANNOTATION) for slice_ in cluster.slices}
    conditions = (cluster.service.status.conditions or ()) if cluster.service.status else ()
    settings = {condition.message for condition in conditions if condition.type == names.ACCEPTED_CONDITION}
    return in_force, settings, [(condition.type, condition.status, condition.reason) for condition in conditions]


@pytest.mark.parametrize("algorithm", SUBSETTING_ALGORITHMS)
def test_a_service_that_is_being_deleted_loses_no_endpoint_to_a_group_that_has_no_slice(algorithm: str) -> None:
    before = Cluster(service=a_service(), nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": 6, "b": 6})).settled()
    service = a_service(subsetting="Auto", algorithm=algorithm, deleting=True)
    cluster = before.with_(service=service)
    plan = cluster.plan()
    assert not only_family(plan).changes.create
    assert sorted(map(repr, endpoints_in(slices_after(plan)))) == sorted(map(repr, endpoints_in(before.slices)))
    assert not written(cluster.after(plan).plan())


NO_HINTS: Final = FeatureGates(topology_aware_hints=False)
NO_NODE_HINTS: Final = FeatureGates(prefer_same_traffic_distribution=False)


def with_gates(cluster: Cluster, gates: FeatureGates) -> Cluster:
    return cluster.with_(configuration=structs.replace(cluster.configuration, gates=gates))


def own_endpoints(cluster: Cluster) -> list[Endpoint]:
    return endpoints_in(slice_ for family in cluster.plan().families for slice_ in family.changes.after)


@examples(50)
@given(clusters())
def test_no_slice_of_ours_has_hints_while_their_gate_is_off(cluster: Cluster) -> None:
    """Hints that stand there from before are removed (KEP-2433 § Test Plan), hints for nodes likewise (KEP-3015)."""
    assert not [endpoint for endpoint in own_endpoints(with_gates(cluster, NO_HINTS)) if endpoint.hints is not None]
    off = with_gates(cluster, NO_NODE_HINTS)
    assert not [endpoint for endpoint in own_endpoints(off) if endpoint.hints is not None and endpoint.hints.for_nodes]
