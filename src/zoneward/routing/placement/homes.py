"""Where the endpoints of a decision about slice groups start.

An endpoint starts at home, in its own zone. One without a zone, or in a zone where no traffic starts, is given a home:
the zone in greatest need, expected endpoints minus those located there, and stays there while it has a group. The
algorithms only see homes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from zoneward.routing.case import Case
from zoneward.routing.demand import Demand
from zoneward.routing.placement.crowd import Cell, Member, named
from zoneward.routing.placement.groups import EVERY_ZONE, Group, among
from zoneward.routing.placement.placement import Lot
from zoneward.routing.rules import describe_without


@dataclass(frozen=True, slots=True)
class Home:
    """Where endpoints that are alike start; ``was`` is the group they were in, ``before`` what is left of it."""

    members: Cell | Member
    zone: int
    was: Group | None
    before: Group | None

    def __len__(self) -> int:
        return len(self.members) if isinstance(self.members, Cell) else 1

    def lot(self, number_of: Mapping[tuple[str, ...], int]) -> Lot:
        """For a placement into groups, by the zones that consume them; what was in one that is no more is new."""
        return Lot(self.members, self.zone, number_of.get(self.before.zones, -1) if self.before is not None else -1)


@dataclass(frozen=True, slots=True)
class Homes:
    """Where endpoints start: ``ready`` ones and the ``rest`` in lots, each with its home, an index into ``zones``.

    ``before`` has every group that the existing slices have endpoints in, by its ``id``, without zones that are gone.
    """

    demand: Demand
    zones: tuple[str, ...]
    weights: tuple[int, ...]
    ready: tuple[Home, ...]
    rest: tuple[Home, ...]
    before: Mapping[int, Group | None]
    supply: tuple[int, ...]


def homes_of(case: Case, demand: Demand, zones: tuple[str, ...], *, kept: bool) -> Homes:
    """Give every endpoint a home among some zones.

    ``kept``: the same decision made the groups in force. Otherwise an endpoint that all zones consumed was in no group.
    """
    index = {zone: number for number, zone in enumerate(zones)}
    everybody = Group(zones, (1.0,) * len(zones)) if kept else None
    before: dict[int, Group | None] = {}
    for was in case.crowd.befores():
        if id(was) not in before:
            before[id(was)] = everybody if was is EVERY_ZONE else among(was, index)

    def at_home(members: Cell | Member, zone: int) -> Home:
        was = None if members.before is EVERY_ZONE and not kept else members.before
        return Home(members, zone, was, before[id(was)] if was is not None else None)

    def group_of_homeless(cell: Cell) -> Group | None:
        return at_home(cell, -1).before if cell.before is not EVERY_ZONE else None

    supply = [0] * len(zones)
    ready: list[Home] = []
    homeless = []
    for cell in case.crowd.ready():
        if cell.zone in index:
            ready.append(at_home(cell, index[cell.zone]))
            supply[index[cell.zone]] += len(cell)
        else:
            homeless.append(cell)
    if homeless:
        number, names = named(homeless)
        detail = describe_without(names, "endpoint", "zone where traffic starts", number=number)
        case.rules.record("endpoint-zones", True, f"{detail}: to the zone in greatest need")
    weights = tuple(demand.reduced.get(zone, 0) for zone in zones)

    new: list[Member] = []
    for cell in homeless:
        group = group_of_homeless(cell)
        if group is None:
            new.extend(cell.members)
            continue
        # Who has a group stays at home there.
        ready.append(at_home(cell, index[group.zones[0]]))
        supply[ready[-1].zone] += len(cell)
    for member in sorted(new, key=attrgetter("identity")):
        ready.append(at_home(member, neediest(weights, supply, case.number)))
        supply[ready[-1].zone] += 1
    rest = []
    for cell in case.crowd.rest():
        if cell.zone in index:
            zone = index[cell.zone]
        else:
            group = group_of_homeless(cell)
            # They don't count: the next one that does takes the same place.
            zone = index[group.zones[0]] if group is not None else neediest(weights, supply, case.number)
        rest.append(at_home(cell, zone))
    return Homes(demand, zones, weights, tuple(ready), tuple(rest), before, tuple(supply))


def neediest(weights: Sequence[int], located: Sequence[int], total: int) -> int:
    """The zone that expects most beyond what is located there; the first by name among equals."""
    everything = sum(weights)
    return max(
        range(len(weights)), key=lambda zone: (total * weights[zone] - located[zone] * max(everything, 1), -zone)
    )
