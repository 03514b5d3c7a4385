"""local: every zone its own group, filled from zones that have more than they need (KEP-2004 § Local).

Where the proposal's prose is silent, its tool decides (``docs/subsetting.md`` § The algorithms). The starting threshold
is no part of this: it is asked before.
"""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.balance import all_at_home, fewest_below, give, lacking, move, spare
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
    # Counts, then what each zone must have, then two heaps.
    fewest, givers, receivers = zones, 2 * zones, 3 * zones
    total = all_at_home(demand, supply, composition, weights, count, share)
    if total == 0:
        return IMPOSSIBLE
    giving = 0
    receiving = 0
    for zone in range(zones):
        scratch[fewest + zone] = fewest_below(limit, total * share[zone])
        if count[zone] > scratch[fewest + zone]:
            push(GIVERS, scratch, givers, giving, zone, share, count)
            giving += 1
        if count[zone] < scratch[fewest + zone]:
            push(RECEIVERS, scratch, receivers, receiving, zone, share, count)
            receiving += 1

    while receiving > 0:
        receiver = pop(RECEIVERS, scratch, receivers, receiving, share, count)
        receiving -= 1
        number = scratch[fewest + receiver] - count[receiver]
        giving = give(receiver, number, giving, givers, fewest, zones, composition, scratch, share)
        if giving < 0:
            return IMPOSSIBLE

    for zone in range(zones):
        scratch[receivers + zone] = zone
    heapify(RECEIVERS, scratch, receivers, zones, share, count)
    while giving > 0:
        giver = pop(GIVERS, scratch, givers, giving, share, count)
        giving -= 1
        if spare(giver, total, share, count) <= 0:
            return zones
        while spare(giver, total, share, count) > 0:
            receiver = pop(RECEIVERS, scratch, receivers, zones, share, count)
            number = min(spare(giver, total, share, count), lacking(receiver, total, share, count))
            if number <= 0:
                return zones
            move(number, giver, receiver, zones, composition, count)
            push(RECEIVERS, scratch, receivers, zones - 1, receiver, share, count)
    return zones
