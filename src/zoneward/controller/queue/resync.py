"""The slow full resync: every Service once in a long period, spread over all of it. No clock.

It mends what no event told of: a mistake in what is kept of a Service, or an object that is not watched. Nothing is
written where nothing differs, so that it costs one plan of each Service.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from zoneward.kube.objects import ObjectKey

PERIOD: Final = 1200.0
"""Seconds."""


class Resync:
    """Ask `due` now and then. The first ones are due some time after the first question, for all has just been read."""

    def __init__(self, *, period: float = PERIOD) -> None:
        if not period > 0:
            raise ValueError(f"period: expected a number of seconds above 0, got {period}")
        self._period = period
        self._left: deque[ObjectKey] = deque()
        self._number = 0
        self._began: float | None = None

    def due(self, keys: Callable[[], Iterable[ObjectKey]], *, now: float) -> list[ObjectKey]:
        """The Services to look at now, some of which may be gone. ``keys`` tells all that there are, once a period."""
        if self._began is None or (not self._left and now - self._began >= self._period):
            self._left = deque(keys())
            self._number, self._began = len(self._left), now
        share = min(1.0, (now - self._began) / self._period)
        left = self._number - int(self._number * share)
        return [self._left.popleft() for _ in range(len(self._left) - left)]
