"""What the planner keeps of one address family between two plans: its endpoints, its slices, and which are settled.

A slice is settled when a plan found nothing to change in it, and until the slice, one of its endpoints or the target of
one of them changes. The next plan skips settled slices and their endpoints: with ten thousand endpoints, comparing
every slice with what it should hold takes about as long as everything else together.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointSlice, Pod, identity
from zoneward.routing.endpoint_index import Bucket, IndexedEndpoint
from zoneward.routing.placement import Target, Targets
from zoneward.routing.zone_groups import ZoneGroup
from zoneward.slices.desired import SliceKey, SliceTemplate
from zoneward.slices.endpoints import EndpointBuilder, PodEndpoint, ServiceEndpoints
from zoneward.slices.existing import ExistingSlices


class _Settled(NamedTuple):
    key: SliceKey
    group: ZoneGroup | None
    identities: frozenset[EndpointIdentity]


class FamilyCache:
    """``open_endpoints`` are those in no settled slice."""

    def __init__(self, endpoints: ServiceEndpoints, existing: ExistingSlices) -> None:
        self.endpoints: Final = endpoints
        self.existing: Final = existing
        self.open_endpoints: Final[set[PodEndpoint]] = set(endpoints.by_identity.values())
        self._settled: dict[str, _Settled] = {}
        self._changed: set[EndpointIdentity] = set()
        """Endpoints that changed since the last plan, or whose slices did."""
        self._regrouped: set[EndpointIdentity] = set()
        """Endpoints whose slices may show another group than before."""
        self._targets: Mapping[Bucket | IndexedEndpoint, Target] = {}
        self._basis: object = None
        """All that every slice depends on."""

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

    def update_slice(self, name: str, slice_: EndpointSlice | None) -> None:
        """A slice was added or changed; None: it was deleted."""
        self._reopen(name)
        old, new = self.existing.get(name), None
        if slice_ is not None:
            new = self.existing.set(slice_)
        else:
            self.existing.remove(name)
        listed_before = set(old.identities) if old is not None else set()
        listed_after = set(new.identities) if new is not None else set()
        # An endpoint that two slices list stays in the first by name, which may be another one now.
        self._changed.update(listed_before ^ listed_after)
        before = old.previous if old is not None else {}
        after = new.previous if new is not None else {}
        self._regrouped.update(key for key in before.keys() | after.keys() if before.get(key) is not after.get(key))

    def _add_pod(self, pod: Pod) -> None:
        member = self.endpoints.add_pod(pod, lambda key: self.existing.previous_groups((key,)).get(key))
        if member is not None:
            self.open_endpoints.add(member)
            self._changed.add(member.identity)

    def _remove_pod(self, pod: Pod, member: PodEndpoint | None) -> None:
        if member is not None:
            self.open_endpoints.discard(member)
            self._changed.add(member.identity)
        self.endpoints.remove_pod(pod, member)

    def _update(self, member: PodEndpoint, endpoint: Endpoint, previous_group: ZoneGroup | None) -> None:
        self._changed.add(member.identity)
        self.endpoints.update(member, endpoint, previous_group)

    # --- plans --------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Count endpoints by the groups that slices show now. Decisions read them."""
        if not self._regrouped:
            return
        groups = self.existing.previous_groups(self._regrouped)
        for key in self._regrouped:
            member = self.endpoints.by_identity.get(key)
            if member is not None and member.previous_group is not groups.get(key):
                self._update(member, member.endpoint, groups.get(key))
        self._regrouped.clear()

    def compare_targets(self, targets: Targets, template: SliceTemplate) -> None:
        """Open the slices that these targets change."""
        basis = template.labels, template.in_force, targets.encoding, targets.node_hints
        if basis == self._basis:
            for bucket, target in targets.targets.items():
                if isinstance(bucket, Bucket) and self._targets.get(bucket) != target:
                    self._changed.update(member.identity for member in bucket.members)
            self._changed.update(member.identity for member in targets.exceptions())
        else:
            for name in tuple(self._settled):
                self._reopen(name)
        self._targets, self._basis = targets.targets, basis

    def open_slices(self) -> list[EndpointSlice]:
        """Our slices that a plan has to look into."""
        for name, settled in tuple(self._settled.items()):
            if not settled.identities.isdisjoint(self._changed):
                self._reopen(name)
        self._changed.clear()
        return [existing.slice for existing in self.existing.own if existing.slice.metadata.name not in self._settled]

    def settled_groups(self) -> dict[SliceKey, ZoneGroup | None]:
        return {settled.key: settled.group for settled in self._settled.values()}

    def settled_slices(self) -> dict[SliceKey, dict[str, EndpointSlice]]:
        slices: dict[SliceKey, dict[str, EndpointSlice]] = {}
        for name, settled in self._settled.items():
            existing = self.existing.get(name)
            assert existing is not None
            slices.setdefault(settled.key, {})[name] = existing.slice
        return slices

    def settle(self, unchanged: Iterable[EndpointSlice], targets: Targets) -> None:
        """A plan found nothing to change in these slices."""
        exceptions = {member.identity for member in targets.exceptions()}
        for slice_ in unchanged:
            existing = self.existing.get(slice_.metadata.name)
            if existing is None or not existing.identities or slice_.metadata.name in self._settled:
                continue
            if exceptions and not exceptions.isdisjoint(existing.identities):
                continue
            members = [self.endpoints.by_identity[key] for key in existing.identities]
            group = targets.of(members[0]).group
            key = members[0].ports, group.zones if group is not None else ()
            self._settled[slice_.metadata.name] = _Settled(key, group, frozenset(existing.identities))
            self.open_endpoints.difference_update(members)

    def _reopen(self, name: str) -> None:
        """The next plan has to look into a slice."""
        settled = self._settled.pop(name, None)
        if settled is not None:
            members = map(self.endpoints.by_identity.get, settled.identities)
            self.open_endpoints.update(member for member in members if member is not None)
