"""A node's proxy starts in a large cluster: with an empty kernel, and with its earlier rules in the kernel."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench import sandbox
from bench.children import told_by
from bench.measuring import MIB, Figure
from bench.processes import peak_of, share_of
from bench.proxies import Ours
from bench.proxy_cluster import cluster, write

_SERVICES, _ENDPOINTS = 10_000, 10
_STARTS: Final = 3
_MOST_START, _MOST_PROGRAMMING, _MOST_APPLY = 6.0, 3.0, 1.0
_MOST_MIB: Final = 300.0


def start() -> Iterator[Figure]:
    """Medians of a few starts; the sandbox serves the cluster over loopback, as a process of its own."""
    found: dict[str, list[dict[str, float]]] = {"new": [], "again": []}
    for each in told_by("proxy_start.started", _SERVICES, alone=True):
        found[each.pop("kind")].append(each)
    what = f"{_SERVICES:,} Services x {_ENDPOINTS}"
    for kind, label in (("new", "start"), ("again", "start with its rules there")):
        some = found[kind]
        is_new = kind == "new"

        def of(name: str, some: list[dict[str, float]] = some) -> float:
            return median(each[name] for each in some)

        yield Figure(f"{what}, {label}: command to programmed", of("whole"), "s", _MOST_START)
        most = _MOST_PROGRAMMING if is_new else None
        yield Figure("  from synced caches to programmed", of("programming"), "s", most)
        yield Figure("  of it in apply", of("apply"), "s", _MOST_APPLY)
        yield Figure("  CPU of both processes", of("cpu"), "s")
        yield Figure(
            "  resident at its peak, both processes", max(each["peak"] for each in some) / MIB, "MiB", _MOST_MIB
        )
        yield Figure(
            "  of it the one that programs the kernel", max(each["peak_of_kernel"] for each in some) / MIB, "MiB"
        )
        yield Figure("  resident, what is shared in parts", of("share") / MIB, "MiB")
        yield Figure("  elements written", of("elements"), "", None if is_new else 0)


def started(services: int) -> Iterator[dict[str, Any]]:
    """Of each start, what it took."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "cluster.json", cluster(services, _ENDPOINTS))
        with sandbox.running("-f", str(folder / "cluster.json")) as (file, _):
            for _ in range(_STARTS):
                yield {"kind": "new", **_started(Ours(file, folder))}
                yield {"kind": "again", **_started(Ours(file, folder))}
                Ours(file, folder).clear()


def _started(ours: Ours) -> dict[str, float]:
    with ours:
        told = ours.until_programmed()
        whole = time.perf_counter() - ours.started
        pids = ours.pids
        metrics = ours.metrics()
        assert told["slices"] >= _SERVICES
        return {
            "whole": whole,
            "programming": told["since_listed"],
            "apply": metrics["zoneward_proxy_apply_seconds_sum"],
            "cpu": ours.cpu,
            "peak": peak_of(*pids),
            "peak_of_kernel": peak_of(*pids[1:]),
            "share": share_of(*pids),
            "elements": metrics['zoneward_proxy_changed_elements_total{address_type="IPv4"}'],
        }
