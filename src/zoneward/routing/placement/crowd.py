"""The endpoints of one Service in one address family, as decisions see them: counted by what makes them alike.

Endpoints that are located in one zone and were in one group are alike to every rule: they lie in one cell. A decision
asks how many are in each cell, and for names only where a cell is split. So it costs as much as there are cells (zones
by groups), and one endpoint that changes moves from a cell to another. Proxies see an address once, whoever stands
behind it (Pods on the host's network do): it counts once, and all that have it get the same hint, for it is chance
which of them a proxy reads.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from operator import attrgetter
from typing import Final

from zoneward.kube.objects import Endpoint, EndpointIdentity, is_ready
from zoneward.kube.objects import identity as identity_of
from zoneward.routing.placement.groups import Group

_IDENTITY: Final = attrgetter("identity")
_FEW: Final = 3
"""Names that a rule tells before it only counts."""


class Member:
    """One endpoint. ``before`` is the group it was in, ``cell`` where it is counted; None for one that is not."""

    __slots__ = ("before", "cell", "endpoint", "identity")

    def __init__(self, endpoint: Endpoint, identity: EndpointIdentity, before: Group | None = None) -> None:
        self.endpoint = endpoint
        self.identity = identity
        self.before = before
        self.cell: Cell | None = None

    @property
    def name(self) -> str:
        """The Pod behind it, or its addresses."""
        target = self.endpoint.target_ref
        return target.name if target else ", ".join(self.endpoint.addresses or ("?",))


class Cell:
    """Endpoints in one ``zone`` (empty: in none) that were in one group, all of them ready or none."""

    __slots__ = ("_first", "_ordered", "before", "members", "nodeless", "ready", "zone")

    def __init__(self, zone: str, before: Group | None, ready: bool) -> None:
        self.zone = zone
        self.before = before
        self.ready = ready
        self.members: set[Member] = set()
        self.nodeless = 0
        """Of these, how many are on no Node."""
        self._ordered: list[Member] | None = None
        self._first: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.members)

    def in_order(self) -> list[Member]:
        """By identity. The list is the cell's own, kept from the first time it was asked for."""
        if self._ordered is None:
            self._ordered = sorted(self.members, key=_IDENTITY)
        return self._ordered

    def first_names(self) -> tuple[str, ...]:
        """The first few names, kept until one of them goes or an earlier one comes."""
        if self._first is None:
            self._first = tuple(nsmallest(_FEW, (member.name for member in self.members)))
        return self._first

    def add(self, member: Member) -> None:
        self.members.add(member)
        if not member.endpoint.node_name:
            self.nodeless += 1
        if self._first is not None and (len(self._first) < _FEW or member.name < self._first[-1]):
            self._first = None
        if self._ordered is not None:
            insort(self._ordered, member, key=_IDENTITY)

    def remove(self, member: Member) -> None:
        self.members.remove(member)
        if not member.endpoint.node_name:
            self.nodeless -= 1
        if self._first is not None and member.name in self._first:
            self._first = None
        ordered = self._ordered
        if ordered is not None:
            position = bisect_left(ordered, member.identity, key=_IDENTITY)
            while ordered[position] is not member:
                position += 1
            del ordered[position]


class Crowd:
    """All endpoints that count. ``apart``: those that share an address are not one (upstream).

    ``twins`` are ready endpoints that share an address with another, by the one that stands for both: the first by
    identity. They are in no cell. ``members`` gives all in the order in which a decision tells its answers.
    """

    def __init__(self, *, apart: bool = False, members: Callable[[], Iterable[Member]] | None = None) -> None:
        self.twins: dict[Member, Member] = {}
        self.number = 0
        """Of the ready ones, each address once."""
        self.size = 0
        """Of all, ready or not."""
        self.version = 0
        """Another one after every change."""
        self._apart = apart
        self._members = members
        # By the group's id: cells hold the group, so that it stays what it is.
        self._cells: dict[tuple[str, int, bool], Cell] = {}
        self._at: dict[str, Member | list[Member]] = {}

    def ready(self) -> list[Cell]:
        """The cells of ready endpoints, without empty ones."""
        return [cell for cell in self._cells.values() if cell.ready and cell.members]

    def rest(self) -> list[Cell]:
        """The cells of endpoints that are not ready."""
        return [cell for cell in self._cells.values() if not cell.ready and cell.members]

    def befores(self) -> Iterator[Group]:
        """Every group that some endpoint was in, some of them more than once."""
        for cell in self._cells.values():
            if cell.before is not None and cell.members:
                yield cell.before
        for twin in self.twins:
            if twin.before is not None:
                yield twin.before

    def zones(self) -> set[str]:
        """Every zone that an endpoint is in."""
        found = {cell.zone for cell in self._cells.values() if cell.members}
        found.update(twin.endpoint.zone or "" for twin in self.twins)
        return found - {""}

    def in_order(self) -> Iterable[Member]:
        """All members, in the order in which a decision tells its answers."""
        return self._members() if self._members is not None else ()

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        self.version += 1
        self.size += 1
        ready = is_ready(member.endpoint)
        if ready:
            if not self._apart:
                there = self._at.setdefault(_address(member), member)
                if there is not member:
                    self._share(member, there if isinstance(there, list) else [there])
                    return
            self.number += 1
        self._enter(member, ready)

    def remove(self, member: Member) -> None:
        self.version += 1
        self.size -= 1
        if not is_ready(member.endpoint):
            self._leave(member)
        elif self._apart:
            self.number -= 1
            self._leave(member)
        else:
            self._part(member)

    def _share(self, member: Member, together: list[Member]) -> None:
        first = together[0]
        if member.identity < first.identity:
            self._leave(first)
            self._enter(member, True)
            together.insert(0, member)
        else:
            together.append(member)
        self._at[_address(member)] = together
        self._stand_for(together)

    def _part(self, member: Member) -> None:
        address = _address(member)
        there = self._at[address]
        if not isinstance(there, list):
            del self._at[address]
            self.number -= 1
            self._leave(member)
            return
        self.twins.pop(member, None)
        was_first = there[0] is member
        there.remove(member)
        if was_first:
            self._leave(member)
            there.sort(key=_IDENTITY)
            self.twins.pop(there[0])
            self._enter(there[0], True)
        if len(there) == 1:
            self._at[address] = there[0]
        else:
            self._stand_for(there)

    def _stand_for(self, together: list[Member]) -> None:
        for twin in together[1:]:
            self.twins[twin] = together[0]

    def _enter(self, member: Member, ready: bool) -> None:
        zone = member.endpoint.zone or ""
        key = (zone, id(member.before), ready)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell(zone, member.before, ready)
        member.cell = cell
        cell.add(member)

    def _leave(self, member: Member) -> None:
        cell = member.cell
        assert cell is not None
        member.cell = None
        cell.remove(member)
        if not cell.members:
            self._cells.pop((cell.zone, id(cell.before), cell.ready))


def crowd_of(
    endpoints: Iterable[Endpoint], before: Callable[[EndpointIdentity], Group | None], *, apart: bool = False
) -> Crowd:
    """The crowd of a list of endpoints. ``before`` gives the group that one was in."""
    members = []
    for endpoint in endpoints:
        key = identity_of(endpoint)
        members.append(Member(endpoint, key, before(key)))
    crowd = Crowd(apart=apart, members=lambda: members)
    for member in members:
        crowd.add(member)
    return crowd


def named(cells: Iterable[Cell]) -> tuple[int, tuple[str, ...]]:
    """How many endpoints lie in some cells, and the first few names."""
    cells = list(cells)
    return sum(map(len, cells)), tuple(nsmallest(_FEW, (name for cell in cells for name in cell.first_names())))


def _address(member: Member) -> str:
    addresses = member.endpoint.addresses
    return addresses[0] if addresses else ""
