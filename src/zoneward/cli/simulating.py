"""From options to a simulation: which dataset, which contenders, who works, and where the results go."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import IO, TYPE_CHECKING, Final

import click

from zoneward.cli.options import Note, Options, tell, wants_color
from zoneward.kube.input_error import InputError, show
from zoneward.routing.compiled import is_available
from zoneward.routing.scores import Simulation

if TYPE_CHECKING:
    from zoneward.lab.datasets import Computed, Dataset
    from zoneward.lab.running import Runner, Sink
    from zoneward.lab.tally import Wanted

_CLUSTER: Final = "cluster"
_WORTH_TELLING: Final = 1.0
"""Seconds of compiling that a user wonders about."""
_INTERRUPTED: Final = 130
_WIDEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for. ``output`` is ``like`` for the rows of the proposal's tool."""

    dataset: str | None
    algorithms: tuple[str, ...]
    algorithm_file: str | None
    encodings: tuple[str, ...]
    by: str
    quantiles: str | None
    worst: int
    differences: bool
    bounds: bool
    sweeps: tuple[str, ...]
    sample_size: int | None
    seed: int
    skip_invalid: bool
    output: str
    to: str | None
    jobs: int | None
    scheduler: str | None
    options: Options


def simulate_for(request: Request) -> int:
    """Simulate, print, and return the exit status: 0, or 130 where Ctrl-C ended it early."""
    if not is_available():
        raise InputError("simulate", "expected the extra lab to be installed: pip install 'zoneward[lab]'")
    from zoneward.lab.contenders import contenders_for
    from zoneward.lab.running import simulate
    from zoneward.lab.tally import Wanted

    own = None
    if request.algorithm_file is not None:
        from zoneward.lab.own_rules import own_rule

        loaded = own_rule(request.algorithm_file)
        own = loaded.rule
        if loaded.note:
            tell(request.options, [Note(loaded.note)])
    shares = _shares(request.quantiles)
    contenders = contenders_for((*request.algorithms, *((own.name,) if own else ())), sweeps=request.sweeps, own=own)
    wanted = Wanted(
        contenders=contenders,
        encodings=request.encodings,
        by=request.by,
        quantiles=bool(shares),
        plots=request.output == "html",
        worst=request.worst,
    )
    if request.output == "like" and len(contenders) != 1:
        raise InputError("--like", f"expected one algorithm, got {len(contenders)}")
    dataset = _dataset(request)
    runner = _runner(request, wanted)
    with ExitStack() as stack:
        rows = stack.enter_context(_rows(request, wanted))
        advanced = stack.enter_context(_progress(request, dataset))
        simulation = simulate(
            wanted,
            dataset,
            runner=runner,
            seed=request.seed,
            bounds=request.bounds,
            shares=shares,
            advanced=advanced,
            sink=rows.sink,
        )
        rows.finish(simulation)
    skipped = getattr(dataset, "skipped", 0)
    if skipped:
        tell(request.options, [Note(f"{request.dataset}: {skipped:,} rows left out that can't be read")])
    if request.output not in ("parquet", "like"):
        _print(request, simulation)
    elif simulation.partial:
        tell(request.options, [Note(_partial(simulation))])
    return _INTERRUPTED if simulation.partial else 0


# --- what to score ----------------------------------------------------------------------------------------------------


def _dataset(request: Request) -> "Dataset":
    from zoneward.lab.datasets import COMPUTED

    from_cluster = bool(request.options.files) or request.options.sample
    written = request.dataset or (_CLUSTER if from_cluster else "kep")
    if from_cluster and written != _CLUSTER:
        raise click.UsageError(f"-f and --sample: expected --dataset cluster with them, got {written}")
    if written == _CLUSTER:
        from zoneward.cli.planning import plan_for
        from zoneward.lab.cluster import services

        if request.sample_size is not None:
            raise click.UsageError("--sample-size: expected another dataset than cluster with it")
        planned = plan_for(request.options)
        return services(planned.plans, planned.surroundings.demand)
    name, _, rest = written.partition(":")
    if name in COMPUTED:
        return _computed(name, rest, request)
    from zoneward.lab.csv_files import CsvFile

    if not Path(written).exists() and os.sep not in written and not written.endswith(".csv"):
        known = ", ".join((*COMPUTED, _CLUSTER))
        raise InputError("--dataset", f"expected one of {known}, or a CSV file, got {show(written)}")
    return CsvFile(Path(written), skip_invalid=request.skip_invalid, sample=request.sample_size, seed=request.seed)


def _computed(name: str, written: str, request: Request) -> "Computed":
    from zoneward.lab.datasets import MOST_PER_ZONE, MOST_ZONES, Computed, Range

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
    return Computed(name, seed=request.seed, sample=request.sample_size, inputs=inputs, **ranges)


def _shares(written: str | None) -> tuple[float, ...]:
    shares = []
    for percent in filter(None, (written or "").split(",")):
        try:
            share = float(percent) / 100
        except ValueError:
            share = -1.0
        if not 0 < share < 1:
            raise InputError("--quantiles", f"expected percents above 0 and below 100, got {show(percent)}")
        shares.append(share)
    return tuple(sorted(set(shares)))


# --- who works --------------------------------------------------------------------------------------------------------


def _runner(request: Request, wanted: "Wanted") -> "Runner":
    if request.scheduler is not None:
        from zoneward.lab.on_dask import Dask

        return Dask(request.scheduler)
    from zoneward.lab.running import Threads
    from zoneward.lab.scoring import machine_code_directory, prepare

    start = perf_counter()
    prepare(wanted.contenders)
    took = perf_counter() - start
    if took > _WORTH_TELLING:
        where = machine_code_directory()
        tell(request.options, [Note(f"compiled in {took:.1f} s, once for this version: kept in {where}")])
    return Threads(request.jobs or os.cpu_count() or 1)


@contextmanager
def _progress(request: Request, dataset: "Dataset") -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left on a terminal; nothing elsewhere."""
    if request.options.quiet or not sys.stderr.isatty():
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    from zoneward.report.progress import RateColumn

    columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(dataset.name, total=dataset.rows)
        yield lambda rows: progress.advance(task, rows)


# --- where results go -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rows:
    """Who writes rows down, and what to do when all are there."""

    sink: "Sink | None" = None
    finish: Callable[[Simulation], None] = lambda _simulation: None


@contextmanager
def _rows(request: Request, wanted: "Wanted") -> Iterator[_Rows]:
    if request.output == "parquet":
        from zoneward.lab.parquet import ParquetDirectory

        with ParquetDirectory(Path(request.to or ""), wanted.contenders) as directory:
            yield _Rows(directory.write, lambda simulation: directory.finished(partial=_partial(simulation)))
    elif request.output == "like":
        from zoneward.lab.like_topology_simulator import LikeTopologySimulator

        with _output(request) as file:
            yield _Rows(LikeTopologySimulator(file, wanted.contenders[0]).write)
    else:
        yield _Rows()


def _partial(simulation: Simulation) -> str:
    """What to say where not all rows are there; empty where they are."""
    from zoneward.report.simulations import heading

    return heading(simulation) if simulation.partial else ""


@contextmanager
def _output(request: Request) -> Iterator[IO[bytes]]:
    """A file that shows up whole or not at all: under another name first, or copied to standard output at the end."""
    if request.to is None:
        with TemporaryFile() as file:
            yield file
            file.seek(0)
            while piece := file.read(1 << 20):
                sys.stdout.buffer.write(piece)
        return
    path = Path(request.to)
    making = path.with_name(f"{path.name}.making")
    try:
        with making.open("wb") as file:
            yield file
        making.replace(path)
    except OSError as error:
        raise InputError("--to", str(path), f"expected a file that can be written: {error.strerror}") from error
    finally:
        making.unlink(missing_ok=True)


def _print(request: Request, simulation: Simulation) -> None:
    options = request.options
    if request.output == "table":
        from zoneward.report.simulations import simulation_table
        from zoneward.report.tables import print_table

        if not request.differences:
            simulation = replace(simulation, differences=())
        # As wide as it takes: numbers that are cut say nothing.
        width = _WIDEST
        table = simulation_table(simulation, width=width)
        color = wants_color(options) and request.to is None
        text = print_table(table, color=color, width=width)
        if request.to is None:
            click.echo(text, nl=False, color=True)
            return
    elif request.output == "json":
        from zoneward.report.decisions import as_json
        from zoneward.report.simulations import simulation_document

        text = as_json(simulation_document(simulation)).decode()
    elif request.output == "csv":
        from zoneward.report.simulations import simulation_csv

        text = simulation_csv(simulation)
    else:
        from zoneward.report.simulation_page import simulation_page

        text = simulation_page(simulation)
    with _output(request) as file:
        file.write(text.encode())
