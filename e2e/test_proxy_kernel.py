"""The real kernel behaves like the fake one of the tests, and the rules are repaired after every fault.

`tests/proxy/kernel/kernel_cases.py` runs on both. Needs root and libnftables. Everything runs in a separate network
namespace.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest
from e2e.nodes import Namespace, kernel_of
from e2e.processes import cpu_seconds
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.proxy.drawn_services import changes, node_service, one_port
from tests.proxy.kernel.kernel_cases import BATCHES, CASES, Batch, Case
from tests.proxy.kernel.kernel_checks import OPTIONS, check, check_batch, check_changes, check_what_is_not_there

from zoneward.netlink.messages import Family
from zoneward.proxy.kernel.nft_client import (
    MAX_REQUEST_LIMIT,
    REQUEST_LIMIT,
    KernelOutcomeUnknown,
    KernelRefused,
    NftClient,
)
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
    namespace = Namespace()
    yield namespace
    namespace.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_transaction_is_applied_as_a_whole_or_not_at_all(namespace: Namespace, case: Case) -> None:
    async with kernel_of(namespace) as kernel:
        await check(kernel, case)


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: case.name)
async def test_batch_of_elements_is_applied_as_a_whole_or_not_at_all(namespace: Namespace, case: Batch) -> None:
    async with kernel_of(namespace) as kernel:
        await check_batch(kernel, case)


async def test_missing_object_is_reported_by_its_error_number(namespace: Namespace) -> None:
    async with kernel_of(namespace) as kernel:
        await check_what_is_not_there(kernel)


@pytest.mark.parametrize("family", ["ip", "ip6"])
@settings(max_examples=15, derandomize=True, deadline=None)
@given(data=st.data())
def test_changes_in_small_transactions_equal_a_fresh_load(
    namespace: Namespace, family: Family, data: st.DataObject
) -> None:
    steps, at_once = data.draw(changes(family)), data.draw(st.integers(1, 4))

    async def run() -> None:
        async with kernel_of(namespace) as kernel:
            await check_changes(kernel, family, steps, at_once=at_once)

    asyncio.run(run())


# --- faults -----------------------------------------------------------------------------------------------------------


def a_service(index: int, *endpoints: int, **more: Any) -> NodeService:
    targets = tuple(Backend(f"10.0.1.{endpoint}", 8080) for endpoint in endpoints)
    ports = (one_port(*targets), one_port(*targets, protocol="udp", affinity_seconds=60))
    return node_service(*ports, name=f"s{index}", cluster_ip=f"10.96.0.{index}", **more)


class Table(Reporter):
    """A syncer of a table in a namespace, with everything that it reported."""

    def __init__(self, kernel: NftClient) -> None:
        self.kernel = kernel
        self.reports: list[tuple[str, Any]] = []
        self.programmed: list[ProgrammedTransaction] = []
        self.cpu_seconds: list[float] = []
        """The CPU time that the kernel's client had used up after each of these."""
        self.trouble: list[str] = []
        self.syncer = TableSyncer(
            kernel,
            "ip",
            options=OPTIONS,
            listener=self,
            reporter=self,
        )
        self.served: dict[ServiceKey, NodeService] = {}

    def transaction_done(self, _family: Family, done: ProgrammedTransaction) -> None:
        self.programmed.append(done)
        self.cpu_seconds.append(cpu_seconds(self.kernel.pid))

    def service_refused(self, _family: Family, service: ServiceKey, why: str) -> None:
        self.reports.append((why, service))

    def rules_repaired(self, _family: Family, what: str, count: int) -> None:
        self.reports.append((what, count))

    def kernel_failed(self, why: str) -> None:
        self.trouble.append(why)

    def put(self, *services: NodeService) -> None:
        for service in services:
            key = service.namespace, service.name
            self.served[key] = service
            self.syncer.set_service(key, service)

    async def wait_until_right(self) -> None:
        """Wait until the kernel has exactly the rules of the Services."""
        await self.syncer.wait_until_synced()
        while True:
            with suppress(KernelOutcomeUnknown):
                if not await plan_changes(self.kernel, "ip", self.served, options=OPTIONS):
                    return
            await asyncio.sleep(0.1)

    async def audit(self) -> list[tuple[str, Any]]:
        """Audit the rules; everything that was reported so far."""
        self.syncer.request_audit()
        await self.syncer.wait_until_synced()
        return self.reports


@asynccontextmanager
async def syncing(
    namespace: Namespace, *services: NodeService, is_last: bool = True, limit: float = REQUEST_LIMIT
) -> AsyncIterator[Table]:
    """A table that is synced; it is deleted afterwards if ``is_last``. ``limit``: as `NftClient` has it."""
    async with kernel_of(namespace, limit=limit) as kernel:
        table = Table(kernel)
        table.put(*services)
        running = asyncio.create_task(table.syncer.run())
        try:
            await table.syncer.wait_until_synced()
            yield table
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


async def test_audit_of_unchanged_rules_finds_nothing_and_a_restart_writes_nothing(
    namespace: Namespace,
) -> None:
    for is_last in (False, True):
        async with syncing(namespace, *SERVICES, is_last=is_last) as table:
            await table.wait_until_right()
            assert await table.audit() == []
            assert sum(done.elements for done in table.programmed) == 0 or not is_last


@pytest.mark.parametrize(
    ("command", "reported"),
    [
        pytest.param(f"delete table ip {ZONEWARD}", ("table", 1), id="table deleted"),
        pytest.param(f"flush chain ip {ZONEWARD} nat-output", ("rules", 1), id="chain flushed"),
        pytest.param(f"flush map ip {ZONEWARD} services", ("elements", 8), id="map flushed"),
        pytest.param(f"add table ip {ZONEWARD} {{ flags dormant; }}", ("table", 1), id="table dormant"),
    ],
)
async def test_deleted_rules_are_restored(namespace: Namespace, command: str, reported: tuple[str, int]) -> None:
    async with syncing(namespace, *SERVICES) as table:
        namespace.run("nft", command)
        while not table.reports:
            await asyncio.sleep(0.05)
        await table.wait_until_right()
        assert await table.audit() == [reported]


@pytest.mark.parametrize("command", ["flush chain ip {table} c-2", "add rule ip {table} {own} drop"])
async def test_audit_repairs_rules_that_another_program_changed(namespace: Namespace, command: str) -> None:
    async with syncing(namespace, *SERVICES) as table:
        chains = namespace.run("nft", "list", "table", "ip", ZONEWARD).split()
        own = next(chain.strip(",") for chain in chains if chain.startswith("guard-"))
        namespace.run("nft", command.format(table=ZONEWARD, own=own))
        assert await table.audit() == [("rules", 1)]
        assert await table.audit() == [("rules", 1)]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_killed_or_hanging_process_is_replaced_and_the_rules_converge(
    namespace: Namespace, how: signal.Signals
) -> None:
    async with syncing(namespace, *SERVICES) as table:
        for index in range(20):
            table.put(a_service(4 + index, 1, 2, index + 3))
            if index == 10:
                assert table.kernel.pid is not None
                os.kill(table.kernel.pid, how)
            await asyncio.sleep(0.001)
        await table.wait_until_right()
        assert table.trouble
        assert not table.reports


async def test_refused_element_is_reported(namespace: Namespace) -> None:
    async with syncing(namespace, *SERVICES) as table:
        bad = a_service(9, 99)
        table.syncer.set_service(("shop", "s9"), replace(bad, ports=(replace(bad.ports[0], port=99_999),)))
        table.put(a_service(8, 1, 2))
        await table.syncer.wait_until_synced()
        assert list(table.syncer.refused_services) == [("shop", "s9")]
        assert "99999" in table.syncer.refused_services["shop", "s9"]
        await table.wait_until_right()


def large(*, ports: int, endpoints: int, **more: Any) -> NodeService:
    """A Service with this number of ports, and of endpoints for each port."""
    ips = [f"10.2.{index >> 8}.{index & 255}" for index in range(endpoints)]
    affinity, addresses = more.pop("affinity", None), more.pop("addresses", 0)
    service_ports = (
        one_port(*(Backend(ip, port) for ip in ips), name=f"p{port}", port=port, affinity_seconds=affinity)
        for port in range(1, ports + 1)
    )
    external = tuple(f"198.51.{index >> 8}.{index & 255}" for index in range(addresses))
    return node_service(*service_ports, name="large", cluster_ip="10.96.1.1", external_ips=external)


LARGE: Final = {
    "clients that keep their endpoint": large(ports=100, endpoints=100, affinity=10_800),
    "many addresses": large(ports=200, endpoints=100, addresses=200),
}


@pytest.mark.parametrize("what", LARGE)
async def test_other_services_are_programmed_while_a_large_service_is_loaded(namespace: Namespace, what: str) -> None:
    """No transaction takes so long that the process counts as hanging, unless other programs take the CPU."""
    async with syncing(namespace, *SERVICES, limit=MAX_REQUEST_LIMIT) as table:
        table.put(LARGE[what])
        count = len(table.programmed)
        while len(table.programmed) == count:
            await asyncio.sleep(0.001)
        table.put(a_service(4, 1, 2))
        await table.syncer.wait_until_synced()
        order = [list(done.services) for done in table.programmed[count:]]
        assert order.index([("shop", "s4")]) < order.index([("shop", "large")])
        assert max(after - before for before, after in pairwise(table.cpu_seconds)) < REQUEST_LIMIT
        assert not table.trouble
        assert not table.syncer.refused_services
        assert await table.audit() == []
        table.served.pop(("shop", "large"))
        table.syncer.set_service(("shop", "large"), None)
        await table.wait_until_right()


async def test_errors_of_a_large_transaction_are_not_taken_for_the_answer_to_the_next(
    namespace: Namespace,
) -> None:
    declared = base_sets("ip")

    def written(**changes: Any) -> bytes:
        batch = encode_transaction(RulesetChanges(family="ip", table="a-table", **changes), declared)
        assert batch is not None
        return batch

    async with kernel_of(namespace) as kernel:
        # The table does not exist. The kernel returns what it refused, which does not fit into the buffer.
        endpoints = {f"10.96.{index >> 8}.{index & 255} . tcp . 80 . 0": "10.0.0.1 . 80" for index in range(20_000)}
        with pytest.raises(KernelRefused):
            await kernel.send_batch(written(removed_elements={"endpoints": endpoints}))
        await kernel.run_commands("add table ip a-table\nadd set ip a-table cluster-ips { type ipv4_addr; }\n")
        await kernel.send_batch(written(added_elements={"cluster-ips": {"10.96.0.1": ""}}))
        await kernel.run_commands("delete table ip a-table\n")
