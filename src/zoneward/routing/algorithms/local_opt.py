"""local-opt: zones keep whole endpoints, and one group for all zones takes the rest (KEP-2004 § Local-Opt)."""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.endpoint_moves import place_all_at_home
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence


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
    count, share = scratch, reals
    total = place_all_at_home(demand, supply, composition, weights, count, share)
    if total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        weights[shared * zones + zone] = 1 / zones
        if count[zone] - total * share[zone] > 0:
            keeps = int(total * share[zone])
            composition[zone * zones + zone] = keeps
            composition[shared * zones + zone] = count[zone] - keeps
    for zone in range(zones):
        # Zero for a zone that had more than it needs.
        lacks = int(total * share[zone] - count[zone])
        for located in range(zones):
            taken = min(max(lacks, 0), composition[shared * zones + located])
            composition[shared * zones + located] -= taken
            composition[zone * zones + located] += taken
            lacks -= taken
    return zones + 1
