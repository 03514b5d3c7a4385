"""From options to a simulation: which dataset, which contenders, and who works."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from zoneward.cli.delivering import delivery, import_writer
from zoneward.cli.interrupting import INTERRUPTED, Interrupts
from zoneward.cli.options import Note, tell
from zoneward.cli.requesting import CLUSTER, Request, check_extra, check_usage
from zoneward.kube.input_error import InputError, show
from zoneward.lab import COMPUTED_DATASETS

if TYPE_CHECKING:
    from zoneward.lab.algorithm_file import AlgorithmFile
    from zoneward.lab.datasets import ComputedDataset, Dataset
    from zoneward.lab.simulation import Runner
    from zoneward.lab.tally import SimulationSpec

_WORTH_TELLING: Final = 1.0
"""Seconds of compiling that a user wonders about."""


def simulate_for(request: Request) -> int:
    """Simulate, print, and return the exit status: 0, or 130 where Ctrl-C ended it early.

    Whatever may be wrong is found before what takes long: compiling, then scoring.
    """
    check_usage(request)
    check_extra(request)
    shares = request.shares
    runner = _runner(request)
    from zoneward.lab.contenders import parse_contenders
    from zoneward.lab.simulation import simulate
    from zoneward.lab.tally import SimulationSpec

    source = _source(request)
    own = source.unchecked if source else None
    asked = (*request.algorithms, *((own.name,) if own else ()))
    wanted = SimulationSpec(
        contenders=parse_contenders(asked, sweeps=request.sweeps, own=own),
        encodings=request.encodings,
        by=request.by,
        quantiles=bool(shares),
        plots=request.output == "html",
        worst=request.worst,
    )
    if request.output == "like" and len(wanted.contenders) != 1:
        raise InputError("--like", f"expected one algorithm, got {len(wanted.contenders)}")
    dataset = _dataset(request)
    import_writer(request)
    with Interrupts() as interrupts, ExitStack() as stack:
        results = stack.enter_context(delivery(request, wanted, interrupts))
        # Most files have no more rows than a chunk, and what is wrong with those is told before anything is compiled.
        next(iter(dataset.chunks()), None)
        if source is not None:
            tried = source.check()
            wanted = replace(wanted, contenders=parse_contenders(asked, sweeps=request.sweeps, own=tried.rule))
            if tried.note:
                tell(request.options, [Note(tried.note)])
        if request.scheduler is None:
            _compile(request, wanted, interrupts)
        interrupts.check()
        with _progress(request, dataset) as advance:

            def advanced(rows: int) -> None:
                advance(rows)
                interrupts.release()

            simulation = simulate(
                wanted,
                dataset,
                runner=runner,
                seed=request.seed,
                bounds=request.bounds,
                shares=shares,
                advanced=advanced,
                sink=results.sink,
            )
        skipped = getattr(dataset, "skipped", 0)
        if skipped:
            rows = "1 row" if skipped == 1 else f"{skipped:,} rows"
            tell(request.options, [Note(f"{request.dataset}: {rows} left out that can't be read")])
        results.finish(simulation)
    return INTERRUPTED if simulation.partial else 0


def _source(request: Request) -> "AlgorithmFile | None":
    if request.algorithm_file is None:
        return None
    from zoneward.lab.algorithm_file import load_algorithm_file

    return load_algorithm_file(request.algorithm_file)


# --- what to score ----------------------------------------------------------------------------------------------------


def _dataset(request: Request) -> "Dataset":

    written = request.inputs
    if written == CLUSTER:
        from zoneward.cli.planning import plan_for
        from zoneward.lab.datasets import cluster_dataset

        planned = plan_for(request.options)
        return cluster_dataset(planned.plans, planned.cluster_state.demand)
    name, _, rest = written.partition(":")
    if name in COMPUTED_DATASETS:
        return _computed(name, rest, request)
    from zoneward.lab.csv_dataset import CsvDataset

    if not Path(written).exists() and os.sep not in written and not written.endswith(".csv"):
        known = ", ".join((*COMPUTED_DATASETS, CLUSTER))
        raise InputError("--dataset", f"expected one of {known}, or a CSV file, got {show(written)}")
    return CsvDataset(Path(written), skip_invalid=request.skip_invalid, sample=request.sample_size, seed=request.seed)


def _computed(name: str, written: str, request: Request) -> "ComputedDataset":
    from zoneward.lab.datasets import MOST_PER_ZONE, MOST_ZONES, ComputedDataset, Range

    bounds = {"zones": (2, MOST_ZONES), "nodes": (0, MOST_PER_ZONE), "endpoints": (0, MOST_PER_ZONE)}
    ranges: dict[str, Range] = {}
    inputs = 1_000_000
    for pair in filter(None, written.split(",")):
        key, _, value = pair.partition("=")
        if name != "uniform" or key not in (*bounds, "inputs"):
            known = "zones=, nodes=, endpoints= and inputs=" if name == "uniform" else "nothing after it"
            raise InputError("--dataset", name, f"expected {known}, got {show(pair)}")
        low, dash, high = value.partition("-")
        least, most = bounds.get(key, (1, 10**12))
        fits = low.isascii() and low.isdigit() and (not dash or (high.isascii() and high.isdigit()))
        first, last = (int(low), int(high or low)) if fits and len(value) < 40 else (0, -1)
        if not least <= first <= last <= most or (key == "inputs" and dash):
            kind = f"a number from {least} to {most}" + ("" if key == "inputs" else ", or two with - between")
            raise InputError("--dataset", name, key, f"expected {kind}, got {show(value)}")
        if key == "inputs":
            inputs = first
        else:
            ranges[key] = Range(first, last)
    return ComputedDataset(name, seed=request.seed, sample=request.sample_size, inputs=inputs, **ranges)


# --- who works --------------------------------------------------------------------------------------------------------


def _runner(request: Request) -> "Runner":
    if request.scheduler is not None:
        from zoneward.lab.dask_runner import DaskRunner

        return DaskRunner(request.scheduler)
    from zoneward.lab.simulation import ThreadRunner

    return ThreadRunner(request.jobs or os.cpu_count() or 1)


def _compile(request: Request, wanted: "SimulationSpec", interrupts: Interrupts) -> None:
    """Nothing to wait for but the first time; then a terminal shows that something goes on."""
    from zoneward.lab.scoring import compile_kernels, machine_code_cache

    start = perf_counter()
    with ExitStack() as stack:
        directory = machine_code_cache()
        if _shows_progress(request) and not (directory and any(Path(directory).iterdir())):
            from rich.console import Console

            waiting = "compiling, once for this version: some 10 to 20 s"
            stack.enter_context(Console(stderr=True).status(waiting))
        for contender in wanted.contenders:
            compile_kernels([contender])
            # An exception that is raised while LLVM calls back goes no further.
            interrupts.check()
    took = perf_counter() - start
    if took > _WORTH_TELLING:
        kept = (
            f"once for this version: kept in {directory}" if directory else "again each time: no cache can be written"
        )
        tell(request.options, [Note(f"compiled in {took:.1f} s, {kept}")])


def _shows_progress(request: Request) -> bool:
    return not request.options.quiet and sys.stderr.isatty()


@contextmanager
def _progress(request: Request, dataset: "Dataset") -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left on a terminal; nothing elsewhere."""
    if not _shows_progress(request):
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    from zoneward.report.simulation_report import RateColumn

    columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(dataset.name, total=dataset.rows)
        yield lambda rows: progress.advance(task, rows)
