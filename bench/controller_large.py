"""The controller on a large cluster: the cost of a start, without slices and with correct ones, and the cost at rest.

The sandbox serves the cluster, as a process of its own; all figures are of the controller's process.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from bench import sandbox
from bench.api_server import ApiServer
from bench.controllers import Ours, at_rest
from bench.measuring import MIB, Figure
from bench.processes import cpu_of, peak_of
from bench.snapshots import NODES, PODS, SERVICES, large_snapshot

_MOST_CPU: Final = 30.0
_MOST_MEMORY: Final = 600.0
_MOST_IDLE: Final = 1.0
_IDLE: Final = 20.0
_QUIET: Final = 3.0
_SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"


def large() -> Iterator[Figure]:
    """From start to rest, twice: the second start has nothing to write."""
    snapshot = large_snapshot("json")
    with sandbox.running("-f", str(snapshot)) as (file, _):
        for label in ("from no slices", "from slices that are right"):
            start = asyncio.run(_start(Ours(file, file.parent), sandbox.address_in(file)))
            what = f"{PODS:,} Pods, {SERVICES:,} Services, {NODES:,} Nodes, {label}"
            yield Figure(f"{what}, CPU", start.cpu, "s", _MOST_CPU)
            yield Figure("  resident at its peak", start.peak / MIB, "MiB", _MOST_MEMORY)
            yield Figure("  at rest, of one core", start.idle * 100, "%", _MOST_IDLE)
            yield Figure("  endpoints that are not listed", PODS - start.endpoints, "", 0)
            yield Figure("  changes in the cluster", start.changes, "", None if start.is_first else 0)


@dataclass(frozen=True, slots=True)
class _Start:
    """Seconds of CPU, bytes, a share of a core; ``endpoints`` that are listed, ``changes`` by any client."""

    cpu: float
    peak: float
    idle: float
    endpoints: int
    changes: int
    is_first: bool


async def _start(ours: Ours, address: str) -> _Start:
    async with ApiServer(address) as server:
        version, before = await _listed(server)
        ours.start()
        try:
            while cpu_of(ours.pid) < 1.0:
                ours.check()
                await asyncio.sleep(0.2)
            cpu = await at_rest(ours.pid, sleep=asyncio.sleep, seconds=_QUIET)
            idle = cpu_of(ours.pid)
            await asyncio.sleep(_IDLE)
            idle = (cpu_of(ours.pid) - idle) / _IDLE
            peak = peak_of(ours.pid)
        finally:
            ours.stop()
        after, endpoints = await _listed(server)
        return _Start(cpu, peak, idle, endpoints, after - version, before == 0)


async def _listed(server: ApiServer) -> tuple[int, int]:
    """The cluster's version, and how many IPv4 endpoints its slices list: each Pod has one."""
    found = msgspec.json.decode(await server.ask("GET", _SLICES))
    endpoints = sum(len(each["endpoints"] or ()) for each in found["items"] if each["addressType"] == "IPv4")
    return int(found["metadata"]["resourceVersion"]), endpoints
