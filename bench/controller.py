"""The controller and the built-in one of Kubernetes, on the same real API server, in turns.

The control plane is the one of the end-to-end tests, and ``make e2e`` builds it. In each round Zoneward's controller
runs first, then the built-in one: other work on the machine affects both. CPU is that of the whole process.
"""

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from statistics import mean, median
from typing import Final

import msgspec
from e2e.control_plane import ControlPlane
from e2e.programs import ProgramsError, find_programs
from tests.builders.objects import a_namespace, a_node, a_pod, a_service

from bench import sandbox
from bench.api_server import ApiServer, SliceView
from bench.measuring import MIB, Figure, quantile
from bench.processes import cpu_of, peak_of, zoneward
from bench.proxies import plane
from bench.snapshots import NODES, PODS, SERVICES, large_snapshot
from zoneward.kube.names import BUILT_IN_MANAGER
from zoneward.routing.configuration import Configuration

NAMESPACE: Final = "bench"
_NODES: Final = 30
_ROUNDS: Final = 3
_FLIPS: Final = 40
"""By size, controller and round."""
_PAUSE: Final = 0.1
"""Seconds between two flips: long enough that a controller does not batch them."""
_SIZES: Final = (100, 1_000, 5_000)
_COMPARED: Final = (1_000, 5_000)
_ROLLED: Final = 1_000
_PER_SECOND: Final = 50
_LATEST: Final = 1.0
_MANY, _OF_EACH = 200, 50
_MOST_MANY: Final = 2.0
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SERVICES: Final = f"/api/v1/namespaces/{NAMESPACE}/services"
_MOST_CPU: Final = 30.0
_MOST_MEMORY: Final = 600.0
_MOST_IDLE: Final = 1.0
_IDLE: Final = 20.0
_QUIET: Final = 3.0


async def flips() -> AsyncIterator[Figure]:
    """One Pod's readiness flips: until the slice's event is here, and the CPU of the whole process."""
    compared = _Compared()
    async with _bed() as bed:
        pods: dict[int, list[_Pod]] = {}
        for size in _SIZES:
            pods[size] = await bed.ready_pods(size, lambda _, size=size: {"size": str(size)})  # type: ignore[misc]
            await bed.service(f"of-{size}", {"size": str(size)})
        addresses = {pod.address for pods_of_size in pods.values() for pod in pods_of_size}
        chosen = {size: count(0, 37) for size in _SIZES}
        async for contender, view in bed.turns(addresses):
            for size in _SIZES:
                flipped = [pods[size][next(chosen[size]) % size] for _ in range(_FLIPS // 2)]
                cpu = cpu_of(contender.pid)
                for pod in flipped:
                    compared.add(f"{size}", contender, await _flip(bed, view, pod))
                await asyncio.sleep(_PAUSE)
                compared.add(f"CPU of {size}", contender, [(cpu_of(contender.pid) - cpu) / _FLIPS * 1e3])
    for size in _SIZES:
        most = 1.0 if size in _COMPARED else None
        for label, share in (("p50", 0.5), ("p95", 0.95)):
            what = f"one of {size} flips, answer to slice event, {label}"
            for figure in compared.figures(f"{size}", what, "ms", partial(quantile, share=share), most_share=most):
                yield figure
        what = f"one of {size} flips, CPU of the process"
        for figure in compared.figures(f"CPU of {size}", what, "ms", mean, most_share=1.0):
            yield figure


async def rollouts() -> AsyncIterator[Figure]:
    """Every Pod of a Service of 1,000 is replaced: a new one is made and gets ready, then an old one is deleted."""
    compared = _Compared()
    paces = {0: "at full speed", _PER_SECOND: f"at {_PER_SECOND} a second"}
    async with _bed() as bed:
        pods = await bed.ready_pods(_ROLLED, lambda _: {"app": "rolled"})
        await bed.service("rolled", {"app": "rolled"})
        addresses = {pod.address for pod in pods}
        async for contender, view in bed.turns(addresses):
            for pace, speed in paces.items():
                pods, rollout = await _roll(bed, contender, view, pods, pace)
                addresses.clear()
                addresses |= {pod.address for pod in pods}
                for label, value in rollout.items():
                    compared.add(f"{_ROLLED} Pods rolled {speed}, {label}", contender, [value])
    for speed in paces.values():
        for label, unit, of, most, most_share in _OF_ROLLOUTS:
            what = f"{_ROLLED} Pods rolled {speed}, {label}"
            for figure in compared.figures(what, what, unit, of, most=most, most_share=most_share):
                yield figure


async def many_services() -> AsyncIterator[Figure]:
    """Two hundred Services are created at once; their Pods exist already."""
    compared = _Compared()
    what = f"{_MANY} Services of {_OF_EACH} at once, until in sync"
    async with _bed() as bed:
        pods = await bed.ready_pods(_MANY * _OF_EACH, lambda index: {"part": str(index // _OF_EACH)})
        addresses = {pod.address for pod in pods}
        async for contender, view in bed.turns(set()):
            begun = time.perf_counter()
            await bed.server.all(partial(bed.service, f"part-{part}", {"part": str(part)}) for part in range(_MANY))
            compared.add(what, contender, [await view.until(addresses) - begun])
            await bed.server.all(partial(bed.server.ask, "DELETE", f"{_SERVICES}/part-{part}") for part in range(_MANY))
            await at_rest(contender.pid)
            if contender.name == BuiltIn.name:
                # It leaves its slices to the garbage collector, which does not run here.
                contender.stop()
                await bed.server.ask("DELETE", view.path)
    for figure in compared.figures(what, what, "s", median, most=_MOST_MANY):
        yield figure


class _Compared:
    """Values of both controllers."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, what: str, contender: "Contender", values: Iterable[float]) -> None:
        self._values[what, contender.name] += values

    def figures(
        self,
        what: str,
        label: str,
        unit: str,
        of: Callable[[list[float]], float],
        *,
        most: float | None = None,
        most_share: float | None = None,
    ) -> Iterator[Figure]:
        """``most_share``: Zoneward's limit as a share of the built-in controller's figure."""
        value = of(self._values[what, Zoneward.name])
        yield Figure(label, value, unit, most)
        if (what, BuiltIn.name) in self._values:
            built_in = of(self._values[what, BuiltIn.name])
            yield Figure("  built in", built_in, unit)
            yield Figure("  share of it", value / built_in, "x", most_share)


# --- the controllers --------------------------------------------------------------------------------------------------


_BUILT_IN: Final = "endpointslice-controller"
_IDLE_SHARE: Final = 0.005
"""Seconds of CPU that an idle process takes in a second."""


class Zoneward:
    """Zoneward's controller. ``manager`` is the value of its label ``managed-by``."""

    name = "zoneward"
    manager = Configuration().manager

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._options = ("--take-over", "--no-leader-elect", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0")
        self._folder = folder

    def start(self) -> None:
        self._process = zoneward("controller", *self._options, folder=self._folder)

    def stop(self) -> None:
        self._process.stop()

    def check(self) -> None:
        self._process.check()

    @property
    def pid(self) -> int:
        return self._process.pid


class BuiltIn:
    """The built-in controller, with its default limits on requests."""

    name = "built in"
    manager = BUILT_IN_MANAGER

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def start(self) -> None:
        before = {process.pid for process in self._plane.processes}
        self._plane.start_controllers(_BUILT_IN)
        (self._pid,) = {process.pid for process in self._plane.processes} - before

    def stop(self) -> None:
        self._plane.stop_controllers()

    @property
    def pid(self) -> int:
        return self._pid


Contender = Zoneward | BuiltIn


async def at_rest(pid: int, *, seconds: float = 1.0) -> float:
    """Wait until a process was idle for this number of seconds; return its CPU time at the beginning of them."""
    while True:
        before = cpu_of(pid)
        await asyncio.sleep(seconds)
        if cpu_of(pid) - before < _IDLE_SHARE * seconds:
            return before


# --- the bed ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Bed:
    """A server with Nodes in three zones. `pods` numbers Pods, so that each has a separate address."""

    server: ApiServer
    contenders: tuple[Contender, ...]
    pods: Iterator[int] = field(default_factory=count)

    async def ready_pod(self, labels: dict[str, str]) -> "_Pod":
        index = next(self.pods)
        address = f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"
        name = f"pod-{index}"
        pod = a_pod(name, node=f"node-{index % _NODES}", ips=[address], namespace=NAMESPACE, labels=labels)
        status = pod.pop("status")
        await self.server.ask("POST", _PODS, pod)
        await self.server.patch_status(f"{_PODS}/{name}", status)
        return _Pod(name, address)

    async def ready_pods(self, count: int, labels: Callable[[int], dict[str, str]]) -> "list[_Pod]":
        pods: list[_Pod] = []

        async def make(index: int) -> None:
            pods.append(await self.ready_pod(labels(index)))

        await self.server.all(partial(make, index) for index in range(count))
        return pods

    async def service(self, name: str, selector: dict[str, str]) -> None:
        await self.server.ask("POST", _SERVICES, a_service(name, namespace=NAMESPACE, selector=selector))

    async def turns(self, addresses: set[str]) -> AsyncIterator[tuple[Contender, SliceView]]:
        """In each round each controller, once it lists all these addresses and is idle."""
        for _ in range(_ROUNDS):
            for contender in self.contenders:
                async with SliceView(self.server, NAMESPACE, manager=contender.manager) as view:
                    contender.start()
                    try:
                        await view.until(addresses)
                        await at_rest(contender.pid)
                        view.writes = 0
                        yield contender, view
                    finally:
                        contender.stop()


@dataclass(slots=True)
class _Pod:
    name: str
    address: str


@asynccontextmanager
async def _bed() -> AsyncIterator[_Bed]:
    """On a real control plane; if it is not built, on the sandbox without the built-in controller."""
    try:
        find_programs(environment=os.environ)
    except ProgramsError as error:
        print(f"on the sandbox, and not beside the built-in controller: {error}", file=sys.stderr)
        with sandbox.running() as running:
            async with ApiServer(running.address) as server:
                await _prepare(server)
                yield _Bed(server, (Zoneward(running.kubeconfig, running.kubeconfig.parent),))
        return
    async with plane() as (control, server):
        await _prepare(server)
        yield _Bed(server, (Zoneward(control.kubeconfig(), control.folder), BuiltIn(control)))


async def _prepare(server: ApiServer) -> None:
    await server.ask("POST", "/api/v1/namespaces", a_namespace(NAMESPACE))
    for index in range(_NODES):
        node = a_node(f"node-{index}", zone="abc"[index % 3])
        status = node.pop("status")
        await server.ask("POST", "/api/v1/nodes", node)
        await server.patch_status(f"/api/v1/nodes/node-{index}", status)


# --- flips and rollouts -----------------------------------------------------------------------------------------------


async def _flip(bed: _Bed, view: SliceView, pod: _Pod) -> list[float]:
    """Milliseconds from the answer to the slice's event: for a Pod that becomes unready, and then ready again."""
    times = []
    for ready in (False, True):
        seen = view.awaited(pod.address, ready=ready)
        begun = time.perf_counter()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
        await bed.server.patch_status(f"{_PODS}/{pod.name}", {"conditions": [condition]})
        answered = time.perf_counter()
        times.append((await asyncio.wait_for(seen, 10) - answered) * 1e3)
        await asyncio.sleep(max(0.0, begun + _PAUSE - time.perf_counter()))
    return times


_OF_ROLLOUTS: Final[tuple[tuple[str, str, Callable[[list[float]], float], float | None, float | None], ...]] = (
    ("took", "s", median, None, None),
    ("writes", "", median, None, 1.0),
    ("CPU of the process", "s", median, None, 0.5),
    ("latest endpoint", "s", max, _LATEST, None),
)
"""Name, unit, which of the rounds, the limit, and that as a share of the built-in controller's figure."""


async def _roll(
    bed: _Bed, contender: Contender, view: SliceView, old: list[_Pod], pace: int
) -> tuple[list[_Pod], dict[str, float]]:
    """The new Pods, and the figures. ``pace`` in Pods a second; 0: as fast as the API allows."""
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
    await at_rest(contender.pid)
    return new, {
        "took": ended - begun,
        "writes": view.writes,
        "CPU of the process": cpu_of(contender.pid) - cpu,
        # The longest time that a ready endpoint was not listed.
        "latest endpoint": max(view.first_ready[address] - at for address, at in ready_at.items()),
    }


# --- a large cluster --------------------------------------------------------------------------------------------------


async def large() -> AsyncIterator[Figure]:
    """From start to rest, twice: the second start has nothing to write."""
    with sandbox.running("-f", str(large_snapshot("json"))) as running:
        async with ApiServer(running.address) as server:
            for label, most_changes in (("from no slices", None), ("from slices that are right", 0)):
                controller = Zoneward(running.kubeconfig, running.kubeconfig.parent)
                version, _ = await _listed(server)
                controller.start()
                try:
                    while cpu_of(controller.pid) < 1.0:
                        controller.check()
                        await asyncio.sleep(0.2)
                    cpu = await at_rest(controller.pid, seconds=_QUIET)
                    idle = cpu_of(controller.pid)
                    await asyncio.sleep(_IDLE)
                    idle = (cpu_of(controller.pid) - idle) / _IDLE
                    peak = peak_of(controller.pid)
                finally:
                    controller.stop()
                after, endpoints = await _listed(server)
                what = f"{PODS:,} Pods, {SERVICES:,} Services, {NODES:,} Nodes, {label}"
                yield Figure(f"{what}, CPU", cpu, "s", _MOST_CPU)
                yield Figure("  resident at its peak", peak / MIB, "MiB", _MOST_MEMORY)
                yield Figure("  at rest, of one core", idle * 100, "%", _MOST_IDLE)
                yield Figure("  endpoints that are not listed", PODS - endpoints, "", 0)
                yield Figure("  changes in the cluster", after - version, "", most_changes)


async def _listed(server: ApiServer) -> tuple[int, int]:
    """The cluster's version, and how many IPv4 endpoints its slices list: each Pod has one."""
    listing = msgspec.json.decode(await server.ask("GET", "/apis/discovery.k8s.io/v1/endpointslices"))
    endpoints = sum(len(item["endpoints"] or ()) for item in listing["items"] if item["addressType"] == "IPv4")
    return int(listing["metadata"]["resourceVersion"]), endpoints
