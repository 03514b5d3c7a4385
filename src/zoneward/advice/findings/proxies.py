"""Findings 2xx: what the proxies on the nodes make of hints and slice groups."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import (
    CLUSTER,
    PROXY_IGNORES_HINTS,
    PROXY_IGNORES_SETTING,
    PROXY_SKEW,
    Finding,
    FindingObject,
)
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.now import ignoring_proxies
from zoneward.advice.proxy_kinds import ProxyKind
from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.demand import Demand
from zoneward.routing.phrases import counted
from zoneward.routing.selection.endpoint_selection import honored_hints, is_proxied

_CILIUM_FIX: Final = (
    "Set enable-service-topology in Cilium's configuration (Helm: loadBalancer.serviceTopology), and restart Cilium. "
    "Where a provider runs Cilium and does not offer it, hints have no effect."
)


def proxy_findings(view: ClusterView) -> Iterator[Finding]:
    """By node where a proxy ignores all hints, by Service where proxies honor less than it asks for."""
    proxies = view.node_proxies
    if proxies is None or not view.knows("Nodes", "proxies"):
        return
    kinds = Counter(proxies.on(node.metadata.name) for node in view.nodes)
    for node in view.nodes:
        name = node.metadata.name
        kind = proxies.on(name)
        if kind.consumer.zone_hints == "never":
            evidence = f" ({proxies.evidence[name]})" if proxies.evidence.get(name) else ""
            message = f"{kind.title} {kind.about}{evidence}"
            fix = _CILIUM_FIX if kind.can_switch_on else ""
            yield PROXY_IGNORES_HINTS.finding(FindingObject("Node", "", name), message, fix=fix)
    if len({kind.consumer for kind in kinds}) > 1:
        parts = (f"{kind.title} on {counted(nodes, 'node')}" for kind, nodes in kinds.most_common())
        message = f"{', '.join(parts)}: the same Service is routed in different ways, by the node of the client"
        yield PROXY_SKEW.finding(CLUSTER, message)
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
            elif _asks_by_new_name(view.plan.service) and cluster.cluster_state.same_zone_value == names.PREFER_CLOSE:
                fix = f"Write {names.PREFER_CLOSE}: it means the same, and these proxies honor it."
            yield PROXY_IGNORES_SETTING.finding(view.object, f"{name}: {titles} on {nodes} ignores {what}", fix=fix)
            return


def _asks_by_new_name(service: Service) -> bool:
    return service.spec.traffic_distribution == names.PREFER_SAME_ZONE


def _ignoring_node_hints(
    service: Service, proxies: NodeProxies, demand: Demand, gates: FeatureGates
) -> dict[ProxyKind, int]:
    """By kind of proxy, the nodes where hints for zones count and those for nodes do not."""
    kinds = proxies.split(demand, service).kinds
    honored = {kind: honored_hints(service, kind.consumer, gates) for kind in kinds}
    return {kind: kinds[kind] for kind, hints in honored.items() if hints.zones and not hints.nodes}
