"""Balanced: each zone uses a set of endpoints, so that as much traffic stays in its zone as endpoints can carry.

Sets may share endpoints, which is what helps Services of a few Pods: with two endpoints in three zones, the two zones
with endpoints use their own, and the third uses both, or the one with less load. What "as much" means, and how much
load is too much, are parameters (`zoneward.routing.algorithms.set_value`).

- Two or three zones with demand: all sets are tried where there are at most `EXACT_ENDPOINTS` endpoints, and then the
  answer is the optimum. With more endpoints rounding matters little, and only sets of nearly the same sizes as good
  disjoint ones are tried (`zoneward.routing.algorithms.exact_search`).
- More zones: good disjoint sets, for one zone or for several together, which single endpoints then leave, join, or
  share (`zoneward.routing.algorithms.local_search`).
"""

from collections.abc import MutableSequence
from typing import Final

from zoneward.routing.algorithms.exact_search import (
    KINDS,
    MAX_CONSUMERS,
    MAX_WINDOW,
    ExactRoom,
    place_best,
    search_exactly,
    search_pooled,
    uses,
)
from zoneward.routing.algorithms.local_search import (
    FAIR,
    GIVEN,
    NEAR,
    LocalRoom,
    find_disjoint_sets,
    improve_groups,
    write_groups,
)
from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu
from zoneward.routing.algorithms.set_value import (
    COSTS_AT,
    MEASURES,
    OBJECTIVE_AT,
    Problem,
    overload_limit,
    request_cost,
    write_value,
)
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence, max_groups, row, table
from zoneward.routing.algorithms.transport import FlowRoom
from zoneward.routing.zone_costs import COST_UNIT

EXACT_ENDPOINTS: Final = 20
"""Up to this number of endpoints in two or three zones with demand, the answer is the optimum."""
_MARGIN: Final = 2
"""With more, the sizes that are tried differ at most by this from those of good disjoint sets."""


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
    consumers = 0
    total = 0
    for zone in range(zones):
        consumers += 1 if demand[zone] > 0 else 0
        total += supply[zone]
    if total == 0 or consumers < 2:
        return IMPOSSIBLE
    groups = max_groups(zones)
    flow_room = FlowRoom(
        before=scratch[row(5, zones, zones)],
        sink=scratch[row(6, zones, zones)],
        visited=scratch[row(7, zones, zones)],
        distance=reals[row(2, zones, zones)],
    )
    local = LocalRoom(
        order=scratch[row(15, zones, zones)],
        set_of=scratch[row(16, zones, zones)],
        size=scratch[row(17, zones, zones)],
        top=scratch[row(18, zones + 1, zones)],
        unused=scratch[row(19, zones, zones)],
        count=scratch[row(20, groups, zones)],
        used=scratch[row(21, zones, zones)],
        composition=scratch[table(2, groups * zones, zones)],
        share=reals[row(6, zones, zones)],
        cost=reals[row(7, zones, zones)],
        overload=reals[row(8, zones, zones)],
        more_cost=reals[row(9, zones, zones)],
        more_overload=reals[row(10, zones, zones)],
        more_lack=reals[row(11, zones, zones)],
        fewer_cost=reals[row(12, zones, zones)],
        fewer_overload=reals[row(13, zones, zones)],
        fewer_lack=reals[row(14, zones, zones)],
        price=reals[row(15, zones, zones)],
        load=reals[row(16, groups, zones)],
        part=reals[row(17, zones, zones)],
        zone_cost=reals[row(18, zones, zones)],
        round_best=reals[row(19, MEASURES, zones)],
        weights=reals[table(4, groups * zones, zones)],
        group_price=reals[table(5, groups * zones, zones)],
        flow_room=flow_room,
    )
    order, keys = scratch[row(0, zones, zones)], scratch[row(1, zones, zones)]
    _order_zones(demand, supply, parameters, order, keys, consumers > MAX_CONSUMERS)
    problem = Problem(
        demand=scratch[row(2, zones, zones)],
        supply=scratch[row(3, zones, zones)],
        consumers=scratch[row(4, zones, zones)],
        costs=scratch[table(0, zones * zones, zones)],
        shares=reals[row(0, zones, zones)],
        best=reals[row(1, MEASURES, zones)],
        consumer_count=consumers,
        total=total,
        limit=overload_limit(parameters),
        objective=parameters[OBJECTIVE_AT],
        is_plain=_is_plain(parameters, zones),
    )
    _write_problem(problem, demand, supply, parameters, order)
    if consumers > MAX_CONSUMERS:
        own_scratch = scratch[table(3, 6 * zones, zones)]
        is_better = _search_locally(problem, local, parameters, previous, own_scratch, reals)
    else:
        exact = ExactRoom(
            low=scratch[row(8, MAX_CONSUMERS, zones)],
            high=scratch[row(9, MAX_CONSUMERS, zones)],
            size=scratch[row(10, MAX_CONSUMERS, zones)],
            spare=scratch[row(11, MAX_CONSUMERS, zones)],
            tried=scratch[row(12, KINDS, zones)],
            best=scratch[row(13, KINDS, zones)],
            unused=scratch[row(14, zones, zones)],
            flow=scratch[table(1, KINDS * zones, zones)],
            share=reals[row(3, MAX_CONSUMERS, zones)],
            part=reals[row(4, MAX_CONSUMERS, zones)],
            load=reals[row(5, KINDS, zones)],
            least_cost=reals[table(0, MAX_CONSUMERS * MAX_WINDOW, zones)],
            overload=reals[table(1, MAX_CONSUMERS * MAX_WINDOW, zones)],
            lack=reals[table(2, MAX_CONSUMERS * MAX_WINDOW, zones)],
            flow_cost=reals[table(3, KINDS * zones, zones)],
            flow_room=flow_room,
        )
        is_better = _search_exactly(problem, exact, local)
    if not is_better:
        return IMPOSSIBLE
    for group in range(groups):
        target = order[group] if group < zones else group
        for zone in range(zones):
            cell = target * zones + order[zone]
            composition[cell] = local.composition[group * zones + zone]
            weights[cell] = local.weights[group * zones + zone]
    return groups


def _order_zones(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    order: MutableSequence[int],
    keys: MutableSequence[int],
    is_sorted: bool,
) -> None:
    """Write the zones in name order, or in an order in which names have no part, so that they don't change the answer.

    ``keys`` distinguish zones with the same demand and supply.
    """
    zones = len(demand)
    for zone in range(zones):
        key = 0
        for other in range(zones):
            key += parameters[COSTS_AT + zone * zones + other] * (1 + supply[other])
            key += parameters[COSTS_AT + other * zones + zone] * (1 + demand[other])
        keys[zone] = key
        position = zone
        while is_sorted and position > 0:
            other = order[position - 1]
            if (demand[other], supply[other], keys[other]) <= (demand[zone], supply[zone], key):
                break
            order[position] = other
            position -= 1
        order[position] = zone


def _is_plain(parameters: IntegerSequence, zones: int) -> bool:
    """Whether a request costs nothing in its zone and 1 elsewhere, as without any table."""
    for start in range(zones):
        for end in range(zones):
            if parameters[COSTS_AT + start * zones + end] != (0 if start == end else COST_UNIT):
                return False
    return True


def _write_problem(
    problem: Problem,
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    order: IntegerSequence,
) -> None:
    """Write the input for zones in order. The best so far is one group for all of them."""
    zones = len(demand)
    total_demand = 0
    consumers = 0
    for position in range(zones):
        zone = order[position]
        problem.demand[position] = demand[zone]
        problem.supply[position] = supply[zone]
        total_demand += demand[zone]
        if demand[zone] > 0:
            problem.consumers[consumers] = position
            consumers += 1
        for other in range(zones):
            problem.costs[position * zones + other] = parameters[COSTS_AT + zone * zones + order[other]]
    cost = 0.0
    for zone in range(zones):
        problem.shares[zone] = problem.demand[zone] / total_demand
        for located in range(zones):
            cost += problem.demand[zone] * problem.supply[located] * request_cost(problem, zone, located)
    write_value(problem, cost / problem.total / total_demand, 0.0, 0.0, problem.best)


def _search_exactly(problem: Problem, room: ExactRoom, local: LocalRoom) -> bool:
    """Two or three zones with demand; writes groups where they are better than one for all."""
    for kind in range(KINDS):
        room.best[kind] = 0
    for consumer in range(MAX_CONSUMERS):
        room.low[consumer] = room.high[consumer] = 0
        if consumer < problem.consumer_count:
            room.share[consumer] = problem.shares[problem.consumers[consumer]]
        else:
            room.share[consumer] = 0.0
    if problem.total >= problem.consumer_count:
        for start in (NEAR, FAIR):
            find_disjoint_sets(problem, local, start)
            is_new = False
            for consumer in range(problem.consumer_count):
                size = local.size[problem.consumers[consumer]]
                low, high = max(1, size - _MARGIN), min(problem.total, size + _MARGIN)
                if room.low[consumer] != low or room.high[consumer] != high:
                    is_new = True
                room.low[consumer], room.high[consumer] = low, high
            if is_new:
                search_exactly(problem, room)
    if problem.total <= EXACT_ENDPOINTS:
        for consumer in range(problem.consumer_count):
            room.low[consumer], room.high[consumer] = 1, problem.total
        search_exactly(problem, room)
    elif problem.consumer_count == MAX_CONSUMERS:
        search_pooled(problem, room)
    return _write_best(problem, room, local)


def _write_best(problem: Problem, room: ExactRoom, local: LocalRoom) -> bool:
    zones = len(problem.supply)
    endpoints = 0
    for kind in range(KINDS):
        endpoints += room.best[kind]
    if endpoints == 0:
        return False
    place_best(problem, room)
    _clear_groups(zones, local)
    for zone in range(zones):
        local.weights[zone * zones + zone] = 1.0
    for kind in range(KINDS):
        if room.best[kind] == 0:
            continue
        group = problem.consumers[kind] if kind < MAX_CONSUMERS else zones + kind - MAX_CONSUMERS
        for located in range(zones):
            local.composition[group * zones + located] = room.flow[kind * zones + located]
        for consumer in range(problem.consumer_count):
            if uses(kind, consumer):
                local.weights[group * zones + problem.consumers[consumer]] = 1.0
    return True


def _search_locally(
    problem: Problem,
    room: LocalRoom,
    parameters: IntegerSequence,
    previous: IntegerSequence,
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> bool:
    """Any number of zones: disjoint sets, then steps of single endpoints. Writes groups, and returns whether they are
    better than one for all."""
    zones = len(problem.supply)
    _clear_groups(zones, room)
    start = FAIR
    groups = proportional_zone_cpu(
        problem.demand, problem.supply, parameters, previous, room.composition, room.weights, scratch, reals
    )
    if groups > 0:
        start = GIVEN
        for zone in range(zones):
            room.size[zone] = 0
            for located in range(zones):
                room.size[zone] += room.composition[zone * zones + located]
    _clear_groups(zones, room)
    best = find_disjoint_sets(problem, room, start)
    # The sizes and zones of these sets, in case that the next are no better.
    for zone in range(zones):
        room.count[zone] = room.size[zone]
        room.used[zone] = room.set_of[zone]
    if find_disjoint_sets(problem, room, NEAR) <= best:
        for zone in range(zones):
            room.size[zone] = room.count[zone]
            room.set_of[zone] = room.used[zone]
    write_groups(problem, room)
    return improve_groups(problem, room)


def _clear_groups(zones: int, room: LocalRoom) -> None:
    for cell in range(max_groups(zones) * zones):
        room.composition[cell] = 0
        room.weights[cell] = 0.0
