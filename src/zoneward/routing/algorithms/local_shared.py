"""local-shared: as local, but zones that have too few endpoints share a group (KEP-2004 § Local-Shared).

The order of the steps is that of the proposal's tool (``docs/subsetting.md`` § The algorithms).
"""

from collections.abc import MutableSequence, Sequence
from math import ceil, floor

from zoneward.routing.algorithms.endpoint_moves import (
    MoveRoom,
    give_endpoints,
    min_endpoints_below,
    move_endpoint,
    place_all_at_home,
    queue_zones,
    surplus,
)
from zoneward.routing.algorithms.local import local_room
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence, part
from zoneward.routing.algorithms.zone_heaps import GIVERS, RECEIVERS, heapify, pop, push


def local_shared(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    previous: IntegerSequence,  # noqa: ARG001 -- placement decides who stays in which group
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """Two groups may be shared: one by all zones without endpoints, one by zones that stay overloaded.

    Impossible with fewer endpoints than zones, and where the other zones cannot give enough.
    """
    zones = len(demand)
    limit = parameters[0] / parameters[1]
    merged, pooled = zones, zones + 1
    room = local_room(scratch, reals, zones)
    count, share, givers, receivers = room.count, room.share, room.givers, room.receivers
    overloaded = scratch[part(4, zones)]
    total = place_all_at_home(demand, supply, composition, weights, count, share)
    if total < zones:
        return IMPOSSIBLE
    count[merged] = 0
    count[pooled] = 0
    for zone in range(zones):
        room.fewest[zone] = min_endpoints_below(limit, total * share[zone])
    giving = queue_zones(GIVERS, givers, zones, room)

    target = _merge_target(zones, total, supply, share)
    giving = give_endpoints(merged, target, giving, zones, composition, room)
    if giving < 0:
        return IMPOSSIBLE
    for zone in range(zones):
        if supply[zone] == 0:
            weights[zone * zones + zone] = 0.0
            weights[merged * zones + zone] = 1.0

    for zone in range(zones):
        if supply[zone] > 0:
            # What it lacked at the start: a zone that gave to the merged group gets nothing back.
            lacking = int(total * share[zone] - supply[zone])
            giving = give_endpoints(zone, lacking, giving, zones, composition, room)
            if giving < 0:
                return IMPOSSIBLE

    receiving = 0
    for zone in range(zones):
        if supply[zone] > 0:
            receivers[receiving] = zone
            receiving += 1
    heapify(RECEIVERS, receivers, receiving, share, count)
    overloaded_zones = 0
    while receiving > 0 and count[receivers[0]] < room.fewest[receivers[0]]:
        overloaded[overloaded_zones] = pop(RECEIVERS, receivers, receiving, share, count)
        receiving -= 1
        overloaded_zones += 1
    if overloaded_zones > 0:
        giving = _relieve(overloaded, overloaded_zones, giving, zones, total, limit, composition, weights, room)
        if giving < 0:
            return IMPOSSIBLE

    # Queues are not sifted again when counts change, so only this bound guarantees an end. No known input needs as many
    # steps.
    for _ in range(total):
        if giving == 0 or receiving == 0:
            break
        giver = pop(GIVERS, givers, giving, share, count)
        giving -= 1
        if surplus(giver, total, share, count) < 1:
            break
        receiver = pop(RECEIVERS, receivers, receiving, share, count)
        move_endpoint(giver, receiver, zones, composition, count)
        push(RECEIVERS, receivers, receiving - 1, receiver, share, count)
        if count[giver] > room.fewest[giver]:
            push(GIVERS, givers, giving, giver, share, count)
            giving += 1
    return zones + 2


def _merge_target(zones: int, total: int, supply: IntegerSequence, share: Sequence[float]) -> int:
    """Endpoints that the zones without any get together."""
    expected = 0.0
    for zone in range(zones):
        if supply[zone] == 0:
            expected += total * share[zone]
    if expected < 1:
        return ceil(expected)
    # Half away from zero, after a step that keeps 1.4999 from being left with one endpoint.
    return floor(ceil(1000 * expected) / 1000 + 0.5)


def _relieve(
    overloaded: IntegerSequence,
    overloaded_zones: int,
    giving: int,
    zones: int,
    total: int,
    limit: float,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    room: MoveRoom,
) -> int:
    """Help the first ``overloaded_zones`` of the overloaded zones; returns how many givers are left, or -1.

    Each gets one endpoint from givers that have one to spare; if these are too few, the zones pool their endpoints and
    draw more.
    """
    pooled = zones + 1
    count, share = room.count, room.share
    helped = 0
    while helped < overloaded_zones and giving > 0 and surplus(room.givers[0], total, share, count) >= 1:
        zone = overloaded[helped]
        giving = give_endpoints(zone, 1, giving, zones, composition, room)
        helped += 1
    if helped == overloaded_zones:
        return giving
    for position in range(overloaded_zones):
        zone = overloaded[position]
        count[pooled] += count[zone]
        count[zone] = 0
        for located in range(zones):
            composition[pooled * zones + located] += composition[zone * zones + located]
            composition[zone * zones + located] = 0
        weights[zone * zones + zone] = 0.0
        weights[pooled * zones + zone] = 1.0
    while giving >= 0 and _pooled_load(overloaded, overloaded_zones, total, count[pooled], share) - 1 >= limit:
        giving = give_endpoints(pooled, 1, giving, zones, composition, room)
    return giving


def _pooled_load(
    overloaded: IntegerSequence, overloaded_zones: int, total: int, count: int, share: Sequence[float]
) -> float:
    """The expected endpoints of the pooling zones, per endpoint of the pool. Adds quotients, as the proposal's tool."""
    load = 0.0
    for position in range(overloaded_zones):
        load += total * share[overloaded[position]] / count
    return load
