"""The kernel's rulesets as values: tables, chains with their rules, sets and maps with their elements.

Rules, keys and values are text in nft's format, so that a table read from the kernel compares with the wanted one.
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
    """A set or a map without its elements. ``spec`` is the part between the braces in nft's syntax."""

    kind: str
    spec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRuleset:
    """The part of a table that one Service needs. ``shared_chains`` names chains that many Services use; no other
    Service uses its ``chains`` and ``sets``."""

    elements: Elements = field(default_factory=dict)
    shared_chains: frozenset[str] = frozenset()
    chains: Mapping[str, Chain] = field(default_factory=dict)
    sets: Mapping[str, SetDeclaration] = field(default_factory=dict)


NO_RULES: Final = ServiceRuleset()


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
    """The changes from one state of a table to another, in one transaction. An element in both ``removed_elements`` and
    ``added_elements`` gets another value.

    ``replaces_table``: the existing table is deleted as a whole; ``creates_table``: the table is created.
    ``rewritten_chains`` exist, and get other rules.
    """

    family: Family
    table: str
    creates_table: bool = False
    replaces_table: bool = False
    sets: Mapping[str, SetDeclaration] = field(default_factory=dict)
    chains: Mapping[str, Chain] = field(default_factory=dict)
    rewritten_chains: Mapping[str, Chain] = field(default_factory=dict)
    removed_elements: Elements = field(default_factory=dict)
    added_elements: Elements = field(default_factory=dict)
    deleted_chains: frozenset[str] = frozenset()
    deleted_sets: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(
            (self.creates_table or self.sets or self.chains or self.rewritten_chains)
            or (self.removed_elements or self.added_elements or self.deleted_chains or self.deleted_sets)
        )

    @property
    def element_count(self) -> int:
        """The number of elements that are added or removed."""
        return sum(len(elements) for side in (self.removed_elements, self.added_elements) for elements in side.values())
