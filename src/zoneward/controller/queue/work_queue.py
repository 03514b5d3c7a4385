"""The work queue of the controller: like client-go's, with urgency, batching and a wait for the cache.

A key has one item in the queue. An item waits, is being processed, or is quiet. A key that is added while it is being
processed is requeued afterwards. No key is handed out twice at a time.

`ItemSchedule` decides which key is next. It has no clock, no random numbers and no waiting. Items that wait until a
time are in one heap by that time. Items that are due have a rank: the time at which they became due plus what their
urgency can wait. So urgent items are first, and no item starves: an item in the background that has been
due for its `PATIENCE` is before one that has just become urgent. That holds among the items of one group, which is a
namespace; among groups `FairTurns` decides, by the CPU and the workers' time that each has used: a worker that waits
for the API server is of no use to others. The heaps may hold outdated entries; an entry counts while it has the ticket
of its item.

`WorkQueue` adds the clocks, the random numbers, and the workers that wait.

A change of a quiet Service is handed out at once. A change that follows is batched with those behind it, for three
reasons (`Batching`):

- ``period``, which the operator sets, as upstream's ``--endpointslice-updates-batch-period``. Upstream delays every
  change by it; here only changes that follow another one within the period wait. That costs one write more than
  upstream in each burst, the first one.
- the cost of decisions: some take a quarter of a second, and ten of a Service in a second are useless. A second of CPU
  counts as much as ``writes_of_cpu`` writes.
- the cost of writes: a rollout of 1,000 Pods touches ten slices with every few Pods. Each Service may write ``burst``
  slices at once and then ``writes_per_second``; further changes wait, for ``longest`` at most, because freshness is
  worth more than writes. Upstream's whole controller has 20 requests a second and a burst of 30, and no such limit.

A failed write is retried here: `WorkQueue.retry` queues the key again after a growing pause.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from heapq import heappop, heappush
from math import inf
from random import random
from time import thread_time
from types import coroutine
from typing import Any, Final, Generic, TypeVar

from zoneward.client.api_errors import ApiError
from zoneward.client.backoff import Backoff
from zoneward.controller.queue.fair_turns import FairTurns
from zoneward.kube.objects import ObjectKey


@dataclass(frozen=True, slots=True)
class WritePace:
    """When a Service was last handed out and written (s), and until when the allowed rate pays for its writes (s)."""

    written: float = -inf
    paid: float = -inf


NO_WRITES: Final = WritePace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """``period`` and ``longest`` in seconds; ``burst`` and ``writes_per_second`` in slices of one Service.

    No change waits longer than the greater of ``period`` and ``longest``.
    """

    period: float = 0.0
    writes_per_second: float = 10.0
    burst: float = 10.0
    longest: float = 0.5
    writes_of_cpu: float = 100.0

    def __post_init__(self) -> None:
        for name, least in (("period", 0.0), ("burst", 0.0), ("longest", 0.0)):
            if not least <= getattr(self, name) < inf:
                raise ValueError(f"{name}: expected a number from {least:g}, got {getattr(self, name)}")
        if not self.writes_per_second > 0:
            raise ValueError(f"writes_per_second: expected a number above 0, got {self.writes_per_second}")

    def due(self, changed: float, pace: WritePace) -> float:
        """When a change that came at ``changed`` is handed out, if no other one waits."""
        if changed >= self.quiet_from(pace):
            return changed
        return max(changed + self.period, min(self._affordable(pace), changed + self.longest))

    def quiet_from(self, pace: WritePace) -> float:
        """From when on a change is handed out at once."""
        return max(pace.written + self.period, self._affordable(pace))

    def forgotten_from(self, pace: WritePace) -> float:
        """From when on a pace is the same as none: all writes are paid for."""
        return max(pace.written + self.period, pace.paid)

    def after(self, pace: WritePace, *, taken: float, writes: int, cpu: float = 0.0) -> WritePace:
        """The pace after these writes of slices, and seconds of CPU, for the change that was handed out at ``taken``.

        Without both there is nothing to batch: the Service is as quiet as before.
        """
        cost = (writes + cpu * self.writes_of_cpu) / self.writes_per_second
        if not cost:
            return pace
        return WritePace(written=taken if writes else pace.written, paid=max(pace.paid, taken) + cost)

    def _affordable(self, pace: WritePace) -> float:
        return pace.paid - self.burst / self.writes_per_second


BACKOFF: Final = Backoff(initial=0.25, cap=60.0, jitter=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueDelay:
    """How long a Service waits after failures, in seconds.

    ``with_news``: after a change the next try may succeed, so it waits no longer than this. A time that the server
    asked for is always respected; after a change nothing is added to it.
    """

    backoff: Backoff = BACKOFF
    with_news: float = 2.0


K = TypeVar("K", bound=Hashable)
_Result = TypeVar("_Result")
FEW_ENDPOINTS: Final = 3
"""Up to this number of ready endpoints, each one makes a great difference."""


class Urgency(IntEnum):
    """How long a change can wait: a smaller number is more urgent."""

    URGENT = 0
    """An endpoint is removed or not ready any more, and traffic fails until that is written; or there are few
    endpoints."""
    NORMAL = 1
    BACKGROUND = 2
    """No object of the Service changed: a resync, or a change of demand."""


PATIENCE: Final = (0.0, 0.25, 5.0)
"""By urgency, the seconds for which more urgent items may overtake one that is due."""


def urgency_of(*, takes_away: bool, ready: int) -> Urgency:
    """The urgency of a change of endpoints: whether it removes one, and how many ``ready`` ones there were."""
    return Urgency.URGENT if takes_away or ready <= FEW_ENDPOINTS else Urgency.NORMAL


def namespace_of(key: ObjectKey) -> str:
    """The group of a key where namespaces share the CPU."""
    return key[0]


@dataclass(frozen=True, slots=True)
class WorkItem(Generic[K]):
    """A key to work on. ``since``: when the first change came that is not written yet (s). ``failures``: failed tries
    in a row. ``cache_timed_out``: the cache did not catch up in time, so the worker has to read from the API server."""

    key: K
    since: float
    urgency: Urgency
    failures: int = 0
    cache_timed_out: bool = False


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The number of keys that are due, that are not yet due (``gathering`` changes; ``failing``: retried later;
    ``stale``: waiting for the cache), and that workers are ``working`` on."""

    due: int = 0
    gathering: int = 0
    failing: int = 0
    stale: int = 0
    working: int = 0

    @property
    def waiting(self) -> int:
        return self.due + self.gathering + self.failing + self.stale


class _EntryState(Enum):
    QUIET = auto()
    LATER = auto()
    DUE = auto()
    WORKING = auto()


@dataclass(slots=True, eq=False)
class _QueueEntry(Generic[K]):
    key: K
    since: float
    urgency: Urgency
    state: _EntryState = _EntryState.QUIET
    ticket: int = 0
    """The number of its valid entry in the heaps; 0: none."""
    due: float = 0.0
    taken: float = 0.0
    cpu: float = 0.0
    """Seconds of CPU since it was handed out."""
    stale: bool = False
    failures: int = 0
    not_before: float = 0.0
    has_retry_after: bool = False
    """Whether, and until when, the server asked to wait after the last failure."""
    changed: float | None = None
    """When it first changed while it was being processed, and how urgent that change is."""
    changed_urgency: Urgency = Urgency.BACKGROUND
    pace: WritePace = NO_WRITES


_Heap = list[tuple[float, int, _QueueEntry[K]]]


class ItemSchedule(Generic[K]):
    """Every method takes ``now`` in seconds, which never decreases. ``group_of``: which group a key belongs to; all
    keys are of one group by default. ``workers``: how many share the work on all groups; None: as many as there are
    items, so that only CPU counts."""

    def __init__(
        self,
        batching: Batching,
        back_off: RequeueDelay,
        *,
        group_of: Callable[[K], Hashable] = lambda _key: None,
        workers: int | None = None,
    ) -> None:
        self._batching, self._back_off, self._group_of, self._workers = batching, back_off, group_of, workers
        self._entries: dict[K, _QueueEntry[K]] = {}
        self._later: _Heap[K] = []
        self._due = FairTurns[Hashable, _QueueEntry[K]]()
        self._working = 0
        self._quiet: _Heap[K] = []
        self._ticket = 0

    def add(self, key: K, *, now: float, urgency: Urgency = Urgency.NORMAL) -> None:
        """A key changed. Earlier changes of it are kept."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _QueueEntry(key, now, urgency)
            self._wait_until(entry, now)
        elif entry.state is _EntryState.WORKING:
            if entry.changed is None:
                entry.changed, entry.changed_urgency = now, urgency
            elif urgency < entry.changed_urgency:
                entry.changed_urgency = urgency
        elif entry.state is _EntryState.QUIET:
            entry.since, entry.urgency = now, urgency
            self._wait_until(entry, self._batching.due(now, entry.pace))
        else:
            self._add_to_waiting(entry, now, urgency)

    def take(self, now: float) -> WorkItem[K] | None:
        """The next key, which is not handed out again before `done`, `retry` or `wait_for_cache`; None: none is due."""
        self._forget_quiet(now)
        while self._later and self._later[0][0] <= now:
            _, ticket, entry = heappop(self._later)
            if entry.ticket == ticket:
                self._make_due(entry)
        item = self._due.pop(now)
        if item is None:
            if not self._working and self._due.next_due() is None:
                self._due.forget_charges()
            return None
        self._working += 1
        item.ticket, item.state, item.taken, item.cpu = 0, _EntryState.WORKING, now, 0.0
        return WorkItem(item.key, item.since, item.urgency, item.failures, item.stale)

    def charge(self, key: K, seconds: float) -> None:
        """Charge the group of a key that was handed out."""
        self._due.charge(self._group_of(key), seconds)

    def stepped(self, key: K, cpu: float, *, now: float) -> None:
        """A step of the work on a key that was handed out has just taken ``cpu`` seconds."""
        self._worked_on(key).cpu += cpu
        self.charge(key, cpu)
        self._due.stepped(cpu, now=now)

    def next_due(self) -> float | None:
        """When `take` has a key, which may be past; None: not before a key is added."""
        due = self._due.next_due()
        while self._later and self._later[0][2].ticket != self._later[0][1]:
            heappop(self._later)
        later = self._later[0][2].due if self._later else None
        return min((at for at in (due, later) if at is not None), default=None)

    def done(self, key: K, *, now: float, writes: int) -> float:
        """The work is done, with this number of slice writes. Returns the seconds since the first change."""
        entry = self._end_work(key, now=now, writes=writes)
        waited = now - entry.since
        entry.failures, entry.stale = 0, False
        if entry.changed is not None:
            entry.since, entry.urgency, entry.changed = entry.changed, entry.changed_urgency, None
            self._wait_until(entry, self._batching.due(entry.since, entry.pace))
        else:
            self._make_quiet(entry, now)
        return waited

    def retry(self, key: K, *, now: float, chance: float, writes: int = 0, retry_after: float | None = None) -> float:
        """The work failed. Returns the seconds until the next try; ``retry_after`` is what the server asked for."""
        entry = self._end_work(key, now=now, writes=writes)
        entry.failures, entry.stale = entry.failures + 1, False
        due = now + self._back_off.backoff.delay(entry.failures, random=chance, retry_after=retry_after)
        entry.not_before, entry.has_retry_after = now + (retry_after or 0.0), retry_after is not None
        has_news = entry.changed is not None
        self._merge_changes(entry)
        self._wait_until(entry, self._due_with_news(entry, due, now) if has_news else due)
        return entry.due - now

    def wait_for_cache(self, key: K, *, now: float, limit: float) -> None:
        """The cache lags behind our writes: the key is not handed out before `wake`, for at most ``limit`` seconds."""
        entry = self._end_work(key, now=now, writes=0)
        self._merge_changes(entry)
        entry.stale = True
        self._wait_until(entry, now + limit)

    def wake(self, key: K, *, now: float) -> bool:
        """The cache has what a key waits for. Returns whether the key waited for the cache."""
        entry = self._entries.get(key)
        if entry is None or not self._waits_for_cache(entry):
            return False
        entry.stale = False
        self._wait_until(entry, now)
        return True

    def is_stale(self, key: K) -> bool:
        """Whether a key waits for the cache."""
        entry = self._entries.get(key)
        return entry is not None and self._waits_for_cache(entry)

    def restart_waiting(self, now: float) -> None:
        """Waiting keys wait since now, and not since they changed: until now another replica led. Visits all items."""
        for entry in self._entries.values():
            entry.since = now
            if entry.changed is not None:
                entry.changed = now

    # --- what can be measured -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of keys that are remembered, quiet ones too."""
        return len(self._entries)

    def depth(self, now: float) -> QueueDepth:
        """Visits all items."""
        due = gathering = failing = stale = working = 0
        for entry in self._entries.values():
            if entry.state is _EntryState.WORKING:
                working += 1
            elif entry.state is not _EntryState.QUIET:
                if entry.due <= now:
                    due += 1
                elif entry.stale:
                    stale += 1
                elif entry.failures:
                    failing += 1
                else:
                    gathering += 1
        return QueueDepth(due, gathering, failing, stale, working)

    def longest_wait(self, now: float) -> float:
        """Seconds since the first change that is not written, in progress or not; 0 for none. Visits all items."""
        return now - min(
            (entry.since for entry in self._entries.values() if entry.state is not _EntryState.QUIET), default=now
        )

    # --- entries ------------------------------------------------------------------------------------------------------

    def _worked_on(self, key: K) -> _QueueEntry[K]:
        entry = self._entries.get(key)
        if entry is None or entry.state is not _EntryState.WORKING:
            raise ValueError(f"expected a key that was handed out, got {key}")
        return entry

    def _end_work(self, key: K, *, now: float, writes: int) -> _QueueEntry[K]:
        entry = self._worked_on(key)
        self._working -= 1
        if self._workers is not None:
            # A second of one of four workers counts as a quarter of a second of CPU.
            self.charge(key, max(0.0, (now - entry.taken) / self._workers - entry.cpu))
        entry.pace = self._batching.after(entry.pace, taken=entry.taken, writes=writes, cpu=entry.cpu)
        return entry

    def _waits_for_cache(self, entry: _QueueEntry[K]) -> bool:
        return entry.stale and entry.state is not _EntryState.WORKING

    def _add_to_waiting(self, entry: _QueueEntry[K], now: float, urgency: Urgency) -> None:
        """A change of a key that already waits."""
        is_raised = urgency < entry.urgency
        if is_raised:
            entry.urgency = urgency
        if entry.state is _EntryState.DUE:
            if is_raised:
                self._make_due(entry)
        elif entry.failures and not entry.stale:
            due = self._due_with_news(entry, entry.due, now)
            if due < entry.due:
                self._wait_until(entry, due)

    def _due_with_news(self, entry: _QueueEntry[K], due: float, now: float) -> float:
        # Changes come at different times, which spreads the retries as well as random numbers do.
        wait = 0.0 if entry.has_retry_after else self._back_off.with_news
        return max(entry.not_before, min(due, now + wait))

    def _merge_changes(self, entry: _QueueEntry[K]) -> None:
        """Changes during the work wait together with those that the work was for."""
        if entry.changed is not None:
            entry.urgency, entry.changed = min(entry.urgency, entry.changed_urgency), None

    def _wait_until(self, entry: _QueueEntry[K], due: float) -> None:
        entry.due, entry.state = due, _EntryState.LATER
        heappush(self._later, (due, self._next_ticket(entry), entry))

    def _make_due(self, entry: _QueueEntry[K]) -> None:
        entry.state = _EntryState.DUE
        self._next_ticket(entry)
        self._due.push(self._group_of(entry.key), entry, rank=entry.due + PATIENCE[entry.urgency])

    def _make_quiet(self, entry: _QueueEntry[K], now: float) -> None:
        """Nothing to do: the item is kept only while its pace matters for the changes to come."""
        until = self._batching.forgotten_from(entry.pace)
        if until <= now:
            del self._entries[entry.key]
        else:
            entry.state = _EntryState.QUIET
            heappush(self._quiet, (until, self._next_ticket(entry), entry))

    def _forget_quiet(self, now: float) -> None:
        while self._quiet and self._quiet[0][0] <= now:
            _, ticket, entry = heappop(self._quiet)
            if entry.ticket == ticket:
                del self._entries[entry.key]

    def _next_ticket(self, entry: _QueueEntry[K]) -> int:
        self._ticket += 1
        entry.ticket = self._ticket
        return self._ticket


CACHE_TIMEOUT: Final = 5.0
"""Seconds to wait for the cache."""


class WorkQueue(Generic[K]):
    """Keys for any number of workers in one event loop::

        while (item := await queue.get()) is not None:
            try:
                writes = await queue.run(item.key, work(item.key))
            except SomethingFailed as error:
                queue.retry(item.key, error=error)
            else:
                queue.done(item.key, writes=writes)

    Each key that is handed out must be answered with `done`, `retry` or `wait_for_cache`. ``clock`` is the event loop's
    by default, ``cpu_clock`` counts the seconds of CPU of its thread; ``chance`` returns random numbers from 0 to 1.
    ``group_of`` gives the namespace of a key, so that no namespace can starve others: neither by CPU nor, where the
    number of ``workers`` is given, by keeping all of them.
    """

    def __init__(
        self,
        *,
        batching: Batching | None = None,
        back_off: RequeueDelay | None = None,
        clock: Callable[[], float] | None = None,
        chance: Callable[[], float] = random,
        cpu_clock: Callable[[], float] = thread_time,
        group_of: Callable[[K], Hashable] = lambda _key: None,
        workers: int | None = None,
    ) -> None:
        self._schedule = ItemSchedule[K](
            batching or Batching(), back_off or RequeueDelay(), group_of=group_of, workers=workers
        )
        self._cpu_clock = cpu_clock
        self._clock = clock or asyncio.get_running_loop().time
        self._chance = chance
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_shut_down = False

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, key: K, *, urgency: Urgency = Urgency.NORMAL) -> None:
        """A key changed. It may be called at any rate: a key that already waits costs one look-up."""
        self._schedule.add(key, now=self._clock(), urgency=urgency)
        if self._getters:
            self._wake_getters()

    def add_all(self, keys: Iterable[K], *, urgency: Urgency = Urgency.NORMAL) -> None:
        """Keys that changed together."""
        now = self._clock()
        for key in keys:
            self._schedule.add(key, now=now, urgency=urgency)
        if self._getters:
            self._wake_getters()

    def wake(self, key: K) -> bool:
        """The cache has what a key waits for. Returns whether the key waited for the cache."""
        is_woken = self._schedule.wake(key, now=self._clock())
        if is_woken:
            self._wake_getters()
        return is_woken

    def is_stale(self, key: K) -> bool:
        """Whether a key waits for the cache."""
        return self._schedule.is_stale(key)

    # --- work ---------------------------------------------------------------------------------------------------------

    async def get(self) -> WorkItem[K] | None:
        """Wait for the next key; None once the queue is shut down. No key is lost when the caller is cancelled."""
        while not self._is_shut_down:
            item = self._schedule.take(self._clock())
            if item is not None:
                # The timer wakes one getter for all that is due: there may be more.
                self._wake_getters()
                return item
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            self._set_timer()
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                else:
                    # It was woken for a key that another getter can have.
                    self._wake_getters()
                raise
        return None

    @coroutine
    def run(self, key: K, work: Coroutine[Any, None, _Result]) -> Generator[Any, None, _Result]:
        """Do the work on a key that was handed out, and charge its CPU, step by step, to the key's group."""
        error: BaseException | None = None
        while True:
            begin = self._cpu_clock()
            try:
                awaited = work.send(None) if error is None else work.throw(error)
            except StopIteration as end:
                result: _Result = end.value
                return result
            finally:
                self._schedule.stepped(key, self._cpu_clock() - begin, now=self._clock())
            error = None
            try:
                yield awaited
            except BaseException as thrown:
                error = thrown

    def charge(self, key: K, seconds: float) -> None:
        """Charge the group of a key that was handed out for something other than CPU."""
        self._schedule.charge(key, seconds)

    def done(self, key: K, *, writes: int = 0) -> float:
        """The work is done, with this number of slice writes. Returns the seconds since the key's first change."""
        waited = self._schedule.done(key, now=self._clock(), writes=writes)
        self._wake_getters()
        return waited

    def retry(self, key: K, *, writes: int = 0, error: Exception | None = None) -> float:
        """The work failed and is retried after a growing pause, and after the time that the server asked for. Returns
        the pause in seconds."""
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        pause = self._schedule.retry(
            key, now=self._clock(), chance=self._chance(), writes=writes, retry_after=retry_after
        )
        self._wake_getters()
        return pause

    def wait_for_cache(self, key: K, *, limit: float = CACHE_TIMEOUT) -> None:
        """The cache lags behind our writes: the key is handed out again after `wake`, or after ``limit`` seconds with
        ``cache_timed_out``."""
        self._schedule.wait_for_cache(key, now=self._clock(), limit=limit)
        self._wake_getters()

    def shut_down(self) -> None:
        """Hand out nothing more, and end all `get`; keys that were handed out can still be answered."""
        self._is_shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            _wake(self._getters.popleft())

    def restart_waiting(self) -> None:
        """This replica leads from now on: keys wait since now. When they are handed out does not change."""
        self._schedule.restart_waiting(self._clock())

    # --- what can be measured -----------------------------------------------------------------------------------------

    def depth(self) -> QueueDepth:
        """The number of keys by what they wait for."""
        return self._schedule.depth(self._clock())

    def longest_wait(self) -> float:
        """Seconds since the first change that is not written; 0 for none."""
        return self._schedule.longest_wait(self._clock())

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _wake_getters(self) -> None:
        """Wake a getter if a key is due; otherwise set the timer for the next key."""
        if not self._getters or self._is_shut_down:
            return
        due = self._schedule.next_due()
        if due is not None and due <= self._clock():
            _wake(self._getters.popleft())
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        due = self._schedule.next_due()
        if due is None:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(0.0, due - self._clock())
        if self._timer is not None:
            if self._timer.when() <= at and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._wake_getters()


def _wake(getter: asyncio.Future[None]) -> None:
    if not getter.done():
        getter.set_result(None)
