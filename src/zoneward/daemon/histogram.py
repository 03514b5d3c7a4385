"""How often values fell below which bound, as Prometheus has it."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

PER_SYNC: Final = tuple(float(2**power) for power in range(1, 16))
"""Upstream's bounds for what is counted in each sync: 2 to 32,768."""
SLICES_PER_SYNC: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)
"""Upstream's bounds for changed slices are Prometheus' defaults, made for seconds; with three more at the end."""
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Histogram:
    """``bounds`` grow; a value equal to one counts below it."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.total = 0.0
        """All values together."""

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Each bound, the last one infinite, and how many values are not above it."""
        return zip((*self._bounds, float("inf")), accumulate(self._counts), strict=True)
