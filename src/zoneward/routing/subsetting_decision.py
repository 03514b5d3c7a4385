"""Decisions that take effect by slice groups (KEP-2004): a starting threshold, an algorithm, and as few moves as
possible.

The algorithms see endpoints at home, the zone where a decision starts with them: their own zone. An endpoint without a
zone, or in a zone where no traffic starts, gets the zone in greatest need as its home: the one with the most expected
endpoints beyond those located there. It keeps this home while it has a group.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Final

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS, Heuristic
from zoneward.routing.allocation import (
    Allocation,
    Supply,
    Zones,
    allocate,
    allocation_of,
    measures_of,
    rebalance,
    threshold_parameters,
)
from zoneward.routing.decision import Decision, DecisionContext
from zoneward.routing.demand import Demand
from zoneward.routing.endpoint_index import Bucket, IndexedEndpoint, count_and_first_names
from zoneward.routing.phrases import counted, describe_without, format_percent, listed
from zoneward.routing.placement import Placed, Pool, Targets, group_target, place
from zoneward.routing.request import Approach
from zoneward.routing.rules import Reason
from zoneward.routing.score import MAX_OVERLOAD
from zoneward.routing.thresholds import endpoints_needed, has_enough_endpoints, lost_in_zone
from zoneward.routing.zone_groups import EVERY_ZONE, ZoneGroup, restrict_to_zones

# --- homes of endpoints -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Homes:
    """The homes of all endpoints.

    ``weights`` is the demand of the ``zones``. ``supply`` counts the ready endpoints by home. ``groups`` are the groups
    that endpoints were in, without zones that are gone.
    """

    demand: Demand
    zones: Zones
    weights: Mapping[str, int]
    ready: tuple[Pool, ...]
    unready: tuple[Pool, ...]
    groups: tuple[ZoneGroup, ...]
    supply: Mapping[str, int]


def homes_of(context: DecisionContext, demand: Demand, zones: Zones, *, in_force: bool) -> Homes:
    """Give every endpoint a home among some zones.

    ``in_force``: the same decision made the groups in force. Otherwise an endpoint that all zones consumed was in no
    group.
    """
    everybody = ZoneGroup(zones, (1.0,) * len(zones)) if in_force else None
    remaining: dict[int, ZoneGroup | None] = {}
    for previous in context.endpoint_index.previous_groups():
        if id(previous) not in remaining:
            remaining[id(previous)] = everybody if previous is EVERY_ZONE else restrict_to_zones(previous, zones)

    def pool(members: Bucket | IndexedEndpoint, home: str) -> Pool:
        group = None if members.previous_group is None else remaining[id(members.previous_group)]
        return Pool(members, home, None if group is None else group.zones)

    def home_by_group(bucket: Bucket) -> str | None:
        """An endpoint that has a group keeps its home there."""
        previous = bucket.previous_group
        group = None if previous is None or previous is EVERY_ZONE else remaining[id(previous)]
        return None if group is None else group.zones[0]

    supply = dict.fromkeys(zones, 0)
    ready: list[Pool] = []
    homeless = []
    for bucket in context.endpoint_index.ready_buckets():
        if bucket.zone in supply:
            ready.append(pool(bucket, bucket.zone))
            supply[bucket.zone] += len(bucket)
        else:
            homeless.append(bucket)
    if homeless:
        count, names = count_and_first_names(homeless)
        detail = describe_without(names, "endpoint", "zone where traffic starts", count=count)
        context.rules.record("endpoint-zones", True, f"{detail}: to the zone in greatest need")
    weights = {zone: demand.reduced.get(zone, 0) for zone in zones}

    new: list[IndexedEndpoint] = []
    for bucket in homeless:
        home = home_by_group(bucket)
        if home is None:
            new.extend(bucket.members)
            continue
        ready.append(pool(bucket, home))
        supply[home] += len(bucket)
    for member in sorted(new, key=attrgetter("identity")):
        home = neediest_zone(weights, supply, context.ready_count)
        ready.append(pool(member, home))
        supply[home] += 1
    unready = []
    for bucket in context.endpoint_index.unready_buckets():
        # Those without a home do not count: all of them get the home of the next endpoint.
        home = bucket.zone if bucket.zone in supply else home_by_group(bucket)
        unready.append(pool(bucket, home or neediest_zone(weights, supply, context.ready_count)))
    groups = tuple(group for group in remaining.values() if group is not None)
    return Homes(demand, zones, weights, tuple(ready), tuple(unready), groups, supply)


def neediest_zone(weights: Mapping[str, int], located: Mapping[str, int], total: int) -> str:
    """The zone that expects most beyond what is located there; the first of equals."""
    everything = max(sum(weights.values()), 1)
    return max(weights, key=lambda zone: total * weights[zone] - located[zone] * everything)


# --- decisions --------------------------------------------------------------------------------------------------------


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
    in_force = context.is_in_force(heuristic)
    # With hints, a slice that has none is one whose endpoints are not ready.
    homes = homes_of(
        context, demand, demand.zones, in_force=in_force and context.configuration.subsetting.encoding != "hints"
    )
    allocation = _rebalance_lazily(context, heuristic, homes) if in_force and homes.groups else None
    if allocation is None:
        allocation = _balance(context, heuristic, homes)
    limit = format_percent(context.configuration.subsetting.overload_threshold)
    numbers = f"{counted(context.ready_count, 'endpoint')} for {counted(len(demand.zones), 'zone')}"
    if not context.rules.decide(
        "overload-threshold", allocation is not None, f"{heuristic.name}: {numbers}, below {limit}"
    ):
        return context.build_inactive(Reason.OVERLOAD, f"{numbers}: some endpoint would get {limit} or more above fair")
    assert allocation is not None
    return _decide_with_groups(context, heuristic, homes, allocation)


def decide_require_zone(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Every endpoint joins its own zone's group, regardless of load (KEP-2004 § Future Expansion, ``RequireZone``)."""
    refusal = context.check_external_policy() or context.check_ready_endpoints()
    if refusal is not None:
        return refusal
    demand = _demand(context)
    zones = {*demand.zones, *context.endpoint_index.zones()}
    if not zones:
        count, without = count_and_first_names(context.endpoint_index.ready_buckets())
        context.rules.require("endpoint-zones", False, describe_without(without, "endpoint", "zone", count=count))
        return context.build_inactive(Reason.ENDPOINT_WITHOUT_ZONE, "no endpoint and no node has a zone")
    homes = homes_of(context, demand, tuple(sorted(zones)), in_force=False)
    allocation = _balance(context, heuristic, homes)
    assert allocation is not None, f"{heuristic.name} refused, though it has no threshold"
    return _decide_with_groups(context, heuristic, homes, allocation)


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
    endpoints = counted(context.ready_count, "endpoint")
    is_on = context.in_force in BALANCED_GROUPS
    threshold, padding = context.request.starting_threshold, context.configuration.subsetting.padding

    def bound(*, is_on: bool) -> str:
        sign, limit = ("-", "stops at") if is_on else ("+", "starts at")
        needed = endpoints_needed(threshold, padding, zones, in_force=is_on)
        return f"{limit} {float(threshold):g} x {counted(zones, 'zone')} {sign} {padding} = {float(needed):g}"

    needed = endpoints_needed(threshold, padding, zones, in_force=is_on)
    detail = f"{endpoints}; {'on already, ' if is_on else ''}{bound(is_on=is_on)}"
    if context.rules.require(
        "starting-threshold", has_enough_endpoints(context.ready_count, needed, padding, in_force=is_on), detail
    ):
        return None
    # What stops here must start again: the message with the bound for starting spares the conditions a second write.
    return context.build_inactive(Reason.BELOW_STARTING_THRESHOLD, f"{endpoints}, {bound(is_on=False)}")


# --- homes and groups -------------------------------------------------------------------------------------------------


def _rebalance_lazily(context: DecisionContext, heuristic: Heuristic, homes: Homes) -> Allocation | None:
    """Make only the update itself; None where that would overload an endpoint (KEP-2004 § Optimizations), or lose too
    much traffic to other zones (`zoneward.routing.thresholds.lost_in_zone`).
    """
    previous: Counter[tuple[Zones, str]] = Counter()
    for pool in homes.ready:
        if pool.previous is not None:
            previous[pool.previous, pool.home] += len(pool)
    threshold = context.configuration.subsetting.overload_threshold
    supply = Supply(homes.supply, previous)
    allocation, holds = rebalance(homes.weights, supply, weights=_weights_of_shared(homes.groups), threshold=threshold)
    limit = format_percent(threshold)
    if not holds:
        detail = f"not below {limit} with the groups as they are: they are recomputed"
        context.rules.record("lazy-rebalance", False, detail)
        return None
    anew = _balance(context, heuristic, homes)
    lost = lost_in_zone(allocation, anew, homes.weights) if anew else 0.0
    most = context.configuration.subsetting.in_zone_tolerance
    detail = f"below {limit} with the groups as they are, {lost * 100:.3g} % less traffic in its zone"
    if lost > most:
        context.rules.record("lazy-rebalance", False, f"{detail}, {format_percent(most)} at most: they are recomputed")
        return None
    context.rules.record("lazy-rebalance", True, f"{detail}: only the update is made")
    return allocation


def _balance(context: DecisionContext, heuristic: Heuristic, homes: Homes) -> Allocation | None:
    """Recompute all groups; None where the algorithm finds none."""
    threshold = context.configuration.subsetting.overload_threshold
    parameters = threshold_parameters(threshold, threshold)
    return allocate(heuristic, homes.weights, Supply(homes.supply), parameters=parameters)


def _weights_of_shared(groups: Iterable[ZoneGroup]) -> dict[Zones, tuple[float, ...]]:
    """The weights of groups that several zones share.

    Of groups that differ by weights alone, it takes the one that weighs most: an interrupted write of several slices
    leaves such groups.
    """
    weights: dict[Zones, tuple[float, ...]] = {}
    for group in groups:
        if len(group.zones) > 1:
            weights[group.zones] = max(weights.get(group.zones, ()), group.weights)
    return weights


# --- the decision -----------------------------------------------------------------------------------------------------


def _decide_with_groups(
    context: DecisionContext, heuristic: Heuristic, homes: Homes, allocation: Allocation
) -> Decision:
    """``allocation`` is by the homes of endpoints."""
    placed = place(homes.ready, allocation.counts)
    as_hints = context.configuration.subsetting.encoding == "hints"
    if as_hints:
        most = max((len(consumers) for consumers, _ in allocation.counts), default=0)
        detail = f"{counted(most, 'zone')} in a hint, {MAX_ZONE_HINTS} at most"
        if not context.rules.require("hint-zones", most <= MAX_ZONE_HINTS, detail):
            return context.build_inactive(Reason.TOO_MANY_ZONES, f"a group for {detail}")
        targets = context.hint_targets(allocation, placed.consumers)
    else:
        rest = _place_not_ready(homes, allocation, by_need=heuristic.balances)
        targets = Targets(
            context.endpoint_index,
            "slice-groups",
            {
                members: group_target(_slice_group(allocation.group(consumers), homes.demand))
                for members, consumers in (placed.consumers | rest.consumers).items()
            },
        )
    parts = placed.parts
    away = sum(count for (pool, consumers), count in parts.items() if consumers != (pool.zone,))
    own = counted(context.ready_count - away, "endpoint")
    moved = placed.count_moved(homes.zones, starts=not context.is_in_force(heuristic))
    record = context.rules.record if heuristic.balances else context.rules.decide
    record("placement", True, f"{own} in their own zone's group, {away} in another; {moved} moved")
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message=_describe_groups(context, heuristic, homes, allocation),
        targets=targets,
        allocation=_by_location(homes, allocation, placed),
        moved=moved,
    )


def _slice_group(group: ZoneGroup, demand: Demand) -> ZoneGroup | None:
    """What all zones consume alike needs no label: a proxy of any age reads such slices."""
    is_for_all = not group.weighted and len(demand.zones) > 1 and set(demand.zones) <= set(group.zones)
    return None if is_for_all else group


def _place_not_ready(homes: Homes, allocation: Allocation, *, by_need: bool) -> Placed:
    """Groups for endpoints that do not count: the one they were in, or the one that will need them when they do.

    Where a decision is not ``by_need``, the one at home.
    """
    if not by_need:
        return Placed({pool.members: (pool.home,) for pool in homes.unready})
    shared = {consumers: allocation.group(consumers).weights for consumers, _ in allocation.counts if consumers[1:]}
    known = {(zone,) for zone in homes.zones} | shared.keys()
    supply, counts = Counter(homes.supply), Counter(allocation.counts)
    new, placed = [], Placed()
    for pool in homes.unready:
        supply[pool.home] += len(pool)
        if pool.previous in known:
            placed.consumers[pool.members] = pool.previous
            counts[pool.previous, pool.home] += len(pool)
        else:
            new.append(Pool(pool.members, pool.home, None))
    if new:
        after, _ = rebalance(homes.weights, Supply(supply, counts), weights=shared, threshold=Fraction(1))
        added = {key: count - counts[key] for key, count in after.counts.items()}
        placed.consumers |= place(new, added).consumers
    return placed


def _by_location(homes: Homes, allocation: Allocation, placed: Placed) -> Allocation:
    """The allocation by where endpoints are, not by their homes; ``""`` for those without a zone."""
    counts: Counter[tuple[Zones, str]] = Counter()
    for (pool, consumers), count in placed.parts.items():
        counts[consumers, pool.zone] += count
    zones = sorted({*homes.zones, *(pool.zone for pool, _ in placed.parts)})
    return allocation_of(zones, counts, allocation.weights)


def _describe_groups(context: DecisionContext, heuristic: Heuristic, homes: Homes, allocation: Allocation) -> str:
    if not heuristic.balances:
        empty = tuple(zone for zone in homes.demand.zones if not homes.supply[zone])
        text = "every endpoint is in its own zone's group"
        return f"{text}; {listed(empty)} without endpoints: all serve there" if empty else text
    used = len(allocation.by_consumers())
    numbers = f"{counted(context.ready_count, 'endpoint')} in {counted(used, 'group')} for {len(homes.zones)} zones"
    worst = measures_of(allocation, homes.weights)[MAX_OVERLOAD]
    if worst < 1e-9:
        return f"every endpoint gets its fair part; {numbers}"
    return f"no endpoint gets more than {worst * 100:.3g} % above fair; {numbers}"
