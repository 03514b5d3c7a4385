"""A thousand endpoint changes a second for a minute: the cost of both processes of a node's proxy."""

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any, Final

from bench.children import told_by
from bench.measuring import MIB, Figure
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


def rate() -> Iterator[Figure]:
    """CPU of both processes; memory of both after half of the time and at the end."""
    (found,) = told_by("proxy_rate.measure", _SERVICES, _RATE, _SECONDS, alone=True)
    what = f"{_RATE:,} changes a second for {_SECONDS} s, {_SERVICES:,} Services x {_ENDPOINTS}"
    yield Figure(f"{what}: of one core, both processes", found["cpu"] * 100, "%", _MOST_CPU * 100)
    yield Figure("  of it the one that programs the kernel", found["cpu_of_kernel"] * 100, "%")
    yield Figure("  changes a second that came", found["rate"], "1/s")
    yield Figure("  transactions a second", found["transactions"], "1/s")
    yield Figure("  until the kernel has it, p50", found["p50"] * 1e3, "ms")
    yield Figure("  until the kernel has it, p99", found["p99"] * 1e3, "ms")
    yield Figure("  memory of both at the end", found["after"] / MIB, "MiB")
    yield Figure(
        f"  more than {_FIRST} s after the beginning", (found["after"] - found["before"]) / MIB, "MiB", _MOST_GROWTH
    )


async def measure(services: int, rate: int, seconds: int) -> dict[str, Any]:
    """Shares of a core, numbers a second, seconds and bytes."""
    async with proxied_node(cluster(services, _ENDPOINTS)) as node:
        pids, before = node.proxy.pids, 0.0
        cpu, begun = [*map(cpu_of, pids)], time.perf_counter()
        work = asyncio.create_task(_change(node, services, rate, seconds))
        if seconds > _FIRST:
            await asyncio.sleep(_FIRST)
            before = share_of(*pids)
        latencies = sorted(await work)
        took = time.perf_counter() - begun
        cpu = [cpu_of(pid) - was for pid, was in zip(pids, cpu, strict=True)]
        return {
            "cpu": sum(cpu) / took,
            "cpu_of_kernel": cpu[1] / took,
            "rate": len(latencies) / took,
            "transactions": node.kernel.transactions / took,
            "p50": latencies[len(latencies) // 2],
            "p99": latencies[len(latencies) * 99 // 100],
            "before": before,
            "after": share_of(*pids),
        }


async def _change(node: ProxiedNode, services: int, rate: int, seconds: int) -> list[float]:
    drawn = random.Random(1)
    begun, done, waited = time.perf_counter(), 0, []
    while done < rate * seconds:
        due = min(rate * seconds, int((time.perf_counter() - begun) * rate))
        while done < due:
            address = node.server.new_address()
            seen = node.kernel.awaited(address)
            had = node.server.replace(f"service-{drawn.randrange(services)}-0", drawn.randrange(_ENDPOINTS), address)
            waited.append((seen, had))
            done += 1
            # One event for each change, as a server sends them.
            await asyncio.sleep(0)
        await asyncio.sleep(1 / rate)
    await asyncio.sleep(2.0)
    # An endpoint that was replaced before it was programmed never appears.
    return [seen.result() - had for seen, had in waited if seen.done()]
