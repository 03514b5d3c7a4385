"""One Service of many Pods in three zones, for benchmarks of a single Service."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace
from tests.builders import structs

from zoneward.kube.objects import Node, NodeCondition, Pod, Service, node_zone
from zoneward.routing.balanced_decision import SetsRequest
from zoneward.routing.configuration import Configuration, ZoneCosts, cost_table
from zoneward.routing.demand import compute_demand
from zoneward.routing.what_if import as_if_requested
from zoneward.slices.cluster_state import ClusterState

ZONES: Final = {"a": "40", "b": "32", "c": "28"}
"""With the CPU of each Node."""
NODES_IN_ZONE: Final = 20


def nodes() -> tuple[Node, ...]:
    """Sixty Nodes."""
    zones = {f"node-{zone}-{index}": zone for zone in ZONES for index in range(NODES_IN_ZONE)}
    return tuple(structs.a_node(name, zone, cpu=ZONES[zone]) for name, zone in zones.items())


def cluster_state() -> ClusterState:
    """Of these Nodes."""
    zones = {node.metadata.name: node_zone(node) for node in nodes()}
    return ClusterState(demand=compute_demand(nodes()), node_zones=zones, configuration=Configuration())


def service(approach: str) -> Service:
    """Asking for an approach."""
    return as_if_requested(structs.a_service(name="web"), approach, Configuration())


def node_of(index: int) -> str:
    """Of a Pod."""
    return f"node-{tuple(ZONES)[index * 7 % 3]}-{index % NODES_IN_ZONE}"


def address_of(index: int) -> str:
    return f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"


def pod(index: int) -> Pod:
    """Ready, each with a separate address."""
    return structs.a_pod(f"web-{index}", node_of(index), labels={"app": "web"}, ips=[address_of(index)])


def flipped(pod: Pod) -> Pod:
    """The same Pod, ready where it was not."""
    ready = (pod.status.conditions or ())[0].status == "True"
    conditions = (NodeCondition(type="Ready", status="False" if ready else "True"),)
    return replace(pod, status=replace(pod.status, conditions=conditions))


def flipping(size: int, *, flips: int) -> Iterator[int]:
    """Pods that flip: one after the other becomes unready, and becomes ready again after four others."""
    off: deque[int] = deque()
    for flip in range(flips // 2):
        off.append(flip * 7919 % size)
        yield off[-1]
        if len(off) > 4:
            yield off.popleft()


def sets_request(demand: Sequence[int], supply: Sequence[int], *, objective: int) -> SetsRequest:
    """The decision of ``Balanced`` for these numbers of nodes and endpoints in each zone, with default settings."""
    zones = tuple(f"zone-{index:02}" for index in range(len(demand)))
    return SetsRequest(zones, tuple(demand), tuple(supply), (1, 5), objective, cost_table(ZoneCosts(), zones, {}))
