"""What KEP-2004's algorithms have in common: every endpoint starts at home, and single endpoints move.

``share`` are doubles, demand over its sum, and an expected number of endpoints is always total * share: the proposal's
table depends on the last bit. ``count`` holds how many endpoints each group has.
"""

from collections.abc import MutableSequence, Sequence

from zoneward.routing.algorithms.signature import Integers
from zoneward.routing.algorithms.zone_heaps import GIVERS, RECEIVERS, heapify, pop, push, push_and_pop


def all_at_home(
    demand: Integers,
    supply: Integers,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    count: MutableSequence[int],
    share: MutableSequence[float],
) -> int:
    """Every endpoint into its own zone's group, and nothing else; returns how many there are, 0 without demand."""
    zones = len(demand)
    total_demand = 0
    total = 0
    for zone in range(zones):
        total_demand += demand[zone]
        total += supply[zone]
    if total_demand == 0:
        return 0
    for zone in range(zones):
        share[zone] = demand[zone] / total_demand
        count[zone] = supply[zone]
        composition[zone * zones + zone] = supply[zone]
        weights[zone * zones + zone] = 1.0
    return total


def fewest_below(limit: float, expected: float) -> int:
    """The least endpoints with which a group is not above: not overloaded by the threshold or more.

    Rules compare whole numbers with it, instead of dividing again for every endpoint that moves. It is where the
    overload as doubles have it falls below the limit, which is the same question: a rounded quotient never rises with
    its divisor.
    """
    # With one endpoint less, a group is above by far more than can be lost in rounding.
    number = max(1, int(expected / (1 + limit)))
    while expected / number - 1 >= limit:
        number += 1
    return number


def surplus(zone: int, total: int, share: Sequence[float], count: Integers) -> float:
    """Endpoints that a zone's own group has above what is expected; negative where it lacks some."""
    return count[zone] - total * share[zone]


def spare(zone: int, total: int, share: Sequence[float], count: Integers) -> int:
    """Endpoints that a zone can give while its surplus, as doubles have it, is one or more; none where not positive."""
    expected = total * share[zone]
    kept = int(expected)
    if kept + 1 - expected < 1:
        kept += 1
    return count[zone] - kept


def lacking(zone: int, total: int, share: Sequence[float], count: Integers) -> int:
    """Endpoints that a zone can get while its surplus is minus one or less; none where not positive."""
    return int(total * share[zone]) - count[zone]


def queue_givers(givers: int, fewest: int, zones: int, scratch: MutableSequence[int], share: Sequence[float]) -> int:
    """Queue every zone that has more endpoints than it must keep; returns how many these are.

    ``scratch`` is laid out as for `give`.
    """
    giving = 0
    for zone in range(zones):
        if scratch[zone] > scratch[fewest + zone]:
            scratch[givers + giving] = zone
            giving += 1
    heapify(GIVERS, scratch, givers, giving, share, scratch)
    return giving


def lift(
    givers: int,
    receivers: int,
    fewest: int,
    zones: int,
    composition: MutableSequence[int],
    scratch: MutableSequence[int],
    share: Sequence[float],
) -> int:
    """Endpoints for every zone that has fewer than it must have, the most loaded zone first, from zones that have more;
    returns how many givers are left in the queue, or -1 where these can't give enough. What they can, they have given
    then.

    ``scratch`` is laid out as for `give`, with room for another queue from ``receivers`` on.
    """
    giving = queue_givers(givers, fewest, zones, scratch, share)
    receiving = 0
    for zone in range(zones):
        if scratch[zone] < scratch[fewest + zone]:
            scratch[receivers + receiving] = zone
            receiving += 1
    heapify(RECEIVERS, scratch, receivers, receiving, share, scratch)
    while receiving > 0 and giving >= 0:
        receiver = pop(RECEIVERS, scratch, receivers, receiving, share, scratch)
        receiving -= 1
        number = scratch[fewest + receiver] - scratch[receiver]
        giving = give(receiver, number, giving, givers, fewest, zones, composition, scratch, share)
    return giving


def give(
    receiver: int,
    number: int,
    giving: int,
    givers: int,
    fewest: int,
    zones: int,
    composition: MutableSequence[int],
    scratch: MutableSequence[int],
    share: Sequence[float],
) -> int:
    """Endpoints for a group, each from the zone that is the first giver then; returns how many givers are left in the
    queue, or -1 where they can't give that many.

    ``scratch`` holds the counts, from ``fewest`` on what each zone must keep, and from ``givers`` on the queue. A zone
    that has given goes back to the queue if it can give another one.
    """
    if number <= 0:
        return giving
    if giving == 0:
        return -1
    giver = pop(GIVERS, scratch, givers, giving, share, scratch)
    giving -= 1
    while True:
        move_one(giver, receiver, zones, composition, scratch)
        number -= 1
        can_give = scratch[giver] > scratch[fewest + giver]
        if number == 0:
            if can_give:
                push(GIVERS, scratch, givers, giving, giver, share, scratch)
                giving += 1
            return giving
        if can_give:
            giver = push_and_pop(GIVERS, scratch, givers, giving, giver, share, scratch)
        elif giving > 0:
            giver = pop(GIVERS, scratch, givers, giving, share, scratch)
            giving -= 1
        else:
            return -1


def move(
    number: int, giver: int, receiver: int, zones: int, composition: MutableSequence[int], count: MutableSequence[int]
) -> None:
    """Move endpoints between groups, as one after the other with `move_one`."""
    own = min(number, composition[giver * zones + giver])
    composition[giver * zones + giver] -= own
    composition[receiver * zones + giver] += own
    count[giver] -= own
    count[receiver] += own
    for _ in range(number - own):
        move_one(giver, receiver, zones, composition, count)


def move_one(
    giver: int, receiver: int, zones: int, composition: MutableSequence[int], count: MutableSequence[int]
) -> None:
    """Move one endpoint between groups: of the giving zone's own ones, or, when none is left, of the last zone's."""
    located = giver
    if composition[giver * zones + giver] == 0:
        for zone in range(zones):
            if composition[giver * zones + zone] > 0:
                located = zone
    composition[giver * zones + located] -= 1
    composition[receiver * zones + located] += 1
    count[giver] -= 1
    count[receiver] += 1
