"""One Service of many Pods in three zones, for benchmarks of a single Service."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import (
    Allocatable,
    Node,
    NodeCondition,
    NodeMeta,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodIP,
    PodMeta,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.routing.request.what_if import as_if_requested
from zoneward.slices.cluster_state import ClusterState

_ZONES: Final = ("a", "b", "c")
_CPU: Final = {"a": "40", "b": "32", "c": "28"}
_NODES_IN_ZONE: Final = 20


def cluster_state() -> ClusterState:
    """Sixty Nodes."""
    ready = (NodeCondition(type="Ready", status="True"),)
    nodes = [
        Node(
            metadata=NodeMeta(name=f"node-{zone}-{number}", labels={names.ZONE_LABEL: zone}),
            status=NodeStatus(allocatable=Allocatable(cpu=_CPU[zone]), conditions=ready),
        )
        for zone in _ZONES
        for number in range(_NODES_IN_ZONE)
    ]
    zones = {node.metadata.name: (node.metadata.labels or {})[names.ZONE_LABEL] for node in nodes}
    return ClusterState(demand=compute_demand(nodes), node_zones=zones, configuration=Configuration())


def service(approach: str) -> Service:
    """Asking for an approach."""
    asked = as_if_requested(Service(metadata=ObjectMeta(name="web", namespace="shop", uid="1")), approach)
    spec = replace(
        asked.spec,
        selector={"app": "web"},
        cluster_ip="10.0.0.1",
        ports=(ServicePort(name="http", port=80, target_port=8080),),
    )
    return replace(asked, spec=spec)


def pod(number: int) -> Pod:
    """Ready, each with an address of its own."""
    zone = _ZONES[number * 7 % 3]
    ip = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    return Pod(
        metadata=PodMeta(name=f"web-{number}", namespace="shop", uid=str(number)),
        spec=PodSpec(node_name=f"node-{zone}-{number % _NODES_IN_ZONE}"),
        status=PodStatus(
            phase="Running",
            conditions=(NodeCondition(type="Ready", status="True"),),
            pod_ip=ip,
            pod_ips=(PodIP(ip=ip),),
        ),
    )


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
