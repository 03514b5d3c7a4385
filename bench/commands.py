"""The commands as a user runs them, on a large snapshot and on none."""

from collections.abc import Iterator
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


def compare() -> Iterator[Figure]:
    """``compare`` of 10,000 Services and 150,000 pods, as a table of all: at most 30 s and 2 GiB on two cores."""
    path = large_snapshot("json", pods=150_000, nodes=3_000, services=10_000)
    measured = run([*ZONEWARD, "compare", "-q", "-f", str(path)])
    yield Figure(f"compare, 10,000 Services, {path.stat().st_size / MIB:.0f} MiB of JSON", measured.wall, "s", 30)
    yield Figure("  peak memory of the largest process", measured.peak / MIB, "MiB", 2048)


def start() -> Iterator[Figure]:
    """``zoneward --help``: under 0.2 s, the median of 15."""
    for words, times, most in ((["--help"], 15, 0.2), (["plan", "--sample"], 5, None)):
        took = median(run([*ZONEWARD, *words]).wall for _ in range(times))
        yield Figure(f"zoneward {' '.join(words)}, median of {times}", took, "s", most)
