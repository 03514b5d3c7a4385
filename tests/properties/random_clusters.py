"""Random clusters for properties, and how a property is run.

They are made of small choices (a Node's zone and kind, a Pod's Node and kind), so that a failing one shrinks to a few
Nodes and Pods that say what matters. Nodes and Pods are bytes and settings are picked from tables: to draw something
takes Hypothesis longer than to plan with it.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Final, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace
from tests.builders.structs import DUAL_STACK, IPV4, IPV6, PORT, a_node, a_pod, a_service, a_slice, an_endpoint, hints
from tests.clusters import Cluster, slices_after

from zoneward.kube import names
from zoneward.kube.objects import ContainerPort, EndpointSlice, Node, NodeMeta, Number, Pod, PodIP, Service, ServicePort
from zoneward.routing.algorithms.heuristics import HEURISTICS, SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import (
    Configuration,
    DefaultApproach,
    FeatureGates,
    HintsSettings,
    SubsettingSettings,
)


def examples(count: int) -> settings:
    """Settings for ``count`` examples; half of them with the profile ``quick``, which halves the usual number."""
    usual = settings.get_profile("fixed").max_examples
    return settings(
        max_examples=count * settings().max_examples // usual,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


CPUS: Final[tuple[Number, ...]] = (4, 4, 4, "4", "3920m", "1", 2, 8.0, "16", "500m", "7.91")
_FINE: Final = ("fine",)
_IDLE: Final = ("fine", "fine", "fine", "fine", "not ready", "control plane")
_NO_CPU: Final = ("fine", "fine", "fine", "no cpu", "no status", "not ready")
_NO_ZONE: Final = ("fine", "fine", "fine", "no zone")
_DOWN: Final = ("not ready", "control plane")
_NODE_KINDS: Final = (*(_FINE, _IDLE, _NO_CPU, _NO_ZONE) * 3, _DOWN)
MOST_NODES: Final = 16
_READY: Final = ("ready",)
_MIXED: Final = (*_READY * 6, "not ready", "leaving", "going", "finished", "no address")
_HOST: Final = ("ready", "ready", "ready", "host", "host", "host leaving")
_STRANGE: Final = (*_MIXED, "gone", "host", "host leaving", "other port", "no port")
"""At most sixteen: the kind of a Pod is half a byte."""


class Setting(NamedTuple):
    """The annotations, the field ``trafficDistribution`` and ``topologyKeys`` of a Service."""

    mode: str | None = None
    old: str | None = None
    distribution: str | None = None
    keys: tuple[str, ...] | None = None
    subsetting: str | None = None
    algorithm: str | None = None
    starting: str | None = None


_BALANCED: Final = (
    Setting("Auto"),
    Setting("ProportionalZoneCPU"),
    Setting(old="auto"),
    Setting("Auto", distribution="PreferSameNode"),
    Setting(distribution="zoneward.dev/ProportionalZoneCPU"),
    Setting("Auto", subsetting="Disabled"),
)
_OWN_ZONE: Final = (
    Setting("PreferZone"),
    Setting("zoneward.dev/PreferSameZone"),
    Setting(distribution="PreferClose"),
    Setting(distribution="PreferSameZone"),
    Setting(distribution="zoneward.dev/PreferZone"),
    Setting("Disabled", distribution="PreferSameZone"),
    Setting("Banana", distribution="PreferSameZone"),
    Setting(distribution="PreferSameZone", subsetting="Banana"),
)
_SHARED_SETS: Final = (Setting("zoneward.dev/Balanced"), Setting(distribution="zoneward.dev/Balanced"))
_OWN_NODE: Final = (Setting(distribution="PreferSameNode"), Setting("zoneward.dev/PreferSameNode"))
_NOTHING: Final = (
    Setting(),
    Setting("Banana"),
    Setting("example.com/Banana"),
    Setting(distribution="Banana"),
    Setting("Auto", old=""),
    Setting("Auto", distribution="PreferSameZone", keys=("kubernetes.io/hostname", "*")),
    Setting(subsetting="Disabled"),
    Setting(subsetting="Banana"),
    Setting(subsetting="Auto", keys=("*",)),
)
_OURS: Final = tuple(f"{names.DOMAIN}/{name}" for name in HEURISTICS)
_WRITTEN_IN_ANNOTATIONS: Final = (
    *(None, "Auto", "auto", "ProportionalZoneCPU", "PreferZone", "Disabled", "", "Banana", "AUTO"),
    *("example.com/ProportionalZoneCPU", *_OURS),
)
_WRITTEN_IN_FIELD: Final = (None, *names.TRAFFIC_DISTRIBUTIONS, "Banana", "", "example.com/PreferZone", *_OURS)

_WRITTEN_FOR_SUBSETTING: Final = ("Auto", "Prefer", "Require", "Disabled", "Random", "", "Banana", "auto", "local")
_ALGORITHMS: Final = (None, *SUBSETTING_ALGORITHMS)
_WRITTEN_AS_ALGORITHM: Final = (*_ALGORITHMS, "", "Banana", "Local", "RequireZone")
_STARTING: Final = (None, None, "1", "0.5", "2")
_WRITTEN_AS_STARTING: Final = (*_STARTING, "0", "-1", "1e3", "1000.000001", "", "three", "\u0663")

_any_setting: Final[st.SearchStrategy[Setting]] = st.builds(
    Setting,
    mode=st.sampled_from(_WRITTEN_IN_ANNOTATIONS),
    old=st.sampled_from((None, None, None, *_WRITTEN_IN_ANNOTATIONS)),
    distribution=st.sampled_from(_WRITTEN_IN_FIELD),
    keys=st.sampled_from((None, None, None, (), ("topology.kubernetes.io/zone", "*"))),
    subsetting=st.sampled_from((*(None,) * 6, *_WRITTEN_FOR_SUBSETTING)),
    algorithm=st.sampled_from(_WRITTEN_AS_ALGORITHM),
    starting=st.sampled_from(_WRITTEN_AS_STARTING),
)
BALANCED: Final = st.sampled_from(_BALANCED)
"""Settings that ask for ProportionalZoneCPU."""
ZONE_HINTS: Final = st.sampled_from((*_BALANCED, *_OWN_ZONE, *_SHARED_SETS))
"""Settings that ask for hints for zones alone."""
NODE_HINTS: Final = st.sampled_from(_OWN_NODE)
"""Settings that ask for hints for nodes."""
SUBSETTING: Final = st.one_of(
    st.builds(
        Setting,
        mode=st.sampled_from((None, None, None, "Auto")),
        subsetting=st.sampled_from(("Auto", "Auto", "Prefer")),
        algorithm=st.sampled_from(_ALGORITHMS),
        starting=st.sampled_from(_STARTING),
    ),
    st.builds(
        Setting,
        subsetting=st.sampled_from(("Auto", "Auto", "Auto", "Require")),
        algorithm=st.sampled_from(_WRITTEN_AS_ALGORITHM),
        starting=st.sampled_from(_WRITTEN_AS_STARTING),
    ),
)
"""Settings that ask for subsetting, some in words that not all are understood."""
ANY_SETTING: Final = st.one_of(
    BALANCED,
    BALANCED,
    SUBSETTING,
    SUBSETTING,
    st.sampled_from(_OWN_ZONE),
    NODE_HINTS,
    st.sampled_from(_NOTHING),
    _any_setting,
)


@st.composite
def nodes_of(draw: st.DrawFn, *, zones: int, kinds: Sequence[str]) -> tuple[Node, ...]:
    made = draw(st.binary(min_size=zones, max_size=MOST_NODES))
    placed = draw(st.binary(min_size=MOST_NODES, max_size=MOST_NODES))
    return tuple(
        _random_node(
            index,
            index if index < zones else placed[index] % zones,
            CPUS[choice % len(CPUS)],
            kinds[choice // len(CPUS) % len(kinds)],
        )
        for index, choice in enumerate(made)
    )


def _random_node(index: int, zone: int, cpu: Number, kind: str) -> Node:
    name, zone_name = f"node-{index:02}", f"zone-{zone + 1}"
    if kind == "no status":
        return Node(metadata=NodeMeta(name=name, labels={names.ZONE_LABEL: zone_name}))
    return a_node(
        name,
        None if kind == "no zone" else zone_name,
        cpu=None if kind == "no cpu" else cpu,
        ready=kind != "not ready",
        labels={names.NODE_EXCLUDED_LABELS[0]: ""} if kind == "control plane" else None,
    )


@st.composite
def pods_of(draw: st.DrawFn, *, nodes: int, most: int, kinds: Sequence[str], first: int = 0) -> tuple[Pod, ...]:
    # Bytes alone are mostly few: what it is like in a zone with many endpoints would hardly be seen.
    least = draw(st.sampled_from((0, most // 4, most // 2)))
    chosen = draw(st.binary(min_size=least, max_size=most))
    return tuple(
        _random_pod(index, choice % 16 % nodes, kinds[choice // 16 % len(kinds)])
        for index, choice in enumerate(chosen, start=first)
    )


def _random_pod(index: int, node: int, kind: str) -> Pod:
    name, on = f"pod-{index:02}", f"node-{node:02}"
    ips: tuple[str, ...] = (f"10.0.0.{index + 1}", f"fd00::{index + 1:x}")
    if kind.startswith("host"):
        ips = (f"10.1.0.{node + 1}", f"fd01::{node + 1:x}")
    ports = [ContainerPort(name="web", container_port=9090 if kind == "other port" else PORT)]
    return a_pod(
        name,
        "node-gone" if kind == "gone" else on,
        ips=() if kind == "no address" else ips,
        ready=kind not in ("not ready", "going"),
        terminating=kind in ("leaving", "going", "host leaving"),
        phase="Succeeded" if kind == "finished" else "Running",
        ports=[] if kind == "no port" else ports,
    )


def with_one_address(pods: Sequence[Pod], count: int) -> tuple[Pod, ...]:
    """The first few Pods get the same address, on any Nodes."""
    ips = (PodIP(ip="10.2.0.1"), PodIP(ip="fd02::1"))
    return (*(replace(pod, status=replace(pod.status, pod_ips=ips)) for pod in pods[:count]), *pods[count:])


_CLUSTER_IP: Final = "10.96.0.1"
_POLICY: Final = (*(None,) * 4, "Cluster", "Local")
_POLICIES: Final = st.sampled_from(
    list(product(_POLICY, _POLICY, (None, None, None, False, True), (*(_CLUSTER_IP,) * 3, names.HEADLESS)))
)
"""Of external and internal traffic, whether endpoints that are not ready are published, and the address."""
_LABELS: Final[tuple[dict[str, str] | None, ...]] = (None, None, None, {"team": "web"}, {names.ZONE_LABEL: "zone-1"})
_SHAPES: Final = st.sampled_from(
    list(product((IPV4, IPV4, IPV6, DUAL_STACK, DUAL_STACK), (False, True), (False, True), _LABELS))
)
"""Address families, whether the first port is asked for by its name, whether there is a second one, and labels."""


@st.composite
def services(draw: st.DrawFn, *, setting: st.SearchStrategy[Setting], policies: bool = True) -> Service:
    asks = draw(setting)
    external, internal, publish, cluster_ip = draw(_POLICIES) if policies else (None, None, None, _CLUSTER_IP)
    type_ = "ClusterIP" if external is None or cluster_ip == names.HEADLESS else "LoadBalancer"
    families, named, metrics, labels = draw(_SHAPES)
    ports = [
        ServicePort(
            name="http",
            port=80,
            target_port="web" if named else PORT,
            node_port=30080 if type_ == "LoadBalancer" else None,
        )
    ]
    if metrics:
        ports.append(ServicePort(name="metrics", port=81, target_port=9091))
    return a_service(
        **asks._asdict(),
        families=families,
        labels=labels,
        internal=internal,
        external=external,
        type_=type_,
        cluster_ip=cluster_ip,
        publish_not_ready=publish,
        ports=ports,
    )


_ZONES: Final = (1, 2, 3, 4, 5, 6, 9)
"""Nine are more than a hint may name."""
_THRESHOLDS: Final = (
    HintsSettings(),
    *(HintsSettings(missing_cpu="disable"),) * 4,
    HintsSettings(start_threshold=Fraction(1, 2), keep_threshold=Fraction(1)),
    HintsSettings(start_threshold=Fraction(1, 100), keep_threshold=Fraction(1, 100)),
    HintsSettings(in_zone_tolerance=Fraction(0)),
    HintsSettings(in_zone_tolerance=Fraction(1)),
)
_GATES: Final = (
    *(FeatureGates(), FeatureGates(), FeatureGates(), FeatureGates(), FeatureGates(), FeatureGates(), FeatureGates()),
    FeatureGates(topology_aware_hints=False),
    FeatureGates(service_traffic_distribution=False),
    FeatureGates(prefer_same_traffic_distribution=False),
    FeatureGates(topology_aware_subsetting=False),
)
_DEFAULT_APPROACHES: Final[tuple[DefaultApproach, ...]] = (*("ClusterWide",) * 3, "Subsetting", "Balanced")
_ANY_ALGORITHM: Final = tuple(SUBSETTING_ALGORITHMS)
_WITHOUT_WEIGHTS: Final = tuple(name for name in _ANY_ALGORITHM if not SUBSETTING_ALGORITHMS[name].weighs)


_SUBSETTING_SETTINGS: Final = st.sampled_from(
    list(product(("1", "1", "1/2", "2", "3"), (0, 1, 3), ("1/2", "1/2", "1/10", "5"), ("1/10", "1/10", "0", "1")))
)


@st.composite
def subsetting_settings(draw: st.DrawFn) -> SubsettingSettings:
    as_hints = draw(st.sampled_from((False, False, True)))
    starting, padding, overload, tolerance = draw(_SUBSETTING_SETTINGS)
    return SubsettingSettings(
        algorithm=draw(st.sampled_from(_WITHOUT_WEIGHTS if as_hints else _ANY_ALGORITHM)),
        starting_threshold=Fraction(starting),
        padding=padding,
        overload_threshold=Fraction(overload),
        in_zone_tolerance=Fraction(tolerance),
        encoding="hints" if as_hints else "slice-groups",
    )


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    setting: st.SearchStrategy[Setting] = ANY_SETTING,
    most_zones: int = 9,
    most_pods: int = 30,
    history: bool = True,
    others: bool = True,
    tidy: bool = False,
) -> Cluster:
    """A cluster at any moment of its life.

    ``history``: slices of earlier moments may exist, Zoneward's and the built-in controller's. ``others``: and slices
    of another manager. ``tidy``: Nodes have zones and CPU, endpoints have zones and unique addresses, policies are the
    default: nothing but numbers prevents hints.
    """
    zones = draw(st.sampled_from([count for count in _ZONES if count <= most_zones]))
    kinds = draw(st.sampled_from((_FINE, _IDLE) if tidy else _NODE_KINDS))
    nodes = draw(nodes_of(zones=zones, kinds=kinds))
    kinds = draw(st.sampled_from((_READY, _MIXED) if tidy else (_READY, _MIXED, _HOST, _STRANGE)))
    pods = draw(pods_of(nodes=len(nodes), most=most_pods, kinds=kinds))
    now = Cluster(
        service=draw(services(setting=setting, policies=not tidy)),
        nodes=nodes,
        pods=pods,
        configuration=Configuration(
            max_endpoints_per_slice=draw(st.sampled_from((100, 2, 3, 5, 10))),
            hints=draw(st.sampled_from(_THRESHOLDS)),
            subsetting=draw(subsetting_settings()),
            default_approach=draw(st.sampled_from(_DEFAULT_APPROACHES)),
            gates=FeatureGates() if tidy else draw(st.sampled_from(_GATES)),
        ),
    )
    if history:
        now = draw(_with_history(now))
    if others and draw(st.sampled_from((False, False, False, True))):
        now = now.with_(slices=(*now.slices, *draw(_slices_of_others(zones))))
    return now


@st.composite
def _with_history(draw: st.DrawFn, now: Cluster) -> Cluster:
    who = draw(st.sampled_from(("nobody", "us", "us", "us twice", "built-in", "both", "us, meddled with")))
    slices: tuple[EndpointSlice, ...] = ()
    service = now.service
    if who in ("built-in", "both"):
        before = draw(_before(now))
        before = before.with_(configuration=before.configuration.as_upstream())
        slices = tuple(
            # It has the API server make up its names.
            replace(slice_, metadata=replace(slice_.metadata, name=f"{slice_.metadata.name[:5]}bltn{index}"))
            for index, slice_ in enumerate(slices_after(before.plan()))
        )
    if who.startswith("us") or who == "both":
        before = draw(_before(now)).settled()
        if who == "us twice":
            before = draw(_before(now)).with_(slices=before.slices).settled()
        service = replace(service, status=before.service.status)
        slices += draw(_meddled(before.slices)) if who == "us, meddled with" else before.slices
    return now.with_(service=service, slices=slices)


@st.composite
def _before(draw: st.DrawFn, now: Cluster) -> Cluster:
    absent = draw(st.integers(0, 2 ** len(now.pods) - 1)) & draw(st.integers(0, 2 ** len(now.pods) - 1))
    pods = tuple(pod for index, pod in enumerate(now.pods) if not absent >> index & 1)
    pods += draw(pods_of(nodes=len(now.nodes), most=draw(st.sampled_from((0, 4, 12))), kinds=_READY, first=60))
    nodes = now.nodes[: draw(st.integers(1, len(now.nodes)))]
    zone = draw(st.sampled_from((None, None, "zone-1", "zone-2")))
    if zone is not None:
        nodes = (*nodes, a_node("node-of-before", zone, cpu=16))
    service = now.service
    if draw(st.booleans()):
        asked = draw(ANY_SETTING)
        other = a_service(**asked._asdict())
        service = replace(
            service,
            metadata=replace(service.metadata, annotations=other.metadata.annotations),
            spec=replace(service.spec, traffic_distribution=asked.distribution, topology_keys=asked.keys),
        )
    most = draw(st.sampled_from((now.configuration.max_endpoints_per_slice, 4, 100)))
    configuration = structs.replace(now.configuration, max_endpoints_per_slice=most)
    if draw(st.sampled_from((False, False, True))):
        configuration = structs.replace(configuration, subsetting=draw(subsetting_settings()))
    return now.with_(service=service, pods=pods, nodes=nodes, configuration=configuration)


_WRITTEN_AS_ZONES: Final = (
    *("zone-1,zone-2", "zone-1=0.75,zone-2=0.250000", "zone-2,zone-1", "zone-1=0", "zone-1,zone-1"),
    *("zone-3=0.5", "zone-1=", ",", ""),
)


@st.composite
def _meddled(draw: st.DrawFn, slices: tuple[EndpointSlice, ...]) -> tuple[EndpointSlice, ...]:
    result = []
    for index, slice_ in enumerate(slices):
        annotations, endpoints = slice_.metadata.annotations, slice_.endpoints or ()
        what = ("as it was", "annotation", "hints", "no hints", "twice", "empty", "labels", "zone", "zones")
        match draw(st.sampled_from(what)):
            case "annotation":
                said = ("Hints/ProportionalZoneCPU", "Subsetting/local", "?")
                annotations = {names.APPROACH_ANNOTATION: draw(st.sampled_from(said))}
            case "zone":
                labels = {
                    **(slice_.metadata.labels or {}),
                    names.ZONE_LABEL: draw(st.sampled_from(("zone-1", "zone-8"))),
                }
                slice_ = replace(slice_, metadata=replace(slice_.metadata, labels=labels))
            case "zones":
                annotations = {**(annotations or {}), names.ZONES_ANNOTATION: draw(st.sampled_from(_WRITTEN_AS_ZONES))}
            case "hints":
                endpoints = tuple(replace(one, hints=hints(f"zone-{index % 7}")) for one in endpoints)
            case "no hints":
                endpoints = tuple(replace(one, hints=None) for one in endpoints)
            case "twice":
                # In this slice and the next one, or both times in this one.
                following = slices[(index + 1) % len(slices)]
                endpoints += endpoints if following.address_type != slice_.address_type else following.endpoints or ()
            case "empty":
                endpoints = ()
            case "labels":
                slice_ = replace(
                    slice_, metadata=replace(slice_.metadata, labels={names.MANAGED_BY_LABEL: names.MANAGER, "x": "y"})
                )
        result.append(replace(slice_, metadata=replace(slice_.metadata, annotations=annotations), endpoints=endpoints))
    return tuple(result)


@st.composite
def _slices_of_others(draw: st.DrawFn, zones: int) -> tuple[EndpointSlice, ...]:
    endpoint_parts = st.tuples(st.integers(1, zones), st.sampled_from((None, None, 1, zones)), st.integers(0, 8))
    endpoints = [
        an_endpoint(
            f"10.{2 if index else 0}.0.{index + 1}",
            f"zone-{zone}",
            hinted=hints(f"zone-{hinted}") if hinted is not None else None,
            ready=index != 7,
        )
        for zone, hinted, index in draw(st.lists(endpoint_parts, max_size=3, unique_by=lambda one: one[2]))
    ]
    manager = draw(st.sampled_from(("endpointslicemirroring-controller.k8s.io", "example.com", None)))
    labels = draw(st.sampled_from((None, None, None, {names.ZONE_LABEL: "zone-1"}, {names.ZONE_LABEL: "zone-8"})))
    return (a_slice("of-others", *endpoints, manager=manager, owner=None, labels=labels),)
