"""The state of each Service between two plans, and the state that all Services share: demand and Nodes' zones.

A Service has no state before its first plan. Later changes are recorded, and the next plan applies them. So a plan does
not change while it is written, and intermediate states of a Pod cost nothing.
"""

import asyncio
import re
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from msgspec import structs

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import LiveNode, LivePod, object_key_of, service_key_of
from zoneward.kube.adoption_marks import effective_selector, manager_of, with_effective_selector
from zoneward.kube.objects import EndpointSlice, ObjectKey, Service, node_zone, time_text
from zoneward.routing.configuration import Configuration, StoredHints
from zoneward.routing.demand import Demand, changes_demand, demand_of, is_new_node
from zoneward.routing.request import requests_subsetting
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.slices.planner import ServicePlanner


@dataclass(slots=True)
class _ServiceState:
    """A Service, and the Pods and slices that changed since its last plan."""

    service: ServicePlanner
    pods: dict[ObjectKey, LivePod | None] = field(default_factory=dict)
    slices: dict[str, EndpointSlice | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExistingSliceNames:
    """The names that EndpointSlices of one namespace have at the moment."""

    cache: InformerCache
    namespace: str

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        slices = self.cache.slices
        return slices.get(self.namespace, name) is not None or (self.namespace, name) in slices.unreadable


class ServiceStates:
    """The `..._changed` methods take the changes of a cache, as its handlers get them; `plan` plans a Service."""

    def __init__(
        self,
        cache: InformerCache,
        *,
        configuration: Configuration,
        wall_clock: Callable[[], float] = time.time,
        slice_groups_seen: bool | None = True,
        as_planned: Callable[[EndpointSlice], EndpointSlice] | None = None,
    ) -> None:
        """``slice_groups_seen``: as in `ClusterState`, until it is set. ``as_planned``: a slice as plans read it,
        None: as it is."""
        self._as_planned = as_planned or (lambda slice_: slice_)
        self._cache, self._configuration, self._wall_clock = cache, configuration, wall_clock
        self._slice_groups_seen = slice_groups_seen
        self.trigger_times: Final = TriggerTimeTracker()
        self._states: dict[ObjectKey, _ServiceState] = {}
        self._ready_endpoints: dict[ObjectKey, int] = {}
        """Of every planned Service, in the address family with the fewest."""
        self._unchecked: dict[ObjectKey, None] = {}
        """Services whose decisions another demand may change: see `check_next`."""
        self.has_unchecked: Final = asyncio.Event()
        self._service_parts: dict[ObjectKey, Mapping[str, Fraction]] = {}
        self.dropped_hints: Final[dict[ObjectKey, StoredHints]] = {}
        """Services whose hints the API server does not all store, and which it does."""
        self._zones_changed = self._demand_changed = self._parts_changed = False
        self._cluster_state = self._make_cluster_state({}, None)

    def __len__(self) -> int:
        """The number of Services with state."""
        return len(self._states)

    # --- changes ------------------------------------------------------------------------------------------------------

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """A Service with another selector, or a new one of the same name, is planned afresh."""
        if old is not None and (
            new is None or new.metadata.uid != old.metadata.uid or effective_selector(new) != effective_selector(old)
        ):
            self._states.pop(object_key_of(old), None)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self.trigger_times.forget(object_key_of(old))

    def pod_changed(self, old: LivePod | None, new: LivePod | None) -> None:
        old_services = [] if old is None else self._cache.service_keys_of(old)
        if old is not None and new is not None and old.metadata.labels is new.metadata.labels:
            new_services = old_services
        else:
            new_services = [] if new is None else self._cache.service_keys_of(new)
        pod = new if new is not None else old
        assert pod is not None
        key = object_key_of(pod)
        for services, now in ((old_services, None), (new_services, new)):
            for service in services:
                if service in self._states:
                    self._states[service].pods[key] = now

    def slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for slice_, exists in ((old, False), (new, True)):
            if slice_ is not None:
                state = self._states.get(service_key_of(slice_))
                if state is not None:
                    state.slices[slice_.metadata.name] = self._as_planned(slice_) if exists else None

    def node_changed(self, old: LiveNode | None, new: LiveNode | None) -> bool:
        """Returns whether `refresh_nodes` has something to do."""
        if (old is None) != (new is None) or (old and new and node_zone(old) != node_zone(new)):
            self._zones_changed = True
        if changes_demand(old, new):
            self._demand_changed = True
        return self._zones_changed or self._demand_changed

    def set_service_parts(self, key: ObjectKey, parts: Mapping[str, Fraction] | None) -> None:
        """The measured demand of a Service from the next `refresh_nodes` on; None: it has the cluster's.

        The caller adds the Service to the queue: no other is affected.
        """
        if self._service_parts.get(key) == parts:
            return
        if parts is None:
            del self._service_parts[key]
        else:
            self._service_parts[key] = parts
        self._parts_changed = True

    def set_slice_groups_seen(self, seen: bool | None) -> list[ObjectKey]:
        """Whether proxies that read slice groups run. Returns the Services whose decisions may differ now."""
        if seen == self._slice_groups_seen:
            return []
        self._slice_groups_seen = seen
        self._cluster_state = replace(self._cluster_state, slice_groups_seen=seen)
        return sorted(object_key_of(service) for service in self._cache.services if requests_subsetting(service))

    # --- what all share -----------------------------------------------------------------------------------------------

    def expire_grace(self) -> bool:
        """Whether `refresh_nodes` has something to do, because the grace of a new Node without a zone has ended."""
        names = self._cluster_state.demand.new_without_zone
        if names:
            configuration = self._configuration_now()
            nodes = (self._cache.nodes.get("", name) for name in names)
            self._demand_changed |= any(node is not None and not is_new_node(node, configuration) for node in nodes)
        return self._demand_changed

    def _configuration_now(self) -> Configuration:
        return structs.replace(
            self._configuration,
            nodes_new_since=time_text(self._wall_clock() - self._configuration.hints.new_node_grace),
        )

    def refresh_nodes(self) -> list[ObjectKey]:
        """Apply the changes of Nodes, and of measured demand. Returns the Services whose decisions may differ now.

        It does not return Services with Pods on such a Node, which `zoneward.client.informer_cache` returns, those
        with other measured demand, and those that `check_next` checks.
        """
        if self._parts_changed:
            # The state never changes, because plans in threads use it.
            self._cluster_state = replace(self._cluster_state, service_parts=dict(self._service_parts))
            self._parts_changed = False
        if not (self._zones_changed or self._demand_changed):
            return []
        before = self._cluster_state
        zones = before.node_zones
        if self._zones_changed:
            zones = {node.metadata.name: node_zone(node) for node in self._cache.nodes}
        self._cluster_state = self._make_cluster_state(zones, None if self._demand_changed else before.demand)
        self._zones_changed = self._demand_changed = False
        if bool(before.node_zones) != bool(zones):
            return list(self._ready_endpoints)
        if decision_inputs(before.demand) != decision_inputs(self._cluster_state.demand):
            self._unchecked = dict.fromkeys(self._ready_endpoints)
            self.has_unchecked.set()
        return []

    def check_next(self) -> ObjectKey | None:
        """Check the next Service after a change of demand. Returns it if its decision may differ now.

        This takes two decisions, so the caller spreads the calls. `has_unchecked` is set while Services wait.
        """
        key = next(iter(self._unchecked), None)
        if key is None:
            self.has_unchecked.clear()
            return None
        del self._unchecked[key]
        state = self._states.get(key)
        # Without a state, what its last decision was is not known.
        is_affected = state is None or state.service.is_affected_by(self._cluster_state.demand)
        return key if is_affected else None

    @property
    def cluster_state(self) -> ClusterState:
        """As of the last `refresh_nodes`."""
        return self._cluster_state

    def cluster_state_of(self, key: ObjectKey) -> ClusterState:
        """The same for one Service, whose hints the API server may drop."""
        stored = self.dropped_hints.get(key, "all")
        if stored == "all":
            return self._cluster_state
        configuration = structs.replace(self._configuration, stored_hints=stored)
        return replace(self._cluster_state, configuration=configuration)

    def _make_cluster_state(self, zones: Mapping[str, str | None], demand: Demand | None) -> ClusterState:
        if demand is None:
            demand = demand_of(self._cache.nodes, self._configuration_now())
        return ClusterState(
            demand=demand,
            node_zones=zones,
            configuration=self._configuration,
            service_parts=dict(self._service_parts),
            slice_groups_seen=self._slice_groups_seen,
        )

    # --- plans --------------------------------------------------------------------------------------------------------

    def plan(self, key: ObjectKey, service: Service, *, taken: Container[str]) -> ServicePlan:
        """Plan a Service of the cache as it is now. ``service``: as in the cache, maybe with other conditions.

        The plan does not change until the next one of this Service. Call `refresh_nodes` before.
        """
        service = with_effective_selector(service)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = self._begin(key, service)
        else:
            self._apply_changes(key, state, service)
        plan = state.service.plan(trigger_time=self.trigger_times.time(key), taken=taken)
        if all(family.decision.heuristic is None for family in plan.families):
            # It asks for no hints any more: whether they are stored does not matter.
            self.dropped_hints.pop(key, None)
        self._ready_endpoints[key] = min((family.decision.endpoints for family in plan.families), default=0)
        self._unchecked.pop(key, None)
        return plan

    def fresh_plan(self, key: ObjectKey, service: Service) -> Callable[[], ServicePlan]:
        """Work for a thread: plan a Service without its state, from what is taken from the cache now."""
        pods, slices = self.objects_of(key)
        cluster_state, trigger_time = self.cluster_state_of(key), self.trigger_times.time(key)
        return lambda: plan_service(
            with_effective_selector(service),
            pods=pods,
            slices=slices,
            cluster_state=cluster_state,
            trigger_time=trigger_time,
            taken=ExistingSliceNames(self._cache, key[0]),
        )

    def ready_endpoints(self, key: ObjectKey) -> int:
        """The ready endpoints of the last plan, in the address family with the fewest; 0 without a plan."""
        return self._ready_endpoints.get(key, 0)

    def plan_afresh(self, key: ObjectKey) -> None:
        """Plan a Service from the cache alone the next time, in case its state is wrong."""
        self._states.pop(key, None)

    def forget(self, key: ObjectKey) -> None:
        """A Service was deleted, or is not managed."""
        self._states.pop(key, None)
        self._ready_endpoints.pop(key, None)
        self.dropped_hints.pop(key, None)
        self.trigger_times.forget(key)

    def clear(self) -> None:
        """Another replica leads from now on."""
        for key in {*self._states, *self._ready_endpoints}:
            self.forget(key)
        self.dropped_hints.clear()

    def _begin(self, key: ObjectKey, service: Service) -> _ServiceState:
        pods, slices = self.objects_of(key)
        has_slices = any(is_own(slice_, self._configuration) for slice_ in slices)
        since = {pod.metadata.name: pod.status.ready_since for pod in pods}
        self.trigger_times.observe(key, created=service.metadata.creation_timestamp, pods=since, has_slices=has_slices)
        return _ServiceState(ServicePlanner(service, self.cluster_state_of(key), pods=pods, slices=slices))

    def objects_of(self, key: ObjectKey) -> tuple[list[LivePod], list[EndpointSlice]]:
        """Pods, and slices as plans read them, by name, as an API server lists them: equal objects give equal plans."""
        slices = map(self._as_planned, self._cache.slices_of(*key))
        return sorted(self._cache.pods_of(*key), key=_name), sorted(slices, key=_name)

    def _apply_changes(self, key: ObjectKey, state: _ServiceState, service: Service) -> None:
        state.service.update_cluster(self.cluster_state_of(key))
        state.service.update_service(service)
        for pod_key, pod in state.pods.items():
            state.service.update_pod(pod_key, pod)
        for name, slice_ in state.slices.items():
            state.service.update_slice(name, slice_)
        since = {name: None if pod is None else pod.status.ready_since for (_, name), pod in state.pods.items()}
        self.trigger_times.changed(key, created=service.metadata.creation_timestamp, pods=since)
        state.pods, state.slices = {}, {}


def decision_inputs(demand: Demand) -> object:
    """All that decisions read from demand."""
    without_cpu = bool(demand.without_cpu) and demand.unit != "nodes"
    refusals = not demand.nodes, bool(demand.control_planes), bool(demand.without_zone), without_cpu
    return refusals, demand.reduced, demand.by_count.reduced, demand.regions, demand.idle_zones


def is_own(slice_: EndpointSlice, configuration: Configuration) -> bool:
    """Whether a slice has Zoneward's managed-by label."""
    return manager_of(slice_) == configuration.manager


def _name(item: LivePod | EndpointSlice) -> str:
    return item.metadata.name


_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(slots=True)
class _TriggerTimes:
    """The times seen at a Service and its Pods; ``pending`` is the earliest time that is not written yet."""

    created: str = ""
    pods: dict[str, str] = field(default_factory=dict)
    pending: str | None = None


class TriggerTimeTracker:
    """The value of the annotation ``endpoints.kubernetes.io/last-change-trigger-time`` of each Service's slices.

    Like upstream's TriggerTimeTracker: the earliest time at which a Pod's readiness changed, or the Service was
    created, since the slices were last written. From it to the programming of a node's proxy the cluster's network
    programming latency is measured, so a time that is too old raises a false alarm. Two things differ from upstream. A
    time is kept until it is written, where upstream drops it when a write fails. And a Service that has slices when it
    is first seen, as after a restart, has no time, where upstream gives its creation, maybe years ago.

    Times are text as the API server writes them, ``2019-01-01T00:00:00Z``: whole seconds in UTC, so that they compare
    as text. Anything else is ignored. Call `observe` or `changed`, then `time`, then `written`; `forget` with the
    Service.
    """

    def __init__(self) -> None:
        self._known: dict[ObjectKey, _TriggerTimes] = {}

    def observe(
        self, service: ObjectKey, *, created: str | None, pods: Mapping[str, str | None], has_slices: bool = False
    ) -> None:
        """All Pods of a Service, by name, with the time at which their readiness changed, or None.

        ``created`` is the Service's creation. ``has_slices``: it has slices of Zoneward, maybe of an earlier process.
        """
        known = self._known.get(service)
        if known is None:
            times = {pod: time for pod, given in pods.items() if (time := _time(given))}
            pending = None if has_slices else _time(created) or None
            self._known[service] = _TriggerTimes(_time(created), times, pending)
            return
        gone = known.pods.keys() - pods.keys()
        self.changed(service, created=created, pods={**dict.fromkeys(gone), **pods})

    def changed(self, service: ObjectKey, *, created: str | None, pods: Mapping[str, str | None]) -> None:
        """The Pods of a Service that changed since the last call, and no others; None for one that is gone.

        Raises KeyError for a Service without `observe`.
        """
        known = self._known[service]
        times = []
        for pod, given in pods.items():
            time = _time(given)
            if not time:
                known.pods.pop(pod, None)
            else:
                if time > known.pods.get(pod, ""):
                    times.append(time)
                known.pods[pod] = time
        made = _time(created)
        if made > known.created:
            times.append(made)
        known.created = made
        if known.pending is not None:
            times.append(known.pending)
        known.pending = min(times, default=None)

    def time(self, service: ObjectKey) -> str | None:
        """The annotation's value for slices that are written now; None: they have no such annotation."""
        known = self._known.get(service)
        return None if known is None else known.pending

    def written(self, service: ObjectKey) -> None:
        """The slices are written, with all changes that were seen."""
        if (known := self._known.get(service)) is not None:
            known.pending = None

    def forget(self, service: ObjectKey) -> None:
        """A Service was deleted. Another one may get its name."""
        self._known.pop(service, None)

    def __len__(self) -> int:
        return len(self._known)


def _time(text: str | None) -> str:
    """The text if it is a time, else the empty string, which sorts before every time."""
    return text if text is not None and _TIME.fullmatch(text) else ""
