"""Keeps the Endpoints objects of Services that were adopted with ``--endpoints keep``.

It has a queue and a worker of its own: readers of Endpoints can wait where readers of slices cannot, and a right that
is missing here holds up no slice. An object is read before it is written for the first time and after a failure; in
between what was written last is remembered, so that a change costs one write.
"""

from typing import Final

from msgspec.structs import replace

from zoneward.client.api_errors import ApiError, CallFailed, NotFound
from zoneward.client.backoff import Backoff
from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import ENDPOINTS
from zoneward.client.writer import WriteOutcome, Writer, WritesSuspended, write_outcome
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.handover.legacy_endpoints import is_kept, renewed
from zoneward.controller.leader.leading import Leading
from zoneward.controller.queue.batching import Batching, RequeueDelay
from zoneward.controller.queue.queue import Queue
from zoneward.daemon.log import Log, UnexpectedErrorLog
from zoneward.kube.objects import Endpoints, ObjectKey

BATCHING: Final = Batching(period=1.0)
BACK_OFF: Final = RequeueDelay(backoff=Backoff(initial=0.5, cap=300.0, jitter=0.5), with_news=10.0)


class EndpointsKeeper:
    """`add` a Service after each of its syncs; `run` one worker. Only what a mark says is kept is read or written."""

    def __init__(
        self,
        cache: InformerCache,
        writer: Writer,
        *,
        leading: Leading,
        metrics: ControllerMetrics,
        log: Log,
        back_off: RequeueDelay | None = None,
    ) -> None:
        self._cache, self._writer = cache, writer.once()
        self._leading, self._metrics, self._log, self._unexpected = (
            leading,
            metrics,
            log,
            UnexpectedErrorLog(log),
        )
        self.queue: Final = Queue[ObjectKey](batching=BATCHING, back_off=back_off or BACK_OFF)
        self._there: dict[ObjectKey, Endpoints] = {}
        """As they were last read or written."""
        self._since: dict[ObjectKey, str] = {}
        """When readiness changed first of what is not written yet."""

    def add(self, key: ObjectKey, *, trigger_time: str | None = None) -> None:
        """A Service was synced, or is gone, or is none of ours. ``trigger_time``: what its slices say of it."""
        service = self._cache.services.get(*key)
        if key in self._there or (service is not None and is_kept(service)):
            if trigger_time is not None:
                self._since[key] = min(trigger_time, self._since.get(key, trigger_time))
            self.queue.add(key)

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits to be written."""
        depth = self.queue.depth()
        return not (depth.waiting or depth.working)

    def reread(self, key: ObjectKey) -> None:
        """Look at the object itself the next time: somebody else may have changed it."""
        self._there.pop(key, None)

    def clear(self) -> None:
        """Somebody else leads from now on."""
        self._there.clear()
        self._since.clear()

    def close(self) -> None:
        """`run` comes to its end when what it is at is done."""
        self.queue.close()

    async def run(self) -> None:
        while True:
            await self._leading.wait()
            given = await self.queue.next()
            if given is None:
                return
            key = given.key
            if not self._leading.is_set():
                # Whoever leads keeps it; it is added again once we do.
                self.queue.done(key)
                continue
            try:
                writes = await self._keep(key)
            except WritesSuspended:
                self.queue.done(key)
            except CallFailed as error:
                if self._cache.services.get(*key) is not None:
                    self.reread(key)
                self._metrics.record_api_error(error, kind=ENDPOINTS.plural)
                if write_outcome(error) is WriteOutcome.TERMINATING:
                    self.queue.done(key)
                    continue
                asked = error.retry_after if isinstance(error, ApiError) else None
                pause = self.queue.failed(key, retry_after=asked)
                self._log.warning(
                    "the Endpoints of a Service could not be written",
                    service="/".join(key),
                    reason=type(error).__name__,
                    error=str(error),
                    tries=given.failures + 1,
                    again_in=round(pause, 3),
                )
            except Exception as error:
                # What is kept may be spoilt by it.
                if self._cache.services.get(*key) is not None:
                    self.reread(key)
                self._unexpected.error("a mistake in the program kept Endpoints from being written", key, error)
                self.queue.failed(key)
            else:
                self.queue.done(key, writes=writes)

    async def _keep(self, key: ObjectKey) -> int:
        """How many writes it took. Raises CallFailed."""
        service = self._cache.services.get(*key)
        if service is None:
            return await self._delete(key)
        if not is_kept(service):
            self._forget(key)
            return 0
        there = self._there.get(key)
        if there is None:
            try:
                there = await self._writer.read(ENDPOINTS, namespace=key[0], name=key[1])
            except NotFound:
                pass
            else:
                self._there[key] = there
        # As they are now, whatever they were when the object was asked for.
        pods = self._cache.pods_of(*key)
        since = self._since.pop(key, None)
        wanted = renewed(there, service, pods, trigger_time=since)
        if wanted is None:
            return 0
        write = self._writer.create if there is None else self._writer.update
        try:
            metadata = await write(ENDPOINTS, wanted)
        except NotFound:
            if there is None:
                # The namespace is gone, or the server has no Endpoints at all.
                return 0
            raise
        self._there[key] = Endpoints(metadata=metadata, subsets=wanted.subsets)
        return 1

    async def _delete(self, key: ObjectKey) -> int:
        """A Service is gone. The Endpoints controller deletes such an object too, where one runs."""
        there = self._there.get(key)
        if there is not None:
            uid_alone = replace(there.metadata, resource_version=None)
            await self._writer.delete(ENDPOINTS, Endpoints(metadata=uid_alone))
        self._forget(key)
        return 0

    def _forget(self, key: ObjectKey) -> None:
        self._there.pop(key, None)
        self._since.pop(key, None)
