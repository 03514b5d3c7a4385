"""The log of a program that runs for long: its interface, and what keeps it short.

Needs no library: `zoneward.daemon.structured_log` makes a `Log` from structlog, which the base install does not have.
"""

import traceback
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, Self

from zoneward.kube.objects import ObjectKey

LogValue = str | int | float | bool | None


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class Log(Protocol):
    """One line for each event. ``event`` is a fixed sentence without numbers or names, so that lines can be counted by
    it; fields say what it is about: ``service`` ("shop/cart"), ``family``, ``reason``, ``error``, and counts."""

    def bind(self, **fields: LogValue) -> Self:
        """The same log, with these fields in all its lines."""
        ...

    def debug(self, event: str, **fields: LogValue) -> None: ...
    def info(self, event: str, **fields: LogValue) -> None: ...
    def warning(self, event: str, **fields: LogValue) -> None: ...
    def error(self, event: str, **fields: LogValue) -> None: ...


class SilentLog:
    """A log that writes nothing."""

    def bind(self, **fields: LogValue) -> Self:  # noqa: ARG002 -- as a Log has it
        return self

    def debug(self, event: str, **fields: LogValue) -> None:
        pass

    info = warning = error = debug


# --- lines that repeat ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _LineCount:
    since: float
    written: int = 0
    left_out: int = 0


class RepeatFilter:
    """Lets ``burst`` lines with the same key pass in each ``period`` of seconds, and counts the rest.

    It remembers ``max_keys``, and forgets those first that were not seen for the longest time.
    """

    def __init__(self, *, burst: int = 5, period: float = 60.0, max_keys: int = 5_000) -> None:
        self._burst, self._period, self._max_keys = burst, period, max_keys
        self._counts: dict[Hashable, _LineCount] = {}

    def decide(self, key: Hashable, *, now: float) -> int | None:
        """None: leave out a line with this key at ``now`` (s, on a monotonic clock). Otherwise how many were left out
        since one was written.
        """
        count = self._counts.pop(key, None)
        if count is None:
            if len(self._counts) >= self._max_keys:
                del self._counts[next(iter(self._counts))]
            count = _LineCount(now)
        # The last one is the newest, so that the first is the oldest.
        self._counts[key] = count
        if now - count.since >= self._period:
            count.since, count.written = now, 0
        if count.written >= self._burst:
            count.left_out += 1
            return None
        count.written += 1
        left_out, count.left_out = count.left_out, 0
        return left_out


# --- errors that nobody expected --------------------------------------------------------------------------------------

_FRAMES: Final = 3
"""Of the stack, from where an error was raised."""


def raised_at(error: BaseException) -> str:
    """Where it was raised, and who called that: ``reconciler.py:91 sync < loop.py:260 _work``."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))


class UnexpectedErrorLog:
    """Bugs, which end no worker. Each place in the program is logged once, however many Services it is about."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._places: set[str] = set()

    def error(self, event: str, service: ObjectKey, error: Exception) -> None:
        """``event`` says what the error led to."""
        location = raised_at(error)
        if location in self._places:
            return
        self._places.add(location)
        self._log.error(event, service="/".join(service), error=f"{type(error).__name__}: {error}", at=location)
