"""The sample cluster as tables: its Nodes, its Services and where their pods are. `make` writes it down."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

HEADER: Final = """\
# The sample cluster of Zoneward: an online shop on Kubernetes v1.37 in three zones, with every setting somewhere.
#
# Ready workers in zones eu-central-1a, b and c have 40 %, 32 % and 28 % of the allocatable CPU, as in the example of
# KEP-2433. One worker is NotReady, one Node is the control plane. After the Nodes come 16 Services of up to 250 pods,
# each with a line on what it shows, then one EndpointSlice written by hand, then the Pods, Service by Service. Other
# EndpointSlices are not here: a controller makes them, and `zoneward plan` shows them before.
#
# Made by examples/sample/make.py. Change that, not this file.
"""

REGION: Final = "eu-central-1"
ZONES: Final = ("a", "b", "c")
SNAPSHOT: Final = datetime(2026, 10, 20, 9, 14, tzinfo=UTC)
"""When this cluster was looked at. ``LOST`` fell silent two minutes before, so nothing on it has been evicted yet."""
CONTROL_PLANE: Final = "control-a1"
LOST: Final = "worker-c7"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """An instance type: CPU as a whole and as allocatable, memory in Ki before the kubelet's reserve."""

    cores: int
    allocatable: str
    memory: int
    arch: str = "amd64"


SHAPES: Final = {
    "m6i.xlarge": Shape(cores=4, allocatable="3920m", memory=15896936),
    "m6g.xlarge": Shape(cores=4, allocatable="3920m", memory=15941516, arch="arm64"),
    "m6i.2xlarge": Shape(cores=8, allocatable="7910m", memory=32137500),
    "m6i.4xlarge": Shape(cores=16, allocatable="15890m", memory=64618524),
}
MEMORY_RESERVE: Final = (255 + 11 * 110 + 100) * 1024
"""Ki that a kubelet with room for 110 pods holds back on these clouds: the system's, 11 Mi a pod, for eviction."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """A Node. Its position in ``HOSTS``, from 1, is in the addresses of its pods: 10.244.<position>.0/24."""

    name: str
    zone: str
    instance: str


def _workers(zone: str, *instances: str) -> tuple[Host, ...]:
    return tuple(
        Host(name=f"worker-{zone}{n}", zone=zone, instance=instance) for n, instance in enumerate(instances, start=1)
    )


HOSTS: Final = (
    Host(name=CONTROL_PLANE, zone="a", instance="m6i.2xlarge"),
    *_workers("a", *["m6i.4xlarge"] * 3, *["m6i.2xlarge"] * 3, *["m6i.xlarge"] * 2),
    *_workers("b", *["m6i.4xlarge"] * 2, *["m6i.2xlarge"] * 2, *["m6i.xlarge"] * 2, *["m6g.xlarge"] * 2),
    *_workers("c", *["m6i.4xlarge"] * 2, *["m6i.2xlarge"] * 2, *["m6g.xlarge"] * 2, "m6i.2xlarge"),
)
"""Ready workers have 79240m, 63280m and 55440m in zones a, b and c: 40.0 %, 32.0 % and 28.0 %."""


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port of a Service and, as ``target``, of its containers. The Service calls it by name unless ``by_number``."""

    name: str = "http"
    port: int = 80
    target: int = 8080
    protocol: str = "TCP"
    app_protocol: str | None = None
    by_number: bool = False


PerZone = tuple[int, int, int]
"""Pods in zones a, b and c."""
State = Literal["ready", "unready", "draining", "stopped", "stranded", "pending", "finished"]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A Service, what it shows, and the pods behind it."""

    name: str
    shows: str
    namespace: str = "shop"
    annotations: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    """What the Service's spec says beside the API server's defaults."""
    ports: tuple[Port, ...] = (Port(),)
    kind: Literal["Deployment", "StatefulSet", "DaemonSet"] | None = "Deployment"
    """None: a Service without selector."""
    owner: str | None = None
    """The Deployment or DaemonSet, where its name is not the Service's."""
    image: str | None = None
    ready: PerZone = (0, 0, 0)
    unready: PerZone = (0, 0, 0)
    draining: PerZone = (0, 0, 0)
    """Terminating, still serving."""
    stopped: PerZone = (0, 0, 0)
    """Terminating, no longer serving."""
    stranded: int = 0
    """On the lost Node, hence not ready."""
    pending: int = 0
    """Without a Node and an address."""
    finished: int = 0
    """Succeeded pods of a Job that carry the Service's label."""
    hosts: tuple[str, ...] = ()
    """Of a DaemonSet: the Nodes with a pod."""

    def places(self) -> Iterator[tuple[State, str | None]]:
        """Each pod's state and where it goes: a zone, the name of a Node, or nowhere yet."""
        counted: tuple[tuple[State, PerZone], ...] = (
            ("ready", self.ready),
            ("unready", self.unready),
            ("draining", self.draining),
            ("stopped", self.stopped),
            ("finished", (self.finished, 0, 0)),
        )
        for state, counts in counted:
            yield from ((state, zone) for zone, count in zip(ZONES, counts, strict=True) for _ in range(count))
        for name in (*self.hosts, *[LOST] * self.stranded):
            yield "stranded" if name == LOST else "ready", name
        for _ in range(self.pending):
            yield "pending", None


MODE: Final = "service.kubernetes.io/topology-mode"
HINTS: Final = "service.kubernetes.io/topology-aware-hints"

WORKLOADS: Final = (
    Workload(
        name="frontend",
        shows="Auto beside externalTrafficPolicy: Local.",
        annotations={MODE: "Auto"},
        spec={"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31888},
        ports=(Port(), Port(name="https", port=443, target=8443)),
        ready=(5, 4, 3),
    ),
    Workload(
        name="catalog",
        shows="Auto with 250 pods, some not ready, some terminating. A finished Job's pod has the same label.",
        annotations={MODE: "Auto"},
        ready=(90, 88, 66),
        unready=(1, 1, 0),
        draining=(1, 0, 0),
        stopped=(0, 0, 1),
        stranded=2,
        finished=1,
    ),
    Workload(
        name="search",
        shows="Auto and trafficDistribution: the annotation wins. Of 10 pods 7 are in zone a, which has to give.",
        annotations={MODE: "Auto"},
        spec={"trafficDistribution": "PreferClose"},
        ports=(Port(name="grpc", port=9000, target=9000, app_protocol="kubernetes.io/h2c", by_number=True),),
        ready=(7, 2, 1),
    ),
    Workload(
        name="recommendations",
        shows="ProportionalZoneCPU, its pods spread just like the CPU. One more pod waits for a Node.",
        annotations={MODE: "ProportionalZoneCPU"},
        ready=(10, 8, 7),
        pending=1,
    ),
    Workload(
        name="reviews",
        shows="PreferZone with the pods of KEP-2433's example: none in zone b, whose traffic goes to all of them.",
        annotations={MODE: "PreferZone"},
        ready=(2, 0, 3),
    ),
    Workload(
        name="images",
        shows="PreferClose with pods in two zones: the traffic of zone b goes to all of them.",
        spec={"trafficDistribution": "PreferClose"},
        ports=(Port(by_number=True),),
        ready=(3, 0, 3),
    ),
    Workload(
        name="cart",
        shows="PreferSameZone with 1 of 20 pods in the biggest zone: that one bears all of the zone's traffic.",
        spec={"trafficDistribution": "PreferSameZone"},
        ready=(1, 10, 9),
    ),
    Workload(
        name="checkout",
        shows="Auto with 2 pods for 3 zones: too few.",
        annotations={MODE: "Auto"},
        ready=(1, 1, 0),
    ),
    Workload(
        name="inventory",
        shows="No setting at all.",
        ready=(5, 4, 3),
        unready=(0, 1, 0),
    ),
    Workload(
        name="wishlist",
        shows="A value of the annotation that nobody knows, and a single pod.",
        annotations={MODE: "auto-zone"},
        ready=(0, 1, 0),
    ),
    Workload(
        name="mail",
        shows="ExternalName: an alias in DNS, without endpoints.",
        spec={"type": "ExternalName", "externalName": "smtp.mail.example"},
        ports=(),
        kind=None,
    ),
    Workload(
        name="api",
        namespace="payments",
        shows="The old annotation, and dual-stack: a decision for each address family.",
        annotations={HINTS: "auto"},
        spec={"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"},
        ports=(Port(name="https", port=443, target=8443),),
        ready=(6, 5, 4),
        unready=(0, 0, 1),
    ),
    Workload(
        name="ledger",
        namespace="payments",
        shows="Headless, before a StatefulSet, with Disabled.",
        annotations={MODE: "Disabled"},
        spec={"clusterIP": "None"},
        ports=(Port(name="postgres", port=5432, target=5432),),
        kind="StatefulSet",
        image="docker.io/library/postgres:18.0",
        ready=(1, 1, 1),
    ),
    Workload(
        name="bank-gateway",
        namespace="payments",
        shows="Auto without a selector: its EndpointSlice is written by hand and has no hints.",
        annotations={MODE: "Auto"},
        ports=(Port(name="https", port=443, target=8443, by_number=True),),
        kind=None,
    ),
    Workload(
        name="kube-dns",
        namespace="kube-system",
        shows="PreferSameNode with a pod on most Nodes. From the others, DNS goes to pods in the same zone.",
        spec={"clusterIP": "10.96.0.10", "trafficDistribution": "PreferSameNode"},
        ports=(
            Port(name="dns", port=53, target=53, protocol="UDP"),
            Port(name="dns-tcp", port=53, target=53),
            Port(name="metrics", port=9153, target=9153, by_number=True),
        ),
        kind="DaemonSet",
        owner="coredns",
        image="registry.k8s.io/coredns/coredns:v1.13.1",
        hosts=tuple(
            host.name
            for host in HOSTS
            if host.name not in {CONTROL_PLANE, "worker-a8", "worker-b4", "worker-b8", "worker-c6"}
        ),
    ),
    Workload(
        name="log-agent",
        namespace="kube-system",
        shows="internalTrafficPolicy: Local with a pod on every Node.",
        spec={"internalTrafficPolicy": "Local"},
        ports=(Port(name="otlp-grpc", port=4317, target=4317, app_protocol="grpc"),),
        kind="DaemonSet",
        image="docker.io/otel/opentelemetry-collector:0.137.0",
        hosts=tuple(host.name for host in HOSTS),
    ),
)
