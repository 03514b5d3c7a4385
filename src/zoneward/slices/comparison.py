"""The plans of a Service with every approach and algorithm: what each does to its traffic and to its slices."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.routing import score
from zoneward.routing.decision import Decision
from zoneward.routing.request.what_if import NO_APPROACH, WHAT_IF_VALUES, as_if_requested
from zoneward.routing.selection.expected_traffic import ExpectedTraffic
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import FamilyPlan, plan_service
from zoneward.slices.ports import PortKey, port_key

COMPARED = (NO_APPROACH, *(value for value in WHAT_IF_VALUES if value not in ("Auto", NO_APPROACH)))
"""Cluster-wide first, then all others; ``Auto`` is another name of one of them (``hints.auto``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedApproach:
    """One approach for a Service in one address family.

    ``slices`` is the number of slices afterwards, ``writes`` the number of slices to create, update or delete for that.
    ``score`` is the proposal's, at most 100. Where no traffic can be predicted, ``traffic`` and ``score`` are None.

    ``busiest_load`` is the share of all traffic that the busiest endpoint gets. ``load_change``: where the cluster was
    changed, by how much that is more than the busiest one got before, with the same approach; else None.
    """

    approach: str
    decision: Decision
    traffic: ExpectedTraffic | None
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


@dataclass(frozen=True, slots=True)
class ServiceComparison:
    """All approaches for a Service in one address family, in the order of the request.

    ``today`` is the plan with the Service's own settings.
    """

    service: Service
    address_type: str
    today: ComparedApproach
    candidates: tuple[ComparedApproach, ...]

    @property
    def best(self) -> ComparedApproach | None:
        """The approach with the highest score; of equal ones the fewest writes, then the first. It must be active."""
        scored = [(each, each.score) for each in self.candidates if each.score is not None and _counts(each)]
        if not scored:
            return None
        return max(scored, key=lambda each: (round(each[1], 6), -each[0].writes))[0]


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
    pods, slices = tuple(pods), tuple(slices)

    def candidates(service: Service, approach: str) -> dict[str, ComparedApproach]:
        plan = plan_service(service, pods=pods, slices=slices, cluster_state=cluster_state, taken=taken)
        most = cluster_state.configuration.max_endpoints_per_slice
        return {family.address_type: _candidate(approach, family, most) for family in plan.families}

    today = candidates(service, "")
    found = [candidates(as_if_requested(service, approach), approach) for approach in approaches]
    return tuple(
        ServiceComparison(service, address_type, candidate, tuple(each[address_type] for each in found))
        for address_type, candidate in today.items()
    )


def with_load_changes(
    comparisons: Iterable[ServiceComparison], before: Iterable[ServiceComparison]
) -> tuple[ServiceComparison, ...]:
    """The same comparisons, with the change of each load since those ``before`` the change of the cluster."""
    loads = {
        (*_key(comparison), each.approach): each.busiest_load
        for comparison in before
        for each in (comparison.today, *comparison.candidates)
    }

    def changed(comparison: ServiceComparison, each: ComparedApproach) -> ComparedApproach:
        load = loads.get((*_key(comparison), each.approach))
        return replace(each, load_change=each.busiest_load / load - 1) if load and each.busiest_load else each

    return tuple(
        replace(
            comparison,
            today=changed(comparison, comparison.today),
            candidates=tuple(changed(comparison, each) for each in comparison.candidates),
        )
        for comparison in comparisons
    )


def _key(comparison: ServiceComparison) -> tuple[str, str, str]:
    meta = comparison.service.metadata
    return meta.namespace, meta.name, comparison.address_type


def _counts(candidate: ComparedApproach) -> bool:
    return candidate.decision.active or candidate.approach == NO_APPROACH


def _candidate(approach: str, family: FamilyPlan, most: int) -> ComparedApproach:
    changes, traffic = family.changes, family.traffic
    value = None
    if traffic is not None and traffic.served:
        value = score.total(
            in_zone=traffic.in_zone,
            max_overload=traffic.max_overload,
            mean_overload=traffic.mean_overload,
            slices=_slices_share(changes.after, most),
        )
    return ComparedApproach(
        approach=approach,
        decision=family.decision,
        traffic=traffic,
        slices=len(changes.after),
        created=len(changes.create),
        updated=len(changes.update),
        deleted=len(changes.delete) + len(family.replaced),
        score=value,
        busiest_load=traffic.busiest_load if traffic else 0.0,
    )


def _slices_share(slices: Iterable[EndpointSlice], most: int) -> float:
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
