"""Synthetic clusters: as many Kubernetes objects as wanted, made up from a seed, one at a time.

The same arguments give the same objects. What a cluster is (zones, sizes, settings, who runs where, who is ready) and
what only decorates it are drawn from separate streams, so that ``realistic=False`` is the same cluster with fewer
fields: quick to make, to write and to read.

Only a few numbers per Node and Service are held in memory; pods come one after the other, those of a Service together.
`zoneward.snapshots.snapshot_writer` writes them down.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from string import ascii_lowercase
from typing import Any, Final

from tests.synthetic_details import decorate_node, decorate_pod, uid, written

from zoneward.kube.names import TOPOLOGY_AWARE_HINTS_ANNOTATION, TOPOLOGY_MODE_ANNOTATION, ZONE_LABEL

Object = dict[str, Any]

REGION: Final = "eu-west-1"
UNREADY_SHARE: Final = 0.03
TERMINATING_SHARE: Final = 0.01

_SHAPES: Final = (
    ("m6i.large", 2, "1930m"),
    ("m6i.xlarge", 4, "3920m"),
    ("m6i.2xlarge", 8, "7910m"),
    ("m6i.4xlarge", 16, "15890m"),
)
"""Instance type, cores, allocatable CPU."""

_SETTINGS: Final[tuple[tuple[int, dict[str, str], Object], ...]] = (
    (50, {}, {}),
    (16, {TOPOLOGY_MODE_ANNOTATION: "Auto"}, {}),
    (10, {}, {"trafficDistribution": "PreferSameZone"}),
    (7, {}, {"trafficDistribution": "PreferClose"}),
    (4, {}, {"trafficDistribution": "PreferSameNode"}),
    (3, {TOPOLOGY_AWARE_HINTS_ANNOTATION: "auto"}, {}),
    (2, {TOPOLOGY_MODE_ANNOTATION: "Disabled"}, {}),
    (1, {TOPOLOGY_MODE_ANNOTATION: "ProportionalZoneCPU"}, {}),
    (1, {TOPOLOGY_MODE_ANNOTATION: "PreferZone"}, {}),
    (1, {TOPOLOGY_MODE_ANNOTATION: "Auto"}, {"trafficDistribution": "PreferClose"}),
    (1, {TOPOLOGY_MODE_ANNOTATION: "enabled"}, {}),
    (2, {TOPOLOGY_MODE_ANNOTATION: "Auto"}, {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
    (1, {}, {"internalTrafficPolicy": "Local"}),
    (1, {}, {"clusterIP": "None"}),
)
"""Of a hundred Services, how many have these annotations and these fields of ``spec``."""

_MOST_SERVICES: Final = 65_000
"""Their addresses end in 16 bits."""
_MOST_BALANCERS: Final = 1384
"""Each takes two of the 2768 node ports of a cluster."""

_TRADES: Final = (
    "basket",
    "billing",
    "catalog",
    "courier",
    "gateway",
    "invoice",
    "pricing",
    "profile",
    "reviews",
    "tickets",
)


def synthetic_cluster(
    *, seed: int, pods: int = 1_000, nodes: int = 40, services: int = 100, zones: int = 3, realistic: bool = True
) -> Iterator[Object]:
    """A cluster as plain objects: Namespaces (one for 20 Services), then as many Nodes, Services and Pods as are asked.

    Zones differ in size, at random; each has a Node at least. Sizes of Services have a long tail: with about ten pods a
    Service in the mean, most have 1 to 20, a few have hundreds and one has 2 % of all. Each pod is behind one
    Service, on a ready worker of its zone. About 3 % of pods are not ready and 1 % are terminating. A realistic
    pod takes about 5.8 kB as compact JSON, one that is not about 0.7 kB; an API server takes either.

    Each object is fresh, and the caller's to change. Raises ValueError where the numbers make no cluster.
    """
    if not 1 <= zones <= len(ascii_lowercase):
        raise ValueError(f"zones: expected 1 to {len(ascii_lowercase)}, got {zones}")
    if nodes < zones:
        raise ValueError(f"nodes: expected at least one for each of {zones} zones, got {nodes}")
    if not 0 <= services <= _MOST_SERVICES:
        raise ValueError(f"services: expected 0 to {_MOST_SERVICES}, got {services}")
    if pods < 0 or (pods and not services):
        raise ValueError(f"pods: expected 0 or more, and 0 where there are no Services, got {pods}")
    fleet = _Fleet(Random(f"nodes {seed}"), nodes=nodes, zones=zones, pods=pods)
    return _objects(seed, fleet, pods=pods, services=services, realistic=realistic)


def _objects(seed: int, fleet: "_Fleet", *, pods: int, services: int, realistic: bool) -> Iterator[Object]:
    decoration = Random(f"decoration {seed}")
    chance = Random(f"services {seed}")
    plans = list(_plans(chance, pods=pods, services=services, zones=len(fleet.zones)))
    for name in dict.fromkeys(plan.namespace for plan in plans):
        labels = {"kubernetes.io/metadata.name": name}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": labels, "name": name}}
    for host in fleet.hosts:
        node = _node(host)
        yield decorate_node(node, decoration, instance=host.instance, cores=host.cores) if realistic else node
    for position, plan in enumerate(plans):
        yield _service(plan, position, uid(chance))
    for plan in plans:
        for pod in _pods(plan, fleet, chance):
            yield decorate_pod(pod, decoration, service=plan.name) if realistic else pod


def _apportion(total: int, weights: Sequence[float], *, least: int) -> list[int]:
    """Whole numbers that sum to ``total``, each ``least`` and its part of the rest, largest remainders first."""
    rest = total - least * len(weights)
    whole = sum(weights)
    exact = [rest * weight / whole for weight in weights]
    parts = [int(share) for share in exact]
    by_remainder = sorted(range(len(parts)), key=lambda i: parts[i] - exact[i])
    for i in by_remainder[: rest - sum(parts)]:
        parts[i] += 1
    return [least + part for part in parts]


# --- Nodes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class _Host:
    position: int
    zone: str
    instance: str
    cores: int
    allocatable: str
    is_control_plane: bool
    is_ready: bool

    @property
    def name(self) -> str:
        return f"node-{self.position:05d}"

    @property
    def address(self) -> str:
        return _ipv4(100, 64 << 16, self.position + 1)


class _Fleet:
    """The Nodes, and how many pods each has: in its pod network, the next address."""

    def __init__(self, chance: Random, *, nodes: int, zones: int, pods: int) -> None:
        self.zones = [REGION + letter for letter in ascii_lowercase[:zones]]
        self.hosts: list[_Host] = []
        self._workers: list[tuple[list[_Host], list[int]]] = []
        counts = _apportion(nodes, [chance.uniform(0.6, 1.4) for _ in range(zones)], least=1)
        for zone_index, (zone, count) in enumerate(zip(self.zones, counts, strict=True)):
            here = []
            for i in range(count):
                instance, cores, allocatable = chance.choices(_SHAPES, (1, 4, 4, 2))[0]
                # A zone's last Node is always a worker that pods can go to.
                host = _Host(
                    position=len(self.hosts),
                    zone=zone,
                    instance=instance,
                    cores=cores,
                    allocatable=allocatable,
                    is_control_plane=i == 0 and count > 3 and zone_index < 3,
                    is_ready=chance.random() > 0.01 or i == count - 1,
                )
                self.hosts.append(host)
                if host.is_ready and not host.is_control_plane:
                    here.append(host)
            self._workers.append((here, list(accumulate(host.cores for host in here))))
        self.cores = [cores[-1] for _, cores in self._workers]
        self._everywhere = [host for here, _ in self._workers for host in here]
        self._used = [0] * nodes
        # Room for twice the pods that a worker has in the mean, and for 254 at least, as in a /24.
        self._bits = max(8, (2 * pods // len(self._everywhere) + 2).bit_length())
        if nodes << self._bits >= 1 << 24 or self._bits > 16:
            raise ValueError(f"nodes, pods: expected no more than 10.0.0.0/8 has addresses for, got {nodes}, {pods}")

    def place(self, zone: int, draw: float) -> tuple[_Host, list[str]]:
        """A worker in a zone, bigger ones more often, and the addresses of a pod there; ``draw`` is from [0, 1).

        Where the worker has no address left, another one, in any zone.
        """
        here, cores = self._workers[zone]
        host = here[bisect(cores, draw * cores[-1])]
        if self._used[host.position] >= (1 << self._bits) - 2:
            host = min(self._everywhere, key=lambda other: self._used[other.position])
        self._used[host.position] += 1
        used = self._used[host.position]
        return host, [_ipv4(10, host.position << self._bits, used), f"fd00:10:{host.position + 1:x}::{used:x}"]


def _ipv4(first: int, network: int, host: int) -> str:
    address = network + host
    return f"{first}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def _node(host: _Host) -> Object:
    labels = {"kubernetes.io/hostname": host.name, "topology.kubernetes.io/region": REGION, ZONE_LABEL: host.zone}
    if host.is_control_plane:
        labels["node-role.kubernetes.io/control-plane"] = ""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"labels": labels, "name": host.name},
        "spec": {},
        "status": {
            "addresses": [{"address": host.address, "type": "InternalIP"}, {"address": host.name, "type": "Hostname"}],
            "allocatable": {"cpu": host.allocatable},
            "conditions": [{"status": "True" if host.is_ready else "Unknown", "type": "Ready"}],
        },
    }


# --- Services ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """A Service and how its pods are spread."""

    name: str
    namespace: str
    size: int
    annotations: dict[str, str]
    spec: Object
    is_dual_stack: bool
    spread: tuple[float, ...]
    """How strongly each zone draws its pods, against the zone's cores; 0 keeps them out."""
    balancer: int
    """Of a Service with a load balancer: how many came before. Its node ports follow from it."""

    @property
    def is_headless(self) -> bool:
        return self.spec.get("clusterIP") == "None"


def _plans(chance: Random, *, pods: int, services: int, zones: int) -> Iterator[_Plan]:
    weights = [chance.lognormvariate(0.0, 1.3) for _ in range(services)]
    if services > 1:
        # One Service gets the biggest share, 2 % of all; with few Services 2 % is little, so up to half.
        share = min(0.5, max(0.02, 3 / services))
        limit = share * sum(weights)
        weights = [min(weight, limit) for weight in weights]
        biggest = chance.randrange(services)
        weights[biggest] = share / (1 - share) * (sum(weights) - weights[biggest])
    sizes = _apportion(pods, weights, least=1 if pods >= services else 0)
    shares = [share for share, *_ in _SETTINGS]
    namespaces = max(1, services // 20)
    balancers = 0
    for position, size in enumerate(sizes):
        _, annotations, spec = chance.choices(_SETTINGS, shares)[0]
        is_balanced = spec.get("type") == "LoadBalancer"
        if is_balanced and balancers == _MOST_BALANCERS:
            spec, is_balanced = {}, False
        draws = [chance.random() for _ in range(zones)]
        kind = chance.random()
        if kind < 0.7:
            spread = [1.0] * zones
        elif kind < 0.9:
            spread = [0.05 + draw * draw for draw in draws]
        else:  # One zone or two, as after a careless rollout.
            favourites = sorted(range(zones), key=draws.__getitem__)[: 1 if kind < 0.95 else 2]
            spread = [float(zone in favourites) for zone in range(zones)]
        yield _Plan(
            name=f"{chance.choice(_TRADES)}-{position:05d}",
            namespace=f"team-{position * namespaces // services:04d}",
            size=size,
            annotations=annotations,
            spec=spec,
            is_dual_stack=chance.random() < 0.05,
            spread=tuple(spread),
            balancer=balancers,
        )
        balancers += is_balanced


def _service(plan: _Plan, position: int, own_uid: str) -> Object:
    families = ["IPv4", "IPv6"] if plan.is_dual_stack else ["IPv4"]
    ips = [_ipv4(172, 16 << 16, position + 2), f"fd00:172:1::{position + 2:x}"]
    ports: list[Object] = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]
    spec: Object = {
        "clusterIP": ips[0],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": families,
        "ipFamilyPolicy": "PreferDualStack" if plan.is_dual_stack else "SingleStack",
        "ports": ports,
        "selector": {"app.kubernetes.io/name": plan.name},
        "sessionAffinity": "None",
        "type": "ClusterIP",
    } | plan.spec
    spec["clusterIPs"] = ["None"] if plan.is_headless else ips[: len(families)]
    status: Object = {"loadBalancer": {}}
    if spec["type"] == "LoadBalancer":
        spec["ports"] = [port | {"nodePort": 30000 + 2 * plan.balancer} for port in ports]
        spec["healthCheckNodePort"] = 30001 + 2 * plan.balancer
        status["loadBalancer"]["ingress"] = [{"ip": _ipv4(198, 18 << 16, plan.balancer + 1), "ipMode": "VIP"}]
    metadata: Object = {
        "creationTimestamp": written(days=100),
        "labels": {"app.kubernetes.io/name": plan.name},
        "name": plan.name,
        "namespace": plan.namespace,
        "uid": own_uid,
    }
    if plan.annotations:
        metadata["annotations"] = dict(plan.annotations)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": status}


# --- Pods -------------------------------------------------------------------------------------------------------------

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes makes names of."""


def _letters(value: int, length: int) -> str:
    return "".join(_LETTERS[(value := value // 27) % 27] for _ in range(length))


def _pods(plan: _Plan, fleet: _Fleet, chance: Random) -> Iterator[Object]:
    drawn = list(accumulate(weight * cores for weight, cores in zip(plan.spread, fleet.cores, strict=True)))
    template, offset = _letters(chance.getrandbits(60), 10), chance.getrandbits(24)
    for i in range(plan.size):
        zone = bisect(drawn, chance.random() * drawn[-1])
        host, addresses = fleet.place(zone, chance.random())
        state = chance.random()
        is_terminating = state < TERMINATING_SHARE
        # Of the terminating ones, half no longer serve.
        is_ready = state >= TERMINATING_SHARE + UNREADY_SHARE or state < TERMINATING_SHARE / 2
        # Steps of 7654321, prime to 27, meet each five letters once before any a second time.
        name = (
            f"{plan.name}-{i}"
            if plan.is_headless
            else f"{plan.name}-{template}-{_letters(27 * (offset + 7654321 * i), 5)}"
        )
        labels = {
            "app.kubernetes.io/name": plan.name,
            "pod-template-hash": template,
            "topology.kubernetes.io/region": REGION,
            ZONE_LABEL: host.zone,
        }
        metadata: Object = {"labels": labels, "name": name, "namespace": plan.namespace, "uid": uid(chance)}
        spec: Object = {
            "containers": [
                {
                    "image": f"registry.example.com/{plan.name}:4.12.1",
                    "name": "app",
                    "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                },
            ],
            "nodeName": host.name,
        }
        if plan.is_headless:
            spec |= {"hostname": name, "subdomain": plan.name}
        if is_terminating:
            metadata |= {"deletionGracePeriodSeconds": 30, "deletionTimestamp": written(seconds=-20)}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": {
                "conditions": [{"status": "True" if is_ready else "False", "type": "Ready"}],
                "hostIP": host.address,
                "phase": "Running",
                "podIP": addresses[0],
                "podIPs": [{"ip": address} for address in addresses],
            },
        }
