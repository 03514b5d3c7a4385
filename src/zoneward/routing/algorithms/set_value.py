"""What ``Balanced`` compares sets of endpoints by: its objective, within the limit on overload.

A value is a single number, larger is better. With the objective *score* it is KEP-2004's; with *locality* it is the
cost, and equal costs are compared by the worst and then by the mean overload. Sets above the limit have values below
those of all others, the lower the more they overload.
"""

from typing import Final

from zoneward.routing.algorithms.signature import IntegerSequence
from zoneward.routing.score import IN_ZONE_POINTS, OVERLOAD_POINTS, SLICES_POINTS
from zoneward.routing.zone_costs import COST_UNIT

SCORE: Final = 0
LOCALITY: Final = 1
"""The objectives, as parameters give them."""
OBJECTIVE_AT: Final = 4
COSTS_AT: Final = 5
"""Where the parameters of ``Balanced`` begin that no other algorithm has: the objective, and the cost of each pair of
zones in millionths (`zoneward.routing.zone_costs`)."""

EPSILON: Final = 1e-9
_ABOVE_LIMIT: Final = -1e6


def overload_limit(parameters: IntegerSequence) -> float:
    """The largest overload that sets may have, as a share above fair."""
    return parameters[0] / parameters[1] + EPSILON


def cost_between(parameters: IntegerSequence, zones: int, start: int, end: int) -> float:
    """The cost of a request from one zone to another, 0 to 1."""
    return parameters[COSTS_AT + start * zones + end] / COST_UNIT


def is_plain(parameters: IntegerSequence, zones: int) -> bool:
    """Whether a request costs nothing in its zone and 1 elsewhere, as without any table."""
    for start in range(zones):
        for end in range(zones):
            if parameters[COSTS_AT + start * zones + end] != (0 if start == end else COST_UNIT):
                return False
    return True


def value_of(objective: int, limit: float, cost: float, worst: float, mean: float) -> float:
    """The value of sets with a mean cost of a request, the worst and the mean overload."""
    if worst > limit:
        return _ABOVE_LIMIT * (1 + worst + mean)
    if objective == LOCALITY:
        return -cost
    return IN_ZONE_POINTS * (1 - cost) + OVERLOAD_POINTS * (1 - worst) + OVERLOAD_POINTS * (1 - mean) + SLICES_POINTS


def is_better(
    objective: int,
    value: float,
    worst: float,
    mean: float,
    other_value: float,
    other_worst: float,
    other_mean: float,
) -> bool:
    """Whether the first sets are better than the others, by more than a rounding error."""
    if value > other_value + EPSILON:
        return True
    if objective != LOCALITY or value < other_value - EPSILON or worst > other_worst + EPSILON:
        return False
    return worst < other_worst - EPSILON or mean < other_mean - EPSILON
