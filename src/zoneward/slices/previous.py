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
    said: set[str | None] = set()
    for slices, ours in ((others, False), (own, True)):
        for each in slices:
            if ours and each.endpoints:
                said.add((each.metadata.annotations or {}).get(names.APPROACH_ANNOTATION))
            for endpoint in each.endpoints or ():
                zones = endpoint.hints.for_zones if endpoint.hints else None
                if zones and len(zones) == 1:
                    placement[identity(endpoint)] = zones[0].name
    return Previous(said.pop() if len(said) == 1 else None, placement)
