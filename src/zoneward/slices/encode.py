"""Step 4 of a plan, *encode*: assigned endpoints to what their EndpointSlices say.

Everything that tells a proxy which endpoints it should use is written here:

- hints, ``forZones`` and ``forNodes``, by `hints_of`;
- the zone label of a slice group, and the annotation that lists several zones, or their weights, by `encode_group`;
- the annotation that remembers the approach, and the labels that every slice of the Service has.

With ``--compat=upstream`` hints depend on which endpoints share a slice; `zoneward.slices.upstream_hints` writes them
after the slices are packed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import (
    Endpoint,
    EndpointIdentity,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
    Hints,
    Service,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.placement.groups import ZoneGroup
from zoneward.routing.placement.targets import ALL_ZONES, Target, Targets
from zoneward.routing.selection.group_labels import zones_annotation
from zoneward.slices.assign import AssignedGroup
from zoneward.slices.existing import GroupKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTemplate:
    """What all slices of a Service in one address family have in common.

    ``in_force`` is the approach that slices remember, or None. ``upstream``: hints are set after packing, and zone
    labels mean nothing.
    """

    service: Service
    address_type: str
    labels: Mapping[str, str]
    in_force: str | None = None
    upstream: bool = False
    max_endpoints: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedGroup:
    """What the slices of one group say: their ports, their labels, our annotations (None: it must not be there), and
    the pending endpoints. The ``clean`` slices, by name, hold all that already.
    """

    ports: tuple[EndpointPort, ...] = ()
    labels: Mapping[str, str]
    annotations: Mapping[str, str | None]
    endpoints: Mapping[EndpointIdentity, Endpoint]
    clean: Mapping[str, EndpointSlice] = field(default_factory=dict)


def slice_template(
    service: Service, *, address_type: str, in_force: str | None, configuration: Configuration
) -> SliceTemplate:
    """The template for slices that show the approach ``in_force``. Upstream's slices remember none."""
    return SliceTemplate(
        service=service,
        address_type=address_type,
        labels=slice_labels(service, manager=configuration.manager, upstream=configuration.upstream),
        in_force=None if configuration.upstream else in_force,
        upstream=configuration.upstream,
        max_endpoints=configuration.max_endpoints_per_slice,
    )


def encode(
    template: SliceTemplate, targets: Targets, assigned: Mapping[GroupKey, AssignedGroup]
) -> dict[GroupKey, EncodedGroup]:
    """Encode assigned endpoints."""
    found = {}
    for key, each in assigned.items():
        endpoints = {member.identity: member.endpoint for member in each.endpoints}
        if targets.encoding == "hints":
            for member in each.endpoints:
                hints = hints_of(targets.of(member))
                if hints is not None:
                    endpoints[member.identity] = replace(member.endpoint, hints=hints)
        labels, annotations = encode_group(template, each.group)
        found[key] = EncodedGroup(
            ports=each.ports, labels=labels, annotations=annotations, endpoints=endpoints, clean=each.clean
        )
    return found


# --- hints ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def hints_of(target: Target) -> Hints | None:
    """The hints of an endpoint. Endpoints with the same target share one object."""
    if target is ALL_ZONES:
        return None
    return Hints(
        for_zones=tuple(map(ForZone, target.zones)) or None, for_nodes=(ForNode(target.node),) if target.node else None
    )


# --- labels and annotations -------------------------------------------------------------------------------------------


def encode_group(template: SliceTemplate, group: ZoneGroup | None) -> tuple[dict[str, str], dict[str, str | None]]:
    """The labels and annotations of slices of a group: the zone label names its first zone, the annotation lists all
    its zones and weights where the label does not say enough (`zoneward.routing.selection.group_labels` reads both)."""
    labels = dict(template.labels)
    if group is not None:
        labels[names.ZONE_LABEL] = group.label_zone
    annotations = {
        names.APPROACH_ANNOTATION: template.in_force,
        names.ZONES_ANNOTATION: zones_annotation(group),
    }
    return labels, annotations


def slice_labels(service: Service, *, manager: str, upstream: bool = False) -> dict[str, str]:
    """The labels that every slice of a Service has: the Service's own, and the three of the slice's controller. A
    reserved label of the Service is not mirrored."""
    labels = mirrored_labels(service.metadata.labels, upstream=upstream)
    if is_headless(service, upstream=upstream):
        labels[names.HEADLESS_LABEL] = ""
    labels[names.SERVICE_NAME_LABEL] = service.metadata.name
    labels[names.MANAGED_BY_LABEL] = manager
    return labels


def mirrored_labels(labels: Mapping[str, str] | None, *, upstream: bool = False) -> dict[str, str]:
    """Labels without the reserved ones. The zone label is reserved too: it says which zones consume a slice."""
    return {
        name: value
        for name, value in (labels or {}).items()
        if name not in names.RESERVED_SLICE_LABELS and (upstream or name != names.ZONE_LABEL)
    }


def is_headless(service: Service, *, upstream: bool = False) -> bool:
    """Whether slices get the headless label, so that proxies ignore them.

    A Service that no API server has seen yet has no cluster IP; it will get one. Upstream calls it headless.
    """
    ip = service.spec.cluster_ip
    return ip == names.HEADLESS or (upstream and not ip)
