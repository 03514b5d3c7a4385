"""The home of each endpoint: the zone where a decision about slice groups starts with it.

The home of an endpoint is its own zone. An endpoint without a zone, or in a zone where no traffic starts, gets the zone
in greatest need as its home: the one with the most expected endpoints beyond those located there. It keeps this home
while it has a group. The algorithms only see homes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

from zoneward.routing.allocation import Zones
from zoneward.routing.decision_context import DecisionContext
from zoneward.routing.demand import Demand
from zoneward.routing.phrases import describe_without
from zoneward.routing.placement.endpoint_index import Bucket, IndexedEndpoint, count_and_first_names
from zoneward.routing.placement.groups import EVERY_ZONE, ZoneGroup, restrict_to_zones
from zoneward.routing.placement.placement import Pool


@dataclass(frozen=True, slots=True)
class Homes:
    """The homes of all endpoints.

    ``weights`` is the demand of the ``zones``. ``supply`` counts the ready endpoints by home. ``groups`` are the groups
    that endpoints were in, without zones that are gone.
    """

    demand: Demand
    zones: Zones
    weights: Mapping[str, int]
    ready: tuple[Pool, ...]
    unready: tuple[Pool, ...]
    groups: tuple[ZoneGroup, ...]
    supply: Mapping[str, int]


def homes_of(context: DecisionContext, demand: Demand, zones: Zones, *, in_force: bool) -> Homes:
    """Give every endpoint a home among some zones.

    ``in_force``: the same decision made the groups in force. Otherwise an endpoint that all zones consumed was in no
    group.
    """
    everybody = ZoneGroup(zones, (1.0,) * len(zones)) if in_force else None
    remaining: dict[int, ZoneGroup | None] = {}
    for previous in context.endpoint_index.previous_groups():
        if id(previous) not in remaining:
            remaining[id(previous)] = everybody if previous is EVERY_ZONE else restrict_to_zones(previous, zones)

    def pool(members: Bucket | IndexedEndpoint, home: str) -> Pool:
        group = None if members.previous_group is None else remaining[id(members.previous_group)]
        return Pool(members, home, None if group is None else group.zones)

    def home_by_group(bucket: Bucket) -> str | None:
        """An endpoint that has a group keeps its home there."""
        previous = bucket.previous_group
        group = None if previous is None or previous is EVERY_ZONE else remaining[id(previous)]
        return None if group is None else group.zones[0]

    supply = dict.fromkeys(zones, 0)
    ready: list[Pool] = []
    homeless = []
    for bucket in context.endpoint_index.ready_buckets():
        if bucket.zone in supply:
            ready.append(pool(bucket, bucket.zone))
            supply[bucket.zone] += len(bucket)
        else:
            homeless.append(bucket)
    if homeless:
        count, names = count_and_first_names(homeless)
        detail = describe_without(names, "endpoint", "zone where traffic starts", count=count)
        context.rules.record("endpoint-zones", True, f"{detail}: to the zone in greatest need")
    weights = {zone: demand.reduced.get(zone, 0) for zone in zones}

    new: list[IndexedEndpoint] = []
    for bucket in homeless:
        home = home_by_group(bucket)
        if home is None:
            new.extend(bucket.members)
            continue
        ready.append(pool(bucket, home))
        supply[home] += len(bucket)
    for member in sorted(new, key=attrgetter("identity")):
        home = neediest_zone(weights, supply, context.ready_count)
        ready.append(pool(member, home))
        supply[home] += 1
    unready = []
    for bucket in context.endpoint_index.unready_buckets():
        # Those without a home do not count: all of them get the home of the next endpoint.
        home = bucket.zone if bucket.zone in supply else home_by_group(bucket)
        unready.append(pool(bucket, home or neediest_zone(weights, supply, context.ready_count)))
    groups = tuple(group for group in remaining.values() if group is not None)
    return Homes(demand, zones, weights, tuple(ready), tuple(unready), groups, supply)


def neediest_zone(weights: Mapping[str, int], located: Mapping[str, int], total: int) -> str:
    """The zone that expects most beyond what is located there; the first of equals."""
    everything = max(sum(weights.values()), 1)
    return max(weights, key=lambda zone: total * weights[zone] - located[zone] * everything)
