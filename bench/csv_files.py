"""From a CSV file of the proposal's tool to one in its format: read, score and write a million inputs.

Heavy modules are imported by child processes: the memory of a parent counts for its children.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.children import measured
from bench.measuring import MIB, Figure

_TOOL: Final = {"local": 32, "local-shared": 45, "local-weighted": 26, "local-opt": 22, "random": 10.5}
"""Microseconds an input that the proposal's tool needs, from file to file."""
_TIMES: Final = 10
"""The factor by which Zoneward must be faster."""
_ROWS, _SEED, _REPEATS, _JOBS = 1_000_000, 20_260_901, 3, 2
_MOST_MEMORY: Final = 500
"""MiB, machine code and libraries included."""


def csv_files() -> Iterator[Figure]:
    """Each algorithm of KEP-2004 by itself, the best of some runs; then the memory that few and many inputs take."""
    with TemporaryDirectory(prefix="zoneward-bench-") as directory:
        few, many = (str(Path(directory, name)) for name in ("few.csv", "many.csv"))
        for path, rows in ((few, _ROWS // 4), (many, _ROWS)):
            measured("csv_files.write", path, rows)
        for algorithm, tool in _TOOL.items():
            # The first run compiles.
            measured("csv_files.score", algorithm, few)
            took, _ = measured("csv_files.score", algorithm, many)
            yield Figure(f"CSV to CSV, {algorithm}, an input", took, "us", tool / _TIMES)
            yield Figure(f"  times as fast as the proposal's tool ({tool:g} us)", tool / took, "x")
        for path, rows in ((few, _ROWS // 4), (many, _ROWS)):
            _, process = measured("csv_files.score", "local", path)
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
    for _ in range(_REPEATS):
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
