"""Sets of endpoints for more than three zones: from disjoint ones, by single endpoints that join, leave and are shared.

A step changes which zones use one endpoint: one zone more, one fewer, or one in place of another. Steps that make the
sets better are made as they are found, until there is none or `_MAX_TRIALS` were tried. With many endpoints a zone
disjoint sets are near the optimum already, and no step is tried.
"""

from collections.abc import MutableSequence
from typing import Final

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.disjoint_sets import SIZES_AT, sets_at
from zoneward.routing.algorithms.set_value import (
    COSTS_AT,
    OBJECTIVE_AT,
    cost_between,
    is_better,
    overload_limit,
    value_of,
)
from zoneward.routing.algorithms.shared_sets import (
    BEST_MEAN,
    BEST_VALUE,
    BEST_WORST,
    FREE,
    FREE_REALS,
    IS_PLAIN,
    NUMBER,
    TOTAL,
)
from zoneward.routing.algorithms.signature import IntegerSequence, max_groups
from zoneward.routing.algorithms.transport import cheapest_flow
from zoneward.routing.zone_costs import COST_UNIT

_MAX_TRIALS: Final = 600
_FEW: Final = 16
"""Endpoints a zone from which rounding matters little."""
_NOBODY: Final = -1


def write_disjoint_sets(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Write the sets of `find_disjoint_sets` as groups: own ones, and shared ones where zones have one set."""
    zones = len(demand)
    sizes, sets = SIZES_AT, sets_at(zones)
    groups = max_groups(zones)
    costs_at = FREE_REALS + 7 * zones + 8
    left_at = sizes + 4 * zones
    for zone in range(zones):
        weights[zone * zones + zone] = 1.0
        scratch[left_at + zone] = supply[zone]
    for cell in range(groups * zones):
        reals[costs_at + cell] = 0.0
    for turn in range(2):
        shared = zones
        for chosen in range(zones):
            needed = scratch[sizes + chosen]
            if needed == 0:
                continue
            group = _NOBODY
            members = 0
            for zone in range(zones):
                if scratch[sets + zone] == chosen:
                    group = zone
                    members += 1
            if members > 1:
                group = shared
                shared += 1
            for zone in range(zones):
                needed -= composition[group * zones + zone]
            # At home first, those with most demand before others; then anywhere.
            for place in range(zones):
                zone = scratch[sizes + 2 * zones + place]
                at_home = scratch[sets + zone] == chosen
                if turn == 0 and at_home:
                    weights[group * zones + zone] = 1.0
                    for located in range(zones):
                        reals[costs_at + group * zones + located] += (
                            reals[FREE_REALS + zone]
                            * cost_between(parameters, zones, zone, located)
                            / scratch[sizes + chosen]
                        )
                if turn == 1 or at_home:
                    number = min(needed, scratch[left_at + zone])
                    composition[group * zones + zone] += number
                    scratch[left_at + zone] -= number
                    needed -= number
    if scratch[IS_PLAIN] == 0:
        cheapest_flow(
            groups,
            zones,
            composition,
            0,
            reals,
            costs_at,
            scratch,
            left_at + zones,
            reals,
            costs_at + groups * zones,
        )


def improve_by_steps(
    demand: IntegerSequence,
    parameters: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> bool:
    """Make steps that improve the groups. Returns whether they are better than one group for all zones, in the end."""
    zones = len(demand)
    groups = max_groups(zones)
    _measure_groups(demand, parameters, composition, weights, scratch, reals)
    _try_step(_NOBODY, 0, _NOBODY, _NOBODY, zones, parameters, weights, scratch, reals)
    now = _now_at(zones)
    for number in range(3):
        reals[now + 3 + number] = reals[now + number]
    trials = 0 if scratch[TOTAL] < _FEW * scratch[NUMBER] else _MAX_TRIALS
    place = 0
    since = 0
    cells = groups * zones
    while trials < _MAX_TRIALS and since < cells:
        group, located = place // zones, place % zones
        made = False
        if composition[place] > 0:
            for join in range(_NOBODY, zones):
                if join >= 0 and (demand[join] == 0 or weights[group * zones + join] > 0):
                    continue
                for leave in range(_NOBODY, zones):
                    if (join < 0 and leave < 0) or (leave >= 0 and weights[group * zones + leave] == 0):
                        continue
                    if not made and _is_allowed(group, join, leave, zones, weights, scratch):
                        trials += 1
                        _try_step(group, located, join, leave, zones, parameters, weights, scratch, reals)
                        if is_better(
                            parameters[OBJECTIVE_AT],
                            reals[now],
                            reals[now + 1],
                            reals[now + 2],
                            reals[now + 3],
                            reals[now + 4],
                            reals[now + 5],
                        ):
                            made = _make_step(group, located, join, leave, zones, composition, weights)
        if made:
            for number in range(3):
                reals[now + 3 + number] = reals[now + number]
            _measure_groups(demand, parameters, composition, weights, scratch, reals)
            since = 0
        else:
            since += 1
            place = (place + 1) % cells
    return is_better(
        parameters[OBJECTIVE_AT],
        reals[now + 3],
        reals[now + 4],
        reals[now + 5],
        reals[BEST_VALUE],
        reals[BEST_WORST],
        reals[BEST_MEAN],
    )


def _now_at(zones: int) -> int:
    """Where the real numbers have the share, the load of an endpoint, and the cost of all endpoints of each zone, in
    that order; the load of each group; then value, worst and mean overload of what was tried, and of what is."""
    return FREE_REALS + 3 * zones + max_groups(zones)


def _measure_groups(
    demand: IntegerSequence,
    parameters: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Write what trials need: of each zone, how many endpoints it uses, its load on each, and their cost; of each
    group, how many endpoints it has, and their load."""
    zones = len(demand)
    groups = max_groups(zones)
    used, counts = FREE, FREE + zones
    shares, parts, costs, loads = (FREE_REALS, FREE_REALS + zones, FREE_REALS + 2 * zones, FREE_REALS + 3 * zones)
    everything = 0
    for zone in range(zones):
        everything += demand[zone]
        scratch[used + zone] = 0
        reals[costs + zone] = 0.0
    for group in range(groups):
        scratch[counts + group] = 0
        for located in range(zones):
            number = composition[group * zones + located]
            if number > 0:
                scratch[counts + group] += number
                for zone in range(zones):
                    if weights[group * zones + zone] > 0 and demand[zone] > 0:
                        scratch[used + zone] += number
                        reals[costs + zone] += number * cost_between(parameters, zones, zone, located)
    for zone in range(zones):
        reals[shares + zone] = demand[zone] / everything
        reals[parts + zone] = reals[shares + zone] / scratch[used + zone] if scratch[used + zone] > 0 else 0.0
    for group in range(groups):
        load = 0.0
        for zone in range(zones):
            if weights[group * zones + zone] > 0:
                load += reals[parts + zone]
        reals[loads + group] = load


def _is_allowed(
    group: int, join: int, leave: int, zones: int, weights: MutableSequence[float], scratch: MutableSequence[int]
) -> bool:
    """Whether every zone and every endpoint would still be in a set, and no endpoint in too many."""
    members = 0
    for zone in range(zones):
        members += 1 if weights[group * zones + zone] > 0 else 0
    members += (1 if join >= 0 else 0) - (1 if leave >= 0 else 0)
    return 0 < members <= MAX_ZONE_HINTS and (leave < 0 or scratch[FREE + leave] > 1)


def _try_step(
    group: int,
    located: int,
    join: int,
    leave: int,
    zones: int,
    parameters: IntegerSequence,
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> None:
    """Measure the groups with one endpoint of a group used by one zone more, one fewer, or both; -1 for none."""
    groups = max_groups(zones)
    total = scratch[TOTAL]
    used, counts = FREE, FREE + zones
    shares, parts, costs, loads = (FREE_REALS, FREE_REALS + zones, FREE_REALS + 2 * zones, FREE_REALS + 3 * zones)
    joined = left = 0.0
    cost = 0.0
    for zone in range(zones):
        if zone == join:
            joined = reals[shares + zone] / (scratch[used + zone] + 1)
            cost += joined * (reals[costs + zone] + parameters[COSTS_AT + zone * zones + located] / COST_UNIT)
        elif zone == leave:
            left = reals[shares + zone] / (scratch[used + zone] - 1)
            cost += left * (reals[costs + zone] - parameters[COSTS_AT + zone * zones + located] / COST_UNIT)
        else:
            cost += reals[parts + zone] * reals[costs + zone]
    worst = 0.0
    mean = 0.0
    for each in range(groups):
        number = scratch[counts + each]
        if number == 0:
            continue
        load = reals[loads + each]
        if join >= 0 and weights[each * zones + join] > 0:
            load += joined - reals[parts + join]
        if leave >= 0 and weights[each * zones + leave] > 0:
            load += left - reals[parts + leave]
        if each == group:
            number -= 1
            moved = load + joined - left
            worst = max(worst, total * moved - 1)
            mean += abs(total * moved - 1)
        if number > 0:
            worst = max(worst, total * load - 1)
            mean += number * abs(total * load - 1)
    now = _now_at(zones)
    reals[now] = value_of(parameters[OBJECTIVE_AT], overload_limit(parameters), cost, worst, mean / total)
    reals[now + 1] = worst
    reals[now + 2] = mean / total


def _make_step(
    group: int,
    located: int,
    join: int,
    leave: int,
    zones: int,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
) -> bool:
    """Move one endpoint to the group of the zones that are to use it; False where no group is left."""
    found = empty = _NOBODY
    for each in range(max_groups(zones)):
        number = 0
        same = True
        for zone in range(zones):
            number += composition[each * zones + zone]
            wanted = zone == join or (zone != leave and weights[group * zones + zone] > 0)
            if wanted != (weights[each * zones + zone] > 0):
                same = False
        if same:
            found = each
            break
        if number == 0 and each >= zones:
            empty = each
    if found < 0:
        if empty < 0:
            return False
        found = empty
        for zone in range(zones):
            wanted = zone == join or (zone != leave and weights[group * zones + zone] > 0)
            weights[found * zones + zone] = 1.0 if wanted else 0.0
    composition[group * zones + located] -= 1
    composition[found * zones + located] += 1
    return True
