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
from zoneward.routing.allocation import Allocation, allocate, allocation_of, threshold_parameters
from zoneward.routing.decision import Decision
from zoneward.routing.decision_context import DecisionContext
from zoneward.routing.demand import Demand
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.endpoint_index import Bucket, IndexedEndpoint, count_and_first_names
from zoneward.routing.placement.groups import ZoneGroup, own_group
from zoneward.routing.placement.homes import Homes, homes_of
from zoneward.routing.placement.placement import Placement, PlacementUnit, place
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason, counted, describe_without, format_percent, listed
from zoneward.routing.score import MAX_OVERLOAD
from zoneward.routing.thresholds import endpoints_needed, has_enough_endpoints, lost_in_zone, measures_of

BALANCED_GROUPS: Final = frozenset(f"{Approach.SUBSETTING}/{name}" for name in SUBSETTING_ALGORITHMS)
"""What slices say is in force where the starting threshold applies."""


def decide_balanced(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Decide by one of the algorithms of `SUBSETTING_ALGORITHMS` (KEP-2004 § Auto Approach)."""
    demand = _demand(context)
    refusal = (
        context.check_external_policy()
        or context.check_ready_nodes()
        or context.check_zones(demand)
        or context.check_ready_endpoints()
        or _encoding_refusal(context, heuristic)
        or _threshold_refusal(context, len(demand.zones))
    )
    if refusal is not None:
        return refusal
    kept = context.is_in_force(heuristic)
    # With hints, a slice that has none is one whose endpoints are not ready.
    homes = homes_of(context, demand, demand.zones, kept=kept and context.configuration.subsetting.encoding != "hints")
    groups = _rebalance_lazily(context, heuristic, homes) if kept and any(homes.remaining_groups.values()) else None
    if groups is None:
        groups = _rebalance_fully(context, heuristic, homes)
    limit = format_percent(context.configuration.subsetting.overload_threshold)
    numbers = f"{counted(context.ready_count, 'endpoint')} for {counted(len(demand.zones), 'zone')}"
    if not context.rules.decide(
        "overload-threshold", groups is not None, f"{heuristic.name}: {numbers}, below {limit}"
    ):
        return context.build_inactive(Reason.OVERLOAD, f"{numbers}: some endpoint would get {limit} or more above fair")
    assert groups is not None
    return _decide_with_groups(context, heuristic, homes, groups)


def decide_require_zone(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Every endpoint joins its own zone's group, whatever the load (KEP-2004 § Future Expansion, ``RequireZone``)."""
    refusal = context.check_external_policy() or context.check_ready_endpoints()
    if refusal is not None:
        return refusal
    demand = _demand(context)
    zones = {*demand.zones, *context.endpoint_index.zones()}
    if not zones:
        number, without = count_and_first_names(context.endpoint_index.ready_buckets())
        context.rules.require("endpoint-zones", False, describe_without(without, "endpoint", "zone", number=number))
        return context.build_inactive(Reason.ENDPOINT_WITHOUT_ZONE, "no endpoint and no node has a zone")
    homes = homes_of(context, demand, tuple(sorted(zones)), kept=False)
    groups = _rebalance_fully(context, heuristic, homes)
    assert groups is not None, f"{heuristic.name} refused, though it has no threshold"
    return _decide_with_groups(context, heuristic, homes, groups)


# --- rules ------------------------------------------------------------------------------------------------------------


def _demand(context: DecisionContext) -> Demand:
    """Demand by CPU, or by Nodes in all zones where one has no CPU (KEP-2004 § Assumptions).

    A Node without a zone refuses nothing here: its proxy uses all slices.
    """
    demand = context.demand
    if demand.without_zone or demand.new_without_zone:
        detail = describe_without((*demand.without_zone, *demand.new_without_zone), "node", "zone label")
        context.rules.record("node-zones", True, f"{detail}: proxies there use all slices")
    if demand.without_cpu:
        detail = describe_without(demand.without_cpu, "node", "allocatable CPU")
        context.rules.record("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
        return demand.by_count
    return demand


def _encoding_refusal(context: DecisionContext, heuristic: Heuristic) -> Decision | None:
    if context.configuration.subsetting.encoding != "hints":
        return None
    if context.rules.require(
        "hint-weights", not heuristic.weighs, f"hints for {heuristic.name}, which have no weights"
    ):
        return None
    return context.build_inactive(Reason.HINTS_WITHOUT_WEIGHTS, f"{heuristic.name} needs weights, and hints have none")


def _threshold_refusal(context: DecisionContext, zones: int) -> Decision | None:
    """KEP-2004 § Starting Threshold. It applies before the algorithm, which does not know it."""
    number = counted(context.ready_count, "endpoint")
    kept = context.in_force in BALANCED_GROUPS
    threshold, padding = context.request.starting_threshold, context.configuration.subsetting.padding

    def bound(*, kept: bool) -> str:
        sign, limit = ("-", "stops at") if kept else ("+", "starts at")
        needed = endpoints_needed(threshold, padding, zones, kept=kept)
        return f"{limit} {float(threshold):g} x {counted(zones, 'zone')} {sign} {padding} = {float(needed):g}"

    needed = endpoints_needed(threshold, padding, zones, kept=kept)
    detail = f"{number}; {'on already, ' if kept else ''}{bound(kept=kept)}"
    if context.rules.require(
        "starting-threshold", has_enough_endpoints(context.ready_count, needed, padding, kept=kept), detail
    ):
        return None
    # What stops here must start again: the message with the bound for starting spares the conditions a second write.
    return context.build_inactive(Reason.BELOW_STARTING_THRESHOLD, f"{number}, {bound(kept=False)}")


# --- homes and groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PlacedGroups:
    """An allocation over homes, and the placement of the ready endpoints into its groups."""

    allocation: Allocation
    placed: Placement


def _rebalance_lazily(context: DecisionContext, heuristic: Heuristic, homes: Homes) -> _PlacedGroups | None:
    """Make only the update itself; None where that would overload an endpoint (KEP-2004 § Optimizations), or lose too
    much traffic to other zones (`zoneward.routing.thresholds.lost_in_zone`).
    """
    zones = homes.zones
    shared = _shared_groups(homes.remaining_groups.values())
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
    for unit in (each.unit(number_of) for each in homes.ready):
        if unit.previous_group >= 0:
            composition[unit.previous_group * size + unit.home] += len(unit)
    threshold = context.configuration.subsetting.overload_threshold
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
        context.rules.record("lazy-rebalance", False, detail)
        return None
    allocation = allocation_of(zones, groups, composition, weights)
    anew = _balance(context, heuristic, homes)
    lost = lost_in_zone(allocation, anew, homes.weights) if anew else 0.0
    most = context.configuration.subsetting.in_zone_tolerance
    detail = f"below {limit} with the groups as they are, {lost * 100:.3g} % less traffic in its zone"
    if lost > most:
        context.rules.record(
            "lazy-rebalance", False, f"{detail}, {format_percent(most)} at most: they are balanced anew"
        )
        return None
    context.rules.record("lazy-rebalance", True, f"{detail}: only the update is made")
    return _place_groups(homes, allocation)


def _rebalance_fully(context: DecisionContext, heuristic: Heuristic, homes: Homes) -> _PlacedGroups | None:
    """Compute all groups anew; None where the algorithm finds none."""
    allocation = _balance(context, heuristic, homes)
    return None if allocation is None else _place_groups(homes, allocation)


def _balance(context: DecisionContext, heuristic: Heuristic, homes: Homes) -> Allocation | None:
    threshold = context.configuration.subsetting.overload_threshold
    return allocate(
        heuristic,
        zones=homes.zones,
        demand=homes.weights,
        supply=homes.supply,
        previous=(0,) * len(homes.zones) ** 2,
        parameters=threshold_parameters(threshold, threshold),
    )


def _place_groups(homes: Homes, allocation: Allocation) -> _PlacedGroups:
    number_of = _group_numbers(allocation)
    units = [each.unit(number_of) for each in homes.ready]
    return _PlacedGroups(allocation, place(units, allocation.counts, len(homes.zones)))


def _shared_groups(groups: Iterable[ZoneGroup | None]) -> list[ZoneGroup]:
    """The groups that several zones share, in order.

    Of groups that differ by weights alone, it takes the one that weighs most: an interrupted write of several slices
    leaves such groups.
    """
    found: dict[tuple[str, ...], ZoneGroup] = {}
    for group in groups:
        if group is not None and len(group.zones) > 1:
            other = found.get(group.zones)
            found[group.zones] = group if other is None or group.weights > other.weights else other
    return [found[zones] for zones in sorted(found)]


def _group_numbers(allocation: Allocation) -> dict[tuple[str, ...], int]:
    return {group.zones: number for number, group in enumerate(allocation.groups)}


# --- the decision -----------------------------------------------------------------------------------------------------


def _decide_with_groups(
    context: DecisionContext, heuristic: Heuristic, homes: Homes, groups: _PlacedGroups
) -> Decision:
    allocation = groups.allocation
    all_zones = set(homes.demand.zones)
    as_hints = context.configuration.subsetting.encoding == "hints"
    if as_hints:
        most = max((len(group.zones) for group in allocation.groups), default=0)
        detail = f"{counted(most, 'zone')} in a hint, {MAX_ZONE_HINTS} at most"
        if not context.rules.require("hint-zones", most <= MAX_ZONE_HINTS, detail):
            return context.build_inactive(Reason.TOO_MANY_ZONES, f"a group for {detail}")
        bucket_groups, endpoint_groups = _groups_by_bucket(groups.placed, allocation.groups)
        assignment = context.assign_hints(allocation, bucket_groups=bucket_groups, endpoint_groups=endpoint_groups)
    else:
        # What all zones consume alike needs no label: a proxy of any age reads such slices.
        slice_groups: Sequence[ZoneGroup | None] = [
            None if not group.weighted and all_zones <= set(group.zones) and len(all_zones) > 1 else group
            for group in allocation.groups
        ]
        bucket_groups, endpoint_groups = _groups_by_bucket(groups.placed, slice_groups)
        rest = _groups_by_bucket(_place_not_ready(homes, allocation, by_need=heuristic.balances), slice_groups)
        bucket_groups |= rest[0]
        endpoint_groups |= rest[1]
        assignment = Assignment(
            context.endpoint_index, "groups", bucket_groups=bucket_groups, endpoint_groups=endpoint_groups
        )
    parts = groups.placed.part_sizes
    away = sum(number for (unit, group), number in parts.items() if allocation.groups[group].zones != (unit.zone,))
    own = counted(context.ready_count - away, "endpoint")
    moved = groups.placed.count_moved(allocation.groups, homes.zones, starts=not context.is_in_force(heuristic))
    note = context.rules.record if heuristic.balances else context.rules.decide
    note("placement", True, f"{own} in their own zone's group, {away} in another; {moved} moved")
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message=_describe_groups(context, heuristic, homes, allocation),
        assignment=assignment,
        allocation=_by_location(homes, groups),
        moved=moved,
    )


def _groups_by_bucket(
    placed: Placement, groups: Sequence[ZoneGroup | None]
) -> tuple[dict[Bucket, ZoneGroup | None], dict[IndexedEndpoint, ZoneGroup | None]]:
    """A placement as buckets and single endpoints with their groups."""
    bucket_groups = {
        unit.members: groups[number] for unit, number in placed.unit_groups.items() if isinstance(unit.members, Bucket)
    }
    endpoint_groups = {
        unit.members: groups[number]
        for unit, number in placed.unit_groups.items()
        if isinstance(unit.members, IndexedEndpoint)
    }
    return bucket_groups, endpoint_groups | {
        member: groups[number] for member, number in placed.endpoint_groups.items()
    }


def _place_not_ready(homes: Homes, allocation: Allocation, *, by_need: bool) -> Placement:
    """Groups for endpoints that do not count: the one they were in, or the one that will need them when they do.

    Where a decision is not ``by_need``, the one at home.
    """
    if not by_need:
        return Placement({PlacementUnit(each.members, each.zone, -1): each.zone for each in homes.unready})
    number_of = _group_numbers(allocation)
    units = [each.unit(number_of) for each in homes.unready]
    size = len(homes.zones)
    composition = list(allocation.counts)
    supply = list(homes.supply)
    for unit in units:
        supply[unit.home] += len(unit)
        if unit.previous_group >= 0:
            composition[unit.previous_group * size + unit.home] += len(unit)
    there = list(composition)
    new = [unit for unit in units if unit.previous_group < 0]
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
    found.unit_groups |= {unit: unit.previous_group for unit in units if unit.previous_group >= 0}
    return found


def _by_location(homes: Homes, groups: _PlacedGroups) -> Allocation:
    """The allocation by where endpoints are, not by their homes; ``""`` for those without a zone."""
    parts = groups.placed.part_sizes
    zones = tuple(sorted({*homes.zones, *(unit.zone for unit, _ in parts)}))
    shared = groups.allocation.groups[len(homes.zones) :]
    everything = (*map(own_group, zones), *shared)
    number_of = {group.zones: number for number, group in enumerate(everything)}
    index = {zone: number for number, zone in enumerate(zones)}
    counts = [0] * (len(everything) * len(zones))
    for (unit, group), number in parts.items():
        counts[number_of[groups.allocation.groups[group].zones] * len(zones) + index[unit.zone]] += number
    return Allocation(zones, everything, tuple(counts))


def _describe_groups(context: DecisionContext, heuristic: Heuristic, homes: Homes, allocation: Allocation) -> str:
    if not heuristic.balances:
        empty = tuple(zone for number, zone in enumerate(homes.demand.zones) if not homes.supply[number])
        text = "every endpoint is in its own zone's group"
        return f"{text}; {listed(empty)} without endpoints: all serve there" if empty else text
    used = sum(1 for number in range(len(allocation.groups)) if allocation.size(number))
    numbers = f"{counted(context.ready_count, 'endpoint')} in {counted(used, 'group')} for {len(homes.zones)} zones"
    worst = measures_of(allocation, homes.weights)[MAX_OVERLOAD]
    if worst < 1e-9:
        return f"every endpoint gets its fair part; {numbers}"
    return f"no endpoint gets more than {worst * 100:.3g} % above fair; {numbers}"
