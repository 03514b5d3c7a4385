"""What happens to a replica, told in its log when it changes: the cluster is listed, heard of, lost; another leads.

It also sees to the garbage collector. A large cluster makes millions of values, with no cycles to speak of, that mostly
stay: while they come it would only walk them over and over, and after that they need not be walked again.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from zoneward.client.api_errors import CallFailed
from zoneward.client.watch_health import WatchHealth
from zoneward.controller.leader.candidate import Candidate
from zoneward.controller.loop import Controller
from zoneward.daemon.log import Log
from zoneward.kube.gc_tuning import disable_gc, enable_gc, freeze_objects, restore_gc

LOOK: Final = 0.5
"""Seconds between two looks."""
LONGEST_ROUND: Final = 60.0
"""Seconds without garbage collection, at most, before the cluster is listed, which may never be, and once more after
that: there may always be something to do."""


class Observer:
    """``candidate`` None: there are no others. ``said`` words a failed call, ``clock`` is that of ``standing``."""

    def __init__(
        self,
        controller: Controller,
        *,
        standing: WatchHealth,
        candidate: Candidate | None,
        log: Log,
        said: Callable[[CallFailed], str],
        clock: Callable[[], float],
    ) -> None:
        self._controller, self._standing, self._candidate = controller, standing, candidate
        self._log, self._said, self._clock = log, said, clock
        self._begun = clock()
        self._is_synced = False
        self._frozen_as: bool | None = None
        """Whether we led when what there is was last taken for what will stay."""
        self._busy_since: float | None = None
        self._lost_since: float | None = None
        self._other = ""

    async def run(self) -> NoReturn:
        """Until cancelled. The garbage collector is then as it is in any process."""
        disable_gc()
        try:
            while True:
                self._look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._next_look()
        finally:
            restore_gc()

    async def _next_look(self) -> None:
        if self._is_synced:
            await asyncio.sleep(LOOK)
        else:
            await self._controller.cache.synced.wait()

    def _look(self) -> None:
        self._look_at_cache()
        self._look_at_memory()
        self._look_at_standing()
        self._look_at_leader()

    def _look_at_cache(self) -> None:
        cache = self._controller.cache
        if cache.synced.is_set() and not self._is_synced:
            self._is_synced = True
            self._log.info(
                "the cluster is listed",
                services=len(cache.services),
                nodes=len(cache.nodes),
                pods=len(cache.pods),
                slices=len(cache.slices),
                seconds=round(self._clock() - self._begun, 3),
            )

    def _look_at_memory(self) -> None:
        """What was listed stays, and what was planned of it in a leader's first round."""
        leads = self._leads
        if not self._is_synced and self._clock() - self._begun >= LONGEST_ROUND:
            enable_gc()
        if not self._is_synced or self._frozen_as in (leads, True):
            return
        depth, now = self._controller.queue.depth(), self._clock()
        self._busy_since = now if self._busy_since is None else self._busy_since
        if leads and (depth.due or depth.working) and now - self._busy_since < LONGEST_ROUND:
            disable_gc()
            return
        self._frozen_as, self._busy_since = leads, None
        freeze_objects()
        enable_gc()

    def _look_at_standing(self) -> None:
        lasting = self._standing.lasting
        if lasting is not None and self._lost_since is None:
            self._lost_since = lasting[0]
            self._log.warning("the cluster is not heard of", error=self._said(lasting[1]))
        elif lasting is None and self._lost_since is not None:
            self._log.info("the cluster is heard of again", seconds=round(self._clock() - self._lost_since, 1))
            self._lost_since = None

    def _look_at_leader(self) -> None:
        if self._candidate is None:
            return
        leader = self._candidate.leader
        other = "" if leader == self._candidate.identity else leader
        if other and other != self._other:
            self._log.info("another leads", leader=other)
        self._other = other

    @property
    def _leads(self) -> bool:
        return self._candidate is None or self._candidate.leads
