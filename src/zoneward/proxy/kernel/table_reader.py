"""Reads a table from the kernel into values, compares it with the expected one, and detects changes of other programs.

The kernel reports rules in another form than nft accepts. So the reader writes the expected rules to a scratch table
without hooks, reads both tables, and deletes the scratch table.

`TamperDetector` is a cheap check. The kernel counts its transactions. If there were more than the proxy's own, the
detector checks the table: its chains, the rules of its base chains, and the number of elements.
"""

import asyncio
import errno
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import (
    DumpInterrupted,
    ElementReader,
    FieldTypes,
    FoundRule,
    FoundTable,
    chains_request,
    elements_request,
    generation_request,
    parse_chains,
    parse_field_types,
    parse_generation,
    parse_rules,
    parse_sets,
    parse_table,
    rules_request,
    sets_request,
    split_elements,
    table_request,
)
from zoneward.proxy.kernel.nft_client import KernelClient, KernelRefused
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.proxy.ruleset.base_rules import TABLE
from zoneward.proxy.ruleset.ruleset import Chain, Ruleset, RulesetChanges, SetDeclaration, render_commands
from zoneward.proxy.ruleset.service_rules import EndpointSlots

_ATTEMPTS: Final = 5
_AT_ONCE: Final = 500
"""The number of elements to decode before other tasks run: a millisecond."""
DORMANT: Final = "asleep"
"""The name of a chain that Zoneward never writes. `read_table` reports a dormant table as this chain, so it is
replaced."""


async def find_table(kernel: KernelClient, family: Family, table: str) -> FoundTable | None:
    """The table; None: it does not exist. Raises KernelOutcomeUnknown."""
    try:
        return parse_table(await kernel.query(table_request(family, table)))
    except KernelRefused as error:
        if error.number == errno.ENOENT:
            return None
        raise


async def read_table(
    kernel: KernelClient, family: Family, table: str, declared: Mapping[str, SetDeclaration]
) -> Ruleset | None:
    """Read a table; None: it does not exist. ``declared`` has the types of elements; those of other sets are not read.

    The chains have hooks, but no rules: `find_wrong_chains` compares those. Raises KernelOutcomeUnknown, KernelRefused,
    or DumpInterrupted if another program keeps changing the table meanwhile.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(DumpInterrupted):
            return await _read(kernel, family, table, declared)
    return await _read(kernel, family, table, declared)


async def _read(
    kernel: KernelClient, family: Family, table: str, declared: Mapping[str, SetDeclaration]
) -> Ruleset | None:
    found_table = await find_table(kernel, family, table)
    if found_table is None:
        return None
    found_chains = {
        name: Chain(hook=hook) for name, hook in parse_chains(await kernel.query(chains_request(family)), table).items()
    }
    if found_table.has_flags:
        found_chains = {DORMANT: Chain()}
    found_sets = parse_sets(await kernel.query(sets_request(family, table)), table)
    elements = {}
    for name in found_sets:
        parts = parse_field_types(declared[name].spec) if name in declared else None
        if parts is not None:
            elements[name] = await _elements(kernel, family, table, name, parts)
    return Ruleset(
        family=family,
        table=table,
        sets={name: declared.get(name, SetDeclaration(found_set.kind, "")) for name, found_set in found_sets.items()},
        chains=found_chains,
        elements=elements,
    )


async def _elements(
    kernel: KernelClient, family: Family, table: str, name: str, parts: tuple[FieldTypes, FieldTypes]
) -> dict[str, str]:
    elements: dict[str, str] = {}
    reader = ElementReader(family, parts)
    raw = split_elements(await kernel.query(elements_request(family, table, name)))
    for start in range(0, len(raw), _AT_ONCE):
        elements |= reader.read(raw[start : start + _AT_ONCE])
        await asyncio.sleep(0)
    return elements


def read_slots(present: Ruleset, served: NodeService) -> EndpointSlots:
    """The endpoint in each slot of a Service's ports in the kernel."""
    slots: dict[tuple[str, str, str], list[Backend]] = {}
    for port in served.ports:
        key = f"{served.cluster_ip} . {port.protocol} . {port.port}"
        wanted = {f"{endpoint.address} . {endpoint.port}": endpoint for endpoint in port.all_reachable_endpoints}
        for kind, name in (("cluster", "endpoints"), ("local", "local-endpoints")):
            elements = present.elements.get(name, {})
            backends: list[Backend] = []
            while (value := elements.get(f"{key} . {len(backends)}")) is not None:
                # An endpoint that is no longer wanted keeps its slot here, so that all others keep their slots.
                address, port_number = value.split(" . ")
                backends.append(wanted.get(value) or Backend(address, int(port_number)))
            if backends:
                slots[port.name, port.protocol, kind] = backends
    return slots


MAX_CHAINS: Final = 300
"""The maximum number of chains to compare in one transaction."""
LEADS: Final = re.compile(r"\b(?:goto|jump) ([^\s},]+)")
NAMES: Final = re.compile(r"@([^\s},]+)")
"""What a rule leads to, and the sets that it asks."""
ChainRules = Mapping[str, tuple[FoundRule, ...]]


def scratch_table(table: str) -> str:
    return f"{table}-expected"


async def read_rules(kernel: KernelClient, family: Family, table: str) -> ChainRules:
    """The rules of a table by their chains. Raises KernelOutcomeUnknown or DumpInterrupted."""
    return parse_rules(await kernel.query(rules_request(family, table)), table)


async def find_wrong_chains(
    kernel: KernelClient,
    family: Family,
    table: str,
    *,
    live: ChainRules,
    chains: Mapping[str, Chain],
    sets: Mapping[str, SetDeclaration],
) -> tuple[str, ...]:
    """The chains whose rules are wrong. ``live``: the rules in the kernel; ``chains`` and ``sets``: the expected ones.

    Raises KernelOutcomeUnknown, KernelRefused or DumpInterrupted.
    """
    wrong: list[str] = []
    names, other = list(chains), scratch_table(table)
    for start in range(0, len(names), MAX_CHAINS):
        batch = {name: chains[name] for name in names[start : start + MAX_CHAINS]}
        rules = [rule for chain in batch.values() for rule in chain.rules]
        declared = {name for rule in rules for name in NAMES.findall(rule)}
        led = {name for rule in rules for name in LEADS.findall(rule)}
        await kernel.run_commands(
            render_commands(
                RulesetChanges(
                    family=family,
                    table=other,
                    creates_table=True,
                    replaces_table=True,
                    sets={name: sets[name] for name in sorted(declared)},
                    chains=dict.fromkeys(sorted(led - batch.keys()), Chain())
                    | {name: Chain(chain.rules) for name, chain in batch.items()},
                )
            )
        )
        try:
            expected = await read_rules(kernel, family, other)
            for name in batch:
                here = await _with_anonymous_sets(kernel, family, table, live.get(name, ()))
                if here != await _with_anonymous_sets(kernel, family, other, expected.get(name, ())):
                    wrong.append(name)
        finally:
            await kernel.run_commands(f"delete table {family} {other}\n")
    return tuple(wrong)


async def _with_anonymous_sets(
    kernel: KernelClient, family: Family, table: str, rules: Iterable[FoundRule]
) -> list[tuple[bytes, list[list[bytes]]]]:
    """The expressions of each rule, and the elements of the anonymous sets that it has."""
    with_sets: list[tuple[bytes, list[list[bytes]]]] = []
    for rule in rules:
        answers = [await kernel.query(elements_request(family, table, name)) for name in rule.unnamed]
        with_sets.append((rule.expressions, [sorted(split_elements(answer)) for answer in answers]))
    return with_sets


_NUMBERS: Final = 1 << 32


class TamperDetector:
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
        ask, family, table = self._kernel.query, self._family, TABLE
        try:
            table_found = await find_table(self._kernel, family, table)
            if table_found is None or table_found.has_flags:
                return False
            if table_found.use != self._use:
                # The kernel lists only the chains of all tables together; other tables may have a hundred thousand.
                existing = parse_chains(await ask(chains_request(family)), table)
                if existing.keys() != set(chains):
                    return False
                if any(existing[name] != chain.hook for name, chain in base_chains.items()):
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
        except (KernelRefused, DumpInterrupted):
            return False
        self._foreign, self._use = foreign, table_found.use
        return True
