"""Times are read and written as people write them."""

import pytest

from zoneward.sandbox.durations import Span, parse_duration, parse_span, written


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5_400), ("1d2h", 93_600), ("0", 0), ("0s", 0)],
)
def test_a_time_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "9", "s", "-5s", "5 s", "5sec", "5s ", "1e3s", "nans"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a time such as 90s, 1m30s or 250ms$"):
        parse_duration(text)


def test_one_or_two_durations_are_a_range() -> None:
    assert parse_span("5ms-1m") == Span(0.005, 60)
    assert parse_span("5s") == Span(5, 5)


@pytest.mark.parametrize("text", ["5s-", "-5s", "5s-4s", "1s-2s-3s", "x"])
def test_invalid_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        parse_span(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "0.25s"), (59.999, "1m"), (90, "1m30s"), (7_200, "2h"), (90_061.5, "1d1h1m1.5s")],
)
def test_a_time_is_written_short(seconds: float, text: str) -> None:
    assert written(seconds) == text
