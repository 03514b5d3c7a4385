"""The plans of a Service with every approach and algorithm: what each does to its traffic and to its slices.

The endpoints and the existing slices of a Service are the same for all approaches, and many of these come to the same
slices: where an approach is not active, all endpoints serve all zones. Each is computed once, and only numbers stay.
"""

from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.routing import score
from zoneward.routing.decision import Decision
from zoneward.routing.request.what_if import NO_APPROACH, WHAT_IF_VALUES, as_if_requested
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import honored_hints, reads_slice_groups
from zoneward.routing.selection.expected_traffic import ExpectedTraffic
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.decide import decide
from zoneward.slices.endpoints import ServiceEndpoints
from zoneward.slices.existing import ExistingSlices
from zoneward.slices.plan import (
    FamilyPlan,
    collect_families,
    is_deleting,
    is_managed,
    plan_decision,
    plan_unmanaged,
)
from zoneward.slices.ports import PortKey, port_key

COMPARED = (NO_APPROACH, *(value for value in WHAT_IF_VALUES if value not in ("Auto", NO_APPROACH)))
"""Cluster-wide first, then all others; ``Auto`` is another name of one of them (``hints.auto``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficNumbers:
    """The expected traffic of a Service in one address family, in numbers: `ExpectedTraffic` has their meaning.

    ``served`` is whether any is; ``zones`` counts the zones that have demand or endpoints. ``busiest_load`` is the
    share of all traffic that the busiest endpoint gets.
    """

    in_zone: float
    max_overload: float
    mean_overload: float
    served: bool
    zones: int
    busiest_load: float

    @classmethod
    def of(cls, traffic: ExpectedTraffic) -> "TrafficNumbers":
        return cls(
            in_zone=traffic.in_zone,
            max_overload=traffic.max_overload,
            mean_overload=traffic.mean_overload,
            served=bool(traffic.served),
            zones=len(traffic.zones),
            busiest_load=traffic.busiest_load,
        )

    def score(self, *, slices: float) -> float | None:
        """KEP-2004's score, at most 100; ``slices`` is as for `score.total`. None where all traffic is dropped."""
        if not self.served:
            return None
        return score.total(
            in_zone=self.in_zone, max_overload=self.max_overload, mean_overload=self.mean_overload, slices=slices
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedApproach:
    """One approach for a Service in one address family: its decision and what follows, in numbers.

    ``heuristic`` is what the Service asks for with it. ``slices`` is the number of slices afterwards; ``created``,
    ``updated`` and ``deleted`` count those to write for that. Where no traffic can be predicted, ``traffic`` and
    ``score`` are None. ``load_change``: where the cluster was changed, by how much the busiest endpoint has more load
    than the busiest one had before, with the same approach; else None.
    """

    approach: str
    heuristic: str | None
    active: bool
    reason: Reason
    message: str
    endpoints: int
    moved: int
    traffic: TrafficNumbers | None
    slices: int
    created: int
    updated: int
    deleted: int
    score: float | None
    busiest_load: float = 0.0
    load_change: float | None = None

    @property
    def writes(self) -> int:
        return self.created + self.updated + self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceComparison:
    """All approaches for a Service in one address family, in the order of the request.

    ``requested`` is the plan with the Service's own settings.
    """

    namespace: str
    service: str
    address_type: str
    requested: ComparedApproach
    candidates: tuple[ComparedApproach, ...]


def compare_service(
    service: Service,
    *,
    approaches: Sequence[str] = COMPARED,
    pods: Iterable[Pod],
    slices: Iterable[EndpointSlice],
    cluster_state: ClusterState,
    taken: Container[str] = (),
) -> tuple[ServiceComparison, ...]:
    """Plan a Service once with each of the ``approaches`` (`COMPARED`), and once as it is.

    Returns a comparison for each address family; none for a Service that has no slices at all.
    """
    by_name = {each.metadata.name: each for each in slices}
    requests = [("", service), *((approach, as_if_requested(service, approach)) for approach in approaches)]
    families: dict[str, list[ComparedApproach]] = {}
    cluster_state = cluster_state.for_service(service)
    if is_managed(service):
        collected = collect_families(service, pods=pods, slices=by_name.values(), cluster_state=cluster_state)
        for endpoints in collected.endpoints:
            planner = _FamilyPlanner(
                endpoints, collected.existing[endpoints.address_type], cluster_state, (taken, by_name)
            )
            families[endpoints.address_type] = [planner.compare(*request) for request in requests]
    else:
        for approach, each in requests:
            for family in plan_unmanaged(each, by_name.values(), cluster_state).families:
                compared = _compared(approach, family.decision, _SliceNumbers.of(family), family.traffic)
                families.setdefault(family.address_type, []).append(compared)
    return tuple(
        ServiceComparison(
            namespace=service.metadata.namespace,
            service=service.metadata.name,
            address_type=address_type,
            requested=first,
            candidates=tuple(rest),
        )
        for address_type, (first, *rest) in families.items()
    )


def with_load_changes(
    comparisons: Iterable[ServiceComparison], before: Iterable[ServiceComparison]
) -> tuple[ServiceComparison, ...]:
    """The comparisons of one Service, with the change of each load since those ``before`` the change of the cluster."""
    loads = {
        (each.address_type, approach.approach): approach.traffic.busiest_load
        for each in before
        for approach in (each.requested, *each.candidates)
        if approach.traffic is not None
    }

    def changed(comparison: ServiceComparison, each: ComparedApproach) -> ComparedApproach:
        load = loads.get((comparison.address_type, each.approach))
        now = each.traffic.busiest_load if each.traffic is not None else 0.0
        return replace(each, load_change=now / load - 1) if load and now else each

    return tuple(
        replace(
            comparison,
            requested=changed(comparison, comparison.requested),
            candidates=tuple(changed(comparison, each) for each in comparison.candidates),
        )
        for comparison in comparisons
    )


class _FamilyPlanner:
    """Plans one address family of a Service with one approach after the other, and computes nothing twice.

    Upstream's hints and the slices of a Service that is being deleted change decisions: nothing is shared there.
    """

    def __init__(
        self,
        endpoints: ServiceEndpoints,
        existing: ExistingSlices,
        cluster_state: ClusterState,
        taken: Sequence[Container[str]],
    ) -> None:
        self._endpoints = endpoints
        self._existing = existing
        self._cluster_state = cluster_state
        self._taken = taken
        self._has_others = bool(existing.replaced_and_others()[1])
        self._plans: dict[Hashable, tuple[FamilyPlan, _SliceNumbers]] = {}
        self._traffic: dict[Hashable, ExpectedTraffic | None] = {}

    def compare(self, approach: str, service: Service) -> ComparedApproach:
        state = self._cluster_state
        decision = decide(
            service,
            self._endpoints.index,
            demand=state.demand,
            in_force=self._existing.in_force,
            configuration=state.configuration,
        )
        if state.configuration.upstream or is_deleting(service):
            family = self._plan(decision, service)
            return _compared(approach, family.decision, _SliceNumbers.of(family), family.traffic)
        placed = _placement_of(decision)
        # What slices remember only matters to those that remember something.
        outcome = (placed, decision.in_force if self._existing.own else None)
        if outcome not in self._plans:
            family = self._plan(decision, service)
            self._plans[outcome] = family, _SliceNumbers.of(family)
        family, numbers = self._plans[outcome]
        honored = self._honored(decision, service)
        # Where no proxy looks at hints, weights or groups, it does not matter how endpoints get to their slices.
        read = None if honored is None and not self._reads_groups(service) else (placed, honored)
        if read not in self._traffic:
            self._traffic[read] = replace(family, service=service).traffic
        return _compared(approach, decision, numbers, self._traffic[read])

    def _plan(self, decision: Decision, service: Service) -> FamilyPlan:
        return plan_decision(decision, self._endpoints, self._existing, service, self._cluster_state, taken=self._taken)

    def _reads_groups(self, service: Service) -> bool:
        state = self._cluster_state
        gates = state.configuration.gates
        return any(reads_slice_groups(each.consumer, gates) for each in state.consumers_of(service))

    def _honored(self, decision: Decision, service: Service) -> Hashable:
        """Which hints each kind of proxy honors; None where there are none."""
        hinted = decision.assignment is not None and decision.assignment.kind == "hints"
        if not (hinted or decision.weights is not None or self._has_others):
            return None
        state = self._cluster_state
        gates = state.configuration.gates
        return tuple(honored_hints(service, each.consumer, gates) for each in state.consumers_of(service))


@dataclass(frozen=True, slots=True)
class _SliceNumbers:
    """``share``: the slices that suffice without any groups, over those that there are; at most 1."""

    slices: int
    created: int
    updated: int
    deleted: int
    share: float

    @classmethod
    def of(cls, family: FamilyPlan) -> "_SliceNumbers":
        changes = family.changes
        kept = (*changes.create, *changes.update, *changes.unchanged)
        return cls(
            slices=len(kept),
            created=len(changes.create),
            updated=len(changes.update),
            deleted=len(changes.delete) + len(family.replaced),
            share=slices_share(kept, family.cluster_state.configuration.max_endpoints_per_slice),
        )


def _placement_of(decision: Decision) -> Hashable:
    """Everything in a decision by which endpoints get to their slices, with their hints, groups and weights."""
    assignment = decision.assignment
    assert assignment is not None
    return (
        assignment.kind,
        assignment.node_hints,
        frozenset(assignment.bucket_groups.items()),
        frozenset(assignment.endpoint_groups.items()),
        str(decision.weights),
    )


def _compared(
    approach: str, decision: Decision, numbers: _SliceNumbers, traffic: ExpectedTraffic | None
) -> ComparedApproach:
    predicted = None if traffic is None else TrafficNumbers.of(traffic)
    return ComparedApproach(
        approach=approach,
        heuristic=decision.heuristic,
        active=decision.active,
        reason=decision.reason,
        message=decision.message,
        endpoints=decision.endpoints,
        moved=decision.moved,
        traffic=predicted,
        slices=numbers.slices,
        created=numbers.created,
        updated=numbers.updated,
        deleted=numbers.deleted,
        score=None if predicted is None else predicted.score(slices=numbers.share),
    )


def slices_share(slices: Iterable[EndpointSlice], most: int) -> float:
    """The slices that suffice without any groups, over those that there are; at most 1. Empty ones do not count."""
    endpoints: dict[PortKey, int] = {}
    number = 0
    for each in slices:
        if each.endpoints:
            number += 1
            key = port_key(each.ports)
            endpoints[key] = endpoints.get(key, 0) + len(each.endpoints)
    least = sum(-(-count // most) for count in endpoints.values())
    return min(1.0, least / number) if number else 1.0
