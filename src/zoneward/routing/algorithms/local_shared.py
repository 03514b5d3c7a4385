"""local-shared: as local, but zones that can't be served alone share a group (KEP-2004 § Local-Shared).

The order of the steps is that of the proposal's tool (``evaluation.md`` § The algorithms).
"""

from collections.abc import MutableSequence, Sequence
from math import ceil, floor

from zoneward.routing.algorithms.balance import all_at_home, can_give, is_above, move_one, surplus
from zoneward.routing.algorithms.heap import GIVERS, RECEIVERS, pop, push
from zoneward.routing.algorithms.results import IMPOSSIBLE, Integers


def local_shared(
    demand: Integers,
    supply: Integers,
    parameters: Integers,
    previous: Integers,  # noqa: ARG001 -- who stays in which group is `placement`'s part
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """Two groups may be shared: one by all zones without endpoints, one by zones that stay overloaded.

    Impossible with fewer endpoints than zones, and where the others can't give enough.
    """
    zones = len(demand)
    limit = parameters[0] / parameters[1]
    merged, pooled = zones, zones + 1
    # Counts of the own groups and the two shared ones, then two heaps, then the zones popped as overloaded.
    count, share = scratch, reals
    givers, receivers, overloaded = zones + 2, 2 * zones + 2, 3 * zones + 2
    total = all_at_home(demand, supply, composition, weights, count, share)
    if total < zones:
        return IMPOSSIBLE
    count[merged] = 0
    count[pooled] = 0
    giving = 0
    for zone in range(zones):
        if can_give(zone, total, limit, share, count):
            push(GIVERS, scratch, givers, giving, zone, share, count)
            giving += 1

    for _ in range(_merge_target(zones, total, supply, share)):
        if giving == 0:
            return IMPOSSIBLE
        giving = _give(merged, giving, givers, zones, total, limit, composition, count, share)
    for zone in range(zones):
        if supply[zone] == 0:
            weights[zone * zones + zone] = 0.0
            weights[merged * zones + zone] = 1.0

    for zone in range(zones):
        if supply[zone] > 0 and surplus(zone, total, share, count) <= -1:
            for _ in range(int(total * share[zone] - count[zone])):
                if giving == 0:
                    return IMPOSSIBLE
                giving = _give(zone, giving, givers, zones, total, limit, composition, count, share)

    receiving = 0
    for zone in range(zones):
        if supply[zone] > 0:
            push(RECEIVERS, scratch, receivers, receiving, zone, share, count)
            receiving += 1
    for zone in range(zones):
        scratch[overloaded + zone] = 0
    number = 0
    while receiving > 0 and is_above(scratch[receivers], total, limit, share, count):
        zone = pop(RECEIVERS, scratch, receivers, receiving, share, count)
        receiving -= 1
        scratch[overloaded + zone] = 1
        number += 1
    if number > 0:
        giving = _relieve(
            number,
            giving,
            givers,
            overloaded,
            pooled,
            zones,
            total,
            limit,
            composition,
            weights,
            scratch,
            share,
        )
        if giving < 0:
            return IMPOSSIBLE

    # With more than three zones the proposal's tool may hand endpoints in circles here and never end: as many steps as
    # there are endpoints are enough wherever it ends.
    for _ in range(total):
        if giving == 0 or receiving == 0:
            break
        giver = pop(GIVERS, scratch, givers, giving, share, count)
        giving -= 1
        if surplus(giver, total, share, count) < 1:
            break
        receiver = pop(RECEIVERS, scratch, receivers, receiving, share, count)
        move_one(giver, receiver, zones, composition, count)
        push(RECEIVERS, scratch, receivers, receiving - 1, receiver, share, count)
        if surplus(giver, total, share, count) >= 1:
            push(GIVERS, scratch, givers, giving, giver, share, count)
            giving += 1
    return zones + 2


def _merge_target(zones: int, total: int, supply: Integers, share: Sequence[float]) -> int:
    """Endpoints that the zones without any get together."""
    expected = 0.0
    for zone in range(zones):
        if supply[zone] == 0:
            expected += total * share[zone]
    if expected < 1:
        return ceil(expected)
    # Half away from zero, after a step that keeps 1.4999 from being left with one endpoint.
    return floor(ceil(1000 * expected) / 1000 + 0.5)


def _give(
    receiver: int,
    giving: int,
    givers: int,
    zones: int,
    total: int,
    limit: float,
    composition: MutableSequence[int],
    scratch: MutableSequence[int],
    share: Sequence[float],
) -> int:
    """One endpoint from the first giver to a group; returns how many givers are left in the queue."""
    giver = pop(GIVERS, scratch, givers, giving, share, scratch)
    giving -= 1
    move_one(giver, receiver, zones, composition, scratch)
    if can_give(giver, total, limit, share, scratch):
        push(GIVERS, scratch, givers, giving, giver, share, scratch)
        giving += 1
    return giving


def _relieve(
    number: int,
    giving: int,
    givers: int,
    overloaded: int,
    pooled: int,
    zones: int,
    total: int,
    limit: float,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    share: Sequence[float],
) -> int:
    """Help the ``number`` zones that are still overloaded; returns the givers left in the queue, or -1.

    One endpoint each where the givers have that many to spare; else they pool what they have and draw more.
    """
    spare = 0
    for position in range(giving):
        spare += max(0, int(surplus(scratch[givers + position], total, share, scratch)))
    if spare >= number:
        for zone in range(zones):
            if scratch[overloaded + zone]:
                # Givers that can spare none leave the queue.
                while giving > 0 and surplus(scratch[givers], total, share, scratch) < 1:
                    pop(GIVERS, scratch, givers, giving, share, scratch)
                    giving -= 1
                if giving == 0:
                    return -1
                giving = _give(zone, giving, givers, zones, total, limit, composition, scratch, share)
        return giving
    expected = 0.0
    for zone in range(zones):
        if scratch[overloaded + zone]:
            expected += total * share[zone]
            scratch[pooled] += scratch[zone]
            scratch[zone] = 0
            for located in range(zones):
                composition[pooled * zones + located] += composition[zone * zones + located]
                composition[zone * zones + located] = 0
            weights[zone * zones + zone] = 0.0
            weights[pooled * zones + zone] = 1.0
    while expected / scratch[pooled] - 1 >= limit:
        if giving == 0:
            return -1
        giving = _give(pooled, giving, givers, zones, total, limit, composition, scratch, share)
    return giving
