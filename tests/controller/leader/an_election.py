"""Candidates over an API server's registry, in time that passes only when all wait, on a network as bad as wanted."""

import asyncio
import json
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from random import Random
from typing import Any, ParamSpec, TypeVar

from zoneward.client.api_errors import Unreachable, api_error
from zoneward.controller.leader.election import LeaseTiming
from zoneward.controller.leader.leader_elector import LeaderCallbacks, LeaderElector
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Deletion, Registry, Write
from zoneward.sandbox.server.schema import decode
from zoneward.sandbox.server.status_errors import StatusError

R = TypeVar("R")
P = ParamSpec("P")
KEY = ("kube-system", "zoneward")
LEASES = "leases.coordination.k8s.io"
"""As the registry calls them."""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class _Skipping(selectors.DefaultSelector):
    """Waits for nothing: where the loop would wait, time passes instead."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # There is nothing outside that could come.
        assert timeout is not None, "all wait for each other"
        self.seconds += max(timeout, 0)
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.seconds


def in_no_time(work: Coroutine[Any, Any, R]) -> R:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, run in no time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        in_no_time(test(*args, **kwargs))

    return run


def seconds() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """``delay``: the most seconds one way; the rest are probabilities."""

    delay: float = 0.02
    lost_requests: float = 0
    lost_answers: float = 0
    """Of writes."""
    server_errors: float = 0
    conflicts: float = 0
    hangs: float = 0


class Host:
    """A machine with one elector, and clocks of its own: ``rate`` seconds pass on it in one."""

    def __init__(
        self, place: "Place", name: str, *, rate: float = 1.0, skew: timedelta = timedelta(0), is_stuck: bool = False
    ) -> None:
        self._place, self._rate, self.skew, self._is_stuck = place, rate, skew, is_stuck
        self._awake = asyncio.Event()
        self._awake.set()
        self._start = place.chance.uniform(0, 1e6)
        self.told: list[tuple[float, bool]] = []
        """When leadership was told to begin or to end, by the clock of all."""
        self.troubles: list[Exception] = []
        self.elector = LeaderElector(
            self,
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

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float | None = None) -> bytes:
        assert query is None
        assert timeout is not None
        return await self._call(path, lambda registry: registry.get(registry.kinds[LEASES], *KEY))

    async def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
        idempotent: bool = False,
        once: bool = False,
        metadata_only: bool = False,  # noqa: ARG002
        timeout: float | None = None,
    ) -> bytes:
        assert content_type == "application/json"
        assert timeout is not None
        assert not idempotent
        assert not once
        assert query

        def done(registry: Registry) -> dict[str, Any]:
            kind = registry.kinds[LEASES]
            lease, warnings = decode(json.loads(body), kind, validation="Strict")
            assert not warnings
            if method == "POST":
                return registry.create(kind, KEY[0], lease).object
            assert method == "PUT"
            self._place.writes.append((seconds(), lease["spec"]))
            return registry.update(kind, *KEY, lambda _old: lease, Write()).object

        return await self._call(path, done, is_write=True)

    async def kill(self) -> None:
        """Without a word to anybody."""
        self.running.cancel()
        await asyncio.wait([self.running])

    async def stand_still(self, for_seconds: float) -> None:
        self._awake.clear()
        await asyncio.sleep(for_seconds)
        self._awake.set()

    async def _call(self, path: str, done: Callable[[Registry], dict[str, Any]], *, is_write: bool = False) -> bytes:
        place, network, chance = self._place, self._place.network, self._place.chance
        await self._awake.wait()
        # Asked on its own: what has left arrives, whatever becomes of its sender.
        arriving = asyncio.ensure_future(self._arrive(done, network, is_write=is_write))
        place.arriving.add(arriving)
        arriving.add_done_callback(place.arriving.discard)
        answer = await asyncio.shield(arriving)
        await asyncio.sleep(chance.uniform(0, network.delay))
        await self._awake.wait()
        if answer is None:
            raise Unreachable("the connection broke off")
        if isinstance(answer, StatusError):
            raise api_error(answer.code, json.dumps(answer.status()).encode(), path=path)
        return json.dumps(answer).encode()

    async def _arrive(
        self, done: Callable[[Registry], dict[str, Any]], network: Network, *, is_write: bool
    ) -> "dict[str, Any] | StatusError | None":
        chance = self._place.chance
        drawn = [chance.random() for _ in range(5)]
        await asyncio.sleep(chance.uniform(0, network.delay))
        if drawn[0] < network.hangs:
            await asyncio.sleep(chance.uniform(0, 30))
        if drawn[1] < network.lost_requests:
            return None
        if drawn[2] < network.server_errors / 2:
            return StatusError(500, "InternalError", "before anything was done")
        if is_write and drawn[3] < network.conflicts:
            return StatusError(409, "Conflict", "on purpose")
        try:
            found = done(self._place.registry)
        except StatusError as refusal:
            return refusal
        if drawn[2] < network.server_errors:
            return StatusError(504, "Timeout", "after all was done")
        return None if is_write and drawn[4] < network.lost_answers else found

    async def _sleep(self, for_seconds: float) -> None:
        await asyncio.sleep(for_seconds / self._rate)
        await self._awake.wait()

    def _now(self) -> datetime:
        return NOON + self.skew + timedelta(seconds=0 if self._is_stuck else seconds())


@dataclass(slots=True, kw_only=True)
class Place:
    """An API server, and hosts that reach it over one network. At no time may two of them write."""

    chance: Random
    timing: LeaseTiming
    network: Network = Network()
    registry: Registry = field(default_factory=lambda: new_registry(now=lambda: NOON))
    hosts: list[Host] = field(default_factory=list)
    writes: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    arriving: "set[asyncio.Future[Any]]" = field(default_factory=set)
    leaders: list[tuple[float, str]] = field(default_factory=list)
    """Who might write, from when on; empty for nobody."""

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
async def a_place(
    *, seed: int, timing: LeaseTiming | None = None, network: Network | None = None
) -> AsyncIterator[Place]:
    place = Place(chance=Random(seed), timing=timing or LeaseTiming(), network=network or Network())
    looking = asyncio.create_task(place._look())
    try:
        yield place
    finally:
        tasks = [looking, *(host.running for host in place.hosts), *place.arriving]
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
            raise end
