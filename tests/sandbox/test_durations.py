"""Times are read and written as people write them."""

import pytest

from zoneward.sandbox.durations import parse_span, written


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
