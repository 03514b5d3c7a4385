"""Which Service is worked on next: one entry a Service, whatever happens to it. No clock, no chance, no waiting.

An entry waits, is worked on, or is quiet. What happens to one that is worked on is remembered and waits afterwards.
Those that wait until a time are in one heap by that time, those that are due in another by rank: the time at which
they became due plus what their urgency can wait. So the more urgent go first, and nobody is passed over for ever:
something in the background that has been due for `PATIENCE` goes before what has just become urgent.
Heaps may hold items that are out of date; an item counts while it has the number that its entry remembers.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from zoneward.controller.queue.batching import NEVER_WRITTEN, Batching, Pace, RequeueDelay

K = TypeVar("K", bound=Hashable)
FEW_ENDPOINTS: Final = 3
"""Up to this number of ready endpoints, one more makes much of a difference."""


class Urgency(IntEnum):
    """What a change can wait for: smaller numbers less."""

    URGENT = 0
    """An endpoint goes away or is not ready any more: traffic fails until it is written. Or few are there at all."""
    NORMAL = 1
    BACKGROUND = 2
    """Nothing is known to have changed: a resync, demand."""


PATIENCE: Final = (0.0, 0.25, 5.0)
"""Seconds by urgency that one which is due may be passed over by those that are more urgent."""


def urgency_of(*, takes_away: bool, ready: int) -> Urgency:
    """The urgency of a change of endpoints: whether it takes one away, and how many ``ready`` ones were there."""
    return Urgency.URGENT if takes_away or ready <= FEW_ENDPOINTS else Urgency.NORMAL


@dataclass(frozen=True, slots=True)
class Given(Generic[K]):
    """A key to work on. ``since``: when the first change came that is not written yet (s). ``failures``: tries in a row
    that failed. ``in_vain``: the cache was waited for, and did not come: read afresh."""

    key: K
    since: float
    urgency: Urgency
    failures: int = 0
    in_vain: bool = False


@dataclass(frozen=True, slots=True)
class Depth:
    """How many keys are due, wait to be (``gathering``; after failures: ``failing``; for the cache: ``stale``), and
    are worked on."""

    due: int = 0
    gathering: int = 0
    failing: int = 0
    stale: int = 0
    working: int = 0

    @property
    def waiting(self) -> int:
        return self.due + self.gathering + self.failing + self.stale


class _State(Enum):
    QUIET = auto()
    LATER = auto()
    DUE = auto()
    WORKING = auto()


@dataclass(slots=True, eq=False)
class _Entry(Generic[K]):
    key: K
    since: float
    urgency: Urgency
    state: _State = _State.QUIET
    number: int = 0
    """Of the one item in the heaps that counts; 0: none."""
    due: float = 0.0
    given: float = 0.0
    stale: bool = False
    failures: int = 0
    not_before: float = 0.0
    asked: bool = False
    """Whether, and until when, the server asked to wait after the last failure."""
    changed: float | None = None
    """When it first changed while it was worked on, and how urgent that is."""
    changed_urgency: Urgency = Urgency.BACKGROUND
    pace: Pace = NEVER_WRITTEN


_Heap = list[tuple[float, int, _Entry[K]]]


class Schedule(Generic[K]):
    """Every method takes ``now`` in seconds, which never goes back."""

    def __init__(self, batching: Batching, back_off: RequeueDelay) -> None:
        self._batching, self._back_off = batching, back_off
        self._entries: dict[K, _Entry[K]] = {}
        self._later: _Heap[K] = []
        self._due: _Heap[K] = []
        self._quiet: _Heap[K] = []
        self._number = 0

    def add(self, key: K, *, now: float, urgency: Urgency = Urgency.NORMAL) -> None:
        """Something happened to a key. Nothing that was added before is forgotten."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, now, urgency)
            self._wait(entry, now)
        elif entry.state is _State.WORKING:
            if entry.changed is None:
                entry.changed, entry.changed_urgency = now, urgency
            elif urgency < entry.changed_urgency:
                entry.changed_urgency = urgency
        elif entry.state is _State.QUIET:
            entry.since, entry.urgency = now, urgency
            self._wait(entry, self._batching.due(now, entry.pace))
        else:
            self._more(entry, now, urgency)

    def take(self, now: float) -> Given[K] | None:
        """The key to work on, which is not given out again before `done`, `failed` or `stale` is told; None: none."""
        self._forget_quiet(now)
        while self._later and self._later[0][0] <= now:
            _, number, entry = heappop(self._later)
            if entry.number == number:
                self._rank(entry)
        while self._due:
            _, number, entry = heappop(self._due)
            if entry.number == number:
                entry.number, entry.state, entry.given = 0, _State.WORKING, now
                return Given(entry.key, entry.since, entry.urgency, entry.failures, entry.stale)
        return None

    def next_due(self) -> float | None:
        """When `take` has something, which may be past; None: not before something is added."""
        for heap in (self._due, self._later):
            while heap and heap[0][2].number != heap[0][1]:
                heappop(heap)
            if heap:
                return heap[0][2].due
        return None

    def done(self, key: K, *, now: float, writes: int) -> float:
        """The cluster has what is to be there, after so many writes of slices. Seconds since the first change."""
        entry = self._worked_on(key)
        waited = now - entry.since
        entry.pace = self._batching.after(entry.pace, given=entry.given, writes=writes)
        entry.failures, entry.stale = 0, False
        if entry.changed is not None:
            entry.since, entry.urgency, entry.changed = entry.changed, entry.changed_urgency, None
            self._wait(entry, self._batching.due(entry.since, entry.pace))
        else:
            self._rest(entry, now)
        return waited

    def failed(self, key: K, *, now: float, chance: float, writes: int = 0, retry_after: float | None = None) -> float:
        """It could not be done. Seconds until the next try; ``retry_after`` is what the server asked for."""
        entry = self._worked_on(key)
        entry.pace = self._batching.after(entry.pace, given=entry.given, writes=writes)
        entry.failures, entry.stale = entry.failures + 1, False
        due = now + self._back_off.backoff.delay(entry.failures, random=chance, retry_after=retry_after)
        entry.not_before, entry.asked = now + (retry_after or 0.0), retry_after is not None
        has_news = entry.changed is not None
        self._merge(entry)
        self._wait(entry, self._with_news(entry, due, now) if has_news else due)
        return entry.due - now

    def stale(self, key: K, *, now: float, limit: float) -> None:
        """The cache lags behind what was written: not given out before `wake`, or before ``limit`` seconds."""
        entry = self._worked_on(key)
        self._merge(entry)
        entry.stale = True
        self._wait(entry, now + limit)

    def wake(self, key: K, *, now: float) -> bool:
        """The cache has what a key waits for. False: it does not wait for the cache."""
        entry = self._entries.get(key)
        if entry is None or not self._awaits_cache(entry):
            return False
        entry.stale = False
        self._wait(entry, now)
        return True

    def is_stale(self, key: K) -> bool:
        """Whether a key waits for the cache."""
        entry = self._entries.get(key)
        return entry is not None and self._awaits_cache(entry)

    def begin(self, now: float) -> None:
        """What waits does so since now, and not since it changed: so far it was for somebody else to do. Looks at all
        entries."""
        for entry in self._entries.values():
            entry.since = now
            if entry.changed is not None:
                entry.changed = now

    # --- what can be measured -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """All that is remembered, of quiet keys too."""
        return len(self._entries)

    def depth(self, now: float) -> Depth:
        """Looks at all entries."""
        due = gathering = failing = stale = working = 0
        for entry in self._entries.values():
            if entry.state is _State.WORKING:
                working += 1
            elif entry.state is not _State.QUIET:
                if entry.due <= now:
                    due += 1
                elif entry.stale:
                    stale += 1
                elif entry.failures:
                    failing += 1
                else:
                    gathering += 1
        return Depth(due, gathering, failing, stale, working)

    def oldest(self, now: float) -> float:
        """Seconds since the first change that is not written, worked on or not; 0 for none. Looks at all entries."""
        return now - min((each.since for each in self._entries.values() if each.state is not _State.QUIET), default=now)

    # --- entries ------------------------------------------------------------------------------------------------------

    def _worked_on(self, key: K) -> _Entry[K]:
        entry = self._entries.get(key)
        if entry is None or entry.state is not _State.WORKING:
            raise ValueError(f"expected a key that was given out, got {key}")
        return entry

    def _awaits_cache(self, entry: _Entry[K]) -> bool:
        return entry.stale and entry.state is not _State.WORKING

    def _more(self, entry: _Entry[K], now: float, urgency: Urgency) -> None:
        """A change of a key that waits already."""
        is_raised = urgency < entry.urgency
        if is_raised:
            entry.urgency = urgency
        if entry.state is _State.DUE:
            if is_raised:
                self._rank(entry)
        elif entry.failures and not entry.stale:
            due = self._with_news(entry, entry.due, now)
            if due < entry.due:
                self._wait(entry, due)

    def _with_news(self, entry: _Entry[K], due: float, now: float) -> float:
        # Changes come at times of their own, which spreads those that failed together as well as chance does.
        wait = 0.0 if entry.asked else self._back_off.with_news
        return max(entry.not_before, min(due, now + wait))

    def _merge(self, entry: _Entry[K]) -> None:
        """What happened during the work waits together with what the work was for."""
        if entry.changed is not None:
            entry.urgency, entry.changed = min(entry.urgency, entry.changed_urgency), None

    def _wait(self, entry: _Entry[K], due: float) -> None:
        entry.due, entry.state = due, _State.LATER
        heappush(self._later, (due, self._next_number(entry), entry))

    def _rank(self, entry: _Entry[K]) -> None:
        entry.state = _State.DUE
        heappush(self._due, (entry.due + PATIENCE[entry.urgency], self._next_number(entry), entry))

    def _rest(self, entry: _Entry[K], now: float) -> None:
        """Nothing to do: remembered only while its pace says something about the changes to come."""
        until = self._batching.forgotten_from(entry.pace)
        if until <= now:
            del self._entries[entry.key]
        else:
            entry.state = _State.QUIET
            heappush(self._quiet, (until, self._next_number(entry), entry))

    def _forget_quiet(self, now: float) -> None:
        while self._quiet and self._quiet[0][0] <= now:
            _, number, entry = heappop(self._quiet)
            if entry.number == number:
                del self._entries[entry.key]

    def _next_number(self, entry: _Entry[K]) -> int:
        self._number += 1
        entry.number = self._number
        return self._number
