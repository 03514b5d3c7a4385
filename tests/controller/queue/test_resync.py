"""Every Service once in a period, spread over all of it."""

import pytest

from zoneward.controller.endpointslice_controller import PeriodicResync

KEYS = [("shop", f"cart-{number}") for number in range(100)]


def test_each_is_due_once_in_a_period_and_not_all_at_once() -> None:
    resync, found, most = PeriodicResync(period=1000), [], 0
    asked = 0

    def keys() -> list[tuple[str, str]]:
        nonlocal asked
        asked += 1
        return KEYS

    for now in range(3004):
        due = resync.due(keys, now=5000 + now)
        most = max(most, len(due))
        found += due
        if now in (1001, 2002, 3003):
            assert sorted(found) == sorted(KEYS * (now // 1000))
    assert most == 1
    assert asked <= 4, "one list a period"


def test_after_a_long_pause_no_more_than_one_round_is_due() -> None:
    resync = PeriodicResync(period=10)
    assert resync.due(lambda: KEYS, now=0) == []
    assert resync.due(lambda: KEYS, now=1000) == KEYS
    assert resync.due(lambda: KEYS, now=1000) == []


def test_there_may_be_none() -> None:
    resync = PeriodicResync(period=10)
    assert [resync.due(list, now=now) for now in (0, 5, 10, 20)] == [[]] * 4
    assert resync.due(lambda: KEYS[:1], now=30) == []
    assert resync.due(list, now=40) == KEYS[:1]


def test_a_period_is_some_time() -> None:
    with pytest.raises(ValueError, match="period: expected a number of seconds above 0"):
        PeriodicResync(period=0)
