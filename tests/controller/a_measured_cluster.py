"""A cluster in virtual time whose controller follows measured demand: the real parts, without a server.

Each `step` is five minutes: traffic starts in zones, the figures of the last hour are read, and all that the decisions
lead to is in force at once.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from random import Random
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.controller.lines import Lines

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import LiveNode, LivePod, object_key_of
from zoneward.controller.context import FiguresSource, FiguresUnavailable
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.demand_follower import DemandFollower
from zoneward.controller.leader_elector import always_leading
from zoneward.controller.queue.work_queue import WorkQueue
from zoneward.controller.status.status_writer import with_own_conditions
from zoneward.controller.sync.service_states import ServiceStates
from zoneward.kube.demand import DemandFigures
from zoneward.kube.objects import EndpointSlice, ObjectKey, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.request import requested_approach
from zoneward.routing.rules import RuleLog
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.routing.thresholds import kept_overload
from zoneward.routing.what_if import as_if_requested
from zoneward.slices.plan import ServicePlan

STEP: Final = 300.0
HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
_T = TypeVar("_T")
Shares = Callable[[str, float], float]
"""How much traffic starts in a zone at a time."""


class MeasuredService:
    """What happens to one Service. ``starts``: its traffic by zone and time."""

    def __init__(self, cluster: "MeasuredCluster", service: Service, starts: Shares) -> None:
        self.cluster, self.key, self.starts = cluster, object_key_of(service), starts
        self.writes = 0
        self.worst = 0.0
        self.in_zone: list[float] = []
        self.window: deque[Mapping[str, float]] = deque(maxlen=12)
        self.limit = kept_overload(requested_approach(service, cluster.configuration, RuleLog()), cluster.configuration)
        self.plan: ServicePlan | None = None

    @property
    def service(self) -> Service:
        result = self.cluster.cache.services.get(*self.key)
        assert result is not None
        return result

    @property
    def condition(self) -> tuple[str, str]:
        """Status and reason of the condition about demand."""
        result = self.cluster.follower.condition(self.service)
        return ("", "") if result is None else (result.status, result.reason)

    @property
    def parts(self) -> Mapping[str, Fraction] | None:
        return self.cluster.states.cluster_state.service_parts.get(self.key)

    def traffic_now(self) -> ExpectedTraffic:
        """What the proxies do with the traffic that starts at this moment."""
        assert self.plan is not None
        now = {zone: self.starts(zone, self.cluster.now) for zone in self.cluster.zones}
        whole = sum(now.values())
        parts = {zone: Fraction(amount / whole).limit_denominator(10**6) for zone, amount in now.items()}
        state = dataclasses.replace(self.cluster.states.cluster_state, service_parts={self.key: parts})
        result = dataclasses.replace(self.plan.families[0], cluster_state=state.for_service(self.service)).traffic
        assert result is not None
        return result


class MeasuredCluster:
    """``pods`` by zone of each Service; ``noise`` of what is counted in five minutes, as a share. With ``overlay`` the
    approach in force is not in the slices."""

    def __init__(
        self,
        pods: Mapping[str, int],
        *,
        noise: float = 0.0,
        configuration: Configuration | None = None,
        seed: int = 1,
        overlay: bool = False,
    ) -> None:
        self._annotations: dict[str, dict[str, str] | None] | None = {} if overlay else None
        self.zones = tuple(pods)
        self.configuration = configuration or Configuration()
        self.cache, self.now, self.version = InformerCache(), 0.0, 0
        self.log = Lines()
        self.metrics = ControllerMetrics()
        self.source: Callable[[], DemandFigures] = self.figures
        self.services: dict[str, MeasuredService] = {}
        self._pods, self._noise, self._random = pods, noise, Random(seed)
        for node in nodes_in(dict.fromkeys(pods, 4)):
            self.cache.nodes.put(self._live(node, LiveNode))
        self.start()

    def start(self) -> None:
        """Start the controller, or restart it."""
        self.states = ServiceStates(self.cache, configuration=self.configuration, as_planned=self._as_planned)
        self.metrics = ControllerMetrics()

        async def read(_nodes: Collection[str]) -> DemandFigures:
            return self.source()

        self.follower = DemandFollower(
            FiguresSource(read, HOUR),
            configuration=self.configuration,
            cache=self.cache,
            states=self.states,
            queue=WorkQueue[ObjectKey](clock=lambda: self.now),
            leading=always_leading(),
            metrics=self.metrics,
            log=self.log,
            is_ours=lambda _service: True,
            clock=lambda: self.now,
        )
        for node in self.cache.nodes:
            self.states.node_changed(None, node)
        for service in self.cache.services:
            self.follower.service_changed(None, service)
        for measured in self.services.values():
            self._write(measured)

    def add(self, name: str, approach: str, starts: Shares) -> MeasuredService:
        service = as_if_requested(a_service(name=name, uid=f"uid-of-{name}"), approach, Configuration())
        index = len(self.services)
        for pod in pods_in(self._pods):
            live = self._live(pod, LivePod)
            address = live.status.pod_ip.replace("10.", f"1{index}.", 1)
            meta = replace(live.metadata, name=f"{name}-{live.metadata.name}", labels={"app": name})
            ips = tuple(replace(pod_ip, ip=address) for pod_ip in live.status.pod_ips or ())
            self.cache.pods.put(replace(live, metadata=meta, status=replace(live.status, pod_ip=address, pod_ips=ips)))
        self._put(service)
        self.follower.service_changed(None, service)
        added = self.services[name] = MeasuredService(self, service, starts)
        # The first plan starts hints, and the second one finds them in force.
        self._write(added)
        self._write(added)
        added.writes = 0
        for _ in range(11):
            self._count(added)
        return added

    def figures(self) -> DemandFigures:
        """What was counted in the last hour."""
        return DemandFigures(
            {
                service.key: {zone: sum(sample[zone] for sample in service.window) for zone in self.zones}
                for service in self.services.values()
            }
        )

    async def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            await self.step()

    async def step(self) -> None:
        for service in self.services.values():
            self._count(service)
        await self.follower.refresh()
        self.states.refresh_nodes()
        for measured in self.services.values():
            self._write(measured)
            traffic = measured.traffic_now()
            measured.worst = max(measured.worst, traffic.max_overload)
            assert traffic.in_zone is not None
            measured.in_zone.append(traffic.in_zone)
        self.now += STEP

    def _count(self, service: MeasuredService) -> None:
        starts = {zone: service.starts(zone, self.now) for zone in self.zones}
        noise = (1 + self._random.uniform(-self._noise, self._noise) for _ in starts)
        service.window.append(
            {zone: 1000 * start * more for (zone, start), more in zip(starts.items(), noise, strict=True)}
        )

    def _write(self, service: MeasuredService) -> None:
        """Plan a Service, and write all that differs."""
        self.states.refresh_nodes()
        plan = service.plan = self.states.plan(service.key, service.service, taken=())
        changes = plan.families[0].changes
        for slice_ in (*changes.create, *changes.update):
            self.version += 1
            written = replace(slice_, metadata=replace(slice_.metadata, resource_version=str(self.version)))
            if self._annotations is not None:
                self._annotations[written.metadata.name] = written.metadata.annotations
                written = replace(written, metadata=replace(written.metadata, annotations=None))
            old = self.cache.slices.get(written.metadata.namespace, written.metadata.name)
            self.cache.slices.put(written)
            self.states.slice_changed(old, written)
        for slice_ in changes.delete:
            self.cache.slices.delete(slice_)
            self.states.slice_changed(slice_, None)
        service.writes += bool(changes.create or changes.update or changes.delete)
        condition = self.follower.condition(service.service)
        own = (*plan.conditions, *([] if condition is None else [condition]))
        self._put(with_own_conditions(service.service, own))

    def _as_planned(self, slice_: EndpointSlice) -> EndpointSlice:
        if self._annotations is None:
            return slice_
        return replace(slice_, metadata=replace(slice_.metadata, annotations=self._annotations[slice_.metadata.name]))

    def _put(self, service: Service) -> None:
        self.version += 1
        self.cache.services.put(
            replace(service, metadata=replace(service.metadata, resource_version=str(self.version)))
        )

    def _live(self, object_: object, kind: type[_T]) -> _T:
        return msgspec.convert(msgspec.to_builtins(object_), kind)


def steady(**shares: float) -> Shares:
    return lambda zone, _now: shares[zone]


def unavailable() -> DemandFigures:
    raise FiguresUnavailable("http://prometheus:9090: the connection was refused")
