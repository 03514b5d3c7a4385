"""The pods and nodes of a play: state, manifests, and scheduling."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from random import Random
from typing import Final

from zoneward.kube.names import REGION_LABEL, ZONE_LABEL
from zoneward.sandbox.play.play_file import NodeGroup, Workload
from zoneward.sandbox.play.timeline import Key
from zoneward.sandbox.server.kinds import Object

_PODS: Final = int(IPv4Address("10.64.0.0"))
_BITS: Final = 9
"""Bits of the range of a node: more addresses than pods, so that addresses are not reused at once."""
_HOSTS: Final = int(IPv4Address("192.168.0.0"))
_MOST_ADDRESSES: Final = (1 << _BITS) - 2
_PODS_PER_NODE: Final = 110
"""The kubelet's default."""


@dataclass(slots=True, kw_only=True, eq=False)
class PlayedPod:
    """``is_ready`` is known to the kubelet, ``is_reported_ready`` to the API. ``node`` is None for a deleted pod."""

    index: int
    name: str
    workload: Workload
    template: str
    node: "PlayedNode | None" = None
    address: str = ""
    """Empty until its containers run."""
    started_at: str = ""
    is_ready: bool = False
    is_reported_ready: bool = False
    is_terminating: bool = False
    has_ended: bool = False
    is_flapping: bool = False
    course: int = 0
    """Incremented to cancel the planned changes of the pod."""
    conditions: dict[str, Object] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return "Pod", self.workload.namespace, self.name

    @property
    def is_reachable(self) -> bool:
        return self.node is not None and self.node.is_alive

    def manifest(self, node: "PlayedNode") -> Object:
        """As from the controller of a Deployment, with the node from the scheduler and the labels from admission."""
        container = {
            "name": "app",
            "image": f"{self.workload.name}:{self.template}",
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"requests": {"cpu": _cpu_text(self.workload.cpu)}},
        }
        labels = {
            "app": self.workload.name,
            "pod-template-hash": self.template,
            REGION_LABEL: node.group.region,
            ZONE_LABEL: node.group.zone,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"labels": labels, "name": self.name, "namespace": self.workload.namespace},
            "spec": {"containers": [container], "nodeName": node.name, "terminationGracePeriodSeconds": 30},
        }

    def status(self, now: str, **changed: bool) -> Object:
        """A status patch of a pod whose containers run or have run; ``changed`` are conditions."""
        for kind, is_true in changed.items():
            _set_condition(self.conditions, kind, str(is_true), now)
        state: Object = {"running": {"startedAt": self.started_at}}
        if self.has_ended:
            state = {
                "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": self.started_at, "finishedAt": now}
            }
        image = f"{self.workload.name}:{self.template}"
        container = {"name": "app", "image": image, "imageID": "", "restartCount": 0, "state": state}
        status = {
            "conditions": list(self.conditions.values()),
            "containerStatuses": [container | {"ready": self.is_ready, "started": not self.has_ended}],
            "phase": "Succeeded" if self.has_ended else "Running",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self.started_at,
        }
        return {"status": status}


@dataclass(slots=True, kw_only=True, eq=False)
class PlayedNode:
    """``is_ready`` is what the API reports."""

    index: int
    name: str
    group: NodeGroup
    is_ready: bool = True
    is_cordoned: bool = False
    is_leaving: bool = False
    pods: dict[Key, PlayedPod] = field(default_factory=dict)
    used_cpu: int = 0
    outage: object | None = None
    """The outage that it is in; the same object for all its nodes."""
    conditions: dict[str, Object] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _next: int = 0

    @property
    def key(self) -> Key:
        return "Node", "", self.name

    @property
    def is_alive(self) -> bool:
        """Whether the kubelet runs."""
        return self.outage is None

    @property
    def address(self) -> str:
        return str(IPv4Address(_HOSTS + self.index + 1))

    def takes(self, workload: Workload) -> bool:
        is_open = self.is_ready and not self.is_cordoned and not self.is_leaving
        return is_open and len(self.pods) < _PODS_PER_NODE and self.used_cpu + workload.cpu <= self.group.cpu

    def add(self, pod: PlayedPod) -> None:
        pod.node = self
        self.pods[pod.key] = pod
        self.used_cpu += pod.workload.cpu

    def drop(self, pod: PlayedPod) -> None:
        del self.pods[pod.key]
        self.used_cpu -= pod.workload.cpu
        self._taken.discard(pod.address)

    def give_address(self, pod: PlayedPod) -> None:
        """Give the pod the next free address, as network plugins do, so that addresses are not reused soon."""
        while not pod.address or pod.address in self._taken:
            pod.address = str(IPv4Address(_PODS + (self.index << _BITS) + 1 + self._next))
            self._next = (self._next + 1) % _MOST_ADDRESSES
        self._taken.add(pod.address)

    def manifest(self, now: str) -> Object:
        cidr = f"{IPv4Address(_PODS + (self.index << _BITS))}/{32 - _BITS}"
        room = {"cpu": _cpu_text(self.group.cpu), "memory": "16Gi", "pods": str(_PODS_PER_NODE)}
        labels = {
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            REGION_LABEL: self.group.region,
            ZONE_LABEL: self.group.zone,
        }
        status = {
            "addresses": [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}],
            "allocatable": room,
            "capacity": dict(room),
            "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "Zoneward sandbox"},
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
            "status": status | self.status(now)["status"],
        }

    def status(self, now: str) -> Object:
        """A status patch of the kubelet, or of the node lifecycle controller for a node whose kubelet stopped."""
        reason = "KubeletReady" if self.is_ready else "NodeStatusUnknown"
        _set_condition(self.conditions, "Ready", "True" if self.is_ready else "Unknown", now, reason=reason)
        return {"status": {"conditions": list(self.conditions.values())}}


def _set_condition(conditions: dict[str, Object], kind: str, status: str, now: str, **more: str) -> None:
    """Set a condition; its transition time changes only with its status."""
    before = conditions.get(kind, {"status": ""})
    since = before["lastTransitionTime"] if before["status"] == status else now
    conditions[kind] = {"type": kind, "status": status, "lastTransitionTime": since, **more}


def _cpu_text(milli: int) -> str:
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def service_manifest(workload: Workload) -> Object:
    service = workload.service
    assert service is not None
    metadata: Object = {"name": workload.name, "namespace": workload.namespace, "labels": {"app": workload.name}}
    if service.annotations:
        metadata["annotations"] = dict(service.annotations)
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]
    spec: Object = {"ports": ports, "selector": {"app": workload.name}, "type": "ClusterIP"}
    if service.traffic_distribution:
        spec["trafficDistribution"] = service.traffic_distribution
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def choose_node(
    workload: Workload, template: str, nodes: Iterable[PlayedNode], others: Iterable[PlayedPod], chance: Random
) -> PlayedNode | None:
    """The node for a new pod; None if no node has room. ``others`` are the pods of its workload."""
    fitting = [node for node in nodes if node.takes(workload)]
    if not fitting:
        return None
    if workload.spread == "random":
        return chance.choice(fitting)
    # Count pods of the same template first, so that a rollout always ends spread evenly.
    by_zone: dict[str, list[int]] = {node.group.zone: [0, 0] for node in fitting}
    by_node: dict[str, list[int]] = {node.name: [0, 0] for node in fitting}
    for other in others:
        if other.node is None or other.is_terminating:
            continue
        for counts in (by_zone.get(other.node.group.zone), by_node.get(other.node.name)):
            if counts is not None:
                counts[0] += other.template == template
                counts[1] += 1

    def rank(node: PlayedNode) -> tuple[list[int], list[int], float, int]:
        return by_zone[node.group.zone], by_node[node.name], node.used_cpu / node.group.cpu, node.index

    return min(fitting, key=rank)
