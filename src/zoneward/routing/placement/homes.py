"""The home of each endpoint: the zone where a decision about slice groups starts with it.

The home of an endpoint is its own zone. An endpoint without a zone, or in a zone where no traffic starts, gets the zone
in greatest need as its home: the one with the most expected endpoints beyond those located there. It keeps this home
while it has a group. The algorithms only see homes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from zoneward.routing.decision_context import DecisionContext
from zoneward.routing.demand import Demand
from zoneward.routing.placement.endpoint_index import Bucket, IndexedEndpoint, count_and_first_names
from zoneward.routing.placement.groups import EVERY_ZONE, ZoneGroup, restrict_to_zones
from zoneward.routing.placement.placement import PlacementUnit
from zoneward.routing.rules import describe_without


class Home(msgspec.Struct, frozen=True):
    """The home of endpoints that are alike.

    ``previous_group`` is the group they were in, ``remaining_group`` the same without zones that are gone.
    """

    members: Bucket | IndexedEndpoint
    zone: int
    previous_group: ZoneGroup | None
    remaining_group: ZoneGroup | None

    def __len__(self) -> int:
        return len(self.members) if isinstance(self.members, Bucket) else 1

    def unit(self, number_of: Mapping[tuple[str, ...], int]) -> PlacementUnit:
        """These endpoints for a placement. ``number_of`` numbers the groups by their zones; an endpoint of a group that
        no longer exists is new."""
        group = self.remaining_group
        number = number_of.get(group.zones, -1) if group is not None else -1
        return PlacementUnit(self.members, self.zone, number)


@dataclass(frozen=True, slots=True)
class Homes:
    """The homes of all endpoints, as indices into ``zones``.

    ``supply`` counts the ready endpoints by home. ``remaining_groups`` has every group that the existing slices have
    endpoints in, by its ``id``, without zones that are gone.
    """

    demand: Demand
    zones: tuple[str, ...]
    weights: tuple[int, ...]
    ready: tuple[Home, ...]
    unready: tuple[Home, ...]
    remaining_groups: Mapping[int, ZoneGroup | None]
    supply: tuple[int, ...]


def homes_of(context: DecisionContext, demand: Demand, zones: tuple[str, ...], *, kept: bool) -> Homes:
    """Give every endpoint a home among some zones.

    ``kept``: the same decision made the groups in force. Otherwise an endpoint that all zones consumed was in no group.
    """
    index = {zone: number for number, zone in enumerate(zones)}
    everybody = ZoneGroup(zones, (1.0,) * len(zones)) if kept else None
    remaining: dict[int, ZoneGroup | None] = {}
    for previous in context.endpoint_index.previous_groups():
        if id(previous) not in remaining:
            remaining[id(previous)] = everybody if previous is EVERY_ZONE else restrict_to_zones(previous, index)

    def at_home(members: Bucket | IndexedEndpoint, zone: int) -> Home:
        group = None if members.previous_group is EVERY_ZONE and not kept else members.previous_group
        return Home(members, zone, group, remaining[id(group)] if group is not None else None)

    def group_of_homeless(bucket: Bucket) -> ZoneGroup | None:
        return at_home(bucket, -1).remaining_group if bucket.previous_group is not EVERY_ZONE else None

    supply = [0] * len(zones)
    ready: list[Home] = []
    homeless = []
    for bucket in context.endpoint_index.ready_buckets():
        if bucket.zone in index:
            ready.append(at_home(bucket, index[bucket.zone]))
            supply[index[bucket.zone]] += len(bucket)
        else:
            homeless.append(bucket)
    if homeless:
        number, names = count_and_first_names(homeless)
        detail = describe_without(names, "endpoint", "zone where traffic starts", number=number)
        context.rules.record("endpoint-zones", True, f"{detail}: to the zone in greatest need")
    weights = tuple(demand.reduced.get(zone, 0) for zone in zones)

    new: list[IndexedEndpoint] = []
    for bucket in homeless:
        group = group_of_homeless(bucket)
        if group is None:
            new.extend(bucket.members)
            continue
        # An endpoint that has a group keeps its home there.
        ready.append(at_home(bucket, index[group.zones[0]]))
        supply[ready[-1].zone] += len(bucket)
    for member in sorted(new, key=attrgetter("identity")):
        ready.append(at_home(member, neediest(weights, supply, context.ready_count)))
        supply[ready[-1].zone] += 1
    unready = []
    for bucket in context.endpoint_index.unready_buckets():
        if bucket.zone in index:
            zone = index[bucket.zone]
        else:
            group = group_of_homeless(bucket)
            # They do not count: all of them get the home of the next endpoint.
            zone = index[group.zones[0]] if group is not None else neediest(weights, supply, context.ready_count)
        unready.append(at_home(bucket, zone))
    return Homes(demand, zones, weights, tuple(ready), tuple(unready), remaining, tuple(supply))


def neediest(weights: Sequence[int], located: Sequence[int], total: int) -> int:
    """The zone that expects most beyond what is located there; the first by name among equals."""
    everything = sum(weights)
    return max(
        range(len(weights)), key=lambda zone: (total * weights[zone] - located[zone] * max(everything, 1), -zone)
    )
