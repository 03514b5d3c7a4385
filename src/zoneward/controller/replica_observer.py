"""Logs changes of a replica: the cache is synced, a watch fails or recovers, another replica leads.

It also controls Python's garbage collector. A large cluster takes millions of long-lived values with hardly any cycles.
The collector would visit them again and again while they are created, and need not visit them afterwards.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from zoneward.client.api_errors import CallFailed
from zoneward.client.informers import WatchHealth
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.leader.leader_elector import LeaderElector
from zoneward.daemon.log import Log
from zoneward.kube.gc_tuning import disable_gc, enable_gc, freeze_objects, restore_gc

OBSERVE_PERIOD: Final = 0.5
LONGEST_WITHOUT_GC: Final = 60.0
"""Seconds without garbage collection, at most: before the cluster is listed, which may never happen, and in the first
syncs after that, which may never end."""


class ReplicaObserver:
    """``elector`` None: there are no other replicas. ``error_text`` describes a failed call; ``clock`` is that of
    ``watch_health``."""

    def __init__(
        self,
        controller: EndpointSliceController,
        *,
        watch_health: WatchHealth,
        elector: LeaderElector | None,
        log: Log,
        error_text: Callable[[CallFailed], str],
        clock: Callable[[], float],
    ) -> None:
        self._controller, self._watch_health, self._elector = controller, watch_health, elector
        self._log, self._error_text, self._clock = log, error_text, clock
        self._begun = clock()
        self._is_synced = False
        self._frozen_as: bool | None = None
        """Whether this replica led when the existing values were last excluded from garbage collection."""
        self._busy_since: float | None = None
        self._lost_since: float | None = None
        self._other = ""

    async def run(self) -> NoReturn:
        """Run until cancelled. Afterwards the garbage collector has its default settings."""
        disable_gc()
        try:
            while True:
                self._observe()
                with suppress(TimeoutError):
                    async with asyncio.timeout(OBSERVE_PERIOD):
                        await self._next()
        finally:
            restore_gc()

    async def _next(self) -> None:
        if self._is_synced:
            await asyncio.sleep(OBSERVE_PERIOD)
        else:
            await self._controller.cache.synced.wait()

    def _observe(self) -> None:
        self._observe_cache()
        self._control_gc()
        self._observe_watch()
        self._observe_leader()

    def _observe_cache(self) -> None:
        cache = self._controller.cache
        if cache.synced.is_set() and not self._is_synced:
            self._is_synced = True
            self._log.info(
                "cache synced",
                services=len(cache.services),
                nodes=len(cache.nodes),
                pods=len(cache.pods),
                slices=len(cache.slices),
                seconds=round(self._clock() - self._begun, 3),
            )

    def _control_gc(self) -> None:
        """The listed values are long-lived, and so are the plans of a leader's first syncs."""
        is_leader = self._is_leader
        if not self._is_synced and self._clock() - self._begun >= LONGEST_WITHOUT_GC:
            enable_gc()
        if not self._is_synced or self._frozen_as in (is_leader, True):
            return
        depth, now = self._controller.queue.depth(), self._clock()
        self._busy_since = now if self._busy_since is None else self._busy_since
        if is_leader and (depth.due or depth.working) and now - self._busy_since < LONGEST_WITHOUT_GC:
            disable_gc()
            return
        self._frozen_as, self._busy_since = is_leader, None
        freeze_objects()
        enable_gc()

    def _observe_watch(self) -> None:
        lasting = self._watch_health.lasting
        if lasting is not None and self._lost_since is None:
            self._lost_since = lasting[0]
            self._log.warning("watch failed", error=self._error_text(lasting[1]))
        elif lasting is None and self._lost_since is not None:
            self._log.info("watch recovered", seconds=round(self._clock() - self._lost_since, 1))
            self._lost_since = None

    def _observe_leader(self) -> None:
        if self._elector is None:
            return
        leader = self._elector.leader_identity
        other = "" if leader == self._elector.identity else leader
        if other and other != self._other:
            self._log.info("another replica became leader", leader=other)
        self._other = other

    @property
    def _is_leader(self) -> bool:
        return self._elector is None or self._elector.is_leader
