"""The proposal's score of an allocation (KEP-2004 § Evaluation Tool, ``docs/lab.md`` § What is scored).

`measure` works on the flat arrays of `zoneward.routing.algorithms`, and numba can compile it as it is; `total` adds up
the measures.
"""

from collections.abc import MutableSequence, Sequence
from typing import Final

IN_ZONE: Final = 0
MAX_OVERLOAD: Final = 1
MEAN_OVERLOAD: Final = 2
SLICES: Final = 3
MEAN_SQUARE: Final = 4
"""The index of each measure."""
MEASURES: Final = 5

IN_ZONE_POINTS: Final = 45
OVERLOAD_POINTS: Final = 20
SLICES_POINTS: Final = 15
"""What each part adds to the score at most; the worst and the mean overload count alike."""


def measure(
    demand: Sequence[int],
    groups: int,
    composition: Sequence[int],
    weights: Sequence[float],
    per_slice: int,
    measures: MutableSequence[float],
    reals: MutableSequence[float],
) -> None:
    """Write into ``measures`` the share of traffic that stays in its zone, the worst and the mean overload (shares
    above fair, unclipped; the worst never below 0), the number of slices, and the mean square of the distances from
    fair whose mean size is the mean overload.

    ``reals`` has room for one number per zone, and holds afterwards how many endpoints, by weight, the zone consumes. A
    zone that consumes none sends its traffic to all, as proxies do. Demand and endpoints must not be all zero.
    """
    zones = len(demand)
    total_demand = 0
    total = 0
    for zone in range(zones):
        total_demand += demand[zone]
        reals[zone] = 0.0
    for group in range(groups):
        count = 0
        for located in range(zones):
            count += composition[group * zones + located]
        total += count
        for zone in range(zones):
            reals[zone] += count * weights[group * zones + zone]
    in_zone = 0.0
    worst = 0.0
    mean = 0.0
    square = 0.0
    slices = 0
    for group in range(groups):
        count = 0
        for located in range(zones):
            count += composition[group * zones + located]
        if count == 0:
            continue
        load = 0.0
        for zone in range(zones):
            if reals[zone] > 0:
                part = demand[zone] / total_demand * weights[group * zones + zone] / reals[zone]
            else:
                part = demand[zone] / total_demand / total
            load += part
            in_zone += part * composition[group * zones + zone]
        deviation = total * load - 1
        worst = max(worst, deviation)
        mean += abs(deviation) * count
        square += deviation * deviation * count
        slices += (count + per_slice - 1) // per_slice
    measures[IN_ZONE] = in_zone
    measures[MAX_OVERLOAD] = worst
    measures[MEAN_OVERLOAD] = mean / total
    measures[SLICES] = float(slices)
    measures[MEAN_SQUARE] = square / total


def total(*, in_zone: float, max_overload: float, mean_overload: float, slices: float) -> float:
    """The score, at most 100. ``slices`` is the fewest slices that suffice, divided by those that there are."""
    return (
        IN_ZONE_POINTS * in_zone
        + OVERLOAD_POINTS * (1 - max_overload)
        + OVERLOAD_POINTS * (1 - mean_overload)
        + SLICES_POINTS * slices
    )
