"""What the kernel holds, as values: tables, chains with their rules, sets and maps with their elements.

Rules, keys and values are words as ``nft`` reads and writes them, so that what was listed compares with what is wanted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import Hook

Elements = Mapping[str, Mapping[str, str]]
"""By set or map, then by key; the value is empty in a set."""
ADDRESS: Final[dict[Family, str]] = {"ip": "ipv4_addr", "ip6": "ipv6_addr"}


@dataclass(frozen=True, slots=True)
class Chain:
    rules: tuple[str, ...] = ()
    hook: Hook | None = None


@dataclass(frozen=True, slots=True)
class SetDeclaration:
    """A set or a map without its elements. ``spec`` is what nft has between the braces."""

    kind: str
    spec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRules:
    """What one Service adds to a table. ``shared`` names chains that many use; ``chains`` and ``sets`` are its own."""

    elements: Elements = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    chains: Mapping[str, Chain] = field(default_factory=dict)
    sets: Mapping[str, SetDeclaration] = field(default_factory=dict)


NO_RULES: Final = ServiceRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruleset:
    """One table."""

    family: Family
    table: str
    sets: Mapping[str, SetDeclaration]
    chains: Mapping[str, Chain]
    elements: Elements


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesetChanges:
    """From one state of a table to another, all at once. What is in ``removed`` and ``added`` gets another value.

    ``replaces``: whatever table there is goes as a whole; ``is_new``: the table has to be made. ``rewritten`` are
    chains that are there, and get other rules.
    """

    family: Family
    table: str
    is_new: bool = False
    replaces: bool = False
    sets: Mapping[str, SetDeclaration] = field(default_factory=dict)
    chains: Mapping[str, Chain] = field(default_factory=dict)
    rewritten: Mapping[str, Chain] = field(default_factory=dict)
    removed: Elements = field(default_factory=dict)
    added: Elements = field(default_factory=dict)
    gone_chains: frozenset[str] = frozenset()
    gone_sets: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(
            (self.is_new or self.sets or self.chains or self.rewritten)
            or (self.removed or self.added or self.gone_chains or self.gone_sets)
        )

    @property
    def size(self) -> int:
        """How many elements come or go."""
        return sum(len(each) for some in (self.removed, self.added) for each in some.values())
