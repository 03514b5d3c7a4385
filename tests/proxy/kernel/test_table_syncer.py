"""Served Services reach the kernel, regardless of what the kernel and the process that programs it do."""

import asyncio
from typing import Any

import pytest
from tests.proxy.drawn_services import key, one_port
from tests.proxy.table_harness import a_proxy, a_service, settled

from zoneward.proxy.kernel.pending_services import MAX_ENTRIES, MAX_LOST_TRANSACTIONS, MAX_SERVICES
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.proxy.ruleset.base_rules import TABLE
from zoneward.proxy.ruleset.service_rules import service_rules


async def test_no_transaction_has_more_than_500_services() -> None:
    async with a_proxy() as proxy:
        every = [a_service(index, 1) for index in range(MAX_SERVICES + 200)]
        proxy.put(*every)
        await settled(proxy)
        assert proxy.has(*every)
        assert [len(transaction.services) for transaction in proxy.programmed] == [MAX_SERVICES, 200]
        assert sum(transaction.elements for transaction in proxy.programmed) == 3 * len(every)


async def test_changes_during_a_transaction_are_merged_into_the_next() -> None:
    async with a_proxy() as proxy:
        proxy.put(a_service(1, 1))
        await settled(proxy)
        proxy.kernel.faults.hold_until = asyncio.Event()
        count = proxy.kernel.transactions_begun
        proxy.put(a_service(1, 2))
        await proxy.until(lambda: proxy.kernel.transactions_begun > count)
        proxy.put(a_service(1, 3), a_service(2, 4))
        proxy.put(a_service(1, 5))
        assert not proxy.has(a_service(1, 2))
        proxy.kernel.faults.hold_until.set()
        await settled(proxy)
        assert proxy.has(a_service(1, 5), a_service(2, 4))
        assert [len(transaction.services) for transaction in proxy.programmed] == [1, 1, 2]


async def test_an_error_in_the_rules_of_one_service_is_reported_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken(served: Any, *rest: Any) -> Any:
        if "10.96.0.2" in repr(served):
            raise LookupError("nobody thought of this")
        return service_rules(served, *rest)

    monkeypatch.setattr("zoneward.proxy.kernel.table_syncer.service_rules", mistaken)

    async with a_proxy() as proxy:
        good, bad = [a_service(1, 1, 2), a_service(3, 1, 2, 3)], a_service(2, 5)
        proxy.put(*good, bad)
        await settled(proxy)
        assert proxy.has(*good)
        (refusal,) = proxy.refused
        assert refusal[0] == key(bad)
        assert "internal error: LookupError: nobody thought of this (" in refusal[1]


async def test_a_service_that_was_refused_is_tried_again_when_it_changes() -> None:
    async with a_proxy() as proxy:
        proxy.put(a_service(1, 1))
        await settled(proxy)
        proxy.kernel.faults.refused_words = {"10.96.0.2 "}
        proxy.put(a_service(2, 5))
        await settled(proxy)
        assert list(proxy.table.refused_services) == [("shop", "s2")]
        proxy.kernel.faults.refused_words = set()
        proxy.put(a_service(2, 6))
        await settled(proxy)
        assert proxy.has(a_service(1, 1), a_service(2, 6))
        assert not proxy.table.refused_services


async def test_an_audit_requested_during_a_check_tries_a_refused_service_again() -> None:
    async with a_proxy() as proxy:
        proxy.kernel.faults.refused_words = {"c-2"}
        proxy.put(a_service(1, 1), a_service(2, 5, 6))
        await settled(proxy)
        assert list(proxy.table.refused_services) == [("shop", "s2")]
        proxy.kernel.faults.refused_words = set()
        ask, audited = proxy.kernel.query, asyncio.Event()

        async def ask_and_audit(request: bytes) -> bytes:
            answer = await ask(request)
            if not audited.is_set():
                audited.set()
                proxy.table.request_audit()
            return answer

        # Once all is settled, the first query of the kernel is a periodic check.
        proxy.kernel.query = ask_and_audit  # type: ignore[method-assign]
        await audited.wait()
        await settled(proxy)
        assert proxy.has(a_service(1, 1), a_service(2, 5, 6))
        assert not proxy.table.refused_services


def large(*, ports: int = 30, shift: int = 0, **more: Any) -> NodeService:
    """A Service that takes more than two transactions, with 1,000 endpoints for each port."""
    indexes = range(shift, 1000 + shift)
    targets = tuple(Backend(f"10.2.{index // 250}.{index % 250}", 8080) for index in indexes)
    every = (one_port(*targets, name=f"p{index}", port=1000 + index) for index in range(ports))
    return a_service(1, **{"ports": tuple(every)} | more)


@pytest.mark.slow
async def test_a_large_service_is_programmed_some_ports_at_a_time_and_others_between() -> None:
    async with a_proxy() as proxy:
        proxy.put(a_service(2, 5))
        await settled(proxy)
        proxy.kernel.faults.hold_until = asyncio.Event()
        count = proxy.kernel.transactions_begun
        proxy.put(large())
        await proxy.until(lambda: proxy.kernel.transactions_begun > count)
        proxy.put(a_service(2, 6), a_service(3, 7))
        proxy.kernel.faults.hold_until.set()
        await settled(proxy)
        assert proxy.has(large(), a_service(2, 6), a_service(3, 7))
        order = [list(transaction.services) for transaction in proxy.programmed]
        assert order.index([("shop", "s2"), ("shop", "s3")]) < order.index([("shop", "s1")])
        for change in (large(shift=1), large(ports=3), large(external_ips=("198.51.100.1",))):
            proxy.put(change)
            await settled(proxy)
            assert proxy.has(change, a_service(2, 6), a_service(3, 7))
        proxy.table.set_service(("shop", "s1"), None)
        await settled(proxy)
        assert proxy.has(a_service(2, 6), a_service(3, 7))
        assert max(transaction.elements for transaction in proxy.programmed) < 2.2 * MAX_ENTRIES


async def test_a_port_is_never_without_its_endpoints_while_a_large_service_comes() -> None:
    async with a_proxy() as proxy:
        await settled(proxy)
        proxy.put(large(ports=50))
        seen = set()
        while proxy.table.is_pending(key(large())):
            elements = proxy.kernel.elements("ip", TABLE)
            ports = len(elements.get("services", {}))
            assert len(elements.get("endpoints", {})) == 1000 * ports
            seen.add(ports)
            await asyncio.sleep(0)
        assert len(seen) > 1


@pytest.mark.slow
async def test_a_large_service_that_is_refused_half_way_is_as_it_was_before_and_others_continue() -> None:
    async with a_proxy() as proxy:
        before, after = large(ports=3), large(external_ips=("198.51.100.1",))
        proxy.put(before)
        await settled(proxy)
        proxy.kernel.faults.refused_words = {" . 1029 "}
        proxy.put(after, a_service(2, 5))
        await settled(proxy)
        assert list(proxy.table.refused_services) == [("shop", "s1")]
        assert proxy.has(before, a_service(2, 5))
        proxy.kernel.faults.refused_words = set()
        proxy.table.request_audit()
        await settled(proxy)
        assert proxy.has(after, a_service(2, 5))
        assert not proxy.table.refused_services


async def test_a_service_that_takes_too_long_each_time_is_set_aside_with_what_was_there() -> None:
    async with a_proxy() as proxy:
        proxy.put(a_service(1, 1, 2), a_service(2, 5))
        await settled(proxy)
        proxy.kernel.faults.lost_words = {"10.0.1.66"}
        proxy.put(a_service(1, 66), a_service(2, 6), a_service(3, 7))
        await settled(proxy)
        assert proxy.has(a_service(1, 1, 2), a_service(2, 6), a_service(3, 7))
        assert list(proxy.table.refused_services) == [("shop", "s1")]
        assert [service for service, _ in proxy.refused] == [("shop", "s1")]
        assert len(proxy.trouble) == MAX_LOST_TRANSACTIONS
        # It delays all others, so a change of this Service alone is reported, but not tried.
        proxy.put(a_service(1, 66, 67), a_service(2, 8))
        await settled(proxy)
        assert proxy.has(a_service(1, 1, 2), a_service(2, 8), a_service(3, 7))
        assert len(proxy.trouble) == MAX_LOST_TRANSACTIONS
        assert not proxy.table.is_pending(("shop", "s1"))
        proxy.table.request_audit()
        await settled(proxy)
        assert len(proxy.trouble) == MAX_LOST_TRANSACTIONS + 1
        assert proxy.has(a_service(1, 1, 2), a_service(2, 8), a_service(3, 7))
        proxy.kernel.faults.lost_words = set()
        proxy.table.request_audit()
        await settled(proxy)
        assert proxy.has(a_service(1, 66, 67), a_service(2, 8), a_service(3, 7))
        assert not proxy.table.refused_services
