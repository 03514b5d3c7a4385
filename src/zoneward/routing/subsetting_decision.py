"""Decisions that take effect by slice groups (KEP-2004): a starting threshold, an algorithm, and as few moves as
possible.

The algorithms see endpoints at home (`zoneward.routing.placement.homes`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS, Heuristic
from zoneward.routing.algorithms.lazy_rebalance import rebalance_lazily
from zoneward.routing.algorithms.signature import IMPOSSIBLE
from zoneward.routing.allocation import Allocation, allocate, allocation_of
from zoneward.routing.case import Case
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.crowd import Cell, Member, named
from zoneward.routing.placement.groups import Group, own_group
from zoneward.routing.placement.homes import Homes, homes_of
from zoneward.routing.placement.placement import Lot, Placement, place
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason, counted, describe_without, format_percent, listed
from zoneward.routing.score import MAX_OVERLOAD
from zoneward.routing.thresholds import endpoints_needed, has_enough_endpoints, lost_in_zone, measures_of

BALANCED_GROUPS: Final = frozenset(f"{Approach.SUBSETTING}/{name}" for name in SUBSETTING_ALGORITHMS)
"""What slices say is in force where the starting threshold applies."""


def decide_balanced(case: Case, heuristic: Heuristic) -> Decision:
    """Decide by one of the algorithms of `SUBSETTING_ALGORITHMS` (KEP-2004 § Auto Approach)."""
    demand = _demand(case)
    refusal = (
        case.external_policy_refusal()
        or case.ready_nodes_refusal()
        or case.one_zone_refusal(demand)
        or case.ready_endpoints_refusal()
        or _encoding_refusal(case, heuristic)
        or _threshold_refusal(case, len(demand.zones))
    )
    if refusal is not None:
        return refusal
    kept = case.in_force == f"{Approach.SUBSETTING}/{heuristic.name}"
    # With hints, a slice that has none is one whose endpoints are not ready.
    homes = homes_of(case, demand, demand.zones, kept=kept and case.configuration.subsetting.encoding != "hints")
    groups = _rebalance_lazily(case, heuristic, homes) if kept and any(homes.before.values()) else None
    if groups is None:
        groups = _rebalance_fully(case, heuristic, homes)
    limit = format_percent(case.configuration.subsetting.overload_threshold)
    numbers = f"{counted(case.number, 'endpoint')} for {counted(len(demand.zones), 'zone')}"
    if not case.rules.record("overload-threshold", groups is not None, f"{heuristic.name}: {numbers}, below {limit}"):
        return case.inactive(Reason.OVERLOAD, f"{numbers}: some endpoint would get {limit} or more above fair")
    assert groups is not None
    return _decide_with_groups(case, heuristic, homes, groups)


def decide_require_zone(case: Case, heuristic: Heuristic) -> Decision:
    """Every endpoint joins its own zone's group, whatever the load (KEP-2004 § Future Expansion, ``RequireZone``)."""
    refusal = case.external_policy_refusal() or case.ready_endpoints_refusal()
    if refusal is not None:
        return refusal
    demand = _demand(case)
    zones = {*demand.zones, *case.crowd.zones()}
    if not zones:
        number, without = named(case.crowd.ready())
        case.rules.record("endpoint-zones", False, describe_without(without, "endpoint", "zone", number=number))
        return case.inactive(Reason.ENDPOINT_WITHOUT_ZONE, "no endpoint and no node has a zone")
    homes = homes_of(case, demand, tuple(sorted(zones)), kept=False)
    groups = _rebalance_fully(case, heuristic, homes)
    assert groups is not None, f"{heuristic.name} refused, though it has no threshold"
    return _decide_with_groups(case, heuristic, homes, groups)


# --- rules ------------------------------------------------------------------------------------------------------------


def _demand(case: Case) -> Demand:
    """Demand by CPU, or by Nodes in all zones where one has no CPU (KEP-2004 § Assumptions).

    A Node without a zone refuses nothing here: its proxy uses all slices.
    """
    demand = case.demand
    if demand.without_zone:
        detail = describe_without(demand.without_zone, "node", "zone label")
        case.rules.record("node-zones", True, f"{detail}: proxies there use all slices")
    if demand.without_cpu:
        detail = describe_without(demand.without_cpu, "node", "allocatable CPU")
        case.rules.record("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
        return demand.by_count
    return demand


def _encoding_refusal(case: Case, heuristic: Heuristic) -> Decision | None:
    if case.configuration.subsetting.encoding != "hints":
        return None
    if case.rules.record("hint-weights", not heuristic.weighs, f"hints for {heuristic.name}, which have no weights"):
        return None
    return case.inactive(Reason.HINTS_WITHOUT_WEIGHTS, f"{heuristic.name} needs weights, and hints have none")


def _threshold_refusal(case: Case, zones: int) -> Decision | None:
    """KEP-2004 § Starting Threshold. It applies before the algorithm, which does not know it."""
    number = counted(case.number, "endpoint")
    kept = case.in_force in BALANCED_GROUPS
    threshold, padding = case.asked.starting_threshold, case.configuration.subsetting.padding

    def bound(*, kept: bool) -> str:
        sign, limit = ("-", "stops at") if kept else ("+", "starts at")
        needed = endpoints_needed(threshold, padding, zones, kept=kept)
        return f"{limit} {float(threshold):g} x {counted(zones, 'zone')} {sign} {padding} = {float(needed):g}"

    needed = endpoints_needed(threshold, padding, zones, kept=kept)
    detail = f"{number}; {'on already, ' if kept else ''}{bound(kept=kept)}"
    if case.rules.record("starting-threshold", has_enough_endpoints(case.number, needed, padding, kept=kept), detail):
        return None
    # What stops here must start again: the message with the bound for starting spares the conditions a second write.
    return case.inactive(Reason.BELOW_STARTING_THRESHOLD, f"{number}, {bound(kept=False)}")


# --- homes and groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PlacedGroups:
    """An allocation over homes, and the placement of the ready endpoints into its groups."""

    allocation: Allocation
    placed: Placement
    moved: int


def _rebalance_lazily(case: Case, heuristic: Heuristic, homes: Homes) -> _PlacedGroups | None:
    """Make only the update itself; None where that would overload an endpoint (KEP-2004 § Optimizations), or lose too
    much traffic to other zones (`zoneward.routing.thresholds.lost_in_zone`).
    """
    zones = homes.zones
    shared = _shared_groups(homes.before.values())
    number_of: dict[tuple[str, ...], int] = {(zone,): number for number, zone in enumerate(zones)}
    number_of |= {group.zones: len(zones) + number for number, group in enumerate(shared)}
    groups, size = len(number_of), len(zones)
    composition = [0] * (groups * size)
    weights = [0.0] * (groups * size)
    for number in range(size):
        weights[number * size + number] = 1.0
    for group in shared:
        for position, zone in enumerate(zones):
            weights[number_of[group.zones] * size + position] = group.weight(zone)
    for lot in (each.lot(number_of) for each in homes.ready):
        if lot.before >= 0:
            composition[lot.before * size + lot.home] += len(lot)
    threshold = case.configuration.subsetting.overload_threshold
    found = rebalance_lazily(
        homes.weights,
        homes.supply,
        (threshold.numerator, threshold.denominator),
        groups,
        composition,
        weights,
        [0] * groups,
        [0.0] * (2 * size),
    )
    limit = format_percent(threshold)
    if found == IMPOSSIBLE:
        detail = f"not below {limit} with the groups as they are: they are balanced anew"
        case.rules.record("lazy-rebalance", False, detail)
        return None
    allocation = allocation_of(zones, groups, composition, weights)
    anew = _balance(case, heuristic, homes)
    lost = lost_in_zone(allocation, anew, homes.weights) if anew else 0.0
    most = case.configuration.subsetting.in_zone_tolerance
    detail = f"below {limit} with the groups as they are, {lost * 100:.3g} % less traffic in its zone"
    if lost > most:
        case.rules.record("lazy-rebalance", False, f"{detail}, {format_percent(most)} at most: they are balanced anew")
        return None
    case.rules.record("lazy-rebalance", True, f"{detail}: only the update is made")
    return _place_groups(homes, allocation)


def _rebalance_fully(case: Case, heuristic: Heuristic, homes: Homes) -> _PlacedGroups | None:
    """Compute all groups anew; None where the algorithm finds none."""
    allocation = _balance(case, heuristic, homes)
    return None if allocation is None else _place_groups(homes, allocation)


def _balance(case: Case, heuristic: Heuristic, homes: Homes) -> Allocation | None:
    return allocate(
        heuristic,
        zones=homes.zones,
        demand=homes.weights,
        supply=homes.supply,
        previous=(0,) * len(homes.zones) ** 2,
        threshold=case.configuration.subsetting.overload_threshold,
        start_threshold=case.configuration.subsetting.overload_threshold,
    )


def _place_groups(homes: Homes, allocation: Allocation) -> _PlacedGroups:
    number_of = _group_numbers(allocation)
    lots = [each.lot(number_of) for each in homes.ready]
    placed = place(lots, allocation.counts, len(homes.zones))
    # No endpoint stays in a group that no longer exists.
    lost = sum(len(lot) for lot, each in zip(lots, homes.ready, strict=True) if each.was is not None and lot.before < 0)
    return _PlacedGroups(allocation, placed, placed.moved + lost)


def _shared_groups(groups: Iterable[Group | None]) -> list[Group]:
    """The groups that several zones share, in order.

    Of groups that differ by weights alone, it takes the one that weighs most: an interrupted write of several slices
    leaves such groups.
    """
    found: dict[tuple[str, ...], Group] = {}
    for group in groups:
        if group is not None and len(group.zones) > 1:
            other = found.get(group.zones)
            found[group.zones] = group if other is None or group.weights > other.weights else other
    return [found[zones] for zones in sorted(found)]


def _group_numbers(allocation: Allocation) -> dict[tuple[str, ...], int]:
    return {group.zones: number for number, group in enumerate(allocation.groups)}


# --- the decision -----------------------------------------------------------------------------------------------------


def _decide_with_groups(case: Case, heuristic: Heuristic, homes: Homes, groups: _PlacedGroups) -> Decision:
    allocation = groups.allocation
    all_zones = set(homes.demand.zones)
    as_hints = case.configuration.subsetting.encoding == "hints"
    if as_hints:
        most = max((len(group.zones) for group in allocation.groups), default=0)
        detail = f"{counted(most, 'zone')} in a hint, {MAX_ZONE_HINTS} at most"
        if not case.rules.record("hint-zones", most <= MAX_ZONE_HINTS, detail):
            return case.inactive(Reason.TOO_MANY_ZONES, f"a group for {detail}")
    slice_groups: Sequence[Group | None] = allocation.groups
    whole, apart = _groups_by_cell(groups.placed, slice_groups)
    if not as_hints:
        # What all zones consume alike needs no label: a proxy of any age reads such slices.
        slice_groups = [
            None if not group.weighted and all_zones <= set(group.zones) and len(all_zones) > 1 else group
            for group in allocation.groups
        ]
        whole, apart = _groups_by_cell(groups.placed, slice_groups)
        rest = _groups_by_cell(_place_not_ready(homes, allocation, by_need=heuristic.balances), slice_groups)
        whole |= rest[0]
        apart |= rest[1]
    parts = groups.placed.parts
    away = sum(number for (lot, group), number in parts.items() if allocation.groups[group].zones != (lot.zone,))
    case.rules.record(
        "placement",
        True,
        f"{counted(case.number - away, 'endpoint')} in their own zone's group, {away} in another; {groups.moved} moved",
    )
    return case.decided(
        active=True,
        reason=Reason.ENABLED,
        message=_describe_groups(case, heuristic, homes, allocation),
        assignment=Assignment(case.crowd, "hints" if as_hints else "groups", whole=whole, apart=apart),
        allocation=_by_location(homes, groups),
        moved=groups.moved,
    )


def _groups_by_cell(
    placed: Placement, groups: Sequence[Group | None]
) -> tuple[dict[Cell, Group | None], dict[Member, Group | None]]:
    """A placement as cells and single endpoints with their groups."""
    whole = {lot.members: groups[number] for lot, number in placed.whole.items() if isinstance(lot.members, Cell)}
    apart = {lot.members: groups[number] for lot, number in placed.whole.items() if isinstance(lot.members, Member)}
    return whole, apart | {member: groups[number] for member, number in placed.apart.items()}


def _place_not_ready(homes: Homes, allocation: Allocation, *, by_need: bool) -> Placement:
    """Groups for endpoints that do not count: the one they were in, or the one that will need them when they do.

    Where a decision is not ``by_need``, the one at home.
    """
    if not by_need:
        return Placement({Lot(each.members, each.zone, -1): each.zone for each in homes.rest})
    number_of = _group_numbers(allocation)
    lots = [each.lot(number_of) for each in homes.rest]
    size = len(homes.zones)
    composition = list(allocation.counts)
    supply = list(homes.supply)
    for lot in lots:
        supply[lot.home] += len(lot)
        if lot.before >= 0:
            composition[lot.before * size + lot.home] += len(lot)
    there = list(composition)
    new = [lot for lot in lots if lot.before < 0]
    if new:
        weights = [group.weight(zone) for group in allocation.groups for zone in homes.zones]
        number_of_groups = len(allocation.groups)
        rebalance_lazily(
            homes.weights,
            supply,
            (1, 1),
            number_of_groups,
            composition,
            weights,
            [0] * number_of_groups,
            [0.0] * (2 * size),
        )
    found = place(new, [after - was for after, was in zip(composition, there, strict=True)], size)
    found.whole |= {lot: lot.before for lot in lots if lot.before >= 0}
    return found


def _by_location(homes: Homes, groups: _PlacedGroups) -> Allocation:
    """The allocation by where endpoints are, not by their homes; ``""`` for those without a zone."""
    parts = groups.placed.parts
    zones = tuple(sorted({*homes.zones, *(lot.zone for lot, _ in parts)}))
    shared = groups.allocation.groups[len(homes.zones) :]
    everything = (*map(own_group, zones), *shared)
    number_of = {group.zones: number for number, group in enumerate(everything)}
    index = {zone: number for number, zone in enumerate(zones)}
    counts = [0] * (len(everything) * len(zones))
    for (lot, group), number in parts.items():
        counts[number_of[groups.allocation.groups[group].zones] * len(zones) + index[lot.zone]] += number
    return Allocation(zones, everything, tuple(counts))


def _describe_groups(case: Case, heuristic: Heuristic, homes: Homes, allocation: Allocation) -> str:
    if not heuristic.balances:
        empty = tuple(zone for number, zone in enumerate(homes.demand.zones) if not homes.supply[number])
        text = "every endpoint is in its own zone's group"
        return f"{text}; {listed(empty)} without endpoints: all serve there" if empty else text
    used = sum(1 for number in range(len(allocation.groups)) if allocation.size(number))
    numbers = f"{counted(case.number, 'endpoint')} in {counted(used, 'group')} for {len(homes.zones)} zones"
    worst = measures_of(allocation, homes.weights)[MAX_OVERLOAD]
    if worst < 1e-9:
        return f"every endpoint gets its fair part; {numbers}"
    return f"no endpoint gets more than {worst * 100:.3g} % above fair; {numbers}"
