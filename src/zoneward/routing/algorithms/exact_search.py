"""Sets of endpoints for two or three zones that may share endpoints: the best ones among all sizes within a window.

With sizes s of the sets, a request from zone z is sent to each endpoint of its set with p = d_z / s_z. The load of an
endpoint is the sum over the zones that use it. So only the counts of endpoints matter that are used by one zone, by
each pair of zones, and by all three: the kinds of endpoints. What a request costs is then a transportation problem over
the zones where endpoints are located. Without a table of costs its answer is a formula (`_plain_cost`).

Most sizes and overlaps are skipped: the cost of a zone that has the nearest endpoints for itself, and the load of its
endpoints without sharing, bound the value from above.
"""

from typing import Any, Final, NamedTuple

from zoneward.routing.algorithms.set_value import Problem, is_better, write_value
from zoneward.routing.algorithms.transport import FlowRoom, cheapest_flow
from zoneward.routing.zone_costs import COST_UNIT

MAX_CONSUMERS: Final = 3
"""The most zones with demand that this search takes."""
KINDS: Final = 7
_USERS: Final = (0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111)
"""The consumers that use the endpoints of each kind, by position: one alone, two, and all three."""
MAX_WINDOW: Final = 24
"""Sizes of one set that a search may try."""
_POOLED_MARGIN: Final = 1
_POOLED_REACH: Final = 3
"""How far from the sizes that make loads even others are tried, where zones pool their endpoints."""


class ExactRoom(NamedTuple):
    """Named arrays of the search.

    By consumer: ``low`` and ``high``, the window of sizes; ``size`` of its set; ``spare``, endpoints of its zone that
    it can share; its ``share`` of demand, and the ``part`` of all traffic that it sends to one of its endpoints. By
    kind: ``tried`` and ``best``, counts of endpoints, and ``load``, as multiples of the fair one. By consumer and size
    in the window: ``least_cost``, ``overload`` and ``lack`` are bounds. By kind and zone: ``flow`` counts endpoints,
    ``flow_cost`` is that of a request to one. By zone: ``unused`` endpoints.
    """

    low: Any
    high: Any
    size: Any
    spare: Any
    share: Any
    part: Any
    tried: Any
    best: Any
    load: Any
    least_cost: Any
    overload: Any
    lack: Any
    flow: Any
    flow_cost: Any
    unused: Any
    flow_room: FlowRoom


def search_exactly(problem: Problem, room: ExactRoom) -> None:
    """Search for sets with sizes in the window that are better than the best so far."""
    limit, total = problem.limit, problem.total
    least_cost, overload, lack = room.least_cost, room.overload, room.lack
    _write_bounds(problem, room)
    for first in range(room.low[0], room.high[0] + 1):
        cell = first - room.low[0]
        cost0, worst0, mean0 = least_cost[cell], overload[cell], lack[cell]
        # The other sets can only add to all three: what cannot win now never does.
        if worst0 > limit or not _can_win(problem, cost0, worst0, mean0):
            continue
        for second in range(room.low[1], room.high[1] + 1):
            cell = MAX_WINDOW + second - room.low[1]
            cost1, worst1, mean1 = cost0 + least_cost[cell], max(worst0, overload[cell]), mean0 + lack[cell]
            if worst1 > limit or not _can_win(problem, cost1, worst1, mean1):
                continue
            for third in range(max(room.low[2], total - first - second), room.high[2] + 1):
                cell = 2 * MAX_WINDOW + third - room.low[2]
                cost2, worst2, mean2 = cost1 + least_cost[cell], max(worst1, overload[cell]), mean1 + lack[cell]
                if worst2 <= limit and _can_win(problem, cost2, worst2, mean2):
                    _try_overlaps(problem, room, first, second, third, cost2)


def _write_bounds(problem: Problem, room: ExactRoom) -> None:
    """Of each size in the window: the least cost, the overload, and the part of traffic above a fair load."""
    for consumer in range(MAX_CONSUMERS):
        for size in range(room.low[consumer], room.high[consumer] + 1):
            cell = consumer * MAX_WINDOW + size - room.low[consumer]
            if consumer >= problem.consumer_count:
                room.least_cost[cell], room.overload[cell], room.lack[cell] = 0.0, -1.0, 0.0
                continue
            share = room.share[consumer]
            room.least_cost[cell] = share * _least_cost(problem, problem.consumers[consumer], size)
            room.overload[cell] = problem.total * share / size - 1
            room.lack[cell] = max(0.0, share - size / problem.total)


def _can_win(problem: Problem, cost: float, worst: float, lack: float) -> bool:
    return is_better(problem, cost, max(worst, 0.0), 2 * lack, problem.best)


def _least_cost(problem: Problem, consumer: int, size: int) -> float:
    """The mean cost of a request of a zone whose set has the nearest endpoints, if no other zone needed these."""
    supply, costs = problem.supply, problem.costs
    if problem.is_plain:
        remote: float = 1 - min(supply[consumer], size) / size
        return remote
    zones = len(supply)
    left = size
    cost = 0
    row = consumer * zones
    level = -1
    while left > 0:
        # The next level of cost, in order.
        following = -1
        for zone in range(zones):
            if costs[row + zone] > level and supply[zone] > 0 and (following < 0 or costs[row + zone] < following):
                following = costs[row + zone]
        if following < 0:
            break
        level = following
        for zone in range(zones):
            if costs[row + zone] == level:
                taken = min(left, supply[zone])
                cost += taken * level
                left -= taken
    return cost / COST_UNIT / size


# --- zones that pool their endpoints ----------------------------------------------------------------------------------


def search_pooled(problem: Problem, room: ExactRoom) -> None:
    """Search for better sets among those in which one of three zones shares all its endpoints: two zones use one set,
    or one zone uses all endpoints and the others divide them.

    A zone with a small part of the demand has too few endpoints for a fair load on each, and with others it has more.
    """
    total, share, supply = problem.total, room.share, problem.supply
    for alone in range(MAX_CONSUMERS):
        first, second = (1 if alone == 0 else 0), (1 if alone == 2 else 2)
        # One set for two zones, and one for the third.
        pair_share = share[first] + share[second]
        least = int(total * pair_share / (1 + problem.limit)) + 1
        most = total - int(total * share[alone] / (1 + problem.limit)) - 1
        near = total - supply[problem.consumers[alone]]
        for start in (int(total * pair_share), min(max(near, least), most)):
            for size in range(max(least, start - _POOLED_MARGIN), min(most, start + _POOLED_MARGIN + 1) + 1):
                if 0 < size < total:
                    _clear(room.tried)
                    room.tried[alone] = total - size
                    room.tried[_pair_of(first, second)] = size
                    _try_pools(problem, room, alone, total - size, size, size)
        # The third uses all endpoints, which the two divide.
        fair = int(total * share[first] / pair_share)
        near = min(max(supply[problem.consumers[first]], fair - _POOLED_REACH), fair + _POOLED_REACH)
        for start in (fair, near):
            for size in range(max(1, start - _POOLED_MARGIN), min(total - 1, start + _POOLED_MARGIN + 1) + 1):
                _clear(room.tried)
                room.tried[_pair_of(alone, first)] = size
                room.tried[_pair_of(alone, second)] = total - size
                _try_pools(problem, room, alone, total, size, total - size)


def _try_pools(
    problem: Problem, room: ExactRoom, alone: int, alone_size: int, first_size: int, second_size: int
) -> None:
    size = room.size
    size[0], size[1], size[2] = first_size, first_size if alone == 0 else second_size, second_size
    size[alone] = alone_size
    least = 0.0
    for consumer in range(MAX_CONSUMERS):
        least += room.share[consumer] * _least_cost(problem, problem.consumers[consumer], size[consumer])
    _write_loads(problem, room, size[0], size[1], size[2])
    _try_counts(problem, room, least)


def _clear(counts: Any) -> None:
    for kind in range(KINDS):
        counts[kind] = 0


def _pair_of(one: int, other: int) -> int:
    """The kind of the endpoints that two consumers use."""
    return MAX_CONSUMERS - 1 + one + other


# --- sets of given sizes ----------------------------------------------------------------------------------------------


def _write_loads(problem: Problem, room: ExactRoom, first: int, second: int, third: int) -> None:
    """The load of an endpoint of each kind, as a multiple of the fair one."""
    load, share, total = room.load, room.share, problem.total
    load[0] = total * share[0] / first
    load[1] = total * share[1] / second
    load[2] = total * share[2] / third if third > 0 else 0.0
    load[3] = load[0] + load[1]
    load[4] = load[0] + load[2]
    load[5] = load[1] + load[2]
    load[6] = load[3] + load[2]


def _try_overlaps(problem: Problem, room: ExactRoom, first: int, second: int, third: int, least: float) -> None:
    """Try every way in which sets of these sizes can share endpoints. ``least`` bounds the cost of a request."""
    _write_loads(problem, room, first, second, third)
    load, tried = room.load, room.tried
    shared = first + second + third - problem.total
    most = 1 + problem.limit
    for all_three in range(shared // 2 + 1 if third > 0 and load[6] <= most else 1):
        pairs = shared - 2 * all_three
        for pair01 in range(pairs + 1 if load[3] <= most else 1):
            for pair02 in range(pairs - pair01 + 1 if third > 0 and load[4] <= most else 1):
                pair12 = pairs - pair01 - pair02
                if pair12 > 0 and (third == 0 or load[5] > most):
                    continue
                tried[0] = first - pair01 - pair02 - all_three
                tried[1] = second - pair01 - pair12 - all_three
                tried[2] = third - pair02 - pair12 - all_three
                if tried[0] < 0 or tried[1] < 0 or tried[2] < 0:
                    continue
                tried[3], tried[4], tried[5], tried[6] = pair01, pair02, pair12, all_three
                _try_counts(problem, room, least)


def _try_counts(problem: Problem, room: ExactRoom, least: float) -> None:
    """Remember the sets to try where they are better than the best so far."""
    tried, load = room.tried, room.load
    worst = 0.0
    mean = 0.0
    for kind in range(KINDS):
        if tried[kind] > 0:
            worst = max(worst, load[kind] - 1)
            mean += tried[kind] * abs(load[kind] - 1)
    mean /= problem.total
    if not is_better(problem, least, worst, mean, problem.best):
        return
    cost = _plain_cost(problem, room) if problem.is_plain else _cost_by_table(problem, room)
    if is_better(problem, cost, worst, mean, problem.best):
        write_value(problem, cost, worst, mean, problem.best)
        for kind in range(KINDS):
            room.best[kind] = tried[kind]


def _plain_cost(problem: Problem, room: ExactRoom) -> float:
    """The least part of traffic that leaves its zone, with the overlaps to try.

    Of the endpoints that a zone uses alone, as many as it has are its own. A shared one can be located in any of its
    zones: the zone with the largest load per endpoint takes as many as it can, then the next (a greedy choice is
    optimal here, because what sets of zones can take is submodular).
    """
    tried, spare, part = room.tried, room.spare, room.part
    shared = tried[3] + tried[4] + tried[5] + tried[6]
    stays = 0.0
    for consumer in range(problem.consumer_count):
        own = problem.supply[problem.consumers[consumer]]
        part[consumer] = room.load[consumer] / problem.total
        stays += part[consumer] * min(own, tried[consumer])
        # The pair without this consumer is of no use for it.
        spare[consumer] = min(max(0, own - tried[consumer]), shared - tried[5 - consumer])
    # Any two of the three zones can take all shared endpoints together.
    for _ in range(problem.consumer_count):
        largest = -1
        for consumer in range(problem.consumer_count):
            if spare[consumer] >= 0 and (largest < 0 or part[consumer] > part[largest]):
                largest = consumer
        taken = min(spare[largest], shared)
        stays += part[largest] * taken
        shared -= taken
        spare[largest] = -1
    return 1 - stays


def _cost_by_table(problem: Problem, room: ExactRoom) -> float:
    """The least mean cost of a request, with the overlaps to try and a table of costs."""
    _place_kinds(problem, room, room.tried)
    cost = 0.0
    for cell in range(KINDS * len(problem.supply)):
        cost += room.flow[cell] * room.flow_cost[cell]
    return cost / problem.total


# --- where the endpoints of each kind are located ---------------------------------------------------------------------


def place_best(problem: Problem, room: ExactRoom) -> None:
    """Write into ``room.flow`` how many endpoints of each kind of the best sets are in each zone."""
    size = room.size
    for consumer in range(MAX_CONSUMERS):
        size[consumer] = 0
        for kind in range(KINDS):
            size[consumer] += room.best[kind] if uses(kind, consumer) else 0
    _write_loads(problem, room, size[0], size[1], size[2])
    _place_kinds(problem, room, room.best)


def _place_kinds(problem: Problem, room: ExactRoom, counts: Any) -> None:
    """Write into ``room.flow`` how many endpoints of each kind are in each zone, with the least cost."""
    zones = len(problem.supply)
    flow = room.flow
    for kind in range(KINDS):
        for zone in range(zones):
            cost = 0.0
            for consumer in range(problem.consumer_count):
                if uses(kind, consumer):
                    row = problem.consumers[consumer] * zones
                    cost += room.load[consumer] * problem.costs[row + zone] / COST_UNIT
            room.flow_cost[kind * zones + zone] = cost
            flow[kind * zones + zone] = 0
    for zone in range(zones):
        room.unused[zone] = problem.supply[zone]
    # At home first, then anywhere.
    for turn in range(2):
        for kind in range(KINDS):
            needed = counts[kind]
            for zone in range(zones):
                needed -= flow[kind * zones + zone]
            for zone in range(zones):
                if turn == 1 or _is_at_home(problem, kind, zone):
                    amount = min(needed, room.unused[zone])
                    flow[kind * zones + zone] += amount
                    room.unused[zone] -= amount
                    needed -= amount
    cheapest_flow(KINDS, zones, flow, room.flow_cost, room.flow_room)


def uses(kind: int, consumer: int) -> bool:
    """Whether a consumer, by its position, uses the endpoints of a kind."""
    return _USERS[kind] >> consumer & 1 == 1


def _is_at_home(problem: Problem, kind: int, zone: int) -> bool:
    for consumer in range(problem.consumer_count):
        if problem.consumers[consumer] == zone:
            return uses(kind, consumer)
    return False
