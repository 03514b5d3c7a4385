"""The proxy repairs what other programs change, and takes over an existing table."""

from dataclasses import replace

import pytest
from tests.proxy.drawn_services import key
from tests.proxy.kernel.fake_kernel import FakeKernel
from tests.proxy.table_harness import OPTIONS, SOON, a_proxy, a_service, restarted, settled

from zoneward.proxy.kernel.pending_services import MAX_SERVICES
from zoneward.proxy.kernel.table_reader import scratch_table
from zoneward.proxy.kernel.table_syncer import delete_tables
from zoneward.proxy.ruleset.base_rules import TABLE

IN = f"ip {TABLE}"


@pytest.mark.parametrize(
    ("command", "repaired"),
    [
        (f"delete table {IN}", ("table", 1)),
        (f"delete element {IN} cluster-ips {{ 10.96.0.1 }}", ("elements", 1)),
        (f"add element {IN} cluster-ips {{ 10.96.9.9, 10.96.9.8 }}", ("elements", 2)),
        (f"flush chain {IN} services-nat", ("rules", 1)),
        (f"add rule {IN} forward drop", ("rules", 1)),
        (f"add chain {IN} more", ("chains", 1)),
        (f"add chain {IN} more {{ type filter hook input priority 5; }}\nadd rule {IN} more drop", ("chains", 1)),
    ],
)
async def test_changes_of_others_are_found_and_repaired(command: str, repaired: tuple[str, int]) -> None:
    async with a_proxy() as proxy:
        every = a_service(1, 1, 2), a_service(2, 3)
        proxy.put(*every)
        await settled(proxy)
        proxy.kernel.load(command)
        await proxy.until(lambda: proxy.has(*every))
        await proxy.until(lambda: proxy.repairs == [repaired])
        assert not proxy.trouble


async def test_periodic_audits_repair_changed_elements_and_rules_of_shared_chains() -> None:
    async with a_proxy(audit_every=4 * SOON) as proxy:
        proxy.put(a_service(1, 1, 2))
        await settled(proxy)
        element = "10.96.0.1 . tcp . 80 . 0"
        value = proxy.kernel.elements("ip", TABLE)["endpoints"][element]
        proxy.kernel.load(
            f"delete element ip {TABLE} endpoints {{ {element} : {value} }}\n"
            f"add element ip {TABLE} endpoints {{ {element} : 10.6.6.6 . 66 }}\n"
            f"flush chain ip {TABLE} c-2\n"
        )
        await proxy.until(lambda: sorted(proxy.repairs) == [("elements", 1), ("rules", 1)])
        await proxy.until(lambda: proxy.has(a_service(1, 1, 2)))


async def test_only_what_differs_is_written() -> None:
    same = [a_service(index, 1, 2) for index in range(20)]
    proxy = await restarted(FakeKernel(), [*same, a_service(30, 1, 2)], [*same[1:], a_service(0, 2, 3)])
    assert proxy.has(*same[1:], a_service(0, 2, 3))
    words = " ".join(proxy.written())
    assert "10.96.0.0 . tcp . 80 . 0 : 10.0.1.3 . 8080" in words
    assert "10.96.0.30" in words
    assert "10.96.0.5" not in words
    assert not proxy.repairs


async def test_a_table_of_another_layout_is_replaced_with_all_services_in_the_same_moment() -> None:
    every = [a_service(index, 1, 2) for index in range(MAX_SERVICES + 10)]
    other = replace(OPTIONS, masquerade_all=True)
    proxy = await restarted(FakeKernel(), every, every, options=other)
    assert proxy.has(*every, options=other)
    assert len(proxy.written()) == 1


async def test_a_service_deleted_while_a_replacement_fails_is_reported() -> None:
    async with a_proxy() as proxy:
        remaining, deleted = a_service(1, 1, 2), a_service(2, 3)
        proxy.put(remaining, deleted)
        await settled(proxy)
        proxy.kernel.faults.deaths = 1
        proxy.table.set_service(key(deleted), None)
        proxy.table.options = other = replace(OPTIONS, masquerade_all=True)
        await settled(proxy)
        assert proxy.trouble
        assert proxy.has(remaining, options=other)
        assert (key(deleted), None) in [item for done in proxy.programmed for item in done.services.items()]


async def test_options_may_change_until_the_last_moment_of_a_start() -> None:
    async with a_proxy() as proxy:
        every = a_service(1, 1, 2), a_service(2, 3)
        other = replace(OPTIONS, masquerade_all=True)
        load = proxy.kernel.load

        def changing(commands: str) -> None:
            load(commands)
            if commands.startswith("delete table") and scratch_table(TABLE) in commands:
                proxy.table.options = other

        proxy.kernel.load = changing  # type: ignore[method-assign]
        proxy.put(*every)
        await proxy.until(lambda: proxy.has(*every, options=other))


async def test_cleanup_removes_and_reports_our_tables_only() -> None:
    kernel = FakeKernel()
    await restarted(kernel, [a_service(1, 1)], [a_service(1, 1)])
    kernel.load(f"add table ip other\nadd table ip6 {TABLE}\n")
    assert await delete_tables(kernel) == (("ip", TABLE), ("ip6", TABLE))
    assert list(kernel.tables) == [("ip", "other")]
    assert await delete_tables(kernel) == ()
