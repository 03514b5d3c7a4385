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
from zoneward.routing.decision_context import Case, lacking, percent
from zoneward.routing.decision import Decision
from zoneward.routing.demand.demand import Demand
from zoneward.routing.hysteresis import are_enough, endpoints_needed
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.endpoint_index import Cell, Member, named
from zoneward.routing.placement.groups import Group, own_group
from zoneward.routing.placement.homes import Homes, homes_of
from zoneward.routing.placement.placement import Lot, Placement, place
from zoneward.routing.reasons import Reason
from zoneward.routing.request.asked import Approach
from zoneward.routing.rules import counted, listed
from zoneward.routing.score import MAX_OVERLOAD
from zoneward.routing.tolerance import lost_in_zone, measures_of

BALANCED: Final = frozenset(f"{Approach.SUBSETTING}/{name}" for name in SUBSETTING_ALGORITHMS)
"""What slices say of the decisions that the starting threshold is for."""


def balanced(case: Case, heuristic: Heuristic) -> Decision:
    """Groups by one of the five algorithms (KEP-2004 § Auto Approach)."""
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
    groups = _lazily(case, heuristic, homes) if kept and any(homes.before.values()) else None
    if groups is None:
        groups = _rebalanced(case, heuristic, homes)
    limit = percent(case.configuration.subsetting.overload_threshold)
    numbers = f"{counted(case.number, 'endpoint')} for {counted(len(demand.zones), 'zone')}"
    if not case.rules.ask("overload-threshold", groups is not None, f"{heuristic.name}: {numbers}, below {limit}"):
        return case.inactive(Reason.OVERLOAD, f"{numbers}: some endpoint would get {limit} or more above fair")
    assert groups is not None
    return _decided(case, heuristic, homes, groups)


def required(case: Case, heuristic: Heuristic) -> Decision:
    """Every endpoint into its own zone's group, whatever the load (KEP-2004 § Future Expansion, ``RequireZone``)."""
    refusal = case.external_policy_refusal() or case.ready_endpoints_refusal()
    if refusal is not None:
        return refusal
    demand = _demand(case)
    zones = {*demand.zones, *case.crowd.zones()}
    if not zones:
        number, without = named(case.crowd.ready())
        case.rules.ask("endpoint-zones", False, lacking(without, "endpoint", "zone", number=number))
        return case.inactive(Reason.ENDPOINT_WITHOUT_ZONE, "no endpoint and no node has a zone")
    homes = homes_of(case, demand, tuple(sorted(zones)), kept=False)
    groups = _rebalanced(case, heuristic, homes)
    assert groups is not None, f"{heuristic.name} refused, though it has no threshold"
    return _decided(case, heuristic, homes, groups)


# --- rules ------------------------------------------------------------------------------------------------------------


def _demand(case: Case) -> Demand:
    """Demand as KEP-2004 § Assumptions has it: by CPU, and by Nodes in all zones where one has none.

    What Nodes lack stops nothing here: a proxy without a zone uses all slices.
    """
    demand = case.demand
    if demand.without_zone:
        detail = lacking(demand.without_zone, "node", "zone label")
        case.rules.ask("node-zones", True, f"{detail}: proxies there use all slices")
    if demand.without_cpu:
        detail = lacking(demand.without_cpu, "node", "allocatable CPU")
        case.rules.ask("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
        return demand.by_count
    return demand


def _encoding_refusal(case: Case, heuristic: Heuristic) -> Decision | None:
    if case.configuration.subsetting.encoding != "hints":
        return None
    if case.rules.ask("hint-weights", not heuristic.weighs, f"hints for {heuristic.name}, which have no weights"):
        return None
    return case.inactive(Reason.HINTS_WITHOUT_WEIGHTS, f"{heuristic.name} needs weights, and hints have none")


def _threshold_refusal(case: Case, zones: int) -> Decision | None:
    """KEP-2004 § Starting Threshold. It is asked before the algorithm, which knows nothing of it."""
    number = counted(case.number, "endpoint")
    kept = case.in_force in BALANCED
    threshold, padding = case.asked.starting_threshold, case.configuration.subsetting.padding

    def bound(*, kept: bool) -> str:
        sign, limit = ("-", "stops at") if kept else ("+", "starts at")
        needed = endpoints_needed(threshold, padding, zones, kept=kept)
        return f"{limit} {float(threshold):g} x {counted(zones, 'zone')} {sign} {padding} = {float(needed):g}"

    needed = endpoints_needed(threshold, padding, zones, kept=kept)
    detail = f"{number}; {'on already, ' if kept else ''}{bound(kept=kept)}"
    if case.rules.ask("starting-threshold", are_enough(case.number, needed, padding, kept=kept), detail):
        return None
    # What stops here must start again: to say so at once spares the conditions a second write.
    return case.inactive(Reason.BELOW_STARTING_THRESHOLD, f"{number}, {bound(kept=False)}")


# --- homes and groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Groups:
    """An allocation over homes, and the placement of the ready endpoints into its groups."""

    allocation: Allocation
    placed: Placement
    moved: int


def _lazily(case: Case, heuristic: Heuristic, homes: Homes) -> _Groups | None:
    """Only the update itself; None where that would overload somebody (KEP-2004 § Optimizations), or lose too much
    traffic to other zones (`zoneward.routing.tolerance`).
    """
    zones = homes.zones
    shared = _shared(homes.before.values())
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
    limit = percent(threshold)
    if found == IMPOSSIBLE:
        detail = f"not below {limit} with the groups as they are: they are balanced anew"
        case.rules.ask("lazy-rebalance", False, detail)
        return None
    allocation = allocation_of(zones, groups, composition, weights)
    anew = _balance(case, heuristic, homes)
    lost = lost_in_zone(allocation, anew, homes.weights) if anew else 0.0
    most = case.configuration.subsetting.in_zone_tolerance
    detail = f"below {limit} with the groups as they are, {lost * 100:.3g} % less traffic in its zone"
    if lost > most:
        case.rules.ask("lazy-rebalance", False, f"{detail}, {percent(most)} at most: they are balanced anew")
        return None
    case.rules.ask("lazy-rebalance", True, f"{detail}: only the update is made")
    return _placed(homes, allocation)


def _rebalanced(case: Case, heuristic: Heuristic, homes: Homes) -> _Groups | None:
    """All groups anew; None where the algorithm finds none."""
    allocation = _balance(case, heuristic, homes)
    return None if allocation is None else _placed(homes, allocation)


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


def _placed(homes: Homes, allocation: Allocation) -> _Groups:
    number_of = _numbers(allocation)
    lots = [each.lot(number_of) for each in homes.ready]
    placed = place(lots, allocation.counts, len(homes.zones))
    # Nobody stays in a group that is no more.
    lost = sum(len(lot) for lot, each in zip(lots, homes.ready, strict=True) if each.was is not None and lot.before < 0)
    return _Groups(allocation, placed, placed.moved + lost)


def _shared(groups: Iterable[Group | None]) -> list[Group]:
    """The groups that several zones share, in order; of those that differ by weights alone, the one that weighs most,
    as after a write of several slices that was cut off."""
    found: dict[tuple[str, ...], Group] = {}
    for group in groups:
        if group is not None and len(group.zones) > 1:
            other = found.get(group.zones)
            found[group.zones] = group if other is None or group.weights > other.weights else other
    return [found[zones] for zones in sorted(found)]


def _numbers(allocation: Allocation) -> dict[tuple[str, ...], int]:
    return {group.zones: number for number, group in enumerate(allocation.groups)}


# --- the decision -----------------------------------------------------------------------------------------------------


def _decided(case: Case, heuristic: Heuristic, homes: Homes, groups: _Groups) -> Decision:
    allocation = groups.allocation
    everybody = set(homes.demand.zones)
    as_hints = case.configuration.subsetting.encoding == "hints"
    if as_hints:
        most = max((len(group.zones) for group in allocation.groups), default=0)
        detail = f"{counted(most, 'zone')} in a hint, {MAX_ZONE_HINTS} at most"
        if not case.rules.ask("hint-zones", most <= MAX_ZONE_HINTS, detail):
            return case.inactive(Reason.TOO_MANY_ZONES, f"a group for {detail}")
    told: Sequence[Group | None] = allocation.groups
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
    parts = groups.placed.parts
    away = sum(number for (lot, group), number in parts.items() if allocation.groups[group].zones != (lot.zone,))
    case.rules.ask(
        "placement",
        True,
        f"{counted(case.number - away, 'endpoint')} in their own zone's group, {away} in another; {groups.moved} moved",
    )
    return case.decided(
        active=True,
        reason=Reason.ENABLED,
        message=_message(case, heuristic, homes, allocation),
        assignment=Assignment(case.crowd, "hints" if as_hints else "groups", whole=whole, apart=apart),
        allocation=_as_located(homes, groups),
        moved=groups.moved,
    )


def _told(
    placed: Placement, groups: Sequence[Group | None]
) -> tuple[dict[Cell, Group | None], dict[Member, Group | None]]:
    """A placement as cells and single endpoints with their groups."""
    whole = {lot.members: groups[number] for lot, number in placed.whole.items() if isinstance(lot.members, Cell)}
    apart = {lot.members: groups[number] for lot, number in placed.whole.items() if isinstance(lot.members, Member)}
    return whole, apart | {member: groups[number] for member, number in placed.apart.items()}


def _not_ready(homes: Homes, allocation: Allocation, *, by_need: bool) -> Placement:
    """Groups for endpoints that do not count: the one they were in, or the one that will need them when they do.

    Where a decision is not ``by_need``, the one at home.
    """
    if not by_need:
        return Placement({Lot(each.members, each.zone, -1): each.zone for each in homes.rest})
    number_of = _numbers(allocation)
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
    found.whole |= {lot: lot.before for lot in lots if lot.before >= 0}
    return found


def _as_located(homes: Homes, groups: _Groups) -> Allocation:
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


def _message(case: Case, heuristic: Heuristic, homes: Homes, allocation: Allocation) -> str:
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
