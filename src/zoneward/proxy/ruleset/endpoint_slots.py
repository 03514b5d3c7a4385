"""Assigns endpoints to the slots of a port: the kernel draws a slot at random and sends to the endpoint in it.

Endpoints keep their slots. The endpoint in the last slot replaces one that is removed, and a new endpoint gets a new
slot at the end. So a change of one endpoint changes at most two slots.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeVar

E = TypeVar("E", bound=Hashable)
MOST_PER_ENDPOINT: Final = 256
"""The maximum number of slots per endpoint, on average; it limits how exactly weights are met."""
_MOST_OF_ONE: Final = 100
"""The maximum number of slots of an endpoint with the smallest weight: rounding is then within half a percent."""
_TOLERANCE: Final = 0.01
"""The accepted relative difference from the share that a weight requests."""


def place_in_slots(wanted: Iterable[E], before: Sequence[E] = ()) -> tuple[E, ...]:
    """The endpoint in each slot, with minimal changes. An endpoint may be wanted several times.

    ``before`` are the previous slots. New endpoints are added in the order of ``wanted``.
    """
    missing = Counter(wanted)
    if not before:
        return tuple(missing.elements())
    total = missing.total()
    slots: list[E | None] = []
    for endpoint in before:
        if missing[endpoint] > 0:
            missing[endpoint] -= 1
            slots.append(endpoint)
        else:
            slots.append(None)
    new = [endpoint for endpoint, count in missing.items() for _ in range(count)]
    new.reverse()
    for index, occupant in enumerate(slots):
        if occupant is None and new:
            slots[index] = new.pop()
    new.reverse()
    slots += new
    _close(slots, total)
    return tuple(endpoint for endpoint in slots if endpoint is not None)


def _close(slots: "list[E | None]", total: int) -> None:
    """Move slots from the end into the holes, until ``total`` are left and none is empty."""
    holes = [index for index, occupant in enumerate(slots[:total]) if occupant is None]
    for index in holes:
        while slots[-1] is None:
            slots.pop()
        slots[index] = slots.pop()
    del slots[total:]


@lru_cache(maxsize=1024)
def slots_per_endpoint(weights: tuple[float, ...]) -> tuple[int, ...]:
    """The number of slots of each endpoint, at least one, so that its share is within 1 % of what its weight requests.

    It uses as few slots as suffice. Where 256 slots per endpoint on average do not, it returns the nearest counts
    within that limit. Weights are above 0.
    """
    kinds = Counter(weights)
    total = sum(weight * count for weight, count in kinds.items())
    best: list[int] = []
    least = float("inf")
    for slot_counts in _candidates(kinds, total):
        fair = total / sum(slot_count * count for slot_count, count in zip(slot_counts, kinds.values(), strict=True))
        worst = max(abs(slot_count * fair / weight - 1) for slot_count, weight in zip(slot_counts, kinds, strict=True))
        if worst < least:
            best, least = slot_counts, worst
        if worst <= _TOLERANCE:
            break
    slots_by_weight = dict(zip(kinds, best, strict=True))
    return tuple(slots_by_weight[weight] for weight in weights)


def _candidates(kinds: Counter[float], total: float) -> Iterator[list[int]]:
    """Slot counts by weight, near the requested shares, fewest slots first."""
    if not kinds:
        return
    most = MOST_PER_ENDPOINT * kinds.total()
    for scale in sorted({slot_count / weight for weight in kinds for slot_count in range(1, _MOST_OF_ONE + 1)}):
        if scale * total > most:
            break
        yield [max(1, round(weight * scale)) for weight in kinds]
    yield [max(1, round(weight * most / total)) for weight in kinds]
