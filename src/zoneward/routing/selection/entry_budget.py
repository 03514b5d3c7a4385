"""Which Services a node has room for, where a namespace or all namespaces together have more entries than they may.

The oldest Services come first: by ``creationTimestamp``, then by namespace and name. So the result does not depend on
the order in which Services are received, and a new Service takes no room from those that exist. One that does not fit
is set aside as a whole; a younger one that is small enough still fits.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from zoneward.kube.objects import ObjectKey
from zoneward.routing.selection.address_ownership import Age, age_of

ExceededLimit = Literal["namespace", "node"]
MAX_NAMESPACE_ENTRIES: Final = 400_000
"""By default, of all Services of a namespace in both families: half of what a node may have."""
MAX_ENTRIES: Final = 750_000
"""By default, of all Services in both families: 60,000 Services with 10 endpoints each. In the proxy an entry takes up
to 600 bytes, when it starts with its rules in the kernel: all fit into the memory limit of its DaemonSet."""
_BLOCK: Final = 256
"""Services that are looked at together: half as many to twice as many."""


class EntryBudget:
    """Set the entries of each Service; those in `set_aside` do not fit. ``most``: of all Services on the node;
    ``most_of_namespace``: of those in one namespace. What an entry is, the caller decides.

    As long as all fit, a change costs the same however many Services there are. After that it costs as much as there
    are blocks of younger Services.
    """

    def __init__(self, *, most: int = MAX_ENTRIES, most_of_namespace: int = MAX_NAMESPACE_ENTRIES) -> None:
        self.most, self.most_of_namespace = most, most_of_namespace
        self._entries: dict[ObjectKey, tuple[Age, int]] = {}
        self._namespaces: dict[str, _OldestFirst] = {}
        self._node = _OldestFirst(most)
        """The Services that fit into their namespaces."""

    @property
    def used(self) -> int:
        """The entries of all Services that fit."""
        return self._node.used

    def set_entries(self, service: ObjectKey, entries: int | None, *, creation_timestamp: str = "") -> set[ObjectKey]:
        """Record the entries of a Service; None: it is gone. Returns the Services that are set aside from now on, or no
        longer are."""
        before = self._entries.get(service)
        after = None if entries is None else (age_of(service, creation_timestamp), entries)
        if before == after:
            return set()
        limit_before = self.set_aside(service)
        namespace = self._namespaces.setdefault(service[0], _OldestFirst(self.most_of_namespace))
        if before is not None:
            del self._entries[service]
            namespace.remove(before[0])
            if limit_before != "namespace":
                self._node.remove(before[0])
        if after is not None:
            self._entries[service] = after
            namespace.add(*after)
        changed = namespace.fill() - {service}
        for other in changed:
            if other in namespace.aside:
                self._node.remove(self._entries[other][0])
            else:
                self._node.add(*self._entries[other])
        if after is not None and service not in namespace.aside:
            self._node.add(*after)
        if not namespace:
            del self._namespaces[service[0]]
        changed |= self._node.fill() - {service}
        return changed if self.set_aside(service) == limit_before else {*changed, service}

    def entries(self, service: ObjectKey) -> int:
        """The entries of a Service as last recorded."""
        return self._entries[service][1] if service in self._entries else 0

    def set_aside(self, service: ObjectKey) -> ExceededLimit | None:
        """The limit that a Service does not fit into; None: it fits."""
        if self._is_beyond_namespace(service):
            return "namespace"
        return "node" if service in self._node.aside else None

    def reason(self, service: ObjectKey) -> str:
        """Why a Service is set aside."""
        if self._is_beyond_namespace(service):
            used, most, option = self._namespaces[service[0]].total, self.most_of_namespace, "--max-namespace-entries"
            what = f"the Services of its namespace come to {used:,} entries"
        else:
            most, option = self.most, "--max-entries"
            what = f"with the {self._entries[service][1]:,} entries of this one all Services come to more than they may"
        return f"{what}, expected at most {most:,} ({option}); older Services come first"

    def counts(self) -> Mapping[str, int]:
        """How many Services are set aside, by the limit that they do not fit into."""
        of_namespaces = sum(len(namespace.aside) for namespace in self._namespaces.values())
        return {"namespace": of_namespaces, "node": len(self._node.aside)}

    def _is_beyond_namespace(self, service: ObjectKey) -> bool:
        namespace = self._namespaces.get(service[0])
        return namespace is not None and service in namespace.aside


@dataclass(slots=True)
class _Block:
    """Services next to each other by age. ``begin`` and ``end`` are the entries that fit before it, and with it, as of
    the last `fill`; ``begin`` is None where the block has changed since."""

    ages: list[Age]
    entries: list[int]
    total: int
    aside: set[ObjectKey] = field(default_factory=set)
    begin: int | None = None
    end: int = 0

    def fill(self, used: int, most: int) -> set[ObjectKey]:
        """Compute what does not fit after ``used`` entries. Returns the Services that are set aside from now on, or no
        longer are."""
        self.begin = self.end = used
        before = self.aside
        if used + self.total <= most:
            self.end = used + self.total
            if before:
                self.aside = set()
            return before
        if len(before) == len(self.ages) and used + min(self.entries) > most:
            return set()
        self.aside = set()
        for (_, service), entries in zip(self.ages, self.entries, strict=True):
            if self.end + entries > most:
                self.aside.add(service)
            else:
                self.end += entries
        return before ^ self.aside

    def split(self) -> "tuple[_Block, _Block]":
        """Its older and its younger half."""
        half = len(self.ages) // 2
        parts = (slice(half), slice(half, None))
        older, younger = (_Block(self.ages[part], self.entries[part], sum(self.entries[part])) for part in parts)
        older.aside = {service for _, service in older.ages if service in self.aside}
        younger.aside = self.aside - older.aside
        return older, younger


class _OldestFirst:
    """Services by age, and which of them, the oldest first, fit into ``most`` entries together: `add` and `remove`,
    then `fill`. ``aside`` are those that do not fit, ``total`` the entries of all.

    Only the blocks from the first change on are computed again, and no further than the entries before them differ.
    """

    def __init__(self, most: int) -> None:
        self.total = 0
        self.aside: set[ObjectKey] = set()
        self._most, self._blocks = most, list[_Block]()

    def __bool__(self) -> bool:
        return bool(self._blocks)

    @property
    def used(self) -> int:
        """The entries of those that fit."""
        return self._blocks[-1].end if self.aside else self.total

    def add(self, age: Age, entries: int) -> None:
        """Add a Service; until `fill` it counts as one that fits."""
        self.total += entries
        if not self._blocks:
            self._blocks.append(_Block([age], [entries], entries))
            return
        index = self._number(age)
        block = self._blocks[index]
        position = bisect_left(block.ages, age)
        block.ages.insert(position, age)
        block.entries.insert(position, entries)
        block.total += entries
        block.begin = None
        if len(block.ages) > 2 * _BLOCK:
            self._blocks[index : index + 1] = block.split()

    def remove(self, age: Age) -> None:
        """Remove a Service that was added."""
        index = self._number(age)
        block = self._blocks[index]
        position = bisect_left(block.ages, age)
        del block.ages[position]
        entries = block.entries.pop(position)
        block.total -= entries
        self.total -= entries
        block.begin = None
        for aside in (block.aside, self.aside):
            aside.discard(age[1])
        if not block.ages:
            del self._blocks[index]

    def fill(self) -> set[ObjectKey]:
        """Returns the Services that are set aside from now on, or no longer are."""
        changed: set[ObjectKey] = set()
        if self.total <= self._most and not self.aside:
            return changed
        used = 0
        for block in self._blocks:
            if block.begin != used:
                changed |= block.fill(used, self._most)
            used = block.end
        self.aside ^= changed
        return changed

    def _number(self, age: Age) -> int:
        """The block that a Service of this age belongs to."""
        index = bisect_left(self._blocks, age, key=lambda block: block.ages[-1])
        return min(index, len(self._blocks) - 1)
