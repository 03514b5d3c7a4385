"""A cluster with its controllers, and what happens to them; in time that passes only when all wait."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random
from typing import Any, Final

from tests.controller.a_controller import plans_of
from tests.controller.model.cluster import SERVICES, Cluster, is_own
from tests.controller.model.judge import Judge
from tests.controller.model.network import NOON, Network, seconds
from tests.controller.model.replica import Replica
from tests.controller.model.schedules import LAGS, ROUGH, WEATHERS, Schedule, Step

from zoneward.controller.queue.work_queue import Batching
from zoneward.controller.status.status_writer import are_equal, own_conditions
from zoneward.kube import names
from zoneward.kube.objects import Condition, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.service_events import DISABLED, ENABLED
from zoneward.sandbox.server.persistence import new_registry

QUIET_WITHIN: Final = 200.0
"""Seconds after which all must be written once nothing happens any more: pauses after failures grow to a minute."""
_ARRIVES: Final = 1.0
"""Seconds in which every event arrives once the network has no faults."""
_LOOK: Final = 0.25
_KINDS: Final = ("pods", "endpointslices", "services", "nodes")
_STALLS: Final = (0.02, 0.1, 0.5, 2.0, 8.0, 20.0)


class World:
    """``schedule`` is what will happen by `play`."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        chance = Random(schedule.seed)
        registry = new_registry(now=lambda: NOON + timedelta(seconds=seconds()), chance=Random(schedule.seed))
        self.cluster = Cluster(registry, collects_garbage=schedule.collects_garbage)
        self.network = Network(registry, chance)
        self.judge = Judge(self.cluster)
        self.configuration = Configuration(max_endpoints_per_slice=schedule.most)
        self.replicas: list[Replica] = []
        self._ends: list[asyncio.Task[None]] = []
        self._begun = 0
        self._reworded: set[tuple[str, str]] = set()
        """Services of which a plan would word a condition differently, where nothing else differs: shares of the Nodes
        are named there, for which alone no Service is looked at."""
        for index in range(3):
            self.cluster.node(index, index)
        for index in range(schedule.pods):
            self.cluster.pod(index, index % 3)
        for index in range(2):
            self.cluster.service(index, index)
        if schedule.takes_over:
            self.cluster.write_as_built_in()

    async def play(self) -> Counter[str]:
        """All of it. Raises AssertionError, with what went wrong. Returns what was met on the way."""
        schedule, network = self.schedule, self.network
        try:
            for _ in range(schedule.replicas):
                self._begin()
            if schedule.begins_settled:
                await self.settle("at the beginning")
            network.weather = WEATHERS[schedule.weather]
            network.lags = dict(LAGS[schedule.lags])
            for step in schedule.steps:
                self._do(step)
                self.check()
                await asyncio.sleep(step.pause)
                self.cluster.collect()
            network.heal()
            await self.settle("after all")
            self._check_slices()
            await self._stays_quiet(schedule.quiet, "afterwards")
            for replica in self.replicas:
                await replica.stop()
            self.replicas = [self._new() for _ in range(schedule.replicas)]
            await self._stays_quiet(2.0, "after a restart", begins=True)
        finally:
            running = (*(task for replica in self.replicas for task in replica.tasks), *self._ends, *network.in_flight)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        self.check()
        return network.met + self.judge.by

    # --- replicas -----------------------------------------------------------------------------------------------------

    def _new(self) -> Replica:
        self._begun += 1
        return Replica(
            f"replica-{self._begun}",
            network=self.network,
            judge=self.judge,
            configuration=self.configuration,
            elects=self.schedule.elects,
            batching=Batching(period=self.schedule.period),
        )

    def _begin(self) -> None:
        self.replicas.append(self._new())

    def _end(self, index: int, how: Callable[[Replica], Any]) -> None:
        """Ends one replica and starts another; without leader election, only after the first has ended."""
        if not self.replicas:
            return
        replica = self.replicas.pop(index % len(self.replicas))

        async def end() -> None:
            await how(replica)
            if not self.schedule.elects:
                self._begin()

        self._ends.append(asyncio.create_task(end()))
        if self.schedule.elects:
            self._begin()

    # --- what happens -------------------------------------------------------------------------------------------------

    def _do(self, step: Step) -> None:
        cluster, network, name, a, b = self.cluster, self.network, step.name, step.a, step.b
        now = seconds()
        match name:
            case "flip" | "readdress" | "finish" | "end" | "pod_gone":
                getattr(cluster, name)(a)
            case "flip_some":
                for index in range(a, a + 2 + b % 4):
                    cluster.flip(index)
            case "scale_up":
                for index in range(a, a + 2 + b % 4):
                    cluster.pod(index, index + b)
            case "scale_down":
                for index in range(a, a + 2 + b % 4):
                    cluster.pod_gone(index)
            case "pod":
                cluster.pod(a, b, ready=b % 5 != 4)
            case "node_gone" | "service_gone":
                getattr(cluster, name)(a)
            case "node_ready":
                cluster.node_ready(a, b % 3 == 0)
            case "meddle":
                cluster.meddle(a, b)
            case "meddle_before_next_write":
                network.before_next.append(lambda: cluster.meddle(a, b))
            case "stall":
                plural = _KINDS[a % len(_KINDS)]
                network.stalled[plural] = now + _STALLS[b % len(_STALLS)]
            case "break_watch":
                network.breaks[_KINDS[a % len(_KINDS)]] += 1
            case "lose_history":
                network.breaks.update(_KINDS if a % 2 else [_KINDS[b % len(_KINDS)]])
                cluster.registry.store.compact()
            case "rough":
                network.rough, network.rough_until = ROUGH[a % len(ROUGH)], now + _STALLS[b % len(_STALLS)]
            case "kill":
                self._end(a, Replica.kill)
            case "stop":
                self._end(a, Replica.stop)
            case "cut":
                for replica in self.replicas[a % 3 : a % 3 + 1]:
                    network.cut[replica.name] = now + _STALLS[b % len(_STALLS)]
            case _:
                getattr(cluster, name)(a, b)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        for replica in self.replicas:
            replica.check()
        assert not self.judge.faults, "\n".join(self.judge.faults)

    async def settle(self, when: str) -> None:
        """Until nothing is left to do, and nothing is on its way."""
        end, looked = seconds() + QUIET_WITHIN, -1
        while True:
            self.check()
            self.cluster.collect()
            writing = [replica for replica in self.replicas if replica.writes]
            if writing and not self._is_busy() and all(replica.is_idle for replica in writing):
                # A Pod that came and went leaves nothing to see but the events, which may still be on their way.
                if looked == (looked := len(self.judge.log)):
                    return
                await asyncio.sleep(_ARRIVES)
                continue
            looked = -1
            left = [(replica.name, replica.writes, replica.controller.queue.depth()) for replica in self.replicas]
            assert seconds() < end, f"{when}: not settled after {QUIET_WITHIN:g} s: {left}"
            await asyncio.sleep(_LOOK)

    def _is_busy(self) -> bool:
        """Whether requests are on their way that may come very late."""
        return bool(self.network.writes_in_flight) or any(not task.done() for task in self._ends)

    async def _stays_quiet(self, for_seconds: float, when: str, *, begins: bool = False) -> None:
        """Nobody writes anything but the Lease; or, who begins, words that were left as they are."""
        before = len(self.judge.log)
        if begins:
            await self.settle(when)
        await asyncio.sleep(for_seconds)
        self.check()
        written = [write for write in self.judge.log[before:] if not begins or write[1:] not in self._reworded]
        assert not written, f"{when}: written though nothing happened: {written}"

    def _check_slices(self) -> None:
        """They are what a plan says, and list exactly what there is."""
        cluster = self.cluster
        services = {service["metadata"]["name"]: service for service in cluster.services()}
        for name in SERVICES:
            listed = list(cluster.listed(name))
            if name not in services:
                left = [slice_["metadata"]["name"] for slice_ in cluster.slices() if is_own(slice_, name)]
                assert not left, f"{name} is gone, and its slices are not: {left}"
                continue
            twice = [
                address
                for address, index in Counter(listed_address for listed_address, _ in listed).items()
                if index > 1
            ]
            assert not twice, f"{name} lists {twice} twice"
            expected = cluster.expected(services[name])
            assert dict(listed) == expected, f"{name}: listed {dict(listed)}, expected {expected}"
        self._check_plans()

    def _check_plans(self) -> None:
        for plan in plans_of(self.cluster.objects, self.configuration):
            service = plan.service
            if service.metadata.name not in SERVICES:
                continue
            changes = [family.changes for family in plan.families]
            left = [
                [change.create, change.update, change.delete]
                for change in changes
                if change.create or change.update or change.delete
            ]
            name = service.metadata.name
            assert not left, f"{name}: a plan would write {left}"
            assert not plan.surplus, f"{name}: a plan would delete {plan.surplus}"
            reported = own_conditions(service)
            assert _states(reported) == _states(plan.conditions), (
                f"{name}: reported {reported}, a plan says {plan.conditions}"
            )
            if not are_equal(reported, plan.conditions):
                self._reworded.add(("services", name))
            assert not plan.events, f"{name}: a plan would report {plan.events}"
            self._check_events(service)

    def _check_events(self, service: Service) -> None:
        """The last Event says what the condition says."""
        if self.schedule.elects or self._ends:
            # A replica that ends between the two has reported one without the other.
            return
        programmed = next(
            (condition for condition in own_conditions(service) if condition.type == names.PROGRAMMED_CONDITION), None
        )
        if programmed is None or not programmed.message.startswith("Hints/"):
            return
        uid = service.metadata.uid
        records = (record for _, record in self.cluster.registry.store.records(self.cluster.kind("events")))
        result = sorted((record.version, record.object()) for record in records)
        reported = [event["reason"] for _, event in result if event["involvedObject"]["uid"] == uid]
        expected = ENABLED if programmed.status == "True" else DISABLED
        assert reported[-1:] == [expected], f"{service.metadata.name}: reported {reported}, and it is {programmed}"


def _states(conditions: Iterable[Condition]) -> set[tuple[object, ...]]:
    return {(condition.type, condition.status, condition.reason) for condition in conditions}
