"""The steps that KEP-2004's algorithms share: every endpoint starts at home, then single endpoints move.

An expected number of endpoints is always total * share, in doubles: the proposal's table depends on the last bit.

Endpoints move between two queues: zones that can give an endpoint, and zones that want one. These are binary heaps of
zones with the usual sift-up and sift-down (``docs/kep-2004-table.md`` § Traps). Keys are compared as they are at that
moment, and a zone whose count changes while it waits is not sifted again: both decide ties, and ties decide digits of
the proposal's table. A heap is the beginning of an array; the caller keeps its size.
"""

from collections.abc import MutableSequence
from typing import Any, Final, NamedTuple

from zoneward.routing.algorithms.signature import IntegerSequence, part


class MoveRoom(NamedTuple):
    """What the steps read and write: ``total`` endpoints, the number of ``zones``, and named arrays.

    ``composition`` is the result. ``count`` holds how many endpoints each group has, ``fewest`` what each zone must
    keep, and ``share`` its demand over the sum. ``givers`` and ``receivers`` are queues of zones.
    """

    zones: int
    total: int
    composition: Any
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
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> MoveRoom:
    """Put every endpoint into its own zone's group, and nothing else. Without demand it places none, and the total
    is 0."""
    zones = len(demand)
    total_demand = 0
    total = 0
    for zone in range(zones):
        total_demand += demand[zone]
        total += supply[zone]
    room = MoveRoom(
        zones=zones,
        total=total if total_demand > 0 else 0,
        composition=composition,
        count=scratch[part(0, zones)],
        fewest=scratch[part(1, zones)],
        givers=scratch[part(2, zones)],
        receivers=scratch[part(3, zones)],
        share=reals[part(0, zones)],
    )
    if total_demand > 0:
        for zone in range(zones):
            room.share[zone] = demand[zone] / total_demand
            room.count[zone] = supply[zone]
            composition[zone * zones + zone] = supply[zone]
            weights[zone * zones + zone] = 1.0
    return room


# --- queues of zones --------------------------------------------------------------------------------------------------


GIVERS: Final = 0
"""The zone that would be least loaded after giving one endpoint comes first."""
RECEIVERS: Final = 1
"""Zones without endpoints come first, then the most loaded."""


def queue_zones(order: int, room: MoveRoom) -> int:
    """Queue every zone that has more endpoints than it must keep (`GIVERS`), or fewer (`RECEIVERS`); returns their
    number."""
    queue = room.givers if order == GIVERS else room.receivers
    size = 0
    for zone in range(room.zones):
        above = room.count[zone] - room.fewest[zone]
        if (order == GIVERS and above > 0) or (order == RECEIVERS and above < 0):
            queue[size] = zone
            size += 1
    heapify(order, size, room)
    return size


def push(order: int, size: int, zone: int, room: MoveRoom) -> None:
    """Add a zone to a queue of ``size`` zones."""
    heap = room.givers if order == GIVERS else room.receivers
    heap[size] = zone
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if not _precedes(order, heap[child], heap[parent], room):
            break
        heap[parent], heap[child] = heap[child], heap[parent]
        child = parent


def pop(order: int, size: int, room: MoveRoom) -> int:
    """Take the first zone from a queue of ``size`` zones."""
    heap = room.givers if order == GIVERS else room.receivers
    last = size - 1
    heap[0], heap[last] = heap[last], heap[0]
    _sift_down(order, 0, last, room)
    return int(heap[last])


def heapify(order: int, size: int, room: MoveRoom) -> None:
    """Make a heap of a queue of ``size`` zones in any order."""
    for parent in range(size // 2 - 1, -1, -1):
        _sift_down(order, parent, size, room)


def _sift_down(order: int, parent: int, size: int, room: MoveRoom) -> None:
    heap = room.givers if order == GIVERS else room.receivers
    while True:
        child = 2 * parent + 1
        if child >= size:
            return
        if child + 1 < size and _precedes(order, heap[child + 1], heap[child], room):
            child += 1
        if not _precedes(order, heap[child], heap[parent], room):
            return
        heap[parent], heap[child] = heap[child], heap[parent]
        parent = child


def _precedes(order: int, one: int, other: int, room: MoveRoom) -> bool:
    share, count = room.share, room.count
    if order == GIVERS:
        return bool(share[one] / (count[one] - 1) < share[other] / (count[other] - 1))
    if count[one] == 0 or count[other] == 0:
        return bool(count[one] == 0 and count[other] != 0)
    return bool(share[one] / count[one] > share[other] / count[other])


# --- moves ------------------------------------------------------------------------------------------------------------


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


def surplus(zone: int, room: MoveRoom) -> float:
    """Endpoints that a zone's own group has beyond the expected number; negative where it lacks some."""
    return float(room.count[zone] - room.total * room.share[zone])


def spare_endpoints(zone: int, room: MoveRoom) -> int:
    """Endpoints that a zone can give while its surplus, in doubles, is one or more; below 1 where it can give none."""
    expected = room.total * room.share[zone]
    least = int(expected)
    if least + 1 - expected < 1:
        least += 1
    return int(room.count[zone] - least)


def lift_to_minimum(room: MoveRoom) -> int:
    """Give endpoints to every zone that has fewer than it must have, the most loaded zone first, from zones that have
    more.

    Returns how many givers are left in the queue, or -1 where they cannot give enough: they have then given what they
    can.
    """
    giving = queue_zones(GIVERS, room)
    receiving = queue_zones(RECEIVERS, room)
    while receiving > 0 and giving >= 0:
        receiver = pop(RECEIVERS, receiving, room)
        receiving -= 1
        giving = give_endpoints(receiver, room.fewest[receiver] - room.count[receiver], giving, room)
    return giving


def give_endpoints(receiver: int, wanted: int, giving: int, room: MoveRoom) -> int:
    """Give endpoints to a group, each from the zone that is the first of the ``giving`` givers at that moment; returns
    how many givers are left in the queue, or -1 where they cannot give that many.

    A zone that has given is pushed back to the queue if it can give another one.
    """
    for _ in range(wanted):
        if giving == 0:
            return -1
        giver = pop(GIVERS, giving, room)
        giving -= 1
        move_endpoint(giver, receiver, room)
        if room.count[giver] > room.fewest[giver]:
            push(GIVERS, giving, giver, room)
            giving += 1
    return giving


def move_endpoints(moved: int, giver: int, receiver: int, room: MoveRoom) -> None:
    """Move endpoints between groups, as one after the other with `move_endpoint`."""
    zones, composition, count = room.zones, room.composition, room.count
    own = min(moved, composition[giver * zones + giver])
    composition[giver * zones + giver] -= own
    composition[receiver * zones + giver] += own
    count[giver] -= own
    count[receiver] += own
    for _ in range(moved - own):
        move_endpoint(giver, receiver, room)


def move_endpoint(giver: int, receiver: int, room: MoveRoom) -> None:
    """Move one endpoint between groups: of the giving zone's own ones, or, when none is left, of the last zone's."""
    zones, composition = room.zones, room.composition
    located = giver
    if composition[giver * zones + giver] == 0:
        for zone in range(zones):
            if composition[giver * zones + zone] > 0:
                located = zone
    composition[giver * zones + located] -= 1
    composition[receiver * zones + located] += 1
    room.count[giver] -= 1
    room.count[receiver] += 1
