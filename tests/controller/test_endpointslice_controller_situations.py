"""Services and clusters that are not like most: each is served as it should be, and nobody else suffers."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.builders.objects import a_slice
from tests.controller.a_controller import KEPT, LABELS, PODS, Place, a_place, addresses, at_work, fill, settle
from tests.controller.lines import Lines
from tests.controller.test_endpointslice_controller import is_as_planned, until, with_controller

from zoneward.client.api_errors import api_error
from zoneward.client.backoff import Backoff
from zoneward.client.resources import SLICES
from zoneward.client.resources import ApiResource as Kind
from zoneward.client.writer import Writer
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.handover.conflict_detector import ConflictDetector
from zoneward.controller.mode import Mode
from zoneward.controller.queue.batching import RequeueDelay
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.metrics import counter_total
from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.objects import EndpointSlice, ObjectMeta
from zoneward.routing.configuration import Configuration, FeatureGates, SubsettingSettings
from zoneward.sandbox.server.versioned_store import StoredChange
from zoneward.slices.plan import ServicePlan

Object = dict[str, Any]
KEY = ("default", "cart")
PROXY_NAME = "service.kubernetes.io/service-proxy-name"


def create(place: Place, plural: str, thing: Object) -> None:
    place.store.create(place.registry.kinds[plural], "default", thing)


def ready(place: Place, service: str = "cart") -> set[str]:
    return {
        address
        for each in place.slices(service)
        for one in each.endpoints or ()
        if one.conditions is not None and one.conditions.ready
        for address in one.addresses or ()
    }


def managers(place: Place) -> set[str]:
    return {(each.metadata.labels or {})[names.MANAGED_BY_LABEL] for each in place.slices()}


# --- Services ---------------------------------------------------------------------------------------------------------


@with_controller()
async def test_one_that_becomes_an_external_name_loses_its_slices(
    place: Place, controller: EndpointSliceController
) -> None:
    def change(service: Object) -> Object:
        spec = {"type": "ExternalName", "externalName": "example.com", "selector": LABELS}
        return service | {"spec": spec}

    place.change("services", "default", "cart", change)
    await until(lambda: not place.slices())
    place.missing.clear()
    await settle(place, controller)
    assert len(controller.metrics.totals) == 0


async def test_a_mark_without_a_selector_is_told_and_the_slices_stay() -> None:
    lines = Lines()
    async with a_place() as place:
        fill(place, selector=None, annotations={SELECTOR_ANNOTATION: '{"app": "cart"}'})
        async with at_work(place, mode=Mode.ONLY_MARKED, log=lines) as controller:
            await settle(place, controller)
            assert place.listed() == addresses(*range(PODS))
            place.annotate("cart", {SELECTOR_ANNOTATION: "{"})
            place.make_ready(1, False)
            await settle(place, controller)
            assert place.listed() == addresses(*range(PODS))
            assert lines.about("its mark has no selector")[0] == {"service": "default/cart"}
            place.annotate("cart", {SELECTOR_ANNOTATION: '{"app": "cart"}'})
            await settle(place, controller)
            assert place.listed() == addresses(0, *range(2, PODS))


async def test_a_mark_that_is_lost_is_told_once_and_the_slices_stay() -> None:
    """`kubectl replace` with a manifest that has neither the mark nor a selector does that."""
    lines = Lines()
    async with a_place() as place:
        adopted = {SELECTOR_ANNOTATION: '{"app": "cart"}', names.TOPOLOGY_MODE_ANNOTATION: "Auto"}
        fill(place, selector=None, annotations=adopted)
        status_writer = StatusWriter(Writer(place.link), instance="test")
        async with at_work(place, mode=Mode.ONLY_MARKED, log=lines, status_writer=status_writer) as controller:
            await settle(place, controller)
            assert await status_writer.wait_until_written(5)
            for annotations in ({}, {"note": "another change"}):
                place.annotate("cart", annotations)
                await settle(place, controller)
                assert await status_writer.wait_until_written(5)
            assert place.listed() == addresses(*range(PODS))
            assert len(lines.about("has lost its mark")) == 1
            told = [each["reason"] for each in place.objects("events")]
            assert told.count("EndpointSlicesOrphaned") == 1
            (service,) = (each for each in place.objects("services") if each["metadata"]["name"] == "cart")
            assert not service["status"].get("conditions")


@with_controller()
async def test_a_service_of_another_proxy_gets_its_slices_and_they_say_so(
    place: Place, controller: EndpointSliceController
) -> None:
    """As upstream: such a proxy reads slices too, and kube-proxy passes over those with the label."""
    labels = {PROXY_NAME: "other"}
    place.change("services", "default", "cart", lambda old: old | {"metadata": old["metadata"] | {"labels": labels}})
    await settle(place, controller)
    (slice_,) = place.slices()
    assert (slice_.metadata.labels or {})[PROXY_NAME] == "other"
    assert ready(place) == addresses(*range(PODS))


async def test_slices_of_other_managers_are_never_written() -> None:
    mirror = "endpointslicemirroring-controller.k8s.io"
    async with a_place() as place:
        fill(place)
        place.service("unmanaged", selector=None)
        for service in ("cart", "unmanaged"):
            for manager in (mirror, "somebody"):
                name = f"{service}-{manager.partition('.')[0]}"
                slice_ = a_slice(name, service=service, addresses=["10.9.0.1"], manager=manager)
                create(place, KEPT, slice_)
        theirs = place.objects(KEPT)
        async with at_work(place) as controller:
            await settle(place, controller)
            place.make_ready(1, False)
            place.store.delete(place.registry.kinds[KEPT], "default", "cart-somebody")
            place.missing.clear()
            await settle(place, controller)
            assert not controller.contested
        left = [each for each in theirs if each["metadata"]["name"] != "cart-somebody"]
        assert [each for each in place.objects(KEPT) if each in theirs] == left


KEEPS_LABEL = Configuration(keep_built_in_label=True)
LABEL_OF = {KEEPS_LABEL: names.BUILT_IN_MANAGER, Configuration(): names.MANAGER}


async def test_under_the_built_in_label_slices_of_the_built_in_controller_are_kept_and_updated() -> None:
    async with a_place() as place:
        fill(place)
        (plan,) = place.plans(Configuration().as_upstream())
        for each in plan.families[0].changes.create:
            await Writer(place.link).create(SLICES, each)
        before = place.objects(KEPT)
        async with at_work(place, configuration=KEEPS_LABEL) as controller:
            await settle(place, controller)
            assert place.objects(KEPT) == before
            place.annotate("cart", {names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
            await settle(place, controller)
            assert is_as_planned(place, KEEPS_LABEL)
            assert not controller.contested
        (kept,) = place.slices()
        assert kept.metadata.uid == before[0]["metadata"]["uid"]
        assert all(one.hints for one in kept.endpoints or ())
        assert managers(place) == {names.BUILT_IN_MANAGER}


@pytest.mark.parametrize(
    "asked",
    [{}, {names.TOPOLOGY_MODE_ANNOTATION: "Auto"}, {names.SUBSETTING_ANNOTATION: "Auto"}],
    ids=["nothing", "hints", "groups"],
)
async def test_the_label_changes_on_a_running_cluster_without_a_missing_endpoint_or_one_that_moves(
    asked: dict[str, str],
) -> None:
    """Of 12 endpoints hints and groups start, with 11 they are only kept: nothing of what was in force is lost."""
    async with a_place() as place:
        fill(place, 12, annotations=asked)
        served: list[Object] = []
        for configuration in (Configuration(), KEEPS_LABEL, Configuration(), KEEPS_LABEL):
            async with at_work(place, configuration=configuration) as controller:
                await settle(place, controller)
                place.make_ready(0, False)
                await settle(place, controller)
                assert managers(place) == {LABEL_OF[configuration]}
                assert place.listed() == addresses(*range(1, 12))
                assert not controller.contested
            served.append(_serves(place))
            place.expect_all_ready()
        assert served == served[:1] * 4
        assert place.missing == []


def _serves(place: Place) -> Object:
    """By address, the zones that it is for, by its slice or its hints, and what says so."""
    return {
        address: (
            (each.metadata.labels or {}).get(names.ZONE_LABEL),
            one.hints,
            (each.metadata.annotations or {}).get(names.APPROACH_ANNOTATION),
        )
        for each in place.slices()
        for one in each.endpoints or ()
        for address in one.addresses or ()
    }


@with_controller(configuration=KEEPS_LABEL)
async def test_under_the_built_in_label_a_service_without_pods_has_a_slice_that_goes_with_it(
    place: Place, controller: EndpointSliceController
) -> None:
    place.service("nobody", selector={"app": "nobody"})
    await settle(place, controller)
    (slice_,) = place.slices("nobody")
    assert not slice_.endpoints
    assert (slice_.metadata.labels or {})[names.MANAGED_BY_LABEL] == names.BUILT_IN_MANAGER
    place.store.delete(place.registry.kinds["services"], "default", "nobody")
    await settle(place, controller)
    assert place.slices("nobody") == []


@with_controller()
async def test_a_service_that_is_made_anew_gets_slices_anew(place: Place, controller: EndpointSliceController) -> None:
    (before,) = place.slices()
    place.store.delete(place.registry.kinds["services"], "default", "cart")
    place.service()
    await until(lambda: before.metadata.uid not in {each.metadata.uid for each in place.slices()})
    place.missing.clear()
    await settle(place, controller)
    (after,) = place.slices()
    (owner,) = after.metadata.owner_references or ()
    (service,) = (each for each in place.objects("services") if each["metadata"]["name"] == "cart")
    assert owner.uid == service["metadata"]["uid"]
    assert after.metadata.name != before.metadata.name
    assert place.listed() == addresses(*range(PODS))


# --- what goes wrong --------------------------------------------------------------------------------------------------


async def test_a_mistake_in_a_plan_is_told_once_with_its_place_and_no_worker_dies_of_it() -> None:
    lines = Lines()
    back_off = RequeueDelay(backoff=Backoff(initial=0.01, cap=0.05, jitter=0.5), with_news=0.05)
    async with a_place() as place:
        fill(place)
        async with at_work(place, log=lines, workers=2, back_off=back_off) as controller:
            await settle(place, controller)
            place.service("other")
            await settle(place, controller)
            plan, tries = controller._states.plan, 0

            def broken(key: tuple[str, str], *given: Any, **options: Any) -> ServicePlan:
                nonlocal tries
                if key == KEY and tries < 12:
                    tries += 1
                    raise ZeroDivisionError("a mistake")
                return plan(key, *given, **options)

            controller._states.plan = broken  # type: ignore[method-assign]
            place.make_ready(1, False)
            await until(lambda: "10.0.0.2" not in ready(place, "other"))
            await settle(place, controller)
            assert tries == 12
            assert place.listed() == addresses(0, *range(2, PODS))
            (told,) = lines.about("a mistake in the program")
            assert told["service"] == "default/cart"
            assert told["error"] == "ZeroDivisionError: a mistake"
            assert str(told["at"]).startswith("test_endpointslice_controller_situations.py:")
            pauses = [fields["again_in"] for fields in lines.about("could not be synced")]
            assert len(pauses) == 12
            assert counter_total(controller.metrics.syncs, cause="error") == 12
        assert place.missing == []


class Terminating(Writer):
    """A namespace that is about to go takes nothing new."""

    tries = 0

    async def create(self, _place: Kind[Any], _thing: Any) -> ObjectMeta:
        type(self).tries += 1
        causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
        status = {"kind": "Status", "reason": "Forbidden", "details": {"causes": causes}}
        raise api_error(403, msgspec.json.encode(status))


async def test_where_nothing_can_be_created_any_more_it_is_not_tried_again_and_again() -> None:
    async with a_place() as place:
        fill(place)
        Terminating.tries = 0
        async with at_work(place, writer=Terminating(place.link)) as controller:
            await settle(place, controller)
            await asyncio.sleep(0.3)
            assert Terminating.tries == 1
            place.make_ready(1, False)
            await settle(place, controller)
            assert Terminating.tries == 2


@with_controller()
async def test_a_slice_that_nobody_will_ever_see_is_awaited_only_until_it_is_looked_for(
    place: Place, controller: EndpointSliceController
) -> None:
    stale = controller.queue.wait_for_cache
    controller.queue.wait_for_cache = lambda key: stale(key, limit=0.1)  # type: ignore[method-assign, assignment, misc]
    labels = {names.SERVICE_NAME_LABEL: "cart"}
    # Written by us, and deleted by somebody before the cache saw it.
    ghost = ObjectMeta(name="cart-x", namespace="default", uid="ghost", resource_version="1", labels=labels)
    controller._tracker.written(EndpointSlice(metadata=ghost))
    place.make_ready(1, False)
    await until(lambda: "10.0.0.2" not in place.listed())
    await settle(place, controller)
    assert counter_total(controller.metrics.syncs, cause="stale") >= 1


async def test_what_was_refused_for_its_load_is_decided_anew_before_it_is_sent_again() -> None:
    """A body that is tried again and again would list what is long gone, and not what has come."""
    async with a_place("429@0.15") as place:
        fill(place)
        async with at_work(place) as controller:
            await settle(place, controller)
            place.expect_all_ready()
            for number in range(PODS, 18):
                place.pod(number, node="node-a")
                place.make_ready(number - PODS, number % 2 == 0)
                await asyncio.sleep(0.03)
            await settle(place, controller)
            assert is_as_planned(place)
        assert place.missing == []


# --- the slow full resync ---------------------------------------------------------------------------------------------


@with_controller(resync_period=0.5)
async def test_what_no_event_told_of_is_mended_by_the_resync_and_nothing_else_is_written(
    place: Place, controller: EndpointSliceController
) -> None:
    place.service("other")
    await settle(place, controller)
    writes = place.registry.store.version
    # What is kept of a Service, spoilt.
    kept = controller._states._states[KEY]
    kept.service.update_pod(("default", "cart-1"), None)
    syncs = counter_total(controller.metrics.syncs)
    await until(lambda: counter_total(controller.metrics.syncs) >= syncs + 4)
    assert place.registry.store.version == writes
    assert controller._states._states[KEY] is not kept
    place.make_ready(2, False)
    await settle(place, controller)
    assert place.listed() == addresses(0, 1, *range(3, PODS))
    assert counter_total(controller.metrics.writes, operation="update") == 2


@with_controller()
async def test_a_service_that_only_the_cache_does_not_know_keeps_its_slices(
    place: Place, controller: EndpointSliceController
) -> None:
    """As where the watch of Services has broken off, and another controller's slices are heard of before."""
    service = controller.cache.services.get(*KEY)
    assert service is not None
    controller.cache.services.delete(service)
    await until(lambda: counter_total(controller.metrics.retries) > 1)
    assert place.listed() == addresses(*range(PODS))
    controller.cache.services.put(service)
    await settle(place, controller)
    assert place.listed() == addresses(*range(PODS))
    assert not counter_total(controller.metrics.writes, operation="delete")


async def test_a_slice_of_the_built_in_controller_rests_before_it_is_deleted() -> None:
    """Its writer may wait for the answer still, and would wait for a slice that is gone for ever."""
    still, made, gone = 0.3, list[float](), list[float]()
    async with a_place() as place:
        fill(place)
        async with at_work(place, conflicts=ConflictDetector(together=True, still=still)) as controller:
            await settle(place, controller)
            clock = asyncio.get_running_loop().time

            def look(_kind: object, change: StoredChange) -> None:
                if change.key[1] == "late":
                    (gone if change.new is None else made).append(clock())

            place.registry.store.listeners.append(look)
            options: Object = {"service": "cart", "addresses": ["10.0.0.1"], "manager": names.BUILT_IN_MANAGER}
            create(place, KEPT, a_slice("late", **options))
            await until(lambda: bool(gone))
            assert gone[0] - made[0] >= still
    assert place.missing == []


# --- feature gates ----------------------------------------------------------------------------------------------------


async def test_while_the_gate_of_hints_is_off_none_is_written_however_subsetting_is_encoded() -> None:
    """And nobody is told that they are there."""
    configuration = Configuration(
        gates=FeatureGates(topology_aware_hints=False), subsetting=SubsettingSettings(encoding="hints")
    )
    async with a_place() as place:
        fill(place, pods=12, annotations={names.SUBSETTING_ANNOTATION: "Auto"})
        status_writer = StatusWriter(Writer(place.link), instance="test")
        async with at_work(place, configuration=configuration, status_writer=status_writer) as controller:
            telling = asyncio.create_task(status_writer.run())
            await settle(place, controller)
            assert await status_writer.wait_until_written(5)
            telling.cancel()
            endpoints = [one for each in place.slices() for one in each.endpoints or ()]
            assert len(endpoints) == 12
            assert not [one for one in endpoints if one.hints is not None]
            assert not controller.metrics.totals.hinted.total()
            (service,) = (each for each in place.objects("services") if each["metadata"]["name"] == "cart")
            conditions = {each["type"]: each for each in service["status"]["conditions"]}
            for type_ in (names.ACCEPTED_CONDITION, names.PROGRAMMED_CONDITION):
                assert (conditions[type_]["status"], conditions[type_]["reason"]) == ("False", "FeatureGateOff")
