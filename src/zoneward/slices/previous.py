"""Existing slices back to the decision they were written for."""

from collections.abc import Collection

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointSlice, Hints
from zoneward.routing.placement.groups import EVERY_ZONE, Group, own_group
from zoneward.routing.selection.group_labels import group_of_slice
from zoneward.routing.subsetting_decision import BALANCED_GROUPS


class KnownGroups:
    """Groups that slices tell of, each once: thousands of endpoints share a few."""

    __slots__ = ("_hinted", "_labelled")

    def __init__(self) -> None:
        self._hinted: dict[tuple[str, ...], Group] = {}
        self._labelled: dict[Group, Group] = {}

    def of_slice(self, each: EndpointSlice) -> Group | None:
        """The group that a slice of our own belongs to; None where its endpoints tell, each for itself."""
        group = group_of_slice(each)
        if group is not None:
            return self._labelled.setdefault(group, group)
        if said_of(each) not in BALANCED_GROUPS or any(endpoint.hints is not None for endpoint in each.endpoints or ()):
            return None
        return EVERY_ZONE

    def of_endpoint(self, endpoint: Endpoint, group: Group | None) -> Group | None:
        """The group that an endpoint was in, given that of its slice."""
        if group is not None or endpoint.hints is None:
            return group
        zones = _hinted_zones(endpoint.hints)
        if zones is None:
            return None
        if zones not in self._hinted:
            self._hinted[zones] = own_group(zones[0]) if len(zones) == 1 else Group(zones, (1.0,) * len(zones))
        return self._hinted[zones]


def _hinted_zones(hints: Hints) -> tuple[str, ...] | None:
    zones = hints.for_zones
    if not zones:
        return None
    return (zones[0].name,) if len(zones) == 1 else tuple(sorted({zone.name for zone in zones}))


def said_of(each: EndpointSlice) -> str | None:
    """What one slice says it was written for."""
    return (each.metadata.annotations or {}).get(names.APPROACH_ANNOTATION)


def agreed(said: Collection[str | None]) -> str | None:
    """What was in force: what all slices with endpoints say, given all that is said; None where they differ."""
    return next(iter(said)) if len(said) == 1 else None
