"""The label and the annotation that say which zones consume an EndpointSlice (KEP-2004 § Kube-Proxy).

- A zone's own group: the label ``topology.kubernetes.io/zone``. The proposal's rule for proxies is to use the slices
  labelled for their zone and those without a label.
- A group that several zones share: the same label, with the one zone that represents the group, and the annotation
  ``zoneward.dev/zones`` with all of them. A label holds no list, and a slice for each zone would list every endpoint
  twice. A proxy that only knows the proposal's rule finds nothing in the other zones, or only their own groups; it
  falls back to all endpoints where that leaves none.
- A group that all zones consume alike: neither. Slices of every other approach and controller have neither, too.
"""

import re
from typing import Final, Literal

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice
from zoneward.routing.placement.groups import ZoneGroup, own_group

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
