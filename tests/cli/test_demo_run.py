"""The clock of a demonstration: it waits before each step for what went before, and never for ever."""

import asyncio
from collections.abc import Callable

import pytest
from tests.controller.model.network import in_virtual_time, seconds

from zoneward.cli.demo_run import PausingClock


class Play:
    """A clock with these moments."""

    def __init__(self, *moments: float, is_done: Callable[[], bool]) -> None:
        self._clock = PausingClock(moments, is_done=is_done)
        self._begin = self._clock.now()

    async def after(self, duration: float) -> float:
        """The time of the clock after sleeping for a number of seconds."""
        await self._clock.sleep(duration)
        return (self._clock.now() - self._begin).total_seconds()


@in_virtual_time
async def test_clock_runs_without_moments() -> None:
    assert await Play(is_done=lambda: False).after(7) == pytest.approx(7)


@in_virtual_time
async def test_clock_waits_before_a_moment_until_all_is_done() -> None:
    done = asyncio.Event()
    play = Play(4, 8, is_done=done.is_set)
    assert await play.after(3.5) == pytest.approx(3.5)
    assert await play.after(2) < 4, "earlier actions run before the moment"
    asyncio.get_running_loop().call_later(1, done.set)
    assert await play.after(0.01) == pytest.approx(4)
    assert 6.5 < seconds() < 7
    assert await play.after(2) == pytest.approx(6), "what it waited is not made up for"


@in_virtual_time
async def test_clock_continues_after_the_longest_wait() -> None:
    play = Play(*range(1, 20), is_done=lambda: False)
    while await play.after(0.05) < 19.5:
        assert seconds() < 40
