"""Balanced: each zone uses a set of endpoints, so that as much traffic stays in its zone as endpoints can carry.

Sets may share endpoints, which is what helps Services of a few Pods: with two endpoints in three zones, the two zones
with endpoints use their own, and the third uses both, or the one with less load. What "as much" means, and how much
load is too much, are parameters (`zoneward.routing.algorithms.set_value`).

- Two or three zones with demand: all sets are tried where there are at most 20 endpoints, and then the answer is the
  optimum. With more endpoints rounding matters little, and only sets of nearly the same sizes as good disjoint ones
  are tried (`zoneward.routing.algorithms.exact_search`).
- More zones: good disjoint sets, for one zone or for several together, which single endpoints then leave, join, or
  share (`zoneward.routing.algorithms.local_search`).
"""

from collections.abc import MutableSequence
from typing import Final

from zoneward.routing.algorithms.exact_search import MAX_CONSUMERS, search_exactly
from zoneward.routing.algorithms.local_search import search_locally
from zoneward.routing.algorithms.set_value import (
    COST_UNIT,
    COSTS_AT,
    OBJECTIVE_AT,
    Search,
    overload_limit,
    request_cost,
    write_value,
)
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence, max_groups, part
from zoneward.routing.algorithms.transport import FlowRoom

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
    search = Search(
        demand=scratch[part(8, zones)][:zones],
        supply=scratch[part(9, zones)][:zones],
        costs=scratch[part(10, zones)],
        shares=reals[part(0, zones)],
        order=scratch[part(11, zones)][:zones],
        consumers=scratch[part(12, zones)],
        consumer_count=consumers,
        total=total,
        limit=overload_limit(parameters),
        objective=parameters[OBJECTIVE_AT],
        is_plain=_is_plain(parameters, zones),
        best=reals[part(1, zones)],
        round_best=reals[part(2, zones)],
        set_of=scratch[part(13, zones)],
        size=scratch[part(14, zones)],
        share=reals[part(3, zones)],
        cost=reals[part(4, zones)],
        overload=reals[part(5, zones)],
        lack=reals[part(6, zones)],
        price=reals[part(7, zones)],
        unused=scratch[part(15, zones)],
        users=scratch[part(16, zones)],
        composition=scratch[part(17, zones)],
        count=scratch[part(18, zones)],
        load=reals[part(8, zones)],
        groups=scratch[part(19, zones)],
        group_price=reals[part(9, zones)],
        used=scratch[part(20, zones)],
        part=reals[part(10, zones)],
        zone_cost=reals[part(11, zones)],
        low=scratch[part(21, zones)],
        high=scratch[part(22, zones)],
        best_kinds=scratch[part(23, zones)],
        flow_room=FlowRoom(
            before=scratch[part(24, zones)],
            sink=scratch[part(25, zones)],
            visited=scratch[part(26, zones)],
            distance=reals[part(12, zones)],
        ),
    )
    _write_problem(search, demand, supply, parameters, order)
    if consumers > MAX_CONSUMERS:
        is_better = search_locally(search, parameters, previous, weights, scratch, reals)
    else:
        is_better = search_exactly(search)
    if not is_better:
        return IMPOSSIBLE
    for group in range(max_groups(zones)):
        target = order[group] if group < zones else group
        for zone in range(zones):
            cell = target * zones + order[zone]
            composition[cell] = search.composition[group * zones + zone]
            weights[cell] = float(search.users[group] >> zone & 1)
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
    search: Search,
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
        search.demand[position] = demand[zone]
        search.supply[position] = supply[zone]
        total_demand += demand[zone]
        if demand[zone] > 0:
            search.consumers[consumers] = position
            consumers += 1
        for other in range(zones):
            search.costs[position * zones + other] = parameters[COSTS_AT + zone * zones + order[other]]
        rank = position
        while rank > 0 and search.demand[search.order[rank - 1]] < demand[zone]:
            search.order[rank] = search.order[rank - 1]
            rank -= 1
        search.order[rank] = position
    cost = 0.0
    for zone in range(zones):
        search.shares[zone] = search.demand[zone] / total_demand
        for located in range(zones):
            cost += search.demand[zone] * search.supply[located] * request_cost(search, zone, located)
    write_value(search, cost / search.total / total_demand, 0.0, 0.0, search.best)
