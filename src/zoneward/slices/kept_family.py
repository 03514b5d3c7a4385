"""One address family of a Service, kept between plans: its endpoints, and what its slices are known to hold.

Every endpoint lies in a settled slice, or it is loose. A slice is settled when a plan found nothing to change in it,
and until something that it depends on changes: the slice itself, one of its endpoints, or what the decision says of one
of them. That is told by cell (`zoneward.routing.placement.crowd`), so that an unchanged decision is compared in a few
steps. Only loose endpoints and slices that are not settled are packed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointPort, EndpointSlice, Pod, identity
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.crowd import Cell, Crowd, Member
from zoneward.routing.placement.groups import Group
from zoneward.slices.endpoints import PortGroup, Recipe, endpoints_of_slices, has_endpoint, has_refused_address
from zoneward.slices.kept_slices import KeptSlice, KeptSlices, in_order
from zoneward.slices.packing import Settled
from zoneward.slices.ports import PortKey

_NEVER: Final = object()


class KeptEndpoint(Member):
    """An endpoint as its Pod has it, without hints, and the ports that it serves."""

    __slots__ = ("ports",)

    def __init__(self, endpoint: Endpoint, key: EndpointIdentity, before: Group | None, ports: PortKey) -> None:
        # Not by the other `__init__`: there are tens of thousands.
        self.endpoint = endpoint
        self.identity = key
        self.before = before
        self.cell = None
        self.ports = ports


class KeptPorts:
    """Endpoints that serve the same ports: how many ``pods`` there are for them, and how many have an endpoint here.

    Where they are not ``counted`` no decision knows of them: nobody is sent to an endpoint without ports.
    """

    __slots__ = ("counted", "pods", "ports", "size")

    def __init__(self, ports: tuple[EndpointPort, ...], *, counted: bool) -> None:
        self.ports = ports
        self.counted = counted
        self.pods = 0
        self.size = 0


class KeptFamily:
    """``portless``: endpoints without ports count too (upstream; a Service without ports)."""

    def __init__(self, address_type: str, slices: KeptSlices, recipe: Recipe, *, apart: bool, portless: bool) -> None:
        self.address_type: Final = address_type
        self.slices: Final = slices
        self.ports: Final[dict[PortKey, KeptPorts]] = {}
        self.gone: Final[set[str]] = set()
        """The names of Pods that are left out because their Node is gone."""
        self.refused: Final[set[str]] = set()
        """The names of Pods that are left out because no EndpointSlice may have their address."""
        self.settled: Final[dict[PortKey, dict[tuple[str, ...], Settled]]] = {}
        self.crowd: Final = Crowd(apart=apart, members=self._in_order)
        self._recipe = recipe
        self._portless = portless
        self._members: dict[EndpointIdentity, KeptEndpoint] = {}
        self._loose: set[KeptEndpoint] = set()
        self._unsettled: dict[str, KeptSlice] = dict(slices.own)
        self._told: Mapping[Cell, Group | None] = {}
        self._regime: object = None

    # --- changes ------------------------------------------------------------------------------------------------------

    def fill(self, pods: Iterable[Pod] | None) -> None:
        """Take in all Pods at once; None: the endpoints that the slices list, for snapshots without Pods."""
        placement = self.slices.placement()
        if pods is None:
            listing = (*in_order(self.slices.replaced), *in_order(self.slices.own))
            there = endpoints_of_slices(each.slice for each in listing if each.counts)
            for ports, group in there.items():
                kept = self._open(ports, group.ports)
                for key, endpoint in group.endpoints.items():
                    self._add(KeptEndpoint(endpoint, key, placement.get(key), ports), kept)
            return
        for pod in pods:
            self._enter(pod, placement)

    def change(self, old: Pod | None, new: Pod | None) -> None:
        """A Pod came, changed or went."""
        member = self._member_of(old) if old is not None else None
        if member is not None and new is not None:
            endpoint = self._endpoint_of(new)
            same = endpoint is not None and identity(endpoint) == member.identity
            if same and endpoint is not None and self._recipe.ports(new)[0] == member.ports:
                if endpoint != member.endpoint:
                    self._alter(member, endpoint, member.before)
                return
        if old is not None:
            self._leave(old, member)
        if new is not None:
            self._enter(new, None)

    def renew(self, recipe: Recipe, pods: Iterable[Pod]) -> None:
        """Nodes came, went or changed their zones: those that ``pods`` run on."""
        pods = tuple(pods)
        for pod in pods:
            self._leave(pod, self._member_of(pod))
        self._recipe = recipe
        for pod in pods:
            self._enter(pod, None)

    def put_slice(self, slice_: EndpointSlice, rank: int) -> None:
        """A slice came or changed."""
        name = slice_.metadata.name
        self._unsettle(self.slices.of(name))
        self._told_anew(self.slices.put(slice_, rank))
        if name in self.slices.own:
            self._unsettled[name] = self.slices.own[name]
        else:
            self._unsettled.pop(name, None)

    def drop_slice(self, name: str) -> None:
        """A slice went."""
        self._unsettle(self.slices.of(name))
        self._unsettled.pop(name, None)
        self._told_anew(self.slices.drop(name))

    def _enter(self, pod: Pod, placement: Mapping[EndpointIdentity, Group] | None) -> None:
        if not has_endpoint(pod):
            return
        recipe = self._recipe
        ports, numbered = recipe.ports(pod)
        kept = self._open(ports, numbered)
        if recipe.is_gone(pod):
            self.gone.add(pod.metadata.name)
            return
        endpoint = recipe.endpoint(pod, self.address_type)
        if endpoint is None and has_refused_address(pod, self.address_type):
            self.refused.add(pod.metadata.name)
        if endpoint is not None:
            key = identity(endpoint)
            if placement is None:
                placement = self.slices.placement((key,))
            self._add(KeptEndpoint(endpoint, key, placement.get(key), ports), kept)

    def _leave(self, pod: Pod, member: KeptEndpoint | None) -> None:
        if not has_endpoint(pod):
            return
        self.gone.discard(pod.metadata.name)
        self.refused.discard(pod.metadata.name)
        ports = self._recipe.ports(pod)[0]
        kept = self.ports[ports]
        if member is not None:
            self._touch(member)
            self._loose.remove(member)
            del self._members[member.identity]
            kept.size -= 1
            if kept.counted:
                self.crowd.remove(member)
        kept.pods -= 1
        if not kept.pods:
            del self.ports[ports]

    def _open(self, ports: PortKey, numbered: tuple[EndpointPort, ...]) -> KeptPorts:
        kept = self.ports.get(ports)
        if kept is None:
            kept = self.ports[ports] = KeptPorts(numbered, counted=self._portless or bool(numbered))
        kept.pods += 1
        return kept

    def _add(self, member: KeptEndpoint, kept: KeptPorts) -> None:
        self._members[member.identity] = member
        self._loose.add(member)
        kept.size += 1
        if kept.counted:
            self.crowd.add(member)

    def _alter(self, member: KeptEndpoint, endpoint: Endpoint, before: Group | None) -> None:
        self._touch(member)
        counted = self.ports[member.ports].counted
        if counted:
            self.crowd.remove(member)
        member.endpoint, member.before = endpoint, before
        if counted:
            self.crowd.add(member)

    def _told_anew(self, keys: Iterable[EndpointIdentity]) -> None:
        """What slices say of some endpoints may have changed."""
        members = [member for key in keys if (member := self._members.get(key)) is not None]
        if not members:
            return
        placement = self.slices.placement([member.identity for member in members])
        for member in members:
            before = placement.get(member.identity)
            if member.before is not before:
                self._alter(member, member.endpoint, before)
            if member.identity in self.slices.doubled:
                # Another slice that comes first by name may be where it stays.
                self._touch(member)

    def _endpoint_of(self, pod: Pod) -> Endpoint | None:
        if not has_endpoint(pod) or self._recipe.is_gone(pod):
            return None
        return self._recipe.endpoint(pod, self.address_type)

    def _member_of(self, pod: Pod) -> KeptEndpoint | None:
        endpoint = self._endpoint_of(pod)
        return self._members[identity(endpoint)] if endpoint is not None else None

    # --- what is settled, and what is not -----------------------------------------------------------------------------

    def loosen(self, assignment: Assignment, regime: object) -> None:
        """See which slices a decision may change. ``regime`` is what all of them depend on; None: look at each."""
        if regime is None or regime != self._regime:
            for each in self.slices.own.values():
                self._unsettle(each)
        else:
            for cell, group in assignment.whole.items():
                if self._told.get(cell, _NEVER) != group:
                    for member in cell.members:
                        self._touch(member)
            for member in self._special(assignment):
                self._touch(member)
        self._told, self._regime = assignment.whole, regime

    def unsettled(self) -> list[EndpointSlice]:
        """Our own slices that have to be looked at."""
        return [each.slice for each in self._unsettled.values()]

    def loose(self, assignment: Assignment) -> dict[PortKey, PortGroup]:
        """The endpoints that lie in no settled slice, as they should be."""
        found = {ports: PortGroup(kept.ports, {}, {}) for ports, kept in self.ports.items()}
        hinted, grouped = assignment.kind == "hints", assignment.kind == "groups"
        for member in self._loose:
            group = found[member.ports]
            endpoint = member.endpoint
            if hinted:
                hints = assignment.hints_of(member)
                if hints is not None:
                    endpoint = replace(endpoint, hints=hints)
            elif grouped and self.ports[member.ports].counted:
                group.slice_groups[member.identity] = assignment.group_of(member)
            group.endpoints[member.identity] = endpoint
        return found

    def settle(self, unchanged: Iterable[EndpointSlice], assignment: Assignment) -> None:
        """Of open slices that a plan found nothing to change in, remember those that stay so while nothing changes."""
        special = self._special(assignment)
        for slice_ in unchanged:
            name = slice_.metadata.name
            each = self.slices.own[name]
            if not each.identities:
                continue
            members = [self._members[key] for key in each.identities]
            if special and not special.isdisjoint(members):
                continue
            grouped = assignment.kind == "groups" and self.ports[members[0].ports].counted
            group = assignment.group_of(members[0]) if grouped else None
            each.settled = members[0].ports, group.zones if group is not None else ()
            by_zones = self.settled.setdefault(members[0].ports, {})
            by_zones.setdefault(each.settled[1], Settled(group, {})).slices[name] = slice_
            del self._unsettled[name]
            self._loose.difference_update(members)

    def _unsettle(self, each: KeptSlice | None) -> None:
        if each is None or each.settled is None:
            return
        ports, zones = each.settled
        name = each.slice.metadata.name
        each.settled = None
        self._unsettled[name] = each
        by_zones = self.settled[ports]
        del by_zones[zones].slices[name]
        if not by_zones[zones].slices:
            del by_zones[zones]
            if not by_zones:
                del self.settled[ports]
        self._loose.update(self._members[key] for key in each.identities)

    def _special(self, assignment: Assignment) -> set[Member]:
        """Endpoints that are looked at each time: those that are not like their cell, and those that share an address,
        for what is said of one depends on another."""
        return {*assignment.apart, *self.crowd.twins, *self.crowd.twins.values()}

    def _in_order(self) -> Iterator[Member]:
        members: dict[PortKey, list[Member]] = {ports: [] for ports, kept in self.ports.items() if kept.counted}
        for member in self._members.values():
            if member.ports in members:
                members[member.ports].append(member)
        return (member for some in members.values() for member in some)

    def _touch(self, member: Member) -> None:
        """Whatever lists the endpoint has to be looked at."""
        for each in self.slices.listing(member.identity):
            self._unsettle(each)
