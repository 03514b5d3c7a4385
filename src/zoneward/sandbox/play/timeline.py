"""The actions of a play on the objects of a server, as values, and when they are due."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from random import Random

from zoneward.sandbox.durations import written
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.schema import as_time

Key = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Create:
    key: Key
    obj: Object
    path: str = ""
    """Its field in the play's file; empty without one."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A strategic merge patch of the status, or of the rest."""

    key: Key
    patch: Object


@dataclass(frozen=True, slots=True)
class Delete:
    """``grace`` is in seconds; None means the pod's own, 0 at once."""

    key: Key
    grace: int | None = None


Action = Create | Patch | Delete | str
"""A string is a line to report."""


class Timeline:
    """``now`` is in seconds of the play, ``start`` its real start time, ``speed`` the play seconds per second.

    Callbacks run in the order of their times, with `now` at their time, even if `run` is called late.
    """

    def __init__(self, chance: Random, *, start: datetime, speed: float) -> None:
        self.chance, self.now = chance, 0.0
        self._start, self._speed = start, speed
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._done: list[Action] = []
        self.numbers = count()

    @property
    def next(self) -> float | None:
        """When the next callback is due; None without one."""
        return self._due[0][0] if self._due else None

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heappush(self._due, (self.now + seconds, next(self.numbers), act))

    def run(self, now: float) -> list[Action]:
        """Run the callbacks due until ``now``; return the actions since the last call."""
        while self._due and self._due[0][0] <= now:
            self.now, _, act = heappop(self._due)
            act()
        self.now = max(self.now, now)
        done, self._done = self._done, []
        return done

    def do(self, action: Create | Patch | Delete) -> None:
        self._done.append(action)

    def report(self, line: str) -> None:
        self._done.append(f"{written(self.now)}: {line}")

    def stamp(self) -> str:
        """The current real time, as Kubernetes writes it."""
        return as_time(self._start + timedelta(seconds=self.now / self._speed))


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
