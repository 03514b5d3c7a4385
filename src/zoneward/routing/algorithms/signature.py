"""What an algorithm answers, and the room it gets."""

from collections.abc import Callable, MutableSequence, Sequence
from typing import Final

IMPOSSIBLE: Final = -1
"""No allocation may be made. Every other answer is the number of groups of the one that was."""

SCRATCH_PER_ZONE: Final = 7
REALS_PER_ZONE: Final = 3

Integers = Sequence[int]
Allocate = Callable[
    [
        Integers,
        Integers,
        Integers,
        Integers,
        MutableSequence[int],
        MutableSequence[float],
        MutableSequence[int],
        MutableSequence[float],
    ],
    int,
]
"""(demand, supply, parameters, previous, composition, weights, scratch, reals) -> number of groups, or IMPOSSIBLE."""


def most_groups(zones: int) -> int:
    """Groups that the largest allocation has: one of each zone's own, one more for each, and two that many share."""
    return 2 * zones + 2
