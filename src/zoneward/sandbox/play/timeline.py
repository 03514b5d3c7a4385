"""What a play wants done to the objects of the server, as values; and the play's time: what is due when."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from zoneward.sandbox.durations import written
from zoneward.sandbox.server.schema import as_time

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Create:
    key: Key
    obj: Object
    place: str = ""
    """Where it stands in the play's file; empty: nowhere."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A strategic merge patch: of the status, or of all else."""

    key: Key
    patch: Object


@dataclass(frozen=True, slots=True)
class Delete:
    """``grace``: seconds; None: the pod's own, 0: at once."""

    key: Key
    grace: int | None = None


Action = Create | Patch | Delete | str
"""Text is a line to report."""


class Timeline:
    """``now`` is in seconds of the play; ``start`` is the time of day when it begins, ``speed`` how much faster it is.

    What is due runs in the order of its time, at its time, even if `run` is called late: how often it is called makes
    no difference.
    """

    def __init__(self, chance: Random, *, start: datetime, speed: float) -> None:
        self.chance, self.now = chance, 0.0
        self._start, self._speed = start, speed
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._done: list[Action] = []
        self.numbers = count()

    @property
    def next(self) -> float | None:
        """When something is due; None: never, unless others change things."""
        return self._due[0][0] if self._due else None

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heappush(self._due, (self.now + seconds, next(self.numbers), act))

    def run(self, now: float) -> list[Action]:
        """What was done since the last call, and what is due until ``now``."""
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
        """The time of day, as Kubernetes writes it."""
        return as_time(self._start + timedelta(seconds=self.now / self._speed))


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
