"""The sandbox: the time to load a large cluster, its memory, and changes a second.

The server and its clients are separate processes: the figures are those of the server.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from e2e.sandbox import Sandbox, a_sandbox

from bench.api_server import ApiServer
from bench.children import measured
from bench.measuring import MIB, Figure
from bench.processes import cpu_of, resident_of
from bench.snapshots import PODS, large_snapshot

_CHANGES: Final = 12_000
_WATCHERS: Final = 3
_MOST_LOADING: Final = 30.0
_MOST_KIB: Final = 16.0
_MOST_CHANGE: Final = 1e6 / 1_500
"""Microseconds of the server's one core."""


def sandbox() -> Iterator[Figure]:
    """All figures of the sandbox."""
    with running() as server:
        empty = resident_of(server.pid)
    start = time.perf_counter()
    with running("-f", str(large_snapshot("json"))) as server:
        pid = server.pid
        yield Figure(f"sandbox with {PODS:,} Pods, ready", time.perf_counter() - start, "s", _MOST_LOADING)
        yield Figure("  resident memory", resident_of(pid) / MIB, "MiB")
        yield Figure("  a Pod, with its part of all else", (resident_of(pid) - empty) / 1024 / PODS, "KiB", _MOST_KIB)
        before = cpu_of(pid)
        (rate, lost), _ = measured("sandbox.change", server.address)
        cpu = (cpu_of(pid) - before) / _CHANGES * 1e6
        yield Figure(f"a change of a Pod's status with {_WATCHERS} watchers, CPU", cpu, "us", _MOST_CHANGE)
        yield Figure("  changes a second, clients on the other core", rate, "1/s")
        yield Figure("  events that did not reach a watcher", lost, "", 0)
        before = cpu_of(pid)
        measured("sandbox.create", server.address)
        yield Figure("a Pod created, CPU", (cpu_of(pid) - before) / _CHANGES * 1e6, "us")
        memory = (resident_of(pid) - empty) / 1024 / (PODS + _CHANGES)
        yield Figure("  a Pod afterwards", memory, "KiB", _MOST_KIB)


@contextmanager
def running(*options: str) -> Iterator[Sandbox]:
    """A sandbox as a separate process."""
    with TemporaryDirectory() as folder, a_sandbox(Path(folder), *options) as server:
        yield server


async def change(address: str) -> tuple[float, int]:
    """Changes a second, and how many events did not reach a watcher."""
    async with ApiServer(address) as server:
        listed = await _listed(server, _CHANGES)
        version, pods = listed["metadata"]["resourceVersion"], listed["items"]
        counts = [0] * _WATCHERS
        watchers = [asyncio.create_task(_watch(server, version, counts, i)) for i in range(_WATCHERS)]
        await asyncio.sleep(0.5)
        start = time.perf_counter()

        async def patch(index: int) -> None:
            metadata = pods[index % len(pods)]["metadata"]
            ready = "True" if index // len(pods) % 2 else "False"
            status = {"conditions": [{"type": "Ready", "status": ready, "message": f"now {index}"}]}
            await server.patch_status(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", status)

        await server.all(partial(patch, index) for index in range(_CHANGES))
        rate = _CHANGES / (time.perf_counter() - start)
        await asyncio.sleep(1.0)
        for watcher in watchers:
            watcher.cancel()
        return rate, sum(_CHANGES - count for count in counts)


async def _listed(server: ApiServer, limit: int) -> Any:
    return msgspec.json.decode(await server.ask("GET", f"/api/v1/pods?limit={limit}"))


async def _watch(server: ApiServer, version: str, counts: list[int], index: int) -> None:
    async with server.watch("/api/v1/pods", version) as answer:
        async for block in answer.content.iter_any():
            counts[index] += block.count(b"\n")


async def create(address: str) -> None:
    """As many Pods as there were changes."""
    async with ApiServer(address) as server:
        (pod,) = (await _listed(server, 1))["items"]
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        labels = {name: pod["metadata"][name] for name in ("labels", "annotations") if name in pod["metadata"]}
        pod["metadata"] = labels | {"generateName": "made-"}
        await server.all(partial(server.ask, "POST", path, pod) for _ in range(_CHANGES))
