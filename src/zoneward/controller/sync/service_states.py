"""What is kept of each Service between its syncs, and what all of them share: demand and the Nodes' zones.

Nothing is kept of a Service before its first plan. Changes that come later wait until the next one: so a plan stays
what it was while it is written, and what a Pod was in between costs nothing.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from zoneward.client.cache import Cache
from zoneward.client.resources import Key, LiveNode, LivePod, key_of, service_of
from zoneward.controller.sync.demand_impact import DecisionSummary, services_to_requeue, summarize
from zoneward.kube.adoption import selector_of, with_selector
from zoneward.kube.names import MANAGED_BY_LABEL
from zoneward.kube.objects import EndpointSlice, Service, zone_of
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand.demand import Demand, demand_of
from zoneward.routing.demand.demand_changes import changes_demand
from zoneward.routing.selection.selection import ZONEWARD, Consumer
from zoneward.slices.kept import KeptService
from zoneward.slices.planned import ServicePlan, Surroundings

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(slots=True)
class _Known:
    """What is known of a Service; ``pending`` is the earliest time that is not written yet."""

    created: str = ""
    pods: dict[str, str] = field(default_factory=dict)
    pending: str | None = None


class TriggerTimeTracker:
    """By Service the times seen at its Pods, and the one to write next.

    ``observe`` what is there or what changed, `time` to write it, `written` when it is. `forget` with the Service.
    """

    def __init__(self) -> None:
        self._known: dict[Key, _Known] = {}

    def observe(
        self, service: Key, *, created: str | None, pods: Mapping[str, str | None], has_slices: bool = False
    ) -> None:
        """All Pods of a Service, by name, with the time at which they became ready or not; None for one without.

        ``created`` is the Service's own time. ``has_slices``: it has some that we wrote, if not in this life.
        """
        known = self._known.get(service)
        if known is None:
            times = {pod: time for pod, given in pods.items() if (time := _time(given))}
            pending = None if has_slices else _time(created) or None
            self._known[service] = _Known(_time(created), times, pending)
            return
        gone = known.pods.keys() - pods.keys()
        self.changed(service, created=created, pods={**dict.fromkeys(gone), **pods})

    def changed(self, service: Key, *, created: str | None, pods: Mapping[str, str | None]) -> None:
        """Those Pods of a Service that changed since the last look, and no others; None for one that is gone.

        Costs what the change costs. Raises KeyError for a Service of which not all Pods were observed yet.
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

    def is_known(self, service: Key) -> bool:
        """Whether all Pods of a Service were observed once."""
        return service in self._known

    def time(self, service: Key) -> str | None:
        """What slices that are written now are to say; None: nothing, and what they said before goes away."""
        known = self._known.get(service)
        return None if known is None else known.pending

    def written(self, service: Key) -> None:
        """All that was seen is in the cluster, or was there already."""
        if (known := self._known.get(service)) is not None:
            known.pending = None

    def forget(self, service: Key) -> None:
        """A Service is gone. Another one may take its name."""
        self._known.pop(service, None)

    def __len__(self) -> int:
        return len(self._known)


def _time(text: str | None) -> str:
    """The time, or nothing for what is none; nothing is before every time."""
    return text if text is not None and _TIME.fullmatch(text) else ""


@dataclass(slots=True)
class _ServiceState:
    """A Service, and what changed since its last plan."""

    service: KeptService
    pods: dict[Key, LivePod | None] = field(default_factory=dict)
    slices: dict[str, EndpointSlice | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExistingSliceNames:
    """The names of EndpointSlices in one namespace, as they are now."""

    cache: Cache
    namespace: str

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        slices = self.cache.slices
        return slices.get(self.namespace, name) is not None or (self.namespace, name) in slices.unreadable


class ServiceStates:
    """Fed by a cache through `pod`, `slice`, `service` and `node`, which take what a store tells its handlers."""

    def __init__(self, cache: Cache, *, configuration: Configuration, consumer: Consumer = ZONEWARD) -> None:
        self._cache, self._configuration, self._consumer = cache, configuration, consumer
        self.times: Final = TriggerTimeTracker()
        self._kept: dict[Key, _ServiceState] = {}
        self._summaries: dict[Key, tuple[DecisionSummary, ...]] = {}
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
            return list(self._summaries)
        return services_to_requeue(
            self._summaries.items(),
            old=before.demand,
            new=self._surroundings.demand,
            configuration=self._configuration,
        )

    @property
    def surroundings(self) -> Surroundings:
        """As of the last `refresh`."""
        return self._surroundings

    def _made(self, zones: Mapping[str, str | None], demand: Demand | None) -> Surroundings:
        if demand is None:
            demand = demand_of(self._cache.nodes, missing_cpu=self._configuration.hints.missing_cpu)
        return Surroundings(demand=demand, node_zones=zones, configuration=self._configuration, consumer=self._consumer)

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
        self._summaries[key] = tuple(
            _summary_of(family.decision, self._surroundings.demand) for family in plan.families
        )
        return plan

    def ready(self, key: Key) -> int:
        """How many ready endpoints a Service had when it was last planned, in the family that has fewest; 0: never."""
        return min((each.endpoints for each in self._summaries.get(key, ())), default=0)

    def renew(self, key: Key) -> None:
        """Plan a Service from the start the next time: should what is kept of it ever be wrong, that ends here."""
        self._kept.pop(key, None)

    def forget(self, key: Key) -> None:
        """A Service is gone, or none of ours."""
        self._kept.pop(key, None)
        self._summaries.pop(key, None)
        self.times.forget(key)

    def clear(self) -> None:
        """Somebody else writes from now on."""
        for key in {*self._kept, *self._summaries}:
            self.forget(key)

    def _begun(self, key: Key, service: Service) -> _ServiceState:
        # By name, as an API server lists them: equal clusters give equal plans.
        pods = sorted(self._cache.pods_of(*key), key=_name)
        slices = sorted(self._cache.slices_of(*key), key=_name)
        has_slices = any(is_own(each, self._configuration) for each in slices)
        since = {pod.metadata.name: pod.status.ready_since for pod in pods}
        self.times.observe(key, created=service.metadata.creation_timestamp, pods=since, has_slices=has_slices)
        return _ServiceState(KeptService(service, self._surroundings, pods=pods, slices=slices))

    def _mend(self, key: Key, kept: _ServiceState, service: Service) -> None:
        kept.service.surroundings(self._surroundings)
        kept.service.service(service)
        for pod_key, pod in kept.pods.items():
            kept.service.pod(pod_key, pod)
        for name, slice_ in kept.slices.items():
            kept.service.slice(name, slice_)
        since = {name: None if pod is None else pod.status.ready_since for (_, name), pod in kept.pods.items()}
        self.times.changed(key, created=service.metadata.creation_timestamp, pods=since)
        kept.pods, kept.slices = {}, {}


def is_own(slice_: EndpointSlice, configuration: Configuration) -> bool:
    """Whether a slice says that it is ours."""
    return (slice_.metadata.labels or {}).get(MANAGED_BY_LABEL) == configuration.manager


def _name(thing: LivePod | EndpointSlice) -> str:
    return thing.metadata.name


def _summary_of(decision: Decision, demand: Demand) -> DecisionSummary:
    assignment = decision.assignment
    if assignment is None:
        return summarize(decision, homeless=True)
    crowd, zones = assignment.crowd, set(demand.zones)
    homeless = any(cell.zone not in zones for cell in (*crowd.ready(), *crowd.rest())) or any(
        (twin.endpoint.zone or "") not in zones for twin in crowd.twins
    )
    return summarize(decision, twins=len(crowd.twins), homeless=homeless)
