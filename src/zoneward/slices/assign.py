"""Step 3 of a plan, *assign*: a decision to the slice group of each endpoint.

Zones that consume the same endpoints share a slice group (KEP-2004 § Terminology). Without slice groups, all zones read
all slices, and all endpoints with the same ports are in one group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zoneward.kube.objects import EndpointPort, EndpointSlice
from zoneward.routing.placement.groups import ZoneGroup
from zoneward.routing.placement.targets import Targets
from zoneward.slices.endpoints import PodEndpoint, ServiceEndpoints
from zoneward.slices.existing import GroupKey
from zoneward.slices.ports import PortKey


@dataclass(frozen=True, slots=True)
class CleanSlices:
    """Slices of one group, by name, that hold exactly what they should."""

    group: ZoneGroup | None
    slices: dict[str, EndpointSlice]


@dataclass(frozen=True, slots=True)
class PendingWork:
    """What a plan has to look at: everything, or what may have changed since the last plan.

    ``slices`` are our own that may have to change, ``endpoints`` those that are in no ``clean`` slice.
    """

    endpoints: Iterable[PodEndpoint]
    slices: Sequence[EndpointSlice]
    clean: Mapping[GroupKey, CleanSlices] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignedGroup:
    """Endpoints that share slices: they serve the same ``ports`` and belong to the same ``group``.

    ``group`` is None where all zones consume them. ``endpoints`` are the pending ones, ``clean`` the slices of the
    others, by name.
    """

    ports: tuple[EndpointPort, ...]
    group: ZoneGroup | None
    clean: Mapping[str, EndpointSlice] = field(default_factory=dict)
    endpoints: list[PodEndpoint] = field(default_factory=list)


def assign(targets: Targets, endpoints: ServiceEndpoints, pending: PendingWork) -> dict[GroupKey, AssignedGroup]:
    """Assign pending endpoints to slice groups."""
    port_groups = endpoints.port_groups
    found = {
        key: AssignedGroup(port_groups[key[0]].ports, clean.group, clean.slices) for key, clean in pending.clean.items()
    }
    by_ports: dict[PortKey, list[PodEndpoint]] = {}
    ports: PortKey | None = None
    members: list[PodEndpoint] = []
    for member in pending.endpoints:
        # Nearly all endpoints share one key, which need not be hashed again for each of them.
        if member.ports is not ports:
            ports = member.ports
            members = by_ports.setdefault(ports, [])
        members.append(member)
    for ports, members in by_ports.items():
        port_group = port_groups[ports]
        if targets.encoding != "slice-groups" or not port_group.counted:
            found.setdefault((ports, ()), AssignedGroup(port_group.ports, None)).endpoints.extend(members)
            continue
        by_zones: dict[tuple[str, ...], list[PodEndpoint]] = {}
        for member in members:
            group = targets.of(member).group
            zones = group.zones if group is not None else ()
            if zones not in by_zones:
                assigned = found.setdefault((ports, zones), AssignedGroup(port_group.ports, group))
                by_zones[zones] = assigned.endpoints
            by_zones[zones].append(member)
    for ports in port_groups.keys() - {key[0] for key in found}:
        found[ports, ()] = AssignedGroup(port_groups[ports].ports, None)
    return found
