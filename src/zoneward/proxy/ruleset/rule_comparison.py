"""Whether the rules of chains are those that the chains' names say, in the kernel's own words.

nft lists rules in other words than it was given. So the rules as they should be are written to a table that no packet
ever enters, the kernel is asked for both, and the table goes again.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import FoundRule, rules, rules_request
from zoneward.netlink.nftables_elements import elements_request, raw_elements
from zoneward.proxy.kernel.nft_client import Kernel
from zoneward.proxy.ruleset.nft_commands import text
from zoneward.proxy.ruleset.ruleset import Chain, Changes, Declared

AT_ONCE: Final = 300
"""Chains that are compared in one transaction."""
_LEADS: Final = re.compile(r"\b(?:goto|jump) ([^\s},]+)")
_NAMES: Final = re.compile(r"@([^\s},]+)")
Rules = Mapping[str, tuple[FoundRule, ...]]


def scratch(table: str) -> str:
    """The name of the table that is made to compare with."""
    return f"{table}-expected"


async def read_rules(kernel: Kernel, family: Family, table: str) -> Rules:
    """The rules of a table by their chains. Raises Lost, or Incomplete."""
    return rules(await kernel.ask(rules_request(family, table)), table)


async def differing(
    kernel: Kernel,
    family: Family,
    table: str,
    *,
    live: Rules,
    chains: Mapping[str, Chain],
    sets: Mapping[str, Declared],
) -> tuple[str, ...]:
    """Chains whose rules are not as they should be. ``live``: as they are; ``chains`` and ``sets``: as they should be.

    Raises Lost, Refused, or Incomplete.
    """
    found: list[str] = []
    for some in _pieces(chains):
        other = scratch(table)
        declared, led = _named(some)
        await kernel.run(
            text(
                Changes(
                    family=family,
                    table=other,
                    is_new=True,
                    replaces=True,
                    sets={name: sets[name] for name in sorted(declared)},
                    chains=dict.fromkeys(sorted(led - some.keys()), Chain())
                    | {name: Chain(chain.rules) for name, chain in some.items()},
                )
            )
        )
        try:
            expected = await read_rules(kernel, family, other)
            found += [
                name
                for name in some
                if not await _same(kernel, family, (table, live.get(name, ())), (other, expected.get(name, ())))
            ]
        finally:
            await kernel.run(f"delete table {family} {other}\n")
    return tuple(found)


def _pieces(chains: Mapping[str, Chain]) -> Iterator[dict[str, Chain]]:
    names = list(chains)
    for start in range(0, len(names), AT_ONCE):
        yield {name: chains[name] for name in names[start : start + AT_ONCE]}


def _named(chains: Mapping[str, Chain]) -> tuple[set[str], set[str]]:
    """The sets and the chains that rules name."""
    every = [rule for chain in chains.values() for rule in chain.rules]
    return ({name for rule in every for name in _NAMES.findall(rule)}, {n for r in every for n in _LEADS.findall(r)})


async def _same(
    kernel: Kernel, family: Family, one: tuple[str, tuple[FoundRule, ...]], other: tuple[str, tuple[FoundRule, ...]]
) -> bool:
    if [each.expressions for each in one[1]] != [each.expressions for each in other[1]]:
        return False
    for here, there in zip(one[1], other[1], strict=True):
        for mine, theirs in zip(here.unnamed, there.unnamed, strict=True):
            if await _unnamed(kernel, family, one[0], mine) != await _unnamed(kernel, family, other[0], theirs):
                return False
    return True


async def _unnamed(kernel: Kernel, family: Family, table: str, name: str) -> list[bytes]:
    return sorted(raw_elements(await kernel.ask(elements_request(family, table, name))))
