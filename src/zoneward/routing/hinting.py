"""Decisions that hints carry: KEP-2433's heuristics, KEP-4444's and KEP-3015's distributions, and upstream's way."""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from zoneward.routing import upstream
from zoneward.routing.algorithms.proportional_zone_cpu import least_endpoints
from zoneward.routing.algorithms.registry import Heuristic
from zoneward.routing.allocation import Allocation, allocate
from zoneward.routing.decision_context import Case, lacking, percent
from zoneward.routing.configuration import HintsSettings
from zoneward.routing.decision import Decision
from zoneward.routing.hysteresis import threshold_in_force
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.endpoint_index import Cell, named
from zoneward.routing.placement.placement import Lot, place, with_guests_kept
from zoneward.routing.reasons import Reason
from zoneward.routing.request.asked import Approach
from zoneward.routing.rules import counted, listed
from zoneward.routing.tolerance import lost_in_zone


def balanced(case: Case, heuristic: Heuristic) -> Decision:
    """KEP-2433's heuristic, with this project's guarantees."""
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
    threshold = threshold_in_force(case.hints, kept=kept)
    case.rules.ask(
        "threshold-in-force",
        True,
        f"in force already: kept below {percent(threshold)}"
        if kept
        else f"not in force yet: starts below {percent(threshold)}",
    )
    decision = _allocated(case, heuristic, threshold)
    if decision is not None:
        return decision
    # Without the threshold: it is lower the next time, when nothing is in force, and the words would change.
    number, zones = case.number, len(case.demand.zones)
    return case.inactive(
        Reason.OVERLOAD,
        f"{counted(number, 'endpoint')} for {counted(zones, 'zone')}: any split would put too much on some zone",
    )


def own_zone(case: Case, heuristic: Heuristic) -> Decision:
    """Every endpoint to its own zone (and node): no threshold, no demand asked."""
    nobody = case.ready_endpoints_refusal()
    if nobody is not None:
        return nobody
    refusal = _zone_refusal(case)
    if refusal is not None and case.asked.approach is Approach.HINTS:
        return refusal
    decision = _allocated(case, heuristic, case.hints.start_threshold)
    if decision is None:
        raise AssertionError(f"{heuristic.name} refused, though it has no threshold")
    if refusal is None:
        return decision
    without_node = sum(cell.nodeless for cell in case.crowd.ready())
    if heuristic.node_hints and case.rules.ask(
        "endpoint-nodes", not without_node, f"{counted(without_node, 'ready endpoint')} without a node"
    ):
        return decision
    # Hints of the others stay as they are: proxies take none of them while one is missing, and no slice is
    # rewritten for an endpoint that comes and goes.
    return case.inactive(refusal.reason, refusal.message, assignment=decision.assignment)


def as_upstream(case: Case) -> Decision:
    """Upstream's checks; its hints depend on how endpoints lie in slices and are set there."""
    number = case.number
    ranges = upstream.zone_ranges(case.demand, number)
    if isinstance(ranges, upstream.Refusal):
        case.rules.ask("upstream-allocation", False, ranges.detail)
        return case.inactive(ranges.reason, ranges.detail)
    case.rules.ask(
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
    if not case.rules.ask(
        "node-zones",
        not without_zone,
        lacking(without_zone, "node", "zone label") or "every ready node has a zone",
    ):
        return case.inactive(Reason.NODE_WITHOUT_ZONE, lacking(without_zone, "node", "zone label"))
    detail = lacking(without_cpu, "node", "allocatable CPU")
    if without_cpu and demand.unit == "nodes":
        case.rules.ask("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
    elif not case.rules.ask("node-cpu", not without_cpu, detail or "every ready node has allocatable CPU"):
        return case.inactive(Reason.NODE_WITHOUT_CPU, detail)
    return None


def _count_refusal(case: Case) -> Decision | None:
    number, zones = case.number, len(case.demand.zones)
    detail = f"{counted(number, 'endpoint')} for {counted(zones, 'zone')}"
    if case.rules.ask("enough-endpoints", number >= zones, detail):
        return None
    return case.inactive(Reason.TOO_FEW_ENDPOINTS, f"{detail}: fewer than one each")


def _zone_refusal(case: Case) -> Decision | None:
    number, without = named(cell for cell in case.crowd.ready() if not cell.zone)
    detail = lacking(without, "endpoint", "zone", number=number)
    if case.rules.ask("endpoint-zones", not without, detail or "every ready endpoint has a zone"):
        return None
    return case.inactive(Reason.ENDPOINT_WITHOUT_ZONE, detail)


# --- the allocation ---------------------------------------------------------------------------------------------------


def _allocated(case: Case, heuristic: Heuristic, threshold: Fraction) -> Decision | None:
    """Allocation and placement, or None where the heuristic finds none."""
    weights = case.demand.reduced
    cells = [cell for cell in case.crowd.ready() if cell.zone]
    zones = tuple(sorted(weights.keys() | {cell.zone for cell in cells}))
    index = {zone: position for position, zone in enumerate(zones)}
    size = len(zones)
    lots = [Lot(cell, index[cell.zone], _served_before(cell, index)) for cell in cells]
    supply = [0] * size
    counts = [0] * (size * size)
    for lot in lots:
        here, there = lot.home, lot.before
        supply[here] += len(lot)
        # Where nobody starts traffic any more, nobody is to stay.
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
        detail = _minimums(case, threshold)
        if not case.rules.ask("overload-threshold", allocation is not None, detail):
            return None
    if allocation is None:
        return None
    if heuristic.balances and any(counts):
        anew, lost = allocated_anew(allocation, heuristic, demand, threshold=threshold, settings=settings)
        most = settings.in_zone_tolerance
        detail = f"{lost * 100:.3g} % less traffic in its zone than allocated anew, {percent(most)} at most"
        if not case.rules.ask("in-zone-tolerance", lost <= most, detail):
            allocation = dataclasses.replace(anew, counts=with_guests_kept(anew.counts, counts, size))
    placed = place(lots, allocation.counts, size)
    at_home = sum(allocation.counts[zone * size + zone] for zone in range(size))
    away = sum(supply) - at_home
    case.rules.ask(
        "placement",
        True,
        f"{counted(at_home, 'endpoint')} serve their own zone, {away} another; {placed.moved} moved",
    )
    groups = allocation.groups
    return case.decided(
        active=True,
        reason=Reason.ENABLED,
        message=_message(case, heuristic, allocation),
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


def allocated_anew(
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


def _served_before(cell: Cell, index: Mapping[str, int]) -> int:
    """The zone that the endpoints of a cell served, as an index; -1 for none, or for several at once."""
    group = cell.before
    return index.get(group.zones[0], -1) if group is not None and len(group.zones) == 1 else -1


def _minimums(case: Case, threshold: Fraction) -> str:
    """The least each zone needs to stay below the threshold, and what there is."""
    total, number = case.demand.total, case.number
    needed = [
        least_endpoints(number, weight, total, threshold.numerator, threshold.denominator)
        for weight in case.demand.weights
    ]
    parts = " + ".join(str(each) for each in needed)
    return f"below {percent(threshold)} the zones need at least {parts} = {sum(needed)} of {number} endpoints"


def _message(case: Case, heuristic: Heuristic, allocation: Allocation) -> str:
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
    return f"no zone is more than {percent(worst)} above fair ({zone} is); {numbers}"
