"""A change of a Node changes demand where `compute_demand` says so, and a heartbeat does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.names import NODE_EXCLUDED_LABELS, ZONE_LABEL
from zoneward.kube.objects import Allocatable, Node, NodeCondition, NodeMeta, NodeStatus
from zoneward.routing.demand import changes_demand, compute_demand


def a_node(
    *, zone: str | None = "a", cpu: str | None = "4", ready: str = "True", excluded: bool = False, other: str = ""
) -> Node:
    labels = {"other": other} | ({ZONE_LABEL: zone} if zone else {})
    if excluded:
        labels[next(iter(NODE_EXCLUDED_LABELS))] = ""
    conditions = (NodeCondition(type="MemoryPressure", status=other), NodeCondition(type="Ready", status=ready))
    return Node(
        metadata=NodeMeta(name="n", labels=labels),
        status=NodeStatus(allocatable=Allocatable(cpu=cpu), conditions=conditions),
    )


nodes = st.none() | st.builds(
    a_node,
    zone=st.sampled_from([None, "a", "b"]),
    cpu=st.sampled_from([None, "4", "4000m", "2"]),
    ready=st.sampled_from(["True", "False"]),
    excluded=st.booleans(),
    other=st.sampled_from("xy"),
)


@given(nodes, nodes)
def test_it_changes_demand_exactly_where_demand_differs(old: Node | None, new: Node | None) -> None:
    others = [Node(metadata=NodeMeta(name="o", labels={ZONE_LABEL: "c"}), status=a_node().status)]
    before, after = (compute_demand([*others, *([node] if node else [])]) for node in (old, new))
    assert changes_demand(old, new) == (before != after)


@pytest.mark.parametrize("other", ["", "later"])
def test_what_demand_does_not_read_changes_nothing(other: str) -> None:
    assert not changes_demand(a_node(), a_node(other=other, cpu="4000m"))
