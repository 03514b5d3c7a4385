"""One controller process, as a machine would run it."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any, Final

from tests.controller.a_controller import has_seen
from tests.controller.model.judge import TIMING, Judge
from tests.controller.model.network import LEASE_KEY, Link, Network, seconds

from zoneward.client import api_errors, list_pager
from zoneward.client import writer as writing
from zoneward.controller.context import ControllerContext, ControllerOptions
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.leader_elector import LeaderElector, always_leading
from zoneward.controller.queue.work_queue import Batching
from zoneward.controller.status.status_writer import StatusWriter, StatusWriteRate
from zoneward.kube.objects import ObjectKey, Service, has_ready_condition
from zoneward.routing.configuration import Configuration

_CALM: Final = 3.0
_FAILURES: Final = {
    name
    for module in (api_errors, writing, list_pager)
    for name, value in vars(module).items()
    if isinstance(value, type)
}


class Notes:
    """A log that reports failures of the replica itself, and not of its surroundings, to the judge."""

    def __init__(self, judge: Judge, name: str) -> None:
        self._judge, self._name = judge, name

    def bind(self, **_fields: Any) -> "Notes":
        return self

    def debug(self, event: str, **fields: Any) -> None: ...
    def info(self, event: str, **fields: Any) -> None: ...

    def warning(self, event: str, **fields: Any) -> None:
        reason = fields.get("reason")
        if reason is not None and reason not in _FAILURES:
            self._judge.faults.append(f"{seconds():.3f} s: {self._name}: {event}: {reason}: {fields.get('error')}")

    def error(self, event: str, **fields: Any) -> None:
        self._judge.faults.append(f"{seconds():.3f} s: {self._name}: {event}: {fields}")


class _Telling(StatusWriter):
    """Gives the judge the replica's knowledge before each plan, which asks for the reported status first."""

    def watched_by(self, replica: "Replica") -> None:
        self._replica = replica

    def as_reported(self, service: Service) -> Service:
        self._plans((service.metadata.namespace, service.metadata.name), self._replica.ready(service))
        return super().as_reported(service)

    def forget(self, key: ObjectKey) -> None:
        self._plans(key, frozenset())
        super().forget(key)

    def _plans(self, key: ObjectKey, ready: frozenset[str]) -> None:
        slices = self._replica.controller.cache.slices_of(*key)
        versions = {slice_.metadata.name: int(slice_.metadata.resource_version or 0) for slice_ in slices}
        self._replica.judge.planned(key, ready, versions)


class Replica:
    """Runs from being made until `kill` or `stop`. ``elects`` False: it is the only one, and need not lead."""

    def __init__(
        self,
        name: str,
        *,
        network: Network,
        judge: Judge,
        configuration: Configuration,
        elects: bool,
        batching: Batching,
    ) -> None:
        self.name, self.judge = name, judge
        chance = Random(network.chance.random())
        self.link = Link(network, name, judge)
        self.elector: LeaderElector | None = None
        self.tasks: list[asyncio.Task[Any]] = []
        if elects:
            self.elector = LeaderElector(
                Link(network, name, judge),
                key=LEASE_KEY,
                identity=name,
                timing=TIMING,
                on_change=self._leads,
                clock=seconds,
                now=lambda: network.registry.now,
                chance=chance.random,
            )
            judge.deadlines[name] = lambda: (
                judge.renewed.get(name, -60.0) + TIMING.renew_deadline - TIMING.write_timeout
            )
        may_write = self.elector.may_write if self.elector is not None else lambda _seconds: True
        writer = writing.Writer(self.link, limit=TIMING.write_timeout, may_write=may_write)
        self.status_writer = _Telling(
            writer,
            instance=name,
            rate=StatusWriteRate(message_period=_CALM),
            log=Notes(judge, name),
            now=lambda: network.registry.now,
        )
        self.status_writer.watched_by(self)
        context = ControllerContext(
            connection=self.link,
            configuration=configuration,
            mode=Mode.TAKE_OVER,
            writer=writer,
            leading=always_leading() if self.elector is None else self.elector.leading,
            status_writer=self.status_writer,
            log=Notes(judge, name),
        )
        self.controller = EndpointSliceController(context, ControllerOptions(batching=batching, random=chance))
        self._network = network
        self._run(self.controller.run())
        if self.elector is not None:
            self._run(self.elector.run())

    def _run(self, work: Any) -> None:
        self.tasks.append(asyncio.create_task(work))

    def _leads(self, leads: bool) -> None:
        if not leads:
            self.controller.stepped_down()

    @property
    def writes(self) -> bool:
        """Whether what has to be written is its work now."""
        return self.elector is None or self.elector.leading.is_set()

    @property
    def is_idle(self) -> bool:
        """Whether it has seen everything, written and reported the results, and the server has nothing newer."""
        return (
            self.controller.is_idle
            and self.status_writer.is_idle
            and has_seen(self._network.registry, self.controller.cache)
        )

    def ready(self, service: Service) -> frozenset[str]:
        """The addresses that the cache knows to be ready for a Service."""
        cache, selector = self.controller.cache, (service.spec.selector or {}).items()
        nodes = {node.metadata.name for node in cache.nodes}
        publishes = service.spec.publish_not_ready_addresses is True
        return frozenset(
            pod_ip.ip
            for pod in cache.pods
            if selector <= (pod.metadata.labels or {}).items()
            and (publishes or (pod.spec.node_name in nodes and has_ready_condition(pod.status.conditions)))
            and (publishes or pod.metadata.deletion_timestamp is None)
            and pod.status.phase not in ("Failed", "Succeeded")
            for pod_ip in pod.status.pod_ips or ()
            if ("IPv6" if ":" in pod_ip.ip else "IPv4") in (service.spec.ip_families or ())
        )

    def check(self) -> None:
        """Raises what ended it, where something did."""
        for task in self.tasks:
            if task.done() and not task.cancelled():
                raise AssertionError(f"{self.name} ended by itself") from task.exception()

    async def kill(self) -> None:
        """At once, wherever it is; what has left arrives nevertheless."""
        for task in self.tasks:
            task.cancel()
        for task in self.tasks:
            with suppress(asyncio.CancelledError):
                await task

    async def stop(self) -> None:
        """As on SIGTERM."""
        await self.controller.drain(10.0)
        await self.kill()
        if self.elector is not None:
            await self.elector.release()
