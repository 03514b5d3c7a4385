"""Groups of zones that consume the same endpoints, with weights (KEP-2004 § Terminology)."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

WEIGHT_DIGITS: Final = 6
"""Decimals of a weight; slices keep no more."""


@dataclass(frozen=True, slots=True)
class ZoneGroup:
    """The zones that consume the same endpoints, in name order, each with a weight.

    A weight says how much of a zone's traffic an endpoint gets, compared with the endpoints of other groups that the
    zone consumes. It is almost always 1.
    """

    zones: tuple[str, ...]
    weights: tuple[float, ...]

    @property
    def weighted(self) -> bool:
        """Whether consumers need the weights."""
        return any(weight != 1 for weight in self.weights)

    @property
    def label_zone(self) -> str:
        """The zone that represents the group where only one can be named: the largest weight, the first by name."""
        return min(zip(self.zones, self.weights, strict=True), key=lambda weighed: (-weighed[1], weighed[0]))[0]

    def weight(self, zone: str) -> float:
        """The weight of a zone; 0 where it does not consume the group."""
        return self.weights[self.zones.index(zone)] if zone in self.zones else 0.0

    def __str__(self) -> str:
        return ",".join(self.zones)


EVERY_ZONE: Final = ZoneGroup((), ())
"""The group of all zones, as slices without a label have it: they do not list the zones."""


def own_group(zone: str) -> ZoneGroup:
    """The group that one zone consumes and no other."""
    return ZoneGroup((zone,), (1.0,))


def restrict_to_zones(group: ZoneGroup, zones: Container[str]) -> ZoneGroup | None:
    """The group without all other zones; None where no zone is left."""
    left = [(zone, weight) for zone, weight in zip(group.zones, group.weights, strict=True) if zone in zones]
    if len(left) == len(group.zones):
        return group
    if len(left) == 1:
        return own_group(left[0][0])
    return ZoneGroup(tuple(zone for zone, _ in left), tuple(weight for _, weight in left)) if left else None
