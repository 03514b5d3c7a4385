"""The whole controller on a sandbox, over HTTP: that its parts are wired.

What holds after any order of events, failures and restarts is in `tests.controller.model`.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from tests.builders.objects import a_node
from tests.client.recording import until
from tests.controller.a_built_in import a_shop
from tests.controller.a_controller import (
    LABELS,
    LIMIT,
    PODS,
    Place,
    a_place,
    addresses,
    at_work,
    fill,
    plans_of,
    settle,
)
from tests.controller.lines import Lines

from zoneward.client.api_errors import api_error
from zoneward.client.writer import Writer
from zoneward.controller.endpointslice_controller import EndpointSliceController, PeriodicResync
from zoneward.controller.mode import Mode
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.metrics import counter_total
from zoneward.kube import names
from zoneward.kube.adoption_marks import ENDPOINTS_ANNOTATION, SELECTOR_ANNOTATION
from zoneward.kube.objects import ObjectMeta
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan

Object = dict[str, Any]
Work = Callable[[Place, EndpointSliceController], Coroutine[Any, Any, None]]
KEY = ("default", "cart")
AUTO = {names.TOPOLOGY_MODE_ANNOTATION: "Auto"}
IN_ZONE_A = {names.ZONE_LABEL: "a"}
MARK = {SELECTOR_ANNOTATION: '{"app": "cart"}'}


def with_controller(**options: Any) -> Callable[[Work], Any]:
    """A controller that has written the slices of one Service with Pods in three zones."""

    def decorate(work: Work) -> Any:
        async def test() -> None:
            async with a_place() as place:
                fill(place)
                async with at_work(place, **options) as controller:
                    await settle(place, controller)
                    await work(place, controller)
                assert place.missing == []

        return test

    return decorate


def the_service(place: Place) -> Object:
    (service,) = (object_ for object_ in place.objects("services") if object_["metadata"]["name"] == "cart")
    return service


@with_controller()
async def test_slices_follow_pods_and_services_and_a_second_controller_finds_nothing_to_write(
    place: Place, controller: EndpointSliceController
) -> None:
    assert place.listed() == addresses(*range(PODS))
    (slice_,) = place.slices()
    created = the_service(place)["metadata"]["creationTimestamp"]
    assert (slice_.metadata.annotations or {})[names.TRIGGER_TIME_ANNOTATION] == created
    plan = controller.decision(*KEY)
    assert plan is not None
    assert [family.decision.endpoints for family in plan.families] == [PODS]
    place.make_ready(3, False)
    place.pod(PODS, node="node-a")
    place.annotate("cart", AUTO)
    await settle(place, controller)
    assert place.listed() == addresses(*range(PODS + 1)) - addresses(3)
    ready = [
        one for slice_ in place.slices() for one in slice_.endpoints or () if one.conditions and one.conditions.ready
    ]
    assert all(one.hints for one in ready)
    changes = [family.changes for plan in plans_of(place.objects, Configuration()) for family in plan.families]
    assert not any(change.create or change.update or change.delete for change in changes)
    version = place.registry.store.version
    async with at_work(place) as second:
        await settle(place, second)
    assert place.registry.store.version == version
    place.store.delete(place.registry.kinds["services"], *KEY)
    await settle(place, controller)
    place.missing.clear()
    assert place.slices() == []
    assert (len(controller._states), len(controller._tracker), len(controller.metrics.totals)) == (0, 0, 0)


async def test_a_new_node_has_two_minutes_to_get_its_zone() -> None:
    """Its hints are removed afterwards, without any event, and come back with the label."""
    later = 0.0
    async with a_place() as place:
        fill(place, annotations=AUTO)

        def hinted() -> bool:
            return all(one.hints for slice_ in place.slices() for one in slice_.endpoints or ())

        async with at_work(place, wall_clock=lambda: time.time() + later) as controller:
            await settle(place, controller)
            assert hinted()
            place.store.create(place.registry.kinds["nodes"], "", a_node("node-x", zone=None))
            await settle(place, controller)
            assert hinted()
            later = 100.0
            await asyncio.sleep(0.2)
            await settle(place, controller)
            assert hinted()
            later = 125.0
            await until(lambda: not hinted())
            await settle(place, controller)
            place.change("nodes", "", "node-x", lambda old: old | {"metadata": old["metadata"] | {"labels": IN_ZONE_A}})
            await until(hinted)


# --- Services that are not like most ----------------------------------------------------------------------------------


async def test_a_service_whose_selector_is_back_is_given_back() -> None:
    async with a_shop() as shop:
        await shop.adopting().adopt(endpoints_policy="keep")
        async with at_work(shop, mode=Mode.ONLY_MARKED) as controller:
            shop.steady.discard("10.0.0.1")
            shop.make_ready(1, False)
            await until(lambda: shop.listed() == shop.steady)
            assert shop.slices(names.MANAGER)
            shop.change_service(lambda old: old | {"spec": old["spec"] | {"selector": LABELS}})
            await until(lambda: not shop.slices(names.MANAGER) and controller.is_idle)
        assert shop.listed() == shop.steady


async def test_a_stand_in_for_the_built_in_controller_knows_no_marks_and_no_slices_of_zoneward() -> None:
    async with a_place() as place:
        fill(place)
        async with at_work(place) as ours:
            await settle(place, ours)
        (own,) = place.slices()
        async with at_work(place, configuration=Configuration().as_upstream(), is_stand_in=True) as controller:
            await settle(place, controller)
            slices = place.slices()
            assert own in slices
            managers = {(slice_.metadata.labels or {})[names.MANAGED_BY_LABEL] for slice_ in slices}
            assert managers == {names.MANAGER, names.BUILT_IN_MANAGER}
            adopted = {"annotations": MARK | {ENDPOINTS_ANNOTATION: "keep"}}
            place.change(
                "services",
                *KEY,
                lambda old: old | {"metadata": old["metadata"] | adopted, "spec": old["spec"] | {"selector": None}},
            )
            place.make_ready(1, False)
            await settle(place, controller)
            assert place.slices() == slices
            assert place.objects("endpoints") == []


async def test_a_mark_without_a_selector_is_told_and_the_slices_stay() -> None:
    lines = Lines()
    async with a_place() as place:
        fill(place, selector=None, annotations=MARK)
        place.service("unmarked")
        async with at_work(place, mode=Mode.ONLY_MARKED, log=lines) as controller:
            await settle(place, controller)
            assert place.listed() == addresses(*range(PODS))
            assert place.slices("unmarked") == []
            place.annotate("cart", {SELECTOR_ANNOTATION: "{"})
            place.make_ready(1, False)
            await settle(place, controller)
            assert place.listed() == addresses(*range(PODS))
            assert lines.about("has no valid selector")[0] == {"service": "default/cart"}
            place.annotate("cart", MARK)
            await settle(place, controller)
            assert place.listed() == addresses(0, *range(2, PODS))


async def test_a_mark_that_is_lost_is_told_once_and_the_slices_stay() -> None:
    """`kubectl replace` with a manifest that has neither the mark nor a selector does that."""
    lines = Lines()
    async with a_place() as place:
        fill(place, selector=None, annotations=MARK | AUTO)
        status_writer = StatusWriter(Writer(place.link), instance="test")
        async with at_work(place, mode=Mode.ONLY_MARKED, log=lines, status_writer=status_writer) as controller:
            await settle(place, controller)
            assert await status_writer.wait_until_written(LIMIT)
            assert the_service(place)["status"]["conditions"]
            for annotations in ({}, {"note": "another change"}):
                place.annotate("cart", annotations)
                await settle(place, controller)
                assert await status_writer.wait_until_written(LIMIT)
            assert place.listed() == addresses(*range(PODS))
            assert len(lines.about("lost its annotation")) == 1
            assert [object_["reason"] for object_ in place.objects("events")].count("EndpointSlicesOrphaned") == 1
            assert not the_service(place)["status"].get("conditions")


async def test_the_label_changes_on_a_running_cluster_without_a_missing_endpoint_or_one_that_moves() -> None:
    """Of 12 endpoints groups start, with 11 they are only kept: nothing of what was in force is lost."""
    own, theirs = Configuration(), Configuration(keep_built_in_label=True)
    served: list[Object] = []
    async with a_place() as place:
        fill(place, 12, annotations={names.SUBSETTING_ANNOTATION: "Auto"})
        for configuration in (own, theirs, own, theirs):
            async with at_work(place, configuration=configuration) as controller:
                await settle(place, controller)
                place.make_ready(0, False)
                await settle(place, controller)
                assert place.listed() == addresses(*range(1, 12))
                assert not controller.contested
            labels = [slice_.metadata.labels or {} for slice_ in place.slices()]
            manager = names.MANAGER if configuration is own else names.BUILT_IN_MANAGER
            assert {label[names.MANAGED_BY_LABEL] for label in labels} == {manager}
            served.append(
                {
                    address: of_slice[names.ZONE_LABEL]
                    for of_slice, each in zip(labels, place.slices(), strict=True)
                    for one in each.endpoints or ()
                    for address in one.addresses or ()
                }
            )
            place.expect_all_ready()
        assert served == served[:1] * 4
        assert place.missing == []


# --- what goes wrong --------------------------------------------------------------------------------------------------


async def test_a_mistake_in_a_plan_is_told_once_with_its_place_and_no_worker_dies_of_it() -> None:
    lines = Lines()
    async with a_place() as place:
        fill(place)
        async with at_work(place, log=lines, workers=2) as controller:
            await settle(place, controller)
            plan, tries = controller._states.plan, 0

            def broken(key: tuple[str, str], *given: Any, **options: Any) -> ServicePlan:
                nonlocal tries
                if key == KEY and tries < 4:
                    tries += 1
                    raise ZeroDivisionError("a mistake")
                return plan(key, *given, **options)

            controller._states.plan = broken  # type: ignore[method-assign]
            place.make_ready(1, False)
            place.service("other")
            await until(lambda: bool(place.slices("other")))
            await settle(place, controller)
            assert place.listed() == addresses(0, *range(2, PODS))
            (told,) = lines.about("internal error")
            assert (told["service"], told["error"]) == ("default/cart", "ZeroDivisionError: a mistake")
            assert str(told["at"]).startswith("test_endpointslice_controller.py:")
            assert len(lines.about("failed to sync")) == 4
            assert counter_total(controller.metrics.syncs, cause="error") == 4
        assert place.missing == []


class Terminating(Writer):
    """A namespace that is about to go takes nothing new."""

    tries = 0

    async def create(self, _place: Any, _thing: Any) -> ObjectMeta:
        type(self).tries += 1
        causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
        status = {"kind": "Status", "reason": "Forbidden", "details": {"causes": causes}}
        raise api_error(403, msgspec.json.encode(status))


async def test_where_nothing_can_be_created_any_more_it_is_not_tried_again_and_again() -> None:
    async with a_place() as place:
        fill(place)
        Terminating.tries = 0
        async with at_work(place, writer=Terminating(place.link)) as controller:
            for tries in (1, 2):
                await settle(place, controller)
                await asyncio.sleep(0.1)
                assert Terminating.tries == tries
                place.make_ready(1, False)


@with_controller(resync_period=0.2)
async def test_what_no_event_told_of_is_mended_by_the_resync_and_nothing_else_is_written(
    place: Place, controller: EndpointSliceController
) -> None:
    version = place.registry.store.version
    # What is kept of a Service, spoilt.
    kept = controller._states._states[KEY]
    kept.service.update_pod(("default", "cart-1"), None)
    await until(lambda: controller._states._states.get(KEY, kept) is not kept)
    assert place.registry.store.version == version
    place.make_ready(2, False)
    await settle(place, controller)
    assert place.listed() == addresses(0, 1, *range(3, PODS))
    assert counter_total(controller.metrics.writes, operation="update") == 1


@with_controller()
async def test_a_service_that_only_the_cache_does_not_know_keeps_its_slices(
    place: Place, controller: EndpointSliceController
) -> None:
    """As where the watch of Services has broken off, and another controller's slices are heard of before."""
    service = controller.cache.services.get(*KEY)
    assert service is not None
    controller.cache.services.delete(service)
    await until(lambda: counter_total(controller.metrics.retries) > 1)
    controller.cache.services.put(service)
    await settle(place, controller)
    assert place.listed() == addresses(*range(PODS))
    assert not counter_total(controller.metrics.writes, operation="delete")


# --- leading ----------------------------------------------------------------------------------------------------------


# --- Every Service once in a period, spread over all of it ------------------------------------------------------------


KEYS = [("shop", f"cart-{number}") for number in range(100)]


def test_each_is_due_once_in_a_period_and_not_all_at_once() -> None:
    resync, found, most = PeriodicResync(period=1000), [], 0
    for now in range(3004):
        due = resync.due(lambda: KEYS, now=5000 + now)
        most = max(most, len(due))
        found += due
        if now in (1001, 2002, 3003):
            assert sorted(found) == sorted(KEYS * (now // 1000))
    assert most == 1


def test_after_a_long_pause_or_without_services_no_more_than_one_round_is_due() -> None:
    resync = PeriodicResync(period=10)
    assert [resync.due(list, now=now) for now in (0, 5, 10)] == [[]] * 3
    assert resync.due(lambda: KEYS, now=1000) == []
    assert resync.due(lambda: KEYS, now=2000) == KEYS
    assert resync.due(lambda: KEYS, now=2000) == []
    with pytest.raises(ValueError, match="period: expected a number of seconds above 0"):
        PeriodicResync(period=0)
