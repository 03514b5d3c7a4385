"""Disjoint sets of endpoints, each for one zone or for several together: good ones, by steps that make them better.

With few endpoints a zone, some zones have to share a set, as one zone with the demand of all of them. A step gives
endpoints of one set to another (many at first, then fewer), or lets a zone go over to another set; the best step is
made while there is one. What a set costs depends on its zones and its size alone, so that steps are compared by the
sets that they change.
"""

from collections.abc import MutableSequence, Sequence
from typing import Final

from zoneward.routing.algorithms.set_value import COSTS_AT, OBJECTIVE_AT, is_better, overload_limit, value_of
from zoneward.routing.algorithms.shared_sets import FREE, FREE_REALS, IS_PLAIN, TOTAL
from zoneward.routing.algorithms.signature import IntegerSequence
from zoneward.routing.zone_costs import COST_UNIT

NEAR: Final = 0
"""Start with the endpoints of each zone in its own set."""
FAIR: Final = 1
"""Start with endpoints in proportion to demand."""
GIVEN: Final = 2
"""Start with the sizes that the scratch space has already, one for each zone with demand."""
NO_SET: Final = -1
_MOST_STEPS: Final = 100_000
"""Only a bound that guarantees an end."""


SIZES_AT: Final = FREE
"""Where the scratch space has the size of each set, by the zone that it is called after; 0 without a set."""
_SHARES_AT: Final = FREE_REALS
"""Where the real numbers have the share of demand of each zone; then, of each set, its share of demand, what its
requests cost, and what they would cost with more and with fewer endpoints; then room for one number a zone, and for
the measures of what is tried and of the best so far. Behind those stand `_steps_at`."""


def sets_at(zones: int) -> int:
    """Where the scratch space has the set of each zone; `NO_SET` for one without demand."""
    return FREE + zones


def _steps_at(zones: int) -> int:
    """Where the real numbers have, of each set, by how much the mean overload changes and what its own one is with more
    endpoints, then the same with fewer."""
    return _SHARES_AT + 7 * zones + 8


def _order_at(zones: int) -> int:
    """Where the scratch space has the zones, those with most demand first."""
    return FREE + 2 * zones


def find_disjoint_sets(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    start: int,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> float:
    """Write sizes and zones of good sets into the scratch space. Returns their value.

    Zones share sets only where there are more than three with demand: `search_shared_sets` does better with fewer.
    """
    zones = len(demand)
    total = scratch[TOTAL]
    consumers = _sort_by_demand(demand, scratch, reals)
    if start == NEAR and consumers > 3:
        _start_at_home(demand, supply, parameters, scratch, reals)
    else:
        _start(consumers, supply, start, scratch, reals)
    for zone in range(zones):
        if scratch[SIZES_AT + zone] > 0:
            _remember(zone, supply, parameters, scratch, reals)
    step = 1
    while 2 * step < total:
        step *= 2
    merges = consumers > 3
    for _ in range(_MOST_STEPS):
        _move_endpoints(step, supply, parameters, scratch, reals)
        if step > 1:
            step //= 2
        elif not merges or not _move_zone(supply, parameters, scratch, reals):
            break
    return _value(zones, parameters, scratch, reals)


def _sort_by_demand(demand: IntegerSequence, scratch: MutableSequence[int], reals: MutableSequence[float]) -> int:
    """Write the order of zones and their shares; returns how many have demand."""
    zones = len(demand)
    order, shares = _order_at(zones), _SHARES_AT
    everything = 0
    for zone in range(zones):
        everything += demand[zone]
    consumers = 0
    for zone in range(zones):
        reals[shares + zone] = demand[zone] / everything
        place = zone
        while place > 0 and demand[scratch[order + place - 1]] < demand[zone]:
            scratch[order + place] = scratch[order + place - 1]
            place -= 1
        scratch[order + place] = zone
        consumers += 1 if demand[zone] > 0 else 0
    return consumers


def _start(
    consumers: int, supply: IntegerSequence, start: int, scratch: MutableSequence[int], reals: MutableSequence[float]
) -> None:
    """Sets to start with: one for each zone, or one for each endpoint where there are more zones."""
    zones = len(supply)
    total = scratch[TOTAL]
    sizes, sets, order, shares = SIZES_AT, sets_at(zones), _order_at(zones), _SHARES_AT
    for zone in range(zones):
        if start != GIVEN:
            scratch[sizes + zone] = 0
        scratch[sets + zone] = zone if scratch[sizes + zone] > 0 else NO_SET
        reals[shares + zones + zone] = 0.0
    if start == GIVEN:
        return
    number = min(consumers, total)
    left = total
    for place in range(consumers):
        zone = scratch[order + place]
        chosen = zone
        if place >= number:
            for other in range(number):
                each = scratch[order + other]
                if chosen == zone or reals[shares + zones + each] < reals[shares + zones + chosen]:
                    chosen = each
        else:
            wanted = supply[zone] if start == NEAR else int(total * reals[shares + zone])
            size = max(1, min(wanted, left - (number - place - 1)))
            scratch[sizes + zone] = size
            left -= size
        scratch[sets + zone] = chosen
        reals[shares + zones + chosen] += reals[shares + zone]
    while left > 0:
        chosen = scratch[order]
        for place in range(number):
            zone = scratch[order + place]
            if (
                total * reals[shares + zones + zone] - scratch[sizes + zone]
                > total * reals[shares + zones + chosen] - scratch[sizes + chosen]
            ):
                chosen = zone
        more = max(1, left // 2)
        scratch[sizes + chosen] += more
        left -= more


def _start_at_home(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Sets to start with: one for each zone with endpoints. A zone without any joins the nearest of these, of several
    the one with the least demand for each endpoint; endpoints where no traffic starts go to where it is largest."""
    zones = len(supply)
    sizes, sets, order, shares = SIZES_AT, sets_at(zones), _order_at(zones), _SHARES_AT
    idle = 0
    for zone in range(zones):
        has_set = demand[zone] > 0 and supply[zone] > 0
        scratch[sizes + zone] = supply[zone] if has_set else 0
        scratch[sets + zone] = zone if has_set else NO_SET
        reals[shares + zones + zone] = reals[shares + zone] if has_set else 0.0
        idle += 0 if has_set else supply[zone]
    if idle == scratch[TOTAL]:
        # No zone with traffic has endpoints: all share them.
        scratch[sizes + scratch[order]] = idle
        scratch[sets + scratch[order]] = scratch[order]
        idle = 0
    for place in range(zones):
        zone = scratch[order + place]
        if demand[zone] == 0 or scratch[sets + zone] != NO_SET:
            continue
        nearest = NO_SET
        for other in range(zones):
            if scratch[sizes + other] == 0:
                continue
            if nearest == NO_SET:
                nearest = other
                continue
            row = COSTS_AT + zone * zones
            step = parameters[row + other] - parameters[row + nearest]
            load = reals[shares + zones + other] * scratch[sizes + nearest]
            if step < 0 or (step == 0 and load < reals[shares + zones + nearest] * scratch[sizes + other]):
                nearest = other
        scratch[sets + zone] = nearest
        reals[shares + zones + nearest] += reals[shares + zone]
    if idle > 0:
        neediest = NO_SET
        for zone in range(zones):
            if scratch[sizes + zone] > 0 and (
                neediest == NO_SET
                or reals[shares + zones + zone] * scratch[sizes + neediest]
                > reals[shares + zones + neediest] * scratch[sizes + zone]
            ):
                neediest = zone
        scratch[sizes + neediest] += idle


def _set_cost(
    chosen: int,
    size: int,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> float:
    """What the requests of a set cost with so many endpoints, the nearest ones, as a part of all requests."""
    zones = len(supply)
    sets, order, shares = sets_at(zones), _order_at(zones), _SHARES_AT
    left = size
    if scratch[IS_PLAIN] == 1:
        stays = 0.0
        for place in range(zones):
            zone = scratch[order + place]
            if scratch[sets + zone] == chosen:
                taken = min(left, supply[zone])
                stays += taken * reals[shares + zone]
                left -= taken
        return reals[shares + zones + chosen] - stays / size
    costs = shares + 5 * zones
    for located in range(zones):
        reals[costs + located] = 0.0
        for zone in range(zones):
            if scratch[sets + zone] == chosen:
                reals[costs + located] += (
                    reals[shares + zone] * parameters[COSTS_AT + zone * zones + located] / COST_UNIT
                )
    cost = 0.0
    while left > 0:
        nearest = -1
        for located in range(zones):
            if (
                supply[located] > 0
                and reals[costs + located] >= 0
                and (nearest < 0 or reals[costs + located] < reals[costs + nearest])
            ):
                nearest = located
        if nearest < 0:
            break
        taken = min(left, supply[nearest])
        cost += taken * reals[costs + nearest]
        left -= taken
        reals[costs + nearest] = -1.0
    return cost / size


def _remember(
    chosen: int,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Write the share of demand and the cost of a set."""
    zones = len(supply)
    sets, shares = sets_at(zones), _SHARES_AT
    share = 0.0
    for zone in range(zones):
        if scratch[sets + zone] == chosen:
            share += reals[shares + zone]
    reals[shares + zones + chosen] = share
    reals[shares + 2 * zones + chosen] = _set_cost(
        chosen, scratch[SIZES_AT + chosen], supply, parameters, scratch, reals
    )


def _value(zones: int, parameters: IntegerSequence, scratch: Sequence[int], reals: MutableSequence[float]) -> float:
    """The value of the sets, which it writes into the room with their worst and mean overload."""
    total = scratch[TOTAL]
    cost = 0.0
    worst = 0.0
    mean = 0.0
    for chosen in range(zones):
        size, share = scratch[SIZES_AT + chosen], reals[_SHARES_AT + zones + chosen]
        if size > 0:
            cost += reals[_SHARES_AT + 2 * zones + chosen]
            worst = max(worst, total * share / size - 1)
            mean += max(0.0, share - size / total)
    room = _SHARES_AT + 6 * zones
    reals[room] = value_of(parameters[OBJECTIVE_AT], overload_limit(parameters), cost, worst, 2 * mean)
    reals[room + 1] = worst
    reals[room + 2] = 2 * mean
    return reals[room]


def _keep_if_better(zones: int, parameters: IntegerSequence, reals: MutableSequence[float]) -> bool:
    """Whether the sets measured last are better than the best of this round, which they then are."""
    room = _SHARES_AT + 6 * zones
    if not is_better(
        parameters[OBJECTIVE_AT],
        reals[room],
        reals[room + 1],
        reals[room + 2],
        reals[room + 3],
        reals[room + 4],
        reals[room + 5],
    ):
        return False
    for number in range(3):
        reals[room + 3 + number] = reals[room + number]
    return True


def _move_endpoints(
    step: int,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Give ``step`` endpoints of one set to another while that is better; each time the best of all such steps."""
    for chosen in range(len(supply)):
        _price_steps(chosen, step, supply, parameters, scratch, reals)
    for _ in range(_MOST_STEPS):
        if not _make_best_step(step, supply, parameters, scratch, reals):
            break


def _price_steps(
    chosen: int,
    step: int,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Write what would come of a set with ``step`` endpoints more and fewer."""
    zones = len(supply)
    total = scratch[TOTAL]
    steps = _steps_at(zones) + chosen
    size, share = scratch[SIZES_AT + chosen], reals[_SHARES_AT + zones + chosen]
    lacks = max(0.0, share - size / total)
    if size > 0:
        reals[_SHARES_AT + 3 * zones + chosen] = _set_cost(chosen, size + step, supply, parameters, scratch, reals)
        reals[steps] = max(0.0, share - (size + step) / total) - lacks
        reals[steps + zones] = total * share / (size + step) - 1
    if size > step:
        reals[_SHARES_AT + 4 * zones + chosen] = _set_cost(chosen, size - step, supply, parameters, scratch, reals)
        reals[steps + 2 * zones] = max(0.0, share - (size - step) / total) - lacks
        reals[steps + 3 * zones] = total * share / (size - step) - 1


def _make_best_step(
    step: int,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> bool:
    zones = len(supply)
    total, sizes, shares = scratch[TOTAL], SIZES_AT, _SHARES_AT
    room = shares + 6 * zones
    _value(zones, parameters, scratch, reals)
    for number in range(3):
        reals[room + 3 + number] = reals[room + number]
    # What all sets cost and overload, and the three that overload most: two of them may be in a step.
    limit = overload_limit(parameters)
    cost = mean = 0.0
    top0 = top1 = -1
    worst0 = worst1 = worst2 = -1.0
    for chosen in range(zones):
        size, share = scratch[sizes + chosen], reals[shares + zones + chosen]
        if size == 0:
            continue
        cost += reals[shares + 2 * zones + chosen]
        mean += max(0.0, share - size / total)
        worst = total * share / size - 1
        if worst > worst0:
            worst2 = worst1
            top1, worst1 = top0, worst0
            top0, worst0 = chosen, worst
        elif worst > worst1:
            worst2 = worst1
            top1, worst1 = chosen, worst
        elif worst > worst2:
            worst2 = worst
    costs, steps = shares + 2 * zones, _steps_at(zones)
    best_giver = best_taker = -1
    for giver in range(zones):
        if scratch[sizes + giver] <= step:
            continue
        given_cost = cost - reals[costs + giver] + reals[costs + 2 * zones + giver]
        given_mean = mean + reals[steps + 2 * zones + giver]
        given_worst = reals[steps + 3 * zones + giver]
        for taker in range(zones):
            if taker == giver or scratch[sizes + taker] == 0:
                continue
            worst = worst0
            if top0 in (giver, taker):
                worst = worst2 if top1 in (giver, taker) else worst1
            if given_worst > worst:
                worst = given_worst
            if reals[steps + zones + taker] > worst:
                worst = reals[steps + zones + taker]
            worst = max(worst, 0.0)
            found_cost = given_cost - reals[costs + taker] + reals[costs + zones + taker]
            found_mean = given_mean + reals[steps + taker]
            if found_cost >= cost and found_mean >= mean and worst >= worst0:
                # Better in nothing.
                continue
            reals[room] = value_of(parameters[OBJECTIVE_AT], limit, found_cost, worst, 2 * found_mean)
            reals[room + 1] = worst
            reals[room + 2] = 2 * found_mean
            if _keep_if_better(zones, parameters, reals):
                best_giver, best_taker = giver, taker
    if best_giver < 0:
        return False
    scratch[sizes + best_giver] -= step
    scratch[sizes + best_taker] += step
    reals[shares + 2 * zones + best_giver] = reals[shares + 4 * zones + best_giver]
    reals[shares + 2 * zones + best_taker] = reals[shares + 3 * zones + best_taker]
    _price_steps(best_giver, step, supply, parameters, scratch, reals)
    _price_steps(best_taker, step, supply, parameters, scratch, reals)
    return True


def _move_zone(
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> bool:
    """Let a zone go over to another set where that is better; the best of all such steps.

    A set that its last zone leaves gives its endpoints to the other set.
    """
    zones = len(supply)
    sizes, sets, shares = SIZES_AT, sets_at(zones), _SHARES_AT
    room = shares + 6 * zones
    _value(zones, parameters, scratch, reals)
    for number in range(3):
        reals[room + 3 + number] = reals[room + number]
    best_zone = best_set = -1
    for zone in range(zones):
        old = scratch[sets + zone]
        if old == NO_SET:
            continue
        for new in range(zones):
            if new == old or scratch[sizes + new] == 0:
                continue
            old_size, new_size = scratch[sizes + old], scratch[sizes + new]
            old_share, new_share = reals[shares + zones + old], reals[shares + zones + new]
            old_cost, new_cost = reals[shares + 2 * zones + old], reals[shares + 2 * zones + new]
            _go_over(zone, new, supply, parameters, scratch, reals)
            _value(zones, parameters, scratch, reals)
            if _keep_if_better(zones, parameters, reals):
                best_zone, best_set = zone, new
            scratch[sets + zone] = old
            scratch[sizes + old], scratch[sizes + new] = old_size, new_size
            reals[shares + zones + old], reals[shares + zones + new] = old_share, new_share
            reals[shares + 2 * zones + old], reals[shares + 2 * zones + new] = old_cost, new_cost
    if best_zone < 0:
        return False
    _go_over(best_zone, best_set, supply, parameters, scratch, reals)
    return True


def _go_over(
    zone: int,
    new: int,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    zones = len(supply)
    sizes, sets = SIZES_AT, sets_at(zones)
    old = scratch[sets + zone]
    scratch[sets + zone] = new
    is_left = True
    for each in range(zones):
        if scratch[sets + each] == old:
            is_left = False
    if is_left:
        scratch[sizes + new] += scratch[sizes + old]
        scratch[sizes + old] = 0
    else:
        _remember(old, supply, parameters, scratch, reals)
    _remember(new, supply, parameters, scratch, reals)
