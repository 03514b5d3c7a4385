"""The time of a play that waits for whoever watches it."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

_QUIET: Final = 10
"""How often in a row all has to be found done: what was just changed takes a moment to be heard of."""
_PATIENCE: Final = 3.0
"""Seconds of waiting for one moment, at most: the play goes on all the same."""
_PATIENCE_IN_ALL: Final = 12.0
_BEFORE: Final = timedelta(milliseconds=2)


class WaitingClock:
    """The time of day, but that it stands still before each of some moments (seconds from the first call) until
    ``is_done`` says so: what a step of the play leads to is over before the next one.
    """

    def __init__(
        self, moments: Iterable[float], *, is_done: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._moments, self._is_done, self._clock = sorted(moments, reverse=True), is_done, clock
        self._start, self._begin = datetime.now(UTC), clock()
        self._held = 0.0
        self._waiting: float | None = None
        self._quiet = 0

    def __call__(self) -> datetime:
        now = self._clock()
        passed = now - self._begin - self._held
        if not self._moments or passed < self._moments[-1]:
            return self._start + timedelta(seconds=passed)
        moment = self._moments[-1]
        if self._waiting is None:
            # What is due until then happens first.
            self._waiting, self._quiet = now, 0
        elif self._is_over(now - self._waiting):
            self._moments.pop()
            self._waiting = None
            self._held += passed - moment
            return self._start + timedelta(seconds=moment)
        return self._start + timedelta(seconds=moment) - _BEFORE

    def _is_over(self, waited: float) -> bool:
        self._quiet = self._quiet + 1 if self._is_done() else 0
        return self._quiet >= _QUIET or waited > min(_PATIENCE, _PATIENCE_IN_ALL - self._held)
