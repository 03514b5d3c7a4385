"""Ages of objects, as ``kubectl get`` prints them."""

from datetime import UTC, datetime, timedelta

import pytest

from zoneward.sandbox.server.kubectl_tables import human, since

HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
AGES = {
    "<invalid>": (-4000, -2),
    "0s": (-1.95, 0, 0.9),
    "119s": (119,),
    "2m": (120, 179),
    "179m": (3 * HOUR - 1,),
    "3h": (3 * HOUR, 4 * HOUR - 1),
    "47h": (2 * DAY - 1,),
    "2d": (2 * DAY, 3 * DAY - 1),
    "729d": (2 * YEAR - 1,),
    "2y": (2 * YEAR, 3 * YEAR - 1),
}


@pytest.mark.parametrize("expected", AGES)
def test_a_duration_has_one_unit(expected: str) -> None:
    assert {human(timedelta(seconds=seconds)) for seconds in AGES[expected]} == {expected}


def test_timestamps_may_have_fractions_or_be_absent() -> None:
    now = datetime(2026, 11, 21, 17, 2, 30, 999999, tzinfo=UTC)
    assert since("2026-11-21T17:00:00Z", now) == since("2026-11-21T17:00:00.000000Z", now) == "2m"
    assert since(None, now) == since("", now) == "<unknown>"
