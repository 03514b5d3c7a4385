"""Writes of a sync that meet what they did not expect, on a sandbox over HTTP."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.client.a_writer import SLICE, SLICES_KEPT, kept, with_registry

from zoneward.client.resources import SLICES
from zoneward.client.writer import Writer
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.sync.ordering import Step
from zoneward.controller.sync.reconciling import Ending, Reconciler
from zoneward.controller.sync.tracker import Tracker
from zoneward.controller.sync_counts import Operation
from zoneward.daemon.metrics import counter_total
from zoneward.kube.objects import EndpointSlice
from zoneward.sandbox.server.resource_registry import Deletion, Registry, Write

KEY = (SLICE.metadata.namespace, "cart")
CREATE = Step(Operation.CREATE, SLICE)


def with_endpoints(slice_: EndpointSlice, number: int) -> EndpointSlice:
    return replace(slice_, endpoints=(SLICE.endpoints or ())[:number])


async def created(writer: Writer) -> EndpointSlice:
    await writer.create(SLICES, SLICE)
    return await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)


def somebody_changes(registry: Registry) -> None:
    kind = registry.kinds[SLICES_KEPT]
    registry.update(kind, KEY[0], SLICE.metadata.name, lambda old: old | {"endpoints": []}, Write())


def somebody_deletes(registry: Registry) -> None:
    registry.delete(registry.kinds[SLICES_KEPT], KEY[0], SLICE.metadata.name, Deletion())


def a_reconciler(writer: Writer) -> tuple[Reconciler, Tracker, ControllerMetrics]:
    tracker, metrics = Tracker(), ControllerMetrics()
    return Reconciler(writer, tracker=tracker, metrics=metrics), tracker, metrics


def test_what_is_written_is_awaited() -> None:
    async def work(writer: Writer, _registry: Registry) -> None:
        reconciler, tracker, metrics = a_reconciler(writer)
        result = await reconciler.write(KEY, [CREATE])
        assert (result.ending, result.writes) == (Ending.WRITTEN, 1)
        assert tracker.is_stale(KEY, [])
        there = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        assert not tracker.is_stale(KEY, [there])
        # Twice in one sync, the second time on what the first led to.
        twice = [Step(Operation.UPDATE, with_endpoints(there, number)) for number in (1, 0)]
        result = await reconciler.write(KEY, [*twice])
        assert (result.ending, result.writes) == (Ending.WRITTEN, 2)
        assert tracker.is_stale(KEY, [there])
        there = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        result = await reconciler.write(KEY, [Step(Operation.DELETE, there)])
        assert (result.ending, result.writes) == (Ending.WRITTEN, 1)
        assert tracker.is_stale(KEY, [there])
        assert not tracker.is_stale(KEY, [])
        writes = [counter_total(metrics.writes, operation=each.value) for each in Operation]
        assert writes == [1, 2, 1]

    with_registry(work)


@pytest.mark.parametrize("operation", Operation)
def test_a_write_whose_answer_is_lost_counts_where_it_was_done(operation: Operation) -> None:
    async def work(writer: Writer, registry: Registry) -> None:
        reconciler, tracker, _ = a_reconciler(writer)
        there = SLICE
        if operation is not Operation.CREATE:
            there = await prepared(writer, registry)
        wanted = with_endpoints(there, 1) if operation is Operation.UPDATE else there
        result = await reconciler.write(KEY, [Step(operation, wanted)])
        assert (result.ending, result.writes) == (Ending.WRITTEN, 1)
        assert (kept(registry, SLICES_KEPT, SLICE.metadata.name) is None) == (operation is Operation.DELETE)
        assert len(tracker) == 1

    with_registry(work, "lost-answer@1")


async def prepared(writer: Writer, registry: Registry) -> EndpointSlice:
    """Without faults, which are for HTTP alone."""
    thing: dict[str, Any] = {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": SLICE.metadata.name,
            "namespace": KEY[0],
            "labels": SLICE.metadata.labels,
            "ownerReferences": [],
        },
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }
    registry.create(registry.kinds[SLICES_KEPT], KEY[0], thing, Write())
    found = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
    return replace(found, endpoints=SLICE.endpoints, ports=SLICE.ports)


def test_a_slice_that_is_there_already_as_it_should_be_is_well() -> None:
    async def work(writer: Writer, _registry: Registry) -> None:
        reconciler, _, _ = a_reconciler(writer)
        await created(writer)
        result = await reconciler.write(KEY, [CREATE])
        assert (result.ending, result.writes) == (Ending.WRITTEN, 1)

    with_registry(work)


def test_another_slice_of_the_name_has_to_be_seen_first() -> None:
    async def work(writer: Writer, _registry: Registry) -> None:
        reconciler, tracker, _ = a_reconciler(writer)
        there = await created(writer)
        result = await reconciler.write(KEY, [Step(Operation.CREATE, with_endpoints(SLICE, 1)), CREATE])
        assert (result.ending, result.writes) == (Ending.OUTDATED, 0)
        assert tracker.is_stale(KEY, [])
        assert not tracker.is_stale(KEY, [there])

    with_registry(work)


@pytest.mark.parametrize("operation", [Operation.UPDATE, Operation.DELETE])
def test_what_somebody_changed_in_between_has_to_be_seen_first(operation: Operation) -> None:
    async def work(writer: Writer, registry: Registry) -> None:
        reconciler, tracker, _ = a_reconciler(writer)
        there = await created(writer)
        somebody_changes(registry)
        result = await reconciler.write(KEY, [Step(operation, with_endpoints(there, 1)), CREATE])
        assert (result.ending, result.writes) == (Ending.OUTDATED, 0)
        assert tracker.is_stale(KEY, [there])
        now = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        assert not now.endpoints
        assert not tracker.is_stale(KEY, [now])

    with_registry(work)


def test_what_somebody_deleted_in_between_has_to_be_seen_first() -> None:
    async def work(writer: Writer, registry: Registry) -> None:
        reconciler, tracker, _ = a_reconciler(writer)
        there = await created(writer)
        somebody_deletes(registry)
        result = await reconciler.write(KEY, [Step(Operation.UPDATE, with_endpoints(there, 1)), CREATE])
        assert (result.ending, result.writes) == (Ending.OUTDATED, 0)
        assert tracker.is_stale(KEY, [there])
        assert not tracker.is_stale(KEY, [])
        assert (await reconciler.write(KEY, [Step(Operation.DELETE, there)])).ending is Ending.WRITTEN

    with_registry(work)


def test_after_what_is_withheld_nothing_is_written() -> None:
    async def work(writer: Writer, registry: Registry) -> None:
        reconciler, tracker, _ = a_reconciler(writer)
        result = await reconciler.write(KEY, [CREATE, CREATE])
        assert (result.ending, result.writes) == (Ending.WITHHELD, 0)
        assert kept(registry, SLICES_KEPT, SLICE.metadata.name) is None
        assert len(tracker) == 0

    with_registry(work, may_write=lambda _seconds: False)
