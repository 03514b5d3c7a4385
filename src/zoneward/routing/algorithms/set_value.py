"""What ``Balanced`` searches by: the problem, and the value of sets of endpoints.

A value is a single number, larger is better. With the objective *score* it is KEP-2004's; with *locality* it is the
cost, and equal costs are compared by the worst and then by the mean overload. Sets above the limit on overload have
values below those of all others, the lower the more they overload.
"""

from collections.abc import MutableSequence
from typing import Any, Final, NamedTuple

from zoneward.routing.algorithms.signature import IntegerSequence
from zoneward.routing.score import IN_ZONE_POINTS, OVERLOAD_POINTS, SLICES_POINTS

SCORE: Final = 0
LOCALITY: Final = 1
"""The objectives, as parameters give them."""
OBJECTIVE_AT: Final = 4
COSTS_AT: Final = 5
"""Where the parameters of ``Balanced`` begin that no other algorithm has: the objective, and the cost of each pair of
zones in millionths (`zoneward.routing.configuration.cost_table`)."""
COST_UNIT: Final = 1_000_000
"""A cost of 1, as algorithms take it."""

_EPSILON: Final = 1e-9
_ABOVE_LIMIT: Final = -1e6


class Search(NamedTuple):
    """The input of a search, for n zones, and its room: named arrays that numba compiles.

    ``demand``, ``supply`` and ``shares`` (of all demand) have n values, and ``order`` has the zones, most demand first.
    ``costs`` has n x n in millionths, by the zone where a request starts and the one where its endpoint is. The first
    ``consumer_count`` of ``consumers`` are the zones with demand. ``total`` counts endpoints. ``is_plain``: a request
    costs nothing in its zone, and 1 elsewhere. ``best`` has the value, the worst and the mean overload of the best sets
    so far, at first of one group for all; ``round_best`` those of the sets from which steps start.

    Disjoint sets have the name of one of their zones. ``set_of`` has the set of each zone, ``size`` the endpoints of
    each set, and ``share`` its part of all requests. By set and by the sizes that are measured: the ``cost`` of its
    requests, as a part of that of all, its ``overload``, and ``lack``, the part of traffic above a fair load. By zone,
    ``price`` is that of a request, and ``unused`` counts endpoints.

    Sets that share endpoints are groups, as algorithms return them, or kinds (`exact_search`). By group: ``users`` has
    a bit for each of its zones, ``count`` its endpoints, and ``load`` is that of each; ``groups`` has those of disjoint
    sets, in the order of these. By group and zone: ``composition``, and ``group_price`` of a request. By zone: how many
    endpoints it uses (``used``), what it sends to each (``part``), and what its requests to all cost (``zone_cost``).

    The exact search tries sizes from ``low`` to ``high`` for each consumer; ``best_kinds`` has the best sets, by kind
    and zone. ``flow_room`` is `zoneward.routing.algorithms.transport.FlowRoom`.
    """

    demand: Any
    supply: Any
    costs: Any
    shares: Any
    order: Any
    consumers: Any
    consumer_count: int
    total: int
    limit: float
    objective: int
    is_plain: bool
    best: Any
    round_best: Any
    set_of: Any
    size: Any
    share: Any
    cost: Any
    overload: Any
    lack: Any
    price: Any
    unused: Any
    users: Any
    composition: Any
    count: Any
    load: Any
    groups: Any
    group_price: Any
    used: Any
    part: Any
    zone_cost: Any
    low: Any
    high: Any
    best_kinds: Any
    flow_room: Any


# --- values -----------------------------------------------------------------------------------------------------------


def overload_limit(parameters: IntegerSequence) -> float:
    """The largest overload that sets may have, as a share above fair."""
    return parameters[0] / parameters[1] + _EPSILON


def value_of(objective: int, limit: float, cost: float, worst: float, mean: float) -> float:
    """The value of sets with a mean cost of a request, the worst and the mean overload."""
    if worst > limit:
        return _ABOVE_LIMIT * (1 + worst + mean)
    if objective == LOCALITY:
        return -cost
    return IN_ZONE_POINTS * (1 - cost) + OVERLOAD_POINTS * (1 - worst) + OVERLOAD_POINTS * (1 - mean) + SLICES_POINTS


def is_better(search: Search, cost: float, worst: float, mean: float, other: MutableSequence[float]) -> bool:
    """Whether sets are better than ``other``, which `write_value` wrote, by more than a rounding error.

    With lower bounds of cost and overloads: whether sets may be better.
    """
    value = value_of(search.objective, search.limit, cost, worst, mean)
    if value > other[0] + _EPSILON:
        return True
    if search.objective != LOCALITY or value < other[0] - _EPSILON or worst > other[1] + _EPSILON:
        return False
    return worst < other[1] - _EPSILON or mean < other[2] - _EPSILON


def write_value(search: Search, cost: float, worst: float, mean: float, measures: MutableSequence[float]) -> None:
    """Write what `is_better` compares with."""
    measures[0] = value_of(search.objective, search.limit, cost, worst, mean)
    measures[1] = worst
    measures[2] = mean
    measures[3] = cost


# --- disjoint sets ----------------------------------------------------------------------------------------------------


def measure_set(search: Search, chosen: int, size: int, cell: int) -> None:
    """Write the measures of a set as if it had ``size`` endpoints, the nearest ones, at ``cell``."""
    share = search.share[chosen]
    search.cost[cell] = set_cost(search, chosen, size)
    search.overload[cell] = search.total * share / size - 1
    search.lack[cell] = max(0.0, share - size / search.total)


def set_cost(search: Search, chosen: int, size: int) -> float:
    """The cost of the requests of a set with ``size`` endpoints, the nearest ones, as a part of that of all."""
    return _plain_cost(search, chosen, size) if search.is_plain else _table_cost(search, chosen, size)


def _plain_cost(search: Search, chosen: int, size: int) -> float:
    """The zones with most demand have their own endpoints."""
    cost = 0.0
    left = size
    for position in range(len(search.supply)):
        zone = search.order[position]
        if search.set_of[zone] == chosen:
            taken = min(left, search.supply[zone])
            cost += search.shares[zone] * (1 - taken / size)
            left -= taken
    return cost


def _table_cost(search: Search, chosen: int, size: int) -> float:
    supply, price = search.supply, search.price
    for located in range(len(supply)):
        price[located] = 0.0
        for zone in range(len(supply)):
            if search.set_of[zone] == chosen:
                price[located] += search.shares[zone] * request_cost(search, zone, located)
    cost = 0.0
    left = size
    while left > 0:
        nearest = -1
        for zone in range(len(supply)):
            if supply[zone] > 0 and price[zone] >= 0 and (nearest < 0 or price[zone] < price[nearest]):
                nearest = zone
        if nearest < 0:
            break
        taken = min(left, supply[nearest])
        cost += taken * price[nearest]
        left -= taken
        price[nearest] = -1.0
    return cost / size


def request_cost(search: Search, start: int, end: int) -> float:
    """The cost of a request from one zone to another, 0 to 1."""
    cost: float = search.costs[start * len(search.supply) + end] / COST_UNIT
    return cost
