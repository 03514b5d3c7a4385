"""Sets of endpoints for two or three zones that may share endpoints: the best ones among all sizes within a window.

With sizes s of the sets, a request from zone z is sent to each endpoint of its set with p = d_z / s_z. The load of an
endpoint is the sum over the zones that use it. So only the counts of endpoints matter that are used by one zone, by
each pair of zones, and by all three: the kinds of endpoints. A kind is a number with a bit for each of its consumers.
What a request costs is then a transportation problem over the zones where endpoints are located.

Most sizes and overlaps are skipped: the cost of a zone that has the nearest endpoints for itself, and the load of its
endpoints without sharing, bound the value from above.
"""

from math import inf
from typing import Any, Final, NamedTuple

from zoneward.routing.algorithms.set_value import Problem, is_better, nearest_cost, request_cost, write_value
from zoneward.routing.algorithms.transport import FlowRoom, cheapest_flow

MAX_CONSUMERS: Final = 3
"""The most zones with demand that this search takes."""
KINDS: Final = 8
"""The numbers of kinds end below this. No endpoint is of kind 0."""
_BY_USERS: Final = (0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111)
"""Those of one zone come first: they get the endpoints at home that several could have."""
MAX_WINDOW: Final = 24
"""Sizes of one set that a search may try."""
_POOLED_MARGIN: Final = 1
_POOLED_REACH: Final = 3
"""How far from the sizes that make loads even others are tried, where zones pool their endpoints."""


class ExactRoom(NamedTuple):
    """Named arrays of the search.

    By consumer: ``low`` and ``high``, the window of sizes; its ``share`` of demand; and, by size in the window, the
    bounds ``least_cost``, ``overload`` and ``lack``. By kind: ``tried`` counts endpoints, and ``load`` is a multiple of
    the fair one. By kind and zone: ``flow`` counts endpoints, ``best`` are those of the best sets, and ``flow_cost`` is
    that of a request to one. By zone: the kind of its consumer (``home``, or 0), ``unused`` endpoints, and the
    ``price`` of a request.
    """

    low: Any
    high: Any
    share: Any
    least_cost: Any
    overload: Any
    lack: Any
    tried: Any
    load: Any
    flow: Any
    best: Any
    flow_cost: Any
    home: Any
    unused: Any
    price: Any
    flow_room: FlowRoom


def search_exactly(problem: Problem, room: ExactRoom) -> None:
    """Search for sets with sizes in the window that are better than the best so far."""
    total = problem.total
    least_cost, overload, lack = room.least_cost, room.overload, room.lack
    for consumer in range(MAX_CONSUMERS):
        _write_bounds(problem, room, consumer)
    for first in range(room.low[0], room.high[0] + 1):
        cell = first - room.low[0]
        cost0, worst0, lack0 = least_cost[cell], overload[cell], lack[cell]
        # The other sets can only add to all three: what cannot win now never does.
        if not _can_win(problem, cost0, worst0, lack0):
            continue
        for second in range(room.low[1], room.high[1] + 1):
            cell = MAX_WINDOW + second - room.low[1]
            cost1, worst1, lack1 = cost0 + least_cost[cell], max(worst0, overload[cell]), lack0 + lack[cell]
            if not _can_win(problem, cost1, worst1, lack1):
                continue
            for third in range(max(room.low[2], total - first - second), room.high[2] + 1):
                cell = 2 * MAX_WINDOW + third - room.low[2]
                cost2 = cost1 + least_cost[cell]
                if _can_win(problem, cost2, max(worst1, overload[cell]), lack1 + lack[cell]):
                    _try_overlaps(problem, room, first, second, third, cost2)


def _write_bounds(problem: Problem, room: ExactRoom, consumer: int) -> None:
    """Of each size in the window: the least cost, the overload, and the part of traffic above a fair load."""
    share = room.share[consumer]
    for size in range(room.low[consumer], room.high[consumer] + 1):
        cell = consumer * MAX_WINDOW + size - room.low[consumer]
        room.least_cost[cell] = room.overload[cell] = room.lack[cell] = 0.0
        if size > 0:
            room.least_cost[cell] = _least_cost(problem, room, consumer, size)
            room.overload[cell] = max(0.0, problem.total * share / size - 1)
            room.lack[cell] = max(0.0, share - size / problem.total)


def _least_cost(problem: Problem, room: ExactRoom, consumer: int, size: int) -> float:
    """What the requests of a zone cost, as a part of all, if its set has the nearest endpoints for itself."""
    if problem.is_plain:
        cost: float = 1 - min(problem.supply[problem.consumers[consumer]], size) / size
    else:
        for zone in range(len(problem.supply)):
            room.price[zone] = request_cost(problem, problem.consumers[consumer], zone)
        cost = nearest_cost(problem.supply, room.price, size)
    return cost * float(room.share[consumer])


def _can_win(problem: Problem, cost: float, worst: float, lack: float) -> bool:
    return worst <= problem.limit and is_better(problem, cost, worst, 2 * lack, problem.best)


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
                    _try_pools(problem, room, 1 << alone, total - size, 1 << first | 1 << second, size)
        # The third uses all endpoints, which the two divide.
        fair = int(total * share[first] / pair_share)
        near = min(max(supply[problem.consumers[first]], fair - _POOLED_REACH), fair + _POOLED_REACH)
        for start in (fair, near):
            for size in range(max(1, start - _POOLED_MARGIN), min(total - 1, start + _POOLED_MARGIN + 1) + 1):
                _try_pools(problem, room, 1 << alone | 1 << first, size, 1 << alone | 1 << second, total - size)


def _try_pools(problem: Problem, room: ExactRoom, one: int, one_count: int, other: int, other_count: int) -> None:
    """Try sets in which all endpoints are of two kinds."""
    for kind in range(KINDS):
        room.tried[kind] = 0
    room.tried[one], room.tried[other] = one_count, other_count
    least = 0.0
    for consumer in range(MAX_CONSUMERS):
        size = one_count * (one >> consumer & 1) + other_count * (other >> consumer & 1)
        room.load[1 << consumer] = problem.total * room.share[consumer] / size
        least += _least_cost(problem, room, consumer, size)
    _add_loads(room)
    _try_counts(problem, room, least)


def _try_overlaps(problem: Problem, room: ExactRoom, first: int, second: int, third: int, least: float) -> None:
    """Try every way in which sets of these sizes can share endpoints. ``least`` bounds the cost of a request."""
    load, tried, total = room.load, room.tried, problem.total
    load[0b001] = total * room.share[0] / first
    load[0b010] = total * room.share[1] / second
    # With two consumers, nothing shares endpoints with the third.
    load[0b100] = total * room.share[2] / third if third > 0 else inf
    _add_loads(room)
    shared = first + second + third - total
    most = 1 + problem.limit
    for all_three in range(shared // 2 + 1 if load[0b111] <= most else 1):
        pairs = shared - 2 * all_three
        for pair01 in range(pairs + 1 if load[0b011] <= most else 1):
            for pair02 in range(pairs - pair01 + 1 if load[0b101] <= most else 1):
                pair12 = pairs - pair01 - pair02
                tried[0b001] = first - pair01 - pair02 - all_three
                tried[0b010] = second - pair01 - pair12 - all_three
                tried[0b100] = third - pair02 - pair12 - all_three
                is_possible = tried[0b001] >= 0 and tried[0b010] >= 0 and tried[0b100] >= 0
                if is_possible and (pair12 == 0 or load[0b110] <= most):
                    tried[0b011], tried[0b101], tried[0b110], tried[0b111] = pair01, pair02, pair12, all_three
                    _try_counts(problem, room, least)


def _add_loads(room: ExactRoom) -> None:
    """Write the load of an endpoint that several zones use: the sum over these."""
    for kind in (0b011, 0b101, 0b110, 0b111):
        room.load[kind] = room.load[kind & (kind - 1)] + room.load[kind & -kind]


def _try_counts(problem: Problem, room: ExactRoom, least: float) -> None:
    """Remember the sets to try where they are better than the best so far."""
    tried, load = room.tried, room.load
    worst = 0.0
    mean = 0.0
    for kind in range(1, KINDS):
        if tried[kind] > 0:
            worst = max(worst, load[kind] - 1)
            mean += tried[kind] * abs(load[kind] - 1)
    mean /= problem.total
    if is_better(problem, least, worst, mean, problem.best):
        _place_kinds(problem, room, worst, mean)


def _place_kinds(problem: Problem, room: ExactRoom, worst: float, mean: float) -> None:
    """Find out how many endpoints of each kind to try are in each zone where requests cost least, and remember them
    where they are better than the best so far."""
    zones = len(problem.supply)
    tried, flow = room.tried, room.flow
    for kind in range(KINDS):
        for zone in range(zones):
            flow[kind * zones + zone] = 0
            if tried[kind] > 0:
                cost = 0.0
                for consumer in range(problem.consumer_count):
                    if kind >> consumer & 1:
                        cost += room.load[1 << consumer] * request_cost(problem, problem.consumers[consumer], zone)
                room.flow_cost[kind * zones + zone] = cost
    for zone in range(zones):
        room.unused[zone] = problem.supply[zone]
    for at_home in (True, False):
        for kind in _BY_USERS:
            if tried[kind] > 0:
                needed = tried[kind]
                for zone in range(zones):
                    needed -= flow[kind * zones + zone]
                for zone in range(zones):
                    if not at_home or kind & room.home[zone]:
                        amount = min(needed, room.unused[zone])
                        flow[kind * zones + zone] += amount
                        room.unused[zone] -= amount
                        needed -= amount
    cheapest_flow(KINDS, zones, flow, room.flow_cost, room.flow_room)
    cost = 0.0
    for cell in range(KINDS * zones):
        if flow[cell] > 0:
            cost += flow[cell] * room.flow_cost[cell]
    cost /= problem.total
    if is_better(problem, cost, worst, mean, problem.best):
        write_value(problem, cost, worst, mean, problem.best)
        for cell in range(KINDS * zones):
            room.best[cell] = flow[cell]
