"""What concerns every Service at once."""

from dataclasses import replace

from zoneward.kube.names import ZONE_LABEL
from zoneward.kube.objects import Allocatable, Node, NodeCondition, NodeMeta, NodeStatus
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.routing.selection.endpoint_selection import CONSUMERS
from zoneward.slices.plan import Surroundings
from zoneward.slices.shared_changes import concerns_all


def a_node(name: str, zone: str, cpu: str = "4") -> Node:
    ready = (NodeCondition(type="Ready", status="True"),)
    status = NodeStatus(allocatable=Allocatable(cpu=cpu), conditions=ready)
    return Node(metadata=NodeMeta(name=name, labels={ZONE_LABEL: zone}), status=status)


NODES = [a_node("n1", "a"), a_node("n2", "b")]
HERE = Surroundings(demand=compute_demand(NODES), node_zones={"n1": "a", "n2": "b"}, configuration=Configuration())


def test_the_same_concerns_none() -> None:
    again = Surroundings(demand=compute_demand(NODES), node_zones={"n1": "a", "n2": "b"}, configuration=Configuration())
    assert not concerns_all(HERE, again)


def test_a_node_that_does_not_count_concerns_only_services_with_pods_there() -> None:
    assert not concerns_all(HERE, replace(HERE, node_zones={"n1": "a", "n2": "b", "n3": "b"}))


def test_demand_the_first_node_and_settings_concern_all() -> None:
    """Where no Node is known, Pods count without one."""
    others = [
        replace(HERE, demand=compute_demand([a_node("n1", "a", "8"), NODES[1]])),
        replace(HERE, demand=compute_demand([*NODES, a_node("n3", "a")])),
        replace(HERE, node_zones={}),
        replace(HERE, configuration=Configuration(max_endpoints_per_slice=7)),
        replace(HERE, pods_known=False),
        replace(HERE, consumer=CONSUMERS["no-hints"]),
    ]
    assert [concerns_all(HERE, other) for other in others] == [True] * len(others)
