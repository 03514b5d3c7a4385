"""Writes of a sync that meet what they did not expect, on a sandbox over HTTP."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.client.a_writer import SLICE, SLICES_KEPT, a_writer, kept

from zoneward.client.resources import SLICES
from zoneward.client.writer import Writer
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker
from zoneward.controller.sync.slice_writer import MAX_ENDPOINTS, SliceWrite, SliceWriter, SyncOutcome, ordered_writes
from zoneward.controller.sync_counts import Operation
from zoneward.daemon.metrics import counter_total
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice, ObjectMeta, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import compute_demand
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason
from zoneward.sandbox.server.resource_registry import Deletion, Registry, Write
from zoneward.slices.changes import SliceChanges
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import FamilyPlan, ServicePlan

KEY = (SLICE.metadata.namespace, "cart")
CREATE = SliceWrite(Operation.CREATE, SLICE)


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


def a_reconciler(writer: Writer) -> tuple[SliceWriter, EndpointSliceTracker, ControllerMetrics]:
    tracker, metrics = EndpointSliceTracker(), ControllerMetrics()
    return SliceWriter(writer, tracker=tracker, metrics=metrics), tracker, metrics


async def test_what_is_written_is_awaited() -> None:
    async with a_writer() as (writer, _registry):
        reconciler, tracker, metrics = a_reconciler(writer)
        result = await reconciler.write(KEY, [CREATE])
        assert (result.outcome, result.writes) == (SyncOutcome.WRITTEN, 1)
        assert tracker.is_stale(KEY, [])
        there = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        assert not tracker.is_stale(KEY, [there])
        # Twice in one sync, the second time on what the first led to.
        twice = [SliceWrite(Operation.UPDATE, with_endpoints(there, number)) for number in (1, 0)]
        result = await reconciler.write(KEY, [*twice])
        assert (result.outcome, result.writes) == (SyncOutcome.WRITTEN, 2)
        assert tracker.is_stale(KEY, [there])
        there = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        result = await reconciler.write(KEY, [SliceWrite(Operation.DELETE, there)])
        assert (result.outcome, result.writes) == (SyncOutcome.WRITTEN, 1)
        assert tracker.is_stale(KEY, [there])
        assert not tracker.is_stale(KEY, [])
        writes = [counter_total(metrics.writes, operation=each.value) for each in Operation]
        assert writes == [1, 2, 1]


@pytest.mark.parametrize("operation", Operation)
async def test_a_write_whose_answer_is_lost_counts_where_it_was_done(operation: Operation) -> None:
    async with a_writer("lost-answer@1") as (writer, registry):
        reconciler, tracker, _ = a_reconciler(writer)
        there = SLICE
        if operation is not Operation.CREATE:
            there = await prepared(writer, registry)
        wanted = with_endpoints(there, 1) if operation is Operation.UPDATE else there
        result = await reconciler.write(KEY, [SliceWrite(operation, wanted)])
        assert (result.outcome, result.writes) == (SyncOutcome.WRITTEN, 1)
        assert (kept(registry, SLICES_KEPT, SLICE.metadata.name) is None) == (operation is Operation.DELETE)
        assert len(tracker) == 1


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
    registry.create(registry.kinds[SLICES_KEPT], KEY[0], thing)
    found = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
    return replace(found, endpoints=SLICE.endpoints, ports=SLICE.ports)


async def test_a_slice_that_is_there_already_as_it_should_be_is_well() -> None:
    async with a_writer() as (writer, _registry):
        reconciler, _, _ = a_reconciler(writer)
        await created(writer)
        result = await reconciler.write(KEY, [CREATE])
        assert (result.outcome, result.writes) == (SyncOutcome.WRITTEN, 1)


async def test_another_slice_of_the_name_has_to_be_seen_first() -> None:
    async with a_writer() as (writer, _registry):
        reconciler, tracker, _ = a_reconciler(writer)
        there = await created(writer)
        result = await reconciler.write(KEY, [SliceWrite(Operation.CREATE, with_endpoints(SLICE, 1)), CREATE])
        assert (result.outcome, result.writes) == (SyncOutcome.OUTDATED, 0)
        assert tracker.is_stale(KEY, [])
        assert not tracker.is_stale(KEY, [there])


@pytest.mark.parametrize("operation", [Operation.UPDATE, Operation.DELETE])
async def test_what_somebody_changed_in_between_has_to_be_seen_first(operation: Operation) -> None:
    async with a_writer() as (writer, registry):
        reconciler, tracker, _ = a_reconciler(writer)
        there = await created(writer)
        somebody_changes(registry)
        result = await reconciler.write(KEY, [SliceWrite(operation, with_endpoints(there, 1)), CREATE])
        assert (result.outcome, result.writes) == (SyncOutcome.OUTDATED, 0)
        assert tracker.is_stale(KEY, [there])
        now = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        assert not now.endpoints
        assert not tracker.is_stale(KEY, [now])


async def test_what_somebody_deleted_in_between_has_to_be_seen_first() -> None:
    async with a_writer() as (writer, registry):
        reconciler, tracker, _ = a_reconciler(writer)
        there = await created(writer)
        somebody_deletes(registry)
        result = await reconciler.write(KEY, [SliceWrite(Operation.UPDATE, with_endpoints(there, 1)), CREATE])
        assert (result.outcome, result.writes) == (SyncOutcome.OUTDATED, 0)
        assert tracker.is_stale(KEY, [there])
        assert not tracker.is_stale(KEY, [])
        assert (await reconciler.write(KEY, [SliceWrite(Operation.DELETE, there)])).outcome is SyncOutcome.WRITTEN


async def test_after_what_is_withheld_nothing_is_written() -> None:
    async with a_writer(may_write=lambda _seconds: False) as (writer, registry):
        reconciler, tracker, _ = a_reconciler(writer)
        result = await reconciler.write(KEY, [CREATE, CREATE])
        assert (result.outcome, result.writes) == (SyncOutcome.WITHHELD, 0)
        assert kept(registry, SLICES_KEPT, SLICE.metadata.name) is None
        assert len(tracker) == 0


# --- Slices written one after the other: what is listed before and after is listed all the time ---


NAMES = tuple("abcd")
OLD, NEW = ((EndpointPort(name="", port=number, protocol="TCP"),) for number in (80, 81))
SERVICE = Service(metadata=ObjectMeta(name="cart", namespace="shop", uid="u"))
DECISION = Decision(
    approach=Approach.CLUSTER_WIDE,
    heuristic=None,
    active=False,
    reason=Reason.ENABLED,
    message="",
    endpoints=0,
    allocation=None,
    rules=(),
)
CLUSTER_STATE = ClusterState(demand=compute_demand(()), node_zones={}, configuration=Configuration())
Places = Mapping[int, str]
"""The slice that each endpoint is in."""


def slices(places: Places, *, ports: tuple[EndpointPort, ...] = OLD) -> dict[str, EndpointSlice]:
    listed: dict[str, list[Endpoint]] = {}
    for number, name in sorted(places.items()):
        listed.setdefault(name, []).append(Endpoint(addresses=(f"10.0.{number // 250}.{number % 250}",)))
    return {
        name: EndpointSlice(
            metadata=ObjectMeta(name=name, namespace="shop", uid=name, resource_version="1"),
            address_type="IPv4",
            endpoints=tuple(endpoints),
            ports=ports,
        )
        for name, endpoints in listed.items()
    }


def steps(before: Mapping[str, EndpointSlice], after: Mapping[str, EndpointSlice]) -> tuple[SliceWrite, ...]:
    changes = SliceChanges(
        create=tuple(each for name, each in after.items() if name not in before),
        update=tuple(each for name, each in after.items() if name in before and each != before[name]),
        delete=tuple(each for name, each in before.items() if name not in after),
    )
    family = FamilyPlan(SERVICE, "IPv4", DECISION, changes, (), (), CLUSTER_STATE)
    return ordered_writes(ServicePlan(SERVICE, (family,), (), ()), previous=before)


def addresses(there: Mapping[str, EndpointSlice]) -> set[str]:
    return {address for each in there.values() for one in each.endpoints or () for address in one.addresses or ()}


def grouped(there: Mapping[str, EndpointSlice]) -> list[list[str]]:
    """What is together in a slice, whatever its name."""
    return sorted(sorted(addresses({name: each})) for name, each in there.items())


def replay(before: Mapping[str, EndpointSlice], after: Mapping[str, EndpointSlice]) -> dict[str, EndpointSlice]:
    """What is there in the end; what is before and after never goes in between, and no slice is too large."""
    there, steady = dict(before), addresses(before) & addresses(after)
    for step in steps(before, after):
        name = step.slice.metadata.name
        if step.operation is Operation.DELETE:
            del there[name]
        else:
            assert (name in there) == (step.operation is Operation.UPDATE)
            there[name] = step.slice
        assert steady <= addresses(there)
        assert all(len(each.endpoints or ()) <= MAX_ENDPOINTS for each in there.values())
    return there


some_places = st.dictionaries(st.integers(0, 7), st.sampled_from(NAMES))


@given(before=some_places, after=some_places, new_ports=st.booleans())
def test_nothing_goes_for_a_move(before: Places, after: Places, new_ports: bool) -> None:
    wanted = slices(after, ports=NEW if new_ports else OLD)
    there = replay(slices(before), wanted)
    assert grouped(there) == grouped(wanted)
    assert {each.ports for each in there.values()} == {each.ports for each in wanted.values()}


def test_slices_that_exchange_endpoints_cost_one_write_more() -> None:
    before, after = slices({1: "a", 2: "b", 3: "c"}), slices({1: "b", 2: "c", 3: "a"})
    assert replay(before, after) == after
    assert len(steps(before, after)) == len(after) + 1


def test_without_moves_each_slice_is_written_once() -> None:
    before, after = slices({1: "a", 2: "b", 3: "b"}), slices({1: "a", 2: "b", 4: "c", 5: "a"})
    assert [(step.operation, step.slice.metadata.name) for step in steps(before, after)] == [
        (Operation.CREATE, "c"),
        (Operation.UPDATE, "a"),
        (Operation.UPDATE, "b"),
    ]


def test_full_slices_that_exchange_endpoints_get_one_more_in_between() -> None:
    before = slices({number: "ab"[number % 2] for number in range(2 * MAX_ENDPOINTS)})
    after = slices({number: "ba"[number % 2] for number in range(2 * MAX_ENDPOINTS)})
    there = replay(before, after)
    assert len(there) == len(after)
    assert addresses(there) == addresses(after)
    fresh = next(each for name, each in there.items() if name not in before)
    assert replace(fresh.metadata, name="") == ObjectMeta(namespace="shop")
