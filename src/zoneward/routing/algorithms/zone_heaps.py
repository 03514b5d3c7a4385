"""The two queues of KEP-2004's algorithms: zones that can give an endpoint, and zones that want one.

Binary heaps of zones with the usual sift-up and sift-down (``docs/kep-2004-table.md`` § Traps). Keys are compared as
they are at that moment, and a zone whose count changes while it waits is not sifted again: both decide ties, and ties
decide digits of the proposal's table.

A heap is the beginning of an array; the caller keeps its size.
"""

from collections.abc import MutableSequence, Sequence
from typing import Final

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
