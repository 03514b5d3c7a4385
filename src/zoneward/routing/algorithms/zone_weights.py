"""Weights of zones: the optimum of a linear program, for proxies that can send any share of a zone's traffic anywhere.

Traffic of zone z to the endpoints of zone i costs c(z, i) a request; all of z's traffic goes somewhere, and the
endpoints of i together take at most their part, n_i / T, times 1 + overload: a transportation problem. With the
objective *score* the overload is 0, because a point more in its zone is worth less than the overload that it causes.
With *locality* it is the least with which the cost is as low as the limit allows.
"""

from collections.abc import Sequence
from typing import Final

from zoneward.routing.algorithms.set_value import LOCALITY, OBJECTIVE_AT, cost_between
from zoneward.routing.algorithms.transport import cheapest_flow

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

    Row z has the traffic of zone z to each zone, and one row more what endpoints could still take.
    """
    zones = len(demand)
    total, everything = sum(supply), sum(demand)
    unit = parameters[1] * _STEPS
    left = [each * everything * (unit + parameters[0] * step) for each in supply]
    wanted = [each * total * unit for each in demand]
    wanted.append(sum(left) - sum(wanted))
    flow = [0] * ((zones + 1) * zones)
    for turn in range(2):
        for row, needed in enumerate(wanted):
            for located in range(zones) if turn else (row,) if row < zones else ():
                amount = min(needed - sum(flow[row * zones : (row + 1) * zones]), left[located])
                flow[row * zones + located] += amount
                left[located] -= amount
    costs = [cost_between(parameters, zones, row, located) for row in range(zones) for located in range(zones)]
    costs += [0.0] * zones
    cheapest_flow(zones + 1, zones, flow, 0, costs, 0, [0] * (3 * zones), 0, [0.0] * zones, 0)
    cost = sum(each * price for each, price in zip(flow, costs, strict=True))
    return flow, cost / (everything * total * unit)


def _shares(flow: Sequence[int], zones: int) -> tuple[tuple[float, ...], ...]:
    found = []
    for start in range(zones):
        row = flow[start * zones : (start + 1) * zones]
        whole = sum(row)
        found.append(tuple(each / whole if whole else 0.0 for each in row))
    return tuple(found)
