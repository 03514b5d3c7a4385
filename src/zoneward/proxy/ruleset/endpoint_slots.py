"""Which endpoint is in which slot of a port: the kernel draws a slot at random and sends to the endpoint in it.

Endpoints keep their slots: where one goes the last slot's endpoint takes its place, and one that comes takes a new slot
at the end. So a change of one endpoint changes at most two slots, however many there are.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeVar

E = TypeVar("E", bound=Hashable)
MOST_PER_ENDPOINT: Final = 256
"""Slots that one endpoint may have on average; beyond, weights are as near as that allows."""
_MOST_OF_ONE: Final = 100
"""Slots of one endpoint with the smallest weight, at which rounding is within half a percent."""
_TOLERANCE: Final = 0.01
"""Of the share that a weight asks for."""


def place_in_slots(wanted: Iterable[E], before: Sequence[E] = ()) -> tuple[E, ...]:
    """The slots for endpoints, of which one may be wanted several times, changed as little as possible.

    ``before`` are the slots as they were. New endpoints come in the order in which they are wanted.
    """
    missing = Counter(wanted)
    if not before:
        return tuple(missing.elements())
    total = missing.total()
    found: list[E | None] = []
    for each in before:
        if missing[each] > 0:
            missing[each] -= 1
            found.append(each)
        else:
            found.append(None)
    new = [each for each, number in missing.items() for _ in range(number)]
    new.reverse()
    for place, there in enumerate(found):
        if there is None and new:
            found[place] = new.pop()
    new.reverse()
    found += new
    _close(found, total)
    return tuple(each for each in found if each is not None)


def _close(found: "list[E | None]", total: int) -> None:
    """Move slots from the end into the holes, until ``total`` are left and none is empty."""
    holes = [place for place, there in enumerate(found[:total]) if there is None]
    for place in holes:
        while found[-1] is None:
            found.pop()
        found[place] = found.pop()
    del found[total:]


@lru_cache(maxsize=1024)
def slots_per_endpoint(weights: tuple[float, ...]) -> tuple[int, ...]:
    """How many slots each endpoint gets, at least one, so that its share is within 1 % of what its weight asks for.

    It is as few slots as suffice, and at most 256 for each endpoint on average: beyond, the nearest that this allows.
    Weights are above 0.
    """
    kinds = Counter(weights)
    total = sum(each * number for each, number in kinds.items())
    best: list[int] = []
    least = float("inf")
    for given in _candidates(kinds, total):
        fair = total / sum(each * number for each, number in zip(given, kinds.values(), strict=True))
        worst = max(abs(each * fair / weight - 1) for each, weight in zip(given, kinds, strict=True))
        if worst < least:
            best, least = given, worst
        if worst <= _TOLERANCE:
            break
    found = dict(zip(kinds, best, strict=True))
    return tuple(found[weight] for weight in weights)


def _candidates(kinds: Counter[float], total: float) -> Iterator[list[int]]:
    """Numbers of slots by weight, near what these ask for, with few slots first."""
    if not kinds:
        return
    most = MOST_PER_ENDPOINT * kinds.total()
    for scale in sorted({number / kind for kind in kinds for number in range(1, _MOST_OF_ONE + 1)}):
        if scale * total > most:
            break
        yield [max(1, round(kind * scale)) for kind in kinds]
    yield [max(1, round(kind * most / total)) for kind in kinds]
