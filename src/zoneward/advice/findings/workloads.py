"""Findings 5xx: workloads whose Pods cannot spread over zones, and autoscalers that do not see where the load is."""

from collections.abc import Iterator

from zoneward.advice.findings import codes
from zoneward.advice.findings.cluster_view import ClusterView, ServiceView, object_of
from zoneward.advice.findings.codes import Code, Finding, FindingObject
from zoneward.advice.findings.services import overload_now, overload_planned
from zoneward.advice.pod_limits import SchedulableZones, keeps_together
from zoneward.kube import names
from zoneward.kube.workload_objects import PodAffinity, Workload, replicas_of
from zoneward.routing.phrases import counted


def workload_findings(view: ClusterView) -> Iterator[Finding]:
    """Workloads behind a selected Service, in a cluster of several zones."""
    if not view.knows("Nodes", "workloads") or len(view.cluster_state.demand.zones) < 2:
        return
    demand = view.cluster_state.demand
    zones = SchedulableZones(demand.zones, nodes=view.nodes, claims=view.claims, volumes=view.volumes)
    for workload in view.workloads:
        services = view.services_of_workloads.get(object_of(workload), ())
        if services and replicas_of(workload) > 1:
            yield from _spread(workload, services)
            yield from _affinity(workload, services, zones)
            if view.knows("volumes"):
                yield from _volumes(workload, services, zones)
    if view.knows("autoscalers"):
        yield from _autoscalers(view)


def _finding(code: Code, workload: Workload, services: tuple[ServiceView, ...], message: str) -> Finding:
    keys, asks = (service.key for service in services), any(service.asks for service in services)
    return code.finding(object_of(workload), message, services=keys, asks=asks)


# --- spread and affinity ----------------------------------------------------------------------------------------------


def _spread(workload: Workload, services: tuple[ServiceView, ...]) -> Iterator[Finding]:
    """Any constraint over zones counts, also a soft one, and so does anti-affinity between zones."""
    spec = workload.spec.template.spec
    keys = [constraint.topology_key for constraint in spec.topology_spread_constraints or ()]
    if spec.affinity is not None:
        keys += _topology_keys(spec.affinity.pod_anti_affinity)
    if names.ZONE_LABEL not in keys:
        message = f"{counted(replicas_of(workload), 'pod')}, and no topology spread constraint with the key of zones"
        yield _finding(codes.NO_SPREAD, workload, services, message)


def _topology_keys(affinity: PodAffinity | None) -> list[str]:
    if affinity is None:
        return []
    preferred = (term.pod_affinity_term for term in affinity.preferred or ())
    return [term.topology_key for term in (*(affinity.required or ()), *preferred)]


def _affinity(workload: Workload, services: tuple[ServiceView, ...], zones: SchedulableZones) -> Iterator[Finding]:
    for closed in zones.closed_by_nodes(workload):
        yield _finding(codes.AFFINITY_TO_ZONE, workload, services, closed.reason)
    together = keeps_together(workload)
    if together:
        message = f"its required pod affinity keeps all of its pods {together}"
        yield _finding(codes.AFFINITY_TO_ZONE, workload, services, message)


# --- volumes ----------------------------------------------------------------------------------------------------------


def _volumes(workload: Workload, services: tuple[ServiceView, ...], zones: SchedulableZones) -> Iterator[Finding]:
    """A claim that all Pods share must be mountable everywhere; of claims for single Pods, each zone needs one."""
    closed = [*zones.closed_by_shared_claims(workload)]
    if replicas_of(workload) >= len(zones.zones):
        closed += zones.closed_by_pod_claims(workload)
    for volume in closed:
        yield _finding(codes.VOLUME_IN_ZONE, workload, services, volume.reason)


# --- autoscalers ------------------------------------------------------------------------------------------------------


def _autoscalers(view: ClusterView) -> Iterator[Finding]:
    """Autoscalers of workloads whose Service has, or would have, pods far above the mean."""
    by_target = {
        (about.kind, about.namespace, about.name): services for about, services in view.services_of_workloads.items()
    }
    for autoscaler in view.autoscalers:
        meta, target = autoscaler.metadata, autoscaler.spec.scale_target_ref
        for service in by_target.get((target.kind, meta.namespace, target.name), ()):
            broken = _broken(service)
            if broken is not None:
                about = FindingObject("HorizontalPodAutoscaler", meta.namespace, meta.name)
                message = f"it scales {target.kind} {target.name} by the mean of all pods; of Service {service.key[1]}"
                yield codes.AUTOSCALER_SEES_MEAN.finding(about, f"{message} {broken}", services=(service.key,))
                break


def _broken(service: ServiceView) -> str | None:
    """How traffic breaks the threshold: today's, or what the Service asks for."""
    for family in service.plan.families:
        now = None if service.is_hypothetical else overload_now(service, family)
        broken = now if now is not None else overload_planned(family)
        if broken is not None:
            return broken
    return None
