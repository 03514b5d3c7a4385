"""A Service as it would be with every approach and algorithm: what each would do to its traffic and to its slices."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.routing import score
from zoneward.routing.decision import Decision
from zoneward.routing.request.what_if import NO_APPROACH, WHAT_IF_VALUES, as_if_requested
from zoneward.routing.selection.expected_traffic import ExpectedTraffic
from zoneward.slices.plan import FamilyPlan, Surroundings, plan_service
from zoneward.slices.ports import PortKey, port_key

COMPARED = (NO_APPROACH, *(value for value in WHAT_IF_VALUES if value not in ("Auto", NO_APPROACH)))
"""Cluster-wide first, then all others; ``Auto`` is ProportionalZoneCPU by another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One approach for a Service in one address family.

    ``slices`` counts those that would exist, ``writes`` those that would be created, updated or deleted to get there
    from today's. ``score`` is the proposal's, at most 100; None, as the traffic, where nothing can be predicted.
    """

    approach: str
    decision: Decision
    traffic: ExpectedTraffic | None
    slices: int
    created: int
    updated: int
    deleted: int
    score: float | None

    @property
    def writes(self) -> int:
        return self.created + self.updated + self.deleted


@dataclass(frozen=True, slots=True)
class Comparison:
    """All candidates for a Service in one address family, in the order they were asked for.

    ``today`` is what its own settings come to.
    """

    service: Service
    address_type: str
    today: Candidate
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate | None:
        """The highest score; of equal ones the fewest writes, then the first. One that would not be active is none."""
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
    surroundings: Surroundings,
    taken: Container[str] = (),
) -> tuple[Comparison, ...]:
    """Plan a Service once with each of the ``approaches`` (`COMPARED`), and once as it is.

    A comparison for each address family; none for a Service that has no slices at all.
    """
    pods, slices = tuple(pods), tuple(slices)

    def candidates(service: Service, approach: str) -> dict[str, Candidate]:
        plan = plan_service(service, pods=pods, slices=slices, surroundings=surroundings, taken=taken)
        most = surroundings.configuration.max_endpoints_per_slice
        return {family.address_type: _candidate(approach, family, most) for family in plan.families}

    today = candidates(service, "")
    found = [candidates(as_if_requested(service, approach), approach) for approach in approaches]
    return tuple(
        Comparison(service, address_type, candidate, tuple(each[address_type] for each in found))
        for address_type, candidate in today.items()
    )


def _counts(candidate: Candidate) -> bool:
    return candidate.decision.active or candidate.approach == NO_APPROACH


def _candidate(approach: str, family: FamilyPlan, most: int) -> Candidate:
    changes, traffic = family.changes, family.traffic
    value = None
    if traffic is not None and traffic.served:
        value = score.total(
            in_zone=traffic.in_zone,
            max_overload=traffic.max_overload,
            mean_overload=traffic.mean_overload,
            slices=_slices_share(changes.after, most),
        )
    return Candidate(
        approach=approach,
        decision=family.decision,
        traffic=traffic,
        slices=len(changes.after),
        created=len(changes.create),
        updated=len(changes.update),
        deleted=len(changes.delete) + len(family.replaced),
        score=value,
    )


def _slices_share(slices: Iterable[EndpointSlice], most: int) -> float:
    """Slices that would do without any groups, over those that there are; at most 1. Empty ones don't count."""
    endpoints: dict[PortKey, int] = {}
    number = 0
    for each in slices:
        if each.endpoints:
            number += 1
            key = port_key(each.ports)
            endpoints[key] = endpoints.get(key, 0) + len(each.endpoints)
    least = sum(-(-count // most) for count in endpoints.values())
    return min(1.0, least / number) if number else 1.0
