"""Of lines that repeat a few are written, and none is lost from the count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.daemon.log import RepeatDecision, RepeatFilter


def test_a_few_are_written_and_the_next_says_how_many_were_not() -> None:
    repeats = RepeatFilter(burst=2, period=60)
    told = [repeats.decide("a", now=now) for now in (0, 1, 2, 3, 59, 60)]
    assert told == [
        RepeatDecision(True),
        RepeatDecision(True),
        RepeatDecision(False),
        RepeatDecision(False),
        RepeatDecision(False),
        RepeatDecision(True, 3),
    ]


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from("abc"))), st.integers(1, 4))
def test_each_key_is_counted_for_itself_and_every_line_is_written_or_counted(
    lines: list[tuple[float, str]], burst: int
) -> None:
    repeats = RepeatFilter(burst=burst, period=60)
    now, asked, accounted, pending = 0.0, 0, 0, dict.fromkeys("abc", 0)
    for pause, key in lines:
        now += pause
        asked += 1
        decision = repeats.decide(key, now=now)
        if decision.is_written:
            assert decision.left_out == pending[key]
            accounted += 1 + decision.left_out
            pending[key] = 0
        else:
            pending[key] += 1
    assert accounted + sum(pending.values()) == asked


@pytest.mark.parametrize("burst", [1, 3])
def test_in_no_period_is_more_written_than_twice_the_burst(burst: int) -> None:
    repeats = RepeatFilter(burst=burst, period=60)
    written = [now for now in range(600) if repeats.decide("a", now=now).is_written]
    assert max(sum(start <= now < start + 60 for now in written) for start in range(600)) <= 2 * burst
    assert len(written) == 10 * burst


def test_memory_is_bounded_and_what_was_seen_last_stays() -> None:
    repeats = RepeatFilter(burst=1, max_keys=3)
    repeats.decide("often", now=0)
    for number in range(100):
        repeats.decide(number, now=1)
        assert not repeats.decide("often", now=1).is_written
    assert len(repeats._counts) == 3
