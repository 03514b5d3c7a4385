"""Every endpoint serves its own zone (KEP-2433 § PreferZone, KEP-3015 § PreferSameZone,
KEP-2004 § Future Expansion)."""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.signature import IntegerSequence


def same_zone(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,  # noqa: ARG001 -- every algorithm has the same signature; this one has nothing to tune
    previous: IntegerSequence,  # noqa: ARG001 -- where an endpoint is does not depend on where it served
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],  # noqa: ARG001 -- needs no room
    reals: MutableSequence[float],  # noqa: ARG001
) -> int:
    """All of a zone's supply to that zone. A zone without endpoints gets none: its proxies fall back to all."""
    zones = len(demand)
    for zone in range(zones):
        composition[zone * zones + zone] = supply[zone]
        weights[zone * zones + zone] = 1.0
    return zones
