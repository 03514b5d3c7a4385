"""Services whose hints the API server did not store.

An API server drops the field while its feature gate is off (TopologyAwareHints before 1.33,
PreferSameTrafficDistribution before 1.35), and an admission webhook may remove it. The write succeeds, and the next
sync would write the same again. Such a Service is planned without these hints, until a dry run shows that the API
server stores them.
"""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from zoneward.client.api_errors import CallFailed
from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import SLICES
from zoneward.controller.context import ControllerContext
from zoneward.controller.queue.work_queue import WorkQueue
from zoneward.controller.sync.service_states import is_own
from zoneward.kube.objects import EndpointSlice, ForNode, ForZone, Hints, ObjectKey, identity
from zoneward.routing.configuration import StoredHints

PROBE_PERIOD: Final = 600.0
"""Seconds between two dry runs in a namespace."""


def stored_hints(sent: EndpointSlice, stored: EndpointSlice) -> StoredHints:
    """Which of the hints that were sent an API server stored."""
    result: StoredHints = "all"
    if sent.endpoints == stored.endpoints:
        return result
    stored_by_endpoint = {identity(endpoint): endpoint.hints for endpoint in stored.endpoints or ()}
    for endpoint in sent.endpoints or ():
        key, hints = identity(endpoint), endpoint.hints
        if hints is None or key not in stored_by_endpoint:
            continue
        other = stored_by_endpoint[key]
        if hints.for_zones and not (other and other.for_zones):
            return "none"
        if hints.for_nodes and not (other and other.for_nodes):
            result = "zones"
    return result


class HintsProbe:
    """Finds out by dry runs whether the API server stores hints again, one of a namespace at a time. ``dropped`` are
    the Services whose hints it does not all store, and which it does (`ServiceStates.dropped_hints`). Services that may
    have other hints now are queued.
    """

    def __init__(
        self,
        context: ControllerContext,
        dropped: dict[ObjectKey, StoredHints],
        *,
        cache: InformerCache,
        queue: WorkQueue[ObjectKey],
    ) -> None:
        self._dropped, self._cache, self._queue = dropped, cache, queue
        self._writer, self._leading, self._log = context.writer.once(), context.leading, context.log
        self._configuration = context.configuration

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PROBE_PERIOD)
            await self._leading.wait()
            await self.probe()

    async def probe(self) -> None:
        """Try one dry run for each namespace, and requeue its Services if the result differs."""
        for namespace, group in groupby(sorted(self._dropped), key=itemgetter(0)):
            keys = list(group)
            try:
                stored = await self._ask(keys)
            except CallFailed as error:
                self._log.warning("failed to test whether hints are stored", namespace=namespace, error=str(error))
                continue
            # They may have changed during the dry run.
            changed = [key for key in keys if self._dropped.get(key, "all") != stored]
            for key in changed:
                if stored == "all":
                    del self._dropped[key]
                else:
                    self._dropped[key] = stored
            if changed:
                self._log.info("the API server changed which hints it stores", namespace=namespace, hints=stored)
                self._queue.add_all(changed)

    async def _ask(self, keys: Iterable[ObjectKey]) -> StoredHints:
        for key in keys:
            for slice_ in self._cache.slices_of(*key):
                if (
                    is_own(slice_, self._configuration)
                    and slice_.endpoints
                    and slice_.metadata.deletion_timestamp is None
                ):
                    sent = _with_hints(slice_)
                    return stored_hints(sent, await self._writer.dry_run_update(SLICES, sent))
        # Without any endpoints there is nothing to drop: the next write shows it.
        return "all"


def _with_hints(slice_: EndpointSlice) -> EndpointSlice:
    hints = Hints(for_zones=(ForZone("zoneward"),), for_nodes=(ForNode("zoneward"),))
    return replace(slice_, endpoints=tuple(replace(endpoint, hints=hints) for endpoint in slice_.endpoints or ()))
