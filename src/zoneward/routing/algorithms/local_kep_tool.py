"""local-kep-tool: `local` as the proposal's tool computes it, which made the proposal's table (``docs/subsetting.md``
§ The algorithms). For the lab alone.

It ends earlier than the proposal's prose: when the zone that would give next has less than one endpoint to spare, or
when the most loaded zone lacks less than one, with any number in the others.
"""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.endpoint_moves import lacking_endpoints, move_endpoints, spare_endpoints
from zoneward.routing.algorithms.local import lift_below_threshold, local_room
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence
from zoneward.routing.algorithms.zone_heaps import GIVERS, RECEIVERS, heapify, pop, push


def local_kep_tool(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    previous: IntegerSequence,  # noqa: ARG001 -- as for `local`
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """First lift every zone below the threshold, then hand whole endpoints from zones with one to spare to zones that
    lack one. Impossible as `local` is."""
    zones = len(demand)
    room = local_room(scratch, reals, zones)
    giving = lift_below_threshold(demand, supply, parameters, composition, weights, room)
    if giving < 0:
        return IMPOSSIBLE
    count, share, givers, receivers = room.count, room.share, room.givers, room.receivers
    total = 0
    for zone in range(zones):
        total += supply[zone]
        receivers[zone] = zone
    heapify(RECEIVERS, receivers, zones, share, count)
    while giving > 0:
        giver = pop(GIVERS, givers, giving, share, count)
        giving -= 1
        if spare_endpoints(giver, total, share, count) <= 0:
            return zones
        while spare_endpoints(giver, total, share, count) > 0:
            receiver = pop(RECEIVERS, receivers, zones, share, count)
            moved = min(spare_endpoints(giver, total, share, count), lacking_endpoints(receiver, total, share, count))
            if moved <= 0:
                return zones
            move_endpoints(moved, giver, receiver, zones, composition, count)
            push(RECEIVERS, receivers, zones - 1, receiver, share, count)
    return zones
