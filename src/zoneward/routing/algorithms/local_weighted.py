"""local-weighted: exactly what each zone expects, by weights for fractions of endpoints (KEP-2004 § Local-Weighted)."""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.endpoint_moves import place_all_at_home
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence, part


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
    whole = scratch[part(1, zones)]
    share, fraction, needed = reals[part(0, zones)], reals[part(1, zones)], reals[part(2, zones)]
    total = place_all_at_home(demand, supply, composition, weights, scratch, share)
    if total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        spare = supply[zone] - total * share[zone]
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
