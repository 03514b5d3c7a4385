"""Weights of zones: the optimum of a linear program, for proxies that can send any share of a zone's traffic anywhere.

A request from zone z to an endpoint in zone i costs c(z, i). All traffic of z is sent somewhere, and the endpoints of i
together get at most their share n_i / T of all traffic, times 1 + overload: a transportation problem. With the
objective *score* the overload is 0, because a point more in its zone is worth less than the overload that it causes.
With *locality* it is the least overload with which the cost is as low as the limit allows.
"""

from collections.abc import Sequence
from typing import Final

from zoneward.routing.algorithms.set_value import COSTS_AT, LOCALITY, OBJECTIVE_AT
from zoneward.routing.algorithms.transport import FlowRoom, cheapest_flow
from zoneward.routing.zone_costs import COST_UNIT

_STEPS: Final = 1024
"""Overloads that are tried, from 0 to the limit."""
_EPSILON: Final = 1e-9


def weigh_zones(
    demand: Sequence[int], supply: Sequence[int], parameters: Sequence[int]
) -> tuple[tuple[float, ...], ...]:
    """For each zone with demand, in order, the share of its traffic for the endpoints of each zone; zeros for a zone
    without demand. ``parameters`` are those of `zoneward.routing.algorithms.balanced`. There are endpoints and demand.
    """
    if parameters[OBJECTIVE_AT] != LOCALITY:
        return _shares(_flow(demand, supply, parameters, 0)[0], len(demand))
    least = _flow(demand, supply, parameters, _STEPS)[1]
    low, high = 0, _STEPS
    while low < high:
        middle = (low + high) // 2
        if _flow(demand, supply, parameters, middle)[1] <= least + _EPSILON:
            high = middle
        else:
            low = middle + 1
    return _shares(_flow(demand, supply, parameters, high)[0], len(demand))


def _flow(
    demand: Sequence[int], supply: Sequence[int], parameters: Sequence[int], step: int
) -> tuple[list[int], float]:
    """The cheapest flow with ``step`` of `_STEPS` parts of the largest overload, and its cost.

    Row z has the traffic of zone z to each zone; the last row has the capacity of endpoints that is left.
    """
    zones = len(demand)
    total, total_demand = sum(supply), sum(demand)
    unit = parameters[1] * _STEPS
    capacity = [endpoints * total_demand * (unit + parameters[0] * step) for endpoints in supply]
    wanted = [weight * total * unit for weight in demand]
    wanted.append(sum(capacity) - sum(wanted))
    flow = [0] * ((zones + 1) * zones)
    for turn in range(2):
        for row, needed in enumerate(wanted):
            for located in range(zones) if turn else (row,) if row < zones else ():
                amount = min(needed - sum(flow[row * zones : (row + 1) * zones]), capacity[located])
                flow[row * zones + located] += amount
                capacity[located] -= amount
    costs = [cost / COST_UNIT for cost in parameters[COSTS_AT:]] + [0.0] * zones
    cheapest_flow(zones + 1, zones, flow, costs, FlowRoom([0] * zones, [0] * zones, [0] * zones, [0.0] * zones))
    cost = sum(amount * price for amount, price in zip(flow, costs, strict=True))
    return flow, cost / (total_demand * total * unit)


def _shares(flow: Sequence[int], zones: int) -> tuple[tuple[float, ...], ...]:
    rows = [flow[start * zones : (start + 1) * zones] for start in range(zones)]
    return tuple(tuple(amount / sum(row) if any(row) else 0.0 for amount in row) for row in rows)
