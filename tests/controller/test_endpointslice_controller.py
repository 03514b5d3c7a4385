"""The whole controller on a sandbox, over HTTP: that its parts are wired.

What holds after any order of events, failures and restarts is in `tests.controller.model`.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.builders.objects import a_node
from tests.builders.structs import SOME_TIME
from tests.client.recording import until
from tests.controller.a_controller import (
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

from zoneward.client import resources
from zoneward.client.api_errors import api_error
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import LivePod, LivePodMeta
from zoneward.client.writer import Writer
from zoneward.controller.context import ControllerContext
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.endpointslice_controller import EndpointSliceController, PeriodicResync
from zoneward.controller.handover.service_handover import ReadWriteConnection
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.metrics import counter_total
from zoneward.kube import names
from zoneward.kube.adoption_marks import ENDPOINTS_ANNOTATION, SELECTOR_ANNOTATION, manager_of
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
            async with a_place() as sandbox:
                fill(sandbox)
                async with at_work(sandbox, **options) as controller:
                    await settle(sandbox, controller)
                    await work(sandbox, controller)

        return test

    return decorate


@with_controller()
async def test_slices_follow_pods_and_services_and_a_second_controller_finds_nothing_to_write(
    sandbox: Place, controller: EndpointSliceController
) -> None:
    assert sandbox.listed() == addresses(*range(PODS))
    (slice_,) = sandbox.slices()
    created = sandbox.service_now()["metadata"]["creationTimestamp"]
    assert (slice_.metadata.annotations or {})[names.TRIGGER_TIME_ANNOTATION] == created
    plan = controller.decision(*KEY)
    assert plan is not None
    assert [family.decision.endpoints for family in plan.families] == [PODS]
    sandbox.make_ready(3, False)
    sandbox.pod(PODS, node="node-a")
    sandbox.annotate("cart", AUTO)
    await settle(sandbox, controller)
    assert sandbox.listed() == addresses(*range(PODS + 1)) - addresses(3)
    ready = [
        one for slice_ in sandbox.slices() for one in slice_.endpoints or () if one.conditions and one.conditions.ready
    ]
    assert all(one.hints for one in ready)
    changes = [family.changes for plan in plans_of(sandbox.objects, Configuration()) for family in plan.families]
    assert not any(change.create or change.update or change.delete for change in changes)
    version = sandbox.registry.store.version
    async with at_work(sandbox) as second:
        await settle(sandbox, second)
    assert sandbox.registry.store.version == version
    sandbox.store.delete(sandbox.registry.kinds["services"], *KEY)
    await settle(sandbox, controller)
    assert sandbox.slices() == []
    assert (len(controller._states), len(controller._tracker), len(controller.metrics.totals)) == (0, 0, 0)


async def test_a_new_node_has_two_minutes_to_get_its_zone() -> None:
    """Its hints are removed afterwards, without any event, and come back with the label."""
    later = 0.0
    async with a_place() as sandbox:
        fill(sandbox, annotations=AUTO)

        def hinted() -> bool:
            return all(one.hints for slice_ in sandbox.slices() for one in slice_.endpoints or ())

        async with at_work(sandbox, wall_clock=lambda: time.time() + later) as controller:
            await settle(sandbox, controller)
            assert hinted()
            sandbox.store.create(sandbox.registry.kinds["nodes"], "", a_node("node-x", zone=None))
            await settle(sandbox, controller)
            assert hinted()
            later = 100.0
            await asyncio.sleep(0.2)
            await settle(sandbox, controller)
            assert hinted()
            later = 125.0
            await until(lambda: not hinted())
            await settle(sandbox, controller)
            sandbox.change(
                "nodes", "", "node-x", lambda old: old | {"metadata": old["metadata"] | {"labels": IN_ZONE_A}}
            )
            await until(hinted)


# --- Services that are not like most ----------------------------------------------------------------------------------


async def test_a_stand_in_ignores_adopted_services_and_slices_of_zoneward() -> None:
    async with a_place() as sandbox:
        fill(sandbox)
        async with at_work(sandbox) as ours:
            await settle(sandbox, ours)
        (own,) = sandbox.slices()
        async with at_work(sandbox, configuration=Configuration().as_upstream(), is_stand_in=True) as controller:
            await settle(sandbox, controller)
            slices = sandbox.slices()
            assert own in slices
            managers = {manager_of(slice_) for slice_ in slices}
            assert managers == {names.MANAGER, names.BUILT_IN_MANAGER}
            adopted = {"annotations": MARK | {ENDPOINTS_ANNOTATION: "keep"}}
            sandbox.change(
                "services",
                *KEY,
                lambda old: old | {"metadata": old["metadata"] | adopted, "spec": old["spec"] | {"selector": None}},
            )
            sandbox.make_ready(1, False)
            await settle(sandbox, controller)
            assert sandbox.slices() == slices
            assert sandbox.objects("endpoints") == []


async def test_an_annotation_without_a_selector_is_logged_and_the_slices_stay() -> None:
    lines = Lines()
    async with a_place() as sandbox:
        fill(sandbox, selector=None, annotations=MARK)
        sandbox.service("unmarked")
        async with at_work(sandbox, mode=Mode.ONLY_MARKED, log=lines) as controller:
            await settle(sandbox, controller)
            assert sandbox.listed() == addresses(*range(PODS))
            assert sandbox.slices("unmarked") == []
            sandbox.annotate("cart", {SELECTOR_ANNOTATION: "{"})
            sandbox.make_ready(1, False)
            await settle(sandbox, controller)
            assert sandbox.listed() == addresses(*range(PODS))
            assert lines.about("has no valid selector")[0] == {"service": "default/cart"}
            sandbox.annotate("cart", MARK)
            await settle(sandbox, controller)
            assert sandbox.listed() == addresses(0, *range(2, PODS))


async def test_a_lost_annotation_is_reported_once_and_the_slices_stay() -> None:
    """`kubectl replace` with a manifest that has neither the mark nor a selector does that."""
    lines = Lines()
    async with a_place() as sandbox:
        fill(sandbox, selector=None, annotations=MARK | AUTO)
        status_writer = StatusWriter(Writer(sandbox.link), instance="test")
        async with at_work(sandbox, mode=Mode.ONLY_MARKED, log=lines, status_writer=status_writer) as controller:
            await settle(sandbox, controller)
            assert await status_writer.wait_until_written(LIMIT)
            assert sandbox.service_now()["status"]["conditions"]
            for annotations in ({}, {"note": "another change"}):
                sandbox.annotate("cart", annotations)
                await settle(sandbox, controller)
                assert await status_writer.wait_until_written(LIMIT)
            assert sandbox.listed() == addresses(*range(PODS))
            assert len(lines.about("lost its annotation")) == 1
            assert [object_["reason"] for object_ in sandbox.objects("events")].count("EndpointSlicesOrphaned") == 1
            assert not sandbox.service_now()["status"].get("conditions")


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_an_exception_in_a_plan_is_logged_once_and_ends_no_worker() -> None:
    lines = Lines()
    async with a_place() as sandbox:
        fill(sandbox)
        async with at_work(sandbox, log=lines, workers=2) as controller:
            await settle(sandbox, controller)
            plan, tries = controller._states.plan, 0

            def broken(key: tuple[str, str], *given: Any, **options: Any) -> ServicePlan:
                nonlocal tries
                if key == KEY and tries < 4:
                    tries += 1
                    raise ZeroDivisionError("a mistake")
                return plan(key, *given, **options)

            controller._states.plan = broken  # type: ignore[method-assign]
            sandbox.make_ready(1, False)
            sandbox.service("other")
            await until(lambda: bool(sandbox.slices("other")))
            await settle(sandbox, controller)
            assert sandbox.listed() == addresses(0, *range(2, PODS))
            (line,) = lines.about("internal error")
            assert (line["service"], line["error"]) == ("default/cart", "ZeroDivisionError: a mistake")
            assert str(line["at"]).startswith("test_endpointslice_controller.py:")
            assert len(lines.about("failed to sync")) == 4
            assert counter_total(controller.metrics.syncs, cause="error") == 4


class Terminating(Writer):
    """A namespace that is about to go takes nothing new."""

    tries = 0

    async def create(self, _place: Any, _thing: Any) -> ObjectMeta:
        type(self).tries += 1
        causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
        status = {"kind": "Status", "reason": "Forbidden", "details": {"causes": causes}}
        raise api_error(403, msgspec.json.encode(status))


async def test_creations_in_a_terminating_namespace_are_not_retried() -> None:
    async with a_place() as sandbox:
        fill(sandbox)
        Terminating.tries = 0
        async with at_work(sandbox, writer=Terminating(sandbox.link)) as controller:
            for tries in (1, 2):
                await settle(sandbox, controller)
                await asyncio.sleep(0.1)
                assert Terminating.tries == tries
                sandbox.make_ready(1, False)


class OneRefused(Writer):
    """The server refuses the second slice once."""

    creations = 0

    async def create(self, resource: Any, obj: Any) -> ObjectMeta:
        if resource is resources.SLICES:
            OneRefused.creations += 1
            if OneRefused.creations == 2:
                raise api_error(500, b'{"kind": "Status"}')
        return await super().create(resource, obj)


async def test_the_event_of_a_failed_sync_is_reported_also_without_the_annotation_of_the_last_report() -> None:
    condition = {"type": names.PROGRAMMED_CONDITION, "status": "False", "reason": "OneZone", "message": ""}
    async with a_place() as sandbox:
        fill(sandbox, annotations=AUTO)
        conditions = {"status": {"conditions": [condition | {"lastTransitionTime": SOME_TIME}]}}
        kind = sandbox.registry.kinds["services"]
        sandbox.store.patch_status(kind, "default", "cart", lambda service: service | conditions)
        OneRefused.creations = 0
        status_writer = StatusWriter(Writer(sandbox.link), instance="test")
        async with at_work(
            sandbox,
            writer=OneRefused(sandbox.link),
            configuration=Configuration(max_endpoints_per_slice=5),
            status_writer=status_writer,
        ) as controller:
            await settle(sandbox, controller)
            assert await status_writer.wait_until_written(LIMIT)
        assert OneRefused.creations == 3
        assert [event["reason"] for event in sandbox.objects("events")] == ["TopologyAwareRoutingEnabled"]


@with_controller(resync_period=0.2)
async def test_the_resync_repairs_a_wrong_state_and_writes_nothing_else(
    sandbox: Place, controller: EndpointSliceController
) -> None:
    version = sandbox.registry.store.version
    # What is kept of a Service, spoilt.
    state = controller._states._states[KEY]
    state.service.update_pod(("default", "cart-1"), None)
    await until(lambda: controller._states._states.get(KEY, state) is not state)
    assert sandbox.registry.store.version == version
    sandbox.make_ready(2, False)
    await settle(sandbox, controller)
    assert sandbox.listed() == addresses(0, 1, *range(3, PODS))
    assert counter_total(controller.metrics.writes, operation="update") == 1


@with_controller()
async def test_a_service_that_is_missing_only_in_the_cache_keeps_its_slices(
    sandbox: Place, controller: EndpointSliceController
) -> None:
    """As after the watch of Services has broken off, when another controller's slices are seen before the Service."""
    service = controller.cache.services.get(*KEY)
    assert service is not None
    controller.cache.services.delete(service)
    await until(lambda: counter_total(controller.metrics.retries) > 1)
    controller.cache.services.put(service)
    await settle(sandbox, controller)
    assert sandbox.listed() == addresses(*range(PODS))
    assert not counter_total(controller.metrics.writes, operation="delete")


# --- Every Service once in a period, spread over all of it ------------------------------------------------------------


KEYS = [("shop", f"cart-{index}") for index in range(100)]


async def test_only_objects_that_still_cannot_be_read_are_reported_once_a_version() -> None:
    reported: list[str] = []
    status_writer = cast(StatusWriter, SimpleNamespace(report_unreadable=lambda obj: reported.append(str(obj.key))))
    context = ControllerContext(
        connection=cast(ReadWriteConnection, None),
        writer=Writer(cast(ReadWriteConnection, None)),
        configuration=Configuration(),
        mode=Mode.TAKE_OVER,
        status_writer=status_writer,
    )
    controller = EndpointSliceController(context)
    pods = controller.cache.pods

    def becomes_unreadable(name: str, version: str) -> None:
        pods.mark_unreadable(
            UnreadableObject(resource=resources.PODS, namespace="shop", name=name, version=version, problem="no Pod")
        )

    becomes_unreadable("repaired", "1")
    pods.put(LivePod(metadata=LivePodMeta(name="repaired", namespace="shop", resource_version="2")))
    becomes_unreadable("broken", "1")
    for version in ("1", "1", "3"):
        becomes_unreadable("broken", version)
        controller._report_unreadable()
    assert reported == ["('shop', 'broken')"] * 2


def test_every_service_is_due_once_a_period_spread_evenly() -> None:
    resync, result, most = PeriodicResync(period=1000), [], 0
    for now in range(3004):
        due = resync.due(lambda: KEYS, now=5000 + now)
        most = max(most, len(due))
        result += due
        if now in (1001, 2002, 3003):
            assert sorted(result) == sorted(KEYS * (now // 1000))
    assert most == 1


def test_after_a_long_pause_at_most_one_round_is_due() -> None:
    resync = PeriodicResync(period=10)
    assert [resync.due(list, now=now) for now in (0, 5, 10)] == [[]] * 3
    assert resync.due(lambda: KEYS, now=1000) == []
    assert resync.due(lambda: KEYS, now=2000) == KEYS
    assert resync.due(lambda: KEYS, now=2000) == []
    with pytest.raises(ValueError, match="period: expected a number of seconds above 0"):
        PeriodicResync(period=0)
