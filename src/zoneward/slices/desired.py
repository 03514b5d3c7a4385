"""Step 3 of a plan, *desired*: targets to what EndpointSlices should say.

Everything by which a proxy finds its endpoints is written here, by the encoding of the targets:

============  ========================  =========================================================================
encoding      endpoints of one slice    written
============  ========================  =========================================================================
nothing       all with the same ports
hints         all with the same ports   ``forZones`` and ``forNodes`` of each endpoint, by `hints_of`
slice-groups  those of one slice group  a zone label, and an annotation that lists several zones or their weights
============  ========================  =========================================================================

Every slice also has an annotation that remembers the approach, and the labels of the Service. Weights of zones are an
annotation of one slice (`zoneward.slices.reconcile.finalize`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import (
    Endpoint,
    EndpointIdentity,
    EndpointPort,
    ForNode,
    ForZone,
    Hints,
    Service,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.placement import Target, Targets
from zoneward.routing.zone_groups import ZoneGroup, zones_annotation
from zoneward.slices.endpoints import PodEndpoint, PortKey, ServiceEndpoints

_RESERVED_LABELS: Final = frozenset((*names.RESERVED_SLICE_LABELS, names.ZONE_LABEL))
"""Never mirrored from a Service. The zone label says which zones consume a slice."""

SliceKey = tuple[PortKey, tuple[str, ...]]
"""The ports and the zones (none: all zones) of endpoints that share slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTemplate:
    """What all slices of a Service in one address family have in common. ``in_force`` is the approach that slices
    remember, or None.
    """

    service: Service
    address_type: str
    labels: Mapping[str, str]
    in_force: str | None = None
    max_endpoints: int = 100


@dataclass(frozen=True, slots=True)
class DesiredSlices:
    """What the slices of one key should say: ports, labels, our annotations (None: it must not be there), endpoints."""

    ports: tuple[EndpointPort, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str | None]
    endpoints: dict[EndpointIdentity, Endpoint] = field(default_factory=dict)


def slice_template(
    service: Service, *, address_type: str, in_force: str | None, configuration: Configuration
) -> SliceTemplate:
    """The template for slices that show the approach ``in_force``."""
    return SliceTemplate(
        service=service,
        address_type=address_type,
        labels=slice_labels(service, manager=configuration.manager),
        in_force=in_force,
        max_endpoints=configuration.max_endpoints_per_slice,
    )


def desired(
    template: SliceTemplate,
    targets: Targets,
    endpoints: ServiceEndpoints,
    members: Iterable[PodEndpoint],
    *,
    settled: Mapping[SliceKey, ZoneGroup | None] | None = None,
) -> dict[SliceKey, DesiredSlices]:
    """What slices should hold, by the ports and zones of the endpoints that share them.

    ``members`` are all ``endpoints``, or those that are in no settled slice; ``settled`` has the groups of settled
    slices.
    """
    slices: dict[SliceKey, DesiredSlices] = {}

    def slices_of(key: SliceKey, group: ZoneGroup | None) -> DesiredSlices:
        if key not in slices:
            slices[key] = desired_slices(template, group, ports=endpoints.port_groups[key[0]].ports)
        return slices[key]

    for key, group in (settled or {}).items():
        slices_of(key, group)
    # Nearly all endpoints share one key and a few targets, which need not be hashed again for each of them.
    previous_ports, previous_group = None, None
    into: dict[EndpointIdentity, Endpoint] = {}
    hints_by_target: dict[int, tuple[Target, Hints | None]] = {}
    for member in members:
        target = targets.of(member)
        if member.ports is not previous_ports or target.group is not previous_group:
            previous_ports, previous_group = member.ports, target.group
            key = member.ports, target.group.zones if target.group is not None else ()
            into = slices_of(key, target.group).endpoints
        known = hints_by_target.get(id(target))
        if known is None:
            known = hints_by_target[id(target)] = target, hints_of(target)
        hints = known[1]
        into[member.identity] = member.endpoint if hints is None else replace(member.endpoint, hints=hints)
    for ports in endpoints.port_groups.keys() - {key[0] for key in slices}:
        slices_of((ports, ()), None)
    return slices


@lru_cache(maxsize=4096)
def hints_of(target: Target) -> Hints | None:
    """The hints of an endpoint. Endpoints with the same target share one object."""
    if not target.zones and not target.node:
        return None
    return Hints(
        for_zones=tuple(map(ForZone, target.zones)) or None, for_nodes=(ForNode(target.node),) if target.node else None
    )


def desired_slices(
    template: SliceTemplate, group: ZoneGroup | None, *, ports: tuple[EndpointPort, ...] = ()
) -> DesiredSlices:
    """Slices of a group without endpoints. The zone label names the group's first zone, and the annotation lists all
    zones and weights where the label does not say enough (`zoneward.routing.zone_groups` reads both).
    """
    labels = dict(template.labels)
    if group is not None:
        labels[names.ZONE_LABEL] = group.label_zone
    annotations = {
        names.APPROACH_ANNOTATION: template.in_force,
        names.ZONES_ANNOTATION: zones_annotation(group),
    }
    return DesiredSlices(ports, labels, annotations)


# --- labels -----------------------------------------------------------------------------------------------------------


def slice_labels(service: Service, *, manager: str) -> dict[str, str]:
    """The labels that every slice of a Service has: the Service's own, and the three of the slice's controller. A
    reserved label of the Service is not mirrored.

    A Service that no API server has seen yet has no cluster IP; it will get one.
    """
    labels = mirrored_labels(service.metadata.labels, reserved=_RESERVED_LABELS)
    return labels | controller_labels(service, manager=manager, is_headless=service.spec.cluster_ip == names.HEADLESS)


def controller_labels(service: Service, *, manager: str, is_headless: bool) -> dict[str, str]:
    """``is_headless``: proxies ignore the slices."""
    labels = {names.HEADLESS_LABEL: ""} if is_headless else {}
    labels[names.SERVICE_NAME_LABEL] = service.metadata.name
    labels[names.MANAGED_BY_LABEL] = manager
    return labels


def mirrored_labels(
    labels: Mapping[str, str] | None, *, reserved: Iterable[str] = names.RESERVED_SLICE_LABELS
) -> dict[str, str]:
    """Labels without the reserved ones."""
    return {name: value for name, value in (labels or {}).items() if name not in reserved}
