"""Of lines that repeat a few are written, and none is lost from the count."""

from hypothesis import given
from hypothesis import strategies as st

from zoneward.daemon.log import RepeatFilter


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from("abc"))), st.integers(1, 4))
def test_each_key_is_counted_for_itself_and_every_line_is_written_or_counted(
    lines: list[tuple[float, str]], burst: int
) -> None:
    repeats = RepeatFilter(burst=burst, period=60)
    now, asked, accounted, pending = 0.0, 0, 0, dict.fromkeys("abc", 0)
    for pause, key in lines:
        now += pause
        asked += 1
        left_out = repeats.decide(key, now=now)
        if left_out is not None:
            assert left_out == pending[key]
            accounted += 1 + left_out
            pending[key] = 0
        else:
            pending[key] += 1
    assert accounted + sum(pending.values()) == asked


def test_in_no_period_is_more_written_than_twice_the_burst() -> None:
    repeats = RepeatFilter(burst=3, period=60)
    written = [now for now in range(600) if repeats.decide("a", now=now) is not None]
    assert max(sum(start <= now < start + 60 for now in written) for start in range(600)) <= 6
    assert len(written) == 30


def test_memory_is_bounded_and_what_was_seen_last_stays() -> None:
    repeats = RepeatFilter(burst=1, max_keys=3)
    repeats.decide("often", now=0)
    for index in range(100):
        repeats.decide(index, now=1)
        assert repeats.decide("often", now=1) is None
    assert len(repeats._counts) == 3
