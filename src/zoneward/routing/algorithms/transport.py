"""The cheapest way to give located endpoints to the sets that need them, and the weights of zones: transportation
problems.

A flow has at ``sink * n + located`` how much of a zone's supply each sink gets, and a cost for each unit of it. Any
flow becomes a cheapest one by exchanges along cycles of zones, each of which passes a unit to the next: an exchange is
made while one lowers the cost (cycle canceling, with the cycles of Bellman and Ford).

Weights of zones are for proxies that can send any share of a zone's traffic anywhere. A request from zone z to an
endpoint in zone i costs c(z, i). All traffic of z is sent somewhere, and the endpoints of i together get at most their
share n_i / T of all traffic, times 1 + overload. With the objective *score* the overload is 0, because a point more in
its zone is worth less than the overload that it causes. With *locality* it is the least overload with which the cost is
as low as the limit allows.
"""

from collections.abc import MutableSequence, Sequence
from typing import Any, Final, NamedTuple

from zoneward.routing.algorithms.set_value import COST_UNIT, COSTS_AT, LOCALITY, OBJECTIVE_AT

# --- flows ------------------------------------------------------------------------------------------------------------


_EPSILON: Final = 1e-11


class FlowRoom(NamedTuple):
    """Arrays of n values: the zone before each zone on its path, the sink of that step, whether the path was followed
    back through the zone, and the cost of the path."""

    before: Any
    sink: Any
    visited: Any
    distance: Any


def cheapest_flow(sinks: int, zones: int, flow: MutableSequence[int], cost: Sequence[float], room: FlowRoom) -> None:
    """Change a flow into a cheapest one with the same sums by sink and by zone."""
    if zones < 2:
        return
    while True:
        zone = _find_cycle(sinks, zones, flow, cost, room)
        if zone < 0:
            return
        start = zone
        amount = -1
        while amount < 0 or zone != start:
            units = flow[room.sink[zone] * zones + room.before[zone]]
            if amount < 0 or units < amount:
                amount = units
            zone = room.before[zone]
        is_done = False
        while not is_done:
            giver = room.before[zone]
            flow[room.sink[zone] * zones + giver] -= amount
            flow[room.sink[zone] * zones + zone] += amount
            zone = giver
            is_done = zone == start


def _find_cycle(sinks: int, zones: int, flow: Sequence[int], cost: Sequence[float], room: FlowRoom) -> int:
    """A zone of a cycle that lowers the cost, or -1."""
    for zone in range(zones):
        room.distance[zone] = 0.0
        room.before[zone] = -1
        room.visited[zone] = 0
    last = -1
    for _ in range(zones):
        last = _relax(sinks, zones, flow, cost, room)
        if last < 0:
            return -1
    # From a zone that the last round still changed, the steps back end in a cycle.
    while last >= 0 and room.visited[last] == 0:
        room.visited[last] = 1
        last = room.before[last]
    return last


def _relax(sinks: int, zones: int, flow: Sequence[int], cost: Sequence[float], room: FlowRoom) -> int:
    """One round: the last zone that gets nearer by taking a unit from another zone, or -1."""
    last = -1
    for giver in range(zones):
        for taker in range(zones):
            if taker == giver:
                continue
            for sink in range(sinks):
                row = sink * zones
                if flow[row + giver] > 0:
                    distance = room.distance[giver] + (cost[row + taker] - cost[row + giver])
                    if distance < room.distance[taker] - _EPSILON:
                        room.distance[taker] = distance
                        room.before[taker] = giver
                        room.sink[taker] = sink
                        last = taker
    return last


# --- weights of zones -------------------------------------------------------------------------------------------------


_STEPS: Final = 1024
"""Overloads that are tried, from 0 to the limit."""
_COST_EPSILON: Final = 1e-9


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
        if _flow(demand, supply, parameters, middle)[1] <= least + _COST_EPSILON:
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
