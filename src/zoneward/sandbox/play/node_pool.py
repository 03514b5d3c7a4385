"""The nodes of a play: who has room, and the addresses of their pods."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Address
from itertools import count
from random import Random
from typing import Final

from zoneward.sandbox.play.play_model import MAX_NODES, NodeGroup, NodeSelection, PodSpread, Workload

_PODS: Final = int(IPv4Address("10.64.0.0"))
_BITS: Final = 9
"""Of each node's range: more than the pods it may have, so that an address is not taken again at once."""
_HOSTS: Final = int(IPv4Address("192.168.0.0"))
MOST_PODS: Final = (1 << _BITS) - 2


class Phase(Enum):
    PENDING = "waits for a node, or for its kubelet"
    CREATING = "reported by its kubelet, without an address"
    RUNNING = "has an address"


@dataclass(slots=True, kw_only=True, eq=False)
class PlayedPod:
    """``is_ready`` is what its kubelet knows, ``is_reported_ready`` what the API says."""

    number: int
    name: str
    workload: Workload
    template: str
    node: "PlayedNode | None" = None
    phase: Phase = Phase.PENDING
    address: str = ""
    begun: str = ""
    is_ready: bool = False
    is_reported_ready: bool = False
    is_terminating: bool = False
    is_flapping: bool = False
    course: int = 0
    """Grows when the planned changes of the pod are void."""

    @property
    def namespace(self) -> str:
        return self.workload.namespace


@dataclass(slots=True, kw_only=True, eq=False)
class PlayedNode:
    """``is_alive`` is what is, ``is_ready`` what the API says."""

    number: int
    name: str
    zone: str
    region: str
    cpu: int
    most_pods: int
    labels: dict[str, str]
    is_alive: bool = True
    is_ready: bool = True
    is_cordoned: bool = False
    is_leaving: bool = False
    pods: dict[str, PlayedPod] = field(default_factory=dict)
    """By namespace and name."""
    used_cpu: int = 0
    outage: int = 0
    """Counts outages, to tell a later one from an earlier one."""
    _taken: set[int] = field(default_factory=set)
    _next: int = 0

    @property
    def address(self) -> str:
        return str(IPv4Address(_HOSTS + self.number + 1))

    @property
    def cidr(self) -> str:
        return f"{IPv4Address(_PODS + (self.number << _BITS))}/{32 - _BITS}"

    @property
    def takes_pods(self) -> bool:
        return self.is_ready and not self.is_cordoned and not self.is_leaving

    def has_room(self, workload: Workload) -> bool:
        return len(self.pods) < self.most_pods and self.used_cpu + workload.cpu <= self.cpu

    def add(self, pod: PlayedPod) -> None:
        pod.node = self
        self.pods[f"{pod.namespace}/{pod.name}"] = pod
        self.used_cpu += pod.workload.cpu

    def give_address(self, pod: PlayedPod) -> None:
        """The next one that no pod has, as network plugins do: none comes again soon."""
        while self._next in self._taken:
            self._next = (self._next + 1) % MOST_PODS
        self._taken.add(self._next)
        pod.address = str(IPv4Address(_PODS + (self.number << _BITS) + 1 + self._next))
        self._next = (self._next + 1) % MOST_PODS

    def drop(self, pod: PlayedPod) -> None:
        del self.pods[f"{pod.namespace}/{pod.name}"]
        self.used_cpu -= pod.workload.cpu
        if pod.address:
            self._taken.discard(int(IPv4Address(pod.address)) - _PODS - (self.number << _BITS) - 1)


class NodePool:
    def __init__(self) -> None:
        self.nodes: dict[str, PlayedNode] = {}
        self._named: dict[str, int] = {}

    def add(self, group: NodeGroup) -> Iterator[PlayedNode]:
        """No more than `MAX_NODES` in all. Names count on where the last group of that name ended."""
        for _ in range(group.count):
            if len(self.nodes) >= MAX_NODES:
                return
            number = self._named[group.name] = self._named.get(group.name, 0) + 1
            used = {node.number for node in self.nodes.values()}
            node = PlayedNode(
                number=next(number for number in count() if number not in used),
                name=f"{group.name}-{number}",
                zone=group.zone,
                region=group.region,
                cpu=group.cpu,
                most_pods=group.pods,
                labels=dict(group.labels),
            )
            self.nodes[node.name] = node
            yield node

    def select_nodes(self, which: NodeSelection) -> list[PlayedNode]:
        if which.nodes:
            named = (self.nodes.get(name) for name in which.nodes)
            return [node for node in named if node is not None and not node.is_leaving]
        here = [node for node in self.nodes.values() if node.zone == which.zone and not node.is_leaving]
        return here if which.count is None else here[::-1][: which.count]

    def place(
        self, workload: Workload, template: str, others: Iterable[PlayedPod], chance: Random
    ) -> PlayedNode | None:
        """The node for a new pod; ``others`` are those of its workload. None: nowhere is room."""
        open_ = [
            node
            for node in self.nodes.values()
            if node.takes_pods and node.has_room(workload) and (not workload.zones or node.zone in workload.zones)
        ]
        if not open_:
            return None
        match workload.spread:
            case PodSpread.RANDOM:
                return chance.choice(open_)
            case PodSpread.PACKED:
                return max(open_, key=lambda node: (node.used_cpu / node.cpu, len(node.pods), -node.number))
            case PodSpread.EVEN:
                return _evenly(open_, template, [pod for pod in others if not pod.is_terminating])

    def refusal(self, workload: Workload) -> str:
        """Why no node takes a pod, nearly in the scheduler's words."""
        known = len(self.nodes)
        full = sum(node.takes_pods and not node.has_room(workload) for node in self.nodes.values())
        return f"0/{known} nodes are available: {full} Insufficient cpu, {known - full} node(s) were not suitable."


def _evenly(nodes: list[PlayedNode], template: str, others: list[PlayedPod]) -> PlayedNode:
    """Pods of the same template count first, so that a rollout ends spread out whatever it began with."""
    by_zone: dict[str, list[int]] = {node.zone: [0, 0] for node in nodes}
    by_node: dict[str, list[int]] = {node.name: [0, 0] for node in nodes}
    for pod in others:
        if pod.node is None:
            continue
        for counts in (by_zone.get(pod.node.zone), by_node.get(pod.node.name)):
            if counts is not None:
                counts[0] += pod.template == template
                counts[1] += 1
    return min(nodes, key=lambda node: (by_zone[node.zone], by_node[node.name], node.used_cpu / node.cpu, node.number))
