"""Start-time fair queueing between groups that share a resource, such as the CPU of one process.

The Services of a namespace may change hundreds of times a second, and each of their decisions may take a quarter of a
second. First in, first out, all other namespaces would wait for them. So each group is charged for the work on its
items:

- The group with the least usage is next. A new group starts with the least usage of all groups.
- Groups within `ALLOWANCE` of that are equal: the rank of their items decides. Without a flood of changes, only this
  rule applies.
- After a step that blocks the event loop for `LONG_STEP`, groups above their share wait as long as the step took.
  Handling the changes of other groups takes many short turns of the event loop, and after each one a worker could
  begin a long step.
- When nothing is due and no work is in progress, all charges are dropped.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

ALLOWANCE: Final = 0.25
"""Seconds that a group may use before it is behind others."""
LONG_STEP: Final = 0.02
"""Seconds for which steps may block the event loop repeatedly."""


class Ticketed(Protocol):
    """An item that remembers the ticket of its valid entry in a heap."""

    ticket: int
    due: float


G = TypeVar("G", bound=Hashable)
N = TypeVar("N", bound=Ticketed)


@dataclass(slots=True, eq=False)
class _Group(Generic[G, N]):
    key: G
    used: float
    """Virtual time: seconds, counted from those of the group that had used the least when this one came."""
    items: list[tuple[float, int, N]] = field(default_factory=list)
    turn: int = 0
    """The ticket of its valid entry in the heap of groups; 0: none."""


class FairTurns(Generic[G, N]):
    """Items with a rank: the smallest rank of the next group is first. Times are seconds."""

    def __init__(self) -> None:
        self._groups: dict[G, _Group[G, N]] = {}
        self._turns: list[tuple[float, float, int, _Group[G, N]]] = []
        """Groups with items, by what each has used above its allowance and the rank of its first item."""
        self._least = 0.0
        """What the group that was served last had used above its allowance."""
        self._number = 0
        self._not_before = 0.0
        """When groups above their share are served again."""

    def push(self, group: G, item: N, *, rank: float) -> None:
        """An item is due. An entry of it with another ticket does not count any more."""
        known = self._groups.get(group)
        if known is None:
            known = self._groups[group] = _Group(group, self._least)
        heappush(known.items, (rank, item.ticket, item))
        if not known.turn or known.items[0][2] is item:
            self._line_up(known)

    def pop(self, now: float) -> N | None:
        """The next item; None: there is none, or only groups above their share have some, and they have to wait."""
        group = self._next_group()
        if group is None or (now < self._not_before and self._tag(group) > self._least):
            return None
        heappop(self._turns)
        _, _, item = heappop(group.items)
        self._least = self._tag(group)
        group.turn = 0
        if group.items:
            self._line_up(group)
        return item

    def next_due(self) -> float | None:
        """When `pop` has an item, which may be past; None: not before one is pushed."""
        group = self._next_group()
        if group is None:
            return None
        due = group.items[0][2].due
        return max(due, self._not_before) if self._tag(group) > self._least else due

    def charge(self, group: G, seconds: float) -> None:
        """Charge a group for work on one of its items."""
        known = self._groups.get(group)
        if known is None:
            known = self._groups[group] = _Group(group, self._least)
        # Time in which only others used the resource is no credit.
        known.used = max(known.used, self._least) + seconds

    def stepped(self, seconds: float, *, now: float) -> None:
        """A step of work has just blocked the event loop for ``seconds``."""
        if seconds >= LONG_STEP:
            self._not_before = max(self._not_before, now + seconds)

    def forget_charges(self) -> None:
        """Nothing is due, and no work is in progress."""
        self._groups.clear()
        self._turns.clear()
        self._least = self._not_before = 0.0

    def _tag(self, group: _Group[G, N]) -> float:
        return max(self._least, group.used - ALLOWANCE)

    def _next_group(self) -> _Group[G, N] | None:
        """The group at the front, whose first item counts."""
        while self._turns:
            tag, rank, turn, group = self._turns[0]
            if group.turn != turn:
                heappop(self._turns)
                continue
            while group.items and group.items[0][2].ticket != group.items[0][1]:
                heappop(group.items)
            if not group.items:
                group.turn = 0
            elif group.items[0][0] != rank or group.used - ALLOWANCE > tag:
                self._line_up(group)
            else:
                return group
        return None

    def _line_up(self, group: _Group[G, N]) -> None:
        self._number += 1
        group.turn = self._number
        heappush(self._turns, (self._tag(group), group.items[0][0], self._number, group))
