"""Writes the EndpointSlices of one plan: the order of writes, and the handling of a failed write.

The order makes sure that an endpoint that moves between slices is always listed. Additions are before removals: first
creations, then updates, then deletions, and an update that adds an endpoint is before the one that removes it. If
slices exchange endpoints in a circle, one of them temporarily lists its old and its new endpoints, at the cost of one
more write. If these are too many, or its ports change, a new slice replaces it.

A failure ends the writes: a later write may remove what an earlier one should have added. The writer retries nothing:
the queue retries the Service with a new plan. If the outcome of a write is unknown or unexpected, the writer reads the
slice from the server, and the cache has to catch up with it before the next plan.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from zoneward.client.api_errors import CallFailed, NotFound, WritesSuspended
from zoneward.client.resources import SLICES, service_key_of
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.controller.controller_metrics import ControllerMetrics, Operation
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker
from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointSlice, ObjectKey, ObjectMeta, identity
from zoneward.slices.endpoints import port_key
from zoneward.slices.plan import ServicePlan
from zoneward.slices.reconcile import name_of_new

MAX_ENDPOINTS: Final = 1_000
"""The API server refuses a slice with more."""


@dataclass(frozen=True, slots=True)
class SliceWrite:
    """One write of a slice: as it should become, or the slice to delete. Updates and deletions carry the version that
    they are for.

    A slice that is updated twice carries its first version both times: the writer puts in the version of the first
    update.
    """

    operation: Operation
    slice: EndpointSlice


@dataclass(slots=True, eq=False)
class _Update:
    """``gains`` are the endpoints that an update adds, ``loses`` those that it removes."""

    slice: EndpointSlice
    previous: EndpointSlice
    gains: dict[EndpointIdentity, Endpoint]
    loses: dict[EndpointIdentity, Endpoint]


def ordered_writes(
    plan: ServicePlan, *, previous: Mapping[str, EndpointSlice], taken: Container[str] = ()
) -> tuple[SliceWrite, ...]:
    """All writes of a plan, in order. ``previous`` are the slices by name that the plan was made from.

    ``taken`` has names that a new slice must avoid. Slices of the built-in controller that Zoneward's replace, and
    those of address families that the Service no longer has, are deleted last.
    """
    creates: list[SliceWrite] = []
    updates: list[SliceWrite] = []
    deletes: list[EndpointSlice] = []
    for family in plan.families:
        changes = family.changes
        creates += [SliceWrite(Operation.CREATE, slice_) for slice_ in changes.create]
        new = {slice_.metadata.name for slice_ in changes.create}
        if len(changes.update) < 2:
            # No other slice can exchange endpoints with it. Most syncs are of this kind.
            updates += [SliceWrite(Operation.UPDATE, slice_) for slice_ in changes.update]
            deletes += changes.delete
            continue
        ordered, replaced = _ordered([_update(slice_, previous) for slice_ in changes.update])
        for old in replaced:
            # The same slice under another name.
            fresh = _renamed(old.slice, plan, (taken, previous, new))
            new.add(fresh.metadata.name)
            creates.append(SliceWrite(Operation.CREATE, fresh))
            deletes.append(old.previous)
        updates += [SliceWrite(Operation.UPDATE, slice_) for slice_ in ordered]
        deletes += changes.delete
    deletes += [slice_ for family in plan.families for slice_ in family.replaced]
    deletes += plan.surplus
    return (*creates, *updates, *(SliceWrite(Operation.DELETE, delete) for delete in deletes))


def _update(slice_: EndpointSlice, previous: Mapping[str, EndpointSlice]) -> _Update:
    was = previous[slice_.metadata.name]
    old, new = ({identity(endpoint): endpoint for endpoint in version.endpoints or ()} for version in (was, slice_))
    return _Update(
        slice_,
        was,
        gains={key: endpoint for key, endpoint in new.items() if key not in old},
        loses={key: endpoint for key, endpoint in old.items() if key not in new},
    )


def _ordered(updates: Collection[_Update]) -> tuple[list[EndpointSlice], list[_Update]]:
    """The updates in order, and those that a new slice has to replace."""
    left = sorted(updates, key=lambda update: (bool(update.loses), update.slice.metadata.name))
    gaining: dict[EndpointIdentity, set[_Update]] = {}
    for update in left:
        for key in update.gains:
            gaining.setdefault(key, set()).add(update)
    writes: list[EndpointSlice] = []
    replaced: list[_Update] = []
    while left:
        ready = [update for update in left if not _awaited(update, gaining)]
        if not ready:
            first = _cheapest_of_circle(left, gaining)
            if _can_hold_both(first, gaining):
                lost = [first.loses[key] for key in _awaited(first, gaining)]
                writes.append(replace(first.slice, endpoints=(*(first.slice.endpoints or ()), *lost)))
                for key in first.gains:
                    gaining[key].discard(first)
                # A second write removes what it lists temporarily.
                first.gains = {}
                continue
            replaced.append(first)
            ready = [first]
        else:
            writes += [update.slice for update in ready]
        for update in ready:
            left.remove(update)
            for key in update.gains:
                gaining[key].discard(update)
    return writes, replaced


def _cheapest_of_circle(left: Iterable[_Update], gaining: Mapping[EndpointIdentity, Collection[_Update]]) -> _Update:
    """The cheapest of the slices that wait for each other in a circle; other slices may wait for these."""
    awaited = {key for update in left for key in _awaited(update, gaining)}
    return min(
        (update for update in left if not awaited.isdisjoint(update.gains)),
        key=lambda update: (
            not _can_hold_both(update, gaining),
            len(_awaited(update, gaining)),
            update.slice.metadata.name,
        ),
    )


def _awaited(update: _Update, gaining: Mapping[EndpointIdentity, Collection[_Update]]) -> list[EndpointIdentity]:
    """The endpoints that a slice must not lose yet, because another one has still to gain them."""
    return [key for key in update.loses if gaining.get(key)]


def _can_hold_both(update: _Update, gaining: Mapping[EndpointIdentity, Collection[_Update]]) -> bool:
    if port_key(update.slice.ports) != port_key(update.previous.ports):
        return False
    return len(update.slice.endpoints or ()) + len(_awaited(update, gaining)) <= MAX_ENDPOINTS


def _renamed(slice_: EndpointSlice, plan: ServicePlan, taken: tuple[Container[str], ...]) -> EndpointSlice:
    metadata = slice_.metadata
    fresh = ObjectMeta(
        name=name_of_new(slice_, plan.service, taken=taken),
        namespace=metadata.namespace,
        labels=metadata.labels,
        annotations=metadata.annotations,
        owner_references=metadata.owner_references,
    )
    return replace(slice_, metadata=fresh)


class SyncOutcome(StrEnum):
    """How a reconciliation ended."""

    WRITTEN = "written"
    """All writes are done."""
    OUTDATED = "outdated"
    """The plan was made from slices that have changed since."""
    FAILED = "failed"
    WITHHELD = "withheld"
    """This replica no longer leads, and must not write."""
    NAMESPACE_TERMINATING = "namespace-terminating"
    """The namespace is being deleted: nothing can be created in it any more."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """How a reconciliation ended, and how many writes it did. ``error`` is what stopped it."""

    outcome: SyncOutcome
    writes: int
    error: CallFailed | None = None


NOTHING_TO_WRITE: Final = ReconcileResult(SyncOutcome.WRITTEN, 0)


class SliceWriter:
    """``tracker`` gets every answer, and ``on_news`` the Services whose slices another writer changed meanwhile."""

    def __init__(
        self,
        writer: Writer,
        *,
        tracker: EndpointSliceTracker,
        metrics: ControllerMetrics,
        on_news: Callable[[Collection[ObjectKey]], None] = lambda _services: None,
    ) -> None:
        self._writer, self._tracker, self._metrics = writer.once(), tracker, metrics
        self._on_news = on_news

    async def write(self, service: ObjectKey, writes: Iterable[SliceWrite]) -> ReconcileResult:
        """Do all writes, or those before the first that fails. Raises nothing for any response of an API server."""
        versions: dict[str, str | None] = {}
        done = 0
        for write in writes:
            self._tracker.write_started(write.slice)
            try:
                versions[write.slice.metadata.name] = await self._write(write, versions)
            except WritesSuspended as error:
                return ReconcileResult(SyncOutcome.WITHHELD, done, error)
            except CallFailed as error:
                self._metrics.record_api_error(error, kind=SLICES.plural)
                outcome = write_outcome(error)
                if outcome is WriteOutcome.TERMINATING:
                    return ReconcileResult(SyncOutcome.NAMESPACE_TERMINATING, done, error)
                state = await self._read_back(service, write, outcome)
                if state is None:
                    return ReconcileResult(SyncOutcome.FAILED, done, error)
                if not state.is_done:
                    return ReconcileResult(SyncOutcome.OUTDATED, done, error)
                versions[write.slice.metadata.name] = state.version
            finally:
                if news := self._tracker.write_answered(write.slice):
                    self._on_news(news)
            done += 1
            self._metrics.record_write(write.operation)
        return ReconcileResult(SyncOutcome.WRITTEN, done)

    async def _write(self, write: SliceWrite, versions: dict[str, str | None]) -> str | None:
        """Returns the version that the slice has now; None for a deleted one."""
        slice_ = write.slice
        if write.operation is Operation.DELETE:
            await self._writer.delete(SLICES, slice_)
            self._tracker.deletion_expected(slice_)
            return None
        if write.operation is Operation.CREATE:
            metadata = await self._writer.create(SLICES, slice_)
            self._tracker.written(EndpointSlice(metadata=metadata), sent=slice_)
            return metadata.resource_version
        version = versions.get(slice_.metadata.name)
        if version is not None:
            slice_ = replace(slice_, metadata=replace(slice_.metadata, resource_version=version))
        metadata = await self._writer.update(SLICES, slice_)
        self._tracker.written(EndpointSlice(metadata=metadata), replaced=slice_.metadata.resource_version, sent=slice_)
        return metadata.resource_version

    async def _read_back(self, service: ObjectKey, write: SliceWrite, outcome: WriteOutcome) -> "_ServerState | None":
        """The server's state of a slice whose write failed; None if it is unchanged."""
        slice_, metadata = write.slice, write.slice.metadata
        if outcome is WriteOutcome.MISSING and write.operation is Operation.UPDATE:
            self._tracker.deletion_expected(slice_)
            return _REPLACED
        if outcome not in (WriteOutcome.STALE, WriteOutcome.EXISTS, WriteOutcome.UNKNOWN):
            return None
        try:
            fresh = await self._writer.read(SLICES, namespace=metadata.namespace, name=metadata.name)
        except NotFound:
            if write.operation is Operation.CREATE:
                # It may still be created. The next plan gives it the same name.
                return None
            self._tracker.deletion_expected(slice_)
            return _ServerState(write.operation is Operation.DELETE, None)
        except CallFailed as error:
            self._metrics.record_api_error(error, kind=SLICES.plural)
            return None
        return self._compare(service, write, fresh)

    def _compare(self, service: ObjectKey, write: SliceWrite, fresh: EndpointSlice) -> "_ServerState | None":
        """``fresh`` is the slice that has the name now."""
        slice_, version = write.slice, fresh.metadata.resource_version
        is_gone = write.operation is not Operation.CREATE and fresh.metadata.uid != slice_.metadata.uid
        if is_gone:
            self._tracker.deletion_expected(slice_)
        if service_key_of(fresh) != service:
            return _REPLACED if is_gone else None
        if fresh.metadata.deletion_timestamp is not None:
            self._tracker.deletion_expected(fresh)
            return _ServerState(write.operation is Operation.DELETE, None)
        if write.operation is Operation.DELETE:
            if is_gone:
                return _ServerState(True, None)
            if version == slice_.metadata.resource_version:
                return None
            self._tracker.written(fresh)
            return _REPLACED
        if not is_gone and _are_same(fresh, slice_):
            self._tracker.written(fresh)
            return _ServerState(True, version)
        if write.operation is Operation.UPDATE and not is_gone and version == slice_.metadata.resource_version:
            # It is unchanged. If a lost write still arrives, its version decides whether it is applied.
            return None
        self._tracker.written(fresh)
        return _REPLACED


@dataclass(frozen=True, slots=True)
class _ServerState:
    """Whether the write was applied, and the ``version`` that it led to."""

    is_done: bool
    version: str | None


_REPLACED: Final = _ServerState(False, None)


def _are_same(one: EndpointSlice, other: EndpointSlice) -> bool:
    """Whether two states of a slice are equal in all fields that a writer sets."""

    def content(slice_: EndpointSlice) -> tuple[object, ...]:
        metadata = slice_.metadata
        written = metadata.labels, metadata.annotations or None, metadata.owner_references or None
        return *written, slice_.address_type, slice_.endpoints or (), slice_.ports or ()

    return content(one) == content(other)
