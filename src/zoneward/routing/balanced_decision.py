"""Decisions of ``Balanced``: sets of endpoints that zones may share, written as hints for several zones, and weights of
zones for Zoneward's own proxy (``docs/balanced.md``).

What is in force stays while it is good enough, and then as few endpoints as possible change. Sets depend on demand,
counts of endpoints and settings alone, and are remembered by these: all Services of a cluster share its demand, and
most have few endpoints, so that nearly every decision finds its answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing.algorithms.heuristics import BALANCED
from zoneward.routing.algorithms.set_value import COST_UNIT, LOCALITY, SCORE, overload_limit, value_of
from zoneward.routing.algorithms.transport import weigh_zones
from zoneward.routing.allocation import Allocation, Counts, Supply, Zones, allocate, allocation_of
from zoneward.routing.configuration import BalancedSettings, cost_table
from zoneward.routing.decision import Decision, DecisionContext
from zoneward.routing.endpoint_index import Bucket
from zoneward.routing.phrases import counted, format_percent
from zoneward.routing.placement import Pool, place
from zoneward.routing.rules import Reason
from zoneward.routing.score import IN_ZONE_POINTS
from zoneward.routing.thresholds import KEPT_OVERLOAD
from zoneward.routing.zone_groups import ZoneGroup, restrict_to_zones

# --- sets of endpoints, as counts -------------------------------------------------------------------------------------


KEPT_POINTS: Final = 3.0
"""What is in force stays while its score is at most this far below the best, and its overload at most `KEPT_OVERLOAD`
above the limit."""
_MAX_REPAIRS: Final = 24
"""Changes of single endpoints that bring it back; where more are needed, the best sets are less work."""
_REMEMBERED: Final = 4096
_MISSING_ZONE: Final = -1e12
"""The value of sets in which a zone has no endpoint; below that of all others."""


@dataclass(frozen=True)
class SetsRequest:
    """What sets depend on: the zones in name order with demand and ready endpoints, and the settings.

    ``costs`` is `zoneward.routing.configuration.cost_table`; the objective is that of
    `zoneward.routing.algorithms.set_value`.
    """

    zones: tuple[str, ...]
    demand: tuple[int, ...]
    supply: tuple[int, ...]
    max_overload: tuple[int, int]
    objective: int
    costs: tuple[int, ...]

    @cached_property
    def consumers(self) -> Zones:
        """The zones with demand."""
        return tuple(zone for zone, weight in zip(self.zones, self.demand, strict=True) if weight)

    @cached_property
    def parameters(self) -> tuple[int, ...]:
        return (*self.max_overload, *self.max_overload, self.objective, *self.costs)


@dataclass(frozen=True, slots=True)
class SetMeasures:
    """What sets of endpoints do: the mean cost of a request, overloads as shares above fair, and their value.

    ``missing`` counts zones without an endpoint. ``points`` is the score of KEP-2004; with the objective *locality*,
    its part for traffic in the zone alone.
    """

    value: float
    cost: float
    worst: float
    mean: float
    points: float
    missing: int = 0

    def stays(self, request: SetsRequest) -> bool:
        """Whether sets in force are good enough to stay, beside the best ones."""
        most = overload_limit(request.parameters) + KEPT_OVERLOAD
        least = best_sets(request).measures.points - KEPT_POINTS
        return not self.missing and self.worst <= most and self.points >= least


class MeasuredSets(NamedTuple):
    """Sets of endpoints and what they do. ``is_cluster_wide``: they are all endpoints for all zones, for want of better
    ones.
    """

    counts: Counts
    measures: SetMeasures
    is_cluster_wide: bool = False


@lru_cache(maxsize=_REMEMBERED)
def best_sets(request: SetsRequest) -> MeasuredSets:
    """The best sets; all endpoints for all zones where nothing is better."""
    best = best_allocation(request)
    counts = cluster_wide(request) if best is None else best.counts
    return MeasuredSets(counts, measure_sets(request, counts), is_cluster_wide=best is None)


def best_allocation(request: SetsRequest) -> Allocation | None:
    """The best sets; None where nothing is better than all endpoints for all zones."""
    return allocate(
        BALANCED,
        dict(zip(request.zones, request.demand, strict=True)),
        Supply(dict(zip(request.zones, request.supply, strict=True))),
        parameters=request.parameters,
    )


@lru_cache(maxsize=_REMEMBERED)
def best_weights(request: SetsRequest) -> tuple[tuple[float, ...], ...]:
    """For each zone, the share of its traffic for the endpoints of each zone (`weigh_zones`)."""
    return weigh_zones(request.demand, request.supply, request.parameters)


def cluster_wide(request: SetsRequest) -> Counts:
    """All endpoints for all zones with demand."""
    return {
        (request.consumers, zone): count for zone, count in zip(request.zones, request.supply, strict=True) if count
    }


def measure_sets(request: SetsRequest, counts: Counts) -> SetMeasures:
    """What the proxies do with these sets. A zone without endpoints uses all of them."""
    zones = len(request.zones)
    index = {zone: position for position, zone in enumerate(request.zones)}
    total, everything = sum(request.supply), sum(request.demand)
    used = [0] * zones
    costs = [0] * zones
    for (consumers, located), count in counts.items():
        column = index[located]
        for consumer in consumers:
            row = index[consumer]
            used[row] += count
            costs[row] += count * request.costs[row * zones + column]
    cost = spread = 0.0
    missing = 0
    parts = dict.fromkeys(request.zones, 0.0)
    for row, (zone, weight) in enumerate(zip(request.zones, request.demand, strict=True)):
        if not weight:
            continue
        share = weight / everything
        if used[row]:
            parts[zone] = share / used[row]
            cost += parts[zone] * costs[row]
        else:
            missing += 1
            spread += share / total
            to_all = zip(request.costs[row * zones : (row + 1) * zones], request.supply, strict=True)
            cost += share * sum(price * count for price, count in to_all) / total
    worst = mean = 0.0
    for (consumers, _), count in counts.items():
        deviation = total * (spread + sum(parts[zone] for zone in consumers)) - 1
        worst = max(worst, deviation)
        mean += count * abs(deviation)
    cost, mean = cost / COST_UNIT, mean / total
    value = value_of(request.objective, overload_limit(request.parameters), cost, worst, mean)
    points = (
        IN_ZONE_POINTS * (1 - cost)
        if request.objective == LOCALITY
        else value_of(SCORE, float("inf"), cost, worst, mean)
    )
    return SetMeasures(value + _MISSING_ZONE * missing, cost, worst, mean, points, missing)


@lru_cache(maxsize=_REMEMBERED)
def keep_sets(
    request: SetsRequest, counts: tuple[tuple[tuple[Zones, str], int], ...], new: tuple[tuple[str, int], ...]
) -> MeasuredSets | None:
    """Sets in force as they are, or changed by as few endpoints as possible so that they are good enough; None where
    the best sets are less work.

    ``counts`` and ``new`` are sorted items. ``new`` counts the endpoints in each zone that are in no set yet: they join
    the sets where they help most.
    """
    now = _with_new(request, dict(counts), new)
    sets = _repaired(request, now) or _on_the_way(request, now, best_sets(request).counts)
    if sets is None:
        return None
    sets = dict(sorted(sets.items()))
    return MeasuredSets(sets, measure_sets(request, sets))


def _repaired(request: SetsRequest, counts: Counts) -> Counts | None:
    """Changes of single endpoints, the most useful one each time, until the sets are good enough; None where no change
    helps or too many are needed."""
    measures = measure_sets(request, counts)
    for _ in range(_MAX_REPAIRS):
        if measures.stays(request):
            return counts
        step = _best_of(request, _changed(request, counts))
        if step is None or step[0].value <= measures.value:
            return None
        measures, counts = step
    return counts if measures.stays(request) else None


def _on_the_way(request: SetsRequest, counts: Counts, goal: Counts) -> Counts | None:
    """As much of the way to the best sets as is needed for good enough ones, in at most `_MAX_REPAIRS` steps; None
    where that is the whole way."""
    many = -(-sum(max(0, count - goal.get(key, 0)) for key, count in counts.items()) // _MAX_REPAIRS)
    while counts != goal:
        step = _best_of(request, _nearer(counts, goal, many))
        if step is None:
            return None
        measures, counts = step
        if measures.stays(request):
            return None if counts == goal else counts
    return None


def _best_of(request: SetsRequest, choices: Iterable[Counts]) -> tuple[SetMeasures, Counts] | None:
    return max(
        ((measure_sets(request, choice), choice) for choice in choices),
        key=lambda measured: (measured[0].value, -measured[0].worst, -measured[0].mean),
        default=None,
    )


def _nearer(counts: Counts, goal: Counts, many: int) -> Iterator[Counts]:
    """Counts with up to ``many`` endpoints moved from a set that has more than the goal to one that has fewer."""
    lacking = [(key, count - counts.get(key, 0)) for key, count in goal.items() if count > counts.get(key, 0)]
    for (members, located), count in counts.items():
        spare = count - goal.get((members, located), 0)
        for (after, where), lack in lacking:
            if where == located and spare > 0:
                yield _moved(counts, members, after, located, min(many, spare, lack))


def _moved(counts: Counts, before: Zones, after: Zones, located: str, moved: int) -> Counts:
    """Counts with ``moved`` endpoints of a zone in another set."""
    changed = _joined(counts, after, located, moved)
    changed[before, located] -= moved
    if not changed[before, located]:
        del changed[before, located]
    return changed


def _joined(counts: Counts, members: Zones, located: str, joined: int) -> dict[tuple[Zones, str], int]:
    """Counts with ``joined`` endpoints of a zone more in a set."""
    return {**counts, (members, located): counts.get((members, located), 0) + joined}


def _with_new(request: SetsRequest, counts: Counts, new: Sequence[tuple[str, int]]) -> Counts:
    """The same with endpoints that were in no set, in the sets where they help most; many at once, at home."""
    own = [(zone,) for zone in request.consumers]
    first = next(iter(counts))[0]
    are_many = sum(count for _, count in new) > _MAX_REPAIRS
    for located, count in new:
        home = (located,) if (located,) in own else first
        if are_many:
            counts = _joined(counts, home, located, count)
            continue
        choices = [home, *sorted({members for members, _ in counts}.union(own))]
        for _ in range(count):
            best = _best_of(request, [_joined(counts, members, located, 1) for members in choices])
            assert best is not None
            counts = best[1]
    return counts


def _changed(request: SetsRequest, counts: Counts) -> Iterator[Counts]:
    """The same with one endpoint that one zone more uses, one fewer, or one in place of another."""
    consumers = request.consumers
    for members, located in counts:
        for after in _changed_members(members, consumers):
            yield _moved(counts, members, after, located, 1)


def _changed_members(members: Zones, consumers: Iterable[str]) -> Iterator[Zones]:
    outside = [zone for zone in consumers if zone not in members]
    for zone in outside:
        if len(members) < MAX_ZONE_HINTS:
            yield tuple(sorted((*members, zone)))
    for leaving in members:
        rest = tuple(zone for zone in members if zone != leaving)
        if rest:
            yield rest
        for zone in outside:
            yield tuple(sorted((*rest, zone)))


# --- decisions --------------------------------------------------------------------------------------------------------


MAX_ZONES: Final = 32
"""With more zones, a decision would take seconds."""
_IDLE: Final = 1_000_000
"""All demand, beside that of a zone without any: its proxies need endpoints, and add no load."""


def decide_sets(context: DecisionContext) -> Decision:
    """Decide by the best sets within the settings, or by those in force."""
    refusal = (
        context.check_external_policy()
        or context.check_ready_nodes()
        or context.check_nodes()
        or _check_zones(context)
        or context.check_ready_endpoints()
        or context.check_endpoint_zones()
    )
    if refusal is not None:
        return refusal
    settings = context.request.balanced or context.configuration.balanced
    request = _request(context, settings)
    best = best_sets(request)
    _record_best(context, settings, request, best)
    sets = _keep(context, request, best) or best
    weights = _weights(request)
    if sets.is_cluster_wide:
        zones = counted(len(context.demand.zones), "zone")
        return context.build_inactive(
            Reason.CLUSTER_WIDE_IS_BEST,
            f"{counted(context.ready_count, 'endpoint')} for {zones}: no sets are better than all endpoints for all",
            weights=weights,
        )
    return _place(context, request, sets, weights)


# --- rules ------------------------------------------------------------------------------------------------------------


def _check_zones(context: DecisionContext) -> Decision | None:
    refusal = context.check_zones(context.demand)
    if refusal is not None:
        return refusal
    zones = len({*context.demand.ready_zones, *context.endpoint_index.zones()})
    if context.rules.require("zones-at-most", zones <= MAX_ZONES, f"{counted(zones, 'zone')}, {MAX_ZONES} at most"):
        return None
    return context.build_inactive(Reason.TOO_MANY_ZONES, f"{zones} zones, {MAX_ZONES} at most")


def _request(context: DecisionContext, settings: BalancedSettings) -> SetsRequest:
    demand = context.demand
    supply = context.endpoint_index.ready_by_zone()
    weights = demand.reduced
    if demand.idle_zones:
        weights = {zone: max(1, weight * _IDLE // demand.total) for zone, weight in demand.weight_of.items()}
        weights |= dict.fromkeys(demand.idle_zones, 1)
    zones = tuple(sorted(weights.keys() | supply.keys()))
    return SetsRequest(
        zones,
        tuple(weights.get(zone, 0) for zone in zones),
        tuple(supply.get(zone, 0) for zone in zones),
        (settings.max_overload.numerator, settings.max_overload.denominator),
        LOCALITY if settings.objective == "locality" else SCORE,
        cost_table(settings.costs, zones, dict(demand.regions)),
    )


def _record_best(
    context: DecisionContext, settings: BalancedSettings, request: SetsRequest, best: MeasuredSets
) -> None:
    limit = format_percent(settings.max_overload)
    sets = "all endpoints for all zones" if best.is_cluster_wide else _describe_sets(request, best.counts)
    context.rules.decide(
        "best-sets",
        not best.is_cluster_wide,
        f"by {settings.objective}, at most {limit} above fair: {sets}; {_describe_measures(best.measures)}",
    )


def _keep(context: DecisionContext, request: SetsRequest, best: MeasuredSets) -> MeasuredSets | None:
    """What is in force, with as few changes as needed; None where nothing is, or where the best sets are less work."""
    if not context.is_in_force(BALANCED):
        return None
    counts: Counter[tuple[Zones, str]] = Counter()
    new: Counter[str] = Counter()
    for bucket in context.endpoint_index.ready_buckets():
        group = _remaining_group(bucket, request.consumers)
        if group is None:
            new[bucket.zone] += len(bucket)
        else:
            counts[group.zones, bucket.zone] += len(bucket)
    if not counts:
        return None
    repaired = keep_sets(request, tuple(sorted(counts.items())), tuple(sorted(new.items())))
    if repaired is None:
        context.rules.record("sets-in-force", False, "too far from optimal to repair: recomputed")
        return None
    detail = _describe_measures(repaired.measures)
    note = context.rules.decide if best.is_cluster_wide else context.rules.record
    note("sets-in-force", True, f"kept, with minimal changes: {detail}")
    return repaired


def _remaining_group(bucket: Bucket, consumers: Zones) -> ZoneGroup | None:
    """The zones that used the endpoints of a bucket and still need any."""
    group = bucket.previous_group
    return restrict_to_zones(group, consumers) if group is not None else None


# --- the decision -----------------------------------------------------------------------------------------------------


def _weights(request: SetsRequest) -> ZoneWeights:
    zones = request.zones
    return ZoneWeights(
        {
            zone: {end: share for end, share in zip(zones, row, strict=True) if share}
            for zone, row, weight in zip(zones, best_weights(request), request.demand, strict=True)
            if weight
        },
        dict(zip(zones, request.supply, strict=True)),
    )


def _place(context: DecisionContext, request: SetsRequest, sets: MeasuredSets, weights: ZoneWeights) -> Decision:
    """Decide which endpoint is in which set, moving as few as possible."""
    allocation = allocation_of(request.zones, sets.counts)
    pools = []
    for bucket in context.endpoint_index.ready_buckets():
        group = _remaining_group(bucket, request.consumers)
        pools.append(Pool(bucket, bucket.zone, group.zones or None if group is not None else None))
    placed = place(pools, allocation.counts)
    own = sum(count for (consumers, zone), count in allocation.counts.items() if consumers == (zone,))
    moved = placed.count_moved(request.zones, starts=not context.is_in_force(BALANCED))
    context.rules.record(
        "placement",
        True,
        f"{counted(own, 'endpoint')} serve their own zone alone, {context.ready_count - own} others; {moved} moved",
    )
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message=_describe_decision(context, sets.measures),
        allocation=allocation,
        targets=context.hint_targets(allocation, placed.consumers),
        moved=moved,
        weights=weights,
    )


def _describe_decision(context: DecisionContext, measures: SetMeasures) -> str:
    numbers = f"{counted(context.ready_count, 'endpoint')} for {counted(len(context.demand.zones), 'zone')}"
    return f"{_describe_measures(measures)}; {numbers}"


def _describe_measures(measures: SetMeasures) -> str:
    worst = format_percent(Fraction(round(round(measures.worst, 4) * 10_000), 10_000))
    overload = f"no endpoint is more than {worst} above fair" if measures.worst > 1e-4 else "no endpoint is above fair"
    return f"a request costs {measures.cost:.3g} on average (1: in another zone), {overload}"


def _describe_sets(request: SetsRequest, counts: Counts) -> str:
    used: Counter[str] = Counter()
    for (consumers, _), count in counts.items():
        used.update(dict.fromkeys(consumers, count))
    parts = [f"{zone} {used[zone]}" for zone in request.zones if used[zone]]
    return f"endpoints of zones: {', '.join(parts)}"
