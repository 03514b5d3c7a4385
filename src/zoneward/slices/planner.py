"""Plans a Service again and again.

The controller keeps a `ServicePlanner` for each Service and reports what changed. The planner keeps the endpoints,
counted by what makes them alike to a decision (`zoneward.routing.endpoint_index`), and which slices need no look. A
plan after a few changes therefore costs these changes, the slices that they touch, zones squared, and a name or two of
every slice.

A change that affects all endpoints (ports and families of the Service, settings) is rare, and costs as much as a start.
So does every plan with ``--compat=upstream``, without Pods, or of a Service that is being deleted: these look into all
slices.
"""

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointSlice, Pod, Service, identity
from zoneward.routing.configuration import compatibility_of
from zoneward.routing.demand import Demand
from zoneward.routing.endpoint_index import Bucket, IndexedEndpoint
from zoneward.routing.placement import Target, Targets
from zoneward.routing.zone_groups import ZoneGroup
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.desired import SliceKey, SliceTemplate, desired
from zoneward.slices.endpoints import (
    EndpointBuilder,
    PodEndpoint,
    ServiceEndpoints,
    endpoint_builder,
    planned_address_types,
)
from zoneward.slices.existing import ExistingSlices
from zoneward.slices.plan import (
    ServicePlan,
    collect_families,
    decide_family,
    is_deleting,
    is_managed,
    plan_families,
    plan_unmanaged,
)
from zoneward.slices.reconcile import SliceChanges, reconcile

# --- one address family -----------------------------------------------------------------------------------------------


class _Settled(NamedTuple):
    key: SliceKey
    group: ZoneGroup | None
    identities: frozenset[EndpointIdentity]


class _FamilyCache:
    """What the planner keeps of one address family between two plans: its endpoints, its slices, and which are settled.

    A slice is settled when a plan found nothing to change in it, and until the slice, one of its endpoints or the
    target of one of them changes. The next plan skips settled slices and their endpoints: with ten thousand endpoints,
    comparing every slice with what it should hold takes about as long as everything else together.
    """

    def __init__(self, endpoints: ServiceEndpoints, existing: ExistingSlices) -> None:
        self.endpoints: Final = endpoints
        self.existing: Final = existing
        self._open_endpoints = set(endpoints.by_identity.values())
        """Those in no settled slice."""
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
            self._open_endpoints.add(member)
            self._changed.add(member.identity)

    def _remove_pod(self, pod: Pod, member: PodEndpoint | None) -> None:
        if member is not None:
            self._open_endpoints.discard(member)
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

    def reconcile(self, template: SliceTemplate, targets: Targets) -> SliceChanges:
        """The changes of slices by these targets. Only slices that may differ are looked into."""
        self._compare_targets(template, targets)
        open_slices = self.open_slices()
        groups = {settled.key: settled.group for settled in self._settled.values()}
        settled_slices: dict[SliceKey, dict[str, EndpointSlice]] = {}
        for name, settled in self._settled.items():
            existing = self.existing.get(name)
            assert existing is not None
            settled_slices.setdefault(settled.key, {})[name] = existing.slice
        slices = desired(template, targets, self.endpoints, self._open_endpoints, settled=groups)
        changes = reconcile(template, slices, open_slices, settled=settled_slices)
        self._settle(changes.unchanged, targets)
        return changes

    def open_slices(self) -> list[EndpointSlice]:
        """Our slices that a plan has to look into."""
        for name, settled in tuple(self._settled.items()):
            if not settled.identities.isdisjoint(self._changed):
                self._reopen(name)
        self._changed.clear()
        return [existing.slice for existing in self.existing.own if existing.slice.metadata.name not in self._settled]

    def _compare_targets(self, template: SliceTemplate, targets: Targets) -> None:
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

    def _settle(self, unchanged: Iterable[EndpointSlice], targets: Targets) -> None:
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
            self._open_endpoints.difference_update(members)

    def _reopen(self, name: str) -> None:
        """The next plan has to look into a slice."""
        settled = self._settled.pop(name, None)
        if settled is not None:
            members = map(self.endpoints.by_identity.get, settled.identities)
            self._open_endpoints.update(member for member in members if member is not None)


# --- the planner ------------------------------------------------------------------------------------------------------


class ServicePlanner:
    """Plans one Service again and again. ``pods`` are those its selector matches, ``slices`` all that name it, with
    any manager.
    """

    def __init__(
        self,
        service: Service,
        cluster_state: ClusterState,
        *,
        pods: Iterable[Pod] = (),
        slices: Iterable[EndpointSlice] = (),
    ) -> None:
        self._service = service
        self._cluster_state = cluster_state
        self._pods: dict[Hashable, Pod] = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
        self._slices = {slice_.metadata.name: slice_ for slice_ in slices}
        # Built for the first plan, and then updated; None: the next plan has to build it.
        self._families: dict[str, _FamilyCache] | None = None
        self._existing: Mapping[str, ExistingSlices] = {}

    # --- changes ------------------------------------------------------------------------------------------------------

    def update_pod(self, key: Hashable, pod: Pod | None) -> None:
        """A Pod was added or changed; None: it was deleted, or is no longer selected. ``key``: namespace and name."""
        old = self._pods.pop(key, None) if pod is None else self._pods.get(key)
        if pod is not None:
            self._pods[key] = pod
        if old is pod or self._families is None:
            return
        address_types = planned_address_types(self._service, self._pods.values(), self._cluster_state)
        if not self._cluster_state.pods_known or tuple(self._families) != address_types:
            self._families = None
            return
        for family in self._families.values():
            family.update_pod(old, pod)

    def update_slice(self, name: str, slice_: EndpointSlice | None) -> None:
        """A slice was added or changed; None: it was deleted, or names another Service."""
        old = self._slices.pop(name, None) if slice_ is None else self._slices.get(name)
        if slice_ is not None:
            self._slices[name] = slice_
        if self._families is None:
            return
        changed = slice_ if slice_ is not None else old
        if changed is None:
            return
        family = self._families.get(changed.address_type)
        has_moved = old is not None and old.address_type != changed.address_type
        if family is None or has_moved or not self._cluster_state.pods_known:
            # Slices of a family that the Service does not have are rare: they are deleted, or another controller's.
            self._families = None
            return
        family.update_slice(name, slice_)

    def update_service(self, service: Service) -> None:
        """The Service changed. What endpoints do not depend on (status, settings of routing) costs nothing here."""
        if _endpoint_fields(self._service) != _endpoint_fields(service):
            self._families = None
        self._service = service

    def update_cluster(self, cluster_state: ClusterState) -> None:
        """Nodes or settings changed. Demand alone costs nothing here; a Node costs the Pods on it.

        Callers that pass the same ``node_zones`` while no Node is added, deleted or moved save the comparison.
        """
        old, self._cluster_state = self._cluster_state, cluster_state
        zones, old_zones = cluster_state.node_zones, old.node_zones
        if (
            old.configuration != cluster_state.configuration
            or old.pods_known != cluster_state.pods_known
            or bool(zones) != bool(old_zones)
            or not cluster_state.pods_known
        ):
            self._families = None
        elif self._families is not None and zones is not old_zones and zones != old_zones:
            nodes = _changed_nodes(old_zones, zones)
            pods = [pod for pod in self._pods.values() if pod.spec.node_name in nodes]
            builder = endpoint_builder(self._service, cluster_state)
            for family in self._families.values():
                family.update_nodes(builder, pods)

    @property
    def pending_slices(self) -> int:
        """The number of slices that the next plan has to look into, as far as it is known before the decision."""
        if self._families is None:
            return len(self._slices)
        return sum(len(family.open_slices()) for family in self._families.values())

    # --- the plan -----------------------------------------------------------------------------------------------------

    def plan(self, *, trigger_time: str | None = None, taken: Container[str] = ()) -> ServicePlan:
        """The plan for the objects as they are now: the same as that of `zoneward.slices.plan.plan_service`."""
        service, cluster_state = self._service, self._cluster_state
        if not is_managed(service):
            return plan_unmanaged(service, self._slices.values(), cluster_state)
        if self._families is None:
            self._families = self._build_families()
        for family in self._families.values():
            family.refresh()
        # Hints that depend on every slice that a change happens to touch leave nothing to skip, and a Service is
        # deleted only once.
        sets_hints_in_slices = compatibility_of(cluster_state.configuration).sets_hints_in_slices
        keeps_state = cluster_state.pods_known and not (sets_hints_in_slices or is_deleting(service))
        reconcile_changed = {address_type: family.reconcile for address_type, family in self._families.items()}
        return plan_families(
            service,
            [family.endpoints for family in self._families.values()],
            self._existing,
            cluster_state,
            trigger_time=trigger_time,
            taken=(taken, self._slices),
            reconcile_changed=reconcile_changed if keeps_state else None,
        )

    def is_affected_by(self, demand: Demand) -> bool:
        """Whether another decision than that of the last plan follows from this demand of the cluster.

        Other percentages in texts do not count: they wait for the next plan (KEP-2433 § Overload).
        """
        if self._families is None or demand.zones != self._cluster_state.demand.zones:
            return True
        heuristic = self._cluster_state.requested(self._service).heuristic
        if heuristic is None or not (heuristic.balances or heuristic.subsets):
            # Hints for the own zone do not depend on shares.
            return False
        new = replace(self._cluster_state, demand=demand)
        for family in self._families.values():
            family.refresh()
            before, after = (
                decide_family(self._service, family.endpoints, family.existing, state)
                for state in (self._cluster_state, new)
            )
            if not before.has_same_outcome(after):
                return True
        return False

    def _build_families(self) -> dict[str, _FamilyCache]:
        collected = collect_families(
            self._service, pods=self._pods.values(), slices=self._slices.values(), cluster_state=self._cluster_state
        )
        self._existing = collected.existing
        return {
            endpoints.address_type: _FamilyCache(endpoints, self._existing[endpoints.address_type])
            for endpoints in collected.endpoints
        }


def _endpoint_fields(service: Service) -> tuple[object, ...]:
    """What endpoints and the sorting of slices by manager depend on."""
    meta, spec = service.metadata, service.spec
    publishes = spec.publish_not_ready_addresses is True
    families = spec.ip_families, spec.cluster_ip
    return meta.uid, meta.namespace, meta.name, meta.deletion_timestamp is None, spec.ports, families, publishes


def _changed_nodes(old: Mapping[str, str | None], new: Mapping[str, str | None]) -> set[str]:
    """Nodes that were added or deleted, or are in another zone."""
    missing = object()
    return {name for name in old.keys() | new.keys() if old.get(name, missing) != new.get(name, missing)}
