"""A thousand endpoint changes a second for a minute: the cost of both processes of a node's proxy."""

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.alone import tell, told_alone
from bench.kernel_events import KernelEvents
from bench.measuring import MIB, Figure
from bench.proxies import Ours, share_of
from bench.proxy_cluster import cluster
from bench.proxy_server import ChangingServer, serving

_SERVICES, _ENDPOINTS = 10_000, 10
_RATE: Final = 1_000
_SECONDS: Final = 60
_FIRST: Final = 30
"""Seconds until memory is looked at: nearly every Service has changed by then, and what is kept of it was made anew."""
_MOST_CPU: Final = 0.5
_MOST_GROWTH: Final = 5.0
"""MiB: of Services that change for the first time, one in twenty."""


def rate() -> Iterator[Figure]:
    """CPU from /proc, of both processes; memory of both after half of the time and at the end."""
    (found,) = told_alone("proxy_rate", _SERVICES, _RATE, _SECONDS)
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


async def _measure(services: int, rate: int, seconds: int, *, folder: Path) -> dict[str, Any]:
    async with serving(cluster(services, _ENDPOINTS), folder, first_pod=services * _ENDPOINTS) as server:
        with Ours(server.kubeconfig, folder) as ours:
            await asyncio.to_thread(ours.until_programmed)
            await asyncio.sleep(1.0)
            with KernelEvents() as kernel:
                main, applier = ours.pids
                before = 0.0
                cpu, begun = [_cpu(main), _cpu(applier)], time.perf_counter()
                work = asyncio.create_task(_change(server, kernel, services, rate, seconds))
                if seconds > _FIRST:
                    await asyncio.sleep(_FIRST)
                    before = share_of(ours.pids)
                latencies = await work
                took = time.perf_counter() - begun
                cpu = [_cpu(main) - cpu[0], _cpu(applier) - cpu[1]]
                after = share_of(ours.pids)
    latencies.sort()
    return {
        "cpu": sum(cpu) / took,
        "cpu_of_kernel": cpu[1] / took,
        "rate": len(latencies) / took,
        "transactions": kernel.transactions / took,
        "p50": latencies[len(latencies) // 2],
        "p99": latencies[len(latencies) * 99 // 100],
        "before": before,
        "after": after,
    }


async def _change(server: ChangingServer, kernel: KernelEvents, services: int, rate: int, seconds: int) -> list[float]:
    drawn = random.Random(1)
    begun, done, waited = time.perf_counter(), 0, []
    while done < rate * seconds:
        due = min(rate * seconds, int((time.perf_counter() - begun) * rate))
        while done < due:
            address = server.new_address()
            seen = kernel.awaited(address)
            had = server.replace(f"service-{drawn.randrange(services)}-0", drawn.randrange(_ENDPOINTS), address)
            waited.append((seen, had))
            done += 1
            # One event for each change, as a server sends them.
            await asyncio.sleep(0)
        await asyncio.sleep(1 / rate)
    await asyncio.sleep(2.0)
    # An endpoint that was replaced before it was programmed never appears.
    return [seen.result() - had for seen, had in waited if seen.done()]


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        tell(asyncio.run(_measure(*map(int, sys.argv[1:4]), folder=Path(folder))))
