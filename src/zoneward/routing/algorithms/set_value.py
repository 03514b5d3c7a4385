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

MEASURES: Final = 4
"""How many real numbers `write_value` writes."""

EPSILON: Final = 1e-9
_ABOVE_LIMIT: Final = -1e6


class Problem(NamedTuple):
    """The input of a search, for n zones; named arrays that numba compiles.

    ``demand``, ``supply`` and ``shares`` (of all demand) have n values; ``costs`` has n x n in millionths, by the zone
    where a request starts and the one where its endpoint is. The first ``consumer_count`` of ``consumers`` are the
    zones with demand. ``total`` counts endpoints. ``is_plain``: a request costs nothing in its zone, and 1 elsewhere.
    ``best`` has the value, the worst and the mean overload of the best sets so far; at first, of one group for all.
    """

    demand: Any
    supply: Any
    costs: Any
    shares: Any
    consumers: Any
    consumer_count: int
    total: int
    limit: float
    objective: int
    is_plain: bool
    best: Any


def overload_limit(parameters: IntegerSequence) -> float:
    """The largest overload that sets may have, as a share above fair."""
    return parameters[0] / parameters[1] + EPSILON


def request_cost(problem: Problem, start: int, end: int) -> float:
    """The cost of a request from one zone to another, 0 to 1."""
    cost: float = problem.costs[start * len(problem.supply) + end] / COST_UNIT
    return cost


def nearest_cost(supply: IntegerSequence, price: MutableSequence[float], size: int) -> float:
    """The mean cost of a request to ``size`` endpoints, the cheapest ones, by the price of a request to each zone.
    Overwrites the prices of zones that it uses up."""
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


def value_of(objective: int, limit: float, cost: float, worst: float, mean: float) -> float:
    """The value of sets with a mean cost of a request, the worst and the mean overload."""
    if worst > limit:
        return _ABOVE_LIMIT * (1 + worst + mean)
    if objective == LOCALITY:
        return -cost
    return IN_ZONE_POINTS * (1 - cost) + OVERLOAD_POINTS * (1 - worst) + OVERLOAD_POINTS * (1 - mean) + SLICES_POINTS


def is_better(problem: Problem, cost: float, worst: float, mean: float, other: MutableSequence[float]) -> bool:
    """Whether sets are better than ``other``, which `write_value` wrote, by more than a rounding error.

    With lower bounds of cost and overloads: whether sets may be better.
    """
    value = value_of(problem.objective, problem.limit, cost, worst, mean)
    if value > other[0] + EPSILON:
        return True
    if problem.objective != LOCALITY or value < other[0] - EPSILON or worst > other[1] + EPSILON:
        return False
    return worst < other[1] - EPSILON or mean < other[2] - EPSILON


def write_value(problem: Problem, cost: float, worst: float, mean: float, measures: MutableSequence[float]) -> None:
    """Write what `is_better` compares with."""
    measures[0] = value_of(problem.objective, problem.limit, cost, worst, mean)
    measures[1] = worst
    measures[2] = mean
    measures[3] = cost
