"""Every approach and algorithm for one Service: what each does to its traffic and its slices, and which is best.

`ServiceComparison` is an item of ``compare -o json``, and its ``approaches`` are the lines of the CSV.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from zoneward.advice.cluster_abilities import CONTROLLER, ClusterAbilities, familiarity
from zoneward.advice.measured_flows import ServiceFamily, other_family
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.service_input import ServiceInput
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.routing import score
from zoneward.routing.algorithms.heuristics import BUILT_IN_HEURISTICS
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import HonoredHints, honored_hints
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.routing.what_if import NO_APPROACH, WHAT_IF_VALUES, as_if_requested
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.endpoints import PortKey, port_key
from zoneward.slices.plan import (
    CollectedFamilies,
    FamilyPlan,
    ServicePlan,
    collect_families,
    is_managed,
    plan_families,
    plan_unmanaged,
)

COMPARED: Final = (NO_APPROACH, *(value for value in WHAT_IF_VALUES if value not in ("Auto", NO_APPROACH)))
"""Cluster-wide first, then all others; ``Auto`` is another name of one of them (``hints.auto``)."""
NOW: Final = "now"
"""The name of what is in force, beside the approaches."""
_OWN_SETTINGS: Final = ""
Flows = Mapping[str, Mapping[str, float]]
"""For each zone with demand the shares of its traffic by the zone of the endpoints."""


class ComparedApproach(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One approach for one Service. Shares, overloads and the score are null where no traffic can be predicted.

    ``dropped_traffic`` is the share of all traffic that no endpoint takes; if there is any, there is no score.
    ``slices`` counts the slices afterwards; ``create``, ``update`` and ``delete`` those to write for that.
    ``load_change`` compares the busiest endpoint's load with the busiest one's before the change of the cluster, with
    the same approach; null where no option changes the input. ``needs`` is what the cluster lacks for the approach:
    ``controller``, ``proxy`` or a version of Kubernetes.
    """

    approach: str
    active: bool
    reason: str
    reason_code: Reason
    in_zone_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    dropped_traffic: float | None
    moved: int
    slices: int
    create: int
    update: int
    delete: int
    score: float | None
    load_change: float | None
    needs: str | None

    @property
    def writes(self) -> int:
        return self.create + self.update + self.delete

    def overloads(self, keep_threshold: float) -> bool:
        """Whether it puts the busiest endpoint at the threshold for keeping hints or above: then it is never the best.

        Cluster-wide traffic never does: any overload comes from other fields of the Service.
        """
        return self.active and self.max_overload is not None and self.max_overload >= keep_threshold


class InForce(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """What the slices of one Service do now, through the proxies on the nodes."""

    in_zone_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    dropped_traffic: float | None
    slices: int
    score: float | None


class ServiceComparison(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """All approaches for one Service in one address family. ``today`` is what its own settings choose.

    ``best`` is the best approach that the cluster can apply as it is; ``better`` the best with Zoneward's controller,
    if that is another one. Both are null where nothing can be predicted. ``now`` is null without slices.
    """

    namespace: str
    service: str
    address_type: str
    endpoints: int
    asks_for: str
    now: InForce | None
    today: ComparedApproach
    best: str | None
    better: str | None
    approaches: tuple[ComparedApproach, ...]

    @property
    def key(self) -> ServiceFamily:
        return self.namespace, self.service, self.address_type

    @property
    def start(self) -> InForce:
        """What is in force; without slices, what the Service's own settings would do."""
        today = self.today
        return self.now or InForce(
            in_zone_traffic=today.in_zone_traffic,
            max_overload=today.max_overload,
            mean_overload=today.mean_overload,
            dropped_traffic=today.dropped_traffic,
            slices=0,
            score=today.score,
        )

    @property
    def chosen(self) -> ComparedApproach:
        """The best approach; without one, the Service's own settings."""
        return self.find(self.best) or self.today

    def find(self, approach: str | None) -> ComparedApproach | None:
        return next((candidate for candidate in self.approaches if candidate.approach == approach), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A comparison and what is behind it.

    ``zones`` counts the zones with demand or endpoints. ``flows`` are by approach, with those in force as `NOW`; empty
    if they were not asked for.
    """

    comparison: ServiceComparison
    zones: int
    flows: Mapping[str, Flows]


def recommend(
    given: ServiceInput,
    *,
    node_proxies: NodeProxies,
    abilities: ClusterAbilities,
    built_in: bool = False,
    approaches: Iterable[str] = COMPARED,
    unchanged: ServiceInput | None = None,
    flows: bool = False,
) -> tuple[Recommendation, ...]:
    """Plan a Service once as it is and once with each of the ``approaches``, and find the best one. Returns a
    recommendation for each address family; none for a Service that has no slices at all.

    ``built_in``: the built-in controller decides about the approaches that Kubernetes knows, by its own demand. If
    options changed the cluster, ``unchanged`` is the same Service as it was read: what is in force comes from it, and
    loads are compared with it. ``flows``: with those between zones.
    """
    keep_threshold = float(given.cluster_state.configuration.hints.keep_threshold)
    before = {} if unchanged is None else _plan_each(unchanged, approaches, built_in, abilities.same_zone)
    in_force = _traffic_in_force(unchanged or given, node_proxies)
    recommendations = []
    for address_type, plans in _plan_each(given, approaches, built_in, abilities.same_zone).items():
        family, own_traffic = plans[_OWN_SETTINGS]
        now, traffic_now = in_force.get(address_type, (None, None))
        plans_before = before.get(address_type, {})
        today, *candidates = (
            _compared(approach, planned, abilities, before=plans_before.get(approach))
            for approach, planned in plans.items()
        )
        meta = family.service.metadata
        comparison = ServiceComparison(
            namespace=meta.namespace,
            service=meta.name,
            address_type=address_type,
            endpoints=family.decision.endpoints,
            asks_for=today.approach,
            now=now,
            today=today,
            best=None,
            better=None,
            approaches=tuple(candidates),
        )
        best = best_of(comparison, keep_threshold=keep_threshold)
        better = best_of(comparison, keep_threshold=keep_threshold, with_controller=True)
        comparison = replace(comparison, best=best, better=better if better != best else None)
        traffic = {approach: predicted for approach, (_, predicted) in plans.items() if approach != _OWN_SETTINGS}
        traffic[NOW] = traffic_now
        recommendations.append(
            Recommendation(
                comparison=comparison,
                zones=0 if own_traffic is None else len(own_traffic.zones),
                flows={name: _flows(predicted) for name, predicted in traffic.items() if flows and predicted},
            )
        )
    return tuple(recommendations)


def best_of(comparison: ServiceComparison, *, keep_threshold: float, with_controller: bool = False) -> str | None:
    """The approach with the highest score that is active, overloads no endpoint, and that the cluster can apply.

    Scores are compared with one digit. Among equal ones the Service's own setting wins, then what users know best, then
    what writes the fewest slices.
    """
    usable = (None, CONTROLLER) if with_controller else (None,)
    scored = [
        (candidate, candidate.score)
        for candidate in comparison.approaches
        if candidate.score is not None
        and (candidate.active or candidate.approach == NO_APPROACH)
        and candidate.needs in usable
        and not candidate.overloads(keep_threshold)
    ]
    if not scored:
        return None

    def rank(scored: tuple[ComparedApproach, float]) -> tuple[float, bool, int, int]:
        candidate, score = scored
        name = candidate.approach
        return round(score, 1), name == comparison.asks_for, familiarity(name), -candidate.writes

    return max(scored, key=rank)[0].approach


# --- plans ------------------------------------------------------------------------------------------------------------

_Planned = tuple[FamilyPlan, ExpectedTraffic | None]
_Prediction = tuple[tuple[EndpointSlice, ...], list[HonoredHints], ExpectedTraffic | None]


def _plan_each(
    given: ServiceInput, approaches: Iterable[str], built_in: bool, same_zone: str
) -> dict[str, dict[str, _Planned]]:
    """The plans of a Service by address type and approach; `_OWN_SETTINGS` comes first.

    The endpoints and the existing slices are collected once for each controller: they do not depend on the approach.
    ``built_in``: the built-in controller decides about the approaches that it knows, by CPU. ``same_zone`` is the
    cluster's name of ``PreferSameZone``.
    """

    def asking(approach: str, decided_by: ClusterState) -> Service:
        return as_if_requested(given.service, approach, decided_by.configuration, same_zone=same_zone)

    state = given.cluster_state.for_service(given.service)
    slices = {slice_.metadata.name: slice_ for slice_ in given.slices}
    collected = of_kubernetes = None
    if is_managed(given.service):
        collected = of_kubernetes = _collect(given, slices.values(), state)
        if built_in and not state.configuration.upstream:
            configuration = state.configuration.as_upstream()
            upstream = dataclasses.replace(state, decided_by=state.by_cpu, configuration=configuration)
            of_kubernetes = _collect(given, slices.values(), upstream)
    planned: dict[str, dict[str, _Planned]] = {}
    known: list[_Prediction] = []
    for approach in (_OWN_SETTINGS, *approaches):
        service = asking(approach, state) if approach else given.service
        plan: ServicePlan
        if collected is None or of_kubernetes is None:
            plan = plan_unmanaged(service, slices.values(), state)
        else:
            heuristic = state.requested(service).heuristic
            is_own = heuristic is not None and heuristic.name not in BUILT_IN_HEURISTICS
            objects, decided_by = collected if is_own else of_kubernetes
            if approach and decided_by is not state:
                service = asking(approach, decided_by)
            plan = plan_families(
                service,
                objects.endpoints,
                objects.existing,
                decided_by,
                trigger_time=None,
                taken=(given.taken, slices),
            )
        for family in plan.families:
            planned.setdefault(family.address_type, {})[approach] = family, _predict(family, known)
    return planned


def _collect(
    given: ServiceInput, slices: Iterable[EndpointSlice], state: ClusterState
) -> tuple[CollectedFamilies, ClusterState]:
    """What one controller plans with."""
    return collect_families(given.service, pods=given.pods, slices=slices, cluster_state=state), state


def _predict(family: FamilyPlan, known: "list[_Prediction]") -> ExpectedTraffic | None:
    """The expected traffic, predicted once for slices that are equal: approaches that are not active write the same."""
    state, slices = family.cluster_state, family.slices
    honored = [
        honored_hints(family.service, proxies.consumer, state.configuration.gates)
        for proxies in state.consumers_of(family.service)
    ]
    for known_slices, known_honored, traffic in known:
        if known_slices == slices and known_honored == honored:
            return traffic
    known.append((slices, honored, family.traffic))
    return family.traffic


def _traffic_in_force(
    given: ServiceInput, node_proxies: NodeProxies
) -> dict[str, tuple[InForce, ExpectedTraffic | None]]:
    most = given.cluster_state.configuration.max_endpoints_per_slice
    in_force = {}
    for address_type, now in given.traffic_now(node_proxies).items():
        own = given.slices_of(address_type)
        numbers = InForce(**_numbers_of(now.traffic), slices=len(own), score=_score(now.traffic, own, most))
        in_force[address_type] = (numbers, now.traffic)
    return in_force


# --- numbers ----------------------------------------------------------------------------------------------------------


def _compared(
    approach: str, planned: _Planned, abilities: ClusterAbilities, *, before: _Planned | None
) -> ComparedApproach:
    family, traffic = planned
    decision, changes = family.decision, family.changes
    name = approach or decision.heuristic or NO_APPROACH
    load = _busiest_load(planned)
    load_before = 0.0 if before is None else _busiest_load(before)
    return ComparedApproach(
        approach=name,
        active=decision.active,
        reason=decision.message,
        reason_code=decision.reason,
        **_numbers_of(traffic),
        moved=decision.moved,
        slices=len(changes.after),
        create=len(changes.create),
        update=len(changes.update),
        delete=len(changes.delete) + len(family.replaced),
        score=_score(traffic, changes.after, family.cluster_state.configuration.max_endpoints_per_slice),
        load_change=load / load_before - 1 if load and load_before else None,
        needs=abilities.missing_for(name),
    )


def _busiest_load(planned: _Planned) -> float:
    traffic = planned[1]
    return 0.0 if traffic is None else traffic.busiest_load


def _numbers_of(traffic: ExpectedTraffic | None) -> dict[str, float | None]:
    if traffic is None:
        return dict.fromkeys(("in_zone_traffic", "max_overload", "mean_overload", "dropped_traffic"))
    return {
        "in_zone_traffic": traffic.in_zone,
        "max_overload": traffic.max_overload,
        "mean_overload": traffic.mean_overload,
        "dropped_traffic": traffic.dropped,
    }


def _score(traffic: ExpectedTraffic | None, slices: Iterable[EndpointSlice], most: int) -> float | None:
    """KEP-2004's score, at most 100. None where traffic is dropped, since nothing makes up for that, and where it is
    unknown what stays in its zone."""
    if traffic is None or traffic.dropped or traffic.in_zone is None:
        return None
    return score.total(
        in_zone=traffic.in_zone,
        max_overload=traffic.max_overload,
        mean_overload=traffic.mean_overload,
        slices=slices_share(slices, most),
    )


def slices_share(slices: Iterable[EndpointSlice], most: int) -> float:
    """The slices that suffice without any groups, over those that there are; at most 1. Empty ones do not count."""
    endpoints: dict[PortKey, int] = {}
    count = 0
    for slice_ in slices:
        if slice_.endpoints:
            count += 1
            key = port_key(slice_.ports)
            endpoints[key] = endpoints.get(key, 0) + len(slice_.endpoints)
    least = sum(-(-size // most) for size in endpoints.values())
    return min(1.0, least / count) if count else 1.0


def _flows(traffic: ExpectedTraffic) -> Flows:
    return {zone: numbers.to for zone, numbers in traffic.zones.items() if numbers.demand}


# --- totals -----------------------------------------------------------------------------------------------------------


_Row = TypeVar("_Row")


def first_services(rows: Iterable[_Row], most: int, key: Callable[[_Row], ServiceFamily]) -> list[_Row]:
    """The rows of the first ``most`` Services, in all of their address families; 0 for all."""
    rows = list(rows)
    first = set(list(dict.fromkeys(key(row)[:2] for row in rows))[: most or None])
    return [row for row in rows if key(row)[:2] in first]


class ApproachTotal(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One approach for all Services together, ``today`` for their own settings, or `NOW`.

    Shares, overloads and the score are means over the endpoints of all Services whose traffic can be predicted and is
    not dropped; where an approach is not active they are those of cluster-wide. The worst overload is the worst of any
    Service. ``best`` and ``better`` count the Services that it is best for, ``drops`` those whose traffic it drops.
    """

    approach: str
    active: int
    best: int
    in_zone_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    slices: int
    changes: int
    score: float | None
    better: int
    drops: int
    needs: str | None


class ComparisonTotals:
    """The totals of all Services, added up one by one: it holds only these numbers and the last of them."""

    def __init__(self) -> None:
        self.services = 0
        self.without_slices = 0
        self._last: ServiceComparison | None = None
        self._has_slices = False
        self._now = _Sum()
        self._today = _Sum()
        self._best = _Sum()
        self._approaches: dict[str, _Sum] = {}

    def add(self, comparison: ServiceComparison) -> None:
        """Add one Service, in one address family. The other one comes next, and counts no Service again."""
        before, self._last = other_family(self._last, comparison), comparison
        self.services += before is None
        endpoints = comparison.endpoints
        self.without_slices += comparison.now is None and (before is None or before.now is not None)
        self._has_slices |= comparison.now is not None
        self._now.add(endpoints, comparison.start, None if before is None else before.start)
        self._today.add(endpoints, comparison.today, None if before is None else before.today)
        for candidate in comparison.approaches:
            approach = candidate.approach
            total = self._approaches.setdefault(approach, _Sum())
            total.add(endpoints, candidate, None if before is None else before.find(approach))
            total.best += approach == comparison.best and (before is None or approach != before.best)
            total.better += approach == comparison.better and (before is None or approach != before.better)
        self._best.add(endpoints, comparison.chosen, None if before is None else before.chosen)

    @property
    def now(self) -> ApproachTotal | None:
        """What is in force; for Services without slices, what they ask for. None where no Service has any."""
        return self._now.total(NOW) if self._has_slices else None

    @property
    def best(self) -> ApproachTotal | None:
        """The best approach for each Service; its own settings if there is none."""
        return self._best.total("best") if self._best.services else None

    def rows(self, abilities: ClusterAbilities) -> list[ApproachTotal]:
        """The Services' own settings, and then each approach."""
        if not self.services:
            return []
        approaches = (total.total(name, abilities.missing_for(name)) for name, total in self._approaches.items())
        return [self._today.total("today"), *approaches]


class _Sum:
    def __init__(self) -> None:
        self.services = self.best = self.better = 0
        self._active = self._drops = self._slices = self._changes = self._endpoints = 0
        self._in_zone = self._worst = self._mean = self._score = 0.0

    def add(
        self, endpoints: int, numbers: ComparedApproach | InForce, before: ComparedApproach | InForce | None
    ) -> None:
        """``before``: those of the same Service in the address family that was added before."""
        self.services += 1
        if isinstance(numbers, ComparedApproach):
            self._active += numbers.active and not (isinstance(before, ComparedApproach) and before.active)
            self._changes += numbers.writes
        self._slices += numbers.slices
        self._drops += bool(numbers.dropped_traffic) and not (before is not None and before.dropped_traffic)
        if endpoints and numbers.score is not None:
            self._endpoints += endpoints
            self._in_zone += endpoints * (numbers.in_zone_traffic or 0.0)
            self._mean += endpoints * (numbers.mean_overload or 0.0)
            self._score += endpoints * numbers.score
            self._worst = max(self._worst, numbers.max_overload or 0.0)

    def total(self, approach: str, needs: str | None = None) -> ApproachTotal:
        endpoints = self._endpoints
        return ApproachTotal(
            approach=approach,
            active=self._active,
            best=self.best,
            in_zone_traffic=self._in_zone / endpoints if endpoints else None,
            max_overload=self._worst if endpoints else None,
            mean_overload=self._mean / endpoints if endpoints else None,
            slices=self._slices,
            changes=self._changes,
            score=self._score / endpoints if endpoints else None,
            better=self.better,
            drops=self._drops,
            needs=needs,
        )
