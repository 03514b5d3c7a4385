"""The writes of one sync, one after the other, and what is known of the cluster when one of them fails.

Nothing goes on after a failure: what comes later may take away what should have been added before. A write whose
outcome is not known, or that met something unexpected, is looked at on the server; what is found there the cache has to
come to before anything is decided again.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from zoneward.client.api_errors import CallFailed, NotFound
from zoneward.client.resources import SLICES, Key, service_of
from zoneward.client.writer import Outcome, Withheld, Writer, outcome_of
from zoneward.controller.metrics import Metrics, Operation
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker
from zoneward.kube.objects import Endpoint, EndpointSlice, Identity, ObjectMeta, identity
from zoneward.routing.selection.slice_groups import group_of_slice
from zoneward.slices.naming import slice_name
from zoneward.slices.planned import ServicePlan
from zoneward.slices.ports import port_key

MOST_ENDPOINTS: Final = 1_000
"""An API server takes no slice with more."""


@dataclass(frozen=True, slots=True)
class SliceWrite:
    """One write. ``slice`` is as it should be, or what is deleted; updates and deletions know the version they mean.

    A slice that is written twice has the version of before both times: who writes puts in what the first one came to.
    """

    operation: Operation
    slice: EndpointSlice


@dataclass(slots=True, eq=False)
class _Update:
    """``gains`` and ``loses`` are endpoints that the slice did not list, or will not."""

    slice: EndpointSlice
    before: EndpointSlice
    gains: dict[Identity, Endpoint]
    loses: dict[Identity, Endpoint]


def ordered_writes(
    plan: ServicePlan, *, before: Mapping[str, EndpointSlice], taken: Container[str] = ()
) -> tuple[SliceWrite, ...]:
    """All that has to be written for a plan. ``before`` has the slices by name that it was made from.

    ``taken`` holds names of slices that a new one must avoid. Slices of the built-in controller that ours stand in for,
    and those of families that are no more, go last.
    """
    creates: list[SliceWrite] = []
    updates: list[SliceWrite] = []
    deletes: list[EndpointSlice] = []
    for family in plan.families:
        changes = family.changes
        creates += [SliceWrite(Operation.CREATE, each) for each in changes.create]
        new = {each.metadata.name for each in changes.create}
        if len(changes.update) < 2:
            # With whom should it exchange endpoints? Most syncs are like this.
            updates += [SliceWrite(Operation.UPDATE, each) for each in changes.update]
            deletes += changes.delete
            continue
        ordered, stood_in_for = _ordered([_update(each, before) for each in changes.update])
        for old in stood_in_for:
            # What it should be, under another name.
            fresh = _renamed(old.slice, plan, (taken, before, new))
            new.add(fresh.metadata.name)
            creates.append(SliceWrite(Operation.CREATE, fresh))
            deletes.append(old.before)
        updates += [SliceWrite(Operation.UPDATE, each) for each in ordered]
        deletes += changes.delete
    deletes += [each for family in plan.families for each in family.replaced]
    deletes += plan.surplus
    return (*creates, *updates, *(SliceWrite(Operation.DELETE, each) for each in deletes))


def _update(slice_: EndpointSlice, before: Mapping[str, EndpointSlice]) -> _Update:
    was = before[slice_.metadata.name]
    old, new = ({identity(endpoint): endpoint for endpoint in each.endpoints or ()} for each in (was, slice_))
    return _Update(
        slice_,
        was,
        gains={key: endpoint for key, endpoint in new.items() if key not in old},
        loses={key: endpoint for key, endpoint in old.items() if key not in new},
    )


def _ordered(updates: Collection[_Update]) -> tuple[list[EndpointSlice], list[_Update]]:
    """What to write one after the other, and those in whose place a new slice has to come."""
    left = sorted(updates, key=lambda each: (bool(each.loses), each.slice.metadata.name))
    gaining: dict[Identity, set[_Update]] = {}
    for each in left:
        for key in each.gains:
            gaining.setdefault(key, set()).add(each)
    writes: list[EndpointSlice] = []
    stood_in_for: list[_Update] = []
    while left:
        ready = [each for each in left if not _awaited(each, gaining)]
        if not ready:
            first = _where_to_begin(left, gaining)
            if _can_hold_both(first, gaining):
                writes.append(_with(first.slice, (first.loses[key] for key in _awaited(first, gaining))))
                for key in first.gains:
                    gaining[key].discard(first)
                # What it lists for the moment it gives away by another write.
                first.gains = {}
                continue
            stood_in_for.append(first)
            ready = [first]
        else:
            writes += [each.slice for each in ready]
        for each in ready:
            left.remove(each)
            for key in each.gains:
                gaining[key].discard(each)
    return writes, stood_in_for


def _where_to_begin(left: Iterable[_Update], gaining: Mapping[Identity, Collection[_Update]]) -> _Update:
    """Of slices that wait for each other in a circle, and others that wait for these, the cheapest of the circle."""
    awaited = {key for each in left for key in _awaited(each, gaining)}
    return min(
        (each for each in left if not awaited.isdisjoint(each.gains)),
        key=lambda each: (not _can_hold_both(each, gaining), len(_awaited(each, gaining)), each.slice.metadata.name),
    )


def _awaited(update: _Update, gaining: Mapping[Identity, Collection[_Update]]) -> list[Identity]:
    """The endpoints that a slice must not give away yet."""
    return [key for key in update.loses if gaining.get(key)]


def _can_hold_both(update: _Update, gaining: Mapping[Identity, Collection[_Update]]) -> bool:
    if port_key(update.slice.ports) != port_key(update.before.ports):
        return False
    return len(update.slice.endpoints or ()) + len(_awaited(update, gaining)) <= MOST_ENDPOINTS


def _with(slice_: EndpointSlice, more: Iterable[Endpoint]) -> EndpointSlice:
    return replace(slice_, endpoints=(*(slice_.endpoints or ()), *more))


def _renamed(slice_: EndpointSlice, plan: ServicePlan, taken: tuple[Container[str], ...]) -> EndpointSlice:
    group, metadata = group_of_slice(slice_), slice_.metadata
    name = slice_name(
        plan.service,
        address_type=slice_.address_type,
        ports=port_key(slice_.ports),
        group=str(group) if group else "",
        taken=taken,
    )
    fresh = ObjectMeta(
        name=name,
        namespace=metadata.namespace,
        labels=metadata.labels,
        annotations=metadata.annotations,
        owner_references=metadata.owner_references,
    )
    return replace(slice_, metadata=fresh)


class SyncOutcome(StrEnum):
    WRITTEN = "written"
    """Everything is as it was asked for."""
    OUTDATED = "outdated"
    """It was decided from what is no longer there."""
    FAILED = "failed"
    WITHHELD = "withheld"
    """We may not write any more."""
    NO_PLACE = "no-place"
    """The namespace is being deleted: nothing can be created in it, today or ever, and what is there goes."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """How the writes of a sync ended, and how many were done. ``error`` is what stopped them."""

    ending: SyncOutcome
    writes: int
    error: CallFailed | None = None


class SliceWriter:
    """``tracker`` is told what every answer says, and ``on_news`` which Services somebody else wrote to meanwhile. No
    write is sent again: after a failure it is decided anew what to write."""

    def __init__(
        self,
        writer: Writer,
        *,
        tracker: EndpointSliceTracker,
        metrics: Metrics,
        on_news: Callable[[Collection[Key]], None] = lambda _services: None,
    ) -> None:
        self._writer, self._tracker, self._metrics = writer.once(), tracker, metrics
        self._on_news = on_news

    async def write(self, service: Key, steps: Iterable[SliceWrite]) -> ReconcileResult:
        """Do all steps, or those before the first that fails. Raises nothing for what an API server can say."""
        versions: dict[str, str | None] = {}
        writes = 0
        for step in steps:
            self._tracker.begins(step.slice)
            try:
                versions[step.slice.metadata.name] = await self._write(step, versions)
            except Withheld as error:
                return ReconcileResult(SyncOutcome.WITHHELD, writes, error)
            except CallFailed as error:
                self._metrics.call_failed(error, kind=SLICES.plural)
                outcome = outcome_of(error)
                if outcome is Outcome.TERMINATING:
                    return ReconcileResult(SyncOutcome.NO_PLACE, writes, error)
                found = await self._look(service, step, outcome)
                if found is None:
                    return ReconcileResult(SyncOutcome.FAILED, writes, error)
                if not found.is_done:
                    return ReconcileResult(SyncOutcome.OUTDATED, writes, error)
                versions[step.slice.metadata.name] = found.version
            finally:
                if news := self._tracker.answered(step.slice):
                    self._on_news(news)
            writes += 1
            self._metrics.wrote(step.operation)
        return ReconcileResult(SyncOutcome.WRITTEN, writes)

    async def _write(self, step: SliceWrite, versions: dict[str, str | None]) -> str | None:
        """The version that the slice has now; None for one that is gone."""
        slice_ = step.slice
        if step.operation is Operation.DELETE:
            await self._writer.delete(SLICES, slice_)
            self._tracker.deletion_expected(slice_)
            return None
        if step.operation is Operation.CREATE:
            metadata = await self._writer.create(SLICES, slice_)
            self._tracker.written(EndpointSlice(metadata=metadata))
            return metadata.resource_version
        version = versions.get(slice_.metadata.name)
        if version is not None:
            slice_ = replace(slice_, metadata=replace(slice_.metadata, resource_version=version))
        metadata = await self._writer.update(SLICES, slice_)
        self._tracker.written(EndpointSlice(metadata=metadata), replaced=slice_.metadata.resource_version)
        return metadata.resource_version

    async def _look(self, service: Key, step: SliceWrite, outcome: Outcome) -> "_Found | None":
        """What the server has of a slice whose write failed; None where that tells nothing new."""
        slice_, metadata = step.slice, step.slice.metadata
        if outcome is Outcome.MISSING and step.operation is Operation.UPDATE:
            self._tracker.deletion_expected(slice_)
            return _REPLACED
        if outcome not in (Outcome.STALE, Outcome.EXISTS, Outcome.UNKNOWN):
            return None
        try:
            fresh = await self._writer.read(SLICES, namespace=metadata.namespace, name=metadata.name)
        except NotFound:
            if step.operation is Operation.CREATE:
                # It may still be created; its name is the same the next time.
                return None
            self._tracker.deletion_expected(slice_)
            return _Found(step.operation is Operation.DELETE, None)
        except CallFailed as error:
            self._metrics.call_failed(error, kind=SLICES.plural)
            return None
        return self._compare(service, step, fresh)

    def _compare(self, service: Key, step: SliceWrite, fresh: EndpointSlice) -> "_Found | None":
        """``fresh`` is what has the name now."""
        slice_, version = step.slice, fresh.metadata.resource_version
        is_gone = step.operation is not Operation.CREATE and fresh.metadata.uid != slice_.metadata.uid
        if is_gone:
            self._tracker.deletion_expected(slice_)
        if service_of(fresh) != service:
            return _REPLACED if is_gone else None
        if fresh.metadata.deletion_timestamp is not None:
            self._tracker.deletion_expected(fresh)
            return _Found(step.operation is Operation.DELETE, None)
        if step.operation is Operation.DELETE:
            if not is_gone and version == slice_.metadata.resource_version:
                return None
            self._tracker.written(fresh)
            return _Found(is_gone, None)
        if not is_gone and _says_the_same(fresh, slice_):
            self._tracker.written(fresh)
            return _Found(True, version)
        if step.operation is Operation.UPDATE and not is_gone and version == slice_.metadata.resource_version:
            # As it was; should a lost write still come, it is done or refused by the version.
            return None
        self._tracker.written(fresh)
        return _REPLACED


@dataclass(frozen=True, slots=True)
class _Found:
    """Whether the write was done after all; the ``version`` that it led to."""

    is_done: bool
    version: str | None


_REPLACED: Final = _Found(False, None)


def _says_the_same(one: EndpointSlice, other: EndpointSlice) -> bool:
    """Whether two states of a slice differ in nothing that whoever writes it says."""

    def said(each: EndpointSlice) -> tuple[object, ...]:
        metadata = each.metadata
        about = metadata.labels, metadata.annotations or None, metadata.owner_references or None
        return *about, each.address_type, each.endpoints or (), each.ports or ()

    return said(one) == said(other)
