"""The steps that KEP-2004's algorithms share: every endpoint starts at home, then single endpoints move.

An expected number of endpoints is always total * share, in doubles: the proposal's table depends on the last bit.

Endpoints move between two queues: zones that can give an endpoint, and zones that want one. These are binary heaps of
zones with the usual sift-up and sift-down (``docs/kep-2004-table.md`` § Traps). Keys are compared as they are at that
moment, and a zone whose count changes while it waits is not sifted again: both decide ties, and ties decide digits of
the proposal's table. A heap is the beginning of an array; the caller keeps its size.
"""

from collections.abc import MutableSequence, Sequence
from typing import Any, Final, NamedTuple

from zoneward.routing.algorithms.signature import IntegerSequence

# --- queues of zones --------------------------------------------------------------------------------------------------


GIVERS: Final = 0
"""The zone that would be least loaded after giving one endpoint comes first."""
RECEIVERS: Final = 1
"""Zones without endpoints come first, then the most loaded."""


def push(
    order: int,
    heap: MutableSequence[int],
    size: int,
    zone: int,
    share: Sequence[float],
    count: Sequence[int],
) -> None:
    """Add a zone to a heap of ``size`` zones."""
    heap[size] = zone
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if not _precedes(order, heap[child], heap[parent], share, count):
            break
        heap[parent], heap[child] = heap[child], heap[parent]
        child = parent


def pop(order: int, heap: MutableSequence[int], size: int, share: Sequence[float], count: Sequence[int]) -> int:
    """Take the first zone from a heap of ``size`` zones."""
    last = size - 1
    heap[0], heap[last] = heap[last], heap[0]
    _sift_down(order, heap, 0, last, share, count)
    return heap[last]


def push_and_pop(
    order: int,
    heap: MutableSequence[int],
    size: int,
    zone: int,
    share: Sequence[float],
    count: Sequence[int],
) -> int:
    """Add a zone to a heap of ``size`` zones, then take the first, and leave the same order as `push` and then `pop`.

    With up to two zones, one comparison and one step down suffice. With more, zones change places on the way up and on
    the way down, and equals may end up in another order: there is no shorter way.
    """
    if size > 2:
        push(order, heap, size, zone, share, count)
        return pop(order, heap, size + 1, share, count)
    if size == 0:
        return zone
    first = heap[0]
    if _precedes(order, zone, first, share, count):
        # This is needed: the key of a waiting zone may have changed.
        _sift_down(order, heap, 0, size, share, count)
        return zone
    heap[0] = zone
    _sift_down(order, heap, 0, size, share, count)
    return first


def heapify(order: int, heap: MutableSequence[int], size: int, share: Sequence[float], count: Sequence[int]) -> None:
    """Make a heap of ``size`` zones in any order."""
    for parent in range(size // 2 - 1, -1, -1):
        _sift_down(order, heap, parent, size, share, count)


def _sift_down(
    order: int,
    heap: MutableSequence[int],
    parent: int,
    size: int,
    share: Sequence[float],
    count: Sequence[int],
) -> None:
    while True:
        child = 2 * parent + 1
        if child >= size:
            return
        if child + 1 < size and _precedes(order, heap[child + 1], heap[child], share, count):
            child += 1
        if not _precedes(order, heap[child], heap[parent], share, count):
            return
        heap[parent], heap[child] = heap[child], heap[parent]
        parent = child


def _precedes(order: int, one: int, other: int, share: Sequence[float], count: Sequence[int]) -> bool:
    if order == GIVERS:
        return share[one] / (count[one] - 1) < share[other] / (count[other] - 1)
    if count[one] == 0 or count[other] == 0:
        return count[one] == 0 and count[other] != 0
    return share[one] / count[one] > share[other] / count[other]


# --- moves ------------------------------------------------------------------------------------------------------------


class MoveRoom(NamedTuple):
    """Named arrays of the steps.

    ``count`` holds how many endpoints each group has, ``fewest`` what each zone must keep, and ``share`` its demand
    over the sum. ``givers`` and ``receivers`` are queues of zones.
    """

    count: Any
    fewest: Any
    givers: Any
    receivers: Any
    share: Any


def place_all_at_home(
    demand: IntegerSequence,
    supply: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    count: MutableSequence[int],
    share: MutableSequence[float],
) -> int:
    """Put every endpoint into its own zone's group, and nothing else; returns how many there are, 0 without demand."""
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


def min_endpoints_below(limit: float, expected: float) -> int:
    """The fewest endpoints with which a group's overload is strictly below the limit.

    Algorithms compare integers with it, instead of dividing again for every endpoint that moves. Computing the overload
    in doubles gives the same answer: a rounded quotient never rises with its divisor.
    """
    # With one endpoint less, the overload is above the limit by far more than rounding can lose.
    fewest = max(1, int(expected / (1 + limit)))
    while expected / fewest - 1 >= limit:
        fewest += 1
    return fewest


def surplus(zone: int, total: int, share: Sequence[float], count: IntegerSequence) -> float:
    """Endpoints that a zone's own group has beyond the expected number; negative where it lacks some."""
    return count[zone] - total * share[zone]


def spare_endpoints(zone: int, total: int, share: Sequence[float], count: IntegerSequence) -> int:
    """Endpoints that a zone can give while its surplus, in doubles, is one or more; below 1 where it can give none."""
    expected = total * share[zone]
    least = int(expected)
    if least + 1 - expected < 1:
        least += 1
    return count[zone] - least


def lacking_endpoints(zone: int, total: int, share: Sequence[float], count: IntegerSequence) -> int:
    """Endpoints that a zone can get while its surplus is minus one or less; not positive where it can get none."""
    return int(total * share[zone]) - count[zone]


def queue_zones(order: int, queue: MutableSequence[int], zones: int, room: MoveRoom) -> int:
    """Queue every zone that has more endpoints than it must keep (`GIVERS`), or fewer (`RECEIVERS`); returns their
    number."""
    size = 0
    for zone in range(zones):
        above = room.count[zone] - room.fewest[zone]
        if (order == GIVERS and above > 0) or (order == RECEIVERS and above < 0):
            queue[size] = zone
            size += 1
    heapify(order, queue, size, room.share, room.count)
    return size


def lift_to_minimum(zones: int, composition: MutableSequence[int], room: MoveRoom) -> int:
    """Give endpoints to every zone that has fewer than it must have, the most loaded zone first, from zones that have
    more.

    Returns how many givers are left in the queue, or -1 where they cannot give enough: they have then given what they
    can.
    """
    giving = queue_zones(GIVERS, room.givers, zones, room)
    receiving = queue_zones(RECEIVERS, room.receivers, zones, room)
    while receiving > 0 and giving >= 0:
        receiver = pop(RECEIVERS, room.receivers, receiving, room.share, room.count)
        receiving -= 1
        wanted = room.fewest[receiver] - room.count[receiver]
        giving = give_endpoints(receiver, wanted, giving, zones, composition, room)
    return giving


def give_endpoints(
    receiver: int, wanted: int, giving: int, zones: int, composition: MutableSequence[int], room: MoveRoom
) -> int:
    """Give endpoints to a group, each from the zone that is the first of the ``giving`` givers at that moment; returns
    how many givers are left in the queue, or -1 where they cannot give that many.

    A zone that has given is pushed back to the queue if it can give another one.
    """
    givers, share, count = room.givers, room.share, room.count
    if wanted <= 0:
        return giving
    if giving == 0:
        return -1
    giver = pop(GIVERS, givers, giving, share, count)
    giving -= 1
    while True:
        move_endpoint(giver, receiver, zones, composition, count)
        wanted -= 1
        can_give = count[giver] > room.fewest[giver]
        if wanted == 0:
            if can_give:
                push(GIVERS, givers, giving, giver, share, count)
                giving += 1
            return giving
        if can_give:
            giver = push_and_pop(GIVERS, givers, giving, giver, share, count)
        elif giving > 0:
            giver = pop(GIVERS, givers, giving, share, count)
            giving -= 1
        else:
            return -1


def move_endpoints(
    count_moved: int,
    giver: int,
    receiver: int,
    zones: int,
    composition: MutableSequence[int],
    count: MutableSequence[int],
) -> None:
    """Move endpoints between groups, as one after the other with `move_endpoint`."""
    own = min(count_moved, composition[giver * zones + giver])
    composition[giver * zones + giver] -= own
    composition[receiver * zones + giver] += own
    count[giver] -= own
    count[receiver] += own
    for _ in range(count_moved - own):
        move_endpoint(giver, receiver, zones, composition, count)


def move_endpoint(
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
