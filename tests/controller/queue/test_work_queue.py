"""Workers in an event loop get every key, each in its time, and never the same one twice at once."""

import asyncio
from itertools import pairwise
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from zoneward.client.backoff import Backoff
from zoneward.controller.queue.work_queue import (
    NO_WRITES,
    PATIENCE,
    Batching,
    ItemSchedule,
    QueueDepth,
    RequeueDelay,
    Urgency,
    WorkItem,
    WorkQueue,
)

# --- No Service is lost, none is worked on twice at once, and the more urgent comes first without starving the rest ---


BATCHING = Batching(period=1.0, writes_per_second=4, burst=2, longest=2.0)
BACK_OFF = RequeueDelay(backoff=Backoff(initial=0.5, cap=8, jitter=0.5), with_news=1)


def a_schedule(*keys: str, batching: Batching = BATCHING, urgency: Urgency = Urgency.NORMAL) -> ItemSchedule[str]:
    """To which these keys were added at the beginning."""
    schedule = ItemSchedule[str](batching, BACK_OFF)
    for key in keys:
        schedule.add(key, now=0, urgency=urgency)
    return schedule


def fail(schedule: ItemSchedule[str], *times: float, retry_after: float | None = None) -> float:
    """``a`` is taken and fails at each of these times. Returns the last pause."""
    for now in times:
        assert schedule.take(now) is not None
        pause = schedule.retry("a", now=now, chance=1, retry_after=retry_after)
    return pause


def taken(schedule: ItemSchedule[str], now: float) -> list[str]:
    """All keys that are given out now, in their order."""
    keys = []
    while (given := schedule.take(now)) is not None:
        keys.append(given.key)
    return keys


def test_change_during_work_is_requeued_after_it() -> None:
    schedule = a_schedule("a")
    assert schedule.take(0) == WorkItem("a", 0, Urgency.NORMAL)
    schedule.add("a", now=0.1)
    schedule.add("a", now=0.2, urgency=Urgency.URGENT)
    assert schedule.take(0.3) is None
    assert schedule.done("a", now=0.3, writes=0) == 0.3
    assert schedule.take(0.3) == WorkItem("a", 0.1, Urgency.URGENT)
    schedule.add("a", now=0.4)
    schedule.done("a", now=0.5, writes=1)
    assert schedule.next_due() == 1.4
    assert schedule.take(1.3) is None
    assert schedule.take(1.4) == WorkItem("a", 0.4, Urgency.NORMAL)


def test_urgent_keys_are_before_a_resync_and_equal_keys_are_in_order() -> None:
    resync = [f"{index:04}" for index in range(2000)]
    schedule = a_schedule(*resync, urgency=Urgency.BACKGROUND)
    schedule.add("normal", now=1)
    schedule.add("urgent", now=1.1, urgency=Urgency.URGENT)
    schedule.add("0007", now=1.1, urgency=Urgency.URGENT)
    resync.remove("0007")
    assert taken(schedule, 1.2) == ["0007", "urgent", "normal", *resync]


def test_no_key_starves() -> None:
    """Urgent changes come faster than they can be worked on."""
    schedule = a_schedule("resync", urgency=Urgency.BACKGROUND)
    for tick in range(1000):
        now = tick / 10
        for index in range(2):
            schedule.add(f"urgent-{tick}-{index}", now=now, urgency=Urgency.URGENT)
        given = schedule.take(now)
        if given is not None and given.key == "resync":
            break
    # Those before it in the line came while it was patient, two for each that was taken.
    assert now <= 2 * PATIENCE[Urgency.BACKGROUND] + 0.1


def test_failures_back_off_until_a_success() -> None:
    schedule, now = a_schedule("a"), 0.0
    pauses = []
    for failures in range(6):
        given = schedule.take(now)
        assert given == WorkItem("a", 0, Urgency.NORMAL, failures)
        pauses.append(schedule.retry("a", now=now, chance=1))
        assert schedule.take(now + pauses[-1] - 0.01) is None
        now += pauses[-1]
    assert pauses == [0.5, 1, 2, 4, 8, 8]
    schedule.take(now)
    schedule.done("a", now=now, writes=0)
    schedule.add("a", now=now)
    assert schedule.take(now) == WorkItem("a", now, Urgency.NORMAL, 0)


def test_a_change_shortens_the_backoff_even_during_the_work() -> None:
    schedule = a_schedule("a", urgency=Urgency.BACKGROUND)
    fail(schedule, 0, 10, 20, 30)
    schedule.add("a", now=30.1)
    assert schedule.next_due() == 31.1
    assert schedule.take(40) is not None
    schedule.add("a", now=40, urgency=Urgency.URGENT)
    assert schedule.retry("a", now=40, chance=1) == 1
    assert schedule.take(41) == WorkItem("a", 0, Urgency.URGENT, 5)


def test_retry_after_is_respected_in_spite_of_changes() -> None:
    schedule = a_schedule("a")
    assert fail(schedule, 0, retry_after=30) >= 30
    schedule.add("a", now=1, urgency=Urgency.URGENT)
    assert schedule.take(29.9) is None
    assert schedule.take(30) == WorkItem("a", 0, Urgency.URGENT, 1)
    assert schedule.retry("a", now=30, chance=1, retry_after=1) > 1.4, "chance spreads those that failed together"
    assert schedule.take(31.4) is None
    schedule.add("a", now=31.4)
    assert schedule.take(31.4) is not None


def test_a_key_waits_for_the_cache_until_it_is_woken_or_the_limit() -> None:
    schedule = a_schedule("a")
    fail(schedule, 0)
    schedule.take(0.5)
    schedule.wait_for_cache("a", now=0.5, limit=60)
    assert schedule.wake("a", now=1)
    assert schedule.take(1) == WorkItem("a", 0, Urgency.NORMAL, 1)
    assert not schedule.wake("a", now=1)
    schedule.wait_for_cache("a", now=1, limit=60)
    schedule.add("a", now=2)
    assert schedule.is_stale("a"), "a change does not bring the cache up to date"
    assert (schedule.next_due(), schedule.take(60.9)) == (61, None)
    assert schedule.take(61) == WorkItem("a", 0, Urgency.NORMAL, 1, cache_timed_out=True)
    schedule.retry("a", now=61, chance=1)
    assert schedule.take(70) == WorkItem("a", 0, Urgency.NORMAL, 2)


def test_waiting_keys_are_counted_and_wait_since_this_replica_leads() -> None:
    schedule = a_schedule("due", "gathering", "failing", "stale", "working")
    taken(schedule, 0)
    schedule.done("due", now=0, writes=0)
    schedule.add("due", now=0.5)
    schedule.done("gathering", now=0, writes=1)
    schedule.add("gathering", now=0.5)
    schedule.retry("failing", now=0, chance=1, retry_after=9)
    schedule.wait_for_cache("stale", now=0, limit=9)
    assert schedule.depth(0.75) == QueueDepth(due=1, gathering=1, failing=1, stale=1, working=1)
    assert schedule.longest_wait(0.75) == 0.75
    assert a_schedule().longest_wait(3) == 0
    schedule.restart_waiting(100)
    assert schedule.longest_wait(101) == 1
    assert schedule.done("working", now=101, writes=0) == 1
    assert taken(schedule, 101) == ["due", "gathering", "stale", "failing"]


# --- any order of events ----------------------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """A schedule beside the simplest model of it: what has changed and is not done, and who works on what."""

    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.schedule, self.now = a_schedule(), 0.0
        self.changed: dict[str, float] = {}
        self.working: dict[str, float] = {}
        self.not_before: dict[str, float] = {}
        self.at_once: set[str] = set()
        self.wrote: set[str] = set()

    @rule(key=st.sampled_from("abcd"), urgency=st.sampled_from(Urgency))
    def add(self, key: str, urgency: Urgency) -> None:
        is_quiet = key not in self.changed and key not in self.working and key not in self.wrote
        self.schedule.add(key, now=self.now, urgency=urgency)
        self.changed.setdefault(key, self.now)
        if is_quiet:
            self.at_once.add(key)

    @rule()
    def take(self) -> None:
        given = self.schedule.take(self.now)
        if given is None:
            assert not self.at_once, "the first change waits for nothing"
            return
        assert given.key not in self.working, "worked on twice at once"
        assert given.since == self.changed.pop(given.key)
        assert self.now >= self.not_before.pop(given.key, 0), "before the server's time"
        self.at_once.discard(given.key)
        self.working[given.key] = given.since

    @rule(writes=st.integers(0, 6), data=st.data())
    def done(self, writes: int, data: st.DataObject) -> None:
        if self.working:
            key = data.draw(st.sampled_from(sorted(self.working)))
            self.schedule.done(key, now=self.now, writes=writes)
            del self.working[key]
            if writes:
                self.wrote.add(key)

    @rule(retry_after=st.sampled_from((None, None, 0.0, 3.0, 20.0)), chance=st.floats(0, 1), data=st.data())
    def failed(self, retry_after: float | None, chance: float, data: st.DataObject) -> None:
        if self.working:
            key = data.draw(st.sampled_from(sorted(self.working)))
            pause = self.schedule.retry(key, now=self.now, chance=chance, retry_after=retry_after)
            assert 0 < pause <= BACK_OFF.backoff.cap + (retry_after or 0) or pause == retry_after
            self._again(key)
            self.not_before[key] = self.now + (retry_after or 0)

    @rule(limit=st.sampled_from((1.0, 30.0)), data=st.data())
    def stale(self, limit: float, data: st.DataObject) -> None:
        if self.working:
            key = data.draw(st.sampled_from(sorted(self.working)))
            self.schedule.wait_for_cache(key, now=self.now, limit=limit)
            self._again(key)

    def _again(self, key: str) -> None:
        self.changed[key] = self.working.pop(key)

    @rule(key=st.sampled_from("abcd"))
    def wake(self, key: str) -> None:
        was = self.schedule.is_stale(key)
        assert self.schedule.wake(key, now=self.now) == was

    @rule(seconds=st.sampled_from((0.125, 0.5, 1.0, 4.0, 64.0)))
    def pass_time(self, seconds: float) -> None:
        self.at_once.clear()
        self.now += seconds

    @invariant()
    def what_is_counted_is_what_there_is(self) -> None:
        depth = self.schedule.depth(self.now)
        assert depth.working == len(self.working)
        assert depth.waiting == len(self.changed.keys() - self.working.keys())
        assert self.schedule.longest_wait(self.now) == self.now - min(
            [*self.changed.values(), *self.working.values()], default=self.now
        )
        due = self.schedule.next_due()
        assert (due is not None) == bool(depth.waiting)

    def teardown(self) -> None:
        """After any steps, every change is handed out once a worker asks, and then nothing is remembered."""
        for key in list(self.working):
            self.schedule.done(key, now=self.now, writes=0)
        self.working.clear()
        for _ in range(len(self.changed)):
            due = self.schedule.next_due()
            assert due is not None
            self.now = max(self.now, due)
            given = self.schedule.take(self.now)
            assert given is not None
            del self.changed[given.key]
            self.schedule.done(given.key, now=self.now, writes=0)
        assert not self.changed
        assert self.schedule.next_due() is None
        self.schedule.take(self.now + 1000)
        assert len(self.schedule) == 0


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=50, stateful_step_count=40)


# --- How changes are gathered: the first waits for nothing, and none waits too long -----------------------------------


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


CHANGES = st.lists(st.integers(0, 6000).map(lambda eighths: eighths / 8), max_size=60)


@given(CHANGES, st.sampled_from((0.0, 0.5, 4.0)), st.integers(1, 40))
def test_no_change_waits_longer_than_allowed(changes: list[float], period: float, writes: int) -> None:
    batching = Batching(period=period, writes_per_second=2, burst=3, longest=1.5)
    given = gives(changes, batching, writes=writes)
    rest = sorted(changes)
    for time, index in given:
        gathered, rest = rest[:index], rest[index:]
        assert 0 <= time - gathered[0] <= max(period, 1.5) + 1e-9
    assert not rest


@given(CHANGES, st.sampled_from((1.0, 4.0)))
def test_two_writes_are_never_closer_than_the_period(changes: list[float], period: float) -> None:
    times = [time for time, _ in gives(changes, Batching(period=period, writes_per_second=FREE))]
    assert all(later - earlier >= period for earlier, later in pairwise(times))


@pytest.mark.parametrize(
    ("pods_a_second", "most_writes"),
    [pytest.param(650, 125, id="as-fast-as-the-api-allows"), pytest.param(50, 481, id="50-pods-a-second")],
)
def test_a_rollout_of_1000_pods_costs_no_more_writes_than_upstream_and_none_is_late(
    pods_a_second: int, most_writes: int
) -> None:
    """Upstream's figures on a real cluster are the limits. Ten slices: each added or deleted Pod touches any one."""
    chance, batching = Random(1), Batching()
    changes = [index / pods_a_second + moved for index in range(1000) for moved in (0.0, 0.05)]
    rest = [(changed, chance.randrange(10)) for changed in sorted(changes)]
    pace, writes = NO_WRITES, 0
    while rest:
        first = rest[0][0]
        due = batching.due(first, pace)
        assert due - first < 1.0
        touched = {slice_ for changed, slice_ in rest if changed <= due}
        rest = [change for change in rest if change[0] > due]
        writes += len(touched)
        pace = batching.after(pace, taken=due, writes=len(touched))
    assert writes <= most_writes


# --- CPU --------------------------------------------------------------------------------------------------------------


async def test_work_is_charged_step_by_step() -> None:
    cpu = 0.0
    queue = WorkQueue[str](cpu_clock=lambda: cpu, group_of=lambda key: key[0])
    moment, is_cancelled = asyncio.Event(), False

    async def work(outcome: str) -> str:
        nonlocal cpu, is_cancelled
        cpu += 1
        try:
            await moment.wait()
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        cpu += 2
        if outcome == "fails":
            raise LookupError(outcome)
        return outcome

    queue.add_all(["a1", "a2", "a3"])
    for outcome in ("succeeds", "fails", "is cancelled"):
        moment.clear()
        item = await queue.get()
        assert item is not None
        task = asyncio.create_task(queue.run(item.key, work(outcome)))
        await asyncio.sleep(0)
        cpu += 100
        if outcome == "is cancelled":
            task.cancel()
        moment.set()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        assert str(result) == ("" if outcome == "is cancelled" else outcome)
        queue.done(item.key)
    assert is_cancelled
    assert queue._schedule._due._groups["a"].used == 3 + 3 + 1
