"""Hints as an overlay: what the API server's admission policy reads, and what it does to slices.

The built-in EndpointSlice controller keeps writing its slices. A MutatingAdmissionPolicy
(`zoneward.kube.overlay_objects`) sets the hints in each write of a slice, by the ConfigMap ``zoneward-overlay`` in its
namespace. The ConfigMap holds only what differs from "each endpoint serves its own zone"::

    cart.IPv4: zones Hints/ProportionalZoneCPU   the Service and the address family, how endpoints are hinted, and the
                                                 approach in force, by which the next decision knows where it starts
    cart.10.0.0.1: b,c                           an endpoint that serves other zones than its own

In an IPv6 address each ``:`` is written ``_``, because a key of a ConfigMap must not have one.

Decisions are those of the planner: `overlay_configuration` has it take the slices of the built-in controller for its
own. `family_overlay` turns a plan into entries, and `with_overlay_hints` is the policy in Python: what the API server
stores for a slice with these entries.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.adoption_marks import has_selector_annotation, manager_of
from zoneward.kube.formats import label_value_problems
from zoneward.kube.objects import Endpoint, EndpointSlice, ForNode, ForZone, Hints, Service, is_ready
from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.endpoint_index import IndexedEndpoint
from zoneward.routing.placement import Targets
from zoneward.routing.request import topology_annotation
from zoneward.slices.reconcile import SliceChanges

_ADDRESS_TYPES: Final = ("IPv4", "IPv6")
_APPROACH: Final = re.compile(r"[A-Za-z0-9./-]{1,100}", re.ASCII)


class OverlayHints(StrEnum):
    """The hints of the endpoints of a Service in one address family."""

    ZONES = "zones"
    """Each endpoint serves its own zone, unless an entry names others."""
    ZONES_AND_NODES = "zones-and-nodes"
    """The same, and its own node."""
    NODES = "nodes"
    """Its own node."""
    NONE = "none"
    """No endpoint has hints: those that the built-in controller writes are removed."""
    REMOVE = "remove"
    """The Service leaves the overlay: a write that changes no endpoint removes all hints; others pass unchanged."""


@dataclass(frozen=True, slots=True)
class FamilyOverlay:
    """What the ConfigMap says about one address family of a Service. ``exceptions`` has the zones by address;
    ``approach`` is in force, or suspended: what slices of Zoneward's controller remember in an annotation.
    """

    hints: OverlayHints
    approach: str | None = None
    exceptions: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


_HINTS: Final = {hints.value: hints for hints in OverlayHints}
REMOVED: Final = FamilyOverlay(OverlayHints.REMOVE)


def overlay_configuration(configuration: Configuration) -> Configuration:
    """The configuration by which plans are made for an overlay: there are hints, and neither slice groups nor weights.

    An algorithm that weighs zones has no meaning without weights: `local` takes its place.
    """
    subsetting = configuration.subsetting
    if SUBSETTING_ALGORITHMS[subsetting.algorithm].weighs:
        subsetting = replace(subsetting, algorithm="local")
    return replace(configuration, is_overlay=True, subsetting=replace(subsetting, encoding="hints"))


def is_selected(service: Service, namespace_labels: Mapping[str, str] | None, configuration: Configuration) -> bool:
    """Whether a Service is in the overlay, if it asks for anything.

    One that names a heuristic of Zoneward is. Another one has to have the annotation or a label of the configuration's
    selector, or its namespace the label. Those of other slices are not: ExternalName, without a selector, adopted.
    """
    mark = (service.metadata.annotations or {}).get(names.OVERLAY_MARK)
    if service.spec.type == "ExternalName" or not service.spec.selector or has_selector_annotation(service):
        return False
    if mark == names.OVERLAY_DISABLED:
        return False
    annotation = topology_annotation(service)
    selector = configuration.overlay.selector
    return (
        (annotation is not None and annotation[1].startswith(f"{names.DOMAIN}/"))
        or mark == names.OVERLAY_ENABLED
        or (namespace_labels or {}).get(names.OVERLAY_MARK) == names.OVERLAY_ENABLED
        or (selector is not None and selector.matches(service.metadata.labels))
    )


# --- a plan as entries ------------------------------------------------------------------------------------------------


def family_overlay(decision: Decision) -> FamilyOverlay | None:
    """The overlay of one address family; None for a Service that asks for nothing.

    Raises TooManyZones where an endpoint would serve more zones than hints can name.
    """
    targets = decision.targets
    if decision.heuristic is None:
        return None
    if not decision.active or targets is None or targets.encoding != "hints":
        return FamilyOverlay(OverlayHints.NONE, decision.remembered)
    exceptions = _exceptions(targets)
    if any(len(zones) > MAX_ZONE_HINTS for zones in exceptions.values()):
        raise TooManyZones(f"an endpoint serves more than {MAX_ZONE_HINTS} zones, which hints cannot name")
    has_zones = all(bucket.zone for bucket in targets.index.ready_buckets())
    if targets.node_hints:
        return FamilyOverlay(
            OverlayHints.ZONES_AND_NODES if has_zones else OverlayHints.NODES, decision.remembered, exceptions
        )
    return FamilyOverlay(OverlayHints.ZONES, decision.remembered, exceptions)


def service_overlays(decisions: Mapping[str, Decision]) -> dict[str, FamilyOverlay]:
    """The overlay of each address family, from its decision; empty for a Service that asks for nothing.

    Raises TooManyZones.
    """
    overlays = {address_type: family_overlay(decision) for address_type, decision in decisions.items()}
    return {address_type: overlay for address_type, overlay in overlays.items() if overlay is not None}


class TooManyZones(Exception):  # noqa: N818 -- the caller reports the Service
    """An endpoint would serve more zones than hints can name."""


def _exceptions(targets: Targets) -> dict[str, tuple[str, ...]]:
    """The zones of the endpoints that do not serve just their own, by address. Most buckets need no look."""
    exceptions: dict[str, tuple[str, ...]] = {}
    index = targets.index
    for bucket in (*index.ready_buckets(), *index.unready_buckets()):
        target = targets.of_bucket(bucket)
        if target.zones and target.zones != (bucket.zone,):
            _add_exceptions(exceptions, bucket.members, targets)
    _add_exceptions(exceptions, targets.exceptions(), targets)
    return exceptions


def _add_exceptions(
    exceptions: dict[str, tuple[str, ...]], members: Iterable[IndexedEndpoint], targets: Targets
) -> None:
    for member in members:
        zones, endpoint = targets.of(member).zones, member.endpoint
        if zones and zones != (endpoint.zone,) and endpoint.addresses:
            address = endpoint.addresses[0]
            # An entry is about an address, also of endpoints that are not ready: only the ready ones decide.
            if is_ready(endpoint) or not targets.index.has_ready(address):
                exceptions[address] = zones


def encode_entries(service: str, families: Mapping[str, FamilyOverlay]) -> dict[str, str]:
    """The entries of a Service, by address type."""
    entries: dict[str, str] = {}
    for address_type, overlay in families.items():
        value = overlay.hints.value if overlay.approach is None else f"{overlay.hints} {overlay.approach}"
        entries[f"{service}.{address_type}"] = value
        for address, zones in overlay.exceptions.items():
            entries[f"{service}.{address.replace(':', '_')}"] = ",".join(zones)
    return entries


# --- entries as the policy reads them ---------------------------------------------------------------------------------


def read_entries(data: Mapping[str, str]) -> dict[tuple[str, str], FamilyOverlay]:
    """The overlay by Service and address type. What is malformed counts as absent, as for the policy."""
    exceptions: dict[str, dict[str, tuple[str, ...]]] = {}
    heads: dict[tuple[str, str], tuple[OverlayHints, str | None]] = {}
    for key, value in data.items():
        service, _, rest = key.partition(".")
        if rest in _ADDRESS_TYPES:
            head = _read_head(value)
            if head is not None:
                heads[service, rest] = head
        elif (zones := _read_zones(value)) is not None:
            exceptions.setdefault(service, {})[rest.replace("_", ":")] = zones
    overlays = {}
    for (service, address_type), (hints, approach) in heads.items():
        is_ipv6 = address_type == "IPv6"
        own = {address: zones for address, zones in exceptions.get(service, {}).items() if (":" in address) == is_ipv6}
        overlays[service, address_type] = FamilyOverlay(hints, approach, own)
    return overlays


def service_of_entry(key: str) -> str:
    """The name of the Service that an entry is about. Names of Services have no dots."""
    return key.partition(".")[0]


def approach_of_entries(entries: Mapping[str, str], service: str, address_type: str) -> str | None:
    """The approach in force for a Service and address family, in force or suspended."""
    head = _read_head(entries.get(f"{service}.{address_type}", ""))
    return head[1] if head is not None else None


def _read_head(value: str) -> tuple[OverlayHints, str | None] | None:
    word, _, approach = value.partition(" ")
    hints = _HINTS.get(word)
    if hints is None or (approach and not _APPROACH.fullmatch(approach)):
        return None
    return hints, approach or None


def _read_zones(value: str) -> tuple[str, ...] | None:
    zones = tuple(value.split(","))
    is_valid = len(zones) <= MAX_ZONE_HINTS and all(zone and not any(label_value_problems(zone)) for zone in zones)
    return zones if is_valid else None


# --- the policy -------------------------------------------------------------------------------------------------------


def is_in_overlay(slice_: EndpointSlice) -> bool:
    """Whether the policy may change a slice: it is the built-in controller's."""
    return manager_of(slice_) == names.BUILT_IN_MANAGER


def with_overlay_hints(slice_: EndpointSlice, overlay: FamilyOverlay | None, *, is_touch: bool = True) -> EndpointSlice:
    """What the API server stores for a slice that somebody writes. ``is_touch``: the write changes no endpoint."""
    if overlay is None or not is_in_overlay(slice_) or not slice_.endpoints:
        return slice_
    if overlay.hints is OverlayHints.REMOVE and not is_touch:
        return slice_
    if overlay.hints in (OverlayHints.ZONES, OverlayHints.ZONES_AND_NODES):
        is_hinted = all(endpoint.zone for endpoint in slice_.endpoints)
    else:
        is_hinted = overlay.hints is OverlayHints.NODES and all(endpoint.node_name for endpoint in slice_.endpoints)
    endpoints = []
    for endpoint in slice_.endpoints:
        hints = _hints_of(endpoint, overlay) if is_hinted else None
        endpoints.append(endpoint if endpoint.hints == hints else replace(endpoint, hints=hints))
    return replace(slice_, endpoints=tuple(endpoints))


def _hints_of(endpoint: Endpoint, overlay: FamilyOverlay) -> Hints:
    zones = nodes = None
    if overlay.hints is not OverlayHints.NODES:
        address = endpoint.addresses[0] if endpoint.addresses else ""
        zones = tuple(map(ForZone, overlay.exceptions.get(address, (endpoint.zone or "",))))
    if overlay.hints is not OverlayHints.ZONES and endpoint.node_name:
        nodes = (ForNode(endpoint.node_name),)
    return Hints(for_zones=zones, for_nodes=nodes)


def overlay_changes(decision: Decision, existing: Mapping[str, EndpointSlice], planned: SliceChanges) -> SliceChanges:
    """What becomes of the built-in controller's slices, by name in ``existing``: that writes those of ``planned``, and
    the API server sets their hints. A Service that leaves the overlay loses its hints.
    """
    try:
        overlay = family_overlay(decision) or REMOVED
    except TooManyZones:
        overlay = REMOVED
    update: list[EndpointSlice] = []
    unchanged: list[EndpointSlice] = []
    for slice_ in (*planned.update, *planned.unchanged):
        before = existing[slice_.metadata.name]
        stored = with_overlay_hints(slice_, overlay)
        is_same = (stored.endpoints or (), stored.ports or ()) == (before.endpoints or (), before.ports or ())
        (unchanged if is_same else update).append(before if is_same else stored)
    create = tuple(with_overlay_hints(slice_, overlay) for slice_ in planned.create)
    return dataclasses.replace(planned, create=create, update=tuple(update), unchanged=tuple(unchanged))


def with_approach(slice_: EndpointSlice, approach: str | None) -> EndpointSlice:
    """A slice of the built-in controller as plans for an overlay read it: with the approach that is in force for it.

    Zoneward's own slices have it in an annotation; in an overlay, the ConfigMap has it.
    """
    if not is_in_overlay(slice_):
        return slice_
    metadata = slice_.metadata
    annotations = dict(metadata.annotations or {})
    annotations.pop(names.APPROACH_ANNOTATION, None)
    if approach is not None:
        annotations[names.APPROACH_ANNOTATION] = approach
    return replace(slice_, metadata=replace(metadata, annotations=annotations or None))
