"""Decisions that slice groups carry (KEP-2004): a starting threshold, an algorithm, and as little change as possible.

An endpoint starts at home, in its own zone. One without a zone, or in a zone where no traffic starts, is given a home:
the zone in greatest need, expected endpoints minus those located there. The algorithms only see homes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoneward.kube.objects import ForZone, Hints, Identity, identity
from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.lazy import only_the_update
from zoneward.routing.algorithms.registry import SUBSETTING_ALGORITHMS, Heuristic
from zoneward.routing.algorithms.results import IMPOSSIBLE
from zoneward.routing.allocation import Allocation, allocate, allocation_of
from zoneward.routing.asked import Approach
from zoneward.routing.case import Case, lacking, name_of, percent
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.groups import Group, among, own_group
from zoneward.routing.hysteresis import are_enough, endpoints_needed
from zoneward.routing.placement import place
from zoneward.routing.reasons import Reason
from zoneward.routing.rules import counted, listed
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEASURES, measure

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
    homes = _homes(case, demand, demand.zones)
    kept = case.previous.in_force == f"{Approach.SUBSETTING}/{heuristic.name}" and any(homes.before)
    groups = _lazily(case, heuristic, homes) if kept else None
    if groups is None:
        groups = _rebalanced(case, heuristic, homes)
    limit = percent(case.configuration.subsetting.overload_threshold)
    numbers = f"{counted(len(case.ready), 'endpoint')} for {counted(len(demand.zones), 'zone')}"
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
    zones = {*demand.zones, *(each.zone for each in case.endpoints if each.zone)}
    if not zones:
        without = tuple(sorted(name_of(case.endpoints[each]) for each in case.ready))
        case.rules.ask("endpoint-zones", False, lacking(without, "endpoint", "zone"))
        return case.inactive(Reason.ENDPOINT_WITHOUT_ZONE, "no endpoint and no node has a zone")
    homes = _homes(case, demand, tuple(sorted(zones)))
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
    number = counted(len(case.ready), "endpoint")
    kept = case.previous.in_force in BALANCED
    threshold, padding = case.asked.starting_threshold, case.configuration.subsetting.padding

    def bound(*, kept: bool) -> str:
        sign, limit = ("-", "stops at") if kept else ("+", "starts at")
        needed = endpoints_needed(threshold, padding, zones, kept=kept)
        return f"{limit} {float(threshold):g} x {counted(zones, 'zone')} {sign} {padding} = {float(needed):g}"

    needed = endpoints_needed(threshold, padding, zones, kept=kept)
    detail = f"{number}; {'on already, ' if kept else ''}{bound(kept=kept)}"
    if case.rules.ask("starting-threshold", are_enough(len(case.ready), needed, padding, kept=kept), detail):
        return None
    # What stops here must start again: to say so at once spares the conditions a second write.
    return case.inactive(Reason.BELOW_STARTING_THRESHOLD, f"{number}, {bound(kept=False)}")


# --- homes and groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Homes:
    """Where every endpoint starts: an index into ``zones`` for each, ready or not.

    ``was`` are the groups that the existing slices have them in, ``before`` the same without zones that are gone.
    """

    demand: Demand
    zones: tuple[str, ...]
    weights: tuple[int, ...]
    identities: tuple[Identity, ...]
    home: tuple[int, ...]
    was: tuple[Group | None, ...]
    before: tuple[Group | None, ...]
    supply: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Groups:
    """An allocation over homes, with the group of each ready endpoint, as an index."""

    allocation: Allocation
    placed: dict[int, int]


def _homes(case: Case, demand: Demand, zones: tuple[str, ...]) -> _Homes:
    index = {zone: number for number, zone in enumerate(zones)}
    identities = tuple(map(identity, case.endpoints))
    placement = case.previous.placement
    was = tuple(placement.get(each) for each in identities) if placement else (None,) * len(identities)
    left = {key: among(group, index) for key, group in _distinct(was).items()}
    before = tuple(left[id(group)] if group is not None else None for group in was)
    home = [index.get(each.zone or "", -1) for each in case.endpoints]
    supply = [0] * len(zones)
    homeless = []
    for number in case.ready:
        if home[number] < 0:
            homeless.append(number)
        else:
            supply[home[number]] += 1
    if homeless:
        names = tuple(sorted(name_of(case.endpoints[number]) for number in homeless))
        detail = lacking(names, "endpoint", "zone where traffic starts")
        case.rules.ask("endpoint-zones", True, f"{detail}: to the zone in greatest need")
    ready = set(case.ready)
    weights = tuple(demand.reduced.get(zone, 0) for zone in zones)
    others = [number for number, zone in enumerate(home) if zone < 0 and number not in ready]
    # Ready ones first: they count. Who has a group stays at home there.
    for number in sorted(homeless, key=identities.__getitem__) + sorted(others, key=identities.__getitem__):
        group = before[number]
        home[number] = index[group.zones[0]] if group else neediest(weights, supply, len(case.ready))
        if number in ready:
            supply[home[number]] += 1
    return _Homes(demand, zones, weights, identities, tuple(home), was, before, tuple(supply))


def _distinct(groups: Sequence[Group | None]) -> dict[int, Group]:
    """The groups by ``id``: thousands of endpoints share a few."""
    return {id(group): group for group in groups if group is not None}


def _numbered(groups: Sequence[Group | None], number_of: Mapping[tuple[str, ...], int]) -> list[int]:
    """The groups as numbers by the zones that consume them; -1 for none and for those that are no more."""
    numbers = {key: number_of.get(group.zones, -1) for key, group in _distinct(groups).items()}
    return [numbers[id(group)] if group is not None else -1 for group in groups]


def neediest(weights: Sequence[int], located: Sequence[int], total: int) -> int:
    """The zone that expects most beyond what is located there; the first by name among equals."""
    everything = sum(weights)
    return max(
        range(len(weights)), key=lambda zone: (total * weights[zone] - located[zone] * max(everything, 1), -zone)
    )


def _lazily(case: Case, heuristic: Heuristic, homes: _Homes) -> _Groups | None:
    """Only the update itself; None where that would overload somebody (KEP-2004 § Optimizations).

    Or where it costs too much: every rollout replaces all endpoints, and where each new one goes to the group that
    lacks one just then, little is left in its zone in the end. Laziness alone never notices.
    """
    zones = homes.zones
    shared = sorted({group.zones: group for group in homes.before if group and len(group.zones) > 1}.items())
    number_of: dict[tuple[str, ...], int] = {(zone,): number for number, zone in enumerate(zones)}
    number_of |= {key: len(zones) + number for number, (key, _) in enumerate(shared)}
    groups, size = len(number_of), len(zones)
    composition = [0] * (groups * size)
    weights = [0.0] * (groups * size)
    for number in range(size):
        weights[number * size + number] = 1.0
    for key, group in shared:
        for position, zone in enumerate(zones):
            weights[number_of[key] * size + position] = group.weight(zone)
    before = _numbered(homes.before, number_of)
    for number in case.ready:
        if before[number] >= 0:
            composition[before[number] * size + homes.home[number]] += 1
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
    lost = _measures(case, homes, anew)[IN_ZONE] - _measures(case, homes, allocation)[IN_ZONE] if anew else 0.0
    most = case.configuration.subsetting.in_zone_tolerance
    detail = f"below {limit} with the groups as they are, {max(lost, 0) * 100:.3g} % less traffic in its zone"
    if lost > most:
        case.rules.ask("lazy-rebalance", False, f"{detail}, {percent(most)} at most: they are balanced anew")
        return None
    case.rules.ask("lazy-rebalance", True, f"{detail}: only the update is made")
    return _placed(case, homes, allocation)


def _rebalanced(case: Case, heuristic: Heuristic, homes: _Homes) -> _Groups | None:
    """All groups anew; None where the algorithm finds none."""
    allocation = _balance(case, heuristic, homes)
    return None if allocation is None else _placed(case, homes, allocation)


def _balance(case: Case, heuristic: Heuristic, homes: _Homes) -> Allocation | None:
    return allocate(
        heuristic,
        zones=homes.zones,
        demand=homes.weights,
        supply=homes.supply,
        previous=(0,) * len(homes.zones) ** 2,
        threshold=case.configuration.subsetting.overload_threshold,
        start_threshold=case.configuration.subsetting.overload_threshold,
    )


def _placed(case: Case, homes: _Homes, allocation: Allocation) -> _Groups:
    before = _numbered(homes.before, _numbers(allocation))
    placed = place(
        [homes.home[number] for number in case.ready],
        [before[number] for number in case.ready],
        [homes.identities[number] for number in case.ready],
        allocation.counts,
        len(homes.zones),
    )
    return _Groups(allocation, dict(zip(case.ready, placed, strict=True)))


def _numbers(allocation: Allocation) -> dict[tuple[str, ...], int]:
    return {group.zones: number for number, group in enumerate(allocation.groups)}


# --- the decision -----------------------------------------------------------------------------------------------------


def _decided(case: Case, heuristic: Heuristic, homes: _Homes, groups: _Groups) -> Decision:
    allocation = groups.allocation
    number_of = dict(groups.placed)
    for number, twin in case.twins.items():
        number_of[number] = number_of[twin]
    if heuristic.balances:
        number_of |= _not_ready(homes, allocation, number_of)
    else:
        number_of |= {number: home for number, home in enumerate(homes.home) if number not in number_of}
    hints: list[Hints | None] = [None] * len(case.endpoints)
    placed: tuple[Group | None, ...] | None = None
    everybody = set(homes.demand.zones)
    if case.configuration.subsetting.encoding == "hints":
        most = max((len(group.zones) for group in allocation.groups), default=0)
        detail = f"{counted(most, 'zone')} in a hint, {MAX_ZONE_HINTS} at most"
        if not case.rules.ask("hint-zones", most <= MAX_ZONE_HINTS, detail):
            return case.inactive(Reason.TOO_MANY_ZONES, f"a group for {detail}")
        alike = [Hints(for_zones=tuple(map(ForZone, group.zones))) for group in allocation.groups]
        for number in (*case.ready, *case.twins):
            hints[number] = alike[number_of[number]]
    else:
        # What all zones consume alike needs no label: a proxy of any age reads such slices.
        labelled = [
            None if not group.weighted and everybody <= set(group.zones) and len(everybody) > 1 else group
            for group in allocation.groups
        ]
        placed = tuple(labelled[number_of[number]] for number in range(len(case.endpoints)))
    now = [allocation.groups[groups.placed[number]] for number in case.ready]
    moved = 0
    for number, after in zip(case.ready, now, strict=True):
        before = homes.before[number]
        moved += homes.was[number] is not None and (before is None or before.zones != after.zones)
    away = sum(
        1 for number, after in zip(case.ready, now, strict=True) if after.zones != (case.endpoints[number].zone or "",)
    )
    case.rules.ask(
        "placement",
        True,
        f"{counted(len(now) - away, 'endpoint')} in their own zone's group, {away} in another; {moved} moved",
    )
    return case.decided(
        active=True,
        reason=Reason.ENABLED,
        message=_message(case, heuristic, homes, allocation),
        hints=tuple(hints),
        groups=placed,
        allocation=_as_located(case, homes, groups),
        moved=moved,
    )


def _not_ready(homes: _Homes, allocation: Allocation, placed: dict[int, int]) -> dict[int, int]:
    """Groups for endpoints that do not count: the one they were in, or the one that will need them when they do."""
    before = _numbered(homes.before, _numbers(allocation))
    found: dict[int, int] = {}
    rest = []
    size = len(homes.zones)
    composition = list(allocation.counts)
    supply = list(homes.supply)
    for number, home in enumerate(homes.home):
        if number in placed:
            continue
        supply[home] += 1
        if before[number] >= 0:
            found[number] = before[number]
            composition[before[number] * size + home] += 1
        else:
            rest.append(number)
    if rest:
        there = list(composition)
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
        groups = place(
            [homes.home[number] for number in rest],
            [-1] * len(rest),
            [homes.identities[number] for number in rest],
            [after - was for after, was in zip(composition, there, strict=True)],
            size,
        )
        found |= dict(zip(rest, groups, strict=True))
    return found


def _as_located(case: Case, homes: _Homes, groups: _Groups) -> Allocation:
    """The allocation by where endpoints are, not by their homes; ``""`` for those without a zone."""
    located = {number: case.endpoints[number].zone or "" for number in case.ready}
    zones = tuple(sorted({*homes.zones, *located.values()}))
    shared = groups.allocation.groups[len(homes.zones) :]
    everything = (*map(own_group, zones), *shared)
    number_of = {group.zones: number for number, group in enumerate(everything)}
    counts = [0] * (len(everything) * len(zones))
    for number, zone in located.items():
        group = number_of[groups.allocation.groups[groups.placed[number]].zones]
        counts[group * len(zones) + zones.index(zone)] += 1
    return Allocation(zones, everything, tuple(counts))


def _message(case: Case, heuristic: Heuristic, homes: _Homes, allocation: Allocation) -> str:
    if not heuristic.balances:
        empty = tuple(zone for number, zone in enumerate(homes.demand.zones) if not homes.supply[number])
        text = "every endpoint is in its own zone's group"
        return f"{text}; {listed(empty)} without endpoints: all serve there" if empty else text
    used = sum(1 for number in range(len(allocation.groups)) if allocation.size(number))
    numbers = f"{counted(len(case.ready), 'endpoint')} in {counted(used, 'group')} for {len(homes.zones)} zones"
    worst = _measures(case, homes, allocation)[MAX_OVERLOAD]
    if worst < 1e-9:
        return f"every endpoint gets its fair part; {numbers}"
    return f"no endpoint gets more than {worst * 100:.3g} % above fair; {numbers}"


def _measures(case: Case, homes: _Homes, allocation: Allocation) -> list[float]:
    """What the proposal measures, with every endpoint at home."""
    weights = [group.weight(zone) for group in allocation.groups for zone in homes.zones]
    measures = [0.0] * MEASURES
    measure(
        homes.weights,
        len(allocation.groups),
        allocation.counts,
        weights,
        case.configuration.max_endpoints_per_slice,
        measures,
        [0.0] * len(homes.zones),
    )
    return measures
