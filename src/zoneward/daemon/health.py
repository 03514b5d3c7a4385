"""The health of a program: named checks, each with a reason where it fails.

A restart would repair what is not live; an operator should look at what is not ready. A standby replica is ready. An
API server that cannot be reached, or asks for patience, makes a program unready after `WATCH_LIMIT`, but never dead: a
restart would only cost the cache.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from zoneward.client.watch_health import WatchHealth

Check = Callable[[], str | None]
"""Returns what is wrong, or None. It runs in the event loop and must not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Checks by name, in the order in which they are reported."""

    live: Mapping[str, Check] = field(default_factory=dict)
    ready: Mapping[str, Check] = field(default_factory=dict)


def failed_checks(checks: Mapping[str, Check]) -> dict[str, str]:
    """The reason of every check that fails; empty if all succeed."""
    return {name: reason for name, check in checks.items() if (reason := check()) is not None}


class Heartbeat:
    """A check that the event loop turns. ``limit``: seconds that a turn may take; ``clock`` counts seconds."""

    def __init__(
        self,
        *,
        limit: float = 30.0,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limit, self._sleep = limit, sleep
        self._clock = clock or asyncio.get_running_loop().time
        self._last = self._clock()

    async def run(self, *, every: float = 1.0) -> NoReturn:
        while True:
            self._last = self._clock()
            await self._sleep(every)

    def __call__(self) -> str | None:
        silent = self._clock() - self._last
        return None if silent <= self._limit else f"the event loop has not turned for {silent:.0f} s"


def task_is_running(task: "asyncio.Task[object]") -> Check:
    """A check that a task that never ends still runs."""
    return lambda: f"{task.get_name()} has ended" if task.done() else None


WATCH_LIMIT: Final = 30.0
"""Seconds for which a kind may have no watch: every server restarts at times."""


def watches_are_open(health: WatchHealth) -> Check:
    """A check that changes of all kinds are received."""

    def check() -> str | None:
        seconds = health.trouble_seconds
        return None if seconds < WATCH_LIMIT else f"no changes have been received for {seconds:.0f} s"

    return check


def cache_is_synced(is_synced: Callable[[], bool]) -> Check:
    """A check that the cache has been filled."""
    return lambda: None if is_synced() else "the cluster has not been listed yet"
