"""Which concrete endpoints go into which group, moving as few as possible from where they were."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from zoneward.kube.objects import EndpointIdentity
from zoneward.routing.placement.crowd import Cell, Member


@dataclass(frozen=True, slots=True, eq=False)
class Lot:
    """Endpoints that are alike to a placement: a cell, or one endpoint without its fellows.

    ``home`` is the zone they start in and ``before`` the group they were in, as indices; -1 for none.
    """

    members: Cell | Member
    home: int
    before: int

    @property
    def zone(self) -> str:
        """Where they are located; empty for nowhere."""
        return self.members.zone if isinstance(self.members, Cell) else self.members.endpoint.zone or ""

    def __len__(self) -> int:
        return len(self.members) if isinstance(self.members, Cell) else 1

    def in_order(self) -> Sequence[Member]:
        return self.members.in_order() if isinstance(self.members, Cell) else (self.members,)


@dataclass(slots=True)
class Placement:
    """``whole``: the group of a lot, ``apart``: of those that are in another; ``parts`` how many of a lot are where.

    ``moved`` counts those that were in a group and are now in another.
    """

    whole: dict[Lot, int] = field(default_factory=dict)
    apart: dict[Member, int] = field(default_factory=dict)
    parts: dict[tuple[Lot, int], int] = field(default_factory=dict)
    moved: int = 0


def place(lots: Iterable[Lot], counts: Sequence[int], zones: int) -> Placement:
    """Place every endpoint.

    ``counts`` says at ``group * zones + home`` how many are to be in which group, the zones' own groups first; what is
    at home in a zone adds up. Endpoints stay where they were as far as the counts allow; who leaves, and where the
    others go, is decided by identity, so that the order of the input does not matter.
    """
    found = Placement()
    left = list(counts)
    unplaced: list[list[Lot]] = [[] for _ in range(zones)]
    leaving: list[list[tuple[Member, Lot]]] = [[] for _ in range(zones)]
    for (zone, group), alike in _by_cell(lots).items():
        number = sum(map(len, alike))
        stay = min(number, left[group * zones + zone]) if group >= 0 else 0
        if group >= 0:
            found.moved += number - stay
        if not stay:
            unplaced[zone].extend(alike)
            continue
        left[group * zones + zone] -= stay
        for lot in alike:
            found.whole[lot] = group
            found.parts[lot, group] = len(lot)
        if stay < number:
            for member, lot in _last(alike, stay):
                found.parts[lot, group] -= 1
                leaving[zone].append((member, lot))
    for zone in range(zones):
        _place_rest(zone, left[zone::zones], unplaced[zone], leaving[zone], found)
    return found


def with_guests_kept(counts: Sequence[int], before: Sequence[int], zones: int) -> tuple[int, ...]:
    """The same allocation to zones of their own, with as many endpoints as possible in the group that they were in.

    ``counts`` and ``before`` stand at ``group * zones + home``. How many endpoints each zone has, and how many of them
    are its own, stays; only who of the others is where may change. No zone both lends and borrows.
    """
    lent = [sum(counts[home::zones]) - counts[home * zones + home] for home in range(zones)]
    lacking = [sum(counts[zone * zones : (zone + 1) * zones]) - counts[zone * zones + zone] for zone in range(zones)]
    found = [count if cell % zones == cell // zones else 0 for cell, count in enumerate(counts)]

    def keep(home: int, most: int, seen: set[int]) -> int:
        """Keep some more endpoints of ``home`` where they were, others making room for them: an augmenting path."""
        for zone in set(range(zones)) - {home} - seen:
            cell = zone * zones + home
            room = min(most, before[cell] - found[cell])
            if room <= 0:
                continue
            seen.add(zone)
            kept = min(room, lacking[zone])
            lacking[zone] -= kept
            for other in range(zones) if not kept else ():
                instead = zone * zones + other
                if other != zone and found[instead] and (kept := keep(other, min(room, found[instead]), seen)):
                    found[instead] -= kept
                    break
            if kept:
                found[cell] += kept
                return kept
        return 0

    for home in range(zones):
        while lent[home] and (kept := keep(home, lent[home], set())):
            lent[home] -= kept
    for home in range(zones):
        for zone in range(zones):
            number = min(lent[home], lacking[zone])
            found[zone * zones + home] += number
            lent[home] -= number
            lacking[zone] -= number
    return tuple(found)


def _place_rest(
    zone: int, column: Sequence[int], unplaced: Sequence[Lot], leaving: list[tuple[Member, Lot]], found: Placement
) -> None:
    number = sum(map(len, unplaced)) + len(leaving)
    if sum(column) != number:
        raise ValueError(f"expected places for {number} endpoints of zone {zone}, got {sum(column)}")
    # Home first: the first by identity stay in their own zone.
    order = [each for each in (zone, *(group for group in range(len(column)) if group != zone)) if column[each]]
    if len(order) == 1:
        for lot in unplaced:
            found.whole[lot] = order[0]
            found.parts[lot, order[0]] = len(lot)
        everybody = leaving
    else:
        everybody = [(member, lot) for lot in unplaced for member in lot.in_order()] + leaving
        everybody.sort(key=_identity)
    groups = (group for group in order for _ in range(column[group]))
    for (member, lot), group in zip(everybody, groups, strict=False):
        found.apart[member] = group
        found.parts[lot, group] = found.parts.get((lot, group), 0) + 1


def _by_cell(lots: Iterable[Lot]) -> dict[tuple[int, int], list[Lot]]:
    found: dict[tuple[int, int], list[Lot]] = {}
    for lot in lots:
        found.setdefault((lot.home, lot.before), []).append(lot)
    return found


def _last(alike: Sequence[Lot], stay: int) -> list[tuple[Member, Lot]]:
    """All but the first so many by identity, each beside its lot."""
    if len(alike) == 1:
        return [(member, alike[0]) for member in alike[0].in_order()[stay:]]
    return sorted(((member, lot) for lot in alike for member in lot.in_order()), key=_identity)[stay:]


def _identity(pair: tuple[Member, Lot]) -> EndpointIdentity:
    return pair[0].identity
