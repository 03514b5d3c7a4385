"""Sets of endpoints for two or three zones that may share endpoints: the best ones among all sizes within a window.

With sizes s of the sets, a request from zone z goes to each endpoint of its set with p = d_z / s_z. The load of an
endpoint is the sum over the zones that use it, so that only the numbers of endpoints matter that are used by one zone,
by each pair of zones, and by all three (`OVERLAPS`); what a request costs then is a transportation problem over the
zones where endpoints are located. Without a table of costs its answer is a formula (`_plain_cost`).

Most sizes and overlaps are passed over: what each zone would pay if it had the nearest endpoints for itself, and the
load of its endpoints without sharing, bound the value from above.
"""

from collections.abc import MutableSequence
from typing import Final

from zoneward.routing.algorithms.set_value import (
    COSTS_AT,
    OBJECTIVE_AT,
    is_better,
    overload_limit,
    value_of,
)
from zoneward.routing.algorithms.signature import IntegerSequence
from zoneward.routing.algorithms.transport import cheapest_flow
from zoneward.routing.zone_costs import COST_UNIT

ZONES: Final = 3
"""The most zones with demand that this search takes."""
SINKS: Final = 7
"""Kinds of endpoints by the zones that use them: one of the three alone, then `OVERLAPS`."""
OVERLAPS: Final = ((0, 1), (0, 2), (1, 2), (0, 1, 2))
_POOLED_MARGIN: Final = 1
_POOLED_REACH: Final = 3
"""How far from the sizes that make loads even others are tried, where zones pool their endpoints."""
MAX_WINDOW: Final = 24
"""Sizes of one set that a search may try."""

# Where things are in the scratch space, whatever the number of zones.
LOW: Final = 0
"""The window: the least size of each set, then the largest."""
HIGH: Final = 3
BEST: Final = 6
"""The best sets so far: how many endpoints each kind has."""
FOUND: Final = 13
"""1 where sets were found that are better than what the search started with."""
CONSUMERS: Final = 14
"""The zones with demand; a third that does not exist is -1."""
NUMBER: Final = 17
"""How many zones have demand."""
IS_PLAIN: Final = 18
TOTAL: Final = 19
"""All endpoints."""
_TRIED: Final = 20
"""How many endpoints each kind has in the sets to try."""
FREE: Final = 28
"""From here on other steps have their scratch space."""

# And of the real numbers.
BEST_VALUE: Final = 0
BEST_WORST: Final = 1
BEST_MEAN: Final = 2
SHARES: Final = 3
"""The share of demand of each consumer."""
_COSTS: Final = 8
"""The least that a request of each consumer costs with a set of each size in the window."""
FREE_REALS: Final = _COSTS + ZONES * MAX_WINDOW


def search_shared_sets(
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Look for sets with sizes in the window that are better than the best so far, and keep these."""
    objective = parameters[OBJECTIVE_AT]
    limit = overload_limit(parameters)
    total = scratch[TOTAL]
    number = scratch[NUMBER]
    for zone in range(number):
        for size in range(scratch[LOW + zone], scratch[HIGH + zone] + 1):
            reals[_COSTS + zone * MAX_WINDOW + size - scratch[LOW + zone]] = _least_cost(
                scratch[CONSUMERS + zone], size, supply, parameters, scratch
            )
    share0, share1, share2 = reals[SHARES], reals[SHARES + 1], reals[SHARES + 2]
    costs0 = _COSTS - scratch[LOW]
    costs1 = _COSTS + MAX_WINDOW - scratch[LOW + 1]
    costs2 = _COSTS + 2 * MAX_WINDOW - scratch[LOW + 2]
    for first in range(scratch[LOW], scratch[HIGH] + 1):
        cost0 = share0 * reals[costs0 + first]
        worst0 = total * share0 / first - 1
        mean0 = max(0.0, share0 - first / total)
        # The others add to all three: what cannot win by now never does.
        if worst0 > limit or not _can_win(objective, limit, cost0, worst0, 2 * mean0, reals):
            continue
        for second in range(scratch[LOW + 1], scratch[HIGH + 1] + 1):
            worst1 = total * share1 / second - 1
            if worst1 > limit:
                continue
            worst1 = max(worst0, worst1)
            cost1 = cost0 + share1 * reals[costs1 + second]
            mean1 = mean0 + max(0.0, share1 - second / total)
            if number == 2:
                if first + second >= total and _can_win(objective, limit, cost1, worst1, 2 * mean1, reals):
                    _try_overlaps(first, second, 0, cost1, supply, parameters, scratch, reals)
                continue
            if not _can_win(objective, limit, cost1, worst1, 2 * mean1, reals):
                continue
            for third in range(max(scratch[LOW + 2], total - first - second), scratch[HIGH + 2] + 1):
                worst2 = total * share2 / third - 1
                if worst2 > limit:
                    continue
                worst2 = max(worst1, worst2)
                cost2 = cost1 + share2 * reals[costs2 + third]
                mean2 = mean1 + max(0.0, share2 - third / total)
                if _can_win(objective, limit, cost2, worst2, 2 * mean2, reals):
                    _try_overlaps(first, second, third, cost2, supply, parameters, scratch, reals)


def search_pooled_sets(
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Look for better sets among those in which one of three zones shares all its endpoints: two zones use one set, or
    one zone uses all endpoints and the others share them out.

    A zone with a small part of the demand has too few endpoints for a fair load on each, and with others it has more.
    """
    total = scratch[TOTAL]
    limit = overload_limit(parameters)
    for alone in range(ZONES):
        first, second = (1 if alone == 0 else 0), (1 if alone == 2 else 2)
        # One set for two zones, and one for the third.
        share = reals[SHARES + first] + reals[SHARES + second]
        least = int(total * share / (1 + limit)) + 1
        most = total - int(total * reals[SHARES + alone] / (1 + limit)) - 1
        near = total - supply[scratch[CONSUMERS + alone]]
        for start in (int(total * share), min(max(near, least), most)):
            for size in range(max(least, start - _POOLED_MARGIN), min(most, start + _POOLED_MARGIN + 1) + 1):
                if 0 < size < total:
                    _try_pools(alone, size, True, supply, parameters, scratch, reals)
        # The third uses all endpoints, which the two share out.
        fair = int(total * reals[SHARES + first] / share)
        near = min(max(supply[scratch[CONSUMERS + first]], fair - _POOLED_REACH), fair + _POOLED_REACH)
        for start in (fair, near):
            for size in range(max(1, start - _POOLED_MARGIN), min(total - 1, start + _POOLED_MARGIN + 1) + 1):
                _try_pools(alone, size, False, supply, parameters, scratch, reals)


def _try_pools(
    alone: int,
    size: int,
    together: bool,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Try a set of ``size`` for two zones ``together`` and the rest for the third, ``alone``; or a set of ``size`` for
    the first of the two, the rest for the other, and all for the third."""
    total = scratch[TOTAL]
    first, second = (1 if alone == 0 else 0), (1 if alone == 2 else 2)
    for kind in range(SINKS):
        scratch[_TRIED + kind] = 0
    if together:
        scratch[_TRIED + alone] = total - size
        scratch[_TRIED + _pair_of(first, second)] = size
        alone_size, first_size, second_size = total - size, size, size
    else:
        scratch[_TRIED + _pair_of(alone, first)] = size
        scratch[_TRIED + _pair_of(alone, second)] = total - size
        alone_size, first_size, second_size = total, size, total - size
    size0 = alone_size if alone == 0 else first_size
    size1 = alone_size if alone == 1 else first_size if first == 1 else second_size
    size2 = alone_size if alone == 2 else second_size
    least = (
        reals[SHARES] * _least_cost(scratch[CONSUMERS], size0, supply, parameters, scratch)
        + reals[SHARES + 1] * _least_cost(scratch[CONSUMERS + 1], size1, supply, parameters, scratch)
        + reals[SHARES + 2] * _least_cost(scratch[CONSUMERS + 2], size2, supply, parameters, scratch)
    )
    load0 = total * reals[SHARES] / size0
    load1 = total * reals[SHARES + 1] / size1
    load2 = total * reals[SHARES + 2] / size2
    _try_numbers(load0, load1, load2, least, supply, parameters, scratch, reals)


def _pair_of(one: int, other: int) -> int:
    """The kind of the endpoints that two zones use (`OVERLAPS`)."""
    return ZONES - 1 + one + other


def _can_win(
    objective: int, limit: float, cost: float, worst: float, mean: float, reals: MutableSequence[float]
) -> bool:
    """Whether sets that cost and overload at least so much may be better than the best so far."""
    worst = max(worst, 0.0)
    return is_better(
        objective,
        value_of(objective, limit, cost, worst, mean),
        worst,
        mean,
        reals[BEST_VALUE],
        reals[BEST_WORST],
        reals[BEST_MEAN],
    )


def _least_cost(
    consumer: int, size: int, supply: IntegerSequence, parameters: IntegerSequence, scratch: MutableSequence[int]
) -> float:
    """The mean cost of a request of a zone whose set has the nearest endpoints, if no other zone needed these."""
    if scratch[IS_PLAIN] == 1:
        return 1 - min(supply[consumer], size) / size
    zones = len(supply)
    left = size
    cost = 0
    row = COSTS_AT + consumer * zones
    level = -1
    while left > 0:
        # The next level of cost, in order.
        following = -1
        for zone in range(zones):
            each = parameters[row + zone]
            if each > level and supply[zone] > 0 and (following < 0 or each < following):
                following = each
        if following < 0:
            break
        level = following
        for zone in range(zones):
            if parameters[row + zone] == level:
                taken = min(left, supply[zone])
                cost += taken * level
                left -= taken
    return cost / COST_UNIT / size


def _try_overlaps(
    first: int,
    second: int,
    third: int,
    least: float,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Try every way in which sets of these sizes can share endpoints. ``least`` bounds the cost of a request."""
    limit = overload_limit(parameters)
    total = scratch[TOTAL]
    # The load of an endpoint that one zone uses alone, as a multiple of the fair one.
    load0 = total * reals[SHARES] / first
    load1 = total * reals[SHARES + 1] / second
    load2 = total * reals[SHARES + 2] / third if third > 0 else 0.0
    shared = first + second + third - total
    most = 1 + limit
    for all_three in range(shared // 2 + 1 if third > 0 and load0 + load1 + load2 <= most else 1):
        pairs = shared - 2 * all_three
        for pair0 in range(pairs + 1 if load0 + load1 <= most else 1):
            for pair1 in range(pairs - pair0 + 1 if third > 0 and load0 + load2 <= most else 1):
                pair2 = pairs - pair0 - pair1
                if pair2 > 0 and (third == 0 or load1 + load2 > most):
                    continue
                own0 = first - pair0 - pair1 - all_three
                own1 = second - pair0 - pair2 - all_three
                own2 = third - pair1 - pair2 - all_three
                if own0 < 0 or own1 < 0 or own2 < 0:
                    continue
                scratch[_TRIED] = own0
                scratch[_TRIED + 1] = own1
                scratch[_TRIED + 2] = own2
                scratch[_TRIED + 3] = pair0
                scratch[_TRIED + 4] = pair1
                scratch[_TRIED + 5] = pair2
                scratch[_TRIED + 6] = all_three
                _try_numbers(load0, load1, load2, least, supply, parameters, scratch, reals)


def _try_numbers(
    load0: float,
    load1: float,
    load2: float,
    least: float,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Keep the sets to try where they are better than the best so far. The loads are what a zone adds to each endpoint
    that it uses, as multiples of the fair one."""
    objective = parameters[OBJECTIVE_AT]
    limit = overload_limit(parameters)
    total = scratch[TOTAL]
    worst = 0.0
    mean = 0.0
    for kind in range(SINKS):
        number = scratch[_TRIED + kind]
        if number == 0:
            continue
        if kind == 0:
            load = load0
        elif kind == 1:
            load = load1
        elif kind == 2:
            load = load2
        elif kind == 3:
            load = load0 + load1
        elif kind == 4:
            load = load0 + load2
        elif kind == 5:
            load = load1 + load2
        else:
            load = load0 + load1 + load2
        worst = max(worst, load - 1)
        mean += number * abs(load - 1)
    mean /= total
    if not _can_win(objective, limit, least, worst, mean, reals):
        return
    if scratch[IS_PLAIN] == 1:
        cost = _plain_cost(supply, scratch, load0 / total, load1 / total, load2 / total)
    else:
        cost = _cost_by_table(supply, parameters, scratch, reals, load0, load1, load2)
    if _can_win(objective, limit, cost, worst, mean, reals):
        for kind in range(SINKS):
            scratch[BEST + kind] = scratch[_TRIED + kind]
        scratch[FOUND] = 1
        reals[BEST_VALUE] = value_of(objective, limit, cost, worst, mean)
        reals[BEST_WORST] = worst
        reals[BEST_MEAN] = mean


def _plain_cost(
    supply: IntegerSequence, scratch: MutableSequence[int], load0: float, load1: float, load2: float
) -> float:
    """The least part of traffic that leaves its zone, with the overlaps to try.

    Endpoints that a zone uses alone are its own as far as it has any. A shared one can be at home in any of its zones:
    the zone with the largest load per endpoint takes as many as it can, then the next (a greedy choice is the best one
    here, because what sets of zones can take is submodular).
    """
    pair0, pair1, pair2 = scratch[_TRIED + 3], scratch[_TRIED + 4], scratch[_TRIED + 5]
    every = scratch[_TRIED + 6]
    shared = pair0 + pair1 + pair2 + every
    stays = 0.0
    left0 = left1 = left2 = 0
    own = supply[scratch[CONSUMERS]]
    stays += load0 * min(own, scratch[_TRIED])
    left0 = min(max(0, own - scratch[_TRIED]), pair0 + pair1 + every)
    own = supply[scratch[CONSUMERS + 1]]
    stays += load1 * min(own, scratch[_TRIED + 1])
    left1 = min(max(0, own - scratch[_TRIED + 1]), pair0 + pair2 + every)
    if scratch[NUMBER] == ZONES:
        own = supply[scratch[CONSUMERS + 2]]
        stays += load2 * min(own, scratch[_TRIED + 2])
        left2 = min(max(0, own - scratch[_TRIED + 2]), pair1 + pair2 + every)
    # In the order of their loads; any two of the three zones can take all shared endpoints together.
    for _ in range(ZONES):
        if load0 >= load1 and load0 >= load2:
            taken = min(left0, shared)
            stays += load0 * taken
            load0 = -1.0
        elif load1 >= load2:
            taken = min(left1, shared)
            stays += load1 * taken
            load1 = -1.0
        else:
            taken = min(left2, shared)
            stays += load2 * taken
            load2 = -1.0
        shared -= taken
    return 1 - stays


def _cost_by_table(
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
    load0: float,
    load1: float,
    load2: float,
) -> float:
    """The least mean cost of a request, with the overlaps to try and a table of costs."""
    zones = len(supply)
    flow_at = FREE
    place_kinds(supply, parameters, scratch, _TRIED, scratch, flow_at, reals, FREE_REALS, load0, load1, load2)
    cost = 0.0
    for cell in range(SINKS * zones):
        cost += scratch[flow_at + cell] * reals[FREE_REALS + cell]
    return cost / scratch[TOTAL]


def place_kinds(
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    numbers_at: int,
    flow: MutableSequence[int],
    flow_at: int,
    reals: MutableSequence[float],
    reals_at: int,
    load0: float,
    load1: float,
    load2: float,
) -> None:
    """Write at ``flow_at`` how many endpoints of each kind are in each zone, with the least cost; at ``reals_at`` what
    a unit costs."""
    zones = len(supply)
    for kind in range(SINKS):
        for zone in range(zones):
            cost = 0.0
            for consumer in range(scratch[NUMBER]):
                if uses(kind, consumer):
                    load = load0 if consumer == 0 else load1 if consumer == 1 else load2
                    cost += load * parameters[COSTS_AT + scratch[CONSUMERS + consumer] * zones + zone] / COST_UNIT
            reals[reals_at + kind * zones + zone] = cost
            flow[flow_at + kind * zones + zone] = 0
    taken_at = flow_at + SINKS * zones
    for zone in range(zones):
        flow[taken_at + zone] = 0
    for turn in range(2):
        for kind in range(SINKS):
            needed = scratch[numbers_at + kind]
            for zone in range(zones):
                needed -= flow[flow_at + kind * zones + zone]
            for zone in range(zones):
                if turn == 0 and not _is_at_home(kind, zone, scratch):
                    continue
                number = min(needed, supply[zone] - flow[taken_at + zone])
                flow[flow_at + kind * zones + zone] += number
                flow[taken_at + zone] += number
                needed -= number
    cheapest_flow(SINKS, zones, flow, flow_at, reals, reals_at, flow, taken_at + zones, reals, reals_at + SINKS * zones)


def uses(kind: int, consumer: int) -> bool:
    """Whether a consumer uses the endpoints of a kind."""
    if kind < ZONES:
        return kind == consumer
    if kind == SINKS - 1:
        return True
    return consumer != ZONES + ZONES - 1 - kind


def _is_at_home(kind: int, zone: int, scratch: MutableSequence[int]) -> bool:
    at_home = False
    for consumer in range(scratch[NUMBER]):
        if scratch[CONSUMERS + consumer] == zone:
            at_home = uses(kind, consumer)
    return at_home
