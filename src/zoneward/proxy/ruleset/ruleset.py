"""The rulesets of the kernel as values: their differences, and the commands that apply them.

Rules, keys and values are text in nft's format, so that a table read from the kernel compares with the wanted one.
`render_commands` is for ``nft -f``: one transaction, all or nothing. nft has no escapes within quotes, so characters of
external text that would end a word or a line are replaced or rejected (`safe_name`, `quote`). Everything else in a
command is a parsed value or a constant.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeVar

from zoneward.kube.safe_text import printable
from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import Hook

Elements = Mapping[str, Mapping[str, str]]
"""By set or map, then by key; the value is empty in a set."""
LAYOUT_CHAIN: Final = "layout"
"""The prefix of the name of a chain without rules. The rest is a digest of everything that no other name identifies."""
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


T = TypeVar("T")


def diff_rulesets(old: Ruleset | None, new: Ruleset) -> RulesetChanges:
    """The changes that turn ``old`` into ``new``. ``old`` None: the table does not exist yet.

    The name of a chain determines its rules (`zoneward.proxy.ruleset.base_rules`), so only names and hooks are
    compared. A table with another layout is replaced as a whole, atomically.
    """
    if old is None or _has_other_layout(old, new):
        return RulesetChanges(
            family=new.family,
            table=new.table,
            creates_table=True,
            replaces_table=old is not None,
            sets=new.sets,
            chains=new.chains,
            added_elements={name: elements for name, elements in new.elements.items() if elements},
        )
    removed, added = diff_elements(old.elements, new.elements)
    gone_sets = frozenset(old.sets.keys() - new.sets.keys())
    return RulesetChanges(
        family=new.family,
        table=new.table,
        sets={name: declared for name, declared in new.sets.items() if name not in old.sets},
        chains={name: chain for name, chain in new.chains.items() if name not in old.chains},
        removed_elements={name: elements for name, elements in removed.items() if name not in gone_sets},
        added_elements=added,
        deleted_chains=frozenset(old.chains.keys() - new.chains.keys()),
        deleted_sets=gone_sets,
    )


def _has_other_layout(old: Ruleset, new: Ruleset) -> bool:
    """Whether the rules that no other name identifies differ, or where the kernel enters a chain."""
    layouts = [{name for name in ruleset.chains if name.startswith(f"{LAYOUT_CHAIN}-")} for ruleset in (old, new)]
    common = old.chains.keys() & new.chains.keys()
    return layouts[0] != layouts[1] or any(old.chains[name].hook != new.chains[name].hook for name in common)


def merge_changes(changes: Sequence[RulesetChanges]) -> RulesetChanges:
    """Consecutive changes as one. It leaves out what one of them creates and a later one deletes."""
    if len(changes) == 1:
        return changes[0]
    sets: dict[str, SetDeclaration] = {}
    chains: dict[str, Chain] = {}
    rewritten: dict[str, Chain] = {}
    removed: dict[str, dict[str, str]] = {}
    added: dict[str, dict[str, str]] = {}
    gone_chains: set[str] = set()
    gone_sets: set[str] = set()
    for change in changes:
        rewritten |= change.rewritten_chains
        _add_definitions(sets, gone_sets, change.sets)
        _add_definitions(chains, gone_chains, change.chains)
        for name, elements in change.removed_elements.items():
            now_removed, now_added = removed.setdefault(name, {}), added.setdefault(name, {})
            for key, value in elements.items():
                if now_added.pop(key, None) is None:
                    now_removed[key] = value
        for name, elements in change.added_elements.items():
            added.setdefault(name, {}).update(elements)
        _delete_definitions(sets, gone_sets, change.deleted_sets)
        _delete_definitions(chains, gone_chains, change.deleted_chains)
    for name, elements in added.items():
        now_removed = removed.get(name, {})
        for key in [key for key in elements if now_removed.get(key) == elements[key]]:
            del now_removed[key], elements[key]
    return replace(
        changes[0],
        sets=sets,
        chains=chains,
        rewritten_chains=rewritten,
        # Deleting a set deletes its elements.
        removed_elements={name: elements for name, elements in removed.items() if elements and name not in gone_sets},
        added_elements={name: elements for name, elements in added.items() if elements and name not in gone_sets},
        deleted_chains=frozenset(gone_chains),
        deleted_sets=frozenset(gone_sets),
    )


def split_changes(changes: RulesetChanges) -> tuple[RulesetChanges, RulesetChanges, RulesetChanges]:
    """Changes as three transactions: new chains; references to them and everything else; deleted chains. Each may be
    empty.

    A packet that traverses the rules while a transaction commits sees the new elements, but the old rules: a chain that
    the same transaction adds has none for it, so the packet would be lost. And kernels before 6.2 count a chain as in
    use until the end of the transaction that deletes the last reference to it.
    """
    nothing = RulesetChanges(family=changes.family, table=changes.table)
    if changes.creates_table:
        return nothing, changes, nothing
    ahead = replace(nothing, sets=changes.sets, chains=changes.chains) if changes.chains else nothing
    behind = replace(nothing, deleted_chains=changes.deleted_chains, deleted_sets=changes.deleted_sets)
    rest = replace(changes, chains={}, deleted_chains=frozenset(), deleted_sets=frozenset())
    return ahead, replace(rest, sets={}) if changes.chains else rest, behind


def _add_definitions(definitions: dict[str, T], deleted_before: set[str], added: Mapping[str, T]) -> None:
    for name, definition in added.items():
        if name in deleted_before:
            # It still exists, and its name determines its content.
            deleted_before.remove(name)
        else:
            definitions[name] = definition


def _delete_definitions(definitions: dict[str, T], deleted_before: set[str], deleted: frozenset[str]) -> None:
    for name in deleted:
        if definitions.pop(name, None) is None:
            deleted_before.add(name)


def count_differences(existing: Ruleset, wanted: Ruleset) -> dict[str, int] | None:
    """The number of wrong ``chains``, ``sets`` and ``elements``, without zeros; None: the layout differs.

    It does not compare rules.
    """
    if _has_other_layout(existing, wanted):
        return None
    removed, added = diff_elements(existing.elements, wanted.elements)
    counts = {
        "chains": len(existing.chains.keys() ^ wanted.chains.keys()),
        "sets": len(existing.sets.keys() ^ wanted.sets.keys()),
        # An element that gets another value counts once.
        "elements": len(
            {(name, key) for side in (removed, added) for name, elements in side.items() for key in elements}
        ),
    }
    return {what: count for what, count in counts.items() if count}


def diff_elements(old: Elements, new: Elements) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """The elements to remove and to add; an element with another value is in both."""
    removed: dict[str, dict[str, str]] = {}
    added: dict[str, dict[str, str]] = {}
    nothing: Mapping[str, str] = {}
    for name in {**old, **new}:
        before, after = old.get(name, nothing), new.get(name, nothing)
        if before == after:
            continue
        gone = {key: value for key, value in before.items() if after.get(key) != value}
        come = {key: value for key, value in after.items() if before.get(key) != value}
        if gone:
            removed[name] = gone
        if come:
            added[name] = come
    return removed, added


_AT_ONCE: Final = 500
"""Elements in one command: a line that a person can still open in an editor."""


def render_commands(changes: RulesetChanges) -> str:
    """The commands in dependency order: none uses an object before it exists or deletes one that is in use."""
    return "".join(f"{line}\n" for line in command_lines(changes))


def command_lines(changes: RulesetChanges) -> Iterator[str]:
    where = f"{changes.family} {changes.table}"
    if changes.replaces_table:
        # Deleting a table that does not exist is an error, so it is added first.
        yield f"add table {where}"
        yield f"delete table {where}"
    if changes.creates_table:
        yield f"add table {where}"
    for name, declared in changes.sets.items():
        yield f"add {declared.kind} {where} {name} {{ {declared.spec}; }}"
    for name, chain in changes.chains.items():
        yield f"add chain {where} {name}{_hook(chain)}"
    for name in changes.rewritten_chains:
        yield f"flush chain {where} {name}"
    for name, chain in (*changes.chains.items(), *changes.rewritten_chains.items()):
        for rule in chain.rules:
            yield f"add rule {where} {name} {rule}"
    for name, keys in changes.removed_elements.items():
        if keys:
            yield from _commands(f"delete element {where} {name}", keys)
    for name, elements in changes.added_elements.items():
        pairs = (f"{key} : {value}" if value else key for key, value in elements.items())
        yield from _commands(f"add element {where} {name}", pairs)
    for name in sorted(changes.deleted_chains):
        yield f"flush chain {where} {name}"
    for name in sorted(changes.deleted_chains):
        yield f"delete chain {where} {name}"
    for name in sorted(changes.deleted_sets):
        yield f"delete set {where} {name}"


def _hook(chain: Chain) -> str:
    hook = chain.hook
    return "" if hook is None else f" {{ type {hook.type} hook {hook.name} priority {hook.priority}; }}"


def _commands(command: str, elements: Iterable[str]) -> Iterator[str]:
    remaining = iter(elements)
    while batch := ", ".join(islice(remaining, _AT_ONCE)):
        yield f"{command} {{ {batch} }}"


_NO_NAME: Final = re.compile(r"[^A-Za-z0-9/_.-]")
_STRING: Final = re.compile(r"[!#-\[\]-~]+")
"""Printable ASCII without blanks, quotes and backslashes."""


def safe_name(text: str) -> str:
    """A part of the name of a chain or a set, after a letter. Characters that a name cannot contain become dots.

    Two texts may become the same name: a caller that needs a unique one adds a digest.
    """
    return _NO_NAME.sub(".", text)


def quote(text: str) -> str:
    """The text in quotes. Raises ValueError for one that cannot be quoted."""
    if not _STRING.fullmatch(text):
        raise ValueError(f"expected printable characters without blanks, quotes and backslashes, got {text!r}")
    return f'"{text}"'


def comment_line(text: str) -> str:
    """The text as a comment line, which nft ignores."""
    return f"# {printable(text)}"
