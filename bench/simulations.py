"""``zoneward simulate`` over the proposal's 39,273,145 inputs: time, memory, and Parquet against the disk; and from
a CSV file of the proposal's tool to one in its format.

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

from bench.children import measured, results_of
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


_TOOL: Final = {"local": 32, "local-shared": 45, "local-weighted": 26, "local-opt": 22, "random": 10.5}
"""Microseconds an input that the proposal's tool needs, from file to file."""
_TIMES: Final = 10
"""The factor by which Zoneward must be faster."""
_ROWS, _SEED, _RUNS, _JOBS = 1_000_000, 20_260_901, 3, 2
_MOST_MEMORY: Final = 500
"""MiB, machine code and libraries included."""


def csv_files() -> Iterator[Figure]:
    """Each algorithm of KEP-2004 by itself, the best of some runs; then the memory that few and many inputs take."""
    with TemporaryDirectory(prefix="zoneward-bench-") as directory:
        few, many = (str(Path(directory, name)) for name in ("few.csv", "many.csv"))
        for path, rows in ((few, _ROWS // 4), (many, _ROWS)):
            measured("simulations.write", path, rows)
        for algorithm, tool in _TOOL.items():
            # The first run compiles.
            measured("simulations.score", algorithm, few)
            took, _ = measured("simulations.score", algorithm, many)
            yield Figure(f"CSV to CSV, {algorithm}, an input", took, "us", tool / _TIMES)
            yield Figure(f"  times as fast as the proposal's tool ({tool:g} us)", tool / took, "x")
        for path, rows in ((few, _ROWS // 4), (many, _ROWS)):
            _, process = measured("simulations.score", "local", path)
            yield Figure(f"  peak memory, {rows:,} inputs", process.peak / MIB, "MiB", _MOST_MEMORY)


def score(algorithm: str, inputs: str) -> float:
    """Microseconds an input, from a file into one beside it; the best of some runs."""
    from zoneward.lab.contenders import parse_contenders
    from zoneward.lab.csv_dataset import CsvDataset
    from zoneward.lab.row_writers import TopologySimulatorWriter
    from zoneward.lab.scoring import compile_kernels
    from zoneward.lab.simulation import ThreadRunner, simulate
    from zoneward.lab.tally import SimulationSpec

    wanted = SimulationSpec(contenders=parse_contenders([algorithm]))
    compile_kernels(wanted.contenders)
    measured = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        dataset = CsvDataset(Path(inputs))
        with Path(inputs).with_suffix(".results").open("wb") as file:
            sink = TopologySimulatorWriter(file, wanted.contenders[0]).write
            simulate(wanted, dataset, runner=ThreadRunner(_JOBS), sink=sink)
        measured.append((time.perf_counter() - start) / dataset.rows)
    return min(measured) * 1e6


def write(path: str, rows: int) -> None:
    """A sample of ``kep`` as a file."""
    import polars as pl

    from zoneward.lab.datasets import ComputedDataset

    with Path(path).open("wb") as file:
        file.write(b"name,zone1,zone2,zone3\n")
        for chunk in ComputedDataset("kep", sample=rows, seed=_SEED).chunks():
            inputs = chunk.inputs()
            lines = {"name": pl.select(pl.format("input {}", pl.Series(inputs.numbers))).to_series()}
            for zone in range(inputs.supply.shape[1]):
                cell = pl.format("{} {}", pl.Series(inputs.demand[:, zone]), pl.Series(inputs.supply[:, zone]))
                lines[f"zone{zone + 1}"] = pl.select(cell).to_series()
            file.write(pl.DataFrame(lines).write_csv(include_header=False).encode())
