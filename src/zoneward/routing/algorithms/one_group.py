"""random: one group for all zones, as without subsetting (KEP-2004 § Test Results)."""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence


def one_group(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,  # noqa: ARG001 -- every algorithm has the same signature; this one has nothing to tune
    previous: IntegerSequence,  # noqa: ARG001 -- no endpoint can move
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],  # noqa: ARG001 -- needs no room
    reals: MutableSequence[float],  # noqa: ARG001
) -> int:
    """Every endpoint to every zone. The own groups stay empty. The proxies choose at random, not this function."""
    zones = len(demand)
    total = 0
    for zone in range(zones):
        total += supply[zone]
        composition[zones * zones + zone] = supply[zone]
        weights[zones * zones + zone] = 1.0
    return zones + 1 if total > 0 else IMPOSSIBLE
