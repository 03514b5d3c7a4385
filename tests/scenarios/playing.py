"""A scenario run: its cluster on a server, a controller at work on it, and a look at everything after each step."""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from msgspec import UNSET
from tests.builders.objects import a_namespace
from tests.contract.api import Api, Object
from tests.controller.a_controller import at_work
from tests.scenarios.checks import Found, check
from tests.scenarios.client import Client, client_for
from tests.scenarios.cluster import Cluster
from tests.scenarios.history import History, following, path_in, versions
from tests.scenarios.observed import Lists, Observed, told
from tests.scenarios.scenario import Scenario, Step, configured

from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.object_store import ObjectStore
from zoneward.client.transport import Transport
from zoneward.client.writer import Writer
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.queue.batching import Batching
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.controller.sync_counts import SyncResult
from zoneward.daemon.metrics import counter_total, histogram_totals
from zoneward.routing.configuration import Configuration

_LIMIT: Final = 30.0
_DRAIN: Final = 10.0
_PROMPT: Final = Batching(writes_per_second=1000)
"""Steps that follow each other at once are not what pauses are for."""
_HURRIED: Final = Batching(writes_per_second=60, longest=0.2)
"""Nobody waits on a sandbox as long as a real cluster is spared."""
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Server:
    """``is_shared``: it goes on, so that what a scenario made has to go."""

    api: Api
    access: ClientConfig
    is_shared: bool


@dataclass
class Play:
    """``link`` is what the controller calls the server by."""

    scenario: Scenario
    client: Client
    link: Transport
    cluster: Cluster
    history: History
    configuration: Configuration
    pace: Batching
    controller: EndpointSliceController | None = None
    status_writer: StatusWriter | None = None
    _leading: asyncio.Event = field(default_factory=asyncio.Event)
    _working: AsyncExitStack = field(default_factory=AsyncExitStack)
    _told: Counter[tuple[str, str]] = field(default_factory=Counter)
    _served: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    async def run(self) -> None:
        await self._create()
        await self._start()
        try:
            for number, step in enumerate(self.scenario.steps, 1):
                where = f"step {number}" + (f" ({step.row})" if step.row else "")
                await self._take(step, where)
        finally:
            await self._stop()

    async def _create(self) -> None:
        scenario, cluster = self.scenario, self.cluster
        await cluster.change_nodes(dict(scenario.all_nodes()))
        await cluster.change_services(scenario.services)
        for workload, counts in scenario.pods.items():
            await cluster.scale(workload, counts)

    # --- the controller -----------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self.status_writer = StatusWriter(Writer(self.link), instance="scenario")
        working = at_work(
            self,
            configuration=self.configuration,
            leading=self._leading,
            status_writer=self.status_writer,
            batching=self._batching,
        )
        self._leading.set()
        self.controller = await self._working.enter_async_context(working)

    @property
    def _batching(self) -> Batching:
        if self.scenario.batch_period is not None:
            return Batching(period=self.scenario.batch_period)
        return self.pace if self.scenario.rolls else _PROMPT

    async def _stop(self) -> None:
        if self.controller is not None and self.status_writer is not None:
            with suppress(TimeoutError):
                await self.controller.drain(_DRAIN)
                await self.status_writer.wait_until_written(_DRAIN)
        self.controller = self.status_writer = None
        await self._working.aclose()

    # --- steps --------------------------------------------------------------------------------------------------------

    async def _take(self, step: Step, where: str) -> None:
        cluster, history = self.cluster, self.history
        if step.controller in ("stops", "restarts"):
            await self._stop()
        if step.configuration is not None:
            self.configuration = configured(step.configuration)
        before, began, syncs = history.writes.copy(), time.monotonic(), self._syncs()
        if not (step.roll or step.live):
            # All that a step changes comes at once: what comes of it does not depend on who was faster.
            self._leading.clear()
        await self._change(step)
        await self._known()
        self._leading.set()
        if step.slices:
            for service, how in step.slices.items():
                await cluster.rewrite(service, how)
            if self.controller is None:
                lists = await self._lists()
                await history.caught_up(pods=lists.pods, slices=lists.endpointslices)
                before = history.writes.copy()
                history.missing.clear()
        if step.controller in ("starts", "restarts"):
            await self._start()
        lists = await self._lists() if self.controller is None else await self._settled()
        await history.caught_up(pods=lists.pods, slices=lists.endpointslices)
        if step.roll:
            took = time.monotonic() - began
            writes = history.writes - before
            sys.stdout.write(
                f"{where}: {took:.2f} s, slice writes {dict(writes)}, syncs {dict(self._syncs() - syncs)}\n"
            )
        self._check(step, lists, before, where)

    async def _change(self, step: Step) -> None:
        cluster = self.cluster
        await cluster.change_nodes(step.nodes)
        if step.zone_down is not None:
            await cluster.silence(step.zone_down)
        if step.zone_up is not None:
            await cluster.wake(step.zone_up)
        await cluster.change_services(step.services)
        for workload, counts in step.pods.items():
            await cluster.scale(workload, counts)
        for workload, counts in step.unready.items():
            await cluster.make_ready(workload, counts)
        for workload, how in step.roll.items():
            await cluster.roll(workload, how)

    def _check(self, step: Step, lists: Lists, before: Counter[str], where: str) -> None:
        observed = Observed(lists, self.configuration, frozenset(self.cluster.services))
        told_now = told(lists.events)
        metrics = None if self.controller is None else self.controller.metrics
        if metrics is not None:
            assert not counter_total(metrics.syncs, cause="error"), f"{where}: a sync failed"
            if step.changed_by is not UNSET:
                changed = {
                    approach
                    for approach in ("auto", "random")
                    if histogram_totals(metrics.changed_slices, approach=approach)[1]
                }
                assert sorted(changed) == step.changed_by, where
        assert not self.history.missing, f"{where}: missing {self.history.missing}"
        for name in sorted(self.cluster.services):
            serves = observed.serves(name)
            served = self._served.get(name, {})
            found = Found(
                observed,
                name,
                events=sorted((told_now - self._told).elements()),
                writes=(self.history.writes - before)[name],
                moved=sum(serves[address] != served[address] for address in serves.keys() & served.keys()),
                at_work=self.controller is not None,
            )
            check(found, step, where)
            self._served[name] = serves
        self._told = told_now

    def _syncs(self) -> Counter[SyncResult]:
        if self.controller is None:
            return Counter()
        syncs = self.controller.metrics.syncs
        return Counter({result: counter_total(syncs, cause=result.value) for result in SyncResult})

    # --- what is there ------------------------------------------------------------------------------------------------

    async def _settled(self) -> Lists:
        """What is there once the controller knows of everything, and all that it leads to is written and told."""
        controller, status_writer = self.controller, self.status_writer
        assert controller is not None
        assert status_writer is not None
        end = time.monotonic() + _LIMIT
        while time.monotonic() < end:
            await controller.wait_until_idle(end - time.monotonic())
            await status_writer.wait_until_written(end - time.monotonic())
            lists = await self._lists()
            if self._knows(controller, lists) and controller.is_idle and not len(status_writer):
                # Events may have been written since they were read.
                return replace(lists, events=(await self.client.items(self._events))[0])
            await asyncio.sleep(0.005)
        depth, syncs = controller.queue.depth(), self._syncs()
        raise AssertionError(
            f"not settled after {_LIMIT:g} s: {depth}, syncs {syncs}, {len(status_writer)} to be told of"
        )

    async def _known(self) -> None:
        """Until the controller knows of all that there is."""
        if self.controller is not None:
            async with asyncio.timeout(_LIMIT):
                while not self._knows(self.controller, await self._lists()):
                    await asyncio.sleep(0.002)

    def _knows(self, controller: EndpointSliceController, lists: Lists) -> bool:
        """Whether its cache has what the server has, of nodes and of our namespace."""
        cache = controller.cache
        pairs: tuple[tuple[list[Object], ObjectStore[Any]], ...] = (
            (lists.nodes, cache.nodes),
            (lists.services, cache.services),
            (lists.pods, cache.pods),
            (lists.endpointslices, cache.slices),
        )
        return all(
            versions(there)
            == {
                each.metadata.name: each.metadata.resource_version
                for each in known
                if each.metadata.namespace in ("", self.cluster.namespace)
            }
            for there, known in pairs
        )

    @property
    def _events(self) -> str:
        return f"/apis/events.k8s.io/v1/namespaces/{self.cluster.namespace}/events"

    async def _lists(self) -> Lists:
        namespace = self.cluster.namespace
        paths = (
            "/api/v1/nodes",
            path_in(namespace, "services"),
            path_in(namespace, "pods"),
            path_in(namespace, "endpointslices"),
            self._events,
        )
        found: list[tuple[list[Object], str]] = await asyncio.gather(*map(self.client.items, paths))
        return Lists(*(items for items, _ in found))


@asynccontextmanager
async def _begun(scenario: Scenario, server: Server) -> AsyncIterator[Play]:
    namespace = f"scenario-{os.getpid()}-{next(_NUMBERS)}"
    async with client_for(server.api) as client, Transport(server.access, is_terminal=False) as link:
        await client.create(a_namespace(namespace))
        async with following(client, namespace) as history:
            cluster = Cluster(client, namespace, history, ipv6=scenario.ipv6)
            try:
                pace = Batching() if server.is_shared else _HURRIED
                yield Play(scenario, client, link, cluster, history, configured(scenario.configuration), pace)
            finally:
                if server.is_shared:
                    await cluster.end()


async def play(scenario: Scenario, server: Server) -> None:
    """Raises AssertionError with the step at which something else was there than what the scenario expects."""
    async with _begun(scenario, server) as begun:
        await begun.run()
