"""Existing slices back to the decision they were written for."""

from collections.abc import Iterable

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointSlice, Identity, identity
from zoneward.routing.groups import Group, own_group
from zoneward.routing.hysteresis import Previous
from zoneward.routing.slice_groups import group_of_slice


def previous_of(own: Iterable[EndpointSlice], others: Iterable[EndpointSlice] = ()) -> Previous:
    """What was in force, and which group each endpoint was in.

    ``own`` are slices that this controller wrote, of one address family: what they say was in force counts where every
    one that has endpoints says the same. ``others`` are those of the controller that is replaced: their hints keep
    endpoints in place and nothing more; a zone label there is one that somebody put on the Service.
    """
    placement: dict[Identity, Group] = {}
    hinted: dict[tuple[str, ...], Group] = {}
    own = tuple(own)
    for each in others:
        _place(each, None, placement, hinted)
    for each in own:
        _place(each, group_of_slice(each), placement, hinted)
    return Previous(in_force_of(own), placement)


def _place(
    each: EndpointSlice,
    group: Group | None,
    placement: dict[Identity, Group],
    hinted: dict[tuple[str, ...], Group],
) -> None:
    for endpoint in each.endpoints or ():
        if group is not None:
            placement[identity(endpoint)] = group
        elif (zones := _hinted_zones(endpoint)) is not None:
            if zones not in hinted:
                hinted[zones] = own_group(zones[0]) if len(zones) == 1 else Group(zones, (1.0,) * len(zones))
            placement[identity(endpoint)] = hinted[zones]


def _hinted_zones(endpoint: Endpoint) -> tuple[str, ...] | None:
    zones = endpoint.hints.for_zones if endpoint.hints else None
    if not zones:
        return None
    return (zones[0].name,) if len(zones) == 1 else tuple(sorted({zone.name for zone in zones}))


def in_force_of(own: Iterable[EndpointSlice]) -> str | None:
    """What slices of one address family say was in force, where every one that has endpoints says the same."""
    said = {(each.metadata.annotations or {}).get(names.APPROACH_ANNOTATION) for each in own if each.endpoints}
    return said.pop() if len(said) == 1 else None
