"""How far the busiest endpoints of a Service are above fair, against the threshold that hints in force must keep to."""

from fractions import Fraction

from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import SPREAD_FIX
from zoneward.advice.pod_limits import database_role
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.phrases import format_percent
from zoneward.routing.selection.endpoint_selection import policies_of
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.routing.thresholds import overload_threshold
from zoneward.slices.plan import FamilyPlan


def database_fix(service: ServiceView) -> str:
    """The fix of a Service that other Pods do not help, because one of them leads; empty for all others."""
    role = database_role(service.pods)
    if role is None:
        return ""
    return f"Remove the setting: {role}, as in a database, and other pods do not take the leader's load."


def overload_fix(service: ServiceView, heuristic: str | None) -> str:
    """The fix of a Service that differs from that of the code, or an empty one: one that asks for Auto, or for another
    setting that keeps to the threshold, does not need to ask for Auto."""
    fix = database_fix(service)
    if fix:
        return fix
    return SPREAD_FIX if heuristic is not None and HEURISTICS[heuristic].balances else ""


def overload_now(service: ServiceView, address_type: str, view: ClusterView) -> str | None:
    """By how much the slices in force break the threshold, in a phrase; None where they do not.

    Cluster-wide traffic overloads nobody, so that hints, weights or slice groups are behind any overload.
    """
    current = service.current.get(address_type)
    return None if current is None else _broken_threshold(service.service, current.traffic, view)


def overload_planned(family: FamilyPlan, view: ClusterView) -> str | None:
    """The same for what the plan of a Service would do."""
    return _broken_threshold(family.service, family.traffic, view) if family.decision.active else None


def _broken_threshold(service: Service, traffic: ExpectedTraffic | None, view: ClusterView) -> str | None:
    """An internal policy of Local is nobody's hint."""
    settings, gates = view.cluster_state.configuration.hints, view.cluster_state.configuration.gates
    threshold = overload_threshold(settings, in_force=True)
    if traffic is None or traffic.max_overload < threshold or policies_of(service, gates).internal_local:
        return None
    worst = format_percent(Fraction(traffic.max_overload))
    loads = {zone: figures.load for zone, figures in traffic.zones.items() if zone and figures.load is not None}
    hot = f"; the hottest zone is {max(loads, key=lambda zone: (loads[zone], zone))}" if loads else ""
    return f"the busiest pods get {worst} more than fair, and the threshold is {format_percent(threshold)}{hot}"
