"""When a Service counts as contested, when no longer, and what is done about it on a cluster."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.controller.a_built_in import KEY, Shop, a_shop
from tests.controller.a_controller import LIMIT, at_work

from zoneward.client.resources import LivePod
from zoneward.client.writer import Writer
from zoneward.controller.handover.alone import alone
from zoneward.controller.handover.rivals import GRACE, MEMORY, QUIET, STILL, Rivals, Verdict, is_sign_of_life, look
from zoneward.controller.loop import Controller
from zoneward.controller.mode import Mode
from zoneward.controller.status.telling import Teller
from zoneward.daemon.metrics import counter_total
from zoneward.kube.names import BUILT_IN_MANAGER, MANAGED_BY_LABEL, MANAGER, SERVICE_NAME_LABEL
from zoneward.kube.objects import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service

OTHER = ("default", "other")
PORTS = (EndpointPort(name="", port=80, protocol="TCP"),)


def contested(rivals: Rivals, key: tuple[str, str] = KEY, *, now: float = 0.0) -> float:
    """Hold a Service, and find slices until it is contested; when that is."""
    rivals.holds(key)
    assert rivals.found(key, now=now) is Verdict.DELETE
    rivals.holds(key)
    assert rivals.found(key, now=now + GRACE) is Verdict.DELETE
    rivals.holds(key)
    assert rivals.found(key, now=now + GRACE) is Verdict.KEEP_OFF
    assert key in rivals.contested
    return now + GRACE


def test_what_is_there_when_a_service_is_taken_over_is_no_rival() -> None:
    rivals = Rivals(together=False)
    for now in range(100):
        assert rivals.found(KEY, now=now) is Verdict.DELETE
    assert not rivals.contested


def test_what_comes_back_twice_is_a_rival_and_one_late_sync_is_none() -> None:
    rivals = Rivals(together=False)
    rivals.holds(KEY)
    assert rivals.found(KEY, now=10) is Verdict.DELETE
    # The deletion failed, and is tried again.
    assert rivals.found(KEY, now=11) is Verdict.DELETE
    rivals.holds(KEY)
    # More of the same sync.
    assert rivals.found(KEY, now=11) is Verdict.WAIT
    assert rivals.found(KEY, now=12.5) is Verdict.WAIT
    assert rivals.due(now=12.9) == []
    assert rivals.due(now=10 + GRACE) == [KEY]
    assert rivals.found(KEY, now=10 + GRACE) is Verdict.DELETE
    rivals.holds(KEY)
    assert not rivals.contested
    assert rivals.found(KEY, now=10 + GRACE) is Verdict.KEEP_OFF
    assert rivals.contested == {KEY}


def test_a_slice_that_was_just_written_is_not_deleted_before_its_writer_knows() -> None:
    rivals = Rivals(together=False)
    rivals.alive(KEY, now=10)
    assert rivals.found(KEY, now=10 + STILL / 2) is Verdict.WAIT
    assert rivals.due(now=10 + STILL / 2) == []
    assert rivals.due(now=10 + STILL) == [KEY]
    assert rivals.found(KEY, now=10 + STILL) is Verdict.DELETE
    assert not rivals.contested


def test_one_that_goes_on_writing_is_a_rival_though_nothing_was_deleted() -> None:
    rivals = Rivals(together=False)
    now = 10.0
    while now < 10 + GRACE:
        rivals.alive(KEY, now=now)
        assert rivals.found(KEY, now=now) is Verdict.WAIT
        now += STILL / 2
    rivals.alive(KEY, now=now)
    assert rivals.found(KEY, now=now) is Verdict.KEEP_OFF


def test_finds_that_lie_far_apart_have_nothing_to_do_with_each_other() -> None:
    rivals = Rivals(together=False)
    rivals.holds(KEY)
    for number in range(10):
        assert rivals.found(KEY, now=number * (MEMORY + 1)) is Verdict.DELETE
        rivals.holds(KEY)


@pytest.mark.parametrize("together", [True, False])
def test_one_contested_service_is_proof_for_others_where_all_are_ours(together: bool) -> None:
    rivals = Rivals(together=together)
    now = contested(rivals)
    assert (rivals.found(OTHER, now=now) is Verdict.KEEP_OFF) == together


def test_it_is_gone_when_it_leaves_one_service_as_it_ought_not_to_be_and_changes_none() -> None:
    rivals = Rivals(together=True)
    now = contested(rivals)
    rivals.found(OTHER, now=now)
    assert rivals.contested == {KEY, OTHER}
    assert rivals.looked(KEY, is_current=True, now=now + 1000) == []
    now += 1000
    assert rivals.looked(KEY, is_current=False, now=now) == []
    rivals.alive(KEY, now=now + QUIET - 1)
    assert rivals.due(now=now + QUIET) == [KEY]
    assert rivals.looked(KEY, is_current=False, now=now + QUIET) == [], "it changed a second ago"
    assert rivals.due(now=now + 2 * QUIET - 2) == []
    assert rivals.due(now=now + 2 * QUIET - 1) == [KEY]
    assert rivals.looked(KEY, is_current=False, now=now + 2 * QUIET - 1) == [KEY, OTHER]
    rivals.give_back([KEY, OTHER], now=now + 2 * QUIET)
    assert not rivals.contested


def test_what_it_does_elsewhere_does_not_keep_a_service_from_being_given_back() -> None:
    rivals = Rivals(together=True)
    now = contested(rivals)
    rivals.found(OTHER, now=now)
    assert rivals.looked(OTHER, is_current=False, now=now) == []
    rivals.alive(KEY, now=now + QUIET - 1)
    assert rivals.looked(OTHER, is_current=False, now=now + QUIET) == [OTHER]
    rivals.give_back([OTHER], now=now + QUIET)
    assert rivals.contested == {KEY}
    assert rivals.found(OTHER, now=now + QUIET) is Verdict.DELETE, "that another one is contested proves nothing now"
    rivals.holds(OTHER)
    contested(rivals, OTHER, now=now + QUIET)


def test_one_that_is_slow_is_waited_for_anew() -> None:
    rivals = Rivals(together=True)
    now = contested(rivals)
    rivals.looked(KEY, is_current=False, now=now)
    rivals.looked(KEY, is_current=True, now=now + QUIET - 1)
    assert rivals.looked(KEY, is_current=False, now=now + QUIET + 1) == []
    assert rivals.due(now=now + QUIET + 1) == []


def test_who_comes_back_after_all_is_known_at_once_and_waited_for_longer() -> None:
    rivals = Rivals(together=True)
    now = contested(rivals)
    rivals.looked(KEY, is_current=False, now=now)
    assert rivals.looked(KEY, is_current=False, now=now + QUIET) == [KEY]
    now += QUIET
    rivals.give_back([KEY], now=now)
    assert rivals.found(KEY, now=now) is Verdict.DELETE, "what it left behind"
    rivals.holds(KEY)
    assert rivals.found(KEY, now=now + 1) is Verdict.KEEP_OFF
    rivals.looked(KEY, is_current=False, now=now + 1)
    assert rivals.looked(KEY, is_current=False, now=now + 1 + QUIET) == []
    assert rivals.looked(KEY, is_current=False, now=now + 1 + 2 * QUIET) == [KEY]


def test_nothing_is_remembered_of_a_service_that_is_gone_or_once_we_lead_no_more() -> None:
    rivals = Rivals(together=True)
    contested(rivals)
    rivals.looked(KEY, is_current=False, now=GRACE)
    rivals.forget(KEY)
    assert len(rivals) == 0
    contested(rivals, now=100)
    rivals.clear()
    assert len(rivals) == 0
    assert rivals.due(now=10_000) == []


# --- what slices say --------------------------------------------------------------------------------------------------


def a_slice(manager: str, *addresses: str, deleting: bool = False, ready: bool = True) -> EndpointSlice:
    conditions = EndpointConditions(ready=ready)
    return EndpointSlice(
        metadata=ObjectMeta(
            name=manager,
            namespace=KEY[0],
            uid=manager,
            labels={MANAGED_BY_LABEL: manager, SERVICE_NAME_LABEL: KEY[1]},
            deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        ),
        address_type="IPv4",
        endpoints=tuple(Endpoint(addresses=(each,), conditions=conditions) for each in addresses),
        ports=PORTS,
    )


def a_plan(*slices: EndpointSlice, pods: int) -> ServicePlan:
    """Of a Service with so many ready Pods, 10.0.0.0 and on."""
    found = [
        {
            "metadata": {"name": f"cart-{number}", "namespace": KEY[0], "uid": str(number)},
            "status": {
                "podIPs": [{"ip": f"10.0.0.{number}"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for number in range(pods)
    ]
    configuration = Configuration()
    service = Service(
        metadata=ObjectMeta(name=KEY[1], namespace=KEY[0]),
        spec=ServiceSpec(selector={"a": "b"}, ports=(ServicePort(port=80),), ip_families=("IPv4",)),
    )
    cluster_state = ClusterState(demand=compute_demand(()), node_zones={}, configuration=configuration)
    return plan_service(service, pods=msgspec.convert(found, list[LivePod]), slices=slices, cluster_state=cluster_state)


@pytest.mark.parametrize(
    ("ours", "theirs", "pods", "doubles"),
    [
        (("10.0.0.0", "10.0.0.1"), ("10.0.0.0", "10.0.0.1"), 2, True),
        # One that is ready would be in no slice.
        (("10.0.0.0", "10.0.0.1"), ("10.0.0.0",), 2, False),
        # One that we list is gone.
        (("10.0.0.0", "10.0.0.1"), ("10.0.0.0",), 1, True),
        # One that nobody lists is none that we take away.
        (("10.0.0.0",), ("10.0.0.0",), 2, True),
    ],
)
def test_ours_go_once_every_ready_endpoint_of_theirs_is_listed(
    ours: tuple[str, ...], theirs: tuple[str, ...], pods: int, doubles: bool
) -> None:
    slices = a_slice(MANAGER, *ours), a_slice(BUILT_IN_MANAGER, *theirs)
    found = look(a_plan(*slices, pods=pods), slices, configuration=Configuration())
    assert bool(found.doubles) == doubles
    assert not found.is_gone
    assert found.is_current == (len(theirs) == pods)


def test_theirs_count_while_they_last_and_only_what_is_ready() -> None:
    for theirs in (a_slice(BUILT_IN_MANAGER, "10.0.0.0", deleting=True), a_slice("somebody", "10.0.0.0")):
        slices = a_slice(MANAGER, "10.0.0.0"), theirs
        found = look(a_plan(*slices, pods=1), slices, configuration=Configuration())
        assert found.is_gone
        assert not found.doubles
    slices = a_slice(MANAGER, "10.0.0.0"), a_slice(BUILT_IN_MANAGER, "10.0.0.0", ready=False)
    found = look(a_plan(*slices, pods=1), slices, configuration=Configuration())
    assert not found.is_gone
    assert not found.is_current
    assert not found.doubles


def test_a_label_or_a_deletion_is_no_sign_of_life() -> None:
    one = a_slice(BUILT_IN_MANAGER, "10.0.0.0")
    assert is_sign_of_life(None, one)
    assert is_sign_of_life(one, a_slice(BUILT_IN_MANAGER, "10.0.0.1"))
    assert is_sign_of_life(one, replace(one, metadata=replace(one.metadata, uid="another")))
    assert not is_sign_of_life(one, replace(one, metadata=replace(one.metadata, labels={})))
    assert not is_sign_of_life(one, a_slice(BUILT_IN_MANAGER, "10.0.0.0", deleting=True))
    assert not is_sign_of_life(one, None)


# --- on a cluster -----------------------------------------------------------------------------------------------------


def quick(*, together: bool = True) -> Rivals:
    return Rivals(together=together, still=0.05, grace=0.2, quiet=0.5)


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT):
        while not holds():
            await asyncio.sleep(0.01)


def of(shop: Shop) -> tuple[bool, bool]:
    """Whether there are slices of ours, and of the built-in controller."""
    return bool(shop.slices(MANAGER)), bool(shop.slices(BUILT_IN_MANAGER))


def is_ours(shop: Shop, controller: Controller) -> bool:
    return of(shop) == (True, False) and controller.is_settled


@pytest.mark.parametrize("faults", [(), ("conflict@0.2", "lost-answer@0.2")])
def test_where_the_built_in_controller_goes_on_ours_go_and_come_back_when_it_is_quiet(faults: tuple[str, ...]) -> None:
    async def scene() -> None:
        async with a_shop(*faults) as shop:
            teller = Teller(Writer(shop.link), instance="test")
            async with at_work(shop, teller=teller, rivals=quick()) as controller:
                await until(lambda: controller.contested == {KEY} and of(shop) == (False, True))
                assert alone(controller.contested)() is not None
                assert await teller.settled(5)
                (event,) = shop.objects("events")
                assert (event["type"], event["reason"]) == ("Warning", "EndpointSlicesContested")
                writes = counter_total(controller.metrics.writes)
                # It is kept by the other one, and we write nothing.
                shop.steady.discard("10.0.0.1")
                shop.make_ready(1, False)
                await until(lambda: shop.listed() == shop.steady)
                await asyncio.sleep(0.6)
                assert controller.contested == {KEY}
                assert counter_total(controller.metrics.writes) == writes
                # It is switched off, which shows when something changes.
                shop.runs = False
                shop.steady.discard("10.0.0.2")
                shop.make_ready(2, False)
                await until(lambda: not controller.contested and is_ours(shop, controller))
                assert alone(controller.contested)() is None
                assert shop.listed() == shop.steady
            assert shop.missing == []

    asyncio.run(scene())


def test_where_its_slices_are_deleted_a_service_is_ours_at_once() -> None:
    async def scene() -> None:
        async with a_shop() as shop, at_work(shop, rivals=quick()) as controller:
            await until(lambda: controller.contested and of(shop) == (False, True))
            shop.runs = False
            shop.steady.clear()
            for each in shop.slices(BUILT_IN_MANAGER):
                shop.delete_slice(each["metadata"]["name"])
            await until(lambda: not controller.contested and is_ours(shop, controller))

    asyncio.run(scene())


def test_a_late_sync_of_the_built_in_controller_contests_nothing() -> None:
    async def scene() -> None:
        async with a_shop() as shop:
            shop.runs = False
            async with at_work(shop, rivals=quick()) as controller:
                await until(lambda: is_ours(shop, controller))
                for _ in range(2):
                    shop.sync()
                    assert of(shop) == (True, True)
                    await until(lambda: is_ours(shop, controller))
                assert not controller.contested
                assert counter_total(controller.metrics.writes, operation="delete") == 3
            # One that begins anew finds all in order.
            async with at_work(shop, rivals=quick()) as controller:
                await controller.settled(LIMIT)
                assert not counter_total(controller.metrics.writes)
            assert shop.missing == []

    asyncio.run(scene())


def test_an_adopted_service_is_left_to_a_built_in_controller_that_does_not_let_go() -> None:
    async def scene() -> None:
        async with a_shop() as shop:
            await shop.adopting().adopt(legacy="keep")
            async with at_work(shop, mode=Mode.ONLY_MARKED, rivals=quick(together=False)) as controller:
                await until(lambda: is_ours(shop, controller))
                shop.lets_go = False
                shop._seen = -1
                await until(lambda: controller.contested == {KEY} and of(shop) == (False, True))
                # Given back by a selector in its spec it is none of ours.
                shop.change_service(lambda old: old | {"spec": old["spec"] | {"selector": {"app": "cart"}}})
                await until(lambda: not controller.contested and controller.is_settled)
            assert shop.listed() == shop.steady
            assert shop.missing == []

    asyncio.run(scene())
