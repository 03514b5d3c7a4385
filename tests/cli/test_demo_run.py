"""The clock of a demonstration: it waits before each step for what went before, and never for ever."""

from datetime import UTC, datetime, timedelta

import pytest

from zoneward.cli.demo_run import WaitingClock


class Seconds:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Play:
    """A clock with two moments, and who says whether all is done."""

    def __init__(self, *moments: float) -> None:
        self.seconds, self.done = Seconds(), True
        self._clock = WaitingClock(moments, is_done=lambda: self.done, clock=self.seconds)
        self._begin = self._clock()

    def at(self, seconds: float) -> float:
        """The time of the clock, this number of seconds later."""
        self.seconds.now += seconds
        return (self._clock() - self._begin).total_seconds()

    def until_it_goes_on(self, step: float) -> float:
        waited, before = 0.0, self.at(0)
        while self.at(step) <= before:
            waited += step
            assert waited < 60
        return waited


def test_clock_runs_without_moments() -> None:
    before, clock = datetime.now(UTC), WaitingClock((), is_done=lambda: False)
    # The two clocks of a machine are read one after the other.
    assert before - timedelta(seconds=1) <= clock() <= datetime.now(UTC) + timedelta(seconds=1)
    assert Play().at(7) == pytest.approx(7)


def test_clock_waits_before_a_moment_until_all_is_done() -> None:
    play = Play(4, 8)
    play.done = False
    assert play.at(3.5) == pytest.approx(3.5)
    assert play.at(2) < 4
    assert play.at(0.5) < 4
    play.done = True
    assert play.until_it_goes_on(0.01) < 0.2
    assert play.at(0) == pytest.approx(4, abs=0.05)
    assert play.at(2) == pytest.approx(6, abs=0.05), "what it waited is not made up for"


def test_earlier_actions_run_before_a_moment() -> None:
    play = Play(4)
    assert play.at(5) < 4
    assert play.at(0.01) < 4


def test_clock_continues_after_the_longest_wait() -> None:
    play = Play(*range(1, 20))
    play.done = False
    begin = play.seconds.now
    while play.at(0.05) < 19.5:
        assert play.seconds.now - begin < 40
