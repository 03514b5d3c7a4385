"""The kinds of proxies that run on nodes, what hints each honors, which one runs on each node, and the evidence.

kube-proxy by its minor version (KEP-2433, KEP-4444 and KEP-3015 § Implementation History and § Version Skew Strategy):

- to 1.23: the gate TopologyAwareHints is off.
- 1.24 to 1.26: hints for zones, where the annotation ``topology-aware-hints`` is ``Auto``: they do not know
  ``topology-mode``. 1.27 to 1.30: where either annotation is not ``Disabled``.
- from 1.31 (ServiceTrafficDistribution is beta): hints for zones always. From 1.34 (PreferSameTrafficDistribution is
  beta): hints for nodes first.

Cilium honors hints for zones only with ``enable-service-topology``, and only for Services that request them: from 1.11
by the topology annotation, from 1.16 also by ``PreferClose``, from 1.20 also by ``PreferSameZone`` and
``PreferSameNode``. From 1.19 an endpoint that is not ready and has no hint turns hints for zones off for the whole
Service (cilium/cilium#47960); a terminating one does not (cilium/cilium#45947). kube-router and kube-proxy on Windows
honor none.

Each running Pod of a proxy claims its node. So does each DaemonSet that selects the node, if its Pods are not in the
input and its status does not say that it has none. Claims from kube-system win, then in this order:

1. Zoneward's proxy in place of kube-proxy: without ``--service-proxy-name``.
2. Cilium. It translates what Pods send to ClusterIPs on every node where it runs, also beside a kube-proxy that it does
   not replace.
3. kube-router, unless ``--run-service-proxy=false``.
4. kube-proxy. Its gates are in arguments, which win, and in the ConfigMap. Without a version in the image's tag, that
   of the kubelet counts.

Where two programs claim a node, a note says so. Where nothing claims it, kube-proxy of the kubelet's version is
assumed, or the newest where that is not known. k3s has kube-proxy built in, and EKS runs it outside Pods on Fargate and
in Auto Mode; otherwise a note says that it is a guess: proxies may be up to three versions older (Kubernetes' version
skew policy).

Taints are ignored: the DaemonSets of proxies tolerate all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from zoneward.kube import names, selectors
from zoneward.kube.objects import (
    ConfigMap,
    DaemonSet,
    Node,
    ObjectKey,
    ProxyPod,
    Service,
    is_virtual_node,
)
from zoneward.kube.proxy_programs import (
    CILIUM_CONFIG,
    FEATURE_GATES,
    SYSTEM_NAMESPACE,
    Program,
    ProxyProgram,
    find_program,
    gates_of,
    minor_version,
    owning_daemon_set,
    parse_gates,
    settings_of,
)
from zoneward.routing.demand import Demand
from zoneward.routing.selection.endpoint_selection import CONSUMERS, CURRENT, ZONEWARD, Consumer, proxy_name_of
from zoneward.routing.selection.traffic import ConsumerDemand, split_demand

OLDEST_KUBE_PROXY: Final = 21
NEWEST_KUBE_PROXY: Final = 37
"""Minor versions that are offered by name; older and newer ones are known by the same rules."""
_OLDEST_CILIUM: Final = 11
_NEWEST_CILIUM: Final = 20
_USUAL_CILIUM: Final = 18
_CILIUM_WITH_UNREADY: Final = 19
"""From this version on, endpoints that are not ready count when it looks for hints."""

GATE_HINTS, GATE_DISTRIBUTION, GATE_SAME_NODE = FEATURE_GATES
_GATES: Final[Mapping[str, tuple[int, int, int]]] = {
    GATE_HINTS: (21, 24, 33),
    GATE_DISTRIBUTION: (30, 31, 33),
    GATE_SAME_NODE: (33, 34, 35),
}
"""The minor versions of kube-proxy that know a gate, that have it on by default, and that have it locked to on."""
_NO_HINTS: Final = CONSUMERS["no-hints"]
_ZONE_HINTS: Final = CONSUMERS["zone-hints"]
_OLD_ANNOTATION: Final = Consumer(
    "old-annotation", "honors forZones only beside topology-aware-hints: Auto", "old-annotation", node_hints=False
)
_ANY_ANNOTATION: Final = Consumer(
    "any-annotation", "honors forZones only beside an annotation that is not Disabled", "any-annotation", False
)


@dataclass(frozen=True, slots=True)
class ProxyKind:
    """One kind of proxy. ``about`` says in one phrase what it honors, ``alias_of`` what an alias means.
    ``can_switch_on``: it ignores hints by a setting.
    """

    name: str
    consumer: Consumer
    about: str
    alias_of: str = ""
    can_switch_on: bool = False

    @property
    def title(self) -> str:
        """The name in a sentence: ``kube-proxy 1.33``."""
        if self.alias_of:
            return self.alias_of
        program, dash, version = self.name.rpartition("-1.")
        return f"{program} 1.{version.replace('-', ' ')}" if dash else self.name

    @property
    def uses_conntrack(self) -> bool:
        """Whether its connections are in the kernel's connection tracking, which a meter reads. Cilium has its own."""
        return not self.name.startswith("cilium")


def kube_proxy(minor: int, gates: Mapping[str, bool] = MappingProxyType({})) -> ProxyKind:
    """kube-proxy 1.``minor``, with feature gates as its configuration or arguments set them."""
    on = {gate: _is_on(gate, minor, gates) for gate in _GATES}
    changed = [gate for gate in _GATES if on[gate] != _is_on(gate, minor, {})]
    marks = "".join(f"-{'with' if on[gate] else 'without'}-{gate}" for gate in changed)
    consumer = _kube_proxy_consumer(minor, on)
    return ProxyKind(f"kube-proxy-1.{minor}{marks}", consumer, consumer.about.partition(" (")[0])


def _is_on(gate: str, minor: int, gates: Mapping[str, bool]) -> bool:
    known, default, locked = _GATES[gate]
    if minor >= locked or minor < known:
        return minor >= locked
    return gates.get(gate, minor >= default)


def _kube_proxy_consumer(minor: int, on: Mapping[str, bool]) -> Consumer:
    if not on[GATE_HINTS]:
        return _NO_HINTS
    if on[GATE_SAME_NODE]:
        return CURRENT
    if on[GATE_DISTRIBUTION]:
        return _ZONE_HINTS
    return _ANY_ANNOTATION if minor >= 27 else _OLD_ANNOTATION


def cilium(minor: int | None, *, service_topology: bool | None) -> ProxyKind:
    """Cilium 1.``minor``, without or with ``enable-service-topology`` (None: not known, so off, its default). Of an
    unknown version, as most of them are.
    """
    name = "cilium" if minor is None else f"cilium-1.{minor}"
    if minor is None:
        minor = _USUAL_CILIUM
    if not service_topology or minor < _OLDEST_CILIUM:
        about = "ignores hints, as enable-service-topology is off"
        if service_topology is None:
            about += " by default"
        return ProxyKind(name, _NO_HINTS, about, can_switch_on=minor >= _OLDEST_CILIUM)
    name += "-service-topology"
    if minor < 16:
        consumer = _ANY_ANNOTATION if minor >= 14 else _OLD_ANNOTATION
        return ProxyKind(name, consumer, consumer.about)
    about, honored = "honors forZones beside a topology annotation", [names.PREFER_CLOSE]
    if minor < 20:
        about += " or PreferClose, not beside PreferSameZone"
    else:
        about += ", PreferClose or PreferSameZone, forNodes for PreferSameNode"
        honored.append(names.PREFER_SAME_ZONE)
    consumer = Consumer(
        name,
        about,
        "any-annotation",
        node_hints=minor >= 20,
        distributions=tuple(honored),
        counts_unready=minor >= _CILIUM_WITH_UNREADY,
    )
    return ProxyKind(name, consumer, about)


def switched_on(kind: ProxyKind) -> ProxyKind:
    """The same with ``enable-service-topology``, where only that is off."""
    if not kind.can_switch_on:
        return kind
    _, _, minor = kind.name.partition("-1.")
    return cilium(int(minor) if minor else None, service_topology=True)


KUBE_PROXY_ON_WINDOWS: Final = ProxyKind("kube-proxy-windows", _NO_HINTS, "ignores hints, in all versions")
KUBE_ROUTER: Final = ProxyKind("kube-router", _NO_HINTS, "ignores hints")
ZONEWARD_PROXY: Final = ProxyKind("zoneward", ZONEWARD, "honors all hints, slice groups and weights of zones")
_KINDS: Final = (
    ZONEWARD_PROXY,
    *(kube_proxy(minor) for minor in range(NEWEST_KUBE_PROXY, OLDEST_KUBE_PROXY - 1, -1)),
    *(cilium(minor, service_topology=True) for minor in range(_NEWEST_CILIUM, _OLDEST_CILIUM - 1, -1)),
    *(cilium(minor, service_topology=False) for minor in range(_NEWEST_CILIUM, _OLDEST_CILIUM - 1, -1)),
    KUBE_ROUTER,
    KUBE_PROXY_ON_WINDOWS,
)
_ALIASES: Final = {
    "current": "kube-proxy 1.34 and later",
    "zone-slices": "a proxy that reads zones' slices",
    "zone-hints": "kube-proxy 1.31 to 1.33",
    "annotation": "kube-proxy 1.24 to 1.30",
    "no-hints": "a proxy without hints",
}
"""What the names of consumers mean."""
PROXY_KINDS: Final[Mapping[str, ProxyKind]] = MappingProxyType(
    {kind.name: kind for kind in _KINDS}
    | {
        consumer.name: ProxyKind(consumer.name, consumer, consumer.about, _ALIASES[consumer.name])
        for consumer in CONSUMERS.values()
        if consumer is not ZONEWARD
    }
)
"""By name: what ``--proxy`` takes. The names of `CONSUMERS` are aliases."""


_K3S: Final = "+k3s"
# --- the proxies of a cluster -----------------------------------------------------------------------------------------


_SERVICE_TOPOLOGY: Final = "enable-service-topology"
_RUNNING: Final = ("Running", "")
"""Phases of a Pod that runs; files that people write need not say it."""
NEWEST: Final = kube_proxy(NEWEST_KUBE_PROXY)
"""Assumed where nothing says which proxy runs."""
_RANKS: Final[Mapping[Program, int]] = {"zoneward": 0, "cilium": 1, "kube-router": 2, "kube-proxy": 3}


@dataclass(frozen=True, slots=True)
class ProxyDemand:
    """Demand by the kind of proxy: for predictions, and the number of nodes where it starts, by kind and by title.

    The most common kind comes first.
    """

    consumers: tuple[ConsumerDemand, ...]
    kinds: Mapping[ProxyKind, int]
    nodes: Mapping[str, int]


@dataclass(frozen=True)
class NodeProxies:
    """The kind of proxy on every node of the cluster, by the node's name, and what says so.

    ``default`` is the kind for a node that is not known. Services with the label ``service-proxy-name`` are for proxies
    of that name alone, ``labelled`` says which these are. ``notes`` are lines to be shown: what could not be read, and
    where that led to a guess. ``daemon_set_of`` has the DaemonSet that runs the proxy of a node, where one is known.
    """

    kind_of: Mapping[str, ProxyKind]
    evidence: Mapping[str, str]
    default: ProxyKind
    labelled: ProxyKind = ZONEWARD_PROXY
    notes: tuple[str, ...] = ()
    daemon_set_of: Mapping[str, ObjectKey] = field(default_factory=dict)
    _split: list[tuple[Demand, ProxyDemand]] = field(default_factory=list, init=False, repr=False, compare=False)

    def on(self, node: str) -> ProxyKind:
        return self.kind_of.get(node, self.default)

    def split(self, demand: Demand, service: Service) -> ProxyDemand:
        """Demand for a Service. It is split once for all Services."""
        if proxy_name_of(service) is not None:
            kind, nodes = self.labelled, len(demand.nodes)
            return ProxyDemand((ConsumerDemand(kind.consumer, demand),), {kind: nodes}, {kind.title: nodes})
        if not self._split or self._split[0][0] != demand:
            consumers = split_demand(demand, self.default.consumer, self.consumer_by_node)
            kinds = dict(Counter(self.on(node.name) for node in demand.nodes).most_common())
            titles = Counter[str]()
            for kind, nodes in kinds.items():
                titles[kind.title] += nodes
            self._split[:] = [(demand, ProxyDemand(consumers, kinds, titles))]
        return self._split[0][1]

    @cached_property
    def consumer_by_node(self) -> dict[str, Consumer]:
        """The consumers of nodes that differ from the ``default`` one."""
        return {node: kind.consumer for node, kind in self.kind_of.items() if kind.consumer != self.default.consumer}


def same_proxy_everywhere(nodes: Iterable[Node], kind: ProxyKind) -> NodeProxies:
    """One kind on all nodes and for all Services: nothing is detected."""
    every = [node.metadata.name for node in nodes]
    return NodeProxies(dict.fromkeys(every, kind), dict.fromkeys(every, "--proxy"), kind, labelled=kind)


def detect_node_proxies(
    nodes: Iterable[Node],
    *,
    daemon_sets: Iterable[DaemonSet],
    pods: Iterable[ProxyPod],
    config_maps: Iterable[ConfigMap],
    missing: Sequence[str] = (),
) -> NodeProxies:
    """The kind of proxy on each node. ``missing`` says what could not be read, a line for each kind of object.

    Where nothing says what runs on a node it counts as one with kube-proxy, with a note. Virtual nodes have no proxy.
    """
    detection = _Detection(daemon_sets, pods, config_maps)
    kind_of: dict[str, ProxyKind] = {}
    evidence: dict[str, str] = {}
    undetected: list[str] = []
    without_settings: list[str] = []
    contested: dict[str, list[str]] = {}
    daemon_set_of: dict[str, ObjectKey] = {}
    for node in nodes:
        if is_virtual_node(node):
            continue
        name = node.metadata.name
        claims = detection.claims(node)
        if not claims:
            kind_of[name], evidence[name], is_sure = _from_kubelet(node)
            if not is_sure:
                undetected.append(name)
            continue
        first, kind_of[name] = claims[0]
        evidence[name] = first.evidence
        if first.daemon_set:
            daemon_set_of[name] = first.namespace, first.daemon_set
        rivals = dict.fromkeys(seen.place for seen, _ in claims if seen.name != first.name)
        if rivals:
            contested.setdefault(" and ".join((first.place, *rivals)), []).append(name)
        if first.name == "cilium" and not detection.knows_settings(first):
            without_settings.append(name)
    notes = _notes(len(kind_of), undetected, without_settings, contested, missing)
    return NodeProxies(kind_of, evidence, NEWEST, notes=tuple(notes), daemon_set_of=daemon_set_of)


def _notes(
    count: int,
    undetected: Sequence[str],
    without_settings: Sequence[str],
    contested: Mapping[str, Sequence[str]],
    missing: Sequence[str],
) -> Iterator[str]:
    if undetected or without_settings:
        yield from missing
    if undetected:
        yield f"cannot detect the proxy on {_nodes(undetected, count)}; assuming kube-proxy (override with --proxy)"
    if without_settings:
        setting = "enable-service-topology is off"
        yield f"no settings of Cilium on {_nodes(without_settings, count)}; assuming {setting} (override with --proxy)"
    for kinds, nodes in contested.items():
        winner = kinds.partition(" (")[0]
        yield f"two proxies on {_nodes(nodes, count)}: {kinds}; assuming {winner} (override with --proxy)"


def _nodes(nodes: Sequence[str], count: int) -> str:
    if len(nodes) == count:
        return "the nodes"
    return f"{len(nodes)} of {count} nodes" if len(nodes) > 1 else f"node {nodes[0]}"


@dataclass(frozen=True, slots=True)
class _Seen:
    """A program, and the Pod or the DaemonSet that runs it."""

    program: ProxyProgram
    runs_in: ProxyPod | DaemonSet

    @property
    def name(self) -> Program:
        return self.program.program

    @property
    def namespace(self) -> str:
        return self.runs_in.metadata.namespace

    @property
    def daemon_set(self) -> str:
        """The name of the DaemonSet; empty for a Pod without one."""
        return self.runs_in.metadata.name if isinstance(self.runs_in, DaemonSet) else owning_daemon_set(self.runs_in)

    @property
    def place(self) -> str:
        return f"{self.name} ({self.namespace})"

    @property
    def evidence(self) -> str:
        # The DaemonSet of a Pod, so that alike nodes have alike evidence.
        daemon_set = self.daemon_set
        title = (
            f"DaemonSet {self.namespace}/{daemon_set}"
            if daemon_set
            else f"Pod {self.namespace}/{self.runs_in.metadata.name}"
        )
        return f"{title}, image {self.program.image}" if self.program.image else title


class _Detection:
    """The programs that are known."""

    def __init__(
        self, daemon_sets: Iterable[DaemonSet], pods: Iterable[ProxyPod], config_maps: Iterable[ConfigMap]
    ) -> None:
        self._cilium: dict[str, dict[str, str]] = {}
        self._gates: dict[str, bool] = {}
        for config_map in sorted(config_maps, key=lambda config_map: config_map.metadata.name):
            if config_map.metadata.name == CILIUM_CONFIG:
                self._cilium[config_map.metadata.namespace] = settings_of(config_map)
            elif config_map.metadata.name != names.OVERLAY_CONFIG_MAP:
                self._gates |= gates_of(config_map)
        self._pods: dict[str, list[_Seen]] = {}
        known: set[ObjectKey] = set()
        for pod in sorted(pods, key=lambda pod: pod.metadata.name):
            program = find_program(pod.spec.containers)
            if program is None:
                continue
            known.add((pod.metadata.namespace, owning_daemon_set(pod)))
            if pod.spec.node_name and pod.status.phase in _RUNNING:
                self._pods.setdefault(pod.spec.node_name, []).append(_Seen(program, pod))
        self._daemons: list[tuple[DaemonSet, _Seen]] = []
        for daemon_set in sorted(daemon_sets, key=lambda daemon_set: "/".join(_key(daemon_set))):
            program = find_program(daemon_set.spec.template.spec.containers)
            has_none = daemon_set.status is not None and daemon_set.status.number_ready == 0
            if program is not None and not has_none and _key(daemon_set) not in known:
                self._daemons.append((daemon_set, _Seen(program, daemon_set)))

    def claims(self, node: Node) -> list[tuple[_Seen, ProxyKind]]:
        """The programs on a node that serve all Services, with the kind of proxy that each makes; the first counts."""
        # Pods come first among those of one rank: they are what runs there now, and a sort is stable.
        daemons = (seen for daemon_set, seen in self._daemons if selects_node(daemon_set, node))
        seen = [*self._pods.get(node.metadata.name, ()), *daemons]
        seen.sort(key=lambda one: (one.namespace != SYSTEM_NAMESPACE, _RANKS[one.name]))
        return [(one, kind) for one in seen if (kind := self._kind(one, node)) is not None]

    def knows_settings(self, seen: _Seen) -> bool:
        """Whether the settings of a Cilium are known."""
        return seen.namespace in self._cilium or _SERVICE_TOPOLOGY in seen.program.flags

    def _kind(self, seen: _Seen, node: Node) -> ProxyKind | None:
        """None for a program that serves no Services, or only a few of them."""
        program, flags = seen.program, seen.program.flags
        match program.program:
            case "zoneward":
                return None if flags.get("service-proxy-name") else ZONEWARD_PROXY
            case "cilium":
                setting = flags.get(_SERVICE_TOPOLOGY) or self._cilium.get(seen.namespace, {}).get(_SERVICE_TOPOLOGY)
                is_known = self.knows_settings(seen)
                return cilium(program.minor, service_topology=setting == "true" if is_known else None)
            case "kube-router":
                return None if flags.get("run-service-proxy") == "false" else KUBE_ROUTER
            case "kube-proxy":
                if flags.get("service-proxy-name"):
                    return None
                if _is_windows(node):
                    return KUBE_PROXY_ON_WINDOWS
                minor = program.minor if program.minor is not None else minor_version(_kubelet_version(node))
                gates = self._gates | parse_gates(flags.get("feature-gates", ""))
                return kube_proxy(NEWEST_KUBE_PROXY if minor is None else minor, gates)


def _key(daemon_set: DaemonSet) -> ObjectKey:
    return daemon_set.metadata.namespace, daemon_set.metadata.name


def changes_kubelet(old: Node, new: Node) -> bool:
    """Whether a Node has another version of Kubernetes or another operating system: then its proxy is another one."""
    return (_kubelet_version(old), _is_windows(old)) != (_kubelet_version(new), _is_windows(new))


def _is_windows(node: Node) -> bool:
    return (node.metadata.labels or {}).get(names.OS_LABEL) == names.WINDOWS


def _kubelet_version(node: Node) -> str:
    info = node.status.node_info if node.status is not None else None
    return info.kubelet_version if info is not None else ""


def _from_kubelet(node: Node) -> tuple[ProxyKind, str, bool]:
    """kube-proxy in the version of the kubelet, the evidence, and whether that is certain."""
    version = _kubelet_version(node)
    minor = minor_version(version)
    if _is_windows(node):
        return KUBE_PROXY_ON_WINDOWS, "assumed on Windows", False
    if minor is None:
        return NEWEST, "assumed without a kubelet version", False
    compute_type = (node.metadata.labels or {}).get(names.EKS_COMPUTE_TYPE_LABEL)
    if compute_type in names.EKS_WITH_KUBE_PROXY:
        return kube_proxy(minor), f"EKS runs kube-proxy on nodes of type {compute_type}, kubelet {version}", True
    if _K3S in version:
        return kube_proxy(minor), f"k3s {version} has kube-proxy built in", True
    return kube_proxy(minor), f"assumed by kubelet {version}", False


# --- which nodes a DaemonSet selects ----------------------------------------------------------------------------------


def selects_node(daemon_set: DaemonSet, node: Node) -> bool:
    """Whether the Pods of a DaemonSet may run on a node, by ``nodeSelector`` and required node affinity."""
    spec = daemon_set.spec.template.spec
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    return selectors.selects_node(node, labels=spec.node_selector, required=required)
