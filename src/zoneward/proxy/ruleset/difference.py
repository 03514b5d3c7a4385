"""The difference between two rulesets: what is added, deleted, or gets another value."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from zoneward.proxy.ruleset.base_rules import LAYOUT_CHAIN
from zoneward.proxy.ruleset.ruleset import Chain, Elements, Ruleset, RulesetChanges, SetDeclaration

T = TypeVar("T")


def diff_rulesets(old: Ruleset | None, new: Ruleset) -> RulesetChanges:
    """The changes that turn ``old`` into ``new``. ``old`` None: the table does not exist yet.

    The name of a chain determines its rules (`zoneward.proxy.ruleset.base_rules`), so only names and hooks are
    compared. A table with another layout is replaced as a whole, atomically.
    """
    if old is None or _layout(old) != _layout(new) or _entered_elsewhere(old, new):
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


def _layout(ruleset: Ruleset) -> str | None:
    return next((name for name in ruleset.chains if name.startswith(f"{LAYOUT_CHAIN}-")), None)


def _entered_elsewhere(old: Ruleset, new: Ruleset) -> bool:
    return any(old.chains[name].hook != chain.hook for name, chain in new.chains.items() if name in old.chains)


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
        _come(sets, gone_sets, change.sets)
        _come(chains, gone_chains, change.chains)
        for name, elements in change.removed_elements.items():
            there, here = removed.setdefault(name, {}), added.setdefault(name, {})
            for key, value in elements.items():
                if here.pop(key, None) is None:
                    there[key] = value
        for name, elements in change.added_elements.items():
            added.setdefault(name, {}).update(elements)
        _go(sets, gone_sets, change.deleted_sets)
        _go(chains, gone_chains, change.deleted_chains)
    for name, elements in added.items():
        there = removed.get(name, {})
        for key in [key for key in elements if there.get(key) == elements[key]]:
            del there[key], elements[key]
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


def _come(here: dict[str, T], gone: set[str], come: Mapping[str, T]) -> None:
    for name, definition in come.items():
        if name in gone:
            # It still exists, and its name determines its content.
            gone.remove(name)
        else:
            here[name] = definition


def _go(here: dict[str, T], gone: set[str], go: frozenset[str]) -> None:
    for name in go:
        if here.pop(name, None) is None:
            gone.add(name)


def count_differences(there: Ruleset, wanted: Ruleset) -> dict[str, int] | None:
    """The number of wrong ``chains``, ``sets`` and ``elements``, without zeros; None: the layout differs.

    It does not compare rules.
    """
    if _layout(there) != _layout(wanted) or _entered_elsewhere(there, wanted):
        return None
    removed, added = diff_elements(there.elements, wanted.elements)
    counts = {
        "chains": len(there.chains.keys() ^ wanted.chains.keys()),
        "sets": len(there.sets.keys() ^ wanted.sets.keys()),
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
