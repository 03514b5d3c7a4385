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
from zoneward.routing.algorithms.set_value import (
    COSTS_AT,
    OBJECTIVE_AT,
    cost_between,
    is_plain,
    overload_limit,
    value_of,
)
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
from zoneward.routing.algorithms.signature import (
    IMPOSSIBLE,
    IntegerSequence,
    max_groups,
    sorted_input_at,
    sorted_weights_at,
)

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
        return _for_sorted_zones(demand, supply, parameters, previous, composition, weights, scratch, reals)
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
        scratch[LOW + consumer] = 0
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
    """Try sizes near those of good disjoint sets, unless they have been tried before."""
    if scratch[TOTAL] < scratch[NUMBER]:
        return
    find_disjoint_sets(demand, supply, parameters, start, scratch, reals)
    is_new = False
    for consumer in range(scratch[NUMBER]):
        size = scratch[SIZES_AT + scratch[CONSUMERS + consumer]]
        low, high = max(1, size - _MARGIN), min(scratch[TOTAL], size + _MARGIN)
        if scratch[LOW + consumer] != low or scratch[HIGH + consumer] != high:
            is_new = True
        scratch[LOW + consumer] = low
        scratch[HIGH + consumer] = high
    if is_new:
        search_shared_sets(supply, parameters, scratch, reals)


def _for_sorted_zones(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    previous: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """The same for zones in an order that their names have no part in, so that these do not change the answer."""
    zones = len(demand)
    groups = max_groups(zones)
    order = sorted_input_at(zones)
    keys = demand_at = order + zones
    supply_at, parameters_at = order + 2 * zones, order + 3 * zones
    composition_at, weights_at = parameters_at + COSTS_AT + zones * zones, sorted_weights_at(zones)
    for zone in range(zones):
        # What tells apart zones with the same demand and supply.
        key = 0
        for other in range(zones):
            key += parameters[COSTS_AT + zone * zones + other] * (1 + supply[other])
            key += parameters[COSTS_AT + other * zones + zone] * (1 + demand[other])
        scratch[keys + zone] = key
        place = zone
        while place > 0:
            other = scratch[order + place - 1]
            if (demand[other], supply[other], scratch[keys + other]) <= (demand[zone], supply[zone], key):
                break
            scratch[order + place] = other
            place -= 1
        scratch[order + place] = zone
    for place in range(COSTS_AT):
        scratch[parameters_at + place] = parameters[place]
    for place in range(zones):
        zone = scratch[order + place]
        scratch[demand_at + place] = demand[zone]
        scratch[supply_at + place] = supply[zone]
        for other in range(zones):
            scratch[parameters_at + COSTS_AT + place * zones + other] = parameters[
                COSTS_AT + zone * zones + scratch[order + other]
            ]
    found = _for_many_zones(
        scratch[demand_at:supply_at],
        scratch[supply_at:parameters_at],
        scratch[parameters_at:composition_at],
        previous,
        composition,
        weights,
        scratch,
        reals,
    )
    for cell in range(groups * zones):
        scratch[composition_at + cell] = composition[cell]
        reals[weights_at + cell] = weights[cell]
    for group in range(groups):
        # A zone's own group stands where the zone does.
        target = scratch[order + group] if group < zones else group
        for place in range(zones):
            zone = scratch[order + place]
            composition[target * zones + zone] = scratch[composition_at + group * zones + place]
            weights[target * zones + zone] = reals[weights_at + group * zones + place]
    return found


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
    # Sizes and zones of these sets, while others are looked for.
    for place in range(2 * zones):
        scratch[FREE + 8 * zones + place] = scratch[SIZES_AT + place]
    if find_disjoint_sets(demand, supply, parameters, NEAR, scratch, reals) <= best:
        for place in range(2 * zones):
            scratch[SIZES_AT + place] = scratch[FREE + 8 * zones + place]
    write_disjoint_sets(demand, supply, parameters, composition, weights, scratch, reals)
    if not improve_by_steps(demand, parameters, composition, weights, scratch, reals):
        return IMPOSSIBLE
    return 2 * zones + 2
