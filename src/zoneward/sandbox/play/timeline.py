"""The play's time, what is due when, and what is to be done: the floor that a played cluster stands on."""

from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from random import Random

from zoneward.sandbox.durations import written
from zoneward.sandbox.play.actions import Action, Create, Message
from zoneward.sandbox.server.schema import as_time


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class Timeline:
    """``now`` is in seconds of the play; ``start`` is the time of day when it begins, ``speed`` how much faster it is.

    What is due runs in the order of its time, at its time, even if `run` is called late: how often it is called makes
    no difference.
    """

    def __init__(self, chance: Random, *, start: datetime, speed: float, events: bool) -> None:
        self.chance = chance
        self.now = 0.0
        self._start, self._speed, self._events = start, speed, events
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._done: list[Action] = []
        self._numbers = 0

    @property
    def next(self) -> float | None:
        """When something is due; None: never."""
        return self._due[0][0] if self._due else None

    def number(self) -> int:
        """A new number each time."""
        self._numbers += 1
        return self._numbers

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heappush(self._due, (self.now + seconds, self.number(), act))

    def run(self, now: float) -> list[Action]:
        """What was done since the last call, and what is due until ``now``."""
        while self._due and self._due[0][0] <= now:
            self.now, _, act = heappop(self._due)
            act()
        self.now = max(self.now, now)
        done, self._done = self._done, []
        return done

    def do(self, action: Action) -> None:
        self._done.append(action)

    def report(self, line: str) -> None:
        self.do(Message(f"{written(self.now)}: {line}"))

    def stamp(self) -> str:
        """The time of day, as Kubernetes writes it."""
        return as_time(self._start + timedelta(seconds=self.now / self._speed))

    def event(
        self,
        kind: str,
        namespace: str,
        name: str,
        reason: str,
        message: str,
        *,
        component: str,
        is_warning: bool = False,
    ) -> None:
        """Create an Event about an object, if Events are wanted; the driver adds the object's UID."""
        if not self._events:
            return
        about = {"apiVersion": "v1", "kind": kind, "name": name}
        if namespace:
            about["namespace"] = namespace
        stamp = self.stamp()
        thing = {
            "apiVersion": "v1",
            "kind": "Event",
            # Upstream's end in the nanoseconds of the time; here nothing must depend on when a play began.
            "metadata": {"name": f"{name}.{0x18A0 << 48 | self.number():016x}", "namespace": namespace or "default"},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "type": "Warning" if is_warning else "Normal",
        }
        self.do(Create(thing=thing))
