"""The first change waits for nothing, those that follow are gathered, and none waits too long."""

from itertools import pairwise
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.controller.queue.batching import NO_WRITES, Batching

FREE = 1e9
"""Slices a second that nobody writes: only the period counts."""


def gives(changes: list[float], batching: Batching, *, writes: int = 1) -> list[tuple[float, int]]:
    """When the changes of one Service are given out, and how many each time, with work that takes no time."""
    given: list[tuple[float, int]] = []
    pace, waiting, due = NO_WRITES, 0, inf
    for changed in [*sorted(changes), inf]:
        while waiting and due < changed:
            given.append((due, waiting))
            pace, waiting = batching.after(pace, taken=due, writes=writes), 0
        if changed < inf:
            due = min(due, batching.due(changed, pace)) if waiting else batching.due(changed, pace)
            waiting += 1
    return given


def upstream_gives(changes: list[float], period: float) -> int:
    """How often upstream would: each change is delayed by the period, and joins one that waits already."""
    number, due = 0, -inf
    for changed in sorted(changes):
        if changed > due:
            number, due = number + 1, changed + period
    return number


@pytest.mark.parametrize(
    ("period", "writes", "given"),
    [
        pytest.param(1.0, 1, [(0.2, 1), (1.3, 2), (3.0, 1)], id="the-first-waits-for-nothing-what-follows-is-gathered"),
        pytest.param(0.0, 1, [(0.2, 1), (0.3, 1), (0.4, 1), (3.0, 1)], id="without-a-period-all-at-once"),
        pytest.param(1.0, 0, [(0.2, 1), (0.3, 1), (0.4, 1), (3.0, 1)], id="work-that-wrote-nothing"),
    ],
)
def test_what_follows_a_write_is_gathered(period: float, writes: int, given: list[tuple[float, int]]) -> None:
    assert gives([0.2, 0.3, 0.4, 3.0], Batching(period=period, writes_per_second=FREE), writes=writes) == given


def test_many_writes_are_paid_for_by_a_wait_and_few_are_not() -> None:
    batching = Batching(writes_per_second=10, burst=10, longest=0.8)
    assert batching.due(1.0, batching.after(NO_WRITES, taken=1.0, writes=10)) == 1.0
    assert batching.due(1.0, batching.after(NO_WRITES, taken=1.0, writes=15)) == pytest.approx(1.5)
    assert batching.due(1.0, batching.after(NO_WRITES, taken=1.0, writes=1000)) == 1.8


CHANGES = st.lists(st.integers(0, 6000).map(lambda each: each / 8), max_size=60)


@given(CHANGES, st.sampled_from((0.0, 1.0, 4.0, 100.0)))
def test_no_more_is_given_out_than_upstream_gives_but_for_the_first_of_each_burst(
    changes: list[float], period: float
) -> None:
    given = gives(changes, Batching(period=period, writes_per_second=FREE))
    firsts, rest = 0, sorted(changes)
    for time, number in given:
        firsts += time == rest[0]
        rest = rest[number:]
    assert len(given) <= upstream_gives(changes, period) + firsts
    assert sum(number for _, number in given) == len(changes)


@given(CHANGES, st.sampled_from((0.0, 0.5, 4.0)), st.integers(1, 40))
def test_nothing_waits_longer_than_is_allowed(changes: list[float], period: float, writes: int) -> None:
    batching = Batching(period=period, writes_per_second=2, burst=3, longest=1.5)
    given = gives(changes, batching, writes=writes)
    rest = sorted(changes)
    for time, number in given:
        gathered, rest = rest[:number], rest[number:]
        assert 0 <= time - gathered[0] <= max(period, 1.5) + 1e-9
    assert not rest


@given(CHANGES, st.sampled_from((1.0, 4.0)))
def test_two_writes_are_never_closer_than_the_period(changes: list[float], period: float) -> None:
    times = [time for time, _ in gives(changes, Batching(period=period, writes_per_second=FREE))]
    assert all(later - earlier >= period for earlier, later in pairwise(times))


@pytest.mark.parametrize(
    ("pods_a_second", "most_writes"),
    [pytest.param(650, 125, id="as-fast-as-the-api-goes"), pytest.param(50, 481, id="50-pods-a-second")],
)
def test_a_rollout_of_1000_pods_costs_no_more_writes_than_upstreams_and_none_is_late(
    pods_a_second: int, most_writes: int
) -> None:
    """Upstream's figures on a real cluster are the limits. Ten slices: each Pod that comes or goes touches any one."""
    chance, batching = Random(1), Batching()
    changes = [number / pods_a_second + moved for number in range(1000) for moved in (0.0, 0.05)]
    rest = [(changed, chance.randrange(10)) for changed in sorted(changes)]
    pace, writes = NO_WRITES, 0
    while rest:
        first = rest[0][0]
        due = batching.due(first, pace)
        assert due - first < 1.0
        touched = {slice_ for changed, slice_ in rest if changed <= due}
        rest = [each for each in rest if each[0] > due]
        writes += len(touched)
        pace = batching.after(pace, taken=due, writes=len(touched))
    assert writes <= most_writes


@pytest.mark.parametrize("value", [-1.0, inf])
def test_a_setting_that_cannot_be_meant_is_refused(value: float) -> None:
    for setting in ("period", "burst", "longest"):
        with pytest.raises(ValueError, match=f"{setting}: expected a number from 0, got {value}"):
            Batching(**{setting: value})
    with pytest.raises(ValueError, match="writes_per_second: expected a number above 0, got 0"):
        Batching(writes_per_second=0)
