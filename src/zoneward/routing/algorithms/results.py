"""What an algorithm answers, and the room it gets."""

from collections.abc import Callable, MutableSequence, Sequence
from typing import Final

ALLOCATED: Final = 0
IMPOSSIBLE: Final = 1
SCRATCH_PER_ZONE: Final = 6

Integers = Sequence[int]
Allocate = Callable[[Integers, Integers, Integers, Integers, MutableSequence[int], MutableSequence[int]], int]
"""(demand, supply, parameters, previous, allocation, scratch) -> ALLOCATED or IMPOSSIBLE."""
