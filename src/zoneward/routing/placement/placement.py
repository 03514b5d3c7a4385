"""Which concrete endpoints go into which group, moving as few as possible from where they were."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from zoneward.kube.objects import EndpointIdentity
from zoneward.routing.placement.endpoint_index import Bucket, IndexedEndpoint
from zoneward.routing.placement.groups import EVERY_ZONE, ZoneGroup


class PlacementUnit(msgspec.Struct, frozen=True, eq=False):
    """What a placement moves: the endpoints of a bucket, or one endpoint of it.

    ``home`` is the zone they start in and ``previous_group`` the group they were in, as indices; -1 for none.
    """

    members: Bucket | IndexedEndpoint
    home: int
    previous_group: int

    @property
    def zone(self) -> str:
        """The zone that they are located in; empty without one."""
        return self.members.zone if isinstance(self.members, Bucket) else self.members.endpoint.zone or ""

    def __len__(self) -> int:
        return len(self.members) if isinstance(self.members, Bucket) else 1

    def in_order(self) -> Sequence[IndexedEndpoint]:
        return self.members.in_order() if isinstance(self.members, Bucket) else (self.members,)


@dataclass(slots=True)
class Placement:
    """The group of each endpoint, as an index.

    ``unit_groups`` has the group of a unit, ``endpoint_groups`` that of endpoints that are in another group than their
    unit. ``part_sizes`` counts the endpoints of a unit in a group.
    """

    unit_groups: dict[PlacementUnit, int] = field(default_factory=dict)
    endpoint_groups: dict[IndexedEndpoint, int] = field(default_factory=dict)
    part_sizes: dict[tuple[PlacementUnit, int], int] = field(default_factory=dict)

    def count_moved(self, groups: Sequence[ZoneGroup], zones: Sequence[str], *, starts: bool) -> int:
        """The number of endpoints that serve other zones than before.

        One that was in no group served all zones. It counts where the decision ``starts``, and gives it to a group
        without its home; while a decision is in force, it is a new endpoint.
        """
        moved = 0
        for (unit, number), size in self.part_sizes.items():
            previous = unit.members.previous_group
            if unit.previous_group >= 0:
                differs = number != unit.previous_group
            elif previous is None or (starts and previous is EVERY_ZONE):
                differs = starts and zones[unit.home] not in groups[number].zones
            else:
                differs = previous is not EVERY_ZONE or len(groups[number].zones) < len(zones)
            moved += size if differs else 0
        return moved


def place(units: Iterable[PlacementUnit], counts: Sequence[int], zones: int) -> Placement:
    """Place every endpoint.

    ``counts`` has at ``group * zones + home`` the number of endpoints for each group, the zones' own groups first; the
    counts of a home add up to the endpoints that start there. Endpoints stay where they were as far as the counts
    allow. Their identities decide which ones leave, and where these go, so that the order of the input does not matter.
    """
    found = Placement()
    left = list(counts)
    unplaced: list[list[PlacementUnit]] = [[] for _ in range(zones)]
    leaving: list[list[tuple[IndexedEndpoint, PlacementUnit]]] = [[] for _ in range(zones)]
    for (zone, group), alike in _by_home_and_group(units).items():
        number = sum(map(len, alike))
        stay = min(number, left[group * zones + zone]) if group >= 0 else 0
        if not stay:
            unplaced[zone].extend(alike)
            continue
        left[group * zones + zone] -= stay
        for unit in alike:
            found.unit_groups[unit] = group
            found.part_sizes[unit, group] = len(unit)
        if stay < number:
            for member, unit in _last(alike, stay):
                found.part_sizes[unit, group] -= 1
                leaving[zone].append((member, unit))
    for zone in range(zones):
        _place_rest(zone, left[zone::zones], unplaced[zone], leaving[zone], found)
    return found


def with_guests_kept(counts: Sequence[int], previous: Sequence[int], zones: int) -> tuple[int, ...]:
    """An allocation that keeps as many guests as possible in the group that they were in.

    A guest is an endpoint in the group of another zone than its home. ``counts`` and ``previous`` have numbers at
    ``group * zones + home``, where each group belongs to one zone. Each zone keeps the number of its endpoints, and of
    its own ones among them; only the homes of its guests change. No zone both lends and borrows endpoints.
    """
    lent = [sum(counts[home::zones]) - counts[home * zones + home] for home in range(zones)]
    lacking = [sum(counts[zone * zones : (zone + 1) * zones]) - counts[zone * zones + zone] for zone in range(zones)]
    found = [count if position % zones == position // zones else 0 for position, count in enumerate(counts)]

    def keep(home: int, most: int, seen: set[int]) -> int:
        """Keep more endpoints of ``home`` where they were. Others make room for them: an augmenting path."""
        for zone in set(range(zones)) - {home} - seen:
            position = zone * zones + home
            room = min(most, previous[position] - found[position])
            if room <= 0:
                continue
            seen.add(zone)
            kept = min(room, lacking[zone])
            lacking[zone] -= kept
            for other in range(zones) if not kept else ():
                replacement = zone * zones + other
                if other != zone and found[replacement] and (kept := keep(other, min(room, found[replacement]), seen)):
                    found[replacement] -= kept
                    break
            if kept:
                found[position] += kept
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
    zone: int,
    column: Sequence[int],
    unplaced: Sequence[PlacementUnit],
    leaving: list[tuple[IndexedEndpoint, PlacementUnit]],
    found: Placement,
) -> None:
    number = sum(map(len, unplaced)) + len(leaving)
    if sum(column) != number:
        raise ValueError(f"expected places for {number} endpoints of zone {zone}, got {sum(column)}")
    # Home first: the first by identity stay in their own zone.
    order = [each for each in (zone, *(group for group in range(len(column)) if group != zone)) if column[each]]
    if len(order) == 1:
        for unit in unplaced:
            found.unit_groups[unit] = order[0]
            found.part_sizes[unit, order[0]] = len(unit)
        everybody = leaving
    else:
        everybody = [(member, unit) for unit in unplaced for member in unit.in_order()] + leaving
        everybody.sort(key=_identity)
    groups = (group for group in order for _ in range(column[group]))
    for (member, unit), group in zip(everybody, groups, strict=False):
        found.endpoint_groups[member] = group
        found.part_sizes[unit, group] = found.part_sizes.get((unit, group), 0) + 1


def _by_home_and_group(units: Iterable[PlacementUnit]) -> dict[tuple[int, int], list[PlacementUnit]]:
    found: dict[tuple[int, int], list[PlacementUnit]] = {}
    for unit in units:
        found.setdefault((unit.home, unit.previous_group), []).append(unit)
    return found


def _last(alike: Sequence[PlacementUnit], stay: int) -> list[tuple[IndexedEndpoint, PlacementUnit]]:
    """All but the first ``stay`` endpoints by identity, each with its unit."""
    if len(alike) == 1:
        return [(member, alike[0]) for member in alike[0].in_order()[stay:]]
    return sorted(((member, unit) for unit in alike for member in unit.in_order()), key=_identity)[stay:]


def _identity(pair: tuple[IndexedEndpoint, PlacementUnit]) -> EndpointIdentity:
    return pair[0].identity
