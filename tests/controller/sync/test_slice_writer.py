"""Writes of a sync; `tests.controller.model` has those that meet what they did not expect."""

from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.client.a_writer import SLICE, SLICES_KEPT, a_writer, kept

from zoneward.client.resources import SLICES
from zoneward.controller.controller_metrics import ControllerMetrics, Operation
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker
from zoneward.controller.sync.slice_writer import MAX_ENDPOINTS, SliceWrite, SliceWriter, SyncOutcome, ordered_writes
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice, ObjectMeta, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import compute_demand
from zoneward.sandbox.server.resource_registry import Write
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import FamilyPlan, ServicePlan
from zoneward.slices.reconcile import SliceChanges

KEY = (SLICE.metadata.namespace, "cart")


@pytest.mark.parametrize(
    ("operation", "meanwhile", "outcome"),
    [
        (Operation.CREATE, "nothing", SyncOutcome.WRITTEN),
        (Operation.CREATE, "changed", SyncOutcome.OUTDATED),
        (Operation.UPDATE, "changed", SyncOutcome.OUTDATED),
        (Operation.UPDATE, "deleted", SyncOutcome.OUTDATED),
        (Operation.DELETE, "changed", SyncOutcome.OUTDATED),
        (Operation.DELETE, "deleted", SyncOutcome.WRITTEN),
    ],
)
async def test_a_concurrent_write_stops_the_writer_unless_it_wrote_the_same(
    operation: Operation, meanwhile: str, outcome: SyncOutcome
) -> None:
    async with a_writer() as (writer, registry):
        slice_writer = SliceWriter(writer, tracker=EndpointSliceTracker(), metrics=ControllerMetrics())
        await writer.create(SLICES, SLICE)
        stored = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        kind = registry.kinds[SLICES_KEPT]
        if meanwhile == "changed":
            registry.update(kind, KEY[0], SLICE.metadata.name, lambda old: old | {"endpoints": []}, Write())
        elif meanwhile == "deleted":
            registry.delete(kind, KEY[0], SLICE.metadata.name)
        wanted = SLICE if operation is Operation.CREATE else replace(stored, ports=())
        second = replace(SLICE, metadata=replace(SLICE.metadata, name="cart-2"))
        writes = [SliceWrite(operation, wanted), SliceWrite(Operation.CREATE, second)]
        assert (await slice_writer.write(KEY, writes)).outcome is outcome
        assert (kept(registry, SLICES_KEPT, "cart-2") is None) == (outcome is SyncOutcome.OUTDATED)


async def test_a_slice_of_another_writer_under_the_name_of_a_deleted_one_is_news() -> None:
    async with a_writer() as (writer, registry):
        tracker = EndpointSliceTracker()
        slice_writer = SliceWriter(writer, tracker=tracker, metrics=ControllerMetrics())
        await writer.create(SLICES, SLICE)
        stored = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        registry.delete(registry.kinds[SLICES_KEPT], KEY[0], SLICE.metadata.name)
        await writer.create(SLICES, SLICE)
        fresh = await writer.read(SLICES, namespace=KEY[0], name=SLICE.metadata.name)
        assert (await slice_writer.write(KEY, [SliceWrite(Operation.DELETE, stored)])).outcome is SyncOutcome.WRITTEN
        assert tracker.observe(None, fresh).is_news


NAMES = tuple("abcd")
OLD, NEW = ((EndpointPort(name="", port=index, protocol="TCP"),) for index in (80, 81))
SERVICE = Service(metadata=ObjectMeta(name="cart", namespace="shop", uid="u"))
DECISION = cast(Decision, None)
"""Nobody asks for it."""
CLUSTER_STATE = ClusterState(demand=compute_demand(()), node_zones={}, configuration=Configuration())
Places = Mapping[int, str]
"""The slice that each endpoint is in."""


def slices(places: Places, *, ports: tuple[EndpointPort, ...] = OLD) -> dict[str, EndpointSlice]:
    listed: dict[str, list[Endpoint]] = {}
    for index, name in sorted(places.items()):
        listed.setdefault(name, []).append(Endpoint(addresses=(f"10.0.{index // 250}.{index % 250}",)))
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
        create=tuple(slice_ for name, slice_ in after.items() if name not in before),
        update=tuple(slice_ for name, slice_ in after.items() if name in before and slice_ != before[name]),
        delete=tuple(slice_ for name, slice_ in before.items() if name not in after),
    )
    family = FamilyPlan(SERVICE, "IPv4", DECISION, changes, (), (), CLUSTER_STATE)
    return ordered_writes(ServicePlan(SERVICE, (family,), (), ()), previous=before)


def addresses(by_name: Mapping[str, EndpointSlice]) -> set[str]:
    return {address for slice_ in by_name.values() for one in slice_.endpoints or () for address in one.addresses or ()}


def grouped(by_name: Mapping[str, EndpointSlice]) -> list[list[str]]:
    """The addresses of each slice, regardless of its name."""
    return sorted(sorted(addresses({name: slice_})) for name, slice_ in by_name.items())


def replay(before: Mapping[str, EndpointSlice], after: Mapping[str, EndpointSlice]) -> dict[str, EndpointSlice]:
    """Returns the slices after all steps. Endpoints of both states always stay listed, and no slice is too large."""
    by_name, steady = dict(before), addresses(before) & addresses(after)
    for step in steps(before, after):
        name = step.slice.metadata.name
        if step.operation is Operation.DELETE:
            del by_name[name]
        else:
            assert (name in by_name) == (step.operation is Operation.UPDATE)
            by_name[name] = step.slice
        assert steady <= addresses(by_name)
        assert all(len(slice_.endpoints or ()) <= MAX_ENDPOINTS for slice_ in by_name.values())
    return by_name


some_places = st.dictionaries(st.integers(0, 7), st.sampled_from(NAMES))


@given(before=some_places, after=some_places, new_ports=st.booleans())
def test_a_moving_endpoint_is_always_listed(before: Places, after: Places, new_ports: bool) -> None:
    wanted = slices(after, ports=NEW if new_ports else OLD)
    by_name = replay(slices(before), wanted)
    assert grouped(by_name) == grouped(wanted)
    assert {slice_.ports for slice_ in by_name.values()} == {slice_.ports for slice_ in wanted.values()}


def test_slices_that_exchange_endpoints_cost_one_more_write() -> None:
    before, after = slices({1: "a", 2: "b", 3: "c"}), slices({1: "b", 2: "c", 3: "a"})
    assert replay(before, after) == after
    assert len(steps(before, after)) == len(after) + 1


def test_full_slices_that_exchange_endpoints_use_a_new_slice() -> None:
    before = slices({index: "ab"[index % 2] for index in range(2 * MAX_ENDPOINTS)})
    after = slices({index: "ba"[index % 2] for index in range(2 * MAX_ENDPOINTS)})
    by_name = replay(before, after)
    assert len(by_name) == len(after)
    assert addresses(by_name) == addresses(after)
    fresh = next(slice_ for name, slice_ in by_name.items() if name not in before)
    assert replace(fresh.metadata, name="") == ObjectMeta(namespace="shop")
