"""When a Service is contested, when it is managed again, and what the controller does about it on a cluster."""

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_pod, a_service, a_slice, an_endpoint
from tests.client.recording import until
from tests.controller.a_built_in import KEY, Shop, a_shop
from tests.controller.a_controller import LIMIT, at_work

from zoneward.client.writer import Writer
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.handover.conflict_detector import (
    GRACE,
    MEMORY,
    RETRY,
    STILL,
    ConflictDetector,
    ConflictVerdict,
    ContestedSlices,
    is_built_in_write,
    slices_of_contested,
)
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.metrics import counter_total
from zoneward.kube.names import BUILT_IN_MANAGER, MANAGER
from zoneward.kube.objects import EndpointSlice
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import plan_service

OTHER = ("default", "other")
WRONG = ContestedSlices(is_gone=False, is_current=False, duplicates=())
CURRENT = ContestedSlices(is_gone=False, is_current=True, duplicates=())
GONE = ContestedSlices(is_gone=True, is_current=False, duplicates=())


def recreate(conflicts: ConflictDetector, *, now: float) -> ConflictVerdict:
    """Slices of the built-in controller appear after Zoneward deleted the others."""
    conflicts.taken_over(KEY)
    return conflicts.verdict(KEY, now=now)


def contest(conflicts: ConflictDetector, *, now: float = 0.0) -> None:
    while recreate(conflicts, now=now) is not ConflictVerdict.YIELD:
        pass


def test_only_a_second_recreation_contests_a_service() -> None:
    conflicts = ConflictDetector()
    verdicts = [conflicts.verdict(KEY, now=now) for now in range(9)]
    assert set(verdicts) == {ConflictVerdict.DELETE}, "these slices existed at the take-over"
    assert recreate(conflicts, now=10) is ConflictVerdict.DELETE
    assert conflicts.verdict(KEY, now=11) is ConflictVerdict.DELETE, "their deletion failed"
    assert not conflicts.contested
    assert recreate(conflicts, now=11) is ConflictVerdict.YIELD
    assert conflicts.contested == {KEY}
    assert conflicts.verdict(OTHER, now=11) is ConflictVerdict.DELETE, "other Services are not affected"


def test_recreations_far_apart_do_not_contest_a_service() -> None:
    conflicts = ConflictDetector()
    for hour in range(5):
        assert recreate(conflicts, now=hour * (MEMORY + 1)) is ConflictVerdict.DELETE
        conflicts.due_rechecks(now=hour * (MEMORY + 1) + 1)


def test_a_slice_that_changed_within_the_last_second_is_not_deleted() -> None:
    conflicts = ConflictDetector()
    for change in (10, 100):
        conflicts.slice_changed(KEY, now=change)
        assert conflicts.verdict(KEY, now=change + STILL / 2) is ConflictVerdict.WAIT
        assert conflicts.due_rechecks(now=change + STILL / 2) == []
        assert conflicts.due_rechecks(now=change + STILL) == [KEY]
        assert conflicts.verdict(KEY, now=change + STILL) is ConflictVerdict.DELETE
        assert conflicts.due_rechecks(now=change + STILL) == []


def test_changes_without_a_pause_contest_a_service() -> None:
    conflicts, now = ConflictDetector(), 10.0
    while now < 10 + GRACE:
        conflicts.slice_changed(KEY, now=now)
        assert conflicts.verdict(KEY, now=now) is ConflictVerdict.WAIT
        now += STILL / 2
    conflicts.slice_changed(KEY, now=now)
    assert conflicts.verdict(KEY, now=now) is ConflictVerdict.YIELD


def test_a_contested_service_is_retried_when_its_slices_stay_wrong() -> None:
    conflicts = ConflictDetector()
    contest(conflicts)
    assert not conflicts.retry(KEY, CURRENT, now=1000)
    assert conflicts.due_rechecks(now=2000) == []
    assert not conflicts.retry(KEY, WRONG, now=2000)
    conflicts.slice_changed(KEY, now=2000 + RETRY - 1)
    assert not conflicts.retry(KEY, WRONG, now=2000 + RETRY), "the built-in controller still writes"
    assert conflicts.due_rechecks(now=2000 + 2 * RETRY - 1) == []
    assert conflicts.due_rechecks(now=2000 + 2 * RETRY) == [KEY]
    assert conflicts.retry(KEY, WRONG, now=2000 + 2 * RETRY)
    assert not conflicts.contested


def test_a_contested_service_without_slices_is_managed_again_at_once() -> None:
    conflicts = ConflictDetector()
    contest(conflicts)
    assert conflicts.retry(KEY, GONE, now=0)
    assert not conflicts.contested


def test_each_failed_retry_doubles_the_time_until_the_next_one() -> None:
    conflicts, now = ConflictDetector(), 0.0
    contest(conflicts)
    for wait in (RETRY, 2 * RETRY, 4 * RETRY):
        assert not conflicts.retry(KEY, WRONG, now=now)
        assert not conflicts.retry(KEY, WRONG, now=now + wait - 1)
        assert conflicts.retry(KEY, WRONG, now=now + wait)
        now += wait
        assert conflicts.verdict(KEY, now=now) is ConflictVerdict.DELETE
        assert recreate(conflicts, now=now) is ConflictVerdict.YIELD, "after a retry no recreation is free"
    for _ in range(9):
        conflicts.retry(KEY, GONE, now=now)
        contest(conflicts, now=now)
    conflicts.retry(KEY, WRONG, now=now)
    assert conflicts.retry(KEY, WRONG, now=now + 3600), "an hour at most"


def test_a_service_that_is_forgotten_or_another_leader_leaves_nothing_in_memory() -> None:
    conflicts = ConflictDetector()
    contest(conflicts)
    conflicts.forget(KEY)
    assert (len(conflicts), conflicts.contested) == (0, set())
    contest(conflicts)
    conflicts.clear()
    assert (len(conflicts), conflicts.contested) == (0, set())


def test_writes_are_forgotten_when_they_no_longer_matter() -> None:
    conflicts = ConflictDetector()
    for index in range(100):
        conflicts.slice_changed(("default", f"s{index}"), now=index)
    conflicts.due_rechecks(now=100)
    assert len(conflicts) <= GRACE + 1


# --- the slices of a contested Service --------------------------------------------------------------------------------


def of_manager(manager: str, *numbers: int, deleting: bool = False, ready: bool = True) -> EndpointSlice:
    """A slice with 10.0.0.1 and so on."""
    endpoints = (an_endpoint(f"10.0.0.{index}", None, ready=ready) for index in numbers)
    return a_slice(manager, *endpoints, uid=manager, manager=manager, owner=None, deleting=deleting)


def contested_slices(*slices: EndpointSlice, pods: int) -> ContestedSlices:
    """Of a Service with this number of ready Pods, from 10.0.0.1."""
    configuration = Configuration()
    cluster_state = ClusterState(demand=compute_demand(()), node_zones={}, configuration=configuration)
    ready = [a_pod(f"cart-{index}", ips=[f"10.0.0.{index}"]) for index in range(1, pods + 1)]
    plan = plan_service(a_service(), pods=ready, slices=slices, cluster_state=cluster_state)
    return slices_of_contested(plan, slices, configuration=configuration)


@pytest.mark.parametrize(
    ("own", "other", "pods", "expected"),
    [
        pytest.param((1, 2), of_manager(BUILT_IN_MANAGER, 1, 2), 2, (True, True, False), id="the same"),
        pytest.param((1, 2), of_manager(BUILT_IN_MANAGER, 1), 2, (False, False, False), id="one in no other slice"),
        pytest.param((1, 2), of_manager(BUILT_IN_MANAGER, 1), 1, (True, True, False), id="one that is gone"),
        pytest.param((1,), of_manager(BUILT_IN_MANAGER, 1), 2, (True, False, False), id="one in no slice"),
        pytest.param((1,), of_manager(BUILT_IN_MANAGER, 1, ready=False), 1, (False, False, False), id="not ready"),
        pytest.param((1,), of_manager(BUILT_IN_MANAGER, 1, deleting=True), 1, (False, False, True), id="deleting"),
        pytest.param((1,), of_manager("another", 1), 1, (False, False, True), id="another manager"),
    ],
)
def test_own_slices_are_duplicates_once_the_others_list_their_ready_endpoints(
    own: tuple[int, ...], other: EndpointSlice, pods: int, expected: tuple[bool, bool, bool]
) -> None:
    slices = contested_slices(of_manager(MANAGER, *own), other, pods=pods)
    assert (bool(slices.duplicates), slices.is_current, slices.is_gone) == expected


def test_a_new_label_and_a_deletion_are_not_writes_of_the_built_in_controller() -> None:
    one = of_manager(BUILT_IN_MANAGER, 1)
    assert is_built_in_write(None, one)
    assert is_built_in_write(one, of_manager(BUILT_IN_MANAGER, 2))
    assert is_built_in_write(one, replace(one, metadata=replace(one.metadata, uid="another")))
    assert not is_built_in_write(one, replace(one, metadata=replace(one.metadata, labels={})))
    assert not is_built_in_write(one, of_manager(BUILT_IN_MANAGER, 1, deleting=True))
    assert not is_built_in_write(one, None)


# --- on a cluster -----------------------------------------------------------------------------------------------------


def quick() -> ConflictDetector:
    return ConflictDetector(still=0.05, grace=0.2, retry=2.0)


def managers(shop: Shop) -> set[str]:
    return {manager for manager in (MANAGER, BUILT_IN_MANAGER) if shop.slices(manager)}


def is_managed(shop: Shop, controller: EndpointSliceController) -> bool:
    return managers(shop) == {MANAGER} and controller.is_idle


async def test_a_contested_service_is_left_to_the_built_in_controller_until_that_is_off() -> None:
    async with a_shop("conflict@0.2", "lost-answer@0.2") as shop:
        status_writer = StatusWriter(Writer(shop.link), instance="test")
        async with at_work(shop, status_writer=status_writer, conflicts=quick()) as controller:
            await until(lambda: controller.contested == {KEY} and managers(shop) == {BUILT_IN_MANAGER})
            # Where the answer to a deletion is lost, it is counted when the slice was read back.
            await until(lambda: controller.is_idle)
            assert await status_writer.wait_until_written(LIMIT)
            (event,) = shop.objects("events")
            assert (event["type"], event["reason"]) == ("Warning", "EndpointSlicesContested")
            writes = counter_total(controller.metrics.writes)
            # The built-in controller updates its slices, and Zoneward writes nothing.
            shop.steady.discard("10.0.0.1")
            shop.make_ready(1, False)
            await until(lambda: shop.listed() == shop.steady and controller.is_idle)
            assert controller.contested == {KEY}
            assert counter_total(controller.metrics.writes) == writes
            # It is switched off, which shows when something changes.
            shop.runs = False
            shop.steady.discard("10.0.0.2")
            shop.make_ready(2, False)
            await until(lambda: not controller.contested and is_managed(shop, controller))
            assert shop.listed() == shop.steady


async def test_an_adopted_service_is_left_to_a_built_in_controller_that_continues_to_write() -> None:
    async with a_shop() as shop:
        await shop.adopting().adopt(endpoints_policy="keep")
        async with at_work(shop, mode=Mode.ONLY_MARKED, conflicts=quick()) as controller:
            await until(lambda: is_managed(shop, controller))
            shop.lets_go = False
            shop._seen = -1
            await until(lambda: controller.contested == {KEY} and managers(shop) == {BUILT_IN_MANAGER})
            # With a selector in its spec it is released.
            shop.change_service(lambda old: old | {"spec": old["spec"] | {"selector": {"app": "cart"}}})
            await until(lambda: not controller.contested and controller.is_idle)
        assert shop.listed() == shop.steady
