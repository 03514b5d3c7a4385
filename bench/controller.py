"""The controller and the built-in one of Kubernetes, on the same real API server, in turns.

The control plane is the one of the end-to-end tests, and ``make e2e`` builds it. A round is ours, then the built-in
one: whatever else the machine does meanwhile, both have a part of it. CPU is the whole process's.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from statistics import median
from typing import Final

from e2e.programs import ProgramsError, find_programs
from tests.builders.objects import a_namespace, a_node, a_pod, a_service

from bench import sandbox
from bench.api_server import ApiServer, Object, SliceView
from bench.controllers import BuiltIn, Contender, Ours, at_rest
from bench.measuring import Figure
from bench.processes import cpu_of
from bench.proxy_plane import plane

NAMESPACE: Final = "bench"
_NODES: Final = 30
_ROUNDS: Final = 3
_FLIPS: Final = 40
"""By size, controller and round."""
_PAUSE: Final = 0.1
"""Seconds between two flips: long enough that a controller does not gather them."""
_SIZES: Final = (100, 1_000, 5_000)
_COMPARED: Final = (1_000, 5_000)
_ROLLED: Final = 1_000
_PER_SECOND: Final = 50
_LATEST: Final = 1.0
_MANY, _OF_EACH = 200, 50
_MOST_MANY: Final = 2.0
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SERVICES: Final = f"/api/v1/namespaces/{NAMESPACE}/services"


def flips() -> Iterator[Figure]:
    """One Pod's readiness flips: until the slice's event is here, and the CPU of the whole process."""
    found: dict[tuple[str, int], _Flips] = defaultdict(_Flips)
    asyncio.run(_measure_flips(found))
    for size in _SIZES:
        ours, theirs = (found.get((name, size)) for name in (Ours.name, BuiltIn.name))
        assert ours is not None
        most = 1.0 if size in _COMPARED else None
        for label, share in (("p50", 0.5), ("p95", 0.95)):
            other = None if theirs is None else theirs.latency(share)
            what = f"one of {size} flips, answer to slice event, {label}"
            yield from _beside(what, ours.latency(share), other, "ms", most_share=most)
        other = None if theirs is None else theirs.cpu
        yield from _beside(f"one of {size} flips, CPU of the process", ours.cpu, other, "ms", most_share=1.0)


def rollouts() -> Iterator[Figure]:
    """Every Pod of a Service of 1,000 is replaced: a new one is made and gets ready, then an old one is deleted."""
    found: dict[tuple[str, float], list[_Rollout]] = defaultdict(list)
    asyncio.run(_measure_rollouts(found))
    for pace, speed in ((0.0, "at full speed"), (_PER_SECOND, f"at {_PER_SECOND} a second")):
        ours, theirs = found[Ours.name, pace], found.get((BuiltIn.name, pace))
        what = f"{_ROLLED} Pods rolled {speed}"
        for label, unit, most, of in _OF_ROLLOUTS:
            other = None if theirs is None else median(map(of, theirs))
            yield from _beside(f"{what}, {label}", median(map(of, ours)), other, unit, most_share=most)
        latest = None if theirs is None else max(each.latest for each in theirs)
        yield from _beside(f"{what}, latest endpoint", max(each.latest for each in ours), latest, "s", most=_LATEST)


def many_services() -> Iterator[Figure]:
    """Two hundred Services are created at once; their Pods exist already."""
    found: dict[str, list[float]] = defaultdict(list)
    asyncio.run(_measure_many(found))
    theirs = median(found[BuiltIn.name]) if BuiltIn.name in found else None
    what = f"{_MANY} Services of {_OF_EACH} at once, until in sync"
    yield from _beside(what, median(found[Ours.name]), theirs, "s", most=_MOST_MANY)


def _beside(
    what: str,
    ours: float,
    theirs: float | None,
    unit: str,
    *,
    most: float | None = None,
    most_share: float | None = None,
) -> Iterator[Figure]:
    """``theirs``: the figure of the built-in controller; ``most_share``: Zoneward's limit as a share of it."""
    yield Figure(what, ours, unit, most)
    if theirs is not None:
        yield Figure("  built in", theirs, unit)
        yield Figure("  share of it", ours / theirs, "x", most_share)


# --- the bed ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Bed:
    """A server with Nodes in three zones. `pods` numbers Pods, so that each has an address of its own."""

    server: ApiServer
    contenders: tuple[Contender, ...]
    pods: Iterator[int] = field(default_factory=count)

    async def pod(self, labels: dict[str, str]) -> "_Pod":
        """Create a Pod that is not ready yet and has no address."""
        number = next(self.pods)
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        name = f"pod-{number}"
        thing = a_pod(name, node=f"node-{number % _NODES}", ips=[address], namespace=NAMESPACE, labels=labels)
        status = thing.pop("status")
        await self.server.ask("POST", _PODS, thing)
        return _Pod(name, address, status)

    async def ready_pod(self, labels: dict[str, str]) -> "_Pod":
        pod = await self.pod(labels)
        await self.server.patch_status(f"{_PODS}/{pod.name}", pod.status)
        return pod

    async def ready_pods(self, number: int, labels: Callable[[int], dict[str, str]]) -> "list[_Pod]":
        pods: list[_Pod] = []

        async def make(index: int) -> None:
            pods.append(await self.ready_pod(labels(index)))

        await self.server.all(partial(make, index) for index in range(number))
        return pods

    async def service(self, name: str, selector: dict[str, str]) -> None:
        await self.server.ask("POST", _SERVICES, a_service(name, namespace=NAMESPACE, selector=selector))

    @asynccontextmanager
    async def running(self, contender: Contender, addresses: set[str]) -> AsyncIterator[SliceView]:
        """A running controller, after it lists all these addresses and is idle."""
        async with SliceView(self.server, NAMESPACE, manager=contender.manager) as view:
            contender.start()
            try:
                await view.until(addresses)
                await at_rest(contender.pid, sleep=asyncio.sleep)
                view.writes = 0
                yield view
            finally:
                contender.stop()


@dataclass(slots=True)
class _Pod:
    name: str
    address: str
    status: Object


@asynccontextmanager
async def _bed() -> AsyncIterator[_Bed]:
    """On a real control plane, or, where it has not been built, on the sandbox and without the built-in controller."""
    try:
        find_programs(environment=os.environ)
    except ProgramsError as error:
        print(f"on the sandbox, and not beside the built-in controller: {error}")
        with sandbox.running() as (file, _):
            async with ApiServer(sandbox.address_in(file)) as server:
                await _prepare(server)
                yield _Bed(server, (Ours(file, file.parent),))
        return
    async with plane() as (control, server):
        await _prepare(server)
        yield _Bed(server, (Ours(control.kubeconfig(), control.folder), BuiltIn(control)))


async def _prepare(server: ApiServer) -> None:
    await server.ask("POST", "/api/v1/namespaces", a_namespace(NAMESPACE))
    for number in range(_NODES):
        node = a_node(f"node-{number}", zone="abc"[number % 3])
        status = node.pop("status")
        await server.ask("POST", "/api/v1/nodes", node)
        await server.patch_status(f"/api/v1/nodes/node-{number}", status)


# --- flips ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Flips:
    """Of one controller at one size: seconds for each flip, and of CPU for all of them."""

    seconds: list[float] = field(default_factory=list)
    taken: float = 0.0

    def latency(self, share: float) -> float:
        """Milliseconds."""
        return sorted(self.seconds)[int(len(self.seconds) * share)] * 1e3

    @property
    def cpu(self) -> float:
        """Milliseconds for each flip."""
        return self.taken / len(self.seconds) * 1e3


async def _measure_flips(found: dict[tuple[str, int], _Flips]) -> None:
    async with _bed() as bed:
        pods: dict[int, list[_Pod]] = {}
        for size in _SIZES:
            pods[size] = await bed.ready_pods(size, lambda _, size=size: {"size": str(size)})  # type: ignore[misc]
            await bed.service(f"of-{size}", {"size": str(size)})
        addresses = {pod.address for some in pods.values() for pod in some}
        chosen = {size: count(0, 37) for size in _SIZES}
        for _ in range(_ROUNDS):
            for contender in bed.contenders:
                async with bed.running(contender, addresses) as view:
                    for size in _SIZES:
                        numbers = [next(chosen[size]) % size for _ in range(_FLIPS // 2)]
                        some = [pods[size][number] for number in numbers]
                        await _flip(bed, contender, view, some, found[contender.name, size])


async def _flip(bed: _Bed, contender: Contender, view: SliceView, pods: list[_Pod], found: _Flips) -> None:
    """Make each Pod unready, and then ready again."""
    before = cpu_of(contender.pid)
    for pod in pods:
        for ready in (False, True):
            seen = view.awaited(pod.address, ready=ready)
            begun = time.perf_counter()
            await bed.server.patch_status(f"{_PODS}/{pod.name}", _readiness(ready))
            answered = time.perf_counter()
            found.seconds.append(await asyncio.wait_for(seen, 10) - answered)
            await asyncio.sleep(max(0.0, begun + _PAUSE - time.perf_counter()))
    await asyncio.sleep(_PAUSE)
    found.taken += cpu_of(contender.pid) - before


def _readiness(ready: bool) -> Object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": now}]}


# --- rollouts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rollout:
    """Seconds in all and of CPU, writes, and the longest time that a ready endpoint was not listed."""

    seconds: float
    writes: int
    cpu: float
    latest: float


_OF_ROLLOUTS: Final[tuple[tuple[str, str, float | None, Callable[[_Rollout], float]], ...]] = (
    ("took", "s", None, lambda each: each.seconds),
    ("writes", "", 1.0, lambda each: each.writes),
    ("CPU of the process", "s", 0.5, lambda each: each.cpu),
)
"""Name, unit, and the limit as a share of the built-in controller's figure."""


async def _measure_rollouts(found: dict[tuple[str, float], list[_Rollout]]) -> None:
    labels = {"app": "rolled"}
    async with _bed() as bed:
        pods = await bed.ready_pods(_ROLLED, lambda _: labels)
        await bed.service("rolled", labels)
        for _ in range(_ROUNDS):
            for contender in bed.contenders:
                async with bed.running(contender, {pod.address for pod in pods}) as view:
                    for pace in (0.0, float(_PER_SECOND)):
                        pods, rollout = await _roll(bed, contender, view, pods, pace)
                        found[contender.name, pace].append(rollout)


async def _roll(
    bed: _Bed, contender: Contender, view: SliceView, old: list[_Pod], pace: float
) -> tuple[list[_Pod], _Rollout]:
    """``pace`` in Pods a second; 0: as fast as the API goes."""
    new: list[_Pod] = []
    ready_at: dict[str, float] = {}
    view.writes = 0
    cpu, begun = cpu_of(contender.pid), time.perf_counter()

    async def replace(index: int) -> None:
        if pace:
            await asyncio.sleep(max(0.0, begun + index / pace - time.perf_counter()))
        pod = await bed.ready_pod({"app": "rolled"})
        ready_at[pod.address] = time.perf_counter()
        new.append(pod)
        await bed.server.ask("DELETE", f"{_PODS}/{old[index].name}?gracePeriodSeconds=0")

    await bed.server.all(partial(replace, index) for index in range(len(old)))
    ended = await view.until(set(ready_at))
    await at_rest(contender.pid, sleep=asyncio.sleep)
    latest = max(view.first_ready[address] - at for address, at in ready_at.items())
    return new, _Rollout(ended - begun, view.writes, cpu_of(contender.pid) - cpu, latest)


# --- many Services ----------------------------------------------------------------------------------------------------


async def _measure_many(found: dict[str, list[float]]) -> None:
    async with _bed() as bed:
        pods = await bed.ready_pods(_MANY * _OF_EACH, lambda index: {"part": str(index // _OF_EACH)})
        addresses = {pod.address for pod in pods}
        for _ in range(_ROUNDS):
            for contender in bed.contenders:
                async with bed.running(contender, set()) as view:
                    found[contender.name].append(await _create_many(bed, view, addresses))
                    await bed.server.all(_deletions(bed, range(_MANY)))
                    await at_rest(contender.pid, sleep=asyncio.sleep)
                if contender.name == BuiltIn.name:
                    # The built-in controller leaves its slices to the garbage collector, which does not run here.
                    await bed.server.ask("DELETE", view.path)


async def _create_many(bed: _Bed, view: SliceView, addresses: set[str]) -> float:
    begun = time.perf_counter()
    await bed.server.all(partial(bed.service, f"part-{number}", {"part": str(number)}) for number in range(_MANY))
    return await view.until(addresses) - begun


def _deletions(bed: _Bed, numbers: Iterable[int]) -> Iterator[Callable[[], Awaitable[object]]]:
    return (partial(bed.server.ask, "DELETE", f"{_SERVICES}/part-{number}") for number in numbers)
