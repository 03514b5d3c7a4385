"""The real kernel does what the one in memory does, and keeps what is served, whatever happens to it.

`tests/proxy/kernel_cases.py` is run on both.
Needs root and libnftables. Everything is in a network namespace of its own.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import pytest
from e2e.nodes import Namespace, kernel_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.proxy.drawn_services import changes, node_service, one_port
from tests.proxy.kernel.kernel_cases import BATCHES, CASES, Batch, Case
from tests.proxy.kernel.kernel_checks import OPTIONS, check, check_batch, check_changes, check_what_is_not_there

from zoneward.netlink.messages import Family
from zoneward.proxy.kernel.nft_client import KernelOutcomeUnknown, KernelRefused, NftClient
from zoneward.proxy.kernel.table_syncer import (
    ProgrammedTransaction,
    TableSyncer,
    delete_tables,
    plan_changes,
)
from zoneward.proxy.kernel.table_writer import encode_transaction
from zoneward.proxy.model.node_service import Backend, NodeService, ServiceKey
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.base_rules import TABLE as ZONEWARD
from zoneward.proxy.ruleset.base_rules import base_sets
from zoneward.proxy.ruleset.ruleset import RulesetChanges


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    found = Namespace()
    yield found
    found.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_transaction_does_what_it_says_or_nothing(namespace: Namespace, case: Case) -> None:
    async with kernel_of(namespace) as kernel:
        await check(kernel, case)


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: case.name)
async def test_elements_in_the_kernels_own_words_come_and_go_or_none_of_them(namespace: Namespace, case: Batch) -> None:
    async with kernel_of(namespace) as kernel:
        await check_batch(kernel, case)


async def test_what_is_not_there_is_told_by_its_number(namespace: Namespace) -> None:
    async with kernel_of(namespace) as kernel:
        await check_what_is_not_there(kernel)


@pytest.mark.parametrize("family", ["ip", "ip6"])
@settings(max_examples=15, derandomize=True, deadline=None)
@given(data=st.data())
def test_changes_in_transactions_of_some_come_to_a_fresh_load(
    namespace: Namespace, family: Family, data: st.DataObject
) -> None:
    steps, at_once = data.draw(changes(family)), data.draw(st.integers(1, 4))

    async def run() -> None:
        async with kernel_of(namespace) as kernel:
            await check_changes(kernel, family, steps, at_once=at_once)

    asyncio.run(run())


# --- whatever happens -------------------------------------------------------------------------------------------------


def a_service(number: int, *endpoints: int, **more: Any) -> NodeService:
    targets = tuple(Backend(f"10.0.1.{endpoint}", 8080) for endpoint in endpoints)
    ports = (one_port(*targets), one_port(*targets, protocol="udp", affinity_seconds=60))
    return node_service(*ports, name=f"s{number}", cluster_ip=f"10.96.0.{number}", **more)


class Kept(Reporter):
    """A table that runs in a namespace, and all that was told of it."""

    def __init__(self, kernel: NftClient) -> None:
        self.kernel = kernel
        self.reports: list[tuple[str, Any]] = []
        self.programmed: list[ProgrammedTransaction] = []
        self.trouble: list[str] = []
        self.table = TableSyncer(
            kernel,
            "ip",
            options=OPTIONS,
            listener=self,
            reporter=self,
        )
        self.served: dict[ServiceKey, NodeService] = {}

    def transaction_done(self, _family: Family, done: ProgrammedTransaction) -> None:
        self.programmed.append(done)

    def service_refused(self, _family: Family, service: ServiceKey, why: str) -> None:
        self.reports.append((why, service))

    def rules_repaired(self, _family: Family, what: str, count: int) -> None:
        self.reports.append((what, count))

    def kernel_failed(self, why: str) -> None:
        self.trouble.append(why)

    def put(self, *every: NodeService) -> None:
        for each in every:
            key = each.namespace, each.name
            self.served[key] = each
            self.table.set_service(key, each)

    async def right(self) -> None:
        """Until the kernel has what is served, and nothing else."""
        await self.table.wait_until_synced()
        while True:
            with suppress(KernelOutcomeUnknown):
                if not await plan_changes(self.kernel, "ip", self.served, options=OPTIONS):
                    return
            await asyncio.sleep(0.1)

    async def audit(self) -> list[tuple[str, Any]]:
        """What it has told so far."""
        self.table.request_audit()
        await self.table.wait_until_synced()
        return self.reports


@asynccontextmanager
async def kept(namespace: Namespace, *every: NodeService, is_last: bool = True) -> AsyncIterator[Kept]:
    """A table that serves; it is gone afterwards where it is the last."""
    async with kernel_of(namespace) as kernel:
        found = Kept(kernel)
        found.put(*every)
        running = asyncio.create_task(found.table.run())
        try:
            await found.table.wait_until_synced()
            yield found
        finally:
            running.cancel()
            await asyncio.wait([running])
            if is_last:
                await delete_tables(kernel)


SERVICES: Final = (
    a_service(1, 1, 2),
    a_service(2, 3, 4, 5),
    a_service(3, 6, load_balancer_ips=("192.0.2.9",), source_ranges=("10.9.0.0/16", "10.11.0.7/32")),
)


async def test_an_audit_finds_nothing_where_nothing_was_changed_and_a_restart_writes_nothing(
    namespace: Namespace,
) -> None:
    for is_last in (False, True):
        async with kept(namespace, *SERVICES, is_last=is_last) as found:
            await found.right()
            assert await found.audit() == []
            assert sum(each.elements for each in found.programmed) == 0 or not is_last


@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param(f"delete table ip {ZONEWARD}", ("table", 1), id="the table"),
        pytest.param(f"flush chain ip {ZONEWARD} nat-output", ("rules", 1), id="rules of a chain that is entered"),
        pytest.param(f"flush map ip {ZONEWARD} services", ("elements", 8), id="elements"),
        pytest.param(f"add table ip {ZONEWARD} {{ flags dormant; }}", ("table", 1), id="a table made asleep"),
    ],
)
async def test_what_others_take_away_comes_back(namespace: Namespace, command: str, told: tuple[str, int]) -> None:
    async with kept(namespace, *SERVICES) as found:
        namespace.run("nft", command)
        while not found.reports:
            await asyncio.sleep(0.05)
        await found.right()
        assert await found.audit() == [told]


@pytest.mark.parametrize("command", ["flush chain ip {table} c-2", "add rule ip {table} {own} drop"])
async def test_rules_that_others_changed_are_found_by_an_audit(namespace: Namespace, command: str) -> None:
    async with kept(namespace, *SERVICES) as found:
        chains = namespace.run("nft", "list", "table", "ip", ZONEWARD).split()
        own = next(chain.strip(",") for chain in chains if chain.startswith("guard-"))
        namespace.run("nft", command.format(table=ZONEWARD, own=own))
        assert await found.audit() == [("rules", 1)]
        assert await found.audit() == [("rules", 1)]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_process_that_is_killed_or_hangs_is_replaced_and_all_comes_right(
    namespace: Namespace, how: signal.Signals
) -> None:
    async with kept(namespace, *SERVICES) as found:
        for number in range(20):
            found.put(a_service(4 + number, 1, 2, number + 3))
            if number == 10:
                assert found.kernel.pid is not None
                os.kill(found.kernel.pid, how)
            await asyncio.sleep(0.001)
        await found.right()
        assert found.trouble
        assert not found.reports


async def test_an_element_that_the_kernel_refuses_is_named(namespace: Namespace) -> None:
    async with kept(namespace, *SERVICES) as found:
        bad = a_service(9, 99)
        found.table.set_service(("shop", "s9"), replace(bad, ports=(replace(bad.ports[0], port=99_999),)))
        found.put(a_service(8, 1, 2))
        await found.table.wait_until_synced()
        assert list(found.table.refused_services) == [("shop", "s9")]
        assert "99999" in found.table.refused_services["shop", "s9"]
        await found.right()


def large(*, ports: int, endpoints: int, **more: Any) -> NodeService:
    """A Service of its own with that many endpoints of each port."""
    some = [f"10.2.{number >> 8}.{number & 255}" for number in range(endpoints)]
    affinity, addresses = more.pop("affinity", None), more.pop("addresses", 0)
    every = (
        one_port(*(Backend(each, number) for each in some), name=f"p{number}", port=number, affinity_seconds=affinity)
        for number in range(1, ports + 1)
    )
    external = tuple(f"198.51.{number >> 8}.{number & 255}" for number in range(addresses))
    return node_service(*every, name="large", cluster_ip="10.96.1.1", external_ips=external)


LARGE: Final = {
    "clients that keep their endpoint": large(ports=100, endpoints=100, affinity=10_800),
    "many addresses": large(ports=200, endpoints=100, addresses=200),
}


@pytest.mark.parametrize("what", LARGE)
async def test_others_change_while_a_large_service_is_loaded(namespace: Namespace, what: str) -> None:
    """And no transaction takes so long that the process is taken for one that hangs."""
    async with kept(namespace, *SERVICES) as found:
        found.put(LARGE[what])
        begun = len(found.programmed)
        while len(found.programmed) == begun:
            await asyncio.sleep(0.001)
        found.put(a_service(4, 1, 2))
        await found.table.wait_until_synced()
        told = [list(each.services) for each in found.programmed[begun:]]
        assert told.index([("shop", "s4")]) < told.index([("shop", "large")])
        assert not found.trouble
        assert not found.table.refused_services
        assert await found.audit() == []
        found.served.pop(("shop", "large"))
        found.table.set_service(("shop", "large"), None)
        await found.right()


async def test_what_the_kernel_says_of_a_large_transaction_is_not_taken_for_its_answer_to_the_next(
    namespace: Namespace,
) -> None:
    declared = base_sets("ip")

    def written(**changes: Any) -> bytes:
        found = encode_transaction(RulesetChanges(family="ip", table="a-table", **changes), declared)
        assert found is not None
        return found

    async with kernel_of(namespace) as kernel:
        # There is no such table. What is refused is sent back, and there is no room for all of it.
        endpoints = {f"10.96.{number >> 8}.{number & 255} . tcp . 80 . 0": "10.0.0.1 . 80" for number in range(20_000)}
        with pytest.raises(KernelRefused):
            await kernel.send_batch(written(removed_elements={"endpoints": endpoints}))
        await kernel.run_commands("add table ip a-table\nadd set ip a-table cluster-ips { type ipv4_addr; }\n")
        await kernel.send_batch(written(added_elements={"cluster-ips": {"10.96.0.1": ""}}))
        await kernel.run_commands("delete table ip a-table\n")
