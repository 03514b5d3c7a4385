"""The queue that workers take Services from: `Schedule` with a clock, chance, and waiting."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from random import random
from typing import Final, Generic

from zoneward.controller.queue.batching import Batching, RequeueDelay
from zoneward.controller.queue.schedule import Depth, Given, K, Schedule, Urgency

STALE_LIMIT: Final = 5.0
"""Seconds that the cache is waited for."""


class Queue(Generic[K]):
    """Keys to work on, for any number of workers in one event loop::

        while (given := await queue.next()) is not None:
            try:
                writes = await work(given.key)
            except SomethingFailed as error:
                queue.failed(given.key, retry_after=error.retry_after)
            else:
                queue.done(given.key, writes=writes)

    Everything that is given out must be answered with `done`, `failed` or `stale`. ``clock`` is the event loop's unless
    told; ``chance`` gives numbers from 0 to 1.
    """

    def __init__(
        self,
        *,
        batching: Batching | None = None,
        back_off: RequeueDelay | None = None,
        clock: Callable[[], float] | None = None,
        chance: Callable[[], float] = random,
    ) -> None:
        self._schedule = Schedule[K](batching or Batching(), back_off or RequeueDelay())
        self._clock = clock or asyncio.get_running_loop().time
        self._chance = chance
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, key: K, *, urgency: Urgency = Urgency.NORMAL) -> None:
        """A key changed. Safe to call at any rate; a key that waits already costs a look-up."""
        self._schedule.add(key, now=self._clock(), urgency=urgency)
        if self._takers:
            self._call_takers()

    def add_all(self, keys: Iterable[K], *, urgency: Urgency = Urgency.NORMAL) -> None:
        """Keys that changed together."""
        now = self._clock()
        for key in keys:
            self._schedule.add(key, now=now, urgency=urgency)
        if self._takers:
            self._call_takers()

    def wake(self, key: K) -> bool:
        """The cache has what a key waits for. False: it does not wait for the cache."""
        is_woken = self._schedule.wake(key, now=self._clock())
        if is_woken:
            self._call_takers()
        return is_woken

    def is_stale(self, key: K) -> bool:
        """Whether a key waits for the cache."""
        return self._schedule.is_stale(key)

    # --- work ---------------------------------------------------------------------------------------------------------

    async def next(self) -> Given[K] | None:
        """Wait for the next key; None once the queue is closed. Cancelled while it waits, it takes none with it."""
        while not self._is_closed:
            given = self._schedule.take(self._clock())
            if given is not None:
                # There may be more than there were calls: a timer calls once for all that is due.
                self._call_takers()
                return given
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            self._set_timer()
            try:
                await taker
            except asyncio.CancelledError:
                if taker in self._takers:
                    self._takers.remove(taker)
                else:
                    # The call was for whoever comes next.
                    self._call_takers()
                raise
        return None

    def done(self, key: K, *, writes: int = 0) -> float:
        """The work is done, after so many writes of slices. Seconds since its first change came."""
        waited = self._schedule.done(key, now=self._clock(), writes=writes)
        self._call_takers()
        return waited

    def failed(self, key: K, *, writes: int = 0, retry_after: float | None = None) -> float:
        """It could not be done, and is tried again; ``retry_after``: not before so many seconds. Seconds until then."""
        pause = self._schedule.failed(
            key, now=self._clock(), chance=self._chance(), writes=writes, retry_after=retry_after
        )
        self._call_takers()
        return pause

    def stale(self, key: K, *, limit: float = STALE_LIMIT) -> None:
        """The cache lags behind what was written: given out again after `wake`, or after ``limit`` seconds and then
        with ``in_vain``."""
        self._schedule.stale(key, now=self._clock(), limit=limit)
        self._call_takers()

    def close(self) -> None:
        """Nothing is given out any more, and `next` comes to its end; work that was given out can still be answered."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._takers:
            _call(self._takers.popleft())

    def begin(self) -> None:
        """We lead from now on: what waits does so since now. When it is given out does not change."""
        self._schedule.begin(self._clock())

    # --- what can be measured -----------------------------------------------------------------------------------------

    def depth(self) -> Depth:
        """How many keys wait for what."""
        return self._schedule.depth(self._clock())

    def oldest(self) -> float:
        """Seconds since the first change that is not written; 0 for none."""
        return self._schedule.oldest(self._clock())

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _call_takers(self) -> None:
        """Call one who waits if something is due, and see to it that one is called when something will be."""
        if not self._takers or self._is_closed:
            return
        due = self._schedule.next_due()
        if due is not None and due <= self._clock():
            _call(self._takers.popleft())
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
        self._call_takers()


def _call(taker: asyncio.Future[None]) -> None:
    if not taker.done():
        taker.set_result(None)
