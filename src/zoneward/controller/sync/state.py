"""What is kept of each Service between its syncs, and what all of them share: demand and the Nodes' zones.

Nothing is kept of a Service before its first plan. Changes that come later wait until the next one: so a plan stays
what it was while it is written, and what a Pod was in between costs nothing.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from zoneward.client.cache import Cache
from zoneward.client.resources import Key, LiveNode, LivePod, key_of, service_of
from zoneward.controller.sync.demand_changes import Counted, counted, services_to_requeue
from zoneward.controller.sync.trigger_time import TriggerTimes
from zoneward.kube.adoption import selector_of, with_selector
from zoneward.kube.names import MANAGED_BY_LABEL
from zoneward.kube.objects import EndpointSlice, Service, zone_of
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand, changes_demand, compute_demand
from zoneward.routing.selection.endpoint_selection import ZONEWARD, Consumer
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan
from zoneward.slices.planner import ServicePlanner


@dataclass(slots=True)
class _Kept:
    """A Service, and what changed since its last plan."""

    service: ServicePlanner
    pods: dict[Key, LivePod | None] = field(default_factory=dict)
    slices: dict[str, EndpointSlice | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SliceNames:
    """The names of EndpointSlices in one namespace, as they are now."""

    cache: Cache
    namespace: str

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        slices = self.cache.slices
        return slices.get(self.namespace, name) is not None or (self.namespace, name) in slices.unreadable


class State:
    """Fed by a cache through `pod`, `slice`, `service` and `node`, which take what a store tells its handlers."""

    def __init__(self, cache: Cache, *, configuration: Configuration, consumer: Consumer = ZONEWARD) -> None:
        self._cache, self._configuration, self._consumer = cache, configuration, consumer
        self.times: Final = TriggerTimes()
        self._kept: dict[Key, _Kept] = {}
        self._counted: dict[Key, tuple[Counted, ...]] = {}
        self._zones_changed = self._demand_changed = False
        self._surroundings = self._made({}, None)

    def __len__(self) -> int:
        """Services of which something is kept."""
        return len(self._kept)

    # --- changes ------------------------------------------------------------------------------------------------------

    def service(self, old: Service | None, new: Service | None) -> None:
        """A Service that selects other Pods, or is another one, is looked at from the start."""
        if old is not None and (
            new is None or new.metadata.uid != old.metadata.uid or selector_of(new) != selector_of(old)
        ):
            self._kept.pop(key_of(old), None)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self.times.forget(key_of(old))

    def pod(self, old: LivePod | None, new: LivePod | None) -> None:
        before = [] if old is None else self._cache.service_keys_of(old)
        if old is not None and new is not None and old.metadata.labels is new.metadata.labels:
            after = before
        else:
            after = [] if new is None else self._cache.service_keys_of(new)
        pod = new if new is not None else old
        assert pod is not None
        key = key_of(pod)
        for service in before:
            self._note(service, key, None)
        for service in after:
            self._note(service, key, new)

    def slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for each, is_there in ((old, False), (new, True)):
            if each is not None:
                kept = self._kept.get(service_of(each))
                if kept is not None:
                    kept.slices[each.metadata.name] = each if is_there else None

    def node(self, old: LiveNode | None, new: LiveNode | None) -> bool:
        """Whether `refresh` has something to do."""
        if (old is None) != (new is None) or (old and new and zone_of(old) != zone_of(new)):
            self._zones_changed = True
        if changes_demand(old, new):
            self._demand_changed = True
        return self._zones_changed or self._demand_changed

    def _note(self, service: Key, pod: Key, now: LivePod | None) -> None:
        kept = self._kept.get(service)
        if kept is not None:
            kept.pods[pod] = now

    # --- what all share -----------------------------------------------------------------------------------------------

    def refresh(self) -> list[Key]:
        """Take in what happened to Nodes; the Services that may be decided differently for it.

        Not among them are those whose own Pods run on such a Node: `zoneward.client.affected_services` tells of these.
        """
        if not (self._zones_changed or self._demand_changed):
            return []
        before = self._surroundings
        zones = before.node_zones
        if self._zones_changed:
            zones = {node.metadata.name: zone_of(node) for node in self._cache.nodes}
        self._surroundings = self._made(zones, None if self._demand_changed else before.demand)
        self._zones_changed = self._demand_changed = False
        if bool(before.node_zones) != bool(zones):
            return list(self._counted)
        return services_to_requeue(
            self._counted.items(),
            old=before.demand,
            new=self._surroundings.demand,
            configuration=self._configuration,
        )

    @property
    def cluster_state(self) -> ClusterState:
        """As of the last `refresh`."""
        return self._surroundings

    def _made(self, zones: Mapping[str, str | None], demand: Demand | None) -> ClusterState:
        if demand is None:
            demand = compute_demand(self._cache.nodes, missing_cpu=self._configuration.hints.missing_cpu)
        return ClusterState(demand=demand, node_zones=zones, configuration=self._configuration, consumer=self._consumer)

    # --- plans --------------------------------------------------------------------------------------------------------

    def plan(self, key: Key, service: Service, *, taken: Container[str]) -> ServicePlan:
        """Plan a Service of the cache as it is now. ``service``: as in the cache, maybe with other conditions.

        The plan stays as it is until the next one of this Service. Nodes that changed have to be taken in before.
        """
        service = with_selector(service)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = self._begun(key, service)
        else:
            self._mend(key, kept, service)
        plan = kept.service.plan(trigger_time=self.times.time(key), taken=taken)
        self._counted[key] = tuple(_counted(family.decision, self._surroundings.demand) for family in plan.families)
        return plan

    def ready(self, key: Key) -> int:
        """How many ready endpoints a Service had when it was last planned, in the family that has fewest; 0: never."""
        return min((each.endpoints for each in self._counted.get(key, ())), default=0)

    def renew(self, key: Key) -> None:
        """Plan a Service from the start the next time: should what is kept of it ever be wrong, that ends here."""
        self._kept.pop(key, None)

    def forget(self, key: Key) -> None:
        """A Service is gone, or none of ours."""
        self._kept.pop(key, None)
        self._counted.pop(key, None)
        self.times.forget(key)

    def clear(self) -> None:
        """Somebody else writes from now on."""
        for key in {*self._kept, *self._counted}:
            self.forget(key)

    def _begun(self, key: Key, service: Service) -> _Kept:
        # By name, as an API server lists them: equal clusters give equal plans.
        pods = sorted(self._cache.pods_of(*key), key=_name)
        slices = sorted(self._cache.slices_of(*key), key=_name)
        has_slices = any(is_own(each, self._configuration) for each in slices)
        since = {pod.metadata.name: pod.status.ready_since for pod in pods}
        self.times.observe(key, created=service.metadata.creation_timestamp, pods=since, has_slices=has_slices)
        return _Kept(ServicePlanner(service, self._surroundings, pods=pods, slices=slices))

    def _mend(self, key: Key, kept: _Kept, service: Service) -> None:
        kept.service.update_cluster(self._surroundings)
        kept.service.update_service(service)
        for pod_key, pod in kept.pods.items():
            kept.service.update_pod(pod_key, pod)
        for name, slice_ in kept.slices.items():
            kept.service.update_slice(name, slice_)
        since = {name: None if pod is None else pod.status.ready_since for (_, name), pod in kept.pods.items()}
        self.times.changed(key, created=service.metadata.creation_timestamp, pods=since)
        kept.pods, kept.slices = {}, {}


def is_own(slice_: EndpointSlice, configuration: Configuration) -> bool:
    """Whether a slice says that it is ours."""
    return (slice_.metadata.labels or {}).get(MANAGED_BY_LABEL) == configuration.manager


def _name(thing: LivePod | EndpointSlice) -> str:
    return thing.metadata.name


def _counted(decision: Decision, demand: Demand) -> Counted:
    assignment = decision.assignment
    if assignment is None:
        return counted(decision, homeless=True)
    endpoint_index, zones = assignment.endpoint_index, set(demand.zones)
    homeless = any(
        bucket.zone not in zones for bucket in (*endpoint_index.ready_buckets(), *endpoint_index.unready_buckets())
    ) or any((twin.endpoint.zone or "") not in zones for twin in endpoint_index.shared_address)
    return counted(decision, twins=len(endpoint_index.shared_address), homeless=homeless)
