"""``zoneward simulate`` over the proposal's 39,273,145 inputs: time, memory, and Parquet against the disk.

Heavy modules are imported by child processes: the memory of a parent counts for its children.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.children import results_of
from bench.measuring import MIB, ZONEWARD, Figure, run

_FIVE: Final = {"local": 325, "local-shared": 475, "local-weighted": 445, "local-opt": 235, "random": 113}
"""Nanoseconds an input on one core that the prototype needed."""
_SAMPLE, _REPEATS = 400_000, 5
_ROOM: Final = 4 << 30
"""Bytes for the Parquet files and a copy of the same size, with a margin."""
_BLOCK: Final = 1 << 20


def kep() -> Iterator[Figure]:
    """All five as a table: compiling on the first run; then at most 60 s on two cores, and 500 MiB."""
    with TemporaryDirectory(prefix="zoneward-bench-") as cache:
        stored = ("env", f"XDG_CACHE_HOME={cache}", *ZONEWARD)
        first = run([*stored, "simulate", "-q", "--sample-size", "10"])
        again = run([*stored, "simulate", "-q", "--sample-size", "10"])
        yield Figure("simulate, ten inputs, first run: five algorithms compiled", first.wall, "s")
        yield Figure("  again, with machine code kept", again.wall, "s")
        whole = run([*stored, "simulate", "-q"])
    yield Figure(f"simulate, all of kep, {os.cpu_count()} cores, machine code kept", whole.wall, "s", 60)
    yield Figure("  CPU time", whole.cpu, "s")
    yield Figure("  peak memory", whole.peak / MIB, "MiB", 500)


def balanced() -> Iterator[Figure]:
    """``Balanced`` with hints and with weights, beside the bound: at most 5 minutes on two cores, and 500 MiB."""
    options = ("--encoding", "hints,weights", "--bounds", "--by", "endpoints")
    run([*ZONEWARD, "simulate", "-q", "-a", "Balanced", *options, "--sample-size", "10"])
    whole = run([*ZONEWARD, "simulate", "-q", "-a", "Balanced", *options])
    yield Figure(f"simulate Balanced, all of kep, {os.cpu_count()} cores, machine code kept", whole.wall, "s", 300)
    yield Figure("  CPU time", whole.cpu, "s")
    yield Figure("  peak memory", whole.peak / MIB, "MiB", 500)


def inputs() -> Iterator[Figure]:
    """Nanoseconds an input of each of the five on one core, compiling left out: the best of some runs."""
    for algorithm, took in results_of("simulations.measure_inputs"):
        yield Figure(f"{algorithm}, an input of kep, one core", took, "ns", _FIVE[algorithm])


def parquet() -> Iterator[Figure]:
    """Every input with all five, compared with writing as many bytes; at most 1 GiB of memory."""
    with TemporaryDirectory(prefix="zoneward-bench-", dir=os.environ.get("TMPDIR")) as directory:
        free = shutil.disk_usage(directory).free
        if free < _ROOM:
            needed = f"it needs {_ROOM >> 30} GiB in {directory}, there are {free / 2**30:.1f}"
            print(f"simulate -o parquet: skipped, {needed}", file=sys.stderr)
            return
        out = Path(directory, "out")
        run([*ZONEWARD, "simulate", "-q", "--sample-size", "10"])
        written = run([*ZONEWARD, "simulate", "-q", "-o", "parquet", "--to", str(out)])
        size = sum(path.stat().st_size for path in out.iterdir())
        values = int(subprocess.check_output([sys.executable, "-c", _VALUES.format(out=str(out))]))
        plainly = _plainly(next(out.iterdir()), size, Path(directory, "plain"))
    yield Figure(f"simulate -o parquet, all of kep, {size / MIB:,.0f} MiB", written.wall, "s")
    yield Figure("  peak memory", written.peak / MIB, "MiB", 1024)
    yield Figure(
        f"  the values themselves, {values / MIB:,.0f} MiB, compressed on the way", values / MIB / written.wall, "MiB/s"
    )
    yield Figure("  the disk, written plainly, with fsync", size / MIB / plainly, "MiB/s")


_VALUES: Final = """
import polars as pl
rows = pl.scan_parquet({out!r} + "/*.parquet")
print(rows.head(100_000).collect().estimated_size() * rows.select(pl.len()).collect().item() // 100_000)
"""


def _plainly(like: Path, size: int, to: Path) -> float:
    """Seconds to write as many bytes, those of a file over and over, until they are on the disk."""
    content = like.read_bytes()
    start = time.perf_counter()
    with to.open("wb", buffering=0) as file:
        left = size
        while left > 0:
            for at in range(0, min(len(content), left), _BLOCK):
                left -= file.write(content[at : min(at + _BLOCK, at + left)])
        os.fsync(file.fileno())
    return time.perf_counter() - start


def measure_inputs() -> Iterator[tuple[str, float]]:
    """Each algorithm with its nanoseconds an input."""
    import numpy as np

    from zoneward.lab.contenders import parse_contenders
    from zoneward.lab.datasets import ComputedDataset
    from zoneward.lab.scoring import compile_kernels, score_columns

    chunks = [chunk.inputs() for chunk in ComputedDataset("kep", seed=2004, sample=_SAMPLE).chunks()]
    demand = np.concatenate([chunk.demand for chunk in chunks])
    supply = np.concatenate([chunk.supply for chunk in chunks])
    contenders = parse_contenders(_FIVE)
    compile_kernels(contenders)
    for contender in contenders:
        times = []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            score_columns(contender, demand, supply)
            times.append(time.perf_counter() - start)
        yield contender.label, min(times) / _SAMPLE * 1e9
