"""Findings 2xx: what the proxies on the nodes make of hints and slice groups."""

from collections import Counter
from collections.abc import Iterator

from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import (
    CLUSTER,
    PROXY_IGNORES_HINTS,
    PROXY_IGNORES_SETTING,
    PROXY_SKEW,
    Finding,
    FindingObject,
)
from zoneward.advice.proxy_kinds import ProxyKind
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import Heuristic
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.decision import Decision
from zoneward.routing.rules import counted
from zoneward.routing.selection.endpoint_selection import honored_hints, is_proxied


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
            yield PROXY_IGNORES_HINTS.finding(FindingObject("Node", "", name), message)
    if len({kind.consumer for kind in kinds}) > 1:
        parts = (f"{kind.title} on {counted(number, 'node')}" for kind, number in kinds.most_common())
        message = f"{', '.join(parts)}: the same Service is routed in different ways, by the node of the client"
        yield PROXY_SKEW.finding(CLUSTER, message)
    for service in view.services:
        yield from _unhonored(service, kinds, view.cluster_state.configuration.gates)


def _unhonored(view: ServiceView, kinds: Counter[ProxyKind], gates: FeatureGates) -> Iterator[Finding]:
    """At most one finding a Service: both families have the same proxies."""
    if not is_proxied(view.service):
        return
    for family, heuristic in view.asking_families():
        if not family.decision.active:
            continue
        lost = {
            kind: what
            for kind in kinds
            if kind.consumer.zone_hints != "never"
            and (what := _ignored(view.plan.service, family.decision, heuristic, kind, gates))
        }
        if lost:
            nodes = sum(kinds[kind] for kind in lost)
            titles = ", ".join(sorted(kind.title for kind in lost))
            message = f"{heuristic.name}: {titles} on {counted(nodes, 'node')} ignores {next(iter(lost.values()))}"
            yield PROXY_IGNORES_SETTING.finding(view.object, message)
            return


def _ignored(
    service: Service, decision: Decision, heuristic: Heuristic, kind: ProxyKind, gates: FeatureGates
) -> str | None:
    """What of a decision a kind of proxy ignores."""
    if decision.has_slice_groups:
        return "slice groups" if kind.consumer.zone_slices == "ignored" else None
    honored = honored_hints(service, kind.consumer, gates)
    if not honored.zones:
        return "hints for zones of such a Service"
    return "hints for nodes" if heuristic.node_hints and not honored.nodes else None
