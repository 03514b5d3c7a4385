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
    """``compare`` of 2,000 Services and 50,000 pods, as a table: at most 30 s."""
    path = large_snapshot("json")
    measured = run([*ZONEWARD, "compare", "-q", "-f", str(path)])
    yield Figure("compare, 2,000 Services and 50,000 pods", measured.wall, "s", 30)
    yield Figure("  peak memory", measured.peak / MIB, "MiB")


def start() -> Iterator[Figure]:
    """``zoneward --help``: under 0.2 s, the median of 15."""
    for words, times, most in ((["--help"], 15, 0.2), (["plan", "--sample"], 5, None)):
        took = median(run([*ZONEWARD, *words]).wall for _ in range(times))
        yield Figure(f"zoneward {' '.join(words)}, median of {times}", took, "s", most)
