"""What a program that runs for long writes lines with.

The base install has no library for it: `zoneward.daemon.logs` makes one of these from structlog, and `Silent` is for
who wants none.
"""

from enum import StrEnum
from typing import Protocol, Self

Told = str | int | float | bool | None


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class Log(Protocol):
    """One line an event. ``event`` is a fixed sentence without numbers or names, so that lines can be counted by it;
    what it is about goes into fields: ``service`` ("shop/cart"), ``family``, ``reason``, ``error``, and counts."""

    def bind(self, **fields: Told) -> Self:
        """The same log, whose lines all have these fields."""
        ...

    def debug(self, event: str, **fields: Told) -> None: ...
    def info(self, event: str, **fields: Told) -> None: ...
    def warning(self, event: str, **fields: Told) -> None: ...
    def error(self, event: str, **fields: Told) -> None: ...


class Silent:
    """A log that writes nothing."""

    def bind(self, **fields: Told) -> Self:  # noqa: ARG002 -- as a Log has it
        return self

    def debug(self, event: str, **fields: Told) -> None:
        pass

    info = warning = error = debug
