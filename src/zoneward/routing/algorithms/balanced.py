"""Balanced: each zone uses a set of endpoints, so that as much traffic stays in its zone as endpoints can carry.

Sets may share endpoints, which is what helps Services of a few Pods: with two endpoints in three zones, the two zones
with endpoints use their own, and the third uses both, or the one with less load. What "as much" means, and how much
load is too much, are parameters (`zoneward.routing.algorithms.set_value`).

- Two or three zones with demand: all sets are tried where there are at most `EXACT_ENDPOINTS` endpoints, and then the
  answer is the optimum. With more endpoints rounding matters little, and only sets of nearly the same sizes as good
  disjoint ones are tried (`zoneward.routing.algorithms.shared_sets`).
- More zones: good disjoint sets, for one zone or for several together (`zoneward.routing.algorithms.disjoint_sets`),
  which single endpoints then leave, join, or share (`zoneward.routing.algorithms.endpoint_steps`).
"""

from collections.abc import MutableSequence
from typing import Final

from zoneward.routing.algorithms.disjoint_sets import FAIR, GIVEN, NEAR, SIZES_AT, find_disjoint_sets
from zoneward.routing.algorithms.endpoint_steps import improve_by_steps, write_disjoint_sets
from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu
from zoneward.routing.algorithms.set_value import OBJECTIVE_AT, cost_between, is_plain, overload_limit, value_of
from zoneward.routing.algorithms.shared_sets import (
    BEST,
    BEST_MEAN,
    BEST_VALUE,
    BEST_WORST,
    CONSUMERS,
    FOUND,
    FREE,
    FREE_REALS,
    HIGH,
    IS_PLAIN,
    LOW,
    NUMBER,
    SHARES,
    SINKS,
    TOTAL,
    ZONES,
    place_kinds,
    search_pooled_sets,
    search_shared_sets,
    uses,
)
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence

EXACT_ENDPOINTS: Final = 20
"""Up to so many endpoints in two or three zones with demand the answer is the optimum."""
_MARGIN: Final = 2
"""With more, sizes are tried that are at most so far from those of good disjoint sets."""


def balanced(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    previous: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """The best sets, as own groups and groups that zones share; impossible where nothing is better than one group for
    all zones.

    ``previous`` is all zero: the decision keeps what is in force. ``parameters``: numerator and denominator of the
    largest overload, twice, the objective, and the costs of n x n pairs of zones in millionths.
    """
    zones = len(demand)
    if not _prepare(demand, supply, parameters, scratch, reals):
        return IMPOSSIBLE
    if scratch[NUMBER] > ZONES:
        return _for_many_zones(demand, supply, parameters, previous, composition, weights, scratch, reals)
    for start in (NEAR, FAIR):
        _search_near(start, demand, supply, parameters, scratch, reals)
    if scratch[TOTAL] <= EXACT_ENDPOINTS:
        for consumer in range(scratch[NUMBER]):
            scratch[LOW + consumer] = 1
            scratch[HIGH + consumer] = scratch[TOTAL]
        search_shared_sets(supply, parameters, scratch, reals)
    elif scratch[NUMBER] == ZONES:
        search_pooled_sets(supply, parameters, scratch, reals)
    if scratch[FOUND] == 0:
        return IMPOSSIBLE
    total = scratch[TOTAL]
    sizes0 = sizes1 = sizes2 = 0
    for kind in range(SINKS):
        sizes0 += scratch[BEST + kind] if uses(kind, 0) else 0
        sizes1 += scratch[BEST + kind] if uses(kind, 1) else 0
        sizes2 += scratch[BEST + kind] if uses(kind, 2) else 0
    load0 = total * reals[SHARES] / sizes0
    load1 = total * reals[SHARES + 1] / sizes1
    load2 = total * reals[SHARES + 2] / sizes2 if sizes2 > 0 else 0.0
    place_kinds(supply, parameters, scratch, BEST, scratch, FREE, reals, FREE_REALS, load0, load1, load2)
    for zone in range(zones):
        weights[zone * zones + zone] = 1.0
    for kind in range(SINKS):
        if scratch[BEST + kind] == 0:
            continue
        group = scratch[CONSUMERS + kind] if kind < ZONES else zones + kind - ZONES
        for located in range(zones):
            composition[group * zones + located] = scratch[FREE + kind * zones + located]
        for consumer in range(scratch[NUMBER]):
            if uses(kind, consumer):
                weights[group * zones + scratch[CONSUMERS + consumer]] = 1.0
    return 2 * zones + 2


def _prepare(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> bool:
    """Write what the searches start from: one group for all zones is the best so far. False without a choice."""
    zones = len(demand)
    total = 0
    everything = 0
    number = 0
    for consumer in range(ZONES):
        scratch[CONSUMERS + consumer] = -1
        reals[SHARES + consumer] = 0.0
    for zone in range(zones):
        total += supply[zone]
        everything += demand[zone]
        if demand[zone] > 0:
            if number < ZONES:
                scratch[CONSUMERS + number] = zone
            number += 1
    if total == 0 or number < 2:
        return False
    cost = 0.0
    for zone in range(zones):
        for located in range(zones):
            cost += demand[zone] * supply[located] * cost_between(parameters, zones, zone, located)
    for consumer in range(min(number, ZONES)):
        reals[SHARES + consumer] = demand[scratch[CONSUMERS + consumer]] / everything
    scratch[NUMBER] = number
    scratch[TOTAL] = total
    scratch[FOUND] = 0
    scratch[IS_PLAIN] = 1 if is_plain(parameters, zones) else 0
    limit = overload_limit(parameters)
    reals[BEST_VALUE] = value_of(parameters[OBJECTIVE_AT], limit, cost / total / everything, 0.0, 0.0)
    reals[BEST_WORST] = 0.0
    reals[BEST_MEAN] = 0.0
    return True


def _search_near(
    start: int,
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Try sizes near those of good disjoint sets."""
    if scratch[TOTAL] < scratch[NUMBER]:
        return
    find_disjoint_sets(demand, supply, parameters, start, scratch, reals)
    for consumer in range(scratch[NUMBER]):
        size = scratch[SIZES_AT + scratch[CONSUMERS + consumer]]
        scratch[LOW + consumer] = max(1, size - _MARGIN)
        scratch[HIGH + consumer] = min(scratch[TOTAL], size + _MARGIN)
    search_shared_sets(supply, parameters, scratch, reals)


def _for_many_zones(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    previous: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """Disjoint sets, then steps of single endpoints; impossible where all that is not better than one group for all."""
    zones = len(demand)
    start = FAIR
    if proportional_zone_cpu(demand, supply, parameters, previous, composition, weights, scratch, reals) > 0:
        start = GIVEN
        for zone in range(zones):
            scratch[SIZES_AT + zone] = 0
            for located in range(zones):
                scratch[SIZES_AT + zone] += composition[zone * zones + located]
    for cell in range(zones * zones):
        composition[cell] = 0
    # It used the same scratch space.
    _prepare(demand, supply, parameters, scratch, reals)
    best = find_disjoint_sets(demand, supply, parameters, start, scratch, reals)
    for another in (NEAR, FAIR):
        if another == start:
            continue
        # Sizes and zones of the best sets, while others are looked for.
        for place in range(2 * zones):
            scratch[FREE + 8 * zones + place] = scratch[SIZES_AT + place]
        value = find_disjoint_sets(demand, supply, parameters, another, scratch, reals)
        if value > best:
            best = value
        else:
            for place in range(2 * zones):
                scratch[SIZES_AT + place] = scratch[FREE + 8 * zones + place]
    write_disjoint_sets(demand, supply, parameters, composition, weights, scratch, reals)
    if not improve_by_steps(demand, parameters, composition, weights, scratch, reals):
        return IMPOSSIBLE
    return 2 * zones + 2
