"""A cheap check whether somebody else changed a table.

The kernel counts its transactions. Their number alone tells whether there were any but ours, and only then is the table
checked: its chains, the rules that the kernel enters first, and how many elements there are.
"""

import errno
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import (
    DumpInterrupted,
    FoundRule,
    chains_request,
    generation_request,
    parse_chains,
    parse_generation,
    parse_rules,
    parse_sets,
    parse_table,
    rules_request,
    sets_request,
    table_request,
)
from zoneward.proxy.kernel.nft_client import KernelClient, KernelRefused
from zoneward.proxy.ruleset.ruleset import Chain

_NUMBERS: Final = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTable:
    """``base_chains``: the chains that are there with or without Services, and ``rules`` of theirs as they were read;
    ``element_counts`` by set, of those that only we fill."""

    chains: Collection[str]
    base_chains: Mapping[str, Chain]
    rules: Mapping[str, tuple[FoundRule, ...]]
    element_counts: Mapping[str, int]


class TamperDetector:
    """Checks one table."""

    def __init__(self, kernel: KernelClient, family: Family, table: str) -> None:
        self._kernel, self._family, self._table = kernel, family, table
        self._foreign: int | None = None
        self._use: int | None = None

    async def count_foreign_transactions(self) -> int:
        """How many transactions were not ours, from some beginning. Raises KernelOutcomeUnknown."""
        generation = parse_generation(await self._kernel.query(generation_request()))
        return (generation - self._kernel.transactions_done) % _NUMBERS

    def mark_checked(self, foreign: int) -> None:
        """The table is as it should be, as of that number of foreign transactions."""
        self._foreign, self._use = foreign, None

    async def is_untouched(self, expected: ExpectedTable) -> bool:
        """Whether the table seems to be as it should be. Raises KernelOutcomeUnknown."""
        foreign = await self.count_foreign_transactions()
        if foreign == self._foreign:
            return True
        try:
            if not await self._has_expected_content(expected):
                return False
        except (KernelRefused, DumpInterrupted):
            return False
        self._foreign = foreign
        return True

    async def _has_expected_content(self, expected: ExpectedTable) -> bool:
        ask, family, table = self._kernel.query, self._family, self._table
        try:
            table_found = parse_table(await ask(table_request(family, table)))
        except KernelRefused as error:
            if error.number == errno.ENOENT:
                return False
            raise
        if table_found.has_flags:
            return False
        if table_found.use != self._use:
            # The kernel lists the chains of all tables or of none: others may have a hundred thousand.
            there = parse_chains(await ask(chains_request(family)), table)
            if there.keys() != set(expected.chains):
                return False
            if any(there[name] != chain.hook for name, chain in expected.base_chains.items()):
                return False
        for name in expected.base_chains:
            rules = parse_rules(await ask(rules_request(family, table, name)), table).get(name, ())
            if rules != expected.rules.get(name, ()):
                return False
        counts = {
            name: found_set.element_count
            for name, found_set in parse_sets(await ask(sets_request(family, table)), table).items()
        }
        # Older kernels do not report how many elements there are.
        if any(
            name not in counts or counts[name] not in (None, count) for name, count in expected.element_counts.items()
        ):
            return False
        self._use = table_found.use
        return True
