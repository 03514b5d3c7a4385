"""What would change in the kernel, without changing it; and taking away all that is ours."""

from collections.abc import Mapping
from typing import Final

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.applying import Kernel
from zoneward.proxy.kernel.present import is_there, read_table, slots_there
from zoneward.proxy.model.served import ObjectKey, Served
from zoneward.proxy.ruleset.base_rules import TABLE, LayoutOptions, base_sets
from zoneward.proxy.ruleset.difference import merged
from zoneward.proxy.ruleset.kept_ruleset import KeptRuleset
from zoneward.proxy.ruleset.layout import portion, slots_of
from zoneward.proxy.ruleset.rule_comparison import scratch
from zoneward.proxy.ruleset.ruleset import Changes, Ruleset

_OURS: Final = (TABLE, scratch(TABLE))


async def planned(
    kernel: Kernel,
    family: Family,
    served: Mapping[ObjectKey, Served],
    *,
    table: str = TABLE,
    options: LayoutOptions,
) -> Changes:
    """What would make the kernel's table serve this, as one transaction; nothing is written.

    Rules of chains are not compared, as that takes writing: a chain is taken to do what its name says. Raises Lost,
    Refused, or Incomplete.
    """
    present = await read_table(kernel, family, table, base_sets(family, options))
    kept = KeptRuleset(family, table, options, present=present)
    changes = [kept.begin()]
    for service in sorted(served):
        one = (served[service],)
        there = slots_there(present, *one) if present is not None else {}
        changes.append(kept.put(service, portion(one, slots_of(one, there), options)))
    return merged([*changes, kept.tidy()])


def whole(family: Family, served: Mapping[ObjectKey, Served], *, table: str = TABLE, options: LayoutOptions) -> Ruleset:
    """The table as a kernel that has none would get it."""
    kept = KeptRuleset(family, table, options)
    kept.begin()
    for service in sorted(served):
        one = (served[service],)
        kept.put(service, portion(one, slots_of(one, {}), options))
    return kept.whole()


async def cleanup(kernel: Kernel) -> tuple[tuple[Family, str], ...]:
    """Take away all tables that are ours; those that were there. Raises Lost or Refused."""
    found = tuple([(family, name) for family in FAMILIES for name in _OURS if await is_there(kernel, family, name)])
    if found:
        await kernel.run("".join(f"delete table {family} {name}\n" for family, name in found))
    return found
