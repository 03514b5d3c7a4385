"""Existing slices back to the decision they were written for."""

from collections.abc import Iterable

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Identity, identity
from zoneward.routing.hysteresis import Previous


def previous_of(own: Iterable[EndpointSlice], others: Iterable[EndpointSlice] = ()) -> Previous:
    """What was in force, and which zone each endpoint served.

    ``own`` are slices that this controller wrote, of one address family: what they say was in force counts where every
    one that has endpoints says the same. ``others`` are those of the controller that is replaced: their hints keep
    endpoints in place and nothing more.
    """
    placement: dict[Identity, str] = {}
    own = tuple(own)
    for each in (*others, *own):
        for endpoint in each.endpoints or ():
            zones = endpoint.hints.for_zones if endpoint.hints else None
            if zones and len(zones) == 1:
                placement[identity(endpoint)] = zones[0].name
    return Previous(in_force_of(own), placement)


def in_force_of(own: Iterable[EndpointSlice]) -> str | None:
    """What slices of one address family say was in force, where every one that has endpoints says the same."""
    said = {(each.metadata.annotations or {}).get(names.APPROACH_ANNOTATION) for each in own if each.endpoints}
    return said.pop() if len(said) == 1 else None
