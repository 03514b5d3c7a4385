"""The sets of endpoints of ``Balanced``, as counts: the best ones, and those that are in force with the fewest changes.

Everything here depends on demand, counts of endpoints and settings alone, and is remembered by these: all Services of a
cluster share its demand, and most have few endpoints, so that nearly every decision finds its answer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithm_calls import allocate
from zoneward.routing.algorithms.heuristics import BALANCED
from zoneward.routing.algorithms.set_value import LOCALITY, SCORE, overload_limit, value_of
from zoneward.routing.algorithms.zone_weights import weigh_zones
from zoneward.routing.allocation import Allocation, Counts, Supply, Zones
from zoneward.routing.score import IN_ZONE_POINTS
from zoneward.routing.zone_costs import COST_UNIT

KEPT_OVERLOAD: Final = 0.1
"""What is in force stays while its overload is at most so far above the limit (0.1 = 10 points),"""
KEPT_POINTS: Final = 3.0
"""and its score is at most this far below the best."""
_MAX_REPAIRS: Final = 24
"""Changes of single endpoints that bring it back; where more are needed, the best sets are less work."""
_REMEMBERED: Final = 4096
_MISSING_ZONE: Final = -1e12
"""The value of sets in which a zone has no endpoint; below that of all others."""


@dataclass(frozen=True, slots=True)
class SetsRequest:
    """What sets depend on: the zones in name order with demand and ready endpoints, and the settings.

    ``costs`` is `zoneward.routing.zone_costs.cost_table`; the objective is that of
    `zoneward.routing.algorithms.set_value`.
    """

    zones: tuple[str, ...]
    demand: tuple[int, ...]
    supply: tuple[int, ...]
    max_overload: tuple[int, int]
    objective: int
    costs: tuple[int, ...]

    @property
    def consumers(self) -> Zones:
        """The zones with demand."""
        return tuple(zone for zone, weight in zip(self.zones, self.demand, strict=True) if weight)

    @property
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

    def stays(self, best: "SetMeasures", limit: float) -> bool:
        """Whether sets in force are good enough to stay, beside the best ones."""
        return not self.missing and self.worst <= limit + KEPT_OVERLOAD and self.points >= best.points - KEPT_POINTS


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


def keep_sets(request: SetsRequest, counts: Counts, new: Mapping[str, int]) -> Counts | None:
    """Sets in force as they are, or changed by as few endpoints as possible so that they are good enough; None where
    the best sets are less work.

    ``new`` counts the endpoints in each zone that are in no set yet: they join the sets where they help most.
    """
    sets = _keep_sets(request, tuple(sorted(counts.items())), tuple(sorted(new.items())))
    return None if sets is None else dict(sets)


@lru_cache(maxsize=_REMEMBERED)
def _keep_sets(
    request: SetsRequest, counts: tuple[tuple[tuple[Zones, str], int], ...], new: tuple[tuple[str, int], ...]
) -> tuple[tuple[tuple[Zones, str], int], ...] | None:
    now = _with_new(request, dict(counts), dict(new))
    best = best_allocation(request)
    goal = cluster_wide(request) if best is None else best.counts
    goal_measures, limit = measure_sets(request, goal), overload_limit(request.parameters)

    def stays(measures: SetMeasures) -> bool:
        return measures.stays(goal_measures, limit)

    sets = _repaired(request, now, stays) or _on_the_way(request, now, goal, stays)
    return None if sets is None else tuple(sorted(sets.items()))


def _repaired(request: SetsRequest, counts: Counts, stays: Callable[[SetMeasures], bool]) -> Counts | None:
    """Changes of single endpoints, the most useful one each time, until the sets are good enough; None where no change
    helps or too many are needed."""
    measures = measure_sets(request, counts)
    for _ in range(_MAX_REPAIRS):
        if stays(measures):
            return counts
        step = _best_of(request, _changed(request, counts))
        if step is None or step[0].value <= measures.value:
            return None
        measures, counts = step
    return counts if stays(measures) else None


def _on_the_way(
    request: SetsRequest, counts: Counts, goal: Counts, stays: Callable[[SetMeasures], bool]
) -> Counts | None:
    """As much of the way to the best sets as is needed for good enough ones, in at most `_MAX_REPAIRS` steps; None
    where that is the whole way."""
    many = -(-sum(max(0, count - goal.get(key, 0)) for key, count in counts.items()) // _MAX_REPAIRS)
    while counts != goal:
        step = _best_of(request, _nearer(counts, goal, many))
        if step is None:
            return None
        measures, counts = step
        if stays(measures):
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
    changed = dict(counts)
    changed[before, located] -= moved
    if not changed[before, located]:
        del changed[before, located]
    changed[after, located] = changed.get((after, located), 0) + moved
    return changed


def _with_new(request: SetsRequest, counts: Counts, new: Mapping[str, int]) -> Counts:
    """The same with endpoints that were in no set, in the sets where they help most; many at once, at home."""
    consumers = request.consumers
    joined: Counts = dict(counts)
    one_by_one = sum(new.values()) <= _MAX_REPAIRS
    for located, count in new.items():
        home = (located,) if located in consumers else next(iter(counts))[0]
        others = sorted({members for members, _ in counts} | {(zone,) for zone in consumers})
        choices = [home, *others] if one_by_one else [home]
        for _ in range(count if one_by_one else min(count, 1)):
            tried = [(members, dict(joined)) for members in choices]
            for members, choice in tried:
                choice[members, located] = choice.get((members, located), 0) + (1 if one_by_one else count)
            if len(tried) == 1:
                joined = tried[0][1]
                continue
            best = _best_of(request, (choice for _, choice in tried))
            joined = best[1] if best else joined
    return joined


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
