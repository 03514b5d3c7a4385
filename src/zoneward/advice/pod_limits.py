"""What limits the number and the places of a Service's Pods, as far as the input says it.

Node selectors, affinity and volumes say in which zones the Pods of a workload can run.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from zoneward.advice.changed_cluster import NO_ZONE
from zoneward.advice.json_value import JsonValue
from zoneward.advice.service_input import UNKNOWN_WORKLOAD, ServiceInput, Workload, makes
from zoneward.kube import names, workload_objects
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.names import ACTIVE_LABELS, ROLE_LABELS, follower_label, leader_label
from zoneward.kube.objects import Node, NodeSelector, Pod, node_zone
from zoneward.kube.selectors import meets, selects_node
from zoneward.kube.workload_objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    PodSelector,
    StatefulSet,
    replicas_of,
)
from zoneward.routing.demand import is_node_ready
from zoneward.routing.phrases import counted, listed
from zoneward.slices.endpoints import FINISHED_PHASES

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

    def closed_by_nodes(self, workload: workload_objects.Workload) -> Iterator[ClosedZones]:
        """By the node selector and the required node affinity of its template; at most one."""
        spec = workload.spec.template.spec
        node_affinity = spec.affinity.node_affinity if spec.affinity else None
        required = node_affinity.required if node_affinity else None
        if required is not None or spec.node_selector:
            what = "its node selector" if required is None else "its required node affinity"
            closed = self._without_node(required, spec.node_selector or {})
            if closed:
                yield ClosedZones(closed, f"{what} matches no node in {in_zones(closed)}")

    def closed_by_shared_claims(self, workload: workload_objects.Workload) -> Iterator[ClosedZones]:
        """By claims that all of its Pods use."""
        for claim in _shared_claims(workload):
            closed = self.closed_by_claim(workload.metadata.namespace, claim)
            if closed is not None and closed[1]:
                where = f"volume {closed[0]} can not be mounted in {in_zones(closed[1])}"
                yield ClosedZones(closed[1], f"all of its pods use claim {claim}, and {where}")

    def closed_by_pod_claims(self, workload: workload_objects.Workload) -> Iterator[ClosedZones]:
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


def claims_of(workload: workload_objects.Workload, *, ordinal: int) -> tuple[str, ...]:
    """The names of the claims of one Pod of a StatefulSet, and of those that all Pods of a workload share."""
    return (*(f"{prefix}-{ordinal}" for prefix in _claim_prefixes(workload)), *_shared_claims(workload))


def _claim_prefixes(workload: workload_objects.Workload) -> Iterator[str]:
    """The names of the claims of a StatefulSet's Pods, without the ordinal of the Pod."""
    if isinstance(workload, StatefulSet):
        for template in workload.spec.volume_claim_templates or ():
            yield f"{template.metadata.name}-{workload.metadata.name}"


def _shared_claims(workload: workload_objects.Workload) -> Iterator[str]:
    for volume in workload.spec.template.spec.volumes or ():
        if volume.persistent_volume_claim and volume.persistent_volume_claim.claim_name:
            yield volume.persistent_volume_claim.claim_name


def keeps_together(workload: workload_objects.Workload) -> str | None:
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


_ROLE_LABELS: Final = ROLE_LABELS | ACTIVE_LABELS
_MORE_ORDINALS: Final = 500
"""Claims that earlier Pods may have left behind."""


class Unchecked(JsonValue, frozen=True, gc=False):
    """Something that fixes which change Pods depend on, and in a phrase why the input does not say it."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimits:
    """Which changes of Pods are possible.

    ``scales``: whether their number or their zones may change at all; ``can_shrink``: whether Pods may be removed.
    ``closed`` are zones in which no new Pod can run. ``movable`` counts the Pods in each zone that may leave it.
    ``next_zones`` are the zones of the next Pods of a StatefulSet, each empty where nothing decides it. ``reasons``
    are sentences about what is not possible. ``may_be_bound``: the Pods are those of a StatefulSet, and nothing says
    whether their volumes can be mounted in other zones.
    """

    scales: bool
    can_shrink: bool
    closed: frozenset[str]
    movable: Mapping[str, int]
    next_zones: tuple[str, ...] = ()
    may_be_bound: bool = False
    reasons: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()

    def allows(self, pods: Mapping[str, int]) -> bool:
        """Whether the claims that earlier Pods left behind let these Pods run where they should."""
        decided = Counter(self.next_zones[: max(0, sum(pods.values()))])
        return all(pods.get(zone, 0) >= count for zone, count in decided.items() if zone)


def pod_limits(given: ServiceInput, address_type: str) -> PodLimits:
    """The limits for one address family of a Service."""
    workload = given.workload
    refusals = list(_refusals(given, workload))
    places = _Places(given)
    if workload is not None and workload.autoscaler is not None:
        scaler = f"horizontalpodautoscaler/{workload.autoscaler.metadata.name}"
        places.reasons.append(f"{scaler} sets the replicas of {workload.resource}: no fix removes Pods")
    return PodLimits(
        scales=not refusals,
        can_shrink=workload is None or (workload.autoscaler is None and workload.kind != "StatefulSet"),
        closed=frozenset(places.closed),
        movable=places.movable(_own_pods(given, address_type)),
        next_zones=places.next_zones,
        may_be_bound=workload is not None
        and workload.kind == "StatefulSet"
        and (workload.object is None or places.unknown_claim is not None),
        reasons=tuple(refusals or places.reasons),
        unchecked=tuple(_unchecked(given, workload, places)),
    )


def _refusals(given: ServiceInput, workload: Workload | None) -> Iterator[str]:
    """Why no other number of Pods and no other zones for them are a fix."""
    resource = workload.resource if workload is not None else "the workload"
    if workload is not None and not workload.scales:
        yield f"{resource} has no replicas to set"
    template = workload.object if workload is not None and workload.scales else None
    if template is not None and not makes(template, effective_selector(given.service) or {}):
        lacks = "does not have the labels that the Service selects: new Pods would not serve it"
        yield f"the Pod template of {resource} {lacks}"
    role = database_role(_pods_of_workload(given, with_label=_ROLE_LABELS))
    if role is not None:
        then = "Other Pods do not take the leader's load, so no fix changes Pods"
        yield f"{resource} looks like a database: {role}. {then}"


def database_role(pods: Iterable[Pod]) -> str | None:
    """``Pod db-0 alone leads (role=master)``; None where the labels of the Pods show no database with one leader."""
    labels = [(pod.metadata.name, pod.metadata.labels) for pod in pods if runs(pod)]
    leaders = [(name, label) for name, own in labels if (label := leader_label(own))]
    followers = [(name, label) for name, own in labels if (label := follower_label(own))]
    if len(leaders) != 1 and (leaders or not followers):
        return None
    name, label = min(leaders or followers)
    return f"Pod {name} {'alone leads' if leaders else 'follows a leader'} ({label})"


def _pods_of_workload(given: ServiceInput, *, with_label: Collection[str] = ()) -> Iterator[Pod]:
    """Also those that the Service does not select, as it may select the leader alone. ``with_label``: only those that
    have one of these labels, which is found out faster than the owner.
    """
    pods = {
        (pod.metadata.namespace, pod.metadata.name): pod
        for pod in (*given.namespace_pods, *given.pods)
        if not with_label or not (pod.metadata.labels or {}).keys().isdisjoint(with_label)
    }
    return (pod for pod in pods.values() if runs(pod) and given.is_of_workload(pod))


def _own_pods(given: ServiceInput, address_type: str) -> Mapping[str, int]:
    """Pods of the workload that the Service selects, by zone. Pods of other workloads stay where they are."""
    if not given.cluster_state.pods_known:
        return given.replicas(address_type).by_zone
    zones = given.cluster_state.node_zones
    return Counter(
        zones.get(pod.spec.node_name) or NO_ZONE for pod in given.pods if runs(pod) and given.is_of_workload(pod)
    )


def runs(pod: Pod) -> bool:
    """Whether a ReplicaSet counts the Pod: it has neither finished nor is it terminating."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in FINISHED_PHASES


def unselected_pods(given: ServiceInput) -> int:
    """How many Pods of the workload the Service does not select."""
    if given.workload is None:
        return 0
    selected = {(pod.metadata.namespace, pod.metadata.name) for pod in given.pods}
    return sum((pod.metadata.namespace, pod.metadata.name) not in selected for pod in _pods_of_workload(given))


# --- node affinity and volumes ----------------------------------------------------------------------------------------


class _Places:
    """Where Pods of the workload can run, where the input has it."""

    def __init__(self, given: ServiceInput) -> None:
        self.closed: set[str] = set()
        self.next_zones: tuple[str, ...] = ()
        self.reasons: list[str] = []
        self.unknown_claim: str | None = None
        """A claim of which nothing says where its volume can be mounted."""
        self._bound: Counter[str] = Counter()
        self._stays = False
        workload = given.workload
        if workload is None or workload.object is None:
            return
        objects, state = given.objects, given.cluster_state
        zones = SchedulableZones(state.demand.zones, nodes=given.nodes, claims=objects.claims, volumes=objects.volumes)
        template = workload.object
        together = keeps_together(template)
        if together:
            self._stays = True
            self.reasons.append(f"{workload.resource}: its required pod affinity keeps all of its Pods {together}")
            present = {state.node_zones.get(pod.spec.node_name) for pod in given.pods if given.is_of_workload(pod)}
            self.closed.update(zone for zone in zones.zones if zone not in present)
        for closed in (*zones.closed_by_nodes(template), *zones.closed_by_shared_claims(template)):
            self.closed.update(closed.zones)
            self.reasons.append(f"{workload.resource}: {closed.reason}")
        self._read_claims(workload, template, zones)

    def _read_claims(self, workload: Workload, template: workload_objects.Workload, zones: SchedulableZones) -> None:
        replicas, namespace = replicas_of(template), template.metadata.namespace
        has_own = isinstance(template, StatefulSet) and bool(template.spec.volume_claim_templates)
        ordinals = range(min(replicas, MOST_ORDINALS)) if has_own else range(1)
        present = [claims_of(template, ordinal=ordinal) for ordinal in ordinals]
        every = chain.from_iterable(present)
        self.unknown_claim = next((claim for claim in every if not zones.knows_claim(namespace, claim)), None)
        if not has_own:
            return
        bound = [open_ for claims in present if (open_ := _open_zones(zones, namespace, claims)) is not None]
        self._bound.update(chain.from_iterable(bound))
        if bound:
            bound_to = f"the volumes of {counted(len(bound), 'Pod')} are bound to their zones"
            self.reasons.append(f"{workload.resource}: {bound_to}: no fix moves these Pods")
        following = (claims_of(template, ordinal=replicas + more) for more in range(_MORE_ORDINALS))
        open_zones = [_open_zones(zones, namespace, claims) for claims in following]
        next_zones = [open_[0] if open_ is not None and len(open_) == 1 else "" for open_ in open_zones]
        while next_zones and not next_zones[-1]:
            next_zones.pop()
        self.next_zones = tuple(next_zones)
        if next_zones:
            left = counted(len(list(filter(None, next_zones))), "Pod")
            self.reasons.append(f"{workload.resource}: claims of earlier Pods decide the zone of the next {left}")

    def movable(self, pods: Mapping[str, int]) -> Mapping[str, int]:
        """How many of these Pods, by zone, may leave it."""
        if self._stays:
            return {}
        return {zone: max(0, count - self._bound[zone]) for zone, count in pods.items()}


def _open_zones(zones: SchedulableZones, namespace: str, claims: tuple[str, ...]) -> tuple[str, ...] | None:
    """The zones in which all of these claims can be mounted; None where that is every zone, or not known."""
    closed: set[str] = set()
    for claim in claims:
        volume = zones.closed_by_claim(namespace, claim)
        closed.update(volume[1] if volume is not None else ())
    return tuple(zone for zone in zones.zones if zone not in closed) if closed else None


def _unchecked(given: ServiceInput, workload: Workload | None, places: _Places) -> Iterator[Unchecked]:
    lacking = given.objects.lacking
    resource = (workload or UNKNOWN_WORKLOAD).resource
    if workload is None or workload.object is None:
        reason = "the input does not say what owns the Pods" if workload is None else f"the input has no {resource}"
        what = "replicas, node affinity and volumes of the Pods"
        yield Unchecked(what, lacking.get("workloads", reason))
    elif places.unknown_claim is not None:
        reason = f"the input does not have claim {places.unknown_claim} or its volume"
        yield Unchecked("volumes of the Pods", lacking.get("volumes", reason))
    if (workload is None or workload.autoscaler is None) and "autoscalers" in lacking:
        yield Unchecked("autoscalers", lacking["autoscalers"])
