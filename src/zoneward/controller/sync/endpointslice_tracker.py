"""Tracks what the controller wrote: whether the cache has seen it, and whether the API server stored the hints.

A plan from a cache that has not seen the controller's own writes would undo or repeat them. Like upstream's
EndpointSliceTracker, but by resourceVersion where both versions are numbers, because numbers can be
compared (KEP-5504). A generation does not grow when only an annotation changes, and slices keep their state in an
annotation. Where a server's versions are not numbers the generation is compared; one that has not grown proves nothing.

An API server drops hints while their feature gate is off (TopologyAwareHints before 1.33,
PreferSameTrafficDistribution before 1.35), and an admission webhook may remove them. The write succeeds, and the next
sync would write the same again. Such a Service is planned without these hints, until a dry run shows that the API
server stores them.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Final

from msgspec import structs

from zoneward.client.api_errors import CallFailed
from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import SLICES, object_key_of, owning_service_key
from zoneward.controller.context import ControllerContext
from zoneward.controller.queue.work_queue import WorkQueue
from zoneward.controller.sync.service_states import is_own
from zoneward.kube.objects import EndpointSlice, ForNode, ForZone, Hints, ObjectKey, identity, parse_resource_version
from zoneward.routing.configuration import StoredHints

_Change = tuple[EndpointSlice | None, EndpointSlice | None]


@dataclass(frozen=True, slots=True)
class ExpectedSlice:
    """The state of one slice that the cache should show, or a later one. ``replaced`` is the version that the write
    replaced; ``is_deleted``: the slice should not exist. ``sent`` is the written slice, if it has hints."""

    name: str
    version: str | None = None
    generation: int | None = None
    replaced: str | None = None
    is_deleted: bool = False
    sent: EndpointSlice | None = None


@dataclass(frozen=True, slots=True)
class SliceChange:
    """A change of a slice in the cache: the slice's Services, and whether it is anything but the controller's own
    write."""

    services: frozenset[ObjectKey]
    is_news: bool


class EndpointSliceTracker:
    """The controller's writes, by Service and by the slices' UIDs. Memory is freed with slices and Services.

    For each write call `write_started`, then `written` or `deletion_expected` with the answer, then `write_answered`;
    call `observe` for every change of the cache. ``on_dropped_hints`` gets the Service of a slice that was stored
    without some of its hints, and which were stored.
    """

    def __init__(
        self, *, on_dropped_hints: Callable[[ObjectKey, StoredHints], None] = lambda _service, _stored: None
    ) -> None:
        self._on_dropped_hints = on_dropped_hints
        self._expected: dict[ObjectKey, dict[str, ExpectedSlice]] = {}
        self._changes_during_write: dict[ObjectKey, list[_Change]] = {}
        """By the key of a slice that is being written, its changes in the cache since the write started."""

    # --- what was written ---------------------------------------------------------------------------------------------

    def write_started(self, slice_: EndpointSlice) -> None:
        """A write of a slice was sent. Its event may arrive before its answer, and cannot be recognized then."""
        self._changes_during_write.setdefault(object_key_of(slice_), [])

    def write_answered(self, slice_: EndpointSlice) -> frozenset[ObjectKey]:
        """The write was answered or failed, and `written` or `deletion_expected` was called. Returns the Services of
        slices that another writer changed meanwhile."""
        changes = self._changes_during_write.pop(object_key_of(slice_), ())
        observed = [self.observe(old, new) for old, new in changes]
        return frozenset(service for change in observed if change.is_news for service in change.services)

    def written(self, answer: EndpointSlice, *, replaced: str | None = None, sent: EndpointSlice | None = None) -> None:
        """A slice was created or updated, and the server answered with this. ``sent`` is the written slice."""
        service, metadata = owning_service_key(answer), answer.metadata
        if service is not None:
            if sent is not None and not any(endpoint.hints for endpoint in sent.endpoints or ()):
                sent = None
            expected = ExpectedSlice(metadata.name, metadata.resource_version, metadata.generation, replaced, sent=sent)
            self._expected.setdefault(service, {})[metadata.uid] = expected

    def deletion_expected(self, slice_: EndpointSlice) -> None:
        """A slice was deleted, or the server no longer had it."""
        service, metadata = owning_service_key(slice_), slice_.metadata
        if service is not None:
            expected = ExpectedSlice(metadata.name, metadata.resource_version, metadata.generation, is_deleted=True)
            self._expected.setdefault(service, {})[metadata.uid] = expected

    def read(self, service: ObjectKey, fresh: Iterable[EndpointSlice], cached: Iterable[EndpointSlice]) -> None:
        """The server has these slices of a Service: the cache has to catch up with them.

        Earlier expectations are dropped: the cache would never
        show a slice that another writer deleted before the cache saw it.
        """
        present = {slice_.metadata.uid: slice_ for slice_ in fresh}
        self._expected.pop(service, None)
        for slice_ in present.values():
            # A slice that is being deleted counts as gone for the cache too, however long its finalizers take.
            if slice_.metadata.deletion_timestamp is None:
                self.written(slice_)
        for slice_ in cached:
            if slice_.metadata.uid not in present:
                self.deletion_expected(slice_)

    def forget(self, service: ObjectKey) -> None:
        """A Service was deleted: drop the expectations of its slices."""
        self._expected.pop(service, None)

    # --- what the cache shows -----------------------------------------------------------------------------------------

    def observe(self, old: EndpointSlice | None, new: EndpointSlice | None) -> SliceChange:
        """A slice changed in the cache; None as for a store's handlers: it did not exist before, or no longer does.

        The controller's own writes and older states are not news. A later change or a deletion by another writer is.
        During a write, `write_answered` decides.
        """
        changed = new if new is not None else old
        assert changed is not None
        changes = self._changes_during_write.get(object_key_of(changed))
        if changes is not None:
            changes.append((old, new))
            return SliceChange(_owners(old, new), is_news=False)
        if new is not None:
            self._compare_hints(new)
        owners = _owners(old, new)
        # A slice that was recreated under its name, or moved to another Service, is gone for its old Service.
        is_gone = old is not None and (
            new is None or new.metadata.uid != old.metadata.uid or owning_service_key(new) != owning_service_key(old)
        )
        # There are no expectations for writes of another process, as before a restart: this one did not delete it.
        is_news = is_gone and old is not None and not (self.has(old) and self.deleted(old))
        return SliceChange(owners, is_news or (new is not None and self.is_news(new)))

    def _compare_hints(self, slice_: EndpointSlice) -> None:
        """Compare a slice, as the cache shows the controller's write of it, with what was sent."""
        expected, service = self._find(slice_), owning_service_key(slice_)
        if expected is None or expected.sent is None or service is None:
            return
        if slice_.metadata.resource_version == expected.version:
            stored = stored_hints(expected.sent, slice_)
            if stored != "all":
                self._on_dropped_hints(service, stored)
        elif not _is_later(slice_, expected):
            return
        self._expected[service][slice_.metadata.uid] = replace(expected, sent=None)

    def is_news(self, slice_: EndpointSlice) -> bool:
        """Whether a slice is anything but the controller's write or older (upstream's ``ShouldSync``)."""
        expected = self._find(slice_)
        return expected is None or expected.is_deleted or _is_later(slice_, expected)

    def has(self, slice_: EndpointSlice) -> bool:
        """Whether anything is expected of a slice."""
        return self._find(slice_) is not None

    def deleted(self, slice_: EndpointSlice) -> bool:
        """A slice is gone: nothing is expected of it any more. Returns whether the controller deleted it."""
        expected = self._find(slice_)
        if expected is None:
            return True
        service = owning_service_key(slice_)
        assert service is not None
        slices = self._expected[service]
        del slices[slice_.metadata.uid]
        if not slices:
            del self._expected[service]
        return expected.is_deleted

    def is_stale(self, service: ObjectKey, cached: Collection[EndpointSlice]) -> bool:
        """Whether the cache, with these slices of a Service, lags behind the controller's writes.

        ``cached`` are all slices of all managers: one whose manager was changed is not missing.
        """
        slices = self._expected.get(service)
        return slices is not None and any(True for _ in _behind(slices, cached))

    def awaited(self, service: ObjectKey, cached: Collection[EndpointSlice]) -> list[str]:
        """The names of the slices that the cache lags behind with."""
        return sorted(expected.name for expected in _behind(self._expected.get(service, {}), cached))

    def drop_seen_deletions(self, service: ObjectKey, cached: Collection[EndpointSlice]) -> None:
        """Forget deletions that the cache saw before the server's answer arrived."""
        slices = self._expected.get(service, {})
        present = {slice_.metadata.uid for slice_ in cached}
        for uid in [uid for uid, expected in slices.items() if expected.is_deleted and uid not in present]:
            del slices[uid]
        if not slices:
            self._expected.pop(service, None)

    def __len__(self) -> int:
        """The number of slices of which something is expected."""
        return sum(map(len, self._expected.values()))

    def _find(self, slice_: EndpointSlice) -> ExpectedSlice | None:
        service = owning_service_key(slice_)
        return self._expected.get(service, {}).get(slice_.metadata.uid) if service is not None else None


def _behind(slices: dict[str, ExpectedSlice], cached: Collection[EndpointSlice]) -> Iterable[ExpectedSlice]:
    """The expectations that the cache does not meet. A slice that is being deleted counts as gone."""
    present = {slice_.metadata.uid: slice_ for slice_ in cached if slice_.metadata.deletion_timestamp is None}
    for uid, expected in slices.items():
        slice_ = present.get(uid)
        if slice_ is None:
            is_behind = not expected.is_deleted
        else:
            is_behind = expected.is_deleted or _is_earlier(slice_, expected)
        if is_behind:
            yield expected


def _is_earlier(slice_: EndpointSlice, expected: ExpectedSlice) -> bool:
    """Whether the cache has not seen a write. In doubt, it has: waiting costs time, and a conflict reveals the
    error."""
    version = slice_.metadata.resource_version
    own, other = parse_resource_version(version), parse_resource_version(expected.version)
    if own is not None and other is not None:
        return own < other
    if version is not None and version == expected.replaced:
        return True
    generation = slice_.metadata.generation
    return generation is not None and expected.generation is not None and generation < expected.generation


def _is_later(slice_: EndpointSlice, expected: ExpectedSlice) -> bool:
    """Whether another writer changed a slice later. In doubt, yes: a sync without writes costs little."""
    version = slice_.metadata.resource_version
    own, other = parse_resource_version(version), parse_resource_version(expected.version)
    if own is not None and other is not None:
        return own > other
    if version is not None and expected.version is not None:
        return version not in (expected.version, expected.replaced)
    generation = slice_.metadata.generation
    return generation is None or expected.generation is None or generation > expected.generation


def _owners(old: EndpointSlice | None, new: EndpointSlice | None) -> frozenset[ObjectKey]:
    return frozenset(owner for slice_ in (old, new) if slice_ is not None and (owner := owning_service_key(slice_)))


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
    return structs.replace(
        slice_, endpoints=tuple(structs.replace(endpoint, hints=hints) for endpoint in slice_.endpoints or ())
    )
