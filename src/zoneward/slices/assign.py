"""Step 3 of a plan, *assign*: a decision to the slice group of each endpoint.

Zones that consume the same endpoints share a slice group (KEP-2004 § Terminology). Without slice groups, all zones read
all slices, and all endpoints with the same ports are in one group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from zoneward.kube.objects import EndpointPort, EndpointSlice
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.groups import Group
from zoneward.slices.endpoints import PodEndpoint, PortGroup
from zoneward.slices.ports import PortKey

Zones = tuple[str, ...]
"""The zones that consume a slice group; none where all zones do."""


@dataclass(frozen=True, slots=True)
class CleanSlices:
    """Slices of one group, by name, that hold exactly what they should."""

    group: Group | None
    slices: dict[str, EndpointSlice]


CleanGroups = Mapping[Zones, CleanSlices]
NO_CLEAN_GROUPS: Final[CleanGroups] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PendingWork:
    """What a plan has to look at: everything, or what may have changed since the last plan.

    ``slices`` are our own that may have to change, ``endpoints`` those that are in no ``clean`` slice.
    """

    endpoints: Iterable[PodEndpoint]
    slices: Sequence[EndpointSlice]
    clean: Mapping[PortKey, CleanGroups] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignedGroup:
    """The pending endpoints of one slice group; ``group`` is None for the slices that all zones consume."""

    group: Group | None
    endpoints: list[PodEndpoint] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AssignedPorts:
    """The slice groups of endpoints that serve the same ports."""

    ports: tuple[EndpointPort, ...]
    groups: dict[Zones, AssignedGroup]


def assign(
    assignment: Assignment, port_groups: Mapping[PortKey, PortGroup], pending: PendingWork
) -> dict[PortKey, AssignedPorts]:
    """Assign pending endpoints to slice groups. A group that only has clean slices is there, without endpoints."""
    found = {
        key: AssignedPorts(
            each.ports,
            {zones: AssignedGroup(clean.group) for zones, clean in pending.clean.get(key, NO_CLEAN_GROUPS).items()},
        )
        for key, each in port_groups.items()
    }
    grouped = assignment.kind == "groups"
    by_ports: dict[PortKey, list[PodEndpoint]] = {}
    ports: PortKey | None = None
    members: list[PodEndpoint] = []
    for member in pending.endpoints:
        # Nearly all endpoints share one key, which need not be hashed again for each of them.
        if member.ports is not ports:
            ports = member.ports
            members = by_ports.setdefault(ports, [])
        members.append(member)
    for key, members in by_ports.items():
        groups = found[key].groups
        if not (grouped and port_groups[key].counted):
            groups.setdefault((), AssignedGroup(None)).endpoints.extend(members)
            continue
        for member in members:
            group = assignment.group_of(member)
            zones = group.zones if group is not None else ()
            if zones not in groups:
                groups[zones] = AssignedGroup(group)
            groups[zones].endpoints.append(member)
    for each in found.values():
        if not each.groups:
            each.groups[()] = AssignedGroup(None)
    return found
