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
    ExactRoom,
    search_exactly,
    search_pooled,
)
from zoneward.routing.algorithms.local_search import (
    NO_SET,
    LocalRoom,
    improve_groups,
    improve_sets,
    sort_by_demand,
    start_at_home,
    start_by_wish,
    write_groups,
)
from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu
from zoneward.routing.algorithms.set_value import (
    COST_UNIT,
    COSTS_AT,
    OBJECTIVE_AT,
    Problem,
    overload_limit,
    request_cost,
    write_value,
)
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence, max_groups, part
from zoneward.routing.algorithms.transport import FlowRoom

EXACT_ENDPOINTS: Final = 20
"""Up to this number of endpoints in two or three zones with demand, the answer is the optimum."""
_MARGIN: Final = 2
"""With more, the sizes that are tried differ at most by this from those of good disjoint sets."""
_MAX_ZONES: Final = 62
"""Sets of zones are bits of a machine word."""


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
    if total == 0 or consumers < 2 or zones > _MAX_ZONES:
        return IMPOSSIBLE
    # `proportional_zone_cpu` has the first six parts of the scratch space.
    order = scratch[part(6, zones)]
    _order_zones(demand, supply, parameters, order, scratch[part(7, zones)], consumers > MAX_CONSUMERS)
    problem = Problem(
        demand=scratch[part(8, zones)][:zones],
        supply=scratch[part(9, zones)][:zones],
        consumers=scratch[part(10, zones)],
        costs=scratch[part(11, zones)],
        shares=reals[part(0, zones)],
        best=reals[part(1, zones)],
        consumer_count=consumers,
        total=total,
        limit=overload_limit(parameters),
        objective=parameters[OBJECTIVE_AT],
        is_plain=_is_plain(parameters, zones),
    )
    _write_problem(problem, demand, supply, parameters, order)
    flow_room = FlowRoom(
        before=scratch[part(12, zones)],
        sink=scratch[part(13, zones)],
        visited=scratch[part(14, zones)],
        distance=reals[part(2, zones)],
    )
    local = LocalRoom(
        order=scratch[part(15, zones)],
        set_of=scratch[part(16, zones)],
        size=scratch[part(17, zones)],
        unused=scratch[part(18, zones)],
        users=scratch[part(19, zones)],
        composition=scratch[part(20, zones)],
        count=scratch[part(21, zones)],
        used=scratch[part(22, zones)],
        share=reals[part(3, zones)],
        cost=reals[part(4, zones)],
        overload=reals[part(5, zones)],
        lack=reals[part(6, zones)],
        price=reals[part(7, zones)],
        load=reals[part(8, zones)],
        part=reals[part(9, zones)],
        zone_cost=reals[part(10, zones)],
        round_best=reals[part(11, zones)],
        group_price=reals[part(12, zones)],
        flow_room=flow_room,
    )
    sort_by_demand(problem, local)
    if consumers > MAX_CONSUMERS:
        is_better = _search_locally(problem, local, parameters, previous, weights, scratch, reals)
    else:
        exact = ExactRoom(
            low=scratch[part(23, zones)],
            high=scratch[part(24, zones)],
            tried=scratch[part(26, zones)],
            flow=scratch[part(27, zones)],
            best=scratch[part(28, zones)],
            home=scratch[part(29, zones)],
            unused=scratch[part(30, zones)],
            share=reals[part(13, zones)],
            least_cost=reals[part(14, zones)],
            overload=reals[part(15, zones)],
            lack=reals[part(16, zones)],
            load=reals[part(17, zones)],
            flow_cost=reals[part(18, zones)],
            price=reals[part(19, zones)],
            flow_room=flow_room,
        )
        is_better = _search_exactly(problem, exact, local)
    if not is_better:
        return IMPOSSIBLE
    for group in range(max_groups(zones)):
        target = order[group] if group < zones else group
        for zone in range(zones):
            cell = target * zones + order[zone]
            composition[cell] = local.composition[group * zones + zone]
            weights[cell] = float(local.users[group] >> zone & 1)
    return max_groups(zones)


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
    zones, consumers, total = len(problem.supply), problem.consumer_count, problem.total
    for cell in range(KINDS * zones):
        room.best[cell] = 0
    for zone in range(zones):
        room.home[zone] = 0
    for consumer in range(MAX_CONSUMERS):
        room.low[consumer] = room.high[consumer] = 0
        room.share[consumer] = 0.0
        if consumer < consumers:
            room.share[consumer] = problem.shares[problem.consumers[consumer]]
            room.home[problem.consumers[consumer]] = 1 << consumer
    for is_fair in (False, True):
        if total < consumers:
            continue
        start_by_wish(problem, local, is_fair)
        improve_sets(problem, local)
        is_new = False
        for consumer in range(consumers):
            size = local.size[problem.consumers[consumer]]
            low, high = max(1, size - _MARGIN), min(total, size + _MARGIN)
            if room.low[consumer] != low or room.high[consumer] != high:
                is_new = True
            room.low[consumer], room.high[consumer] = low, high
        if is_new:
            search_exactly(problem, room)
    if total <= EXACT_ENDPOINTS:
        for consumer in range(consumers):
            room.low[consumer], room.high[consumer] = 1, total
        search_exactly(problem, room)
    elif consumers == MAX_CONSUMERS:
        search_pooled(problem, room)
    return _write_best(problem, room, local)


def _write_best(problem: Problem, room: ExactRoom, local: LocalRoom) -> bool:
    """Write a group for each kind of endpoints of the best sets; False where there are none."""
    zones = len(problem.supply)
    for group in range(max_groups(zones)):
        local.users[group] = 1 << group if group < zones else 0
    for cell in range(max_groups(zones) * zones):
        local.composition[cell] = 0
    is_better = False
    shared = zones
    for kind in range(1, KINDS):
        users = 0
        group = shared
        for consumer in range(problem.consumer_count):
            if kind >> consumer & 1:
                zone = problem.consumers[consumer]
                users |= 1 << zone
                if kind == 1 << consumer:
                    group = zone
        for located in range(zones):
            count = room.best[kind * zones + located]
            local.composition[group * zones + located] = count
            is_better = is_better or count > 0
        local.users[group] = users
        if group == shared:
            shared += 1
    return is_better


def _search_locally(
    problem: Problem,
    room: LocalRoom,
    parameters: IntegerSequence,
    previous: IntegerSequence,
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> bool:
    """Any number of zones: disjoint sets, then steps of single endpoints. Writes groups, and returns whether they are
    better than one for all."""
    zones = len(problem.supply)
    for cell in range(zones * zones):
        room.composition[cell] = 0
    groups = proportional_zone_cpu(
        problem.demand, problem.supply, parameters, previous, room.composition, weights, scratch, reals
    )
    if groups == IMPOSSIBLE:
        start_by_wish(problem, room, True)
    else:
        for zone in range(zones):
            room.size[zone] = 0
            for located in range(zones):
                room.size[zone] += room.composition[zone * zones + located]
            room.set_of[zone] = zone if room.size[zone] > 0 else NO_SET
    first = improve_sets(problem, room)
    # The sizes and zones of these sets, in case that the next are no better.
    for zone in range(zones):
        room.count[zone] = room.size[zone]
        room.used[zone] = room.set_of[zone]
    start_at_home(problem, room)
    if improve_sets(problem, room) <= first:
        for zone in range(zones):
            room.size[zone] = room.count[zone]
            room.set_of[zone] = room.used[zone]
    write_groups(problem, room)
    return improve_groups(problem, room)
