"""What another demand would do to one Service: whether its decision in force still fits, and what a new one would gain.

Both decisions are those of the pipeline (`zoneward.slices.plan`) for the same endpoints and slices, so that all that
keeps a decision in force holds here too. Both are measured by the demand that is expected to come.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

from zoneward.kube.names import DEMAND_ANNOTATION
from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing import score
from zoneward.routing.allocation import Allocation, allocation_of, measures_of
from zoneward.routing.configuration import compatibility_of
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.thresholds import kept_overload
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.endpoints import ServiceEndpoints
from zoneward.slices.plan import collect_families, decide_family, is_managed
from zoneward.slices.reconcile import have_moved

RESERVE: Final = 0.02
"""A decision in force does not stay where the expected overload is so near to the one at which none stays: figures are
not exact. Where demand is steady the same decision follows, and nothing changes."""
Parts = Mapping[str, Fraction] | None
"""Parts of zones in the traffic of one Service; None: it has the cluster's demand."""


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What happens to a Service with another demand, in the address family where it matters most.

    ``moves``: some endpoint would serve other zones, or weights of zones would change. ``excess`` is how far the
    overload of the decision in force is above the one at which no decision stays, and ``new_excess`` that of the new
    one; below 0 they hold. ``gain`` is the share of all traffic that stays in its zone with the new decision and not
    with the one in force.
    """

    moves: bool
    excess: float
    new_excess: float
    gain: float

    @property
    def is_overload(self) -> bool:
        """Whether the decision in force must not stay."""
        return self.excess >= -RESERVE

    def is_worth(self, margin: Fraction) -> bool:
        """Whether the new decision must, or should, take the place of the one in force."""
        if not self.moves:
            return False
        if self.is_overload:
            return self.new_excess < self.excess
        return self.new_excess < 0 and self.gain > margin


@dataclass(frozen=True, slots=True)
class OutcomeMeasures:
    """What proxies make of a decision: the share of traffic that stays in its zone, and the worst overload."""

    in_zone: float
    max_overload: float


_MeasuresByProxy = tuple[Sequence[OutcomeMeasures], ...]
"""By each expected demand: with proxies that take any endpoint alike, and with those that weigh zones, where a decision
is for them too."""


def _worst(measured: _MeasuresByProxy) -> float:
    return max(measures.max_overload for by_demand in measured for measures in by_demand)


def depends_on_demand(service: Service, cluster_state: ClusterState) -> bool:
    """Whether measured demand can change the decision about a Service: its approach balances load, and the Service
    itself says nothing about demand.
    """
    if not (compatibility_of(cluster_state.configuration).reads_own_settings and is_managed(service)):
        return False
    if DEMAND_ANNOTATION in (service.metadata.annotations or {}):
        return False
    heuristic = cluster_state.requested(service).heuristic
    return heuristic is not None and heuristic.balances


class DemandTrial:
    """One Service that `depends_on_demand`, to try other parts with. ``pods`` and ``slices`` are as for
    `zoneward.slices.plan`, and the demand in force is that of ``cluster_state``.

    Decisions are measured by each of the ``expected`` parts: they have to hold by all of them.
    """

    def __init__(
        self,
        service: Service,
        *,
        pods: Iterable[Pod],
        slices: Iterable[EndpointSlice],
        cluster_state: ClusterState,
        expected: Sequence[Parts],
    ) -> None:
        configuration = cluster_state.configuration
        self._service, self._cluster_state = service, cluster_state
        self._limit = kept_overload(cluster_state.requested(service), configuration)
        by_name = {slice_.metadata.name: slice_ for slice_ in slices}
        collected = collect_families(service, pods=pods, slices=by_name.values(), cluster_state=cluster_state)
        self._families = [endpoints for endpoints in collected.endpoints if endpoints.index.ready_count]
        self._existing = collected.existing
        self._expected = [self._demand_of(parts) for parts in expected]

    def may_change(self, margin: Fraction) -> bool:
        """Whether any parts can be worth it: False is certain, and spares the decisions with other parts."""
        return any(
            measures.max_overload >= self._limit - RESERVE or 1 - measures.in_zone > margin
            for _, _, measured in self._in_force
            for by_demand in measured
            for measures in by_demand
        )

    def outcome(self, parts: Parts) -> TrialOutcome:
        """What the decisions with these parts would do."""
        demand = self._demand_of(parts)
        outcomes = [
            self._compare(endpoints, in_force, measured, demand) for endpoints, in_force, measured in self._in_force
        ]
        if not outcomes:
            return TrialOutcome(moves=False, excess=-self._limit, new_excess=-self._limit, gain=0.0)
        return TrialOutcome(
            moves=any(outcome.moves for outcome in outcomes),
            excess=max(outcome.excess for outcome in outcomes),
            new_excess=max(outcome.new_excess for outcome in outcomes),
            gain=max(outcome.gain for outcome in outcomes),
        )

    @cached_property
    def _in_force(self) -> list[tuple[ServiceEndpoints, Decision, _MeasuresByProxy]]:
        decisions = ((endpoints, self._decide(endpoints, self._cluster_state)) for endpoints in self._families)
        return [(endpoints, decision, self._measure(decision, endpoints)) for endpoints, decision in decisions]

    def _demand_of(self, parts: Parts) -> Demand:
        key = (self._service.metadata.namespace, self._service.metadata.name)
        state = replace(self._cluster_state, service_parts={} if parts is None else {key: parts})
        return state.for_service(self._service).demand

    def _decide(self, endpoints: ServiceEndpoints, cluster_state: ClusterState) -> Decision:
        return decide_family(self._service, endpoints, self._existing[endpoints.address_type], cluster_state)

    def _compare(
        self, endpoints: ServiceEndpoints, in_force: Decision, measured: _MeasuresByProxy, demand: Demand
    ) -> TrialOutcome:
        new = self._decide(endpoints, replace(self._cluster_state, decided_by=demand))
        moves = in_force.in_force != new.in_force or in_force.allocation != new.allocation
        if in_force.weights is not None and new.weights is not None:
            moves = moves or have_moved(in_force.weights, new.weights)
        anew = self._measure(new, endpoints)
        return TrialOutcome(
            moves=moves,
            excess=_worst(measured) - self._limit,
            new_excess=_worst(anew) - self._limit,
            # By the demand by which the least is gained, and with the proxies that gain most.
            gain=max(
                min(after.in_zone - before.in_zone for before, after in zip(one, other, strict=True))
                for one, other in zip(measured, anew, strict=False)
            ),
        )

    def _measure(self, decision: Decision, endpoints: ServiceEndpoints) -> _MeasuresByProxy:
        outcomes = []
        for demand in self._expected:
            allocation = decision.allocation or _cluster_wide(endpoints, demand)
            measures = measures_of(allocation, demand.reduced)
            outcomes.append(OutcomeMeasures(measures[score.IN_ZONE], measures[score.MAX_OVERLOAD]))
        if decision.weights is None:
            return (outcomes,)
        return outcomes, [measure_weights(decision.weights, demand) for demand in self._expected]


def _cluster_wide(endpoints: ServiceEndpoints, demand: Demand) -> Allocation:
    """All ready endpoints in one group of all zones."""
    supply = endpoints.index.ready_by_zone()
    zones = tuple(sorted({*demand.zones, *supply}))
    return allocation_of(zones, {(zones, zone): supply.get(zone, 0) for zone in zones})


def measure_weights(weights: ZoneWeights, demand: Demand) -> OutcomeMeasures:
    """What weights do with another demand than the one that they were computed for."""
    total = sum(weights.counts.values())
    load: dict[str, float] = {}
    in_zone = 0.0
    for zone in demand.zones:
        share = demand.share(zone)
        # A zone without weights sends its traffic to all.
        row = weights.shares.get(zone) or {end: count / total for end, count in weights.counts.items() if total}
        in_zone += share * row.get(zone, 0.0)
        for end, part in row.items():
            load[end] = load.get(end, 0.0) + share * part
    worst = max((load[end] * total / weights.counts[end] - 1 for end in load if weights.counts.get(end)), default=0.0)
    return OutcomeMeasures(in_zone, max(0.0, worst))
