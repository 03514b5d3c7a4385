"""Commands as a user runs them, with a large snapshot and without one."""

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.measuring import MIB, ZONEWARD, Figure, run
from bench.snapshots import large_snapshot


def plan_json() -> Iterator[Figure]:
    """``plan -o json`` from JSON: at most 10 s and 1 GiB."""
    path = large_snapshot("json")
    measured = run([*ZONEWARD, "plan", "-q", "-f", str(path), "-o", "json"])
    yield Figure(f"plan -o json, {path.stat().st_size / MIB:.0f} MiB of JSON", measured.wall, "s", 10)
    yield Figure("  peak memory", measured.peak / MIB, "MiB", 1024)


def plan_yaml() -> Iterator[Figure]:
    """The same from YAML, reported."""
    path = large_snapshot("yaml")
    measured = run([*ZONEWARD, "plan", "-q", "-f", str(path), "-o", "json"])
    yield Figure(f"plan -o json, {path.stat().st_size / MIB:.0f} MiB of YAML", measured.wall, "s")
    yield Figure("  peak memory", measured.peak / MIB, "MiB")


def plan_large() -> Iterator[Figure]:
    """``plan -o json`` of 10,000 Services and 150,000 pods, most of which is reading."""
    yield from _large("plan", "-o", "json", most=None)


def compare() -> Iterator[Figure]:
    """``compare`` as a table of all: at most 15 s for 2,000 Services and 30,000 pods, 120 s for 10,000 Services and
    150,000 pods, and 2 GiB, on two cores."""
    path = large_snapshot("json", pods=30_000, nodes=800, services=2_000)
    measured = run([*ZONEWARD, "compare", "-q", "-f", str(path)])
    yield Figure("compare, 2,000 Services", measured.wall, "s", 15)
    yield Figure("  CPU time of all processes", measured.cpu, "s")
    yield from _large("compare", most=120)


def advise() -> Iterator[Figure]:
    """``advise`` for 2,000 Services and 30,000 pods: at most 15 s."""
    path = large_snapshot("json", pods=30_000, nodes=800, services=2_000)
    measured = run([*ZONEWARD, "advise", "-q", "-f", str(path)])
    yield Figure("advise, 2,000 Services", measured.wall, "s", 15)
    yield Figure("  CPU time of all processes", measured.cpu, "s")


def _large(*words: str, most: float | None) -> Iterator[Figure]:
    """CPU time is more precise than wall time on a busy machine. ``BEFORE`` in the environment names a checkout of
    another version: both run on the same input, one after the other, because machines differ more than versions.
    """
    path = large_snapshot("json", pods=150_000, nodes=3_000, services=10_000)
    command = [*ZONEWARD, words[0], "-q", "-f", str(path), *words[1:]]
    before = os.environ.get("BEFORE")
    other = run(command, tree=Path(before)) if before else None
    measured = run(command)
    yield Figure(f"{words[0]}, 10,000 Services, {path.stat().st_size / MIB:.0f} MiB of JSON", measured.wall, "s", most)
    yield Figure(f"  CPU time of all processes, on {os.cpu_count()} cores", measured.cpu, "s")
    yield Figure("  peak memory of the largest process", measured.peak / MIB, "MiB", 2048)
    if other is not None:
        yield Figure("  before: time", other.wall, "s")
        yield Figure("  before: CPU time", other.cpu, "s")
        yield Figure("  before: peak memory", other.peak / MIB, "MiB")
        yield Figure("  before over now: time", other.wall / measured.wall, "times")
        yield Figure("  before over now: CPU time", other.cpu / measured.cpu, "times")


def start() -> Iterator[Figure]:
    """``zoneward --help``: under 0.2 s, the median of 15."""
    for words, times, most in ((["--help"], 15, 0.2), (["plan", "--sample"], 5, None)):
        took = median(run([*ZONEWARD, *words]).wall for _ in range(times))
        yield Figure(f"zoneward {' '.join(words)}, median of {times}", took, "s", most)
