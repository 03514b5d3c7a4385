"""``zoneward simulate``: the evaluation tool."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any, Final

import click

from zoneward.cli.completion import (
    complete_algorithms,
    complete_encodings,
    complete_files,
    complete_names_or_files,
)
from zoneward.cli.live_output import INTERRUPTED, Interrupts
from zoneward.cli.options import Color, GroupedCommand, Options, color_option, files_option, output_option
from zoneward.cli.output import Note, atomic_file, print_notes, shows_progress, wants_color
from zoneward.cli.simulation_run import (
    CLUSTER,
    PARQUET,
    TOPOLOGY_SIMULATOR,
    SimulationRun,
    check_usage,
    open_dataset,
    read_run,
)
from zoneward.kube.input_error import InputError
from zoneward.routing.simulation_results import WEIGHTS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from zoneward.lab.datasets import Dataset, Inputs
    from zoneward.lab.scoring import Floats
    from zoneward.lab.simulation import RowSink, Runner
    from zoneward.lab.tally import SimulationSpec
    from zoneward.routing.simulation_results import Simulation

_LIBRARIES: Final = {"html": ("matplotlib",), PARQUET: ("polars",), TOPOLOGY_SIMULATOR: ("polars",)}
_WIDEST: Final = 200
_NOTE_AFTER: Final = 1.0
"""Seconds of compiling after which a note says what took that long."""


def _complete_datasets(ctx: click.Context, option: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    from zoneward.lab import COMPUTED_DATASETS

    return complete_names_or_files(*COMPUTED_DATASETS, CLUSTER)(ctx, option, incomplete)


@click.command("simulate", cls=GroupedCommand)
@click.option(
    "-d",
    "--dataset",
    metavar="NAME|FILE",
    shell_complete=_complete_datasets,
    help="The dataset, see above.  [default: kep, or cluster with -f or --sample]",
)
@click.option(
    "-a",
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="NAME[,NAME...]",
    shell_complete=complete_algorithms,
    help="The algorithms, see above.  [default: those of KEP-2004, random to local-opt]",
)
@click.option(
    "--algorithm-file",
    metavar="FILE.py:FUNCTION",
    shell_complete=complete_files,
    help="Also score a custom algorithm.",
)
@click.option(
    "--encoding",
    "encodings",
    multiple=True,
    metavar="NAME[,NAME...]",
    shell_complete=complete_encodings,
    help="How proxies learn which endpoints to use: slice-groups; hints, which need no extra slices but have no"
    " weights; weights, those of zones that Zoneward's proxy uses with Balanced. Or both (the first two), or all."
    "  [default: slice-groups]",
)
@click.option("--by", type=click.Choice(["endpoints", "zones"]), help="Also print a table for each range of inputs.")
@click.option("--bounds", is_flag=True, help="Also print bounds that no algorithm can exceed, and the gaps to them.")
@click.option(
    "--sample-size", type=click.IntRange(1), metavar="N", help="Score a random sample of N inputs, spread evenly."
)
@click.option(
    "--run",
    "run_file",
    metavar="FILE",
    shell_complete=complete_files,
    help="A YAML file that describes the run, see above. Options win.",
)
@output_option(
    f"table|csv|json|html|{PARQUET}|{TOPOLOGY_SIMULATOR}",
    "parquet: each input with the scores of each algorithm, into the directory --to. topology-simulator: each"
    " input as CSV, in the columns of the proposal's tool, for one algorithm.",
)
@click.option("--to", metavar="PATH", shell_complete=complete_files, help="Write to this file, not to standard output.")
@files_option("A snapshot for --dataset cluster.")
@click.option("--sample", is_flag=True, help="The sample cluster for --dataset cluster.")
@color_option
@click.option("-q", "--quiet", is_flag=True, help="Print no notes and no progress on standard error.")  # fmt: skip
def command(
    *,
    files: tuple[str, ...],
    sample: bool,
    color: Color,
    quiet: bool,
    run_file: str | None,
    output: str,
    to: str | None,
    **given: Any,
) -> int:
    """Score algorithms over millions of inputs, with the same functions that the controller calls.

    Scores are those of KEP-2004: up to 100 points for traffic that stays in its zone, for little overload, and for few
    EndpointSlices. Ctrl-C ends the run early, with the results so far and exit status 130. A second Ctrl-C ends it at
    once.

    \b
    Datasets:
      kep             39,273,145 inputs of three zones, those of KEP-2004
      kep-permuted    the same, with endpoints and nodes sorted differently
      representative  the 19 inputs that come with the proposal's tool
      small           the small dataset of KEP-2004: at most 20 endpoints in a zone
      medium          at most 50 endpoints in a zone
      few             the inputs of kep with at most 50 endpoints
      uniform         random inputs; the parameters with their defaults:
                      uniform:zones=3,nodes=1-10,endpoints=0-100,inputs=1000000
      cluster         the Services of -f, of --sample, or of the cluster of the current context
      FILE            rows such as: name,1 10,2 20,1 0 (nodes and endpoints)

    \b
    Algorithms (all means all of them):
      random, local, local-kep-tool, local-shared, local-weighted, local-opt,
      ProportionalZoneCPU, Balanced, PreferSameZone, cluster-wide
    local-kep-tool is local as in the proposal's tool; the controller uses local.
    Parameters of the algorithms that have them:
      local:startingThreshold=3,overloadThreshold=0.5,maxEndpointsPerSlice=100
      Balanced:maxOverload=0.2

    \b
    Fields of the file of --run, all optional, with examples:
      dataset: small
      algorithms: [random, local]
      algorithmFile: my.py:function
      encodings: [slice-groups, hints]
      by: endpoints
      bounds: true
      sampleSize: 100000
      sweep: {startingThreshold: [1, 2, 3]}  each algorithm with each value
      quantiles: [1, 5, 50]     the score that these percents of the inputs stay below
      worst: 5                  the inputs with the lowest scores of each algorithm
      differences: true         between algorithms on the same inputs, 95 % confidence
      seed: 2004                of everything random
      skipInvalid: true         skip rows of a CSV file that can't be read
      jobs: 2                   workers; the default is one for each core
      scheduler: tcp://HOST:PORT   run on the machines of a dask cluster
      config: zoneward.yaml     a ZonewardConfiguration for the dataset cluster

    \b
    zoneward simulate
    zoneward simulate --sample-size 200000 -a all --encoding both --bounds
    zoneward simulate -d small --run sweep.yaml
    zoneward simulate -a Balanced --encoding hints,weights --bounds --by endpoints
    zoneward simulate -f cluster.json -a all
    zoneward simulate -d inputs.csv -a Local -o topology-simulator
    """
    run = read_run(run_file, Options(files=files, sample=sample), given)
    shared = Options(files=files, sample=sample, all_namespaces=True, config=run.config, color=color, quiet=quiet)
    return _simulate(run, shared, output, to)


def _check_extra(run: SimulationRun, output: str) -> None:
    """Raises `InputError` where something that the simulation needs is not installed."""
    from zoneward.extras import how_to_install
    from zoneward.lab import COMPUTED_DATASETS

    needed = ["numpy", "numba", *_LIBRARIES.get(output, ())]
    if run.dataset.partition(":")[0] not in (*COMPUTED_DATASETS, CLUSTER):
        needed.append("polars")
    for module in needed:
        if find_spec(module) is None:
            missing = f"expected the extra lab to be installed, {module} is missing"
            raise InputError("simulate", f"{missing}: {how_to_install('lab')}")


# --- the simulation ---------------------------------------------------------------------------------------------------


def _simulate(run: SimulationRun, shared: Options, output: str, to: str | None) -> int:
    """Simulate, print, and return the exit status: 0, or 130 where Ctrl-C ended it early.

    All checks come before the slow steps: compiling, then scoring.
    """
    check_usage(run, shared, output, to)
    _check_extra(run, output)
    runner = _runner(run)
    from zoneward.lab.contenders import parse_contenders
    from zoneward.lab.simulation import simulate
    from zoneward.lab.tally import SimulationSpec
    from zoneward.routing.algorithms.heuristics import BALANCED

    custom = None
    if run.algorithm_file:
        from zoneward.lab.algorithm_file import check_algorithm, load_algorithm_file

        custom = load_algorithm_file(run.algorithm_file)
    names = (*run.contenders, *((custom.name,) if custom else ()))
    spec = SimulationSpec(
        contenders=parse_contenders(names, sweep=run.sweep, own=custom),
        encodings=run.encodings,
        by=run.by,
        quantiles=bool(run.quantiles),
        plots=output == "html",
        worst=run.worst,
    )
    if WEIGHTS in spec.encodings and not any(contender.balanced for contender in spec.contenders):
        raise InputError("--encoding", WEIGHTS, f"expected {BALANCED.name} among the algorithms, no other has them")
    if output == TOPOLOGY_SIMULATOR and len(spec.contenders) != 1:
        raise InputError("-o", TOPOLOGY_SIMULATOR, f"expected one algorithm, got {len(spec.contenders)}")
    dataset = open_dataset(run, shared)
    if output in (PARQUET, TOPOLOGY_SIMULATOR):
        # Before Interrupts: polars takes over SIGINT on import and would abort its writes; the last handler wins.
        import_module("zoneward.lab.row_writers")
    with Interrupts() as interrupts, _opened(run, shared, output, to, spec, interrupts) as (sink, finish):
        # Most files have no more rows than a chunk; errors in these are reported before anything is compiled.
        next(iter(dataset.chunks()), None)
        if custom is not None:
            checked, note = check_algorithm(custom, written=run.algorithm_file)
            spec = replace(spec, contenders=parse_contenders(names, sweep=run.sweep, own=checked))
            if note:
                print_notes(shared, [Note(note)])
        if run.scheduler is None:
            _compile(shared, spec, interrupts)
        interrupts.check()
        with _progress(shared, dataset) as advance:

            def advanced(rows: int) -> None:
                advance(rows)
                interrupts.release()

            simulation = simulate(
                spec,
                dataset,
                runner=runner,
                seed=run.seed,
                bounds=run.bounds,
                shares=run.shares,
                advanced=advanced,
                sink=sink,
            )
        skipped = getattr(dataset, "skipped", 0)
        if skipped:
            rows = "1 row" if skipped == 1 else f"{skipped:,} rows"
            print_notes(shared, [Note(f"{run.dataset}: skipped {rows} that can't be read")])
        finish(simulation)
    return INTERRUPTED if simulation.partial else 0


def _runner(run: SimulationRun) -> "Runner":
    if run.scheduler is not None:
        from zoneward.lab.dask_runner import DaskRunner

        return DaskRunner(run.scheduler)
    from zoneward.lab.simulation import ThreadRunner

    return ThreadRunner(run.jobs or os.cpu_count() or 1)


def _compile(shared: Options, spec: "SimulationSpec", interrupts: Interrupts) -> None:
    """Compile the algorithms. It takes long only the first time; a terminal then shows a spinner."""
    from zoneward.cli.service_processes import waiting
    from zoneward.lab.scoring import compile_kernels, machine_code_cache

    start = perf_counter()
    directory = machine_code_cache()
    cached = _cached_code(directory)
    with nullcontext() if cached else waiting(shared, "compiling, once for this version: some 10 to 60 s"):
        for contender in spec.contenders:
            compile_kernels([contender])
            # LLVM swallows an exception that is raised in a callback.
            interrupts.check()
    took = perf_counter() - start
    if took > _NOTE_AFTER and (not directory or _cached_code(directory) != cached):
        cache = (
            f"once for this version: cached in {directory}" if directory else "again each time: no cache can be written"
        )
        print_notes(shared, [Note(f"compiled in {took:.1f} s, {cache}")])


def _cached_code(directory: str) -> set[Path]:
    return set(Path(directory).glob("*/*.nbc")) if directory else set()


@contextmanager
def _progress(shared: Options, dataset: "Dataset") -> Iterator[Callable[[int], None]]:
    if not shows_progress(shared):
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    from zoneward.report.simulation_report import RateColumn

    columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(dataset.name, total=dataset.rows)
        yield lambda rows: progress.advance(task, rows)


# --- output -----------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(
    run: SimulationRun, shared: Options, output: str, to: str | None, spec: "SimulationSpec", interrupts: Interrupts
) -> "Iterator[tuple[RowSink | None, Callable[[Simulation], None]]]":
    """Open what will be written, so that a file that can't be written fails before the work begins: what writes rows
    while they are scored, where the output has rows, and what writes the rest at the end.
    """
    from zoneward.report.simulation_report import heading

    def note_partial(simulation: "Simulation") -> None:
        if simulation.partial:
            print_notes(shared, [Note(heading(simulation))])

    if output == PARQUET:
        from zoneward.lab.row_writers import ParquetWriter

        with ParquetWriter(Path(to or ""), spec.contenders) as directory:
            interrupts.add_cleanup(directory.discard)

            def finish(simulation: "Simulation") -> None:
                directory.finish(partial=heading(simulation) if simulation.partial else "")
                note_partial(simulation)

            yield _hold_interrupts(directory.write, interrupts), finish
    elif output == TOPOLOGY_SIMULATOR:
        from zoneward.lab.row_writers import TopologySimulatorWriter

        with TemporaryFile() if to is None else _file(to, interrupts) as file:
            yield _hold_interrupts(TopologySimulatorWriter(file, spec.contenders[0]).write, interrupts), note_partial
            if to is None:
                # Only now: bad input prints nothing on standard output.
                file.seek(0)
                shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
    elif to is None:
        color = wants_color(shared)
        yield None, lambda simulation: click.echo(_text(simulation, run, output, color=color), nl=False, color=True)
    else:
        with _file(to, interrupts) as file:

            def write(simulation: "Simulation") -> None:
                file.write(_text(simulation, run, output, color=False).encode())

            yield None, write


def _file(to: str, interrupts: Interrupts) -> AbstractContextManager[IO[bytes]]:
    return atomic_file(Path(to), add_cleanup=interrupts.add_cleanup)


def _hold_interrupts(sink: "RowSink", interrupts: Interrupts) -> "RowSink":
    """Delay Ctrl-C until the rows are written and counted: the file has what the result says."""

    def write_held(inputs: "Inputs", columns: "list[Floats]") -> None:
        interrupts.hold()
        sink(inputs, columns)

    return write_held


def _text(simulation: "Simulation", run: SimulationRun, output: str, *, color: bool) -> str:
    from zoneward.report.simulation_report import simulation_csv, simulation_document, simulation_table

    if output == "table":
        from zoneward.report.terminal_text import render_text

        if not run.differences:
            simulation = replace(simulation, differences=())
        # Wide enough for all columns: a number that is cut says nothing.
        return render_text(simulation_table(simulation, width=_WIDEST), color=color, width=_WIDEST)
    if output == "json":
        from zoneward.advice.json_value import as_document, to_json

        return to_json(as_document("Simulation", simulation_document(simulation))).decode()
    if output == "csv":
        return simulation_csv(simulation)
    from zoneward.report.simulation_page import simulation_page

    return simulation_page(simulation, command=shlex.join(["zoneward", *sys.argv[1:]]))
