"""Decisions that take effect by hints: KEP-2433's heuristics, KEP-4444's and KEP-3015's distributions, and `Auto` as
current Kubernetes decides it.

`zoneward.slices` writes the hints into EndpointSlices.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from zoneward.routing.algorithms.heuristics import Heuristic
from zoneward.routing.algorithms.proportional_zone_cpu import least_endpoints
from zoneward.routing.allocation import Allocation, allocate
from zoneward.routing.case import Case
from zoneward.routing.configuration import HintsSettings
from zoneward.routing.decision import Decision
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.crowd import Cell, named
from zoneward.routing.placement.placement import Lot, place, with_guests_kept
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason, counted, describe_without, format_percent, listed
from zoneward.routing.thresholds import lost_in_zone, overload_threshold
from zoneward.routing.upstream_ranges import UpstreamRefusal, zone_ranges


def decide_balanced(case: Case, heuristic: Heuristic) -> Decision:
    """Decide by KEP-2433's heuristic, which balances load, with the guarantees of this project."""
    refusal = (
        case.external_policy_refusal()
        or case.ready_nodes_refusal()
        or _node_refusal(case)
        or case.one_zone_refusal(case.demand)
        or _count_refusal(case)
        or _zone_refusal(case)
    )
    if refusal is not None:
        return refusal
    kept = case.in_force == f"{case.asked.approach}/{heuristic.name}"
    threshold = overload_threshold(case.hints, kept=kept)
    case.rules.record(
        "threshold-in-force",
        True,
        f"in force already: kept below {format_percent(threshold)}"
        if kept
        else f"not in force yet: starts below {format_percent(threshold)}",
    )
    decision = _allocate_and_place(case, heuristic, threshold)
    if decision is not None:
        return decision
    # The message leaves out the threshold: it is lower the next time, when nothing is in force, and the message would
    # change.
    number, zones = case.number, len(case.demand.zones)
    return case.inactive(
        Reason.OVERLOAD,
        f"{counted(number, 'endpoint')} for {counted(zones, 'zone')}: any split would put too much on some zone",
    )


def decide_own_zone(case: Case, heuristic: Heuristic) -> Decision:
    """Every endpoint serves its own zone (and node), whatever the demand and the load."""
    no_endpoints = case.ready_endpoints_refusal()
    if no_endpoints is not None:
        return no_endpoints
    refusal = _zone_refusal(case)
    if refusal is not None and case.asked.approach is Approach.HINTS:
        return refusal
    decision = _allocate_and_place(case, heuristic, case.hints.start_threshold)
    if decision is None:
        raise AssertionError(f"{heuristic.name} refused, though it has no threshold")
    if refusal is None:
        return decision
    without_node = sum(cell.nodeless for cell in case.crowd.ready())
    if heuristic.node_hints and case.rules.record(
        "endpoint-nodes", not without_node, f"{counted(without_node, 'ready endpoint')} without a node"
    ):
        return decision
    # The other endpoints keep their hints: proxies ignore all of them while one is missing, and an endpoint that comes
    # and goes rewrites no other slice.
    return case.inactive(refusal.reason, refusal.message, assignment=decision.assignment)


def decide_as_upstream(case: Case) -> Decision:
    """Decide as upstream does. Its hints depend on how endpoints lie in slices, so `zoneward.slices` sets them."""
    number = case.number
    ranges = zone_ranges(case.demand, number)
    if isinstance(ranges, UpstreamRefusal):
        case.rules.record("upstream-allocation", False, ranges.detail)
        return case.inactive(ranges.reason, ranges.detail)
    case.rules.record(
        "upstream-allocation",
        True,
        "; ".join(f"{zone} {each.minimum} to {each.maximum}" for zone, each in ranges.items()),
    )
    refusal = _zone_refusal(case)
    if refusal is not None:
        return refusal
    return case.decided(
        active=True,
        reason=Reason.ENABLED,
        message="hints as upstream sets them",
        ranges=dict(ranges),
    )


# --- rules ------------------------------------------------------------------------------------------------------------


def _node_refusal(case: Case) -> Decision | None:
    demand = case.demand
    without_zone, without_cpu = demand.without_zone, demand.without_cpu
    if not case.rules.record(
        "node-zones",
        not without_zone,
        describe_without(without_zone, "node", "zone label") or "every ready node has a zone",
    ):
        return case.inactive(Reason.NODE_WITHOUT_ZONE, describe_without(without_zone, "node", "zone label"))
    detail = describe_without(without_cpu, "node", "allocatable CPU")
    if without_cpu and demand.unit == "nodes":
        case.rules.record("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
    elif not case.rules.record("node-cpu", not without_cpu, detail or "every ready node has allocatable CPU"):
        return case.inactive(Reason.NODE_WITHOUT_CPU, detail)
    return None


def _count_refusal(case: Case) -> Decision | None:
    number, zones = case.number, len(case.demand.zones)
    detail = f"{counted(number, 'endpoint')} for {counted(zones, 'zone')}"
    if case.rules.record("enough-endpoints", number >= zones, detail):
        return None
    return case.inactive(Reason.TOO_FEW_ENDPOINTS, f"{detail}: fewer than one each")


def _zone_refusal(case: Case) -> Decision | None:
    number, without = named(cell for cell in case.crowd.ready() if not cell.zone)
    detail = describe_without(without, "endpoint", "zone", number=number)
    if case.rules.record("endpoint-zones", not without, detail or "every ready endpoint has a zone"):
        return None
    return case.inactive(Reason.ENDPOINT_WITHOUT_ZONE, detail)


# --- the allocation ---------------------------------------------------------------------------------------------------


def _allocate_and_place(case: Case, heuristic: Heuristic, threshold: Fraction) -> Decision | None:
    """Allocation and placement, or None where the heuristic finds none."""
    weights = case.demand.reduced
    cells = [cell for cell in case.crowd.ready() if cell.zone]
    zones = tuple(sorted(weights.keys() | {cell.zone for cell in cells}))
    index = {zone: position for position, zone in enumerate(zones)}
    size = len(zones)
    lots = [Lot(cell, index[cell.zone], _previous_zone(cell, index)) for cell in cells]
    supply = [0] * size
    counts = [0] * (size * size)
    for lot in lots:
        here, there = lot.home, lot.before
        supply[here] += len(lot)
        # No endpoint stays for a zone where no traffic starts any more.
        if there >= 0 and not (heuristic.balances and zones[there] not in weights):
            counts[there * size + here] += len(lot)
    demand = [weights.get(zone, 0) for zone in zones]
    settings = case.hints
    allocation = allocate(
        heuristic,
        zones=zones,
        demand=demand,
        supply=supply,
        previous=counts,
        threshold=threshold,
        start_threshold=settings.start_threshold,
    )
    if heuristic.balances:
        detail = _describe_minimums(case, threshold)
        if not case.rules.record("overload-threshold", allocation is not None, detail):
            return None
    if allocation is None:
        return None
    if heuristic.balances and any(counts):
        anew, lost = allocate_anew(allocation, heuristic, demand, threshold=threshold, settings=settings)
        most = settings.in_zone_tolerance
        detail = f"{lost * 100:.3g} % less traffic in its zone than allocated anew, {format_percent(most)} at most"
        if not case.rules.record("in-zone-tolerance", lost <= most, detail):
            allocation = dataclasses.replace(anew, counts=with_guests_kept(anew.counts, counts, size))
    placed = place(lots, allocation.counts, size)
    at_home = sum(allocation.counts[zone * size + zone] for zone in range(size))
    away = sum(supply) - at_home
    case.rules.record(
        "placement",
        True,
        f"{counted(at_home, 'endpoint')} serve their own zone, {away} another; {placed.moved} moved",
    )
    groups = allocation.groups
    return case.decided(
        active=True,
        reason=Reason.ENABLED,
        message=_describe_allocation(case, heuristic, allocation),
        allocation=allocation,
        assignment=Assignment(
            case.crowd,
            "hints",
            whole={lot.members: groups[zone] for lot, zone in placed.whole.items() if isinstance(lot.members, Cell)},
            apart={member: groups[zone] for member, zone in placed.apart.items()},
            node_hints=heuristic.node_hints,
        ),
        moved=placed.moved,
    )


def allocate_anew(
    kept: Allocation, heuristic: Heuristic, demand: Sequence[int], *, threshold: Fraction, settings: HintsSettings
) -> tuple[Allocation, float]:
    """The allocation of the same endpoints if none had been placed before, and the share of all traffic that stays in
    its zone with that one and not with ``kept``.
    """
    size = len(kept.zones)
    anew = allocate(
        heuristic,
        zones=kept.zones,
        demand=demand,
        supply=[sum(kept.counts[zone::size]) for zone in range(size)],
        previous=[0] * (size * size),
        threshold=threshold,
        start_threshold=settings.start_threshold,
    )
    if anew is None:
        raise AssertionError("expected an allocation wherever another keeps to the same threshold, got none")
    return anew, lost_in_zone(kept, anew, demand)


def _previous_zone(cell: Cell, index: Mapping[str, int]) -> int:
    """The zone that the endpoints of a cell served, as an index; -1 for none, or for several at once."""
    group = cell.before
    return index.get(group.zones[0], -1) if group is not None and len(group.zones) == 1 else -1


def _describe_minimums(case: Case, threshold: Fraction) -> str:
    """How many endpoints each zone needs to stay below the threshold, and how many there are."""
    total, number = case.demand.total, case.number
    needed = [
        least_endpoints(number, weight, total, threshold.numerator, threshold.denominator)
        for weight in case.demand.weights
    ]
    parts = " + ".join(str(each) for each in needed)
    return f"below {format_percent(threshold)} the zones need at least {parts} = {sum(needed)} of {number} endpoints"


def _describe_allocation(case: Case, heuristic: Heuristic, allocation: Allocation) -> str:
    if not heuristic.balances:
        empty = tuple(
            zone
            for position, zone in enumerate(allocation.zones)
            if zone in case.demand.weight_of and not allocation.size(position)
        )
        where = "node, then its own zone" if heuristic.node_hints else "zone"
        text = f"every endpoint serves its own {where}"
        return f"{text}; {listed(empty)} without endpoints: all serve there" if empty else text
    number = case.number
    worst, zone = max(
        (Fraction(number * weight, case.demand.total * allocation.size(allocation.zones.index(zone))) - 1, zone)
        for zone, weight in case.demand.weight_of.items()
    )
    numbers = f"{counted(number, 'endpoint')} for {counted(len(case.demand.zones), 'zone')}"
    if not worst:
        return f"every zone has its fair share; {numbers}"
    return f"no zone is more than {format_percent(worst)} above fair ({zone} is); {numbers}"
