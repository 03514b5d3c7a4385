"""Decisions that slice groups carry (KEP-2004): a starting threshold, an algorithm, and as little change as possible.

The algorithms see endpoints at home (`zoneward.routing.placement.homes`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.lazy import only_the_update
from zoneward.routing.algorithms.registry import SUBSETTING_ALGORITHMS, Heuristic
from zoneward.routing.algorithms.results import IMPOSSIBLE
from zoneward.routing.allocation import Allocation, allocate, allocation_of
from zoneward.routing.decision import Decision
from zoneward.routing.decision_context import DecisionContext, describe_without, format_percent
from zoneward.routing.demand.demand import Demand
from zoneward.routing.hysteresis import are_enough, endpoints_needed
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.endpoint_index import Bucket, IndexedEndpoint, count_and_first_names
from zoneward.routing.placement.groups import ZoneGroup, own_group
from zoneward.routing.placement.homes import Homes, homes_of
from zoneward.routing.placement.placement import Placement, PlacementUnit, place
from zoneward.routing.reasons import Reason
from zoneward.routing.request.asked import Approach
from zoneward.routing.rules import counted, listed
from zoneward.routing.score import MAX_OVERLOAD
from zoneward.routing.tolerance import lost_in_zone, measures_of

BALANCED: Final = frozenset(f"{Approach.SUBSETTING}/{name}" for name in SUBSETTING_ALGORITHMS)
"""What slices say of the decisions that the starting threshold is for."""


def balanced(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Groups by one of the five algorithms (KEP-2004 § Auto Approach)."""
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
    kept = context.in_force == f"{Approach.SUBSETTING}/{heuristic.name}"
    # With hints, a slice that has none is one whose endpoints are not ready.
    homes = homes_of(context, demand, demand.zones, kept=kept and context.configuration.subsetting.encoding != "hints")
    groups = _lazily(context, heuristic, homes) if kept and any(homes.remaining_groups.values()) else None
    if groups is None:
        groups = _rebalanced(context, heuristic, homes)
    limit = format_percent(context.configuration.subsetting.overload_threshold)
    numbers = f"{counted(context.ready_count, 'endpoint')} for {counted(len(demand.zones), 'zone')}"
    if not context.rules.ask("overload-threshold", groups is not None, f"{heuristic.name}: {numbers}, below {limit}"):
        return context.build_inactive(Reason.OVERLOAD, f"{numbers}: some endpoint would get {limit} or more above fair")
    assert groups is not None
    return _decided(context, heuristic, homes, groups)


def required(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Every endpoint into its own zone's group, whatever the load (KEP-2004 § Future Expansion, ``RequireZone``)."""
    refusal = context.check_external_policy() or context.check_ready_endpoints()
    if refusal is not None:
        return refusal
    demand = _demand(context)
    zones = {*demand.zones, *context.endpoint_index.zones()}
    if not zones:
        number, without = count_and_first_names(context.endpoint_index.ready_buckets())
        context.rules.ask("endpoint-zones", False, describe_without(without, "endpoint", "zone", number=number))
        return context.build_inactive(Reason.ENDPOINT_WITHOUT_ZONE, "no endpoint and no node has a zone")
    homes = homes_of(context, demand, tuple(sorted(zones)), kept=False)
    groups = _rebalanced(context, heuristic, homes)
    assert groups is not None, f"{heuristic.name} refused, though it has no threshold"
    return _decided(context, heuristic, homes, groups)


# --- rules ------------------------------------------------------------------------------------------------------------


def _demand(context: DecisionContext) -> Demand:
    """Demand as KEP-2004 § Assumptions has it: by CPU, and by Nodes in all zones where one has none.

    What Nodes lack stops nothing here: a proxy without a zone uses all slices.
    """
    demand = context.demand
    if demand.without_zone:
        detail = describe_without(demand.without_zone, "node", "zone label")
        context.rules.ask("node-zones", True, f"{detail}: proxies there use all slices")
    if demand.without_cpu:
        detail = describe_without(demand.without_cpu, "node", "allocatable CPU")
        context.rules.ask("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
        return demand.by_count
    return demand


def _encoding_refusal(context: DecisionContext, heuristic: Heuristic) -> Decision | None:
    if context.configuration.subsetting.encoding != "hints":
        return None
    if context.rules.ask("hint-weights", not heuristic.weighs, f"hints for {heuristic.name}, which have no weights"):
        return None
    return context.build_inactive(Reason.HINTS_WITHOUT_WEIGHTS, f"{heuristic.name} needs weights, and hints have none")


def _threshold_refusal(context: DecisionContext, zones: int) -> Decision | None:
    """KEP-2004 § Starting Threshold. It is asked before the algorithm, which knows nothing of it."""
    number = counted(context.ready_count, "endpoint")
    kept = context.in_force in BALANCED
    threshold, padding = context.request.starting_threshold, context.configuration.subsetting.padding

    def bound(*, kept: bool) -> str:
        sign, limit = ("-", "stops at") if kept else ("+", "starts at")
        needed = endpoints_needed(threshold, padding, zones, kept=kept)
        return f"{limit} {float(threshold):g} x {counted(zones, 'zone')} {sign} {padding} = {float(needed):g}"

    needed = endpoints_needed(threshold, padding, zones, kept=kept)
    detail = f"{number}; {'on already, ' if kept else ''}{bound(kept=kept)}"
    if context.rules.ask("starting-threshold", are_enough(context.ready_count, needed, padding, kept=kept), detail):
        return None
    # What stops here must start again: to say so at once spares the conditions a second write.
    return context.build_inactive(Reason.BELOW_STARTING_THRESHOLD, f"{number}, {bound(kept=False)}")


# --- homes and groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Groups:
    """An allocation over homes, and the placement of the ready endpoints into its groups."""

    allocation: Allocation
    placed: Placement
    moved: int


def _lazily(context: DecisionContext, heuristic: Heuristic, homes: Homes) -> _Groups | None:
    """Only the update itself; None where that would overload somebody (KEP-2004 § Optimizations), or lose too much
    traffic to other zones (`zoneward.routing.tolerance`).
    """
    zones = homes.zones
    shared = _shared(homes.remaining_groups.values())
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
    found = only_the_update(
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
        context.rules.ask("lazy-rebalance", False, detail)
        return None
    allocation = allocation_of(zones, groups, composition, weights)
    anew = _balance(context, heuristic, homes)
    lost = lost_in_zone(allocation, anew, homes.weights) if anew else 0.0
    most = context.configuration.subsetting.in_zone_tolerance
    detail = f"below {limit} with the groups as they are, {lost * 100:.3g} % less traffic in its zone"
    if lost > most:
        context.rules.ask("lazy-rebalance", False, f"{detail}, {format_percent(most)} at most: they are balanced anew")
        return None
    context.rules.ask("lazy-rebalance", True, f"{detail}: only the update is made")
    return _placed(homes, allocation)


def _rebalanced(context: DecisionContext, heuristic: Heuristic, homes: Homes) -> _Groups | None:
    """All groups anew; None where the algorithm finds none."""
    allocation = _balance(context, heuristic, homes)
    return None if allocation is None else _placed(homes, allocation)


def _balance(context: DecisionContext, heuristic: Heuristic, homes: Homes) -> Allocation | None:
    return allocate(
        heuristic,
        zones=homes.zones,
        demand=homes.weights,
        supply=homes.supply,
        previous=(0,) * len(homes.zones) ** 2,
        threshold=context.configuration.subsetting.overload_threshold,
        start_threshold=context.configuration.subsetting.overload_threshold,
    )


def _placed(homes: Homes, allocation: Allocation) -> _Groups:
    number_of = _numbers(allocation)
    units = [each.unit(number_of) for each in homes.ready]
    placed = place(units, allocation.counts, len(homes.zones))
    # Nobody stays in a group that is no more.
    lost = sum(
        len(unit)
        for unit, each in zip(units, homes.ready, strict=True)
        if each.previous_group is not None and unit.previous_group < 0
    )
    return _Groups(allocation, placed, placed.moved + lost)


def _shared(groups: Iterable[ZoneGroup | None]) -> list[ZoneGroup]:
    """The groups that several zones share, in order; of those that differ by weights alone, the one that weighs most,
    as after a write of several slices that was cut off."""
    found: dict[tuple[str, ...], ZoneGroup] = {}
    for group in groups:
        if group is not None and len(group.zones) > 1:
            other = found.get(group.zones)
            found[group.zones] = group if other is None or group.weights > other.weights else other
    return [found[zones] for zones in sorted(found)]


def _numbers(allocation: Allocation) -> dict[tuple[str, ...], int]:
    return {group.zones: number for number, group in enumerate(allocation.groups)}


# --- the decision -----------------------------------------------------------------------------------------------------


def _decided(context: DecisionContext, heuristic: Heuristic, homes: Homes, groups: _Groups) -> Decision:
    allocation = groups.allocation
    everybody = set(homes.demand.zones)
    as_hints = context.configuration.subsetting.encoding == "hints"
    if as_hints:
        most = max((len(group.zones) for group in allocation.groups), default=0)
        detail = f"{counted(most, 'zone')} in a hint, {MAX_ZONE_HINTS} at most"
        if not context.rules.ask("hint-zones", most <= MAX_ZONE_HINTS, detail):
            return context.build_inactive(Reason.TOO_MANY_ZONES, f"a group for {detail}")
    told: Sequence[ZoneGroup | None] = allocation.groups
    whole, apart = _told(groups.placed, told)
    if not as_hints:
        # What all zones consume alike needs no label: a proxy of any age reads such slices.
        told = [
            None if not group.weighted and everybody <= set(group.zones) and len(everybody) > 1 else group
            for group in allocation.groups
        ]
        whole, apart = _told(groups.placed, told)
        rest = _told(_not_ready(homes, allocation, by_need=heuristic.balances), told)
        whole |= rest[0]
        apart |= rest[1]
    parts = groups.placed.part_sizes
    away = sum(number for (unit, group), number in parts.items() if allocation.groups[group].zones != (unit.zone,))
    own = counted(context.ready_count - away, "endpoint")
    context.rules.ask("placement", True, f"{own} in their own zone's group, {away} in another; {groups.moved} moved")
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message=_message(context, heuristic, homes, allocation),
        assignment=Assignment(
            context.endpoint_index, "hints" if as_hints else "groups", bucket_groups=whole, endpoint_groups=apart
        ),
        allocation=_as_located(homes, groups),
        moved=groups.moved,
    )


def _told(
    placed: Placement, groups: Sequence[ZoneGroup | None]
) -> tuple[dict[Bucket, ZoneGroup | None], dict[IndexedEndpoint, ZoneGroup | None]]:
    """A placement as buckets and single endpoints with their groups."""
    whole = {
        unit.members: groups[number] for unit, number in placed.unit_groups.items() if isinstance(unit.members, Bucket)
    }
    apart = {
        unit.members: groups[number]
        for unit, number in placed.unit_groups.items()
        if isinstance(unit.members, IndexedEndpoint)
    }
    return whole, apart | {member: groups[number] for member, number in placed.endpoint_groups.items()}


def _not_ready(homes: Homes, allocation: Allocation, *, by_need: bool) -> Placement:
    """Groups for endpoints that do not count: the one they were in, or the one that will need them when they do.

    Where a decision is not ``by_need``, the one at home.
    """
    if not by_need:
        return Placement({PlacementUnit(each.members, each.zone, -1): each.zone for each in homes.unready})
    number_of = _numbers(allocation)
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
        only_the_update(
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


def _as_located(homes: Homes, groups: _Groups) -> Allocation:
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


def _message(context: DecisionContext, heuristic: Heuristic, homes: Homes, allocation: Allocation) -> str:
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
