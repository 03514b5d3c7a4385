"""A node's proxy starts in a large cluster: with an empty kernel, and with its earlier rules in the kernel."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from bench import sandbox
from bench.measuring import MIB, Figure
from bench.processes import peak_of, share_of
from bench.proxies import Zoneward
from bench.proxy_cluster import cluster, write

_SERVICES, _ENDPOINTS = 10_000, 10
_STARTS: Final = 3
_MOST_START, _MOST_PROGRAMMING, _MOST_APPLY = 6.0, 3.0, 1.0
_MOST_MIB: Final = 300.0


def start() -> Iterator[Figure]:
    """Medians of a few starts; the sandbox serves the cluster over loopback, as a separate process."""
    new, again = [], []
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "cluster.json", cluster(_SERVICES, _ENDPOINTS))
        with sandbox.running("-f", str(folder / "cluster.json")) as running:
            for _ in range(_STARTS):
                new.append(_started(Zoneward(running.kubeconfig, folder)))
                again.append(_started(Zoneward(running.kubeconfig, folder)))
                Zoneward(running.kubeconfig, folder).clear()
    yield from _figures("start", new, most_programming=_MOST_PROGRAMMING)
    yield from _figures("start with its rules there", again, most_elements=0)


def _figures(
    label: str,
    starts: list[dict[str, float]],
    *,
    most_programming: float | None = None,
    most_elements: float | None = None,
) -> Iterator[Figure]:
    of = {name: [start[name] for start in starts] for name in starts[0]}
    what = f"{_SERVICES:,} Services x {_ENDPOINTS}, {label}"
    yield Figure(f"{what}: command to programmed", median(of["whole"]), "s", _MOST_START)
    yield Figure("  from synced caches to programmed", median(of["programming"]), "s", most_programming)
    yield Figure("  of it in apply", median(of["apply"]), "s", _MOST_APPLY)
    yield Figure("  CPU of both processes", median(of["cpu"]), "s")
    yield Figure("  resident at its peak, both processes", max(of["peak"]) / MIB, "MiB", _MOST_MIB)
    yield Figure("  of it the one that programs the kernel", max(of["peak_of_kernel"]) / MIB, "MiB")
    yield Figure("  resident, what is shared in parts", median(of["share"]) / MIB, "MiB")
    yield Figure("  elements written", median(of["elements"]), "", most_elements)


def _started(proxy: Zoneward) -> dict[str, float]:
    with proxy:
        log_line = proxy.until_programmed()
        whole = time.perf_counter() - proxy.started
        pids = proxy.pids
        metrics = proxy.metrics()
        assert log_line["slices"] >= _SERVICES
        return {
            "whole": whole,
            "programming": log_line["since_listed"],
            "apply": metrics["zoneward_proxy_apply_seconds_sum"],
            "cpu": proxy.cpu,
            "peak": peak_of(*pids),
            "peak_of_kernel": peak_of(*pids[1:]),
            "share": share_of(*pids),
            "elements": metrics['zoneward_proxy_changed_elements_total{address_type="IPv4"}'],
        }
