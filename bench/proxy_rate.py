"""A thousand endpoint changes a second for a minute: the cost of both processes of a node's proxy."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Final

from bench.measuring import MIB, Figure, quantile
from bench.processes import cpu_of, share_of
from bench.proxy_cluster import cluster
from bench.proxy_server import ProxiedNode, proxied_node

_SERVICES, _ENDPOINTS = 10_000, 10
_RATE: Final = 1_000
_SECONDS: Final = 60
_FIRST: Final = 30
"""Seconds until memory is looked at: nearly every Service has changed by then, and what is kept of it was made anew."""
_MOST_CPU: Final = 0.5
_MOST_GROWTH: Final = 5.0
"""MiB: of Services that change for the first time, one in twenty."""


async def rate() -> AsyncIterator[Figure]:
    """CPU of both processes; memory of both after half of the time and at the end."""
    async with proxied_node(cluster(_SERVICES, _ENDPOINTS)) as node:
        pids = node.proxy.pids
        cpu, begun = [*map(cpu_of, pids)], time.perf_counter()
        work = asyncio.create_task(_change(node))
        await asyncio.sleep(_FIRST)
        before = share_of(*pids)
        latencies = sorted(await work)
        took = time.perf_counter() - begun
        cpu = [cpu_of(pid) - was for pid, was in zip(pids, cpu, strict=True)]
        after = share_of(*pids)
        what = f"{_RATE:,} changes a second for {_SECONDS} s, {_SERVICES:,} Services x {_ENDPOINTS}"
        yield Figure(f"{what}: of one core, both processes", sum(cpu) / took * 100, "%", _MOST_CPU * 100)
        yield Figure("  of it the one that programs the kernel", cpu[1] / took * 100, "%")
        yield Figure("  changes a second that came", len(latencies) / took, "1/s")
        yield Figure("  transactions a second", node.kernel.transactions / took, "1/s")
        yield Figure("  until the kernel has it, p50", quantile(latencies, 0.5) * 1e3, "ms")
        yield Figure("  until the kernel has it, p99", quantile(latencies, 0.99) * 1e3, "ms")
        yield Figure("  memory of both at the end", after / MIB, "MiB")
        yield Figure(f"  more than {_FIRST} s after the beginning", (after - before) / MIB, "MiB", _MOST_GROWTH)


async def _change(node: ProxiedNode) -> list[float]:
    drawn = random.Random(1)
    begun, done, waited = time.perf_counter(), 0, []
    while done < _RATE * _SECONDS:
        due = min(_RATE * _SECONDS, int((time.perf_counter() - begun) * _RATE))
        while done < due:
            address = node.server.new_address()
            seen = node.kernel.awaited(address)
            had = node.server.replace(f"service-{drawn.randrange(_SERVICES)}-0", drawn.randrange(_ENDPOINTS), address)
            waited.append((seen, had))
            done += 1
            # One event for each change, as a server sends them.
            await asyncio.sleep(0)
        await asyncio.sleep(1 / _RATE)
    await asyncio.sleep(2.0)
    # An endpoint that was replaced before it was programmed never appears.
    return [seen.result() - had for seen, had in waited if seen.done()]
