"""local-shared: as local, but zones that have too few endpoints share a group (KEP-2004 § Local-Shared).

The order of the steps is that of the proposal's tool (``docs/subsetting.md`` § The algorithms).
"""

from collections.abc import MutableSequence, Sequence
from math import ceil, floor

from zoneward.routing.algorithms.endpoint_moves import (
    give_endpoints,
    min_endpoints_below,
    move_endpoint,
    place_all_at_home,
    queue_zones,
    surplus,
)
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence
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
    count, share = scratch, reals
    fewest, givers, receivers, overloaded = _scratch_layout(zones)
    total = place_all_at_home(demand, supply, composition, weights, count, share)
    if total < zones:
        return IMPOSSIBLE
    count[merged] = 0
    count[pooled] = 0
    for zone in range(zones):
        scratch[fewest + zone] = min_endpoints_below(limit, total * share[zone])
    giving = queue_zones(GIVERS, givers, fewest, zones, scratch, share)

    target = _merge_target(zones, total, supply, share)
    giving = give_endpoints(merged, target, giving, givers, fewest, zones, composition, scratch, share)
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
            giving = give_endpoints(zone, lacking, giving, givers, fewest, zones, composition, scratch, share)
            if giving < 0:
                return IMPOSSIBLE

    receiving = 0
    for zone in range(zones):
        if supply[zone] > 0:
            scratch[receivers + receiving] = zone
            receiving += 1
    heapify(RECEIVERS, scratch, receivers, receiving, share, count)
    overloaded_zones = 0
    while receiving > 0 and count[scratch[receivers]] < scratch[fewest + scratch[receivers]]:
        scratch[overloaded + overloaded_zones] = pop(RECEIVERS, scratch, receivers, receiving, share, count)
        receiving -= 1
        overloaded_zones += 1
    if overloaded_zones > 0:
        giving = _relieve(overloaded_zones, giving, zones, total, limit, composition, weights, scratch, share)
        if giving < 0:
            return IMPOSSIBLE

    # Queues are not sifted again when counts change, so only this bound guarantees an end. No known input needs as many
    # steps.
    for _ in range(total):
        if giving == 0 or receiving == 0:
            break
        giver = pop(GIVERS, scratch, givers, giving, share, count)
        giving -= 1
        if surplus(giver, total, share, count) < 1:
            break
        receiver = pop(RECEIVERS, scratch, receivers, receiving, share, count)
        move_endpoint(giver, receiver, zones, composition, count)
        push(RECEIVERS, scratch, receivers, receiving - 1, receiver, share, count)
        if count[giver] > scratch[fewest + giver]:
            push(GIVERS, scratch, givers, giving, giver, share, count)
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


def _scratch_layout(zones: int) -> tuple[int, int, int, int]:
    """Where parts of the scratch space begin: after the counts of the own groups and the two shared ones, what each
    zone must have, then the queues of givers and receivers, then the overloaded zones."""
    return zones + 2, 2 * zones + 2, 3 * zones + 2, 4 * zones + 2


def _relieve(
    overloaded_zones: int,
    giving: int,
    zones: int,
    total: int,
    limit: float,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    share: Sequence[float],
) -> int:
    """Help the first ``overloaded_zones`` zones of the scratch space; returns how many givers are left, or -1.

    Each gets one endpoint from givers that have one to spare; if these are too few, the zones pool their endpoints and
    draw more.
    """
    pooled = zones + 1
    fewest, givers, _, overloaded = _scratch_layout(zones)
    helped = 0
    while helped < overloaded_zones and giving > 0 and surplus(scratch[givers], total, share, scratch) >= 1:
        zone = scratch[overloaded + helped]
        giving = give_endpoints(zone, 1, giving, givers, fewest, zones, composition, scratch, share)
        helped += 1
    if helped == overloaded_zones:
        return giving
    for position in range(overloaded_zones):
        zone = scratch[overloaded + position]
        scratch[pooled] += scratch[zone]
        scratch[zone] = 0
        for located in range(zones):
            composition[pooled * zones + located] += composition[zone * zones + located]
            composition[zone * zones + located] = 0
        weights[zone * zones + zone] = 0.0
        weights[pooled * zones + zone] = 1.0
    while giving >= 0 and _pooled_load(overloaded_zones, overloaded, pooled, total, scratch, share) - 1 >= limit:
        giving = give_endpoints(pooled, 1, giving, givers, fewest, zones, composition, scratch, share)
    return giving


def _pooled_load(
    overloaded_zones: int, overloaded: int, pooled: int, total: int, scratch: IntegerSequence, share: Sequence[float]
) -> float:
    """The expected endpoints of the pooling zones, per endpoint of the pool. Adds quotients, as the proposal's tool."""
    load = 0.0
    for position in range(overloaded_zones):
        load += total * share[scratch[overloaded + position]] / scratch[pooled]
    return load
