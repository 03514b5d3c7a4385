"""local: every zone its own group, filled from zones that have more than they need (KEP-2004 § Local).

It follows the prose to its end; `zoneward.routing.algorithms.local_kep_tool` ends as the proposal's tool does. Where
the prose is silent, the tool decides (``docs/subsetting.md`` § The algorithms). The starting threshold is checked
before.
"""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.endpoint_moves import MoveRoom, lift_to_minimum, min_endpoints_below, place_all_at_home
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence, part


def local(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    previous: IntegerSequence,  # noqa: ARG001 -- placement decides who stays in which group
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """First lift every zone below the threshold, then every zone to the floor of what it expects.

    Impossible where some zone cannot be lifted below the threshold: the proposal then downgrades to one group for all.
    Zones that cannot be lifted to the floor stay where they are.
    """
    zones = len(demand)
    room = local_room(scratch, reals, zones)
    if lift_below_threshold(demand, supply, parameters, composition, weights, room) < 0:
        return IMPOSSIBLE
    total = 0
    total_demand = 0
    for zone in range(zones):
        total += supply[zone]
        total_demand += demand[zone]
    for zone in range(zones):
        # A zone that has more than it expects has more than its floor, and keeps that.
        room.fewest[zone] = max(room.fewest[zone], total * demand[zone] // total_demand)
    lift_to_minimum(zones, composition, room)
    return zones


def local_room(scratch: MutableSequence[int], reals: MutableSequence[float], zones: int) -> MoveRoom:
    """Room that no step has written yet."""
    return MoveRoom(
        count=scratch[part(0, zones)],
        fewest=scratch[part(1, zones)],
        givers=scratch[part(2, zones)],
        receivers=scratch[part(3, zones)],
        share=reals[part(0, zones)],
    )


def lift_below_threshold(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    room: MoveRoom,
) -> int:
    """Put every endpoint into its own zone's group, then lift every zone below the threshold; returns how many queued
    zones can still give more, or `IMPOSSIBLE`."""
    zones = len(demand)
    limit = parameters[0] / parameters[1]
    total = place_all_at_home(demand, supply, composition, weights, room.count, room.share)
    if total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        room.fewest[zone] = min_endpoints_below(limit, total * room.share[zone])
    return lift_to_minimum(zones, composition, room)
