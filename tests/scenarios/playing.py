"""A scenario run: its cluster on a server, a controller at work on it, and a look at everything after each step."""

import asyncio
import os
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from tests.builders.objects import a_namespace
from tests.contract.api import Api
from tests.controller.a_controller import at_work
from tests.patience import PATIENCE
from tests.scenarios.cluster import Cluster
from tests.scenarios.history import following, path_in, versions
from tests.scenarios.observed import Found, Lists, Observed, check
from tests.scenarios.scenario import Scenario, Step, configured

from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.object_store import ObjectStore
from zoneward.client.transport import Transport
from zoneward.client.writer import Writer
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.queue.work_queue import Batching
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.metrics import counter_total
from zoneward.routing.configuration import Configuration

_PROMPT: Final = Batching(writes_per_second=1000)
"""Steps that follow each other at once are not what pauses are for."""
_HURRIED: Final = Batching(writes_per_second=60, longest=0.2)
"""Nobody waits on a sandbox as long as a real cluster is spared."""
_AGE: Final = 3600.0
_NUMBERS = count(1)


@dataclass
class Play:
    """``link`` is what the controller calls the server by."""

    scenario: Scenario
    link: Transport
    cluster: Cluster
    configuration: Configuration
    batching: Batching
    controller: EndpointSliceController | None = None
    status_writer: StatusWriter | None = None
    _leading: asyncio.Event = field(default_factory=asyncio.Event)
    _working: AsyncExitStack = field(default_factory=AsyncExitStack)
    _reported: Counter[tuple[str, str]] = field(default_factory=Counter)
    _served: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    async def run(self) -> None:
        scenario = self.scenario
        begin = Step(nodes=dict(scenario.all_nodes()), services=dict(scenario.services), pods=scenario.pods)
        await asyncio.to_thread(self._change, begin)
        await self._start()
        try:
            for index, step in enumerate(scenario.steps, 1):
                await self._take(step, f"step {index}" + (f" ({step.row})" if step.row else ""))
        finally:
            await self._stop()

    async def _start(self) -> None:
        self.status_writer = StatusWriter(Writer(self.link), instance="scenario")
        working = at_work(
            self,
            configuration=self.configuration,
            leading=self._leading,
            status_writer=self.status_writer,
            batching=self.batching,
            # Nodes of a scenario are no longer new: what it expects is what stays.
            wall_clock=lambda: time.time() + _AGE,
        )
        self._leading.set()
        self.controller = await self._working.enter_async_context(working)

    async def _stop(self) -> None:
        if self.controller is not None and self.status_writer is not None:
            with suppress(TimeoutError):
                await self.controller.drain(PATIENCE)
                await self.status_writer.wait_until_written(PATIENCE)
        self.controller = self.status_writer = None
        await self._working.aclose()

    async def _take(self, step: Step, where: str) -> None:
        cluster, history = self.cluster, self.cluster.history
        if step.controller in ("stops", "restarts"):
            await self._stop()
        if step.configuration is not None:
            self.configuration = configured(step.configuration)
        before, began = history.writes.copy(), time.monotonic()
        if not step.roll:
            # All that a step changes comes at once: what comes of it does not depend on who was faster.
            self._leading.clear()
        await asyncio.to_thread(self._change, step)
        if self.controller is not None:
            async with asyncio.timeout(PATIENCE):
                while not self._knows(self.controller, await self._lists()):
                    await asyncio.sleep(0.002)
        self._leading.set()
        if step.slices:
            for service, how in step.slices.items():
                await asyncio.to_thread(cluster.rewrite, service, how)
            if self.controller is None:
                lists = await self._lists()
                await history.caught_up(pods=lists.pods, slices=lists.endpointslices)
                before = history.writes.copy()
                history.missing.clear()
        if step.controller in ("starts", "restarts"):
            await self._start()
        lists = await self._lists() if self.controller is None else await self._settled()
        await history.caught_up(pods=lists.pods, slices=lists.endpointslices)
        # While a change waits for its period, a slow server makes the next ones: each period may have one more write.
        periods = int((time.monotonic() - began) / self.batching.period) if self.batching.period else 0
        self._check(step, lists, before, where, periods=periods)

    def _change(self, step: Step) -> None:
        cluster = self.cluster
        cluster.change_nodes(step.nodes)
        for zone, ready in ((step.zone_down, False), (step.zone_up, True)):
            if zone is not None:
                cluster.make_zone_ready(zone, ready=ready)
        cluster.change_services(step.services)
        for workload, counts in step.pods.items():
            cluster.scale(workload, counts)
        for workload, counts in step.unready.items():
            cluster.make_ready(workload, counts)
        for workload, how in step.roll.items():
            cluster.roll(workload, how)

    def _check(self, step: Step, lists: Lists, before: Counter[str], where: str, *, periods: int) -> None:
        observed, at_work = Observed(lists, self.configuration), self.controller is not None
        if self.controller is not None:
            assert not counter_total(self.controller.metrics.syncs, cause="error"), f"{where}: a sync failed"
        history = self.cluster.history
        assert not history.missing, f"{where}: missing {history.missing}"
        reported = observed.reported()
        events, writes = sorted((reported - self._reported).elements()), history.writes - before
        for service in sorted(observed.snapshot.services, key=lambda service: service.metadata.name):
            name = service.metadata.name
            of_service = [what for about, what in events if about == name]
            outcome = Found(observed, service, self._served.get(name, {}), of_service, writes[name] - periods)
            check(outcome, step, where, at_work=at_work)
            self._served[name] = outcome.serves
        self._reported = reported

    async def _settled(self) -> Lists:
        """All objects once the controller has seen everything, and all writes and events that follow are done."""
        controller, status_writer = self.controller, self.status_writer
        assert controller is not None
        assert status_writer is not None
        async with asyncio.timeout(PATIENCE):
            while True:
                await controller.wait_until_idle(PATIENCE)
                await status_writer.wait_until_written(PATIENCE)
                if self._knows(controller, await self._lists()) and controller.is_idle and status_writer.is_idle:
                    # Events may have been written since they were read.
                    return await self._lists()
                await asyncio.sleep(0.005)

    def _knows(self, controller: EndpointSliceController, lists: Lists) -> bool:
        """Whether its cache has what the server has, of nodes and of our namespace."""
        cache, places = controller.cache, ("", self.cluster.namespace)
        stores: tuple[ObjectStore[Any], ...] = (cache.nodes, cache.services, cache.pods, cache.slices)
        known = (
            {item.metadata.name: item.metadata.resource_version for item in store if item.metadata.namespace in places}
            for store in stores
        )
        return list(map(versions, lists[:4])) == list(known)

    async def _lists(self) -> Lists:
        api, namespace = self.cluster.api, self.cluster.namespace
        events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        ours = (path_in(namespace, plural) for plural in ("services", "pods", "endpointslices"))
        paths = ("/api/v1/nodes", *ours, events)
        return Lists(*await asyncio.to_thread(lambda: [api.get(path)["items"] for path in paths]))


async def play(scenario: Scenario, api: Api, access: ClientConfig, *, is_shared: bool) -> None:
    """Raises AssertionError with the step at which something else was there than what the scenario expects.

    A shared server keeps running, so the objects of a scenario have to be deleted.
    """
    namespace = f"scenario-{os.getpid()}-{next(_NUMBERS)}"
    batching = _PROMPT
    if any(step.roll for step in scenario.steps):
        batching = Batching() if is_shared else _HURRIED
    if scenario.batch_period is not None:
        batching = Batching(period=scenario.batch_period)
    await asyncio.to_thread(api.create, a_namespace(namespace))
    async with Transport(access, is_terminal=False) as link, following(api, namespace) as history:
        cluster = Cluster(api, namespace, history, ipv6=scenario.ipv6)
        try:
            await Play(scenario, link, cluster, configured(scenario.configuration), batching).run()
        finally:
            if is_shared:
                await asyncio.to_thread(cluster.end)
