"""The programmed rules of one table. The cost of a change is proportional to the rules that it changes.

Two Services may request the same element: endpoints that both have, or, for a moment, an address that one of them
releases (`zoneward.proxy.model.node_service`). The first by name owns it, and the other one gets it when the first is
removed.

A table that exists in the kernel is taken over: Services are set as if it were empty, but existing elements are not
written again. Elements that no Service requests are removed after all Services were set, so that traffic continues
meanwhile.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.proxy.model.node_service import NodeService, ServiceKey
from zoneward.proxy.ruleset.base_rules import TABLE, RulesetOptions, base_chains, base_sets, shared_chain
from zoneward.proxy.ruleset.ruleset import (
    NO_RULES,
    Chain,
    Elements,
    Ruleset,
    RulesetChanges,
    ServiceRuleset,
    SetDeclaration,
    diff_elements,
    diff_rulesets,
)
from zoneward.proxy.ruleset.service_rules import assign_slots, service_rules


class RulesetState:
    """Call `start`, `set_service` for each Service, `remove_leftovers`; then `set_service` for each one that changes.
    The caller applies the returned changes in the same order.

    ``present``: the table in the kernel; None: it does not exist. `start` takes its elements over without a copy, and
    each Service claims its own from them: two copies of a large table would not fit into memory.
    """

    def __init__(self, family: Family, table: str, options: RulesetOptions, *, present: Ruleset | None = None) -> None:
        self._family, self._table, self._options = family, table, options
        self._base_sets: Final = base_sets(family)
        self._base_chains: Final = base_chains(family, options)
        self._services: dict[ServiceKey, ServiceRuleset] = {}
        self._shared: Counter[str] = Counter()
        self._owners: dict[str, dict[str, ServiceKey]] = {}
        """By set or map, then by key: the Service whose value the kernel has. Nested, because tuples for hundreds of
        thousands of elements take too much memory."""
        self._contenders: dict[tuple[str, str], dict[ServiceKey, str]] = {}
        """For each element that several Services request: those Services and their values."""
        self._present = present
        self._leftovers: dict[str, dict[str, str]] = {}
        """Elements in the kernel that no Service has requested yet."""
        self._leftover_chains: set[str] = set()
        self._leftover_sets: set[str] = set()
        self._savepoint: list[tuple[ServiceKey, ServiceRuleset]] = []
        self._leftovers_before: list[tuple[str, str, str]] = []

    def set_savepoint(self) -> None:
        """Mark the state that `roll_back` restores."""
        self._savepoint, self._leftovers_before = [], []

    def roll_back(self) -> None:
        """Restore the state at `set_savepoint`, because the kernel accepted nothing since then."""
        stray, self._leftovers = self._leftovers, {}
        before, self._savepoint = self._savepoint, []
        for service, rules in reversed(before):
            self.set_service(service, rules)
        for name, key, value in self._leftovers_before:
            stray.setdefault(name, {})[key] = value
        self._leftovers = stray
        self.set_savepoint()

    @property
    def chain_names(self) -> frozenset[str]:
        """The names of all chains."""
        own = (name for rules in self._services.values() for name in rules.chains)
        return frozenset((*self._base_chains, *self._shared, *own))

    def start(self) -> RulesetChanges:
        """Take over the existing elements, and return the changes that create the fixed part of the table."""
        base = Ruleset(
            family=self._family,
            table=self._table,
            sets=self._base_sets,
            chains=self._base_chains,
            elements={},
        )
        present, self._present = self._present, None
        changes = diff_rulesets(present, base)
        if present is not None and not changes.creates_table:
            self._leftovers = {
                name: elements if isinstance(elements, dict) else dict(elements)
                for name, elements in present.elements.items()
            }
            self._leftover_chains = set(present.chains) - set(self._base_chains)
            self._leftover_sets = set(present.sets) - set(self._base_sets)
            nothing: frozenset[str] = frozenset()
            changes = replace(changes, removed_elements={}, deleted_chains=nothing, deleted_sets=nothing)
        return changes

    def remove_leftovers(self) -> RulesetChanges:
        """The changes that remove what no Service requests. Call it after all Services were set."""
        wanted = {name for rules in self._services.values() for name in (*rules.chains, *rules.sets)}
        wanted |= self._shared.keys()
        chains, sets = frozenset(self._leftover_chains - wanted), frozenset(self._leftover_sets - wanted)
        removed = {name: elements for name, elements in self._leftovers.items() if elements and name not in sets}
        self._leftovers, self._leftover_chains, self._leftover_sets = {}, set(), set()
        return RulesetChanges(
            family=self._family, table=self._table, removed_elements=removed, deleted_chains=chains, deleted_sets=sets
        )

    def set_service(self, service: ServiceKey, rules: ServiceRuleset) -> RulesetChanges:
        """Set the rules of a Service; `NO_RULES` for a deleted one. Returns the changes."""
        old = self._services.get(service, NO_RULES)
        self._savepoint.append((service, old))
        if rules is NO_RULES:
            self._services.pop(service, None)
        else:
            self._services[service] = rules
        asked_less, asked_more = diff_elements(old.elements, rules.elements)
        removed, added = self._assign_elements(service, asked_less, asked_more)
        new_shared = {name for name in rules.shared_chains - old.shared_chains if not self._shared[name]}
        self._shared.update(rules.shared_chains)
        self._shared.subtract(old.shared_chains)
        gone_shared = {name for name in old.shared_chains if self._shared[name] <= 0}
        for name in gone_shared:
            del self._shared[name]
        chains = self._chains(sorted(new_shared))
        chains |= {name: chain for name, chain in rules.chains.items() if name not in old.chains}
        sets = {name: declared for name, declared in rules.sets.items() if name not in old.sets}
        return RulesetChanges(
            family=self._family,
            table=self._table,
            sets={name: declared for name, declared in sets.items() if name not in self._leftover_sets},
            chains={name: chain for name, chain in chains.items() if name not in self._leftover_chains},
            removed_elements=removed,
            added_elements=added,
            # Leftovers may still be in use in the kernel.
            deleted_chains=frozenset((gone_shared | (old.chains.keys() - rules.chains.keys())) - self._leftover_chains),
            deleted_sets=frozenset(old.sets.keys() - rules.sets.keys() - self._leftover_sets),
        )

    def declarations(self) -> Ruleset:
        """The whole table without its elements."""
        sets: dict[str, SetDeclaration] = dict(self._base_sets)
        chains = dict(self._base_chains) | self._chains(sorted(self._shared))
        for service in sorted(self._services):
            sets.update(self._services[service].sets)
            chains.update(self._services[service].chains)
        return Ruleset(family=self._family, table=self._table, sets=sets, chains=chains, elements={})

    def full_ruleset(self) -> Ruleset:
        """The whole table with its elements."""
        elements: dict[str, dict[str, str]] = {}
        for service in sorted(self._services):
            for name, requested in self._services[service].elements.items():
                merged = elements.setdefault(name, {})
                for key, value in requested.items():
                    # The first Service by name owns it.
                    merged.setdefault(key, value)
        return replace(self.declarations(), elements=elements)

    def _chains(self, names: list[str]) -> dict[str, Chain]:
        return {name: shared_chain(name, self._family) for name in names}

    def _assign_elements(
        self, service: ServiceKey, less: Elements, more: Elements
    ) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
        """The removed and added elements when a Service releases those in ``less`` and claims those in ``more``."""
        removed: dict[str, dict[str, str]] = {}
        added: dict[str, dict[str, str]] = {}
        for name, elements in less.items():
            owners, again = self._owners[name], more.get(name, {})
            for key, value in elements.items():
                if owners[key] == service:
                    removed.setdefault(name, {})[key] = value
                if key not in again:
                    self._release(service, (name, key), added)
        for name, elements in more.items():
            for key, value in elements.items():
                self._claim(service, (name, key), value, removed, added)
        if self._leftovers:
            self._skip_existing(removed, added)
        return removed, added

    def _skip_existing(self, removed: dict[str, dict[str, str]], added: dict[str, dict[str, str]]) -> None:
        """Do not add elements that exist already, and remove those that exist with another value."""
        for name, elements in list(added.items()):
            stray = self._leftovers.get(name, {})
            for key in list(elements):
                leftover = stray.pop(key, None)
                if leftover is not None:
                    self._leftovers_before.append((name, key, leftover))
                if leftover == elements[key]:
                    del elements[key]
                elif leftover is not None:
                    removed.setdefault(name, {})[key] = leftover
            if not elements:
                del added[name]

    def _release(self, service: ServiceKey, element: tuple[str, str], added: dict[str, dict[str, str]]) -> None:
        name, key = element
        owners, others = self._owners[name], self._contenders.get(element)
        if others is None:
            del owners[key]
            return
        del others[service]
        if owners[key] == service:
            next_owner = owners[key] = min(others)
            added.setdefault(name, {})[key] = others[next_owner]
        if len(others) == 1:
            del self._contenders[element]

    def _claim(
        self,
        service: ServiceKey,
        element: tuple[str, str],
        value: str,
        removed: dict[str, dict[str, str]],
        added: dict[str, dict[str, str]],
    ) -> None:
        name, key = element
        owners = self._owners.setdefault(name, {})
        owner = owners.get(key)
        others = self._contenders.get(element)
        if others is not None:
            others[service] = value
        if owner is None or owner == service:
            owners[key] = service
            added.setdefault(name, {})[key] = value
            return
        if others is None:
            owned = self._services[owner].elements[name][key]
            others = self._contenders[element] = {owner: owned, service: value}
        if service < owner:
            owners[key] = service
            if others[owner] != value:
                removed.setdefault(name, {})[key] = others[owner]
                added.setdefault(name, {})[key] = value


def full_ruleset(family: Family, services: Mapping[ServiceKey, NodeService], *, options: RulesetOptions) -> Ruleset:
    """The whole table that serves these Services."""
    state = RulesetState(family, TABLE, options)
    state.start()
    for service in sorted(services):
        one = (services[service],)
        state.set_service(service, service_rules(one, assign_slots(one, {}), options))
    return state.full_ruleset()
