"""What a program that runs for long writes lines with.

The base install has no library for it: `zoneward.daemon.structured_log` makes one of these from structlog, and `SilentLog` is for
who wants none.
"""

from enum import StrEnum
from typing import Protocol, Self

LogValue = str | int | float | bool | None


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class Log(Protocol):
    """One line an event. ``event`` is a fixed sentence without numbers or names, so that lines can be counted by it;
    what it is about goes into fields: ``service`` ("shop/cart"), ``family``, ``reason``, ``error``, and counts."""

    def bind(self, **fields: LogValue) -> Self:
        """The same log, whose lines all have these fields."""
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
