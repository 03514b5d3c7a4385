"""Findings 5xx: workloads whose Pods cannot spread over zones, and autoscalers that do not see where the load is."""

from collections.abc import Iterator, Mapping
from typing import Final

from zoneward.advice.findings.cluster_view import ClusterView, ServiceView, object_of
from zoneward.advice.findings.codes import (
    AFFINITY_TO_ZONE,
    AUTOSCALER_SEES_MEAN,
    NO_SPREAD,
    VOLUME_IN_ZONE,
    Finding,
    FindingObject,
)
from zoneward.advice.findings.overload import overload_now, overload_planned
from zoneward.kube import names
from zoneward.kube.node_selector import meets, selects_node
from zoneward.kube.objects import NodeSelector, ObjectKey, node_zone
from zoneward.kube.workload_objects import PodAffinity, PodSelector, StatefulSet, Workload, replicas_of
from zoneward.routing.demand import is_node_ready
from zoneward.routing.rules import counted, listed

_HOSTNAME: Final = "kubernetes.io/hostname"
_NODE_NAME: Final = "metadata.name"
"""The only field that ``matchFields`` may ask for."""
_MOST_ORDINALS: Final = 10_000
"""Claims of one StatefulSet that are looked up."""


def workload_findings(view: ClusterView) -> Iterator[Finding]:
    """Workloads behind a selected Service, in a cluster of several zones."""
    if not view.knows("Nodes", "workloads") or len(view.cluster_state.demand.zones) < 2:
        return
    zones = _Zones(view)
    for workload in view.workloads:
        services = view.services_of_workloads.get(object_of(workload), ())
        if services and replicas_of(workload) > 1:
            yield from _spread(workload, services)
            yield from _affinity(workload, services, zones)
            if view.knows("volumes"):
                yield from _volumes(workload, services, zones)
    if view.knows("autoscalers"):
        yield from _autoscalers(view)


def _keys(services: tuple[ServiceView, ...]) -> tuple[ObjectKey, ...]:
    return tuple(each.key for each in services)


def _ask(services: tuple[ServiceView, ...]) -> bool:
    return any(each.asks for each in services)


# --- spread and affinity ----------------------------------------------------------------------------------------------


def _spread(workload: Workload, services: tuple[ServiceView, ...]) -> Iterator[Finding]:
    """Any constraint over zones counts, also a soft one, and so does anti-affinity between zones."""
    spec = workload.spec.template.spec
    keys = [each.topology_key for each in spec.topology_spread_constraints or ()]
    if spec.affinity is not None:
        keys += _topology_keys(spec.affinity.pod_anti_affinity)
    if names.ZONE_LABEL not in keys:
        message = f"{counted(replicas_of(workload), 'pod')}, and no topology spread constraint with the key of zones"
        yield NO_SPREAD.finding(object_of(workload), message, services=_keys(services), asks=_ask(services))


def _topology_keys(affinity: PodAffinity | None) -> list[str]:
    if affinity is None:
        return []
    preferred = (each.pod_affinity_term for each in affinity.preferred or ())
    return [each.topology_key for each in (*(affinity.required or ()), *preferred)]


def _affinity(workload: Workload, services: tuple[ServiceView, ...], zones: "_Zones") -> Iterator[Finding]:
    spec = workload.spec.template.spec
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required if node_affinity else None
    about, keys, asks = object_of(workload), _keys(services), _ask(services)
    if spec.node_selector or required is not None:
        closed = zones.closed_by(required, spec.node_selector or {})
        if closed:
            what = "its node selector" if required is None else "its required node affinity"
            message = f"{what} matches no node in {_in_zones(closed)}"
            yield AFFINITY_TO_ZONE.finding(about, message, services=keys, asks=asks)
    labels = workload.spec.template.metadata.labels or {}
    pod_affinity = spec.affinity.pod_affinity if spec.affinity else None
    for term in (pod_affinity.required or ()) if pod_affinity else ():
        together = {names.ZONE_LABEL: "in one zone", _HOSTNAME: "on one node"}.get(term.topology_key)
        if together and term.label_selector is not None and _selects(term.label_selector, labels):
            message = f"its required pod affinity keeps all of its pods {together}"
            yield AFFINITY_TO_ZONE.finding(about, message, services=keys, asks=asks)
            return


def _selects(selector: PodSelector, labels: Mapping[str, str]) -> bool:
    return (selector.match_labels or {}).items() <= labels.items() and meets(selector.match_expressions, labels)


class _Zones:
    """The zones that requirements on Nodes leave out. Many workloads have the same requirements."""

    def __init__(self, view: ClusterView) -> None:
        self.all = view.cluster_state.demand.zones
        self._nodes = [node for node in view.nodes if is_node_ready(node) and node_zone(node)]
        self._claims = {(each.metadata.namespace, each.metadata.name): each.spec.volume_name for each in view.claims}
        self._volumes = {
            each.metadata.name: each.spec.node_affinity.required
            for each in view.volumes
            if each.spec.node_affinity is not None
        }
        self._closed: dict[tuple[NodeSelector | None, tuple[tuple[str, str], ...]], tuple[str, ...]] = {}

    def closed_by(self, required: NodeSelector | None, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Zones with demand in which no ready Node matches."""
        key = required, tuple(sorted(labels.items()))
        if key not in self._closed:
            open_ = {node_zone(node) for node in self._nodes if selects_node(node, labels=labels, required=required)}
            self._closed[key] = tuple(zone for zone in self.all if zone not in open_)
        return self._closed[key]

    def closed_by_claim(self, namespace: str, claim: str) -> tuple[str, tuple[str, ...]] | None:
        """The volume of a claim, and the zones in which it can not be mounted; None where it is not known."""
        volume = self._claims.get((namespace, claim))
        required = self._volumes.get(volume) if volume else None
        return (volume, self.closed_by(required, {})) if volume and required is not None else None


def _in_zones(zones: tuple[str, ...]) -> str:
    return f"zone {zones[0]}" if len(zones) == 1 else f"the zones {listed(zones)}"


# --- volumes ----------------------------------------------------------------------------------------------------------


def _volumes(workload: Workload, services: tuple[ServiceView, ...], zones: _Zones) -> Iterator[Finding]:
    """A claim that all Pods share must be mountable everywhere; claims of their own must lie in all zones together."""
    about, keys, asks = object_of(workload), _keys(services), _ask(services)
    namespace = workload.metadata.namespace
    for volume in workload.spec.template.spec.volumes or ():
        claim = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else ""
        found = zones.closed_by_claim(namespace, claim) if claim else None
        if found is not None and found[1]:
            message = f"all of its pods use claim {claim}, and volume {found[0]} can not be mounted in"
            message = f"{message} {_in_zones(found[1])}"
            yield VOLUME_IN_ZONE.finding(about, message, services=keys, asks=asks)
    if not isinstance(workload, StatefulSet) or replicas_of(workload) < len(zones.all):
        return
    for template in workload.spec.volume_claim_templates or ():
        stem = f"{template.metadata.name}-{workload.metadata.name}"
        closed: set[str] | None = None
        for ordinal in range(min(replicas_of(workload), _MOST_ORDINALS)):
            found = zones.closed_by_claim(namespace, f"{stem}-{ordinal}")
            if found is None:
                break
            closed = set(found[1]) if closed is None else closed.intersection(found[1])
        else:
            if closed:
                message = f"none of its volumes {stem}-* can be mounted in {_in_zones(tuple(sorted(closed)))}"
                yield VOLUME_IN_ZONE.finding(about, message, services=keys, asks=asks)


# --- autoscalers ------------------------------------------------------------------------------------------------------


def _autoscalers(view: ClusterView) -> Iterator[Finding]:
    """Autoscalers of workloads whose Service has, or would have, pods far above the mean."""
    by_target = {
        (about.kind, about.namespace, about.name): services for about, services in view.services_of_workloads.items()
    }
    for autoscaler in view.autoscalers:
        meta, target = autoscaler.metadata, autoscaler.spec.scale_target_ref
        for service in by_target.get((target.kind, meta.namespace, target.name), ()):
            broken = _broken(service, view)
            if broken is not None:
                about = FindingObject("HorizontalPodAutoscaler", meta.namespace, meta.name)
                message = f"it scales {target.kind} {target.name} by the mean of all pods; of Service {service.key[1]}"
                yield AUTOSCALER_SEES_MEAN.finding(about, f"{message} {broken}", services=(service.key,))
                break


def _broken(service: ServiceView, view: ClusterView) -> str | None:
    """How traffic breaks the threshold: today's, or what the Service asks for."""
    for family in service.plan.families:
        now = None if service.is_hypothetical else overload_now(service, family.address_type, view)
        broken = now if now is not None else overload_planned(family, view)
        if broken is not None:
            return broken
    return None
