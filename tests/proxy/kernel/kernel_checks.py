"""Whether a kernel does what `tests/proxy/kernel_cases.py` says; run on the real one and on the one in memory."""

import errno
from collections.abc import Iterable

import pytest
from tests.proxy.kernel.kernel_cases import BEGIN, IN, SETS, TABLE, Batch, Case

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import Hook, elements_request, sets_request, table_request
from zoneward.proxy.kernel.nft_client import KernelClient, KernelRefused
from zoneward.proxy.kernel.table_reader import find_wrong_chains, read_rules, read_table
from zoneward.proxy.kernel.table_writer import encode_transaction
from zoneward.proxy.model.node_service import NodeService
from zoneward.proxy.ruleset.base_rules import RulesetOptions, base_sets
from zoneward.proxy.ruleset.difference import diff_rulesets, merge_changes
from zoneward.proxy.ruleset.nft_commands import render_commands
from zoneward.proxy.ruleset.ruleset import NO_RULES, Ruleset, RulesetChanges
from zoneward.proxy.ruleset.ruleset_state import RulesetState
from zoneward.proxy.ruleset.service_rules import EndpointSlots, assign_slots, service_rules

OPTIONS = RulesetOptions(pod_cidrs={"ip": "10.0.0.0/24", "ip6": "fd00::/64"})


async def check_batch(kernel: KernelClient, case: Batch) -> None:
    """A kernel does with elements what a case says. The table is gone afterwards."""
    await kernel.run_commands(BEGIN)
    before = kernel.transactions_done
    found = encode_transaction(
        RulesetChanges(family="ip", table=TABLE, removed_elements=case.removed, added_elements=case.added),
        SETS | {"nobody": SETS["services"]},
    )
    assert found is not None
    try:
        if case.refused is None:
            await kernel.send_batch(found)
        else:
            with pytest.raises(KernelRefused) as refused:
                await kernel.send_batch(found)
            assert refused.value.number == case.refused
        assert kernel.transactions_done == before + (case.refused is None)
        table = await read_table(kernel, "ip", TABLE, SETS)
        assert table is not None
        assert table.elements["services"] == case.services
        assert table.elements["endpoints"] == case.endpoints
    finally:
        await kernel.run_commands(f"delete table {IN}\n")


async def check(kernel: KernelClient, case: Case) -> None:
    """A kernel does with a transaction what a case says. The table is gone afterwards."""
    await kernel.run_commands(BEGIN)
    before = kernel.transactions_done
    try:
        if case.refused is None:
            await kernel.run_commands("\n".join((*case.lines, "")))
        else:
            with pytest.raises(KernelRefused, match=case.refused):
                await kernel.run_commands("\n".join((*case.lines, "")))
        assert kernel.transactions_done == before + (case.refused is None)
        found = await read_table(kernel, "ip", TABLE, SETS)
        if case.is_gone:
            assert found is None
            return
        assert found is not None
        assert found.elements.get("services", {}) == case.services
        assert found.elements.get("endpoints", {}) == case.endpoints
        assert found.elements.get("cluster-ips", {}).keys() == case.cluster_ips
        assert found.sets.keys() == case.sets
        hook = Hook("filter", "forward", -5)
        hooks = {name: hook if name == "enters" else None for name in case.chains}
        assert {name: chain.hook for name, chain in found.chains.items()} == hooks
        rules = await read_rules(kernel, "ip", TABLE)
        assert {name: len(rules.get(name, ())) for name in case.chains} == case.chains
    finally:
        if not case.is_gone:
            await kernel.run_commands(f"delete table {IN}\n")


async def check_what_is_not_there(kernel: KernelClient) -> None:
    """Asking for what is not there is refused with the number that says so, or answered with nothing."""
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
    """Changes, some of them in each transaction, come to what a fresh load comes to. The table is gone afterwards."""
    kept = RulesetState(family, TABLE, OPTIONS)
    there: dict[str, EndpointSlots] = {}
    every = list(steps)
    try:
        await kernel.run_commands(render_commands(kept.start()))
        for start in range(0, len(every), at_once):
            changes = merge_changes([_put(kept, there, *each) for each in every[start : start + at_once]])
            found = encode_transaction(changes, base_sets(family, OPTIONS))
            if found is not None:
                await kernel.send_batch(found)
            elif changes:
                await kernel.run_commands(render_commands(changes))
            await _has(kernel, kept.full_ruleset(), with_rules=False)
        whole = kept.full_ruleset()
        await _has(kernel, whole)
        await kernel.run_commands(
            render_commands(RulesetChanges(family=family, table=TABLE, creates_table=True, replaces_table=True))
        )
        await kernel.run_commands(render_commands(diff_rulesets(None, whole)))
        await _has(kernel, whole)
    finally:
        await kernel.run_commands(f"add table {family} {TABLE}\ndelete table {family} {TABLE}\n")


def _put(kept: RulesetState, there: dict[str, EndpointSlots], name: str, service: NodeService | None) -> RulesetChanges:
    if service is None:
        there.pop(name, None)
        return kept.set_service(("shop", name), NO_RULES)
    there[name] = assign_slots((service,), there.get(name, {}))
    return kept.set_service(("shop", name), service_rules((service,), there[name], OPTIONS))


async def _has(kernel: KernelClient, whole: Ruleset, *, with_rules: bool = True) -> None:
    """A kernel has what a ruleset says, and nothing else, and no rule that is written in other words."""
    found = await read_table(kernel, whole.family, whole.table, base_sets(whole.family, OPTIONS))
    assert found is not None
    assert {name: some for name, some in found.elements.items() if some} == {
        name: some for name, some in whole.elements.items() if some
    }
    assert found.sets.keys() == whole.sets.keys()
    assert {name: chain.hook for name, chain in found.chains.items()} == {
        name: chain.hook for name, chain in whole.chains.items()
    }
    if not with_rules:
        return
    live = await read_rules(kernel, whole.family, whole.table)
    wrong = await find_wrong_chains(kernel, whole.family, whole.table, live=live, chains=whole.chains, sets=whole.sets)
    assert not wrong
