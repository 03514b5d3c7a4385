"""Durations are written as a real server (1.36.3) wrote them."""

from datetime import UTC, datetime, timedelta

import pytest

from zoneward.sandbox.server.kubectl_tables import human, since

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-4000, "<invalid>"),
        (-2, "<invalid>"),
        (-1.95, "0s"),
        (-1, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (1, "1s"),
        (59, "59s"),
        (60, "60s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (150, "2m30s"),
        (599, "9m59s"),
        (600, "10m"),
        (659, "10m"),
        (660, "11m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 59, "3h"),
        (3 * HOUR + 60, "3h1m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"),
        (8 * HOUR + 30 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (49 * HOUR - 1, "2d"),
        (49 * HOUR, "2d1h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (8 * DAY + 5 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY - 1, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (2 * YEAR + 30 * DAY, "2y30d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR, "8y"),
        (8 * YEAR + DAY, "8y"),
        (30 * YEAR + 9, "30y"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, expected: str) -> None:
    assert human(timedelta(seconds=seconds)) == expected


@pytest.mark.parametrize("timestamp", ["2026-11-21T17:00:00Z", "2026-11-21T17:00:00.000000Z"])
def test_timestamps_may_have_fractions(timestamp: str) -> None:
    assert since(timestamp, datetime(2026, 11, 21, 17, 2, 30, 999999, tzinfo=UTC)) == "2m30s"


@pytest.mark.parametrize("timestamp", [None, ""])
def test_without_a_timestamp_nobody_knows(timestamp: str | None) -> None:
    assert since(timestamp, datetime(2026, 11, 21, tzinfo=UTC)) == "<unknown>"
