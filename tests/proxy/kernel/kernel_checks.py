"""Whether a kernel does what `kernel_cases` says; run on the real one and on the one in memory."""

import errno
from collections.abc import Awaitable, Callable, Iterable

import pytest
from tests.proxy.kernel.fake_kernel import FakeKernel
from tests.proxy.kernel.kernel_cases import BEGIN, IN, SETS, TABLE, Batch, Case

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import Hook, elements_request, sets_request, table_request
from zoneward.proxy.kernel.nft_client import KernelClient, KernelRefused
from zoneward.proxy.kernel.table_reader import find_wrong_chains, read_rules, read_table
from zoneward.proxy.kernel.table_writer import encode_transaction
from zoneward.proxy.model.node_service import NodeService
from zoneward.proxy.ruleset.base_rules import RulesetOptions, base_sets
from zoneward.proxy.ruleset.ruleset import (
    NO_RULES,
    Ruleset,
    RulesetChanges,
    diff_rulesets,
    merge_changes,
    render_commands,
)
from zoneward.proxy.ruleset.ruleset_state import RulesetState
from zoneward.proxy.ruleset.service_rules import EndpointSlots, assign_slots, service_rules

_HOOK = Hook("filter", "forward", -5)
OPTIONS = RulesetOptions(pod_cidrs={"ip": "10.0.0.0/24", "ip6": "fd00::/64"})


async def check_batch(kernel: KernelClient, case: Batch) -> None:
    """As `check`, for elements alone."""
    changes = RulesetChanges(family="ip", table=TABLE, removed_elements=case.removed, added_elements=case.added)
    batch = encode_transaction(changes, SETS | {"nobody": SETS["services"]})
    assert batch is not None
    await _check(kernel, lambda client: client.send_batch(batch), refused=case.refused)


async def check(kernel: KernelClient, case: Case) -> None:
    """A kernel does with a transaction what the one in memory does, or nothing. Deletes the table."""
    await _check(kernel, lambda client: client.run_commands(case.commands), refused=case.refused)


async def _check(
    kernel: KernelClient, transact: Callable[[KernelClient], Awaitable[None]], *, refused: str | int | None
) -> None:
    contents: list[object] = []
    for client in (FakeKernel(), kernel):
        await client.run_commands(BEGIN)
        before, content_before = client.transactions_done, await _content(client)
        try:
            if refused is None:
                await transact(client)
            else:
                with pytest.raises(KernelRefused) as error:
                    await transact(client)
                assert error.value.number == refused if isinstance(refused, int) else refused in str(error.value)
                assert await _content(client) == content_before
            assert client.transactions_done == before + (refused is None)
            contents.append(await _content(client))
        finally:
            await client.run_commands(f"add table {IN}\ndelete table {IN}\n")
    assert contents[0] == contents[1]


async def _content(kernel: KernelClient) -> object:
    """Elements, sets, hooks, and how many rules each chain has; None without the table."""
    table, rules = await read_table(kernel, "ip", TABLE, SETS), await read_rules(kernel, "ip", TABLE)
    if table is None:
        return None
    chains = {name: (chain.hook, len(rules.get(name, ()))) for name, chain in table.chains.items()}
    assert chains.get("enters", (_HOOK, 0))[0] == _HOOK
    return {name: elements for name, elements in table.elements.items() if elements}, set(table.sets), chains


async def check_what_is_not_there(kernel: KernelClient) -> None:
    """A query for a missing table or set fails with its error number, and reading a missing table returns nothing."""
    for request in (table_request("ip", TABLE), elements_request("ip", TABLE, "services")):
        with pytest.raises(KernelRefused) as refused:
            await kernel.query(request)
        assert refused.value.number == errno.ENOENT
    assert await read_table(kernel, "ip", TABLE, SETS) is None
    assert not await read_rules(kernel, "ip", TABLE)
    await kernel.run_commands(BEGIN)
    assert await kernel.query(sets_request("ip", TABLE))
    with pytest.raises(KernelRefused) as refused:
        await kernel.query(elements_request("ip", TABLE, "nobody"))
    assert refused.value.number == errno.ENOENT
    await kernel.run_commands(f"delete table {IN}\n")


async def check_changes(
    kernel: KernelClient, family: Family, steps: Iterable[tuple[str, NodeService | None]], *, at_once: int
) -> None:
    """Changes, ``at_once`` in each transaction, have the same result as a fresh load. Deletes the table."""
    state = RulesetState(family, TABLE, OPTIONS)
    slots: dict[str, EndpointSlots] = {}
    every = list(steps)
    try:
        await kernel.run_commands(render_commands(state.start()))
        for start in range(0, len(every), at_once):
            changes = merge_changes([_put(state, slots, *step) for step in every[start : start + at_once]])
            batch = encode_transaction(changes, base_sets(family))
            if batch is not None:
                await kernel.send_batch(batch)
            elif changes:
                await kernel.run_commands(render_commands(changes))
            await _has(kernel, state.full_ruleset(), with_rules=False)
        whole = state.full_ruleset()
        await _has(kernel, whole)
        await kernel.run_commands(
            render_commands(RulesetChanges(family=family, table=TABLE, creates_table=True, replaces_table=True))
        )
        await kernel.run_commands(render_commands(diff_rulesets(None, whole)))
        await _has(kernel, whole)
    finally:
        await kernel.run_commands(f"add table {family} {TABLE}\ndelete table {family} {TABLE}\n")


def _put(
    state: RulesetState, slots: dict[str, EndpointSlots], name: str, service: NodeService | None
) -> RulesetChanges:
    if service is None:
        slots.pop(name, None)
        return state.set_service(("shop", name), NO_RULES)
    slots[name] = assign_slots((service,), slots.get(name, {}))
    return state.set_service(("shop", name), service_rules((service,), slots[name], OPTIONS))


async def _has(kernel: KernelClient, whole: Ruleset, *, with_rules: bool = True) -> None:
    """A kernel has exactly what a ruleset says, with every rule in the same words."""
    table = await read_table(kernel, whole.family, whole.table, base_sets(whole.family))
    assert table is not None
    assert {name: elements for name, elements in table.elements.items() if elements} == {
        name: elements for name, elements in whole.elements.items() if elements
    }
    assert table.sets.keys() == whole.sets.keys()
    assert {name: chain.hook for name, chain in table.chains.items()} == {
        name: chain.hook for name, chain in whole.chains.items()
    }
    if not with_rules:
        return
    live = await read_rules(kernel, whole.family, whole.table)
    wrong = await find_wrong_chains(kernel, whole.family, whole.table, live=live, chains=whole.chains, sets=whole.sets)
    assert not wrong
