"""A cheap check whether another program changed a table.

The kernel counts its transactions. If there were more than the proxy's own, the detector checks the table: its chains,
the rules of its base chains, and the number of elements.
"""

from collections.abc import Collection, Mapping
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import (
    DumpInterrupted,
    chains_request,
    generation_request,
    parse_chains,
    parse_generation,
    parse_rules,
    parse_sets,
    rules_request,
    sets_request,
)
from zoneward.proxy.kernel.nft_client import KernelClient, KernelRefused
from zoneward.proxy.kernel.table_reader import ChainRules, find_table
from zoneward.proxy.ruleset.base_rules import TABLE
from zoneward.proxy.ruleset.ruleset import Chain

_NUMBERS: Final = 1 << 32


class TamperDetector:
    """Checks the table of one family."""

    def __init__(self, kernel: KernelClient, family: Family) -> None:
        self._kernel, self._family = kernel, family
        self._foreign: int | None = None
        self._use: int | None = None

    async def count_foreign_transactions(self) -> int:
        """The number of transactions of other programs, plus a constant. Raises KernelOutcomeUnknown."""
        generation = parse_generation(await self._kernel.query(generation_request()))
        return (generation - self._kernel.transactions_done) % _NUMBERS

    def mark_checked(self, foreign: int) -> None:
        """Record that the table was correct at this number of foreign transactions."""
        self._foreign, self._use = foreign, None

    async def is_untouched(
        self,
        *,
        chains: Collection[str],
        base_chains: Mapping[str, Chain],
        rules: ChainRules,
        element_counts: Mapping[str, int],
    ) -> bool:
        """Whether the table passes the cheap check. Raises KernelOutcomeUnknown.

        ``base_chains``: the chains that do not depend on Services; ``rules``: their rules as read from the kernel;
        ``element_counts``: by set, for sets that only the proxy fills.
        """
        foreign = await self.count_foreign_transactions()
        if foreign == self._foreign:
            return True
        try:
            if not await self._has_expected_content(chains, base_chains, rules, element_counts):
                return False
        except (KernelRefused, DumpInterrupted):
            return False
        self._foreign = foreign
        return True

    async def _has_expected_content(
        self,
        chains: Collection[str],
        base_chains: Mapping[str, Chain],
        rules: ChainRules,
        element_counts: Mapping[str, int],
    ) -> bool:
        ask, family, table = self._kernel.query, self._family, TABLE
        table_found = await find_table(self._kernel, family, table)
        if table_found is None or table_found.has_flags:
            return False
        if table_found.use != self._use:
            # The kernel lists only the chains of all tables together; other tables may have a hundred thousand.
            there = parse_chains(await ask(chains_request(family)), table)
            if there.keys() != set(chains):
                return False
            if any(there[name] != chain.hook for name, chain in base_chains.items()):
                return False
        for name in base_chains:
            in_kernel = parse_rules(await ask(rules_request(family, table, name)), table)
            if in_kernel.get(name, ()) != rules.get(name, ()):
                return False
        counts = {
            name: found_set.element_count
            for name, found_set in parse_sets(await ask(sets_request(family, table)), table).items()
        }
        # Older kernels do not report the number of elements.
        if any(name not in counts or counts[name] not in (None, count) for name, count in element_counts.items()):
            return False
        self._use = table_found.use
        return True
