"""What the planner keeps about one address family of a Service: which of its slices are clean.

A slice is clean when a plan found nothing to change in it, and until something changes that it depends on: the slice
itself, one of its endpoints, or what the decision says about one of them. Decisions are compared by bucket
(`zoneward.routing.placement.endpoint_index`), so that the comparison of an unchanged decision takes a few steps. Only
pending endpoints, which are in no clean slice, and slices that are not clean go through the steps of a plan again.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointSlice, Pod, identity
from zoneward.routing.placement.endpoint_index import Bucket, IndexedEndpoint
from zoneward.routing.placement.groups import ZoneGroup
from zoneward.routing.placement.targets import Target, Targets
from zoneward.slices.assign import CleanSlices, PendingWork
from zoneward.slices.endpoints import EndpointBuilder, PodEndpoint, ServiceEndpoints
from zoneward.slices.existing import ExistingSlice, ExistingSlices, GroupKey


class FamilyState:
    """The endpoints and the slices of one address family, and which slices are clean."""

    def __init__(self, endpoints: ServiceEndpoints, slices: ExistingSlices) -> None:
        self.endpoints: Final = endpoints
        self.slices: Final = slices
        self._pending_endpoints: set[PodEndpoint] = set(endpoints.by_identity.values())
        self._pending_slices: dict[str, ExistingSlice] = dict(slices.own)
        self._clean: dict[GroupKey, CleanSlices] = {}
        self._targets: Mapping[Bucket | IndexedEndpoint, Target] = {}
        self._fingerprint: object = None

    @property
    def pending_slices(self) -> int:
        """The number of slices that the next plan has to look into, as far as it is known before the decision."""
        return len(self._pending_slices)

    # --- changes ------------------------------------------------------------------------------------------------------

    def update_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A Pod was added, changed or deleted."""
        member = self.endpoints.find(old) if old is not None else None
        if member is not None and new is not None:
            endpoint = self.endpoints.endpoint_of(new)
            if (
                endpoint is not None
                and identity(endpoint) == member.identity
                and self.endpoints.builder.ports(new)[0] == member.ports
            ):
                if endpoint != member.endpoint:
                    self._update(member, endpoint, member.previous_group)
                return
        if old is not None:
            self._remove_pod(old, member)
        if new is not None:
            self._add_pod(new)

    def update_nodes(self, builder: EndpointBuilder, pods: Iterable[Pod]) -> None:
        """Nodes were added or deleted, or changed their zones; ``pods`` run on these."""
        pods = tuple(pods)
        for pod in pods:
            self._remove_pod(pod, self.endpoints.find(pod))
        self.endpoints.builder = builder
        for pod in pods:
            self._add_pod(pod)

    def update_slice(self, slice_: EndpointSlice, rank: int) -> None:
        """A slice was added or changed."""
        name = slice_.metadata.name
        self._invalidate(self.slices.get(name))
        self._update_previous_groups(self.slices.set(slice_, rank))
        if name in self.slices.own:
            self._pending_slices[name] = self.slices.own[name]
        else:
            self._pending_slices.pop(name, None)

    def remove_slice(self, name: str) -> None:
        """A slice was deleted."""
        self._invalidate(self.slices.get(name))
        self._pending_slices.pop(name, None)
        self._update_previous_groups(self.slices.remove(name))

    def _add_pod(self, pod: Pod) -> None:
        member = self.endpoints.add_pod(pod, self._previous_group)
        if member is not None:
            self._pending_endpoints.add(member)

    def _remove_pod(self, pod: Pod, member: PodEndpoint | None) -> None:
        if member is not None:
            self._invalidate_slices_of(member)
            self._pending_endpoints.remove(member)
        self.endpoints.remove_pod(pod, member)

    def _update(self, member: PodEndpoint, endpoint: Endpoint, previous_group: ZoneGroup | None) -> None:
        self._invalidate_slices_of(member)
        self.endpoints.update(member, endpoint, previous_group)

    def _update_previous_groups(self, keys: Iterable[EndpointIdentity]) -> None:
        """Slices may show other groups for some endpoints."""
        by_identity = self.endpoints.by_identity
        members = [member for key in keys if (member := by_identity.get(key)) is not None]
        if not members:
            return
        groups = self.slices.previous_groups([member.identity for member in members])
        for member in members:
            group = groups.get(member.identity)
            if member.previous_group is not group:
                self._update(member, member.endpoint, group)
            if member.identity in self.slices.listed_twice:
                # It stays in the first slice by name, which may be another one now.
                self._invalidate_slices_of(member)

    def _previous_group(self, key: EndpointIdentity) -> ZoneGroup | None:
        return self.slices.previous_groups((key,)).get(key)

    # --- pending and clean --------------------------------------------------------------------------------------------

    def pending(self, targets: Targets, fingerprint: object) -> PendingWork:
        """What a plan has to look at. ``fingerprint`` holds all that every slice depends on."""
        if fingerprint != self._fingerprint:
            for each in self.slices.own.values():
                self._invalidate(each)
        else:
            for bucket, target in targets.targets.items():
                if isinstance(bucket, Bucket) and self._targets.get(bucket) != target:
                    for member in bucket.members:
                        self._invalidate_slices_of(member)
            for member in targets.exceptions():
                self._invalidate_slices_of(member)
        self._targets, self._fingerprint = targets.targets, fingerprint
        slices = [each.slice for each in self._pending_slices.values()]
        return PendingWork(self._pending_endpoints, slices, self._clean)

    def mark_clean(self, slices: Iterable[EndpointSlice], targets: Targets) -> None:
        """A plan found nothing to change in some slices: remember them while nothing changes."""
        special = targets.exceptions()
        for slice_ in slices:
            name = slice_.metadata.name
            each = self.slices.own[name]
            if not each.identities:
                continue
            members = [self.endpoints.by_identity[key] for key in each.identities]
            if special and not special.isdisjoint(members):
                continue
            ports = members[0].ports
            grouped = targets.encoding == "slice-groups" and self.endpoints.port_groups[ports].counted
            group = targets.of(members[0]).group if grouped else None
            each.clean = ports, group.zones if group is not None else ()
            self._clean.setdefault(each.clean, CleanSlices(group, {})).slices[name] = slice_
            del self._pending_slices[name]
            self._pending_endpoints.difference_update(members)

    def _invalidate(self, each: ExistingSlice | None) -> None:
        """The next plan has to look into a slice."""
        if each is None or each.clean is None:
            return
        name = each.slice.metadata.name
        self._pending_slices[name] = each
        clean = self._clean[each.clean].slices
        del clean[name]
        if not clean:
            del self._clean[each.clean]
        each.clean = None
        self._pending_endpoints.update(self.endpoints.by_identity[key] for key in each.identities)

    def _invalidate_slices_of(self, member: IndexedEndpoint) -> None:
        for each in self.slices.with_endpoint(member.identity):
            self._invalidate(each)
