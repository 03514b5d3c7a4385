"""What current Kubernetes does (``--compat=upstream``), around the same `reconcile`.

Upstream first reconciles, and then sets hints in the slices that it is about to write. It only checks the slices that
did not change, and writes those that fail. The result therefore depends on which slices a change happens to touch.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as with_fields

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointSlice, ForNode, ForZone, Hints, Service
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.allocation import allocation_of
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision, ZoneRange
from zoneward.routing.placement import Targets
from zoneward.routing.request import Approach
from zoneward.slices.desired import SliceTemplate, controller_labels, desired, mirrored_labels
from zoneward.slices.endpoints import ServiceEndpoints
from zoneward.slices.reconcile import SliceChanges, reconcile

HintsOf = Callable[[Endpoint], Hints | None]


def reconcile_as_upstream(
    decision: Decision,
    endpoints: ServiceEndpoints,
    existing: Iterable[EndpointSlice],
    *,
    service: Service,
    configuration: Configuration,
) -> tuple[Decision, SliceChanges]:
    """The changes as upstream makes them, and the decision with the allocation that its hints come to.

    Slices remember no approach, and zone labels mean nothing. A Service without a cluster IP is headless.
    """
    is_headless = service.spec.cluster_ip == names.HEADLESS or not service.spec.cluster_ip
    template = SliceTemplate(
        service=service,
        address_type=endpoints.address_type,
        labels=mirrored_labels(service.metadata.labels)
        | controller_labels(service, manager=configuration.manager, is_headless=is_headless),
        max_endpoints=configuration.max_endpoints_per_slice,
    )
    slices = desired(template, Targets(endpoints.index), endpoints, endpoints.by_identity.values())
    changes = set_hints(reconcile(template, slices, existing, reads_routing=False), decision)
    return _with_allocation(decision, changes), changes


def set_hints(changes: SliceChanges, decision: Decision) -> SliceChanges:
    """Set, check or remove the hints of slices, as upstream would for this decision."""
    if decision.ranges is not None:
        return hint_proportionally(changes, decision.ranges)
    if decision.approach is Approach.TRAFFIC_DISTRIBUTION and decision.heuristic is not None:
        return hint_own_topology(changes, node_hints=HEURISTICS[decision.heuristic].node_hints)
    return remove_hints(changes)


def _with_allocation(decision: Decision, changes: SliceChanges) -> Decision:
    if decision.ranges is None:
        return decision
    counts: Counter[tuple[tuple[str, ...], str]] = Counter()
    for slice_ in (*changes.create, *changes.update, *changes.unchanged):
        for endpoint in slice_.endpoints or ():
            if endpoint.hints is not None and endpoint.hints.for_zones and is_strictly_ready(endpoint):
                counts[(endpoint.hints.for_zones[0].name,), endpoint.zone or ""] += 1
    zones = {*decision.ranges, *(zone for (consumer,), located in counts for zone in (consumer, located))}
    return with_fields(decision, allocation=allocation_of(sorted(zones), counts), ranges=None)


def is_strictly_ready(endpoint: Endpoint) -> bool:
    """Whether the endpoint says that it is ready: upstream's controller is stricter here than its proxy."""
    return endpoint.conditions is not None and endpoint.conditions.ready is True


def remove_hints(changes: SliceChanges) -> SliceChanges:
    """Remove all hints. Slices that have any are written."""
    return _rewritten(
        changes,
        fails=lambda slice_: any(endpoint.hints is not None for endpoint in slice_.endpoints or ()),
        hints=lambda _endpoint: None,
        ready_only=False,
    )


def hint_own_topology(changes: SliceChanges, *, node_hints: bool) -> SliceChanges:
    """Hint each ready endpoint to its own zone, and with ``node_hints`` to its own node (KEP-3015)."""

    def hints(endpoint: Endpoint) -> Hints | None:
        zones = (ForZone(name=endpoint.zone),) if endpoint.zone else None
        nodes = (ForNode(name=endpoint.node_name),) if node_hints and endpoint.node_name else None
        return Hints(for_zones=zones, for_nodes=nodes) if zones or nodes else None

    def fails(slice_: EndpointSlice) -> bool:
        return any(
            is_strictly_ready(endpoint) and (endpoint.hints or Hints()) != (hints(endpoint) or Hints())
            for endpoint in slice_.endpoints or ()
        )

    return _rewritten(changes, fails=fails, hints=hints, ready_only=True)


def _rewritten(
    changes: SliceChanges, *, fails: Callable[[EndpointSlice], bool], hints: HintsOf, ready_only: bool
) -> SliceChanges:
    def hinted(slice_: EndpointSlice) -> EndpointSlice:
        endpoints = tuple(
            endpoint if ready_only and not is_strictly_ready(endpoint) else replace(endpoint, hints=hints(endpoint))
            for endpoint in slice_.endpoints or ()
        )
        return replace(slice_, endpoints=endpoints)

    failing = [slice_ for slice_ in changes.unchanged if fails(slice_)]
    return with_fields(
        changes,
        create=tuple(map(hinted, changes.create)),
        update=tuple(map(hinted, (*changes.update, *failing))),
        unchanged=tuple(slice_ for slice_ in changes.unchanged if not fails(slice_)),
    )


def hint_proportionally(changes: SliceChanges, ranges: Mapping[str, ZoneRange]) -> SliceChanges:
    """``Auto``: unchanged slices that stay within the maximums of their zones keep their hints. All other slices get
    new hints, and some of their endpoints serve other zones."""
    hinted: dict[str, int] = {}
    update, unchanged = list(changes.update), []
    for slice_ in changes.unchanged:
        counts = allowed_hints(slice_, hinted, ranges)
        if counts is None:
            update.append(slice_)
            continue
        unchanged.append(slice_)
        for zone, count in counts.items():
            hinted[zone] = hinted.get(zone, 0) + count
    slices = [list(slice_.endpoints or ()) for slice_ in (*changes.create, *update)]
    for endpoints in slices:
        for position, endpoint in enumerate(endpoints):
            own = endpoint.zone if is_strictly_ready(endpoint) else None
            hints = Hints(for_zones=(ForZone(name=own),)) if own else None
            endpoints[position] = replace(endpoint, hints=hints)
            if own:
                hinted[own] = hinted.get(own, 0) + 1
    giving, receiving = givers_and_receivers({zone: zone_range.desired for zone, zone_range in ranges.items()}, hinted)
    share_out(slices, giving, receiving)
    written = [
        replace(slice_, endpoints=tuple(endpoints))
        for slice_, endpoints in zip((*changes.create, *update), slices, strict=True)
    ]
    return with_fields(
        changes,
        create=tuple(written[: len(changes.create)]),
        update=tuple(written[len(changes.create) :]),
        unchanged=tuple(unchanged),
    )


def allowed_hints(
    slice_: EndpointSlice, already: Mapping[str, int], ranges: Mapping[str, ZoneRange]
) -> dict[str, int] | None:
    """The hints of a slice by zone, or None where it may not stay as it is."""
    counts: dict[str, int] = {}
    for endpoint in slice_.endpoints or ():
        if not is_strictly_ready(endpoint):
            continue
        if endpoint.hints is None or not endpoint.hints.for_zones:
            return None
        for zone in endpoint.hints.for_zones:
            counts[zone.name] = counts.get(zone.name, 0) + 1
    for zone_name, count in counts.items():
        allowed = ranges.get(zone_name)
        if allowed is None or count + already.get(zone_name, 0) > allowed.maximum:
            return None
    return counts


def givers_and_receivers(
    desired: Mapping[str, float], hinted: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """How many endpoints each zone gives or receives. One at a time moves from the zone that has most beyond what it
    wants to the one that lacks most, until either difference is below a half, or both are below one.
    """
    over = {zone: hinted.get(zone, 0) - want for zone, want in desired.items() if hinted.get(zone, 0) > want}
    under = {zone: want - hinted.get(zone, 0) for zone, want in desired.items() if hinted.get(zone, 0) < want}
    giving: dict[str, int] = {}
    receiving: dict[str, int] = {}
    while over and under:
        giver = max(over, key=over.__getitem__)
        receiver = max(under, key=under.__getitem__)
        more, less = over[giver], under[receiver]
        if more < 0.5 or less < 0.5 or (more < 1.0 and less < 1.0):
            break
        giving[giver] = giving.get(giver, 0) + 1
        receiving[receiver] = receiving.get(receiver, 0) + 1
        over[giver] -= 1
        under[receiver] -= 1
    return giving, receiving


def share_out(slices: list[list[Endpoint]], giving: dict[str, int], receiving: dict[str, int]) -> None:
    """Hint endpoints of zones that give to zones that receive, in the order in which they lie in slices."""
    for endpoints in slices:
        for position, endpoint in enumerate(endpoints):
            if not giving or not receiving:
                return
            if not is_strictly_ready(endpoint) or not endpoint.zone or endpoint.zone not in giving:
                continue
            receiver = next(iter(receiving))
            endpoints[position] = replace(endpoint, hints=Hints(for_zones=(ForZone(name=receiver),)))
            for zone, numbers in ((endpoint.zone, giving), (receiver, receiving)):
                numbers[zone] -= 1
                if not numbers[zone]:
                    del numbers[zone]
