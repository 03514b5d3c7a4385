"""Groups of zones that consume the same endpoints, with weights (KEP-2004 § Terminology), and the label and the
annotation by which EndpointSlices show them (KEP-2004 § Kube-Proxy).

- A zone's own group: the label ``topology.kubernetes.io/zone``. The proposal's rule for proxies is to use the slices
  labelled for their zone and those without a label.
- A group that several zones share: the same label, with the one zone that represents the group, and the annotation
  ``zoneward.dev/zones`` with all of them. A label holds no list, and a slice for each zone would list every endpoint
  twice. A proxy that only knows the proposal's rule finds nothing in the other zones, or only their own groups; it
  falls back to all endpoints where that leaves none.
- A group that all zones consume alike: neither. Slices of every other approach and controller have neither, too.
"""

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Final, Literal

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice

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


# --- on slices --------------------------------------------------------------------------------------------------------


ZoneSlices = Literal["groups", "labels", "ignored"]
"""What a consumer reads: labels and the annotation, the label alone, or neither."""

_PART: Final = re.compile(r"([^=,]+)(?:=([0-9]{1,4}(?:\.[0-9]{1,9})?))?")


def zones_annotation(group: ZoneGroup | None) -> str | None:
    """The value of the annotation: ``a,b``, or ``a=0.75,b=0.25``; None where the label says it all."""
    if group is None or (len(group.zones) == 1 and not group.weighted):
        return None
    if not group.weighted:
        return ",".join(group.zones)
    return ",".join(f"{zone}={weight:.6f}" for zone, weight in zip(group.zones, group.weights, strict=True))


def group_of_slice(slice_: EndpointSlice, *, reads: ZoneSlices = "groups") -> ZoneGroup | None:
    """The group that a slice belongs to; None for one that all zones consume.

    An invalid annotation is ignored: only the label counts.
    """
    if reads == "ignored":
        return None
    label = (slice_.metadata.labels or {}).get(names.ZONE_LABEL)
    if not label:
        return None
    text = (slice_.metadata.annotations or {}).get(names.ZONES_ANNOTATION) if reads == "groups" else None
    return (_parse_zones(text) if text else None) or own_group(label)


def _parse_zones(text: str) -> ZoneGroup | None:
    weights: dict[str, float] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None or match[1] in weights:
            return None
        weights[match[1]] = float(match[2]) if match[2] else 1.0
    if not all(weights.values()):
        return None
    zones = tuple(sorted(weights))
    return ZoneGroup(zones, tuple(weights[zone] for zone in zones))
