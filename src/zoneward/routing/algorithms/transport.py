"""The cheapest way to give located endpoints to the sets that need them: a transportation problem.

A flow has at ``sink * n + located`` how much of a zone's supply each sink gets, and a cost for each unit of it. Any
flow becomes a cheapest one by exchanges along cycles of zones, each of which passes a unit to the next: an exchange is
made while one lowers the cost (cycle canceling, with the cycles of Bellman and Ford).
"""

from collections.abc import MutableSequence, Sequence
from typing import Any, Final, NamedTuple

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
