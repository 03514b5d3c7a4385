"""The writes of one sync, one after the other, and what is known of the cluster when one of them fails.

Nothing goes on after a failure: what comes later may take away what should have been added before. A write whose
outcome is not known, or that met something unexpected, is looked at on the server; what is found there the cache has to
come to before anything is decided again.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from zoneward.client.api_errors import CallFailed, NotFound
from zoneward.client.resources import SLICES, service_key_of
from zoneward.client.writer import WriteOutcome, Writer, WritesSuspended, write_outcome
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.sync.ordering import Step
from zoneward.controller.sync.tracker import Tracker
from zoneward.controller.sync_counts import Operation
from zoneward.kube.objects import EndpointSlice, ObjectKey


class Ending(StrEnum):
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
class Reconciled:
    """How the writes of a sync ended, and how many were done. ``error`` is what stopped them."""

    ending: Ending
    writes: int
    error: CallFailed | None = None


class Reconciler:
    """``tracker`` is told what every answer says, and ``on_news`` which Services somebody else wrote to meanwhile. No
    write is sent again: after a failure it is decided anew what to write."""

    def __init__(
        self,
        writer: Writer,
        *,
        tracker: Tracker,
        metrics: ControllerMetrics,
        on_news: Callable[[Collection[ObjectKey]], None] = lambda _services: None,
    ) -> None:
        self._writer, self._tracker, self._metrics = writer.once(), tracker, metrics
        self._on_news = on_news

    async def write(self, service: ObjectKey, steps: Iterable[Step]) -> Reconciled:
        """Do all steps, or those before the first that fails. Raises nothing for what an API server can say."""
        versions: dict[str, str | None] = {}
        writes = 0
        for step in steps:
            self._tracker.begins(step.slice)
            try:
                versions[step.slice.metadata.name] = await self._write(step, versions)
            except WritesSuspended as error:
                return Reconciled(Ending.WITHHELD, writes, error)
            except CallFailed as error:
                self._metrics.record_api_error(error, kind=SLICES.plural)
                outcome = write_outcome(error)
                if outcome is WriteOutcome.TERMINATING:
                    return Reconciled(Ending.NO_PLACE, writes, error)
                found = await self._look(service, step, outcome)
                if found is None:
                    return Reconciled(Ending.FAILED, writes, error)
                if not found.is_done:
                    return Reconciled(Ending.OUTDATED, writes, error)
                versions[step.slice.metadata.name] = found.version
            finally:
                if news := self._tracker.answered(step.slice):
                    self._on_news(news)
            writes += 1
            self._metrics.record_write(step.operation)
        return Reconciled(Ending.WRITTEN, writes)

    async def _write(self, step: Step, versions: dict[str, str | None]) -> str | None:
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

    async def _look(self, service: ObjectKey, step: Step, outcome: WriteOutcome) -> "_Found | None":
        """What the server has of a slice whose write failed; None where that tells nothing new."""
        slice_, metadata = step.slice, step.slice.metadata
        if outcome is WriteOutcome.MISSING and step.operation is Operation.UPDATE:
            self._tracker.deletion_expected(slice_)
            return _REPLACED
        if outcome not in (WriteOutcome.STALE, WriteOutcome.EXISTS, WriteOutcome.UNKNOWN):
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
            self._metrics.record_api_error(error, kind=SLICES.plural)
            return None
        return self._compare(service, step, fresh)

    def _compare(self, service: ObjectKey, step: Step, fresh: EndpointSlice) -> "_Found | None":
        """``fresh`` is what has the name now."""
        slice_, version = step.slice, fresh.metadata.resource_version
        is_gone = step.operation is not Operation.CREATE and fresh.metadata.uid != slice_.metadata.uid
        if is_gone:
            self._tracker.deletion_expected(slice_)
        if service_key_of(fresh) != service:
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
