"""Candidates over an API server's registry, in time that passes only when all wait, on a network as bad as wanted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.controller.model.network import CALM, LEASES, NOON, Link, Network, Weather, seconds

from zoneward.controller.leader.election import LeaseTiming
from zoneward.controller.leader.leader_elector import LeaderCallbacks, LeaderElector
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Deletion, Registry, Write

KEY = ("kube-system", "zoneward")


class Host:
    """A machine with one elector, and clocks of its own: ``rate`` seconds pass on it in one."""

    def __init__(
        self, place: "Place", name: str, *, rate: float = 1.0, skew: timedelta = timedelta(0), is_stuck: bool = False
    ) -> None:
        self.name, self.skew = name, skew
        self._network, self._rate, self._is_stuck = place.network, rate, is_stuck
        self._start = place.chance.uniform(0, 1e6)
        self.told: list[tuple[float, bool]] = []
        """When leadership was told to begin or to end, by the clock of all."""
        self.troubles: list[Exception] = []
        self.elector = LeaderElector(
            Link(place.network, name),
            key=KEY,
            identity=name,
            timing=place.timing,
            callbacks=LeaderCallbacks(
                on_change=lambda leads: self.told.append((seconds(), leads)), on_error=self.troubles.append
            ),
            clock=lambda: self._start + seconds() * self._rate,
            now=self._now,
            sleep=self._sleep,
            chance=place.chance.random,
        )
        self.running = asyncio.create_task(self.elector.run())

    async def kill(self) -> None:
        """Without a word to anybody."""
        self.running.cancel()
        await asyncio.wait([self.running])

    async def stand_still(self, for_seconds: float) -> None:
        self._network.cut[self.name] = seconds() + for_seconds
        await asyncio.sleep(for_seconds)

    async def _sleep(self, for_seconds: float) -> None:
        await asyncio.sleep(for_seconds / self._rate)
        await self._network.passes(self.name)

    def _now(self) -> datetime:
        return NOON + self.skew + timedelta(seconds=0 if self._is_stuck else seconds())


@dataclass(slots=True, kw_only=True)
class Place:
    """An API server, and hosts that reach it over one network. At no time may two of them write."""

    network: Network
    timing: LeaseTiming
    hosts: list[Host] = field(default_factory=list)
    leaders: list[tuple[float, str]] = field(default_factory=list)
    """Who might write, from when on; empty for nobody."""

    @property
    def chance(self) -> Random:
        return self.network.chance

    @property
    def registry(self) -> Registry:
        return self.network.registry

    def host(self, name: str, **options: Any) -> Host:
        host = Host(self, name, **options)
        self.hosts.append(host)
        return host

    def leader(self) -> str:
        """Who may write now."""
        names = [each.elector.identity for each in self.hosts if each.elector.may_write()]
        assert len(names) <= 1, f"at {seconds():.3f} s {' and '.join(names)} may write"
        return names[0] if names else ""

    def lease(self) -> dict[str, Any]:
        return self.registry.get(self.registry.kinds[LEASES], *KEY)

    def has_lease(self) -> bool:
        return self.registry.find(LEASES, *KEY) is not None

    def delete_lease(self) -> None:
        self.registry.delete(self.registry.kinds[LEASES], *KEY, Deletion())

    def label_lease(self) -> None:
        label = str(seconds())
        self._edit(lambda old: {**old, "metadata": {**old["metadata"], "labels": {"a": label}}})

    def give_lease(self, *, to: str) -> None:
        self._edit(lambda old: {**old, "spec": {**old["spec"], "holderIdentity": to}})

    def _edit(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.registry.update(self.registry.kinds[LEASES], *KEY, change, Write())

    async def until_somebody_leads(self, *, other_than: str = "", within: float) -> float:
        """How many seconds it took."""
        start = seconds()
        while self.leader() in ("", other_than):
            assert seconds() - start <= within, f"nobody leads after {within} s"
            await asyncio.sleep(0.01)
        return seconds() - start

    async def _look(self) -> None:
        while True:
            name = self.leader()
            if not self.leaders or self.leaders[-1][1] != name:
                self.leaders.append((seconds(), name))
            await asyncio.sleep(0.02)


@asynccontextmanager
async def a_place(*, seed: int = 1, timing: LeaseTiming | None = None, weather: Weather = CALM) -> AsyncIterator[Place]:
    network = Network(new_registry(now=lambda: NOON), Random(seed), weather)
    place = Place(network=network, timing=timing or LeaseTiming())
    looking = asyncio.create_task(place._look())
    try:
        yield place
    finally:
        tasks = [looking, *(host.running for host in place.hosts), *network.in_flight]
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
            raise end
