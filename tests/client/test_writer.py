"""Writes have the fields of the API, and replace only the version that they were made from."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec.structs import replace
from tests.client.a_writer import A_SERVICE, EVENT, NAMESPACE, SLICE, SLICE_JSON, SLICES_KEPT, Object, a_writer, kept
from tests.client.calling import said

from zoneward.client.api_errors import Conflict, Invalid, NotFound
from zoneward.client.resources import EVENTS, LEASES, NAMESPACES, SERVICES, SLICES
from zoneward.client.writer import PatchType, WriteOutcome, encode_object, write_outcome
from zoneward.kube.objects import Lease, LeaseSpec, ObjectMeta, format_micro_time
from zoneward.sandbox.server.resource_registry import Registry, Write

CHANGING = ("resourceVersion", "generation")
"""Fields of metadata that change with each update."""
SHOP: dict[str, Any] = {"namespace": NAMESPACE, "name": "shop"}


def test_a_slice_has_exactly_the_fields_of_the_api_and_none_that_is_not_set() -> None:
    assert list(json.loads(encode_object(SLICES, SLICE)).items()) == list(SLICE_JSON.items())


def test_an_empty_holder_is_written_since_it_says_something() -> None:
    lease = Lease(metadata=ObjectMeta(name="l"), spec=LeaseSpec(holder_identity="", lease_transitions=0))
    assert json.loads(encode_object(LEASES, lease))["spec"] == {"holderIdentity": "", "leaseTransitions": 0}


def test_a_time_is_in_utc_and_has_six_digits() -> None:
    moment = datetime(2026, 1, 1, 12, 0, 0, 1234, tzinfo=timezone(timedelta(hours=2)))
    assert format_micro_time(moment) == "2026-01-01T10:00:00.001234Z"


async def test_what_is_created_can_be_read_and_comes_with_its_version() -> None:
    async with a_writer() as (writer, registry):
        metadata = await writer.create(SLICES, SLICE)
        read = await writer.read(SLICES, namespace=NAMESPACE, name="cart-1")
        assert read.metadata == metadata
        assert (metadata.uid, metadata.resource_version, metadata.generation) > ("", "", 0)
        assert (read.endpoints, read.ports) == (SLICE.endpoints, SLICE.ports)
        stored = kept(registry, SLICES_KEPT, "cart-1")
        assert stored is not None
        assert {key: stored[key] for key in ("addressType", "endpoints", "ports")} == {
            key: SLICE_JSON[key] for key in ("addressType", "endpoints", "ports")
        }


async def test_an_update_replaces_the_version_that_it_was_made_from_and_no_other() -> None:
    async with a_writer() as (writer, _):
        first = replace(SLICE, metadata=await writer.create(SLICES, SLICE))
        changed = replace(first, endpoints=(SLICE.endpoints or ())[:1])
        second = await writer.update(SLICES, changed)
        assert int(second.resource_version or 0) > int(first.metadata.resource_version or 0)
        for stale in (changed, replace(first, metadata=replace(second, uid="another"))):
            error = await said(writer.update(SLICES, stale))
            assert (type(error), write_outcome(error)) == (Conflict, WriteOutcome.STALE)
        assert (await writer.read(SLICES, namespace=NAMESPACE, name="cart-1")).endpoints == changed.endpoints


async def test_an_update_loses_nothing_that_others_wrote() -> None:
    """Finalizers, owners, labels and annotations stay, since they are read; who wrote what, since the server knows."""

    def by_others(old: Object) -> Object:
        metadata, keeper = old["metadata"], {"apiVersion": "their.org/v1", "kind": "Keeper", "name": "k", "uid": "u-3"}
        owners = {"finalizers": ["their.org/keep"], "ownerReferences": [*metadata["ownerReferences"], keeper]}
        marks = {field: metadata[field] | {"their.org/mark": "1"} for field in ("labels", "annotations")}
        return old | {"metadata": metadata | owners | marks}

    def lasting(registry: Registry) -> Object:
        stored = kept(registry, SLICES_KEPT, "cart-1") or {}
        return {name: value for name, value in stored["metadata"].items() if name not in CHANGING}

    async with a_writer() as (writer, registry):
        await writer.create(SLICES, SLICE)
        registry.update(registry.kinds[SLICES_KEPT], NAMESPACE, "cart-1", by_others, Write())
        before = lasting(registry)
        read = await writer.read(SLICES, namespace=NAMESPACE, name="cart-1")
        await writer.update(SLICES, replace(read, endpoints=()))
        assert lasting(registry) == before


async def test_a_deletion_is_of_one_object_in_one_version_and_succeeds_if_it_is_gone() -> None:
    async with a_writer() as (writer, registry):
        old = replace(SLICE, metadata=await writer.create(SLICES, SLICE))
        new = replace(old, metadata=await writer.update(SLICES, replace(old, ports=())))
        for other in (old, replace(new, metadata=replace(new.metadata, uid="another"))):
            error = await said(writer.delete(SLICES, other))
            assert write_outcome(error) is WriteOutcome.STALE
        assert kept(registry, SLICES_KEPT, "cart-1")
        any_version = replace(new, metadata=replace(new.metadata, resource_version=None))
        await writer.delete(SLICES, any_version)
        assert kept(registry, SLICES_KEPT, "cart-1") is None
        await writer.delete(SLICES, new)


async def test_what_would_be_written_blindly_or_as_new_though_it_is_old_is_refused_before_it_is_sent() -> None:
    async with a_writer() as (writer, _):
        with pytest.raises(ValueError, match="expected a version of EndpointSlice cart-1 to replace, got none"):
            await writer.update(SLICES, SLICE)
        with pytest.raises(ValueError, match="expected a uid of EndpointSlice cart-1 to delete, got none"):
            await writer.delete(SLICES, SLICE)
        old = replace(SLICE, metadata=replace(SLICE.metadata, resource_version="5"))
        with pytest.raises(ValueError, match="expected a new EndpointSlice cart-1, got version 5"):
            await writer.create(SLICES, old)


async def test_a_merge_patch_changes_what_it_names_and_null_takes_away() -> None:
    async with a_writer() as (writer, _):
        created = await writer.create(SERVICES, A_SERVICE)
        change = {"metadata": {"annotations": {"a": "one", "b": None}}, "spec": {"selector": None}}
        patched = await writer.patch(SERVICES, change, **SHOP, version=created.resource_version)
        assert patched.annotations == {"a": "one"}
        service = await writer.read(SERVICES, **SHOP)
        assert (service.spec.selector, service.metadata) == (None, patched)
        assert change["metadata"] == {"annotations": {"a": "one", "b": None}}, "the caller's own"
        error = await said(writer.patch(SERVICES, change, **SHOP, version=created.resource_version))
        assert write_outcome(error) is WriteOutcome.STALE
        await writer.patch(SERVICES, change, **SHOP)


async def test_a_touch_changes_nothing_and_returns_the_whole_object() -> None:
    """Server-side apply, which the sandbox does not have, is tried in ``e2e/test_overlay.py``."""
    async with a_writer() as (writer, _):
        created = await writer.create(SLICES, SLICE)
        touched = await writer.touch(SLICES, namespace=NAMESPACE, name="cart-1")
        assert (touched.metadata, touched.endpoints) == (created, SLICE.endpoints)
        assert isinstance(await said(writer.touch(SLICES, namespace=NAMESPACE, name="none")), NotFound)


async def test_a_strategic_patch_of_the_status_leaves_the_conditions_of_others() -> None:
    condition = {"status": "True", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    async with a_writer() as (writer, _):
        await writer.create(SERVICES, A_SERVICE)
        for type_, reason in (("their.org/Thing", "a"), ("zoneward.dev/Thing", "b"), ("zoneward.dev/Thing", "c")):
            change = {"status": {"conditions": [condition | {"type": type_, "reason": reason}]}}
            await writer.patch(SERVICES, change, **SHOP, form=PatchType.STRATEGIC, subresource="status")
        service = await writer.read(SERVICES, **SHOP)
        assert service.status
        reasons = {condition.type: condition.reason for condition in service.status.conditions or ()}
        assert reasons == {"their.org/Thing": "a", "zoneward.dev/Thing": "c"}


async def test_events_leases_and_namespaces_are_at_their_places() -> None:
    spec = LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time="2026-01-01T12:00:00.000001Z",
        renew_time="2026-01-01T12:00:00.000002Z",
        lease_transitions=1,
    )
    async with a_writer() as (writer, _):
        created = await writer.create(EVENTS, EVENT)
        assert await writer.read(EVENTS, namespace=NAMESPACE, name="cart.1") == replace(EVENT, metadata=created)
        await writer.create(LEASES, Lease(metadata=ObjectMeta(name="l", namespace=NAMESPACE), spec=spec))
        assert (await writer.read(LEASES, namespace=NAMESPACE, name="l")).spec == spec
        assert (await writer.read(NAMESPACES, namespace="", name=NAMESPACE)).status.phase == "Active"


async def test_refusals_are_distinguished() -> None:
    metadata = SLICE.metadata
    elsewhere = replace(SLICE, metadata=replace(metadata, namespace="nowhere"))
    wrong = replace(SLICE, metadata=replace(metadata, name="cart-2"), address_type="IPX")
    gone = replace(SLICE, metadata=replace(metadata, name="cart-3", resource_version="5"))
    async with a_writer() as (writer, _):
        await writer.create(SLICES, SLICE)
        for call, kind, outcome in (
            (writer.create(SLICES, SLICE), Conflict, WriteOutcome.EXISTS),
            (writer.create(SLICES, elsewhere), NotFound, WriteOutcome.MISSING),
            (writer.create(SLICES, wrong), Invalid, WriteOutcome.REFUSED),
            (writer.update(SLICES, gone), NotFound, WriteOutcome.MISSING),
        ):
            error = await said(call)
            assert (type(error), write_outcome(error)) == (kind, outcome)
