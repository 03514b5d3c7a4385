"""A table's rules kept and mended: a Service that changes costs what it changes.

Two Services may ask for the same element: endpoints that both have, or, for a moment, what one of them lets go of
(`zoneward.proxy.model.claims`). The first by name has it, and the other gets it when the first one goes.

A table that is found in the kernel is taken over as it is: Services are put as if it were empty, and what is there
already is not written again. What nobody asked for goes when all Services were put. So traffic flows meanwhile.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.proxy.model.served import ObjectKey
from zoneward.proxy.ruleset.base_rules import LayoutOptions, base_chains, base_sets, shared_chain
from zoneward.proxy.ruleset.difference import difference, elements_changed
from zoneward.proxy.ruleset.ruleset import NOTHING, Chain, Changes, Declared, Elements, Portion, Ruleset


class KeptRuleset:
    """`begin`, `put` each Service, `tidy`; then `put` what changes. What each of them says has to be applied in turn.

    ``present``: the table as it is in the kernel; None: there is none.
    """

    def __init__(self, family: Family, table: str, options: LayoutOptions, *, present: Ruleset | None = None) -> None:
        self._family, self._table, self._options = family, table, options
        self._base_sets: Final = base_sets(family, options)
        self._base_chains: Final = base_chains(family, options)
        self._portions: dict[ObjectKey, Portion] = {}
        self._shared: Counter[str] = Counter()
        self._owners: dict[tuple[str, str], ObjectKey] = {}
        self._contested: dict[tuple[str, str], dict[ObjectKey, str]] = {}
        """All who ask for an element that several ask for, with the value that each wants."""
        self._present = present
        self._stray: dict[str, dict[str, str]] = {}
        """Elements of the kernel that nobody has asked for yet."""
        self._chains_there: set[str] = set()
        self._sets_there: set[str] = set()
        self._before: list[tuple[ObjectKey, Portion]] = []
        self._stray_before: list[tuple[str, str, str]] = []

    def mark(self) -> None:
        """What is put from here on may be taken back."""
        self._before, self._stray_before = [], []

    def take_back(self) -> None:
        """The kernel took nothing of what was put since `mark`: everything is as it was then."""
        stray, self._stray = self._stray, {}
        before, self._before = self._before, []
        for service, portion in reversed(before):
            self.put(service, portion)
        for name, key, value in self._stray_before:
            stray.setdefault(name, {})[key] = value
        self._stray = stray
        self.mark()

    @property
    def chain_names(self) -> frozenset[str]:
        """Of everything that was put, and what all share."""
        own = (name for portion in self._portions.values() for name in portion.chains)
        return frozenset((*self._base_chains, *self._shared, *own))

    def begin(self) -> Changes:
        """What is there with or without Services."""
        base = Ruleset(
            family=self._family,
            table=self._table,
            sets=self._base_sets,
            chains=self._base_chains,
            elements={},
        )
        found, self._present = self._present, None
        changes = difference(found, base)
        if found is not None and not changes.is_new:
            self._stray = {name: dict(some) for name, some in found.elements.items()}
            self._chains_there = set(found.chains) - set(self._base_chains)
            self._sets_there = set(found.sets) - set(self._base_sets)
            nothing: frozenset[str] = frozenset()
            changes = replace(changes, removed={}, gone_chains=nothing, gone_sets=nothing)
        return changes

    def tidy(self) -> Changes:
        """All Services were put: what the kernel has besides goes."""
        wanted = {name for portion in self._portions.values() for name in (*portion.chains, *portion.sets)}
        wanted |= self._shared.keys()
        chains, sets = frozenset(self._chains_there - wanted), frozenset(self._sets_there - wanted)
        removed = {name: some for name, some in self._stray.items() if some and name not in sets}
        self._stray, self._chains_there, self._sets_there = {}, set(), set()
        return Changes(family=self._family, table=self._table, removed=removed, gone_chains=chains, gone_sets=sets)

    def put(self, service: ObjectKey, portion: Portion) -> Changes:
        """A Service as it is now; `NOTHING` for one that is gone. What that changes."""
        old = self._portions.get(service, NOTHING)
        self._before.append((service, old))
        if portion is NOTHING:
            self._portions.pop(service, None)
        else:
            self._portions[service] = portion
        asked_less, asked_more = elements_changed(old.elements, portion.elements)
        removed, added = self._settled(service, asked_less, asked_more)
        new_shared = {name for name in portion.shared - old.shared if not self._shared[name]}
        self._shared.update(portion.shared)
        self._shared.subtract(old.shared)
        gone_shared = {name for name in old.shared if self._shared[name] <= 0}
        for name in gone_shared:
            del self._shared[name]
        chains = self._chains(sorted(new_shared))
        chains |= {name: chain for name, chain in portion.chains.items() if name not in old.chains}
        sets = {name: each for name, each in portion.sets.items() if name not in old.sets}
        return Changes(
            family=self._family,
            table=self._table,
            sets={name: each for name, each in sets.items() if name not in self._sets_there},
            chains={name: each for name, each in chains.items() if name not in self._chains_there},
            removed=removed,
            added=added,
            gone_chains=self._gone(gone_shared | (old.chains.keys() - portion.chains.keys()), self._chains_there),
            gone_sets=self._gone(old.sets.keys() - portion.sets.keys(), self._sets_there),
        )

    def _gone(self, names: Iterable[str], there: set[str]) -> frozenset[str]:
        """Names that are no longer needed; those of the kernel as it was found may still be in use there."""
        return frozenset(name for name in names if name not in there)

    def whole(self) -> Ruleset:
        """Everything, as it would be loaded into a kernel that has nothing."""
        sets: dict[str, Declared] = dict(self._base_sets)
        chains = dict(self._base_chains) | self._chains(sorted(self._shared))
        elements: dict[str, dict[str, str]] = {}
        for service in sorted(self._portions):
            portion = self._portions[service]
            sets.update(portion.sets)
            chains.update(portion.chains)
            for name, some in portion.elements.items():
                kept = elements.setdefault(name, {})
                for key, value in some.items():
                    # The first by name has it.
                    kept.setdefault(key, value)
        return Ruleset(family=self._family, table=self._table, sets=sets, chains=chains, elements=elements)

    def _chains(self, names: list[str]) -> dict[str, Chain]:
        return {name: shared_chain(name, self._family) for name in names}

    def _settled(
        self, service: ObjectKey, less: Elements, more: Elements
    ) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
        """What becomes of the kernel's elements when a Service no longer asks for some, and asks for others."""
        removed: dict[str, dict[str, str]] = {}
        added: dict[str, dict[str, str]] = {}
        owners = self._owners
        for name, some in less.items():
            again: Mapping[str, str] = more.get(name, {})
            for key, value in some.items():
                element = name, key
                if owners[element] == service:
                    removed.setdefault(name, {})[key] = value
                if key not in again:
                    self._let_go(service, element, added)
        for name, some in more.items():
            for key, value in some.items():
                self._ask(service, (name, key), value, removed, added)
        if self._stray:
            self._taken_over(removed, added)
        return removed, added

    def _taken_over(self, removed: dict[str, dict[str, str]], added: dict[str, dict[str, str]]) -> None:
        """Of what has to be added, leave out what is there, and take away what is there with another value."""
        for name, some in list(added.items()):
            stray = self._stray.get(name, {})
            for key in list(some):
                there = stray.pop(key, None)
                if there is not None:
                    self._stray_before.append((name, key, there))
                if there == some[key]:
                    del some[key]
                elif there is not None:
                    removed.setdefault(name, {})[key] = there
            if not some:
                del added[name]

    def _let_go(self, service: ObjectKey, element: tuple[str, str], added: dict[str, dict[str, str]]) -> None:
        owner, others = self._owners[element], self._contested.get(element)
        if others is None:
            del self._owners[element]
            return
        del others[service]
        if owner == service:
            heir = self._owners[element] = min(others)
            added.setdefault(element[0], {})[element[1]] = others[heir]
        if len(others) == 1:
            del self._contested[element]

    def _ask(
        self,
        service: ObjectKey,
        element: tuple[str, str],
        value: str,
        removed: dict[str, dict[str, str]],
        added: dict[str, dict[str, str]],
    ) -> None:
        name, key = element
        owner = self._owners.get(element)
        others = self._contested.get(element)
        if others is not None:
            others[service] = value
        if owner is None or owner == service:
            self._owners[element] = service
            added.setdefault(name, {})[key] = value
            return
        if others is None:
            there = self._portions[owner].elements[name][key]
            others = self._contested[element] = {owner: there, service: value}
        if service < owner:
            self._owners[element] = service
            if others[owner] != value:
                removed.setdefault(name, {})[key] = others[owner]
                added.setdefault(name, {})[key] = value
