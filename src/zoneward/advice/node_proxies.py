"""Which kind of proxy runs on each node, and what says so.

In this order, the first that is there counts:

1. Zoneward's proxy in place of kube-proxy: a DaemonSet that selects the node, without ``--service-proxy-name``.
2. Cilium. It translates what Pods send to ClusterIPs on every node where it runs, also beside a kube-proxy that it does
   not replace.
3. kube-router, unless ``--run-service-proxy=false``.
4. kube-proxy: the Pod on the node, then a DaemonSet that selects it. Its gates are in arguments, which win, and in the
   ConfigMap. Without a version in the image's tag, that of the kubelet counts.
5. The version of the kubelet. k3s has kube-proxy built in; otherwise a guess, as proxies may be up to three versions
   older (Kubernetes' version skew policy).

Taints are not looked at: the DaemonSets of proxies tolerate all.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from zoneward.advice.proxy_kinds import (
    KUBE_PROXY_ON_WINDOWS,
    KUBE_ROUTER,
    ZONEWARD_PROXY,
    ProxyKind,
    cilium,
    kube_proxy,
)
from zoneward.kube import names, node_selector
from zoneward.kube.objects import (
    ConfigMap,
    DaemonSet,
    Node,
    ProxyPod,
    Service,
)
from zoneward.kube.proxy_programs import (
    CILIUM_CONFIG,
    Program,
    ProxyProgram,
    find_program,
    gates_of,
    minor_version,
    parse_gates,
    settings_of,
)
from zoneward.routing.demand import Demand
from zoneward.routing.selection.endpoint_selection import Consumer, proxy_name_of
from zoneward.routing.selection.expected_traffic import ConsumerDemand, split_demand

_K3S: Final = "+k3s"
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
    where that led to a guess.
    """

    kind_of: Mapping[str, ProxyKind]
    evidence: Mapping[str, str]
    default: ProxyKind
    labelled: ProxyKind = ZONEWARD_PROXY
    notes: tuple[str, ...] = ()
    _split: list[tuple[Demand, ProxyDemand]] = field(default_factory=list, init=False, repr=False, compare=False)

    def on(self, node: str) -> ProxyKind:
        return self.kind_of.get(node, self.default)

    def split(self, demand: Demand, service: Service) -> ProxyDemand:
        """Demand for a Service. It is split once for all Services."""
        if proxy_name_of(service) is not None:
            kind, number = self.labelled, len(demand.nodes)
            return ProxyDemand((ConsumerDemand(kind.consumer, demand),), {kind: number}, {kind.title: number})
        if not self._split or self._split[0][0] is not demand:
            consumers = split_demand(demand, self.default.consumer, self.consumer_by_node)
            kinds = dict(Counter(self.on(node.name) for node in demand.nodes).most_common())
            titles = Counter[str]()
            for kind, number in kinds.items():
                titles[kind.title] += number
            self._split[:] = [(demand, ProxyDemand(consumers, kinds, titles))]
        return self._split[0][1]

    @cached_property
    def consumer_by_node(self) -> dict[str, Consumer]:
        """The consumers of nodes that differ from the ``default`` one."""
        return {node: kind.consumer for node, kind in self.kind_of.items() if kind.consumer != self.default.consumer}


def same_proxy_everywhere(nodes: Iterable[Node], kind: ProxyKind, *, evidence: str = "--proxy") -> NodeProxies:
    """One kind on all nodes and for all Services, whatever runs there."""
    every = [node.metadata.name for node in nodes]
    return NodeProxies(dict.fromkeys(every, kind), dict.fromkeys(every, evidence), kind, labelled=kind)


def detect_node_proxies(
    nodes: Iterable[Node],
    *,
    daemon_sets: Iterable[DaemonSet],
    pods: Iterable[ProxyPod],
    config_maps: Iterable[ConfigMap],
    missing: Sequence[str] = (),
) -> NodeProxies:
    """The kind of proxy on each node. ``missing`` says what could not be read, a line for each kind of object.

    Where nothing says anything about a node, it counts as one with Zoneward's own proxy, with a note.
    """
    detection = _Detection(tuple(daemon_sets), tuple(pods), tuple(config_maps))
    kind_of: dict[str, ProxyKind] = {}
    evidence: dict[str, str] = {}
    guessed: list[str] = []
    unknown: list[str] = []
    for node in nodes:
        name = node.metadata.name
        found = detection.from_programs(node)
        if found is None:
            found, is_sure = _from_kubelet(node)
            if found is None:
                unknown.append(name)
                found = ZONEWARD_PROXY, "nothing says which proxy runs there"
            elif not is_sure:
                guessed.append(name)
        kind_of[name], evidence[name] = found
    return NodeProxies(kind_of, evidence, ZONEWARD_PROXY, notes=tuple(_notes(len(kind_of), guessed, unknown, missing)))


def _notes(number: int, guessed: Sequence[str], unknown: Sequence[str], missing: Sequence[str]) -> Iterator[str]:
    if guessed or unknown:
        yield from (f"{line}: --proxy says which proxy runs on the nodes" for line in missing)
    if guessed:
        yield f"the proxy of {_some(guessed, number)} is taken to be kube-proxy of the kubelet's version"
    if unknown:
        yield f"nothing says which proxy runs on {_some(unknown, number)}: taken to be Zoneward's own (--proxy)"


def _some(nodes: Sequence[str], number: int) -> str:
    if len(nodes) == number:
        return "the nodes"
    return f"{len(nodes)} of {number} nodes" if len(nodes) > 1 else f"node {nodes[0]}"


_Found = tuple[ProxyKind, str]
"""A kind, and what says so."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A program, the object that runs it, and whether that runs on a node."""

    program: ProxyProgram
    title: str
    namespace: str
    runs_on: Callable[[Node], bool]


class _Detection:
    """The programs that are known, in the order in which they count."""

    def __init__(
        self, daemon_sets: Sequence[DaemonSet], pods: Sequence[ProxyPod], config_maps: Sequence[ConfigMap]
    ) -> None:
        self._cilium = {
            each.metadata.namespace: settings_of(each) for each in config_maps if each.metadata.name == CILIUM_CONFIG
        }
        self._gates: dict[str, bool] = {}
        for each in sorted(config_maps, key=lambda one: one.metadata.name):
            if each.metadata.name != CILIUM_CONFIG:
                self._gates |= gates_of(each)
        self._pods: dict[str, list[_Seen]] = {}
        for pod in sorted(pods, key=lambda one: one.metadata.name):
            program = find_program(pod.spec.containers)
            if program is not None and pod.spec.node_name:
                seen = _Seen(program, f"Pod {pod.metadata.name}", pod.metadata.namespace, lambda _node: True)
                self._pods.setdefault(pod.spec.node_name, []).append(seen)
        programs = [(each, find_program(each.spec.template.spec.containers)) for each in daemon_sets]
        self._daemons = sorted(
            (_of_daemon_set(each, program) for each, program in programs if program is not None),
            key=lambda seen: (_RANKS[seen.program.program], seen.title),
        )

    def from_programs(self, node: Node) -> _Found | None:
        # Pods come first among those of one rank: they are what runs there now, and a sort is stable.
        seen = [*self._pods.get(node.metadata.name, ()), *(each for each in self._daemons if each.runs_on(node))]
        for each in sorted(seen, key=lambda one: _RANKS[one.program.program]):
            kind = self._kind(each, node)
            if kind is not None:
                return kind, f"{each.title}, image {each.program.image}"
        return None

    def _kind(self, seen: _Seen, node: Node) -> ProxyKind | None:
        """None for a program that serves no Services, or only some."""
        program, flags = seen.program, seen.program.flags
        match program.program:
            case "zoneward":
                return None if flags.get("service-proxy-name") else ZONEWARD_PROXY
            case "cilium":
                setting = flags.get("enable-service-topology") or self._cilium.get(seen.namespace, {}).get(
                    "enable-service-topology"
                )
                return cilium(program.minor, service_topology=setting == "true")
            case "kube-router":
                return None if flags.get("run-service-proxy") == "false" else KUBE_ROUTER
            case "kube-proxy":
                minor = program.minor if program.minor is not None else minor_version(_kubelet_version(node))
                if minor is None or flags.get("service-proxy-name"):
                    return None
                if (node.metadata.labels or {}).get(names.OS_LABEL) == names.WINDOWS:
                    return KUBE_PROXY_ON_WINDOWS
                return kube_proxy(minor, self._gates | parse_gates(flags.get("feature-gates", "")))


def _of_daemon_set(each: DaemonSet, program: ProxyProgram) -> _Seen:
    meta = each.metadata
    return _Seen(
        program,
        f"DaemonSet {meta.namespace}/{meta.name}",
        meta.namespace,
        lambda node: selects_node(each, node),
    )


def _kubelet_version(node: Node) -> str:
    info = node.status.node_info if node.status is not None else None
    return info.kubelet_version if info is not None else ""


def _from_kubelet(node: Node) -> tuple[_Found | None, bool]:
    """The kind that the kubelet's version tells, and whether that is sure."""
    version = _kubelet_version(node)
    minor = minor_version(version)
    if minor is None:
        return None, False
    if (node.metadata.labels or {}).get(names.OS_LABEL) == names.WINDOWS:
        return (KUBE_PROXY_ON_WINDOWS, f"kubelet {version} on Windows"), False
    if _K3S in version:
        return (kube_proxy(minor), f"k3s {version} has kube-proxy built in"), True
    return (kube_proxy(minor), f"kubelet {version}"), False


# --- which nodes a DaemonSet selects ----------------------------------------------------------------------------------


def selects_node(daemon_set: DaemonSet, node: Node) -> bool:
    """Whether the Pods of a DaemonSet may run on a node, by ``nodeSelector`` and required node affinity."""
    spec = daemon_set.spec.template.spec
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    return node_selector.selects_node(node, labels=spec.node_selector, required=required)
