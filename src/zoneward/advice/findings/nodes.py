"""Findings 1xx and 2xx: zones, the nodes that make them, and what their proxies make of hints and slice groups."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from zoneward.advice.findings import codes
from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import Finding, FindingObject
from zoneward.advice.node_proxies import KUBE_PROXY_ON_WINDOWS, NodeProxies, ProxyKind
from zoneward.advice.now import ignoring_proxies
from zoneward.kube import names
from zoneward.kube.objects import Service, is_virtual_node
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.demand import Demand
from zoneward.routing.phrases import counted, format_percent
from zoneward.routing.selection.endpoint_selection import honored_hints, is_proxied
from zoneward.routing.thresholds import overload_threshold


def node_findings(view: ClusterView) -> Iterator[Finding]:
    """Nodes as demand reads them: control plane nodes and nodes that are not ready do not count."""
    demand = view.cluster_state.demand
    if not view.knows("Nodes"):
        return
    if not demand.nodes:
        message = f"none of {counted(len(view.nodes), 'node')} is ready and no control plane node: demand is unknown"
        yield codes.NO_READY_NODE.finding(codes.CLUSTER, message)
        return
    by_cpu = view.cluster_state.by_cpu
    for name in by_cpu.without_zone:
        message = "no label topology.kubernetes.io/zone: Auto gives no hints to any Service while one node has none"
        yield codes.NODE_WITHOUT_ZONE.finding(FindingObject("Node", "", name), message)
    if demand.only_zone is not None:
        message = f"{counted(len(demand.nodes), 'node')}, all in zone {demand.only_zone}"
        yield codes.ONE_ZONE.finding(codes.CLUSTER, message)
    yield from _skew(view, demand)
    then = ""
    if by_cpu is demand:
        then = "nodes are counted instead of CPU, in all zones; " if demand.unit == "nodes" else "Auto gives no hints; "
    for name in by_cpu.without_cpu:
        message = f"no status.allocatable.cpu above 0: {then}the built-in controller gives no hints"
        yield codes.NODE_WITHOUT_CPU.finding(FindingObject("Node", "", name), message)


def _skew(view: ClusterView, demand: Demand) -> Iterator[Finding]:
    """Whether pods that are spread evenly, as a spread constraint spreads them, would break the threshold."""
    if len(demand.zones) < 2:
        return
    largest = max(demand.weights)
    zone = demand.zones[demand.weights.index(largest)]
    overload = Fraction(largest * len(demand.zones), demand.total) - 1
    threshold = overload_threshold(view.cluster_state.configuration.hints, in_force=False)
    if overload >= threshold:
        shares = ", ".join(f"{zone} {demand.share(zone):.0%}" for zone in demand.zones)
        message = (
            f"{shares}: with pods spread evenly, those in zone {zone} would get {format_percent(overload)} more than"
            f" fair (threshold {format_percent(threshold)})"
        )
        yield codes.SKEWED_ZONES.finding(codes.CLUSTER, message)


_CILIUM_FIX: Final = (
    "Set enable-service-topology in Cilium's configuration (Helm: loadBalancer.serviceTopology), and restart Cilium. "
    "Where a provider runs Cilium and does not offer it, hints have no effect."
)


_WINDOWS_FIX: Final = (
    "Run the clients of Services that need hints on Linux nodes: no kube-proxy for Windows honors hints."
)


def proxy_findings(view: ClusterView) -> Iterator[Finding]:
    """By node where a proxy ignores all hints, by Service where proxies honor less than it asks for."""
    proxies = view.node_proxies
    if proxies is None or not view.knows("Nodes", "proxies"):
        return
    nodes_with_proxy = [node for node in view.nodes if not is_virtual_node(node)]
    kinds = Counter(proxies.on(node.metadata.name) for node in nodes_with_proxy)
    for node in nodes_with_proxy:
        name = node.metadata.name
        kind = proxies.on(name)
        if kind.consumer.zone_hints == "never":
            evidence = f" ({proxies.evidence[name]})" if proxies.evidence.get(name) else ""
            message = f"{kind.title} {kind.about}{evidence}"
            fix = _CILIUM_FIX if kind.can_switch_on else _WINDOWS_FIX if kind is KUBE_PROXY_ON_WINDOWS else ""
            yield codes.PROXY_IGNORES_HINTS.finding(FindingObject("Node", "", name), message, fix=fix)
    if len({kind.consumer for kind in kinds}) > 1:
        parts = ", ".join(f"{kind.title} on {counted(nodes, 'node')}" for kind, nodes in kinds.most_common())
        what, asks = "the same Service", True
        if len({replace(kind.consumer, name="", about="", node_hints=False) for kind in kinds}) == 1:
            what = f"a Service with {names.PREFER_SAME_NODE}"
            asks = any(heuristic.node_hints for service in view.services for _, heuristic in service.asking_families())
        message = f"{parts}: {what} is routed in different ways, by the node of the client"
        yield codes.PROXY_SKEW.finding(codes.CLUSTER, message, asks=asks)
    gates = view.cluster_state.configuration.gates
    for service in view.services:
        yield from _unhonored(service, proxies, view, gates)


def _unhonored(view: ServiceView, proxies: NodeProxies, cluster: ClusterView, gates: FeatureGates) -> Iterator[Finding]:
    """At most one finding a Service: both families have the same proxies."""
    for family, heuristic in view.asking_families():
        # Proxies that ignore all hints are findings about their nodes.
        lost = {
            kind: nodes
            for kind, nodes in ignoring_proxies(family, proxies)
            if family.decision.has_slice_groups or kind.consumer.zone_hints != "never"
        }
        what = "slice groups" if family.decision.has_slice_groups else "hints for zones of such a Service"
        if not lost and heuristic.node_hints and family.decision.active and is_proxied(view.service):
            lost = _ignoring_node_hints(view.plan.service, proxies, cluster.cluster_state.demand, gates)
            what = "hints for nodes"
        if lost:
            titles = ", ".join(sorted(kind.title for kind in lost))
            name, nodes = cluster.name_of(heuristic.name), counted(sum(lost.values()), "node")
            fix = ""
            if family.decision.has_slice_groups:
                hints = f"{cluster.name_of(names.PREFER_SAME_ZONE)}, or subsetting.encoding: hints"
                fix = f"No kube-proxy reads slice groups. Ask for hints: {hints}. Or run zoneward proxy on all nodes."
            elif (
                view.plan.service.spec.traffic_distribution == names.PREFER_SAME_ZONE
                and cluster.cluster_state.same_zone_value == names.PREFER_CLOSE
            ):
                fix = f"Write {names.PREFER_CLOSE}: it means the same, and these proxies honor it."
            message = f"{name}: {titles} on {nodes} ignores {what}"
            yield codes.PROXY_IGNORES_SETTING.finding(view.object, message, fix=fix)
            return


def _ignoring_node_hints(
    service: Service, proxies: NodeProxies, demand: Demand, gates: FeatureGates
) -> dict[ProxyKind, int]:
    """By kind of proxy, the nodes where hints for zones count and those for nodes do not."""
    kinds = proxies.split(demand, service).kinds
    honored = {kind: honored_hints(service, kind.consumer, gates) for kind in kinds}
    return {kind: kinds[kind] for kind, hints in honored.items() if hints.zones and not hints.nodes}
