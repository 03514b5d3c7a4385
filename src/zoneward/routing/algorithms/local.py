"""The algorithms for slice groups (KEP-2004 § Local and the sections after it).

- `local`: every zone its own group, filled from zones that have more than they need. It follows the prose to its end.
- `local_kep_tool`: `local` as the proposal's tool computes it, which made the proposal's table. For the lab alone.
- `local_shared`: as `local`, but zones that have too few endpoints share a group.
- `local_weighted`: exactly what each zone expects, by weights for fractions of endpoints.
- `local_opt`: zones keep whole endpoints, and one group for all zones takes the rest.

Where the prose is silent, the tool decides (``docs/subsetting.md`` § The algorithms); the order of steps is the tool's.
The starting threshold is checked before.

`rebalance_lazily` makes only an update, as long as it overloads no endpoint (KEP-2004 § Optimizations), with any groups
of any algorithm. Endpoints stay in their groups; leaving ones just leave; new ones are added, one after the other, to
the group in greatest need: its expected endpoints (total endpoints times the traffic it gets) minus those it has. In a
rollout that is the group that another endpoint is just leaving, so that one slice changes and not two.
"""

from collections.abc import MutableSequence, Sequence
from math import ceil, floor

from zoneward.routing.algorithms.endpoint_moves import (
    GIVERS,
    RECEIVERS,
    MoveRoom,
    give_endpoints,
    heapify,
    lift_to_minimum,
    min_endpoints_below,
    move_endpoint,
    move_endpoints,
    place_all_at_home,
    pop,
    push,
    queue_zones,
    spare_endpoints,
    surplus,
)
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
    room = place_all_at_home(demand, supply, composition, weights, scratch, reals)
    if _lift_below_threshold(parameters, room) < 0:
        return IMPOSSIBLE
    total_demand = 0
    for zone in range(zones):
        total_demand += demand[zone]
    for zone in range(zones):
        # A zone that has more than it expects has more than its floor, and keeps that.
        room.fewest[zone] = max(room.fewest[zone], room.total * demand[zone] // total_demand)
    lift_to_minimum(room)
    return zones


def _lift_below_threshold(parameters: IntegerSequence, room: MoveRoom) -> int:
    """Lift every zone below the threshold; returns how many queued zones can still give more, or `IMPOSSIBLE`."""
    if room.total == 0:
        return IMPOSSIBLE
    _write_fewest(parameters, room)
    return lift_to_minimum(room)


def _write_fewest(parameters: IntegerSequence, room: MoveRoom) -> None:
    """Write how many endpoints each zone needs below the threshold."""
    limit = parameters[0] / parameters[1]
    for zone in range(room.zones):
        room.fewest[zone] = min_endpoints_below(limit, room.total * room.share[zone])


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
    room = place_all_at_home(demand, supply, composition, weights, scratch, reals)
    giving = _lift_below_threshold(parameters, room)
    if giving < 0:
        return IMPOSSIBLE
    for zone in range(zones):
        room.receivers[zone] = zone
    heapify(RECEIVERS, zones, room)
    while giving > 0:
        giver = pop(GIVERS, giving, room)
        giving -= 1
        if spare_endpoints(giver, room) <= 0:
            return zones
        while spare_endpoints(giver, room) > 0:
            receiver = pop(RECEIVERS, zones, room)
            lacking = int(room.total * room.share[receiver]) - room.count[receiver]
            moved = min(spare_endpoints(giver, room), lacking)
            if moved <= 0:
                return zones
            move_endpoints(moved, giver, receiver, room)
            push(RECEIVERS, zones - 1, receiver, room)
    return zones


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
    merged, pooled = zones, zones + 1
    overloaded = scratch[part(4, zones)]
    room = place_all_at_home(demand, supply, composition, weights, scratch, reals)
    count, receivers = room.count, room.receivers
    if room.total < zones:
        return IMPOSSIBLE
    count[merged] = 0
    count[pooled] = 0
    _write_fewest(parameters, room)
    giving = queue_zones(GIVERS, room)

    giving = give_endpoints(merged, _merge_target(supply, room), giving, room)
    if giving < 0:
        return IMPOSSIBLE
    for zone in range(zones):
        if supply[zone] == 0:
            weights[zone * zones + zone] = 0.0
            weights[merged * zones + zone] = 1.0

    for zone in range(zones):
        if supply[zone] > 0:
            # What it lacked at the start: a zone that gave to the merged group gets nothing back.
            giving = give_endpoints(zone, int(room.total * room.share[zone] - supply[zone]), giving, room)
            if giving < 0:
                return IMPOSSIBLE

    receiving = 0
    for zone in range(zones):
        if supply[zone] > 0:
            receivers[receiving] = zone
            receiving += 1
    heapify(RECEIVERS, receiving, room)
    overloaded_zones = 0
    while receiving > 0 and count[receivers[0]] < room.fewest[receivers[0]]:
        overloaded[overloaded_zones] = pop(RECEIVERS, receiving, room)
        receiving -= 1
        overloaded_zones += 1
    if overloaded_zones > 0:
        giving = _relieve(overloaded, overloaded_zones, giving, parameters, weights, room)
        if giving < 0:
            return IMPOSSIBLE

    # Queues are not sifted again when counts change, so only this bound guarantees an end. No known input needs as many
    # steps.
    for _ in range(room.total):
        if giving == 0 or receiving == 0:
            break
        giver = pop(GIVERS, giving, room)
        giving -= 1
        if surplus(giver, room) < 1:
            break
        receiver = pop(RECEIVERS, receiving, room)
        move_endpoint(giver, receiver, room)
        push(RECEIVERS, receiving - 1, receiver, room)
        if count[giver] > room.fewest[giver]:
            push(GIVERS, giving, giver, room)
            giving += 1
    return zones + 2


def _merge_target(supply: IntegerSequence, room: MoveRoom) -> int:
    """Endpoints that the zones without any get together."""
    expected = 0.0
    for zone in range(room.zones):
        if supply[zone] == 0:
            expected += room.total * room.share[zone]
    if expected < 1:
        return ceil(expected)
    # Half away from zero, after a step that keeps 1.4999 from being left with one endpoint.
    return floor(ceil(1000 * expected) / 1000 + 0.5)


def _relieve(
    overloaded: IntegerSequence,
    overloaded_zones: int,
    giving: int,
    parameters: IntegerSequence,
    weights: MutableSequence[float],
    room: MoveRoom,
) -> int:
    """Help the first ``overloaded_zones`` of the overloaded zones; returns how many givers are left, or -1.

    Each gets one endpoint from givers that have one to spare; if these are too few, the zones pool their endpoints and
    draw more.
    """
    zones, composition, count = room.zones, room.composition, room.count
    pooled = zones + 1
    helped = 0
    while helped < overloaded_zones and giving > 0 and surplus(room.givers[0], room) >= 1:
        giving = give_endpoints(overloaded[helped], 1, giving, room)
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
    limit = parameters[0] / parameters[1]
    while giving >= 0 and _pooled_load(overloaded, overloaded_zones, room) - 1 >= limit:
        giving = give_endpoints(pooled, 1, giving, room)
    return giving


def _pooled_load(overloaded: IntegerSequence, overloaded_zones: int, room: MoveRoom) -> float:
    """The expected endpoints of the pooling zones, per endpoint of the pool. Adds quotients, as the proposal's tool."""
    load = 0.0
    for position in range(overloaded_zones):
        load += room.total * room.share[overloaded[position]] / room.count[room.zones + 1]
    return load


def local_weighted(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,  # noqa: ARG001 -- no endpoint is overloaded, so there is no threshold
    previous: IntegerSequence,  # noqa: ARG001 -- placement decides who stays in which group
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """Whole endpoints first; then a group of one endpoint for every fraction that a zone has to spare.

    Such an endpoint serves its own zone with the part that is left and zones in need with the rest. Whole endpoints
    that no zone needs whole form a group for each zone that has some. Comparisons with 0 are exact, as in the
    proposal's tool.
    """
    zones = len(demand)
    # Whole endpoints to spare (negative: in need), and the fractions beside them.
    whole = scratch[part(4, zones)]
    fraction, needed = reals[part(1, zones)], reals[part(2, zones)]
    room = place_all_at_home(demand, supply, composition, weights, scratch, reals)
    if room.total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        spare = supply[zone] - room.total * room.share[zone]
        whole[zone] = int(spare)
        fraction[zone] = spare - whole[zone]
        if spare > 0:
            composition[zone * zones + zone] -= whole[zone]
            if fraction[zone] > 0:
                composition[zone * zones + zone] -= 1
    for zone in range(zones):
        for located in range(zones):
            taken = min(max(-whole[zone], 0), max(whole[located], 0))
            whole[located] -= taken
            whole[zone] += taken
            composition[zone * zones + located] += taken

    for zone in range(zones):
        needed[zone] = float(max(-whole[zone], 0))
    # A zone that spares nothing has no group here, and fewer zones have whole endpoints left than need fractions of
    # them: together with the own groups these are at most two for each zone.
    group = zones
    for zone in range(zones):
        if fraction[zone] > 0:
            composition[group * zones + zone] = 1
            weights[group * zones + zone] = 1 - fraction[zone]
            _serve(group, 1, fraction[zone], zones, weights, fraction, needed)
            group += 1
    for zone in range(zones):
        if whole[zone] > 0:
            composition[group * zones + zone] = whole[zone]
            _serve(group, whole[zone], float(whole[zone]), zones, weights, fraction, needed)
            group += 1
    return group


def _serve(
    group: int,
    endpoints: int,
    rest: float,
    zones: int,
    weights: MutableSequence[float],
    fraction: MutableSequence[float],
    needed: MutableSequence[float],
) -> None:
    """Give ``rest`` of a group's ``endpoints`` to zones in need, in their order: first to those that need a
    fraction, then to those that still need whole ones."""
    for zone in range(zones):
        if rest > 0 and fraction[zone] < 0:
            part = min(rest, -fraction[zone])
            weights[group * zones + zone] += part / endpoints
            fraction[zone] += part
            rest -= part
    for zone in range(zones):
        if rest > 0 and needed[zone] > 0:
            part = min(rest, needed[zone])
            weights[group * zones + zone] += part / endpoints
            needed[zone] -= part
            rest -= part


def local_opt(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,  # noqa: ARG001 -- it has no threshold
    previous: IntegerSequence,  # noqa: ARG001 -- placement decides who stays in which group
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """Zones keep and take whole endpoints up to what they expect; the rest serves all zones, with weight 1/zones."""
    zones = len(demand)
    shared = zones
    room = place_all_at_home(demand, supply, composition, weights, scratch, reals)
    if room.total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        weights[shared * zones + zone] = 1 / zones
        if surplus(zone, room) > 0:
            keeps = int(room.total * room.share[zone])
            composition[zone * zones + zone] = keeps
            composition[shared * zones + zone] = supply[zone] - keeps
    for zone in range(zones):
        # Zero for a zone that had more than it needs.
        lacks = int(-surplus(zone, room))
        for located in range(zones):
            taken = min(max(lacks, 0), composition[shared * zones + located])
            composition[shared * zones + located] -= taken
            composition[zone * zones + located] += taken
            lacks -= taken
    return zones + 1


# --- lazy rebalance ---------------------------------------------------------------------------------------------------


def rebalance_lazily(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    groups: int,
    composition: MutableSequence[int],
    weights: Sequence[float],
    count: MutableSequence[int],
    spread: MutableSequence[float],
    share: MutableSequence[float],
) -> int:
    """Add the endpoints of ``supply`` that are in no group yet to ``composition``, which holds those that stay.

    ``weights`` are those of the ``groups`` groups as they are in force. ``count`` has room for a number per group,
    ``spread`` (the endpoints, by weight, over which a zone spreads its traffic) and ``share`` (of all demand) per zone.
    Returns the number of groups, or `IMPOSSIBLE` where the overload of an endpoint would reach the threshold, or a zone
    with demand would have nothing: then a full rebalance is due.
    """
    zones = len(demand)
    limit = parameters[0] / parameters[1]
    total_demand = 0
    total = 0
    for zone in range(zones):
        total_demand += demand[zone]
        total += supply[zone]
    if total_demand == 0 or total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        spread[zone] = 0.0
        share[zone] = demand[zone] / total_demand
    for group in range(groups):
        count[group] = 0
        for located in range(zones):
            count[group] += composition[group * zones + located]
        for zone in range(zones):
            spread[zone] += count[group] * weights[group * zones + zone]

    for located in range(zones):
        unplaced = supply[located]
        for group in range(groups):
            unplaced -= composition[group * zones + located]
        for _ in range(unplaced):
            group = _neediest(located, zones, groups, total, weights, count, spread, share)
            composition[group * zones + located] += 1
            count[group] += 1
            for zone in range(zones):
                spread[zone] += weights[group * zones + zone]

    for zone in range(zones):
        if demand[zone] > 0 and spread[zone] == 0:
            return IMPOSSIBLE
    for group in range(groups):
        if count[group] > 0 and total * _load(group, zones, weights, spread, share) - 1 >= limit:
            return IMPOSSIBLE
    return groups


def _neediest(
    located: int,
    zones: int,
    groups: int,
    total: int,
    weights: Sequence[float],
    count: IntegerSequence,
    spread: Sequence[float],
    share: Sequence[float],
) -> int:
    """The group in greatest need; among equals the one at home, then the first.

    At home is the own group, or, where that is empty, any that the zone consumes.
    """
    best = -1
    most = 0.0
    at_home = False
    for group in range(groups):
        if count[group] > 0:
            need = total * _load(group, zones, weights, spread, share) * count[group] - count[group]
        elif group < zones and spread[group] == 0:
            # All of the zone's traffic needs this group.
            need = total * share[group]
        else:
            continue
        serves_home = weights[group * zones + located] > 0
        if best < 0 or need > most or (need == most and serves_home and not at_home):
            best, most, at_home = group, need, serves_home
    return best


def _load(group: int, zones: int, weights: Sequence[float], spread: Sequence[float], share: Sequence[float]) -> float:
    """The share of all traffic that one endpoint of a group gets."""
    load = 0.0
    for zone in range(zones):
        if weights[group * zones + zone] > 0 and spread[zone] > 0:
            load += share[zone] * weights[group * zones + zone] / spread[zone]
    return load
