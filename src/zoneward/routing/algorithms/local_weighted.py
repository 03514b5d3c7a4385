"""local-weighted: exactly what each zone expects, by weights for fractions of endpoints (KEP-2004 § Local-Weighted)."""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.balance import all_at_home
from zoneward.routing.algorithms.results import IMPOSSIBLE, Integers


def local_weighted(
    demand: Integers,
    supply: Integers,
    parameters: Integers,  # noqa: ARG001 -- nobody is overloaded, so there is no threshold
    previous: Integers,  # noqa: ARG001 -- who stays in which group is `placement`'s part
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """Whole endpoints first; then a group of one endpoint for every fraction that a zone has to spare.

    Such an endpoint serves its own zone with the part that is left and zones in need with the rest. Whole endpoints
    that nobody needs whole form one last group. Comparisons with 0 are exact, as in the proposal's tool.
    """
    zones = len(demand)
    last = 2 * zones
    # Whole endpoints to spare (negative: in need), and the fractions beside them.
    whole = zones
    share, fraction, needed = reals, zones, 2 * zones
    total = all_at_home(demand, supply, composition, weights, scratch, share)
    if total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        spare = supply[zone] - total * share[zone]
        scratch[whole + zone] = int(spare)
        reals[fraction + zone] = spare - scratch[whole + zone]
        if spare > 0:
            composition[zone * zones + zone] -= scratch[whole + zone]
            if reals[fraction + zone] > 0:
                composition[zone * zones + zone] -= 1
    for zone in range(zones):
        for located in range(zones):
            taken = min(max(-scratch[whole + zone], 0), max(scratch[whole + located], 0))
            scratch[whole + located] -= taken
            scratch[whole + zone] += taken
            composition[zone * zones + located] += taken

    for zone in range(zones):
        reals[needed + zone] = float(max(-scratch[whole + zone], 0))
    for zone in range(zones):
        rest = reals[fraction + zone]
        if rest > 0:
            group = zones + zone
            composition[group * zones + zone] = 1
            weights[group * zones + zone] = 1 - rest
            for other in range(zones):
                if rest > 0 and reals[fraction + other] < 0:
                    part = min(rest, -reals[fraction + other])
                    weights[group * zones + other] += part
                    reals[fraction + other] += part
                    rest -= part
            for other in range(zones):
                if rest > 0 and reals[needed + other] > 0:
                    part = min(rest, reals[needed + other])
                    weights[group * zones + other] += part
                    reals[needed + other] -= part
                    rest -= part

    left = 0
    for zone in range(zones):
        spare_whole = max(scratch[whole + zone], 0)
        composition[last * zones + zone] = spare_whole
        left += spare_whole
    if left > 0:
        for zone in range(zones):
            if reals[fraction + zone] < 0:
                weights[last * zones + zone] = -reals[fraction + zone] / left
    return last + 1
