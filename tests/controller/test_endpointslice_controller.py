"""The controller on a sandbox, over HTTP."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controller.a_built_in import a_shop
from tests.controller.a_controller import KEPT, LABELS, LIMIT, PODS, Place, a_place, addresses, at_work, fill, settle

from zoneward.client.reflector import ReflectorSettings
from zoneward.client.writer import Writer
from zoneward.controller.endpointslice_controller import EndpointSliceController, PeriodicResync
from zoneward.controller.mode import Mode
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.metrics import counter_total
from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.routing.configuration import Configuration
from zoneward.sandbox.play.driver import play
from zoneward.sandbox.play.play_file import read_play

Object = dict[str, Any]
Work = Callable[[Place, EndpointSliceController], Coroutine[Any, Any, None]]
SUBSETS = {names.SUBSETTING_ANNOTATION: names.SUBSETTING_REQUIRE}
EXAMPLES = Path(__file__).parents[2] / "examples" / "plays"


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


def is_as_planned(place: Place, configuration: Configuration | None = None) -> bool:
    """Whether a plan from what the server has would write nothing."""
    plans = place.plans(Configuration() if configuration is None else configuration)
    changes = [family.changes for plan in plans for family in plan.families]
    return not any(each.create or each.update or each.delete for each in changes)


@with_controller()
async def test_a_service_with_pods_gets_its_slices(place: Place, controller: EndpointSliceController) -> None:
    assert place.listed() == addresses(*range(PODS))
    assert is_as_planned(place)
    (service,) = (each for each in place.objects("services") if each["metadata"]["name"] == "cart")
    (slice_,) = place.slices()
    annotations = slice_.metadata.annotations or {}
    assert annotations[names.TRIGGER_TIME_ANNOTATION] == service["metadata"]["creationTimestamp"]
    plan = controller.decision("default", "cart")
    assert plan is not None
    assert [family.decision.endpoints for family in plan.families] == [PODS]


@with_controller()
async def test_readiness_and_scaling_are_followed(place: Place, controller: EndpointSliceController) -> None:
    place.make_ready(3, False)
    await settle(place, controller)
    assert place.listed() == addresses(*range(PODS)) - addresses(3)
    place.make_ready(3, True)
    place.pod(PODS, node="node-a")
    await settle(place, controller)
    assert place.listed() == addresses(*range(PODS + 1))
    place.store.delete(place.registry.kinds["pods"], "default", "cart-0", grace=0)
    await settle(place, controller)
    assert place.listed() == addresses(*range(1, PODS + 1))
    assert is_as_planned(place)


@with_controller()
async def test_zones_of_nodes_and_what_a_service_asks_for_are_followed(
    place: Place, controller: EndpointSliceController
) -> None:
    def move(node: Object) -> Object:
        labels = node["metadata"]["labels"] | {names.ZONE_LABEL: "d"}
        return node | {"metadata": node["metadata"] | {"labels": labels}}

    def zones() -> set[str | None]:
        return {one.zone for each in place.slices() for one in each.endpoints or ()}

    place.change("nodes", "", "node-a", move)
    await settle(place, controller)
    assert zones() == {"b", "c", "d"}
    place.annotate("cart", {names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
    await settle(place, controller)
    assert all(one.hints for each in place.slices() for one in each.endpoints or ())
    place.annotate("cart", {})
    await settle(place, controller)
    assert not any(one.hints for each in place.slices() for one in each.endpoints or ())
    assert is_as_planned(place)


async def test_a_second_controller_finds_nothing_to_write() -> None:
    async with a_place() as place:
        fill(place, 120)
        place.service("empty", selector={"app": "nothing"})
        place.service("hinted", annotations={names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
        async with at_work(place) as controller:
            await settle(place, controller)
        version = place.registry.store.version
        async with at_work(place) as controller:
            await settle(place, controller)
        assert place.registry.store.version == version


@with_controller()
async def test_demand_brings_back_only_services_that_it_may_change(
    place: Place, controller: EndpointSliceController
) -> None:
    place.service("hinted", annotations={names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
    await settle(place, controller)
    syncs = counter_total(controller.metrics.syncs)

    def give_cpu(cpu: str) -> None:
        def change(node: Object) -> Object:
            return node | {"status": node["status"] | {"allocatable": {"cpu": cpu}}}

        place.store.patch_status(place.registry.kinds["nodes"], "", "node-a", change)

    give_cpu("4100m")
    await settle(place, controller)
    assert counter_total(controller.metrics.syncs) == syncs
    give_cpu("40")
    await settle(place, controller)
    assert counter_total(controller.metrics.syncs) > syncs
    assert is_as_planned(place)


async def test_nothing_ready_is_missing_while_endpoints_move_between_slices() -> None:
    small = Configuration(max_endpoints_per_slice=7)
    async with a_place() as place:
        fill(place, 40)
        async with at_work(place, configuration=small) as controller:
            await settle(place, controller)
            place.expect_all_ready()
            for annotations in (SUBSETS, {}, SUBSETS):
                place.annotate("cart", annotations)
                await settle(place, controller)
                groups = {(each.metadata.labels or {}).get(names.ZONE_LABEL) for each in place.slices()}
                assert (None in groups) == (not annotations)
                assert place.listed() == addresses(*range(40))

            def change_port(service: Object) -> Object:
                port = service["spec"]["ports"][0] | {"targetPort": 9999}
                return service | {"spec": service["spec"] | {"ports": [port]}}

            place.change("services", "default", "cart", change_port)
            await settle(place, controller)
            assert {port.port for each in place.slices() for port in each.ports or ()} == {9999}
            assert place.listed() == addresses(*range(40))
        assert place.missing == []


@with_controller()
async def test_what_others_do_to_our_slices_is_mended(place: Place, controller: EndpointSliceController) -> None:
    (slice_,) = place.slices()
    place.change(KEPT, "default", slice_.metadata.name, lambda old: old | {"endpoints": []})
    place.missing.clear()
    await settle(place, controller)
    assert place.listed() == addresses(*range(PODS))
    place.store.delete(place.registry.kinds[KEPT], "default", slice_.metadata.name)
    place.missing.clear()
    await settle(place, controller)
    assert place.listed() == addresses(*range(PODS))


@with_controller()
async def test_with_its_service_all_goes(place: Place, controller: EndpointSliceController) -> None:
    place.store.delete(place.registry.kinds["services"], "default", "cart")
    place.missing.clear()
    await settle(place, controller)
    place.missing.clear()
    assert place.slices() == []
    assert len(controller._states) == 0
    assert len(controller._tracker) == 0
    assert len(controller.metrics.totals) == 0


@with_controller(mode=Mode.ONLY_MARKED)
async def test_marked_services_alone_are_ours_where_it_is_asked_for(
    place: Place, controller: EndpointSliceController
) -> None:
    assert place.slices() == []
    place.service("other", selector=None, annotations={SELECTOR_ANNOTATION: '{"app": "cart"}'})
    await settle(place, controller)
    assert place.slices() == []
    assert place.listed() == addresses(*range(PODS))


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
        assert shop.missing == []


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not holds():
            await asyncio.sleep(0.01)


async def test_what_is_decided_is_told_once() -> None:
    async with a_place() as place:
        fill(place, annotations={names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
        for _ in range(2):
            status_writer = StatusWriter(Writer(place.link), instance="test")
            async with at_work(place, status_writer=status_writer) as controller:
                await settle(place, controller)
                assert await status_writer.wait_until_written(5)
                await settle(place, controller)
        (service,) = (each for each in place.objects("services") if each["metadata"]["name"] == "cart")
        assert [each["type"] for each in service["status"]["conditions"]]
        assert len(place.objects("events")) == 1
        version = place.registry.store.version
        async with at_work(place, status_writer=StatusWriter(Writer(place.link), instance="test")) as controller:
            await settle(place, controller)
        assert place.registry.store.version == version


async def test_a_service_that_is_ours_no_more_has_none_of_our_conditions() -> None:
    async with a_place() as place:
        fill(place, annotations={names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
        status_writer = StatusWriter(Writer(place.link), instance="test")
        async with at_work(place, status_writer=status_writer) as controller:
            await settle(place, controller)
            place.change("services", "default", "cart", without_selector)
            await settle(place, controller)
            assert await status_writer.wait_until_written(5)
        (service,) = (each for each in place.objects("services") if each["metadata"]["name"] == "cart")
        assert not service["status"].get("conditions")


def without_selector(service: Object) -> Object:
    return service | {"spec": {name: value for name, value in service["spec"].items() if name != "selector"}}


async def test_while_the_cache_is_behind_nothing_is_decided_and_then_all_is() -> None:
    """A watch that falls silent shows our own writes late: they are waited for, and read where that takes too long."""
    quick = ReflectorSettings(watch=0.5, silence=0.3)
    async with a_place("silent-watch@0.2") as place:
        fill(place, 3)
        async with at_work(place, watch_timing=quick) as controller:
            for number in range(3, 20):
                place.pod(number, node="node-a")
                await asyncio.sleep(0.05)
            await settle(place, controller)
            assert is_as_planned(place)
            assert len(place.slices()) == 1


@pytest.mark.parametrize("faults", [("conflict@0.1", "lost-answer@0.1")])
async def test_after_a_rollout_slices_are_as_planned_and_no_ready_endpoint_was_ever_missing(
    faults: tuple[str, ...],
) -> None:
    async with a_place(*faults, ends_pods=False) as place:
        registry = place.registry
        async with at_work(place) as controller:
            await play(
                replace(read_play(str(EXAMPLES / "rollout.yaml")), speed=30.0),
                registry,
                clock=lambda: registry.now,
                sleep=asyncio.sleep,
                until=190.0,
            )
            await settle(place, controller)
            assert len(place.listed()) == 18
            assert is_as_planned(place)
        assert place.missing == []


# --- Every Service once in a period, spread over all of it ---


KEYS = [("shop", f"cart-{number}") for number in range(100)]


def test_each_is_due_once_in_a_period_and_not_all_at_once() -> None:
    resync, found, most = PeriodicResync(period=1000), [], 0
    asked = 0

    def keys() -> list[tuple[str, str]]:
        nonlocal asked
        asked += 1
        return KEYS

    for now in range(3004):
        due = resync.due(keys, now=5000 + now)
        most = max(most, len(due))
        found += due
        if now in (1001, 2002, 3003):
            assert sorted(found) == sorted(KEYS * (now // 1000))
    assert most == 1
    assert asked <= 4, "one list a period"


def test_after_a_long_pause_no_more_than_one_round_is_due() -> None:
    resync = PeriodicResync(period=10)
    assert resync.due(lambda: KEYS, now=0) == []
    assert resync.due(lambda: KEYS, now=1000) == KEYS
    assert resync.due(lambda: KEYS, now=1000) == []


def test_there_may_be_none() -> None:
    resync = PeriodicResync(period=10)
    assert [resync.due(list, now=now) for now in (0, 5, 10, 20)] == [[]] * 4
    assert resync.due(lambda: KEYS[:1], now=30) == []
    assert resync.due(list, now=40) == KEYS[:1]


def test_a_period_is_some_time() -> None:
    with pytest.raises(ValueError, match="period: expected a number of seconds above 0"):
        PeriodicResync(period=0)
