"""Plans a Service again and again.

The controller keeps a `ServicePlanner` for each Service and reports what changed. The planner keeps the endpoints,
counted by what makes them alike to a decision (`zoneward.routing.endpoint_index`), and which slices need no
look (`zoneward.slices.family_cache`). A plan after a few changes therefore costs these changes, the slices that they
touch, zones squared, and a name or two of every slice.

A change that affects all endpoints (ports and families of the Service, settings) is rare, and costs as much as a start.
So does every plan with ``--compat=upstream``, without Pods, or of a Service that is being deleted: these look into all
slices.
"""

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import replace

from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.routing.configuration import compatibility_of
from zoneward.routing.demand import Demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.endpoints import endpoint_builder, planned_address_types
from zoneward.slices.existing import ExistingSlices
from zoneward.slices.family_cache import FamilyCache
from zoneward.slices.plan import (
    ServicePlan,
    collect_families,
    decide_family,
    is_deleting,
    is_managed,
    plan_families,
    plan_unmanaged,
)


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
        self._families: dict[str, FamilyCache] | None = None
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
        address_types = {changed.address_type for changed in (old, slice_) if changed is not None}
        families = [family for type_, family in self._families.items() if type_ in address_types]
        if len(address_types) > 1 or len(families) < len(address_types) or not self._cluster_state.pods_known:
            # Of a family that the Service does not have, or no longer has: it is deleted, or another controller's.
            self._families = None
            return
        for family in families:
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
        return plan_families(
            service,
            [family.endpoints for family in self._families.values()],
            self._existing,
            cluster_state,
            trigger_time=trigger_time,
            taken=(taken, self._slices),
            caches=self._families if keeps_state else None,
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

    def _build_families(self) -> dict[str, FamilyCache]:
        collected = collect_families(
            self._service, pods=self._pods.values(), slices=self._slices.values(), cluster_state=self._cluster_state
        )
        self._existing = collected.existing
        return {
            endpoints.address_type: FamilyCache(endpoints, self._existing[endpoints.address_type])
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
