"""A change of demand requeues the Services whose decision comes out differently, and next to no others."""

from collections.abc import Iterable
from dataclasses import replace as changed
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import a_node, a_service, nodes_in, pods_in
from tests.clusters import Cluster, endpoint_answers
from tests.properties.random_clusters import BALANCED, clusters, examples

from zoneward.controller.sync.demand_impact import DecisionSummary, may_differ, services_to_requeue, summarize
from zoneward.kube.names import DEMAND_ANNOTATION, NODE_EXCLUDED_LABELS
from zoneward.kube.objects import Allocatable, Node, NodeCondition
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.allocation import allocation_of
from zoneward.routing.configuration import Configuration, HintsSettings
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand, compute_demand
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason
from zoneward.slices.plan import FamilyPlan

PROPORTIONAL = DecisionSummary(
    approach=Approach.HINTS, heuristic="ProportionalZoneCPU", active=True, reason=Reason.ENABLED, endpoints=0
)


def with_zones(**weights: int) -> Demand:
    return compute_demand(
        a_node(f"{zone}-{number}", zone, cpu=1) for zone, weight in weights.items() for number in range(weight)
    )


def state_of(cluster: Cluster, family: FamilyPlan) -> DecisionSummary:
    """What the controller knows when it has decided."""
    assert family.decision.targets is not None
    endpoint_index = family.decision.targets.index
    zones = cluster.cluster_state.demand.zones
    buckets = (*endpoint_index.ready_buckets(), *endpoint_index.unready_buckets())
    has_zoneless = any(each.zone not in zones for each in buckets) or any(
        (each.endpoint.zone or "") not in zones for each in endpoint_index.shared_address
    )
    return summarize(family.decision, shared_addresses=len(endpoint_index.shared_address), has_zoneless=has_zoneless)


def outcome(decision: Decision) -> tuple[object, ...]:
    return decision.active, decision.reason, endpoint_answers(decision)


@st.composite
def other_nodes(draw: st.DrawFn, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The Nodes after a while: all that demand reads of them may differ but their zones, which endpoints share."""
    after = []
    for node in nodes:
        kind = draw(st.sampled_from(("same",) * 6 + ("not ready", "ready", "excluded", "small", "large", "no cpu")))
        status = node.status
        if status is not None and kind in ("not ready", "ready"):
            status = replace(status, conditions=(NodeCondition(type="Ready", status=str(kind == "ready")),))
        elif status is not None and kind in ("small", "large", "no cpu"):
            cpu = {"small": "3600m", "large": "8", "no cpu": None}[kind]
            status = replace(status, allocatable=Allocatable(cpu=cpu))
        labels = dict(node.metadata.labels or {})
        if kind == "excluded":
            labels[next(iter(NODE_EXCLUDED_LABELS))] = ""
        after.append(replace(node, metadata=replace(node.metadata, labels=labels), status=status))
    if draw(st.sampled_from((False, False, False, True))):
        after.append(a_node("new", draw(st.sampled_from(("zone-1", "zone-2", "zone-8", None))), cpu=4))
    return tuple(after)


def differences(data: st.DataObject, cluster: Cluster) -> Iterable[tuple[bool, bool]]:
    """For each address family, whether another demand gives another decision, and whether it may by its numbers."""
    settled = cluster.with_(configuration=changed(cluster.configuration, upstream=False)).settled()
    later = settled.with_(nodes=data.draw(other_nodes(settled.nodes)))
    old, new = settled.cluster_state.demand, later.cluster_state.demand
    for before, after in zip(settled.plan().families, later.plan().families, strict=True):
        differs = outcome(before.decision) != outcome(after.decision)
        state = state_of(settled, before)
        may = may_differ(state, old=old, new=new, configuration=settled.configuration)
        if not services_to_requeue([(("ns", "svc"), [state])], old=old, new=new, configuration=settled.configuration):
            assert not differs, "not requeued, though its decision differs"
        yield differs, may


@examples(40)
@given(clusters(others=False), st.data())
def test_no_service_keeps_a_decision_that_demand_has_changed(cluster: Cluster, data: st.DataObject) -> None:
    for differs, may in differences(data, cluster):
        assert may or not differs
        event(f"differs: {differs}, may: {may}")


@examples(40)
@given(
    clusters(setting=BALANCED, others=False, tidy=True),
    st.sampled_from(("zone-1=1,zone-2=1", "zone-1=50%,zone-2=30%,zone-3=20%", "zone-8=1", "banana")),
    st.data(),
)
def test_no_service_with_its_own_demand_keeps_a_decision_that_nodes_have_changed(
    cluster: Cluster, written: str, data: st.DataObject
) -> None:
    meta = cluster.service.metadata
    annotations = {**(meta.annotations or {}), DEMAND_ANNOTATION: written}
    service = replace(cluster.service, metadata=replace(meta, annotations=annotations))
    settled = cluster.with_(configuration=changed(cluster.configuration, upstream=False), service=service).settled()
    later = settled.with_(nodes=data.draw(other_nodes(settled.nodes)))
    old, new = settled.cluster_state.demand, later.cluster_state.demand
    for before, after in zip(settled.plan().families, later.plan().families, strict=True):
        state = changed(state_of(settled, before), has_own_demand=True)
        if not services_to_requeue([(("ns", "svc"), [state])], old=old, new=new, configuration=settled.configuration):
            assert outcome(before.decision) == outcome(after.decision)


@examples(40)
@given(clusters(setting=BALANCED, others=False, tidy=True), st.data())
def test_hints_in_proportion_are_asked_for_exactly_where_they_differ(cluster: Cluster, data: st.DataObject) -> None:
    assume(cluster.nodes)
    for differs, may in differences(data, cluster):
        assert may == differs


def test_hints_that_serve_a_zone_without_demand_are_asked_again() -> None:
    state = changed(PROPORTIONAL, active=True, endpoints=10, consumed={"a": 5, "b": 4, "c": 1})
    old, new = with_zones(a=1, b=1, c=1), with_zones(a=1, b=1)
    assert may_differ(state, old=old, new=new, configuration=Configuration())


@pytest.mark.parametrize(("threshold", "expected"), [(None, True), ("50%", False)])
def test_a_service_s_own_threshold_decides_whether_it_is_asked_again(threshold: str | None, expected: bool) -> None:
    """Demand in one of two zones grows until it is 40 % above fair there."""
    cluster = Cluster(
        service=a_service("Auto", threshold=threshold),
        nodes=nodes_in({"a": 4, "b": 4}),
        pods=pods_in({"a": 5, "b": 5}),
    ).settled()
    (family,) = cluster.plan().families
    demands = {"old": cluster.cluster_state.demand, "new": with_zones(a=7, b=3)}
    assert may_differ(state_of(cluster, family), **demands, configuration=cluster.configuration) == expected


@pytest.mark.parametrize(("tolerance", "expected"), [("1/10", True), ("1", False)])
def test_hints_that_other_demand_makes_lose_traffic_are_asked_again(tolerance: str, expected: bool) -> None:
    """Zone a lends zone b two of its seven endpoints. With more demand at home it would lend none of them: a quarter of
    the traffic would stay in its zone that does not, and nobody is overloaded."""
    allocation = allocation_of("ab", {(("a",), "a"): 5, (("a",), "b"): 3, (("b",), "a"): 2, (("b",), "b"): 2})
    state = changed(PROPORTIONAL, active=True, endpoints=12, consumed={"a": 8, "b": 4}, allocation=allocation)
    old, new = with_zones(a=2, b=1), with_zones(a=7, b=5)
    configuration = Configuration(hints=HintsSettings(in_zone_tolerance=Fraction(tolerance)))
    assert may_differ(state, old=old, new=new, configuration=configuration) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"distribution": "PreferSameZone"}, False, id="own-zone"),
        pytest.param({"distribution": "PreferSameNode"}, False, id="own-node"),
        pytest.param({"mode": "Auto"}, False, id="hints-within-the-threshold"),
        pytest.param({"subsetting": "Auto"}, True, id="groups-by-shares"),
        pytest.param({"subsetting": "Require"}, False, id="own-group"),
    ],
)
def test_a_node_more_of_many_requeues_only_what_goes_by_exact_shares(asked: dict[str, Any], expected: bool) -> None:
    """12 Pods in each of two zones with 10 Nodes, and one Node more in one of them."""
    nodes = [
        *nodes_in({"a": 4, "b": 4}),
        *(a_node(f"{zone}-{each}", zone, cpu=4) for zone in "ab" for each in range(9)),
    ]
    cluster = Cluster(service=a_service(**asked), nodes=tuple(nodes), pods=pods_in({"a": 12, "b": 12})).settled()
    (family,) = cluster.plan().families
    old = cluster.cluster_state.demand
    new = compute_demand([*nodes, a_node("more", "a", cpu=4)])
    states = [(("ns", "svc"), [state_of(cluster, family)])]
    assert bool(services_to_requeue(states, old=old, new=new, configuration=cluster.configuration)) == expected


SHARING = changed(PROPORTIONAL, heuristic="Balanced", endpoints=12)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"zones": ("a", "b"), "weights": (5000, 4000)}, True, id="shares"),
        pytest.param({"zones": ("a", "b"), "weights": (9000, 9000)}, False, id="the-same-shares"),
        pytest.param({"regions": (("a", "north"), ("b", "north"))}, True, id="regions"),
        pytest.param({"idle_zones": ("c",)}, True, id="idle-zones"),
    ],
)
def test_balanced_is_asked_again_wherever_shares_regions_or_idle_zones_differ(
    change: dict[str, Any], expected: bool
) -> None:
    old = compute_demand(nodes_in({"a": 4, "b": 4}))
    new = changed(old, **change)
    services = [(("ns", "svc"), [changed(SHARING, active=active)]) for active in (True, False)]
    for service in services:
        found = services_to_requeue([service], old=old, new=new, configuration=Configuration())
        assert found == ([service[0]] if expected else [])


@pytest.mark.parametrize("heuristic", sorted(HEURISTICS.keys() - {"Balanced"}))
def test_regions_and_idle_zones_requeue_nothing_but_balanced(heuristic: str) -> None:
    """No other heuristic reads them."""
    approach = Approach.SUBSETTING if HEURISTICS[heuristic].subsets else Approach.HINTS
    state = changed(PROPORTIONAL, heuristic=heuristic, approach=approach, endpoints=4, consumed={"a": 2, "b": 2})
    old = compute_demand(nodes_in({"a": 4, "b": 4}))
    new = changed(old, regions=(("a", "north"),), idle_zones=("c",))
    assert not services_to_requeue([(("n", "s"), [state])], old=old, new=new, configuration=Configuration())


OWN_GROUPS = changed(PROPORTIONAL, approach=Approach.SUBSETTING, heuristic="RequireZone", endpoints=4)
OWN_ZONES = changed(PROPORTIONAL, approach=Approach.TRAFFIC_DISTRIBUTION, heuristic="PreferSameZone", endpoints=4)
TOO_FEW = changed(OWN_GROUPS, heuristic="local", active=False, reason=Reason.BELOW_STARTING_THRESHOLD, endpoints=7)


@pytest.mark.parametrize(
    ("state", "new", "expected"),
    [
        pytest.param(OWN_GROUPS, {"a": 1, "b": 3}, False, id="own-groups-everybody-has-a-home"),
        pytest.param(changed(OWN_GROUPS, has_zoneless=True), {"a": 1, "b": 3}, True, id="own-groups-need-gives-homes"),
        pytest.param(OWN_GROUPS, {"a": 1, "b": 1, "c": 1}, True, id="own-groups-a-new-zone"),
        pytest.param(OWN_ZONES, {"a": 9, "b": 1}, False, id="own-zones-other-shares"),
        pytest.param(OWN_ZONES, {"a": 1, "b": 1, "c": 1}, True, id="own-zones-a-new-zone"),
        pytest.param(TOO_FEW, {"a": 9, "b": 1}, False, id="below-the-starting-threshold-other-shares"),
        pytest.param(TOO_FEW, {"a": 1, "b": 1, "c": 1}, True, id="below-the-starting-threshold-a-new-zone"),
    ],
)
def test_without_shares_only_zones_and_homes_count(state: Any, new: dict[str, int], expected: bool) -> None:
    old = with_zones(a=1, b=1)
    assert may_differ(state, old=old, new=with_zones(**new), configuration=Configuration()) == expected


def test_where_nodes_are_counted_one_without_cpu_changes_groups() -> None:
    state = changed(PROPORTIONAL, heuristic="local", approach=Approach.SUBSETTING, endpoints=9)
    nodes = [*nodes_in({"a": 4, "b": 4}), a_node("c-1", "a", cpu=None)]
    old, new = (compute_demand(each, missing_cpu="disable") for each in (nodes, [*nodes, a_node("c-2", "a", cpu=None)]))
    assert old.reduced == new.reduced
    assert services_to_requeue([(("n", "s"), [state])], old=old, new=new, configuration=Configuration())
