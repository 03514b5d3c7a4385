"""When a Service counts as contested, when no longer, and what is done about it on a cluster."""

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_pod, a_service, a_slice, an_endpoint
from tests.client.recording import until
from tests.controller.a_built_in import KEY, Shop, a_shop
from tests.controller.a_controller import LIMIT, at_work

from zoneward.client.writer import Writer
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.handover.conflict_detector import (
    GRACE,
    QUIET,
    STILL,
    ConflictDetector,
    ConflictVerdict,
    ContestedSlices,
    is_sign_of_life,
    slices_of_contested,
)
from zoneward.controller.mode import Mode
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.metrics import counter_total
from zoneward.kube.names import BUILT_IN_MANAGER, MANAGER
from zoneward.kube.objects import EndpointSlice
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import plan_service

OTHER = ("default", "other")


def contested(conflicts: ConflictDetector, key: tuple[str, str] = KEY, *, now: float = 0.0) -> float:
    """Hold a Service, and find slices until it is contested; when that is."""
    conflicts.taken_over(key)
    assert conflicts.found_slices(key, now=now) is ConflictVerdict.DELETE
    conflicts.taken_over(key)
    assert conflicts.found_slices(key, now=now + GRACE) is ConflictVerdict.DELETE
    conflicts.taken_over(key)
    assert conflicts.found_slices(key, now=now + GRACE) is ConflictVerdict.YIELD
    assert key in conflicts.contested
    return now + GRACE


def test_what_comes_back_twice_is_a_rival_and_one_late_sync_is_none() -> None:
    conflicts = ConflictDetector(together=False)
    # What is there when the Service is taken over is no rival, however long that takes.
    for now in range(9):
        assert conflicts.found_slices(KEY, now=now) is ConflictVerdict.DELETE
    conflicts.taken_over(KEY)
    assert conflicts.found_slices(KEY, now=10) is ConflictVerdict.DELETE
    # The deletion failed, and is tried again.
    assert conflicts.found_slices(KEY, now=11) is ConflictVerdict.DELETE
    conflicts.taken_over(KEY)
    # More of the same sync.
    assert conflicts.found_slices(KEY, now=11) is ConflictVerdict.WAIT
    assert conflicts.found_slices(KEY, now=12.5) is ConflictVerdict.WAIT
    assert conflicts.due_rechecks(now=12.9) == []
    assert conflicts.due_rechecks(now=10 + GRACE) == [KEY]
    assert conflicts.found_slices(KEY, now=10 + GRACE) is ConflictVerdict.DELETE
    conflicts.taken_over(KEY)
    assert not conflicts.contested
    assert conflicts.found_slices(KEY, now=10 + GRACE) is ConflictVerdict.YIELD
    assert conflicts.contested == {KEY}


def test_a_slice_that_was_just_written_rests_and_one_that_goes_on_writing_is_a_rival() -> None:
    conflicts = ConflictDetector(together=False)
    conflicts.sign_of_life(KEY, now=10)
    assert conflicts.found_slices(KEY, now=10 + STILL / 2) is ConflictVerdict.WAIT
    assert conflicts.due_rechecks(now=10 + STILL / 2) == []
    assert conflicts.due_rechecks(now=10 + STILL) == [KEY]
    assert conflicts.found_slices(KEY, now=10 + STILL) is ConflictVerdict.DELETE
    # A single write much later is no continuation.
    conflicts.sign_of_life(KEY, now=100)
    assert conflicts.found_slices(KEY, now=100) is ConflictVerdict.WAIT
    assert conflicts.found_slices(KEY, now=100 + STILL) is ConflictVerdict.DELETE
    conflicts, now = ConflictDetector(together=False), 10.0
    while now < 10 + GRACE:
        conflicts.sign_of_life(KEY, now=now)
        assert conflicts.found_slices(KEY, now=now) is ConflictVerdict.WAIT
        now += STILL / 2
    conflicts.sign_of_life(KEY, now=now)
    assert conflicts.found_slices(KEY, now=now) is ConflictVerdict.YIELD


@pytest.mark.parametrize("together", [True, False])
def test_one_contested_service_is_proof_for_others_where_all_are_ours(together: bool) -> None:
    conflicts = ConflictDetector(together=together)
    now = contested(conflicts)
    assert (conflicts.found_slices(OTHER, now=now) is ConflictVerdict.YIELD) == together


def test_one_namespace_is_no_proof_for_others() -> None:
    conflicts = ConflictDetector(together=True)
    now = contested(conflicts, ("tenant", "a"))
    assert conflicts.found_slices(KEY, now=now) is ConflictVerdict.DELETE
    assert conflicts.found_slices(("tenant", "b"), now=now) is ConflictVerdict.YIELD
    conflicts.taken_over(KEY)
    contested(conflicts, ("kube-system", "dns"), now=now)
    assert conflicts.found_slices(KEY, now=now) is ConflictVerdict.YIELD
    for key in (("tenant", "a"), ("tenant", "b"), KEY):
        conflicts.forget(key)
    assert conflicts.found_slices(KEY, now=now) is ConflictVerdict.DELETE


def test_writes_in_one_namespace_keep_no_other_from_being_reclaimed() -> None:
    conflicts = ConflictDetector(together=False)
    tenant, dns = ("tenant", "a"), ("kube-system", "dns")
    now = max(contested(conflicts, key) for key in (tenant, dns, KEY, OTHER))
    conflicts.check_recovery(KEY, is_current=False, now=now)
    now += QUIET
    conflicts.sign_of_life(tenant, now=now - 1)
    conflicts.sign_of_life(dns, now=now - 1)
    assert conflicts.check_recovery(KEY, is_current=False, now=now) == [KEY], "it writes in two namespaces"
    now += QUIET
    conflicts.sign_of_life(tenant, now=now - 1)
    assert conflicts.check_recovery(KEY, is_current=False, now=now) == [KEY, OTHER, dns]


def test_contests_of_one_namespace_make_no_other_wait_longer() -> None:
    conflicts, tenant, now = ConflictDetector(together=True), ("tenant", "a"), 0.0
    for _ in range(5):
        now = contested(conflicts, tenant, now=now)
        conflicts.reclaim([tenant], now=now)
        conflicts.forget(tenant)
    now = contested(conflicts, now=now)
    conflicts.check_recovery(KEY, is_current=False, now=now)
    assert conflicts.check_recovery(KEY, is_current=False, now=now + QUIET) == [KEY]


def test_it_is_gone_when_it_leaves_one_service_as_it_ought_not_to_be_and_changes_none() -> None:
    conflicts = ConflictDetector(together=True)
    now = contested(conflicts)
    conflicts.found_slices(OTHER, now=now)
    assert conflicts.contested == {KEY, OTHER}
    assert conflicts.check_recovery(KEY, is_current=True, now=now + 1000) == []
    now += 1000
    assert conflicts.check_recovery(KEY, is_current=False, now=now) == []
    conflicts.sign_of_life(KEY, now=now + QUIET - 1)
    assert conflicts.due_rechecks(now=now + QUIET) == [KEY]
    assert conflicts.check_recovery(KEY, is_current=False, now=now + QUIET) == [], "it changed a second ago"
    assert conflicts.due_rechecks(now=now + 2 * QUIET - 2) == []
    assert conflicts.due_rechecks(now=now + 2 * QUIET - 1) == [KEY]
    assert conflicts.check_recovery(KEY, is_current=False, now=now + 2 * QUIET - 1) == [KEY, OTHER]
    conflicts.reclaim([KEY, OTHER], now=now + 2 * QUIET)
    assert not conflicts.contested


def test_what_it_does_elsewhere_does_not_keep_a_service_from_being_given_back() -> None:
    conflicts = ConflictDetector(together=True)
    now = contested(conflicts)
    conflicts.found_slices(OTHER, now=now)
    assert conflicts.check_recovery(OTHER, is_current=False, now=now) == []
    conflicts.sign_of_life(KEY, now=now + QUIET - 1)
    assert conflicts.check_recovery(OTHER, is_current=False, now=now + QUIET) == [OTHER]
    conflicts.reclaim([OTHER], now=now + QUIET)
    assert conflicts.contested == {KEY}
    assert conflicts.found_slices(OTHER, now=now + QUIET) is ConflictVerdict.DELETE, (
        "that another one is contested proves nothing now"
    )
    conflicts.taken_over(OTHER)
    contested(conflicts, OTHER, now=now + QUIET)


def test_who_comes_back_after_all_is_known_at_once_and_waited_for_longer() -> None:
    conflicts = ConflictDetector(together=True)
    now = contested(conflicts)
    conflicts.check_recovery(KEY, is_current=False, now=now)
    assert conflicts.check_recovery(KEY, is_current=False, now=now + QUIET) == [KEY]
    now += QUIET
    conflicts.reclaim([KEY], now=now)
    assert conflicts.found_slices(KEY, now=now) is ConflictVerdict.DELETE, "what it left behind"
    conflicts.taken_over(KEY)
    assert conflicts.found_slices(KEY, now=now + 1) is ConflictVerdict.YIELD
    conflicts.check_recovery(KEY, is_current=False, now=now + 1)
    assert conflicts.check_recovery(KEY, is_current=False, now=now + 1 + QUIET) == []
    assert conflicts.check_recovery(KEY, is_current=False, now=now + 1 + 2 * QUIET) == [KEY]


def test_nothing_is_remembered_of_a_service_that_is_gone_or_once_we_lead_no_more() -> None:
    conflicts = ConflictDetector(together=True)
    contested(conflicts)
    conflicts.check_recovery(KEY, is_current=False, now=GRACE)
    conflicts.forget(KEY)
    assert len(conflicts) == 0
    contested(conflicts, now=100)
    conflicts.clear()
    assert len(conflicts) == 0
    assert conflicts.due_rechecks(now=10_000) == []


# --- what slices say --------------------------------------------------------------------------------------------------


def of_manager(manager: str, *numbers: int, deleting: bool = False, ready: bool = True) -> EndpointSlice:
    """A slice with 10.0.0.1 and so on."""
    endpoints = (an_endpoint(f"10.0.0.{each}", None, ready=ready) for each in numbers)
    return a_slice(manager, *endpoints, uid=manager, manager=manager, owner=None, deleting=deleting)


def contested_slices(*slices: EndpointSlice, pods: int) -> ContestedSlices:
    """Of a Service with so many ready Pods, 10.0.0.1 and on."""
    configuration = Configuration()
    cluster_state = ClusterState(demand=compute_demand(()), node_zones={}, configuration=configuration)
    found = [a_pod(f"cart-{number}", ips=[f"10.0.0.{number}"]) for number in range(1, pods + 1)]
    plan = plan_service(a_service(), pods=found, slices=slices, cluster_state=cluster_state)
    return slices_of_contested(plan, slices, configuration=configuration)


@pytest.mark.parametrize(
    ("ours", "theirs", "pods", "found"),
    [
        pytest.param((1, 2), of_manager(BUILT_IN_MANAGER, 1, 2), 2, (True, True, False), id="the-same"),
        pytest.param((1, 2), of_manager(BUILT_IN_MANAGER, 1), 2, (False, False, False), id="one-would-be-in-no-slice"),
        pytest.param((1, 2), of_manager(BUILT_IN_MANAGER, 1), 1, (True, True, False), id="one-that-we-list-is-gone"),
        pytest.param((1,), of_manager(BUILT_IN_MANAGER, 1), 2, (True, False, False), id="one-that-nobody-lists"),
        pytest.param((1,), of_manager(BUILT_IN_MANAGER, 1, ready=False), 1, (False, False, False), id="not-ready"),
        pytest.param((1,), of_manager(BUILT_IN_MANAGER, 1, deleting=True), 1, (False, False, True), id="being-deleted"),
        pytest.param((1,), of_manager("somebody", 1), 1, (False, False, True), id="of-somebody-else"),
    ],
)
def test_ours_go_once_every_ready_endpoint_of_theirs_is_listed(
    ours: tuple[int, ...], theirs: EndpointSlice, pods: int, found: tuple[bool, bool, bool]
) -> None:
    slices = contested_slices(of_manager(MANAGER, *ours), theirs, pods=pods)
    assert (bool(slices.doubles), slices.is_current, slices.is_gone) == found


def test_a_label_or_a_deletion_is_no_sign_of_life() -> None:
    one = of_manager(BUILT_IN_MANAGER, 1)
    assert is_sign_of_life(None, one)
    assert is_sign_of_life(one, of_manager(BUILT_IN_MANAGER, 2))
    assert is_sign_of_life(one, replace(one, metadata=replace(one.metadata, uid="another")))
    assert not is_sign_of_life(one, replace(one, metadata=replace(one.metadata, labels={})))
    assert not is_sign_of_life(one, of_manager(BUILT_IN_MANAGER, 1, deleting=True))
    assert not is_sign_of_life(one, None)


# --- on a cluster -----------------------------------------------------------------------------------------------------


def quick(*, together: bool = True) -> ConflictDetector:
    return ConflictDetector(together=together, still=0.05, grace=0.2, quiet=0.5)


def of(shop: Shop) -> tuple[bool, bool]:
    """Whether there are slices of ours, and of the built-in controller."""
    return bool(shop.slices(MANAGER)), bool(shop.slices(BUILT_IN_MANAGER))


def is_ours(shop: Shop, controller: EndpointSliceController) -> bool:
    return of(shop) == (True, False) and controller.is_idle


async def test_where_the_built_in_controller_goes_on_ours_go_and_come_back_when_it_is_quiet() -> None:
    async with a_shop("conflict@0.2", "lost-answer@0.2") as shop:
        status_writer = StatusWriter(Writer(shop.link), instance="test")
        async with at_work(shop, status_writer=status_writer, conflicts=quick()) as controller:
            await until(lambda: controller.contested == {KEY} and of(shop) == (False, True))
            assert await status_writer.wait_until_written(LIMIT)
            (event,) = shop.objects("events")
            assert (event["type"], event["reason"]) == ("Warning", "EndpointSlicesContested")
            writes = counter_total(controller.metrics.writes)
            # It is kept by the other one, and we write nothing.
            shop.steady.discard("10.0.0.1")
            shop.make_ready(1, False)
            await until(lambda: shop.listed() == shop.steady and controller.is_idle)
            assert controller.contested == {KEY}
            assert counter_total(controller.metrics.writes) == writes
            # It is switched off, which shows when something changes.
            shop.runs = False
            shop.steady.discard("10.0.0.2")
            shop.make_ready(2, False)
            await until(lambda: not controller.contested and is_ours(shop, controller))
            assert shop.listed() == shop.steady


async def test_a_late_sync_of_the_built_in_controller_contests_nothing() -> None:
    async with a_shop() as shop:
        shop.runs = False
        async with at_work(shop, conflicts=quick()) as controller:
            await until(lambda: is_ours(shop, controller))
            for _ in range(2):
                shop.sync()
                assert of(shop) == (True, True)
                await until(lambda: is_ours(shop, controller))
            assert not controller.contested
            assert counter_total(controller.metrics.writes, operation="delete") == 3
        # One that begins anew finds all in order.
        async with at_work(shop, conflicts=quick()) as controller:
            await controller.wait_until_idle(LIMIT)
            assert not counter_total(controller.metrics.writes)


async def test_an_adopted_service_is_left_to_a_built_in_controller_that_does_not_let_go() -> None:
    async with a_shop() as shop:
        await shop.adopting().adopt(endpoints_policy="keep")
        async with at_work(shop, mode=Mode.ONLY_MARKED, conflicts=quick(together=False)) as controller:
            await until(lambda: is_ours(shop, controller))
            shop.lets_go = False
            shop._seen = -1
            await until(lambda: controller.contested == {KEY} and of(shop) == (False, True))
            # Given back by a selector in its spec it is none of ours.
            shop.change_service(lambda old: old | {"spec": old["spec"] | {"selector": {"app": "cart"}}})
            await until(lambda: not controller.contested and controller.is_idle)
        assert shop.listed() == shop.steady
