"""Findings 4xx: what a Service asks for, and why it does not get it or should not. They come from its plan."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from zoneward.advice.findings import codes
from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import Code, Finding
from zoneward.advice.pod_limits import database_role
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.phrases import counted, format_percent, listed
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import is_proxied, policies_of
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.routing.thresholds import overload_threshold
from zoneward.slices.plan import FamilyPlan, is_managed

_CODE_OF_REASON: Final = {
    Reason.TOO_FEW_ENDPOINTS: codes.TOO_FEW_ENDPOINTS,
    Reason.BELOW_STARTING_THRESHOLD: codes.TOO_FEW_ENDPOINTS,
    Reason.OVERLOAD: codes.WOULD_OVERLOAD,
    Reason.ENDPOINT_WITHOUT_ZONE: codes.ENDPOINT_WITHOUT_ZONE,
    Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL: codes.BYPASSED,
}
"""Reasons for which a Service does not get what it asks for, that are about the Service itself."""
_BYPASSING: Final = ("internal-traffic-policy", "proxied")
"""Rules of a plan about fields beside which hints do not matter."""


def service_findings(view: ClusterView) -> Iterator[Finding]:
    """At most one finding of each code for a Service: that of its first address family that has one."""
    for service in view.services:
        yield from _dropped(service, view)
        findings: dict[Code, Finding] = {}
        for family, _ in service.asking_families():
            for code, message in _problems(service, family, view):
                if code not in findings and view.knows(*code.needs):
                    findings[code] = code.finding(service.object, message, fix=_fix(code, service, family))
        yield from findings.values()


def _fix(code: Code, service: ServiceView, family: FamilyPlan) -> str:
    """The fix that differs from that of the code, or an empty one."""
    if code is codes.WOULD_OVERLOAD:
        return overload_fix(service, family.decision.heuristic)
    return database_fix(service) if code in (codes.TOO_FEW_ENDPOINTS, codes.ZONE_WITHOUT_ENDPOINT) else ""


def _dropped(service: ServiceView, view: ClusterView) -> Iterator[Finding]:
    """Independent of the setting. Without Pods and endpoints, the Service may be unused."""
    dropped = next(filter(None, map(service.dropped, service.plan.families)), None)
    if dropped is None or not view.knows(*codes.DROPPED.needs):
        return
    if not dropped.is_empty or service.given.pods:
        message = f"{dropped.what} is dropped: {dropped.reason}"
        yield codes.DROPPED.finding(service.object, message, fix=dropped.fix)
    elif is_managed(service.service):
        message = "no pod matches its selector, and no slice lists an endpoint"
        yield codes.NO_ENDPOINT.finding(service.object, message)
    else:
        message = "it has no selector, and no slice lists an endpoint"
        fix = "Write a slice with its endpoints, or delete the Service."
        yield codes.NO_ENDPOINT.finding(service.object, message, fix=fix)


def _problems(service: ServiceView, family: FamilyPlan, view: ClusterView) -> Iterator[tuple[Code, str]]:
    decision = family.decision
    code = _CODE_OF_REASON.get(decision.reason)
    # Where nothing is served, another finding says more.
    if code is not None and (family.traffic is None or family.traffic.served):
        # The message of Kubernetes has only the numbers of endpoints and zones; the rule has what they lack.
        rules = (rule.detail for rule in decision.rules if rule.rule == "upstream-allocation")
        yield code, f"{view.name_of(decision.heuristic)}: {next(rules, decision.message)}"
    for rule in decision.rules:
        if rule.rule in _BYPASSING and not rule.passed:
            yield codes.BYPASSED, rule.detail
    broken = overload_planned(family)
    if broken is not None and (service.is_hypothetical or overload_now(service, family) is None):
        yield codes.WOULD_OVERLOAD, f"{view.name_of(decision.heuristic)}: {broken}"
    traffic = family.traffic
    if not decision.active or traffic is None or not is_proxied(family.service):
        return
    empty = tuple(zone for zone, figures in traffic.zones.items() if figures.demand and zone and not figures.located)
    zones = len(view.cluster_state.demand.zones)
    if empty and decision.endpoints:
        few = decision.endpoints < zones
        numbers = f"{counted(decision.endpoints, 'endpoint')} for {counted(zones, 'zone')}: " if few else ""
        message = f"{numbers}none in zone {listed(empty)}, whose traffic is sent to all others"
        yield codes.TOO_FEW_ENDPOINTS if few else codes.ZONE_WITHOUT_ENDPOINT, message


def database_fix(service: ServiceView) -> str:
    """The fix of a Service that other Pods do not help, because one of them leads; empty for all others."""
    role = database_role(service.given.pods)
    if role is None:
        return ""
    return f"Remove the setting: {role}, as in a database, and other pods do not take the leader's load."


def overload_fix(service: ServiceView, heuristic: str | None) -> str:
    """The fix of a Service that differs from that of the code, or an empty one: one that asks for Auto, or for another
    setting that keeps to the threshold, does not need to ask for Auto."""
    fix = database_fix(service)
    if fix:
        return fix
    return codes.SPREAD_FIX if heuristic is not None and HEURISTICS[heuristic].balances else ""


def overload_now(service: ServiceView, family: FamilyPlan) -> str | None:
    """By how much the slices in force break the threshold, in a phrase; None where they do not.

    Cluster-wide traffic overloads nobody, so that hints, weights or slice groups are behind any overload.
    """
    current = service.current.get(family.address_type)
    return None if current is None else _broken_threshold(service.service, current.traffic, family)


def overload_planned(family: FamilyPlan) -> str | None:
    """The same for what the plan of a Service would do."""
    return _broken_threshold(family.service, family.traffic, family) if family.decision.active else None


def _broken_threshold(service: Service, traffic: ExpectedTraffic | None, family: FamilyPlan) -> str | None:
    """An internal policy of Local is nobody's hint."""
    configuration = family.cluster_state.configuration
    settings, gates = configuration.hints, configuration.gates
    threshold = overload_threshold(settings, in_force=True)
    if traffic is None or traffic.max_overload < threshold or policies_of(service, gates).internal_local:
        return None
    worst = format_percent(Fraction(traffic.max_overload))
    loads = {zone: figures.load for zone, figures in traffic.zones.items() if zone and figures.load is not None}
    hot = f"; the hottest zone is {max(loads, key=lambda zone: (loads[zone], zone))}" if loads else ""
    return f"the busiest pods get {worst} more than fair, and the threshold is {format_percent(threshold)}{hot}"
