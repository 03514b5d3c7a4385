"""`ServicePlanner.is_affected_by`: a change of demand affects the Services whose decision changes, and few others."""

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import a_node, a_service, nodes_in, pods_in
from tests.clusters import Cluster, endpoint_answers
from tests.properties.random_clusters import BALANCED, clusters, examples

from zoneward.kube.names import DEMAND_ANNOTATION, NODE_EXCLUDED_LABELS
from zoneward.kube.objects import Allocatable, Node, NodeCondition
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand, compute_demand
from zoneward.slices.plan import ServicePlan
from zoneward.slices.planner import ServicePlanner


def is_affected(cluster: Cluster, demand: Demand) -> bool:
    planner = ServicePlanner(cluster.service, cluster.cluster_state, pods=cluster.pods, slices=cluster.slices)
    planner.plan()
    return planner.is_affected_by(demand)


def outcome(decision: Decision) -> tuple[object, ...]:
    return decision.active, decision.reason, endpoint_answers(decision)


def differ(before: ServicePlan, after: ServicePlan) -> bool:
    families = zip(before.families, after.families, strict=True)
    return any(outcome(one.decision) != outcome(other.decision) for one, other in families)


@st.composite
def other_nodes(draw: st.DrawFn, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Later Nodes: readiness, CPU and excluded labels may differ, and one may be new. Zones stay."""
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


@examples(80)
@given(clusters(others=False), st.data())
def test_a_service_whose_decision_changes_is_affected(cluster: Cluster, data: st.DataObject) -> None:
    settled = cluster.settled()
    later = settled.with_(nodes=data.draw(other_nodes(settled.nodes)))
    differs = differ(settled.plan(), later.plan())
    affected = is_affected(settled, later.cluster_state.demand)
    event(f"differs: {differs}, affected: {affected}")
    assert affected or not differs


@examples(40)
@given(
    clusters(setting=BALANCED, others=False, tidy=True),
    st.sampled_from(("zone-1=1,zone-2=1", "zone-1=50%,zone-2=30%,zone-3=20%", "zone-8=1", "banana")),
    st.data(),
)
def test_a_service_with_its_own_demand_is_affected_if_its_decision_changes(
    cluster: Cluster, text: str, data: st.DataObject
) -> None:
    metadata = cluster.service.metadata
    annotations = {**(metadata.annotations or {}), DEMAND_ANNOTATION: text}
    service = replace(cluster.service, metadata=replace(metadata, annotations=annotations))
    settled = cluster.with_(service=service).settled()
    later = settled.with_(nodes=data.draw(other_nodes(settled.nodes)))
    assert is_affected(settled, later.cluster_state.demand) or not differ(settled.plan(), later.plan())


NODES = (
    *nodes_in({"a": 4, "b": 4}),
    *(a_node(f"{zone}-{index}", zone, cpu=4) for zone in "ab" for index in range(9)),
)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"distribution": "PreferSameZone"},
        {"distribution": "PreferSameNode"},
        {"mode": "Auto"},
        {"subsetting": "Require"},
    ],
)
def test_a_new_zone_affects_every_service_and_one_more_node_of_twenty_none_within_its_threshold(
    settings: dict[str, Any],
) -> None:
    cluster = Cluster(service=a_service(**settings), nodes=NODES, pods=pods_in({"a": 12, "b": 12})).settled()
    assert is_affected(cluster, compute_demand([*NODES, a_node("more", "c", cpu=4)]))
    assert not is_affected(cluster, compute_demand([*NODES, a_node("more", "a", cpu=4)]))


@pytest.mark.parametrize(("threshold", "expected"), [(None, True), ("50%", False)])
def test_the_own_threshold_of_a_service_decides_whether_it_is_affected(threshold: str | None, expected: bool) -> None:
    """Demand grows in one of two zones until it is 40 % above fair."""
    cluster = Cluster(
        service=a_service("Auto", threshold=threshold),
        nodes=nodes_in({"a": 4, "b": 4}),
        pods=pods_in({"a": 5, "b": 5}),
    ).settled()
    demand = compute_demand(nodes_in({"a": 7, "b": 3}))
    assert is_affected(cluster, demand) == expected
