"""local: every zone its own group, filled from zones that have more than they need (KEP-2004 § Local).

Where the proposal's prose is silent, ``evaluation.md`` § The algorithms says what its tool does. The starting threshold
is no part of this: it is asked before.
"""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.balance import all_at_home, can_give, is_above, move_one, surplus
from zoneward.routing.algorithms.heap import GIVERS, RECEIVERS, heapify, pop, push
from zoneward.routing.algorithms.results import IMPOSSIBLE, Integers


def local(
    demand: Integers,
    supply: Integers,
    parameters: Integers,
    previous: Integers,  # noqa: ARG001 -- who stays in which group is `placement`'s part
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """First lift every zone below the threshold, then every zone to less than one endpoint under what it expects.

    Impossible where some zone can't be lifted: the proposal downgrades to one group for all then.
    """
    zones = len(demand)
    limit = parameters[0] / parameters[1]
    count, share = scratch, reals
    givers, receivers = zones, 2 * zones
    total = all_at_home(demand, supply, composition, weights, count, share)
    if total == 0:
        return IMPOSSIBLE
    giving = 0
    receiving = 0
    for zone in range(zones):
        if can_give(zone, total, limit, share, count):
            push(GIVERS, scratch, givers, giving, zone, share, count)
            giving += 1
        if is_above(zone, total, limit, share, count):
            push(RECEIVERS, scratch, receivers, receiving, zone, share, count)
            receiving += 1

    while receiving > 0:
        receiver = pop(RECEIVERS, scratch, receivers, receiving, share, count)
        receiving -= 1
        while is_above(receiver, total, limit, share, count):
            if giving == 0:
                return IMPOSSIBLE
            giver = pop(GIVERS, scratch, givers, giving, share, count)
            giving -= 1
            move_one(giver, receiver, zones, composition, count)
            if can_give(giver, total, limit, share, count):
                push(GIVERS, scratch, givers, giving, giver, share, count)
                giving += 1

    for zone in range(zones):
        scratch[receivers + zone] = zone
    heapify(RECEIVERS, scratch, receivers, zones, share, count)
    while giving > 0:
        giver = pop(GIVERS, scratch, givers, giving, share, count)
        giving -= 1
        if surplus(giver, total, share, count) < 1:
            return zones
        while surplus(giver, total, share, count) >= 1:
            receiver = pop(RECEIVERS, scratch, receivers, zones, share, count)
            if surplus(receiver, total, share, count) > -1:
                return zones
            while surplus(giver, total, share, count) >= 1 and surplus(receiver, total, share, count) <= -1:
                move_one(giver, receiver, zones, composition, count)
            push(RECEIVERS, scratch, receivers, zones - 1, receiver, share, count)
    return zones
