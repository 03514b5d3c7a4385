"""In which zones the Pods of a workload can run, by its node selector, its affinity and its volumes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import Node, NodeSelector, node_zone
from zoneward.kube.selectors import meets, selects_node
from zoneward.kube.workload_objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    PodSelector,
    StatefulSet,
    Workload,
    replicas_of,
)
from zoneward.routing.demand import is_node_ready
from zoneward.routing.phrases import listed

_HOSTNAME: Final = "kubernetes.io/hostname"
MOST_ORDINALS: Final = 10_000
"""Claims of one StatefulSet that are looked up."""


@dataclass(frozen=True, slots=True)
class ClosedZones:
    """Zones with demand in which no Pod of a workload can run. ``reason`` has the workload as ``its``."""

    zones: tuple[str, ...]
    reason: str


class SchedulableZones:
    """Answers for the workloads of one cluster. Many workloads have the same requirements."""

    def __init__(
        self,
        zones: tuple[str, ...],
        *,
        nodes: Iterable[Node],
        claims: Iterable[PersistentVolumeClaim],
        volumes: Iterable[PersistentVolume],
    ) -> None:
        self.zones: Final = zones
        self._nodes = [node for node in nodes if is_node_ready(node) and node_zone(node)]
        self._claims = {(claim.metadata.namespace, claim.metadata.name): claim.spec.volume_name for claim in claims}
        self._volumes = {volume.metadata.name: volume.spec.node_affinity for volume in volumes}
        self._closed: dict[tuple[NodeSelector | None, tuple[tuple[str, str], ...]], tuple[str, ...]] = {}

    # --- pod templates ------------------------------------------------------------------------------------------------

    def closed_by_nodes(self, workload: Workload) -> ClosedZones | None:
        """By the node selector and the required node affinity of its template."""
        spec = workload.spec.template.spec
        node_affinity = spec.affinity.node_affinity if spec.affinity else None
        required = node_affinity.required if node_affinity else None
        if required is None and not spec.node_selector:
            return None
        closed = self._without_node(required, spec.node_selector or {})
        if not closed:
            return None
        what = "its node selector" if required is None else "its required node affinity"
        return ClosedZones(closed, f"{what} matches no node in {in_zones(closed)}")

    def closed_by_shared_claims(self, workload: Workload) -> Iterator[ClosedZones]:
        """By claims that all of its Pods use."""
        for claim in _shared_claims(workload):
            closed = self.closed_by_claim(workload.metadata.namespace, claim)
            if closed is not None and closed[1]:
                where = f"volume {closed[0]} can not be mounted in {in_zones(closed[1])}"
                yield ClosedZones(closed[1], f"all of its pods use claim {claim}, and {where}")

    def closed_by_pod_claims(self, workload: Workload) -> Iterator[ClosedZones]:
        """By the volumes that each Pod of a StatefulSet has: zones in which none of them can be mounted."""
        for prefix in _claim_prefixes(workload):
            closed = set(self.zones)
            for ordinal in range(min(replicas_of(workload), MOST_ORDINALS)):
                volume = self.closed_by_claim(workload.metadata.namespace, f"{prefix}-{ordinal}")
                if volume is None:
                    break
                closed.intersection_update(volume[1])
            else:
                if closed:
                    zones = tuple(sorted(closed))
                    yield ClosedZones(zones, f"none of its volumes {prefix}-* can be mounted in {in_zones(zones)}")

    # --- claims -------------------------------------------------------------------------------------------------------

    def knows_claim(self, namespace: str, claim: str) -> bool:
        """Whether it is known where the volume of a claim can be mounted, or that the claim has none yet."""
        volume = self._claims.get((namespace, claim))
        return volume is not None and (not volume or volume in self._volumes)

    def closed_by_claim(self, namespace: str, claim: str) -> tuple[str, tuple[str, ...]] | None:
        """The volume of a claim, and the zones in which it can not be mounted; None where it is not known."""
        volume = self._claims.get((namespace, claim))
        affinity = self._volumes.get(volume) if volume else None
        if not volume or affinity is None or affinity.required is None:
            return None
        return volume, self._without_node(affinity.required, {})

    def _without_node(self, required: NodeSelector | None, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Zones with demand in which no ready Node matches."""
        key = required, tuple(sorted(labels.items()))
        if key not in self._closed:
            open_ = {node_zone(node) for node in self._nodes if selects_node(node, labels=labels, required=required)}
            self._closed[key] = tuple(zone for zone in self.zones if zone not in open_)
        return self._closed[key]


def claims_of(workload: Workload, *, ordinal: int) -> tuple[str, ...]:
    """The names of the claims of one Pod of a StatefulSet, and of those that all Pods of a workload share."""
    return (*(f"{prefix}-{ordinal}" for prefix in _claim_prefixes(workload)), *_shared_claims(workload))


def _claim_prefixes(workload: Workload) -> Iterator[str]:
    """The names of the claims of a StatefulSet's Pods, without the ordinal of the Pod."""
    if isinstance(workload, StatefulSet):
        for template in workload.spec.volume_claim_templates or ():
            yield f"{template.metadata.name}-{workload.metadata.name}"


def _shared_claims(workload: Workload) -> Iterator[str]:
    for volume in workload.spec.template.spec.volumes or ():
        if volume.persistent_volume_claim and volume.persistent_volume_claim.claim_name:
            yield volume.persistent_volume_claim.claim_name


def keeps_together(workload: Workload) -> str | None:
    """Where required pod affinity keeps all Pods of a workload: ``in one zone``, ``on one node``, or None."""
    affinity = workload.spec.template.spec.affinity
    labels = workload.spec.template.metadata.labels or {}
    pod_affinity = affinity.pod_affinity if affinity else None
    for term in (pod_affinity.required or ()) if pod_affinity else ():
        together = {names.ZONE_LABEL: "in one zone", _HOSTNAME: "on one node"}.get(term.topology_key)
        if together and term.label_selector is not None and _selects(term.label_selector, labels):
            return together
    return None


def _selects(selector: PodSelector, labels: Mapping[str, str]) -> bool:
    return (selector.match_labels or {}).items() <= labels.items() and meets(selector.match_expressions, labels)


def in_zones(zones: tuple[str, ...]) -> str:
    """``zone a``, ``the zones a, b``."""
    return f"zone {zones[0]}" if len(zones) == 1 else f"the zones {listed(zones)}"
