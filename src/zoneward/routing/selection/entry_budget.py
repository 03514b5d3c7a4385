"""Which Services a node has room for, where a namespace or all namespaces together have more entries than they may.

The oldest Services come first: by ``creationTimestamp``, then by namespace and name. So the result does not depend on
the order in which Services are received, and a new Service takes no room from those that exist. One that does not fit
is set aside as a whole; a younger one that is small enough still fits.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from zoneward.kube.objects import ObjectKey
from zoneward.routing.selection.address_ownership import Age, age_of

ExceededLimit = Literal["namespace", "node"]
MAX_NAMESPACE_ENTRIES: Final = 400_000
"""By default, of all Services of a namespace in both families: half of what a node may have."""
MAX_ENTRIES: Final = 750_000
"""By default, of all Services in both families: 60,000 Services with 10 endpoints each. In the proxy an entry takes up
to 600 bytes, when it starts with its rules in the kernel: all fit into the memory limit of its DaemonSet."""


class EntryBudget:
    """Set the entries of each Service; those in `set_aside` do not fit. ``most``: of all Services on the node;
    ``most_of_namespace``: of those in one namespace. What an entry is, the caller decides.

    As long as all fit, a change costs the same however many Services there are.
    """

    def __init__(self, *, most: int = MAX_ENTRIES, most_of_namespace: int = MAX_NAMESPACE_ENTRIES) -> None:
        self.most, self.most_of_namespace = most, most_of_namespace
        self._entries: dict[ObjectKey, tuple[Age, int]] = {}
        self._ages: list[Age] = []
        self._ages_of: dict[str, list[Age]] = {}
        self._sums: Counter[str] = Counter()
        """By namespace."""
        self._set_aside: dict[ExceededLimit, dict[str, frozenset[ObjectKey]]] = {"namespace": {}, "node": {}}
        """By the namespace; by an empty text for the node."""
        self._within_namespaces = 0
        """The entries of all Services that fit into their namespaces."""

    @property
    def used(self) -> int:
        """The entries of all Services that fit."""
        over = self._set_aside["node"].get("", frozenset())
        return self._within_namespaces - sum(self._entries[service][1] for service in over)

    def set_entries(self, service: ObjectKey, entries: int | None, *, creation_timestamp: str = "") -> set[ObjectKey]:
        """Record the entries of a Service; None: it is gone. Returns the Services that are set aside from now on, or no
        longer are."""
        namespace, before = service[0], self._entries.get(service)
        after = None if entries is None else (age_of(service, creation_timestamp), entries)
        if before == after:
            return set()
        aside = self._set_aside["namespace"].get(namespace, frozenset())
        self._within_namespaces -= self._fitting(namespace, aside)
        changed_order = before is None or after is None or before[0] != after[0]
        ages = self._ages_of.setdefault(namespace, [])
        if before is not None:
            self._sums[namespace] -= before[1]
            del self._entries[service]
            if changed_order:
                for each in (self._ages, ages):
                    del each[bisect_left(each, before[0])]
        if after is not None:
            self._sums[namespace] += after[1]
            self._entries[service] = after
            if changed_order:
                for each in (self._ages, ages):
                    insort(each, after[0])
        now_aside = frozenset[ObjectKey]()
        if self._sums[namespace] > self.most_of_namespace:
            now_aside = self._exceeding(ages, self.most_of_namespace)
        self._within_namespaces += self._fitting(namespace, now_aside)
        changed = self._change("namespace", namespace, now_aside)
        if not ages:
            del self._ages_of[namespace], self._sums[namespace]
        over = frozenset[ObjectKey]()
        if self._within_namespaces > self.most:
            fitting = (age for age in self._ages if not self._is_beyond_namespace(age[1]))
            over = self._exceeding(fitting, self.most)
        return changed | self._change("node", "", over)

    def entries(self, service: ObjectKey) -> int:
        """The entries of a Service as last recorded."""
        return self._entries[service][1] if service in self._entries else 0

    def set_aside(self, service: ObjectKey) -> ExceededLimit | None:
        """The limit that a Service does not fit into; None: it fits."""
        if self._is_beyond_namespace(service):
            return "namespace"
        return "node" if service in self._set_aside["node"].get("", ()) else None

    def reason(self, service: ObjectKey) -> str:
        """Why a Service is set aside."""
        if self._is_beyond_namespace(service):
            used, most, option = self._sums[service[0]], self.most_of_namespace, "--max-namespace-entries"
            what = f"the Services of its namespace come to {used:,} entries"
        else:
            most, option = self.most, "--max-entries"
            what = f"with the {self._entries[service][1]:,} entries of this one all Services come to more than they may"
        return f"{what}, expected at most {most:,} ({option}); older Services come first"

    def counts(self) -> Mapping[str, int]:
        """How many Services are set aside, by the limit that they do not fit into."""
        return {limit: sum(map(len, groups.values())) for limit, groups in self._set_aside.items()}

    def _is_beyond_namespace(self, service: ObjectKey) -> bool:
        return service in self._set_aside["namespace"].get(service[0], ())

    def _fitting(self, namespace: str, aside: frozenset[ObjectKey]) -> int:
        return self._sums[namespace] - sum(self._entries[service][1] for service in aside if service in self._entries)

    def _exceeding(self, oldest_first: Iterable[Age], most: int) -> frozenset[ObjectKey]:
        used, aside = 0, set[ObjectKey]()
        for _, service in oldest_first:
            entries = self._entries[service][1]
            if used + entries > most:
                aside.add(service)
            else:
                used += entries
        return frozenset(aside)

    def _change(self, limit: ExceededLimit, group: str, aside: frozenset[ObjectKey]) -> set[ObjectKey]:
        groups = self._set_aside[limit]
        before = groups.pop(group, frozenset())
        if aside:
            groups[group] = aside
        return set(before ^ aside)
