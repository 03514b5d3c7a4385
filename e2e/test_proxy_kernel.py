"""The real kernel does what the one in memory does, and keeps what is served, whatever happens to it.

`tests/proxy/kernel_cases.py` is run on both.
Needs root and libnftables. Everything is in a network namespace of its own.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from e2e.nodes import Namespace, kernel_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.proxy.drawn_services import changes, node_service, one_port
from tests.proxy.kernel.kernel_cases import BATCHES, CASES, Batch, Case
from tests.proxy.kernel.kernel_checks import OPTIONS, check, check_batch, check_changes, check_what_is_not_there

from zoneward.netlink.messages import Family
from zoneward.proxy.kernel.nft_client import KernelClient, KernelOutcomeUnknown, KernelRefused, NftClient
from zoneward.proxy.kernel.table_syncer import (
    ProgrammedTransaction,
    SyncHandlers,
    TableSyncer,
    delete_tables,
    plan_changes,
)
from zoneward.proxy.kernel.table_writer import encode_transaction
from zoneward.proxy.model.node_service import Backend, NodeService, ServiceKey
from zoneward.proxy.ruleset.base_rules import TABLE as ZONEWARD
from zoneward.proxy.ruleset.base_rules import base_sets
from zoneward.proxy.ruleset.ruleset import RulesetChanges


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    found = Namespace()
    yield found
    found.close()


def within(namespace: Namespace, what: Callable[[KernelClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with kernel_of(namespace) as kernel:
            await what(kernel)

    asyncio.run(run())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_transaction_does_what_it_says_or_nothing(namespace: Namespace, case: Case) -> None:
    within(namespace, lambda kernel: check(kernel, case))


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: case.name)
def test_elements_in_the_kernels_own_words_come_and_go_or_none_of_them(namespace: Namespace, case: Batch) -> None:
    within(namespace, lambda kernel: check_batch(kernel, case))


def test_what_is_not_there_is_told_by_its_number(namespace: Namespace) -> None:
    within(namespace, check_what_is_not_there)


@pytest.mark.parametrize("family", ["ip", "ip6"])
@settings(max_examples=15, derandomize=True, deadline=None)
@given(data=st.data())
def test_changes_in_transactions_of_some_come_to_a_fresh_load(
    namespace: Namespace, family: Family, data: st.DataObject
) -> None:
    steps, at_once = data.draw(changes(family)), data.draw(st.integers(1, 4))
    within(namespace, lambda kernel: check_changes(kernel, family, steps, at_once=at_once))


# --- whatever happens -------------------------------------------------------------------------------------------------


def a_service(number: int, *endpoints: int, **more: Any) -> NodeService:
    targets = tuple(Backend(f"10.0.1.{each}", 8080) for each in endpoints)
    ports = (one_port(*targets), one_port(*targets, protocol="udp", affinity_seconds=60))
    return node_service(*ports, name=f"s{number}", cluster_ip=f"10.96.0.{number}", **more)


class Kept:
    """A table that runs in a namespace, and all that was told of it."""

    def __init__(self, kernel: NftClient) -> None:
        self.kernel = kernel
        self.told: list[tuple[str, Any]] = []
        self.programmed: list[ProgrammedTransaction] = []
        self.trouble: list[str] = []
        self.table = TableSyncer(
            kernel,
            "ip",
            options=OPTIONS,
            handlers=SyncHandlers(
                on_programmed=self.programmed.append,
                on_repaired=lambda what, number: self.told.append((what, number)),
                on_refused=lambda service, why: self.told.append((why, service)),
                on_trouble=self.trouble.append,
            ),
        )
        self.served: dict[ServiceKey, NodeService] = {}

    def put(self, *every: NodeService) -> None:
        for each in every:
            key = each.namespace, each.name
            self.served[key] = each
            self.table.set_service(key, each)

    async def is_right(self) -> bool:
        """Whether the kernel has what is served, and nothing else."""
        changes = await plan_changes(self.kernel, "ip", self.served, options=OPTIONS)
        return not changes

    async def right_within(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while True:
                with suppress(KernelOutcomeUnknown):
                    if await self.is_right():
                        return
                await asyncio.sleep(0.1)


def kept(
    namespace: Namespace, what: Callable[[Kept], Awaitable[None]], *every: NodeService, is_last: bool = True
) -> list[ProgrammedTransaction]:
    """With a table that serves; it is gone afterwards where it is the last."""

    async def run() -> list[ProgrammedTransaction]:
        async with kernel_of(namespace) as kernel:
            found = Kept(kernel)
            found.put(*every)
            running = asyncio.create_task(found.table.run())
            try:
                async with asyncio.timeout(10):
                    await found.table.wait_until_synced()
                await what(found)
            finally:
                running.cancel()
                await asyncio.wait([running])
                if is_last:
                    await delete_tables(kernel)
        return found.programmed

    return asyncio.run(run())


SERVICES: Final = (
    a_service(1, 1, 2),
    a_service(2, 3, 4, 5),
    a_service(3, 6, load_balancer_ips=("192.0.2.9",), source_ranges=("10.9.0.0/16", "10.11.0.7/32")),
)


def test_an_audit_finds_nothing_where_nothing_was_changed_and_a_restart_writes_nothing(namespace: Namespace) -> None:
    async def audited(found: Kept) -> None:
        assert await found.is_right()
        found.table.request_audit()
        await found.table.wait_until_synced()
        assert not found.told

    kept(namespace, audited, *SERVICES, is_last=False)
    assert sum(each.elements for each in kept(namespace, audited, *SERVICES)) == 0


@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param(f"delete table ip {ZONEWARD}", ("table", 1), id="the table"),
        pytest.param(f"flush chain ip {ZONEWARD} nat-output", ("rules", 1), id="rules of a chain that is entered"),
        pytest.param(f"flush map ip {ZONEWARD} services", ("elements", 8), id="elements"),
        pytest.param(f"add table ip {ZONEWARD} {{ flags dormant; }}", ("table", 1), id="a table made asleep"),
    ],
)
def test_what_others_take_away_is_back_within_three_seconds(
    namespace: Namespace, command: str, told: tuple[str, int]
) -> None:
    async def run(found: Kept) -> None:
        namespace.run("nft", command)
        async with asyncio.timeout(5):
            while not found.told:
                await asyncio.sleep(0.05)
            await found.table.wait_until_synced()
        await found.right_within(1)
        assert found.told == [told]
        found.table.request_audit()
        await found.table.wait_until_synced()
        assert found.told == [told]

    kept(namespace, run, *SERVICES)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("flush chain ip {table} {shared}", id="a chain of all"),
        pytest.param("add rule ip {table} {own} drop", id="a chain of its own"),
    ],
)
def test_rules_that_others_changed_are_found_by_an_audit(namespace: Namespace, command: str) -> None:
    async def run(found: Kept) -> None:
        chains = namespace.run("nft", "list", "table", "ip", ZONEWARD).split()
        own = next(each.strip(",") for each in chains if each.startswith("guard-"))
        namespace.run("nft", command.format(table=ZONEWARD, shared="c-2", own=own))
        found.table.request_audit()
        await found.table.wait_until_synced()
        assert found.told == [("rules", 1)]
        found.table.request_audit()
        await found.table.wait_until_synced()
        assert found.told == [("rules", 1)]

    kept(namespace, run, *SERVICES)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_killed_or_hangs_is_replaced_and_all_is_right_within_ten_seconds(
    namespace: Namespace, how: signal.Signals
) -> None:
    async def run(found: Kept) -> None:
        for number in range(20):
            found.put(a_service(4 + number, 1, 2, number + 3))
            if number == 10:
                assert found.kernel.pid is not None
                os.kill(found.kernel.pid, how)
            await asyncio.sleep(0.001)
        async with asyncio.timeout(10):
            await found.table.wait_until_synced()
        await found.right_within(1)
        assert found.trouble
        assert not found.told

    kept(namespace, run, *SERVICES)


def test_an_element_that_the_kernel_refuses_is_named(namespace: Namespace) -> None:
    async def run(found: Kept) -> None:
        bad = a_service(9, 99)
        bad = replace(bad, ports=(replace(bad.ports[0], port=99_999),))
        found.table.set_service(("shop", "s9"), bad)
        found.put(a_service(8, 1, 2))
        await found.table.wait_until_synced()
        assert list(found.table.refused_services) == [("shop", "s9")]
        assert "99999" in found.table.refused_services["shop", "s9"]
        await found.right_within(1)

    kept(namespace, run, *SERVICES)


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
def test_others_change_while_a_large_service_is_loaded(namespace: Namespace, what: str) -> None:
    """And no transaction takes so long that the process is taken for one that hangs."""

    async def run(found: Kept) -> None:
        found.put(LARGE[what])
        begun = len(found.programmed)
        while len(found.programmed) == begun:
            await asyncio.sleep(0.001)
        found.put(a_service(4, 1, 2))
        async with asyncio.timeout(60):
            await found.table.wait_until_synced()
        told = [list(each.services) for each in found.programmed[begun:]]
        assert told.index([("shop", "s4")]) < told.index([("shop", "large")])
        assert not found.trouble
        assert not found.table.refused_services
        found.table.request_audit()
        await found.table.wait_until_synced()
        assert not found.told
        found.served.pop(("shop", "large"))
        found.table.set_service(("shop", "large"), None)
        async with asyncio.timeout(60):
            await found.table.wait_until_synced()
        await found.right_within(1)

    kept(namespace, run, *SERVICES)


def test_what_the_kernel_says_of_a_large_transaction_is_not_taken_for_its_answer_to_the_next(
    namespace: Namespace,
) -> None:
    declared = base_sets("ip", OPTIONS)

    def written(changes: RulesetChanges) -> bytes:
        found = encode_transaction(changes, declared)
        assert found is not None
        return found

    async def run(kernel: KernelClient) -> None:
        # There is no such table. What is refused is sent back, and there is no room for all of it.
        endpoints = {f"10.96.{number >> 8}.{number & 255} . tcp . 80 . 0": "10.0.0.1 . 80" for number in range(20_000)}
        with pytest.raises(KernelRefused):
            await kernel.send_batch(
                written(RulesetChanges(family="ip", table="a-table", removed_elements={"endpoints": endpoints}))
            )
        await kernel.run_commands("add table ip a-table\nadd set ip a-table cluster-ips { type ipv4_addr; }\n")
        await kernel.send_batch(
            written(RulesetChanges(family="ip", table="a-table", added_elements={"cluster-ips": {"10.96.0.1": ""}}))
        )
        await kernel.run_commands("delete table ip a-table\n")

    within(namespace, run)


def test_the_process_that_programs_the_kernel_has_no_other_right(namespace: Namespace) -> None:
    async def run(kernel: KernelClient) -> None:
        assert isinstance(kernel, NftClient)
        told = Path(f"/proc/{kernel.pid}/status").read_text().splitlines()
        rights = dict(line.split(":\t") for line in told if line.startswith(("Cap", "NoNewPrivs")))
        assert {int(rights[each], 16) for each in ("CapEff", "CapPrm")} == {1 << 12}
        assert rights["NoNewPrivs"] == "1"

    within(namespace, run)
