"""The plans of a Service with every approach and algorithm: what each does to its traffic and to its slices.

The endpoints and the existing slices of a Service are the same for all approaches, and many of these come to the same
slices: where an approach is not active, all endpoints serve all zones. Each is computed once, and only numbers stay.
"""

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.kube.zone_weights import format_zone_weights
from zoneward.routing import score
from zoneward.routing.algorithms.heuristics import BUILT_IN_HEURISTICS
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.request.what_if import NO_APPROACH, WHAT_IF_VALUES, as_if_requested
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import HonoredHints, honored_hints, reads_slice_groups
from zoneward.routing.selection.expected_traffic import ExpectedTraffic, predict_service_traffic
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.comparison_memo import ComparisonMemo, KnownApproaches, shape_of
from zoneward.slices.decide import decide
from zoneward.slices.desired import DesiredSlices, desired, slice_template
from zoneward.slices.endpoints import ServiceEndpoints
from zoneward.slices.existing import ExistingSlices, Manager, SliceKey
from zoneward.slices.plan import (
    FamilyPlan,
    collect_families,
    is_deleting,
    is_managed,
    plan_decision,
    plan_unmanaged,
)
from zoneward.slices.ports import PortKey, port_key
from zoneward.slices.reconcile import new_slice

COMPARED = (NO_APPROACH, *(value for value in WHAT_IF_VALUES if value not in ("Auto", NO_APPROACH)))
"""Cluster-wide first, then all others; ``Auto`` is another name of one of them (``hints.auto``)."""


class TrafficNumbers(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The expected traffic of a Service in one address family, in numbers: `ExpectedTraffic` has their meaning.

    ``dropped`` is the share that no endpoint takes; ``zones`` counts the zones that have demand or endpoints.
    ``busiest_load`` is the share of all traffic that the busiest endpoint gets. ``flows``: for each zone with demand
    the shares of its own traffic by the zone of the endpoints, None where nobody asked for them.
    """

    in_zone: float | None
    max_overload: float
    mean_overload: float
    dropped: float
    zones: int
    busiest_load: float
    flows: Mapping[str, Mapping[str, float]] | None = None

    @classmethod
    def of(cls, traffic: ExpectedTraffic, *, flows: bool = False) -> "TrafficNumbers":
        return cls(
            in_zone=traffic.in_zone,
            max_overload=traffic.max_overload,
            mean_overload=traffic.mean_overload,
            dropped=traffic.dropped,
            zones=len(traffic.zones),
            busiest_load=traffic.busiest_load,
            flows={zone: each.to for zone, each in traffic.zones.items() if each.demand} if flows else None,
        )

    def score(self, *, slices: float) -> float | None:
        """KEP-2004's score, at most 100; ``slices`` is as for `score.total`. None where traffic is dropped, as nothing
        makes up for that, and where nobody can tell what stays in its zone."""
        if self.dropped or self.in_zone is None:
            return None
        return score.total(
            in_zone=self.in_zone, max_overload=self.max_overload, mean_overload=self.mean_overload, slices=slices
        )


class ComparedApproach(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
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


class ServiceComparison(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
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
    built_in: bool = False,
    flows: bool = False,
    memo: ComparisonMemo | None = None,
) -> tuple[ServiceComparison, ...]:
    """Plan a Service once with each of the ``approaches`` (`COMPARED`), and once as it is.

    Returns a comparison for each address family; none for a Service that has no slices at all. ``built_in``: the
    built-in controller decides about the approaches that it knows, by the demand of CPU. ``flows``: with those
    between zones. A ``memo`` of the same cluster state, and of comparisons with flows or of those without, spares what
    was computed for Services that are alike.
    """
    by_name = {each.metadata.name: each for each in slices}
    families: dict[str, list[ComparedApproach]] = {}
    own_state = cluster_state.for_service(service)
    if memo is None or own_state is not memo.cluster_state:
        # Nothing holds for others where a Service has demand of its own.
        memo = ComparisonMemo(own_state)
    if is_managed(service):
        collected = collect_families(service, pods=pods, slices=by_name.values(), cluster_state=own_state)
        for endpoints in collected.endpoints:
            existing = collected.existing[endpoints.address_type]
            shape = shape_of(service, endpoints, existing, own_state)
            planner = _FamilyPlanner(
                endpoints,
                existing,
                own_state,
                (taken, by_name),
                memo,
                built_in=built_in,
                flows=flows,
                names_matter=shape is None,
            )
            asking_for_none = as_if_requested(service, NO_APPROACH, own_state.configuration)
            known = memo.approaches(asking_for_none, shape, built_in=built_in)
            candidates = list(planner.compare_all(service, approaches, known))
            known = memo.approaches(service, shape, built_in=built_in)
            requested = planner.compare_requested(service, candidates, known)
            families[endpoints.address_type] = [requested, *candidates]
    else:
        configuration = own_state.configuration
        for approach in ("", *approaches):
            each = as_if_requested(service, approach, configuration) if approach else service
            for family in plan_unmanaged(each, by_name.values(), own_state).families:
                compared = _compared(approach, family.decision, SliceNumbers.of(family), family.traffic, flows=flows)
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
        return msgspec.structs.replace(each, load_change=now / load - 1) if load and now else each

    return tuple(
        msgspec.structs.replace(
            comparison,
            requested=changed(comparison, comparison.requested),
            candidates=tuple(changed(comparison, each) for each in comparison.candidates),
        )
        for comparison in comparisons
    )


class _FamilyPlanner:
    """Plans one address family of a Service with one approach after the other, and computes nothing twice.

    Upstream's hints and the slices of a Service that is being deleted change decisions: nothing is shared there.
    ``names_matter``: numbers depend on single endpoints or slices by their names (`shape_of`).
    """

    def __init__(
        self,
        endpoints: ServiceEndpoints,
        existing: ExistingSlices,
        cluster_state: ClusterState,
        taken: Sequence[Container[str]],
        memo: ComparisonMemo,
        *,
        built_in: bool,
        flows: bool,
        names_matter: bool,
    ) -> None:
        self._endpoints = endpoints
        self._existing = existing
        self._cluster_state = cluster_state
        self._taken = taken
        self._built_in = built_in
        self._flows = flows
        self._has_others = bool(existing.replaced_and_others()[1])
        self._names_matter = names_matter
        self._plans: dict[Hashable, FamilyPlan] = {}
        self._numbers: dict[Hashable, SliceNumbers] = {}
        self._numbers_of_new = memo.numbers_of_new
        self._traffic: dict[Hashable, ExpectedTraffic | None] = {}

    def compare_all(
        self, service: Service, approaches: Iterable[str], known: KnownApproaches
    ) -> Iterator[ComparedApproach]:
        """The Service with each approach. Adds what is not ``known``."""
        for approach in approaches:
            found = known.find(approach)
            if found is None:
                found = self._compare(approach, self._asking_for(approach, service))
                known.add(found)
            yield found

    def compare_requested(
        self, service: Service, candidates: Iterable[ComparedApproach], known: KnownApproaches
    ) -> ComparedApproach:
        """The Service with its own settings: one of the ``candidates`` where these come to the same."""
        found = known.find("")
        if found is None:
            alike = self._alike(service, candidates)
            found = self._compare("", service) if alike is None else msgspec.structs.replace(alike, approach="")
            known.add(found)
        return found

    def _alike(self, service: Service, candidates: Iterable[ComparedApproach]) -> ComparedApproach | None:
        asked = self._cluster_state.requested(service).deciding
        name = NO_APPROACH if asked.heuristic is None else asked.heuristic.name
        found = next((each for each in candidates if each.approach == name), None)
        if found is None or self._shares_nothing(service):
            return None
        candidate = self._asking_for(name, service)
        is_alike = self._cluster_state.requested(candidate).deciding == asked and self._honored_hints(
            candidate
        ) == self._honored_hints(service)
        return found if is_alike else None

    def _asking_for(self, approach: str, service: Service) -> Service:
        return as_if_requested(service, approach, self._cluster_state.configuration)

    def _shares_nothing(self, service: Service) -> bool:
        return self._cluster_state.configuration.upstream or is_deleting(service)

    def _compare(self, approach: str, service: Service) -> ComparedApproach:
        state = self._cluster_state
        decision = decide(
            service,
            self._endpoints.index,
            demand=self._decision_demand(service),
            in_force=self._existing.in_force,
            configuration=state.configuration,
            slice_groups_read=state.reads_slice_groups(service),
        )
        if self._shares_nothing(service):
            family = self._plan(decision, service)
            return _compared(approach, family.decision, SliceNumbers.of(family), family.traffic, flows=self._flows)
        placed = _placement_of(decision)
        # What slices remember only matters to those that remember something.
        outcome: Hashable = (placed, decision.in_force if self._existing.own else None)

        def plan() -> FamilyPlan:
            if outcome not in self._plans:
                self._plans[outcome] = self._plan(decision, service)
            return self._plans[outcome]

        numbers, key = self._numbers, outcome
        if not self._existing.own:
            numbers, key = self._numbers_of_new, self._sizes(decision, service)
        if key not in numbers:
            numbers[key] = SliceNumbers.of(plan())
        read = self._what_is_read(decision, placed, service)
        if read not in self._traffic:
            self._traffic[read] = (
                replace(plan(), service=service).traffic
                if self._names_matter
                else self._traffic_of_new(decision, service)
            )
        return _compared(approach, decision, numbers[key], self._traffic[read], flows=self._flows)

    def _decision_demand(self, service: Service) -> Demand:
        state = self._cluster_state
        if not self._built_in or state.by_cpu is state.decision_demand():
            return state.decision_demand()
        heuristic = state.requested(service).heuristic
        return state.decision_demand(built_in=heuristic is None or heuristic.name in BUILT_IN_HEURISTICS)

    def _plan(self, decision: Decision, service: Service) -> FamilyPlan:
        return plan_decision(decision, self._endpoints, self._existing, service, self._cluster_state, taken=self._taken)

    def _desired(self, decision: Decision, service: Service) -> dict[SliceKey, DesiredSlices]:
        targets, endpoints = decision.targets, self._endpoints
        assert targets is not None
        template = slice_template(
            service,
            address_type=endpoints.address_type,
            in_force=decision.in_force,
            configuration=self._cluster_state.configuration,
        )
        return desired(template, targets, endpoints, endpoints.by_identity.values())

    def _sizes(self, decision: Decision, service: Service) -> Hashable:
        """What the numbers of slices depend on where none of ours is there: how many endpoints share slices."""
        targets, endpoints = decision.targets, self._endpoints
        sizes: dict[PortKey, list[int]] = {}
        replaced = len(self._existing.managed_by(Manager.REPLACED))
        if targets is not None and targets.encoding == "slice-groups":
            for (ports, _), group in self._desired(decision, service).items():
                sizes.setdefault(ports, []).append(len(group.endpoints))
        else:
            sizes = {ports: [group.size] for ports, group in endpoints.port_groups.items()}
        return tuple(sorted(tuple(sorted(each)) for each in sizes.values())), replaced

    def _traffic_of_new(self, decision: Decision, service: Service) -> ExpectedTraffic | None:
        """With the slices of a decision where there are no others, and each address is there once. To proxies, neither
        their names nor their number matter then: here each group has one."""
        state = self._cluster_state
        template = slice_template(
            service,
            address_type=self._endpoints.address_type,
            in_force=decision.in_force,
            configuration=state.configuration,
        )
        weights = {names.ZONE_WEIGHTS_ANNOTATION: format_zone_weights(decision.weights)}
        slices = [
            new_slice(template, replace(each, annotations={**each.annotations, **weights}), each.endpoints.values())
            for each in self._desired(decision, service).values()
        ]
        return predict_service_traffic(
            service, slices, consumers=state.consumers_of(service), gates=state.configuration.gates
        )

    def _what_is_read(self, decision: Decision, placed: "_Placed", service: Service) -> Hashable:
        """What proxies see of a decision; None where none of them looks at hints, weights or groups: then it does not
        matter how endpoints get to their slices."""
        state, gates = self._cluster_state, self._cluster_state.configuration.gates
        honored = self._honored_hints(service)
        hinted = decision.targets is not None and decision.targets.encoding == "hints"
        weighted = decision.weights is not None and any(each.weights for each in honored)
        reads_groups = any(reads_slice_groups(each.consumer, gates) for each in state.consumers_of(service))
        if not (hinted or weighted or self._has_others or reads_groups):
            return None
        *placement, weights = placed
        return tuple(placement), weights if weighted else None, honored

    def _honored_hints(self, service: Service) -> tuple[HonoredHints, ...]:
        state = self._cluster_state
        gates = state.configuration.gates
        return tuple(honored_hints(service, each.consumer, gates) for each in state.consumers_of(service))


@dataclass(frozen=True, slots=True)
class SliceNumbers:
    """``share``: the slices that suffice without any groups, over those that there are; at most 1."""

    slices: int
    created: int
    updated: int
    deleted: int
    share: float

    @classmethod
    def of(cls, family: FamilyPlan) -> "SliceNumbers":
        changes = family.changes
        kept = (*changes.create, *changes.update, *changes.unchanged)
        return cls(
            slices=len(kept),
            created=len(changes.create),
            updated=len(changes.update),
            deleted=len(changes.delete) + len(family.replaced),
            share=slices_share(kept, family.cluster_state.configuration.max_endpoints_per_slice),
        )


_Placed = tuple[Hashable, Hashable, Hashable, str]


def _placement_of(decision: Decision) -> _Placed:
    """Everything in a decision by which endpoints get to their slices, with their hints, groups and weights."""
    targets = decision.targets
    assert targets is not None
    return targets.encoding, targets.node_hints, frozenset(targets.targets.items()), str(decision.weights)


def _compared(
    approach: str, decision: Decision, numbers: SliceNumbers, traffic: ExpectedTraffic | None, *, flows: bool
) -> ComparedApproach:
    predicted = None if traffic is None else TrafficNumbers.of(traffic, flows=flows)
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
