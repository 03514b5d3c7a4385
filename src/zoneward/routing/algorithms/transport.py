"""The cheapest way to give located endpoints to the sets that need them: a transportation problem.

A flow has at ``sink * n + located`` how much of a zone's supply goes to each sink, and a cost for each unit of it. Any
flow becomes a cheapest one by exchanges along cycles of zones, each of which passes a unit on to the next: while one of
these lowers the cost, it is made (cycle canceling; the cycles are found by Bellman and Ford).
"""

from collections.abc import MutableSequence, Sequence
from typing import Final

_EPSILON: Final = 1e-11


def cheapest_flow(
    sinks: int,
    zones: int,
    flow: MutableSequence[int],
    flow_at: int,
    cost: Sequence[float],
    cost_at: int,
    scratch: MutableSequence[int],
    scratch_at: int,
    reals: MutableSequence[float],
    reals_at: int,
) -> None:
    """Change the flow at ``flow_at`` into a cheapest one with the same sums by sink and by zone.

    ``cost_at`` is where the costs begin. Uses 3 n integers of ``scratch`` and n of ``reals``.
    """
    if zones < 2:
        return
    before, through, mark = scratch_at, scratch_at + zones, scratch_at + 2 * zones
    while True:
        for zone in range(zones):
            reals[reals_at + zone] = 0.0
            scratch[before + zone] = -1
        last = -1
        for _ in range(zones):
            last = _relax(sinks, zones, flow, flow_at, cost, cost_at, scratch, before, through, reals, reals_at)
            if last < 0:
                break
        if last < 0:
            return
        # Steps back from a zone that the last round still changed end in a cycle.
        for zone in range(zones):
            scratch[mark + zone] = 0
        while scratch[mark + last] == 0:
            scratch[mark + last] = 1
            last = scratch[before + last]
            if last < 0:
                return
        amount = -1
        zone = last
        while True:
            there = flow[flow_at + scratch[through + zone] * zones + scratch[before + zone]]
            if amount < 0 or there < amount:
                amount = there
            zone = scratch[before + zone]
            if zone == last:
                break
        while True:
            row = flow_at + scratch[through + zone] * zones
            flow[row + scratch[before + zone]] -= amount
            flow[row + zone] += amount
            zone = scratch[before + zone]
            if zone == last:
                break


def _relax(
    sinks: int,
    zones: int,
    flow: Sequence[int],
    flow_at: int,
    cost: Sequence[float],
    cost_at: int,
    scratch: MutableSequence[int],
    before: int,
    through: int,
    reals: MutableSequence[float],
    reals_at: int,
) -> int:
    """One round: the last zone that gets nearer by taking a unit over from another zone, or -1."""
    last = -1
    for giver in range(zones):
        for taker in range(zones):
            if taker == giver:
                continue
            for sink in range(sinks):
                row = sink * zones
                if flow[flow_at + row + giver] > 0:
                    step = cost[cost_at + row + taker] - cost[cost_at + row + giver]
                    if reals[reals_at + giver] + step < reals[reals_at + taker] - _EPSILON:
                        reals[reals_at + taker] = reals[reals_at + giver] + step
                        scratch[before + taker] = giver
                        scratch[through + taker] = sink
                        last = taker
    return last
