"""``zoneward simulate``: the evaluation tool."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import click

from zoneward.cli.interrupts import INTERRUPTED, Interrupts
from zoneward.cli.options import Color, Options
from zoneward.cli.output import Note, print_notes
from zoneward.kube.input_error import InputError, show
from zoneward.kube.near_names import did_you_mean
from zoneward.routing.simulation_results import ENCODINGS, HINTS, SLICE_GROUPS, WEIGHTS

if TYPE_CHECKING:
    from zoneward.lab.algorithm_file import AlgorithmFile
    from zoneward.lab.datasets import ComputedDataset, Dataset
    from zoneward.lab.simulation import Runner
    from zoneward.lab.tally import SimulationSpec

_OF_THE_PROPOSAL: Final = "random,local,local-kep-tool,local-shared,local-weighted,local-opt"
CLUSTER: Final = "cluster"
_DEFAULT: Final = "kep"
_LIBRARIES: Final = {"html": ("matplotlib",), "parquet": ("polars",), "like": ("polars",)}
_OUTPUTS_WITH: Final = {
    "by": ("table", "csv", "json", "html"),
    "bounds": ("table", "csv", "json", "html"),
    "quantiles": ("table", "json", "html"),
    "worst": ("table", "json", "html"),
    "differences": ("table", "json", "html"),
}
"""The outputs that can show what an option adds."""
_ENCODING_SETS: Final = {"both": (SLICE_GROUPS, HINTS), "all": ENCODINGS}
"""Several encodings by one word."""
_NOTE_AFTER: Final = 1.0
"""Seconds of compiling after which a note says what took so long."""


@click.command("simulate")
@click.option(
    "-d",
    "--dataset",
    metavar="NAME|FILE",
    help="The dataset, see above.  [default: kep, or cluster with -f or --sample]",
)
@click.option(
    "-a",
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="The algorithms, see above.  [default: those of KEP-2004, random to local-opt]",
)
@click.option("--algorithm-file", metavar="FILE.py:FUNCTION", help="Also score an algorithm of your own.")
@click.option(
    "--encoding",
    "encoding_names",
    multiple=True,
    default=[SLICE_GROUPS],
    show_default=True,
    metavar="NAME[,NAME...]",
    help="How proxies learn which endpoints to use: slice-groups; hints, which need no slices of their own but have"
    " no weights; weights, those of zones that Zoneward's proxy uses with Balanced. Or both (the first two), or all.",
)
@click.option("--by", type=click.Choice(["endpoints", "zones"]), help="Also print a table for each range of inputs.")
@click.option(
    "--quantiles",
    metavar="PERCENT[,...]",
    help="Also print the score that this percentage of the inputs stays below: 1,5,50.",
)
@click.option(
    "--worst",
    type=click.IntRange(0, 10_000),
    default=0,
    metavar="N",
    help="Also print the N inputs with the lowest score for each algorithm.",
)
@click.option(
    "--differences", is_flag=True, help="Also print how the algorithms differ on the same inputs, with 95 % confidence."
)
@click.option("--bounds", is_flag=True, help="Also print bounds that no algorithm can exceed, and the gaps to them.")
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="PARAMETER=N[,N...]",
    help="Score each algorithm that has the parameter with each of these values. May be repeated.",
)
@click.option(
    "--sample-size", type=click.IntRange(1), metavar="N", help="Score a random sample of N inputs, spread evenly."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=2004,
    show_default=True,
    metavar="N",
    help="The seed of everything random.",
)
@click.option("--skip-invalid", is_flag=True, help="Skip rows of a CSV file that can't be read, and count them.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "csv", "json", "parquet", "html"]),
    default="table",
    show_default=True,
    help="parquet: each input with the scores of each algorithm, into the directory --to.",
)
@click.option(
    "--like",
    type=click.Choice(["topology-simulator"]),
    help="With -o csv: each input, in the columns of the proposal's tool. For one algorithm.",
)
@click.option("--to", metavar="PATH", help="Write to this file, not to standard output.")
@click.option(
    "--jobs", type=click.IntRange(1, 1024), metavar="N", help="Number of workers.  [default: one for each core]"
)
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Run on the machines of a dask cluster.")
@click.option("-f", "--filename", "files", multiple=True, metavar="PATH", help="A snapshot for --dataset cluster.")
@click.option("--sample", is_flag=True, help="The sample cluster for --dataset cluster.")
@click.option("--config", metavar="FILE", help="A ZonewardConfiguration file for --dataset cluster.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Whether tables are coloured. auto: on a terminal, unless NO_COLOR is set.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no notes and no progress on standard error.")  # fmt: skip
def command(
    *, files: tuple[str, ...], sample: bool, config: str | None, color: Color, quiet: bool, **given: Any
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
    Algorithms (all stands for all of them):
      random, local, local-kep-tool, local-shared, local-weighted, local-opt,
      ProportionalZoneCPU, Balanced, PreferSameZone, cluster-wide
    local-kep-tool is local as in the proposal's tool; the controller uses local.
    Parameters of the algorithms that have them:
      local:startingThreshold=3,overloadThreshold=0.5,maxEndpointsPerSlice=100
      Balanced:maxOverload=0.2

    \b
    zoneward simulate
    zoneward simulate --sample-size 200000 -a all --encoding both --bounds
    zoneward simulate -d small -a local --sweep startingThreshold=1,2,3,4,5
    zoneward simulate -a Balanced --encoding hints,weights --bounds --by endpoints
    zoneward simulate -f cluster.json -a all
    zoneward simulate -d inputs.csv -a Local -o csv --like topology-simulator
    """
    shared = Options(files=files, sample=sample, all_namespaces=True, config=config, color=color, quiet=quiet)
    return _simulate(SimulationOptions(shared=shared, **given))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The values of the options, and what they mean together."""

    dataset: str | None
    algorithms: tuple[str, ...]
    algorithm_file: str | None
    encoding_names: tuple[str, ...]
    by: str | None
    quantiles: str | None
    worst: int
    differences: bool
    bounds: bool
    sweeps: tuple[str, ...]
    sample_size: int | None
    seed: int
    skip_invalid: bool
    output: str
    like: str | None
    to: str | None
    jobs: int | None
    scheduler: str | None
    shared: Options

    @property
    def form(self) -> str:
        """What is written: the value of ``-o``, or ``like`` for the rows of the proposal's tool."""
        return "like" if self.like else self.output

    @property
    def contenders(self) -> tuple[str, ...]:
        """The algorithms as they were written; those of the proposal where none was, not even a file with one."""
        return self.algorithms if self.algorithms or self.algorithm_file else (_OF_THE_PROPOSAL,)

    @property
    def encodings(self) -> tuple[str, ...]:
        """The encodings, in the order of their tables; raises `InputError`."""
        found: list[str] = []
        for name in ",".join(self.encoding_names).split(","):
            for encoding in _ENCODING_SETS.get(name, (name,)):
                if encoding not in ENCODINGS:
                    known = (*ENCODINGS, *_ENCODING_SETS)
                    expected = f"expected one of {', '.join(known)}, got {show(name)}"
                    raise InputError("--encoding", expected + did_you_mean(name, known))
                if encoding in found:
                    raise InputError("--encoding", f"expected {encoding} once, got it twice")
                found.append(encoding)
        return tuple(found)

    @property
    def from_cluster(self) -> bool:
        """Whether there is a snapshot to read."""
        return bool(self.shared.files) or self.shared.sample

    @property
    def inputs(self) -> str:
        """The dataset as it was written, or the default one."""
        return self.dataset or (CLUSTER if self.from_cluster else _DEFAULT)

    @property
    def shares(self) -> tuple[float, ...]:
        """The quantiles, lowest first; raises `InputError`."""
        shares = []
        for percent in [] if self.quantiles is None else self.quantiles.split(","):
            try:
                share = float(percent) / 100
            except ValueError:
                share = -1.0
            if not 0 < share < 1:
                raise InputError("--quantiles", f"expected percents above 0 and below 100, got {show(percent)}")
            shares.append(share)
        return tuple(sorted(set(shares)))


def _check_usage(options: SimulationOptions) -> None:
    """Refuse options that would have no effect: a user who waits for a minute wants every option to count.

    Raises a usage error.
    """
    if options.like is not None and options.output != "csv":
        raise click.UsageError("--like: expected -o csv with it")
    if options.form == "parquet" and options.to is None:
        raise click.UsageError("-o parquet: expected --to DIRECTORY")
    for option, outputs in _OUTPUTS_WITH.items():
        if getattr(options, option) not in (None, "", 0, False) and options.form not in outputs:
            wanted = f"{', '.join(outputs[:-1])} or {outputs[-1]}"
            got = "--like" if options.form == "like" else options.form
            raise click.UsageError(f"--{option}: expected -o {wanted} with it, got {got}")
    encodings = options.encodings
    got = ",".join(options.encoding_names)
    if options.form == "like" and encodings != (SLICE_GROUPS,):
        raise click.UsageError(f"--like: expected --encoding {SLICE_GROUPS} with it, got {got}")
    if options.form == "parquet" and SLICE_GROUPS not in encodings:
        raise click.UsageError(f"-o parquet: expected --encoding {SLICE_GROUPS}, both or all with it, got {got}")
    if options.jobs is not None and options.scheduler is not None:
        raise click.UsageError("--jobs and --scheduler: expected one of them, got both")
    if options.from_cluster and options.inputs != CLUSTER:
        raise click.UsageError(f"-f and --sample: expected --dataset cluster with them, got {options.inputs}")
    if options.shared.config is not None and options.inputs != CLUSTER:
        raise click.UsageError(f"--config: expected --dataset cluster with it, got {options.inputs}")
    if options.sample_size is not None and options.inputs == CLUSTER:
        raise click.UsageError("--sample-size: expected another dataset than cluster with it")


def _check_extra(options: SimulationOptions) -> None:
    """Raises `InputError` where something that the simulation needs is not installed."""
    from zoneward.extras import how_to_install
    from zoneward.lab import COMPUTED_DATASETS

    needed = ["numpy", "numba", *_LIBRARIES.get(options.form, ())]
    if options.inputs.partition(":")[0] not in (*COMPUTED_DATASETS, CLUSTER):
        needed.append("polars")
    for module in needed:
        if find_spec(module) is None:
            missing = f"expected the extra lab to be installed, {module} is missing"
            raise InputError("simulate", f"{missing}: {how_to_install('lab')}")


# --- the simulation ---------------------------------------------------------------------------------------------------


def _simulate(options: SimulationOptions) -> int:
    """Simulate, print, and return the exit status: 0, or 130 where Ctrl-C ended it early.

    All checks come before what takes long: compiling, then scoring.
    """
    _check_usage(options)
    _check_extra(options)
    from zoneward.cli.simulate_output import import_writer, open_output

    shares = options.shares
    runner = _runner(options)
    from zoneward.lab.contenders import parse_contenders
    from zoneward.lab.simulation import simulate
    from zoneward.lab.tally import SimulationSpec
    from zoneward.routing.algorithms.heuristics import BALANCED

    source = _algorithm_file(options)
    own = source.unchecked if source else None
    names = (*options.contenders, *((own.name,) if own else ()))
    wanted = SimulationSpec(
        contenders=parse_contenders(names, sweeps=options.sweeps, own=own),
        encodings=options.encodings,
        by=options.by or "",
        quantiles=bool(shares),
        plots=options.form == "html",
        worst=options.worst,
    )
    if WEIGHTS in wanted.encodings and not any(each.balanced for each in wanted.contenders):
        raise InputError("--encoding", WEIGHTS, f"expected {BALANCED.name} among the algorithms, no other has them")
    if options.form == "like" and len(wanted.contenders) != 1:
        raise InputError("--like", f"expected one algorithm, got {len(wanted.contenders)}")
    dataset = _dataset(options)
    import_writer(options)
    with Interrupts() as interrupts, ExitStack() as stack:
        results = stack.enter_context(open_output(options, wanted, interrupts))
        # Most files have no more rows than a chunk; errors in these are reported before anything is compiled.
        next(iter(dataset.chunks()), None)
        if source is not None:
            checked = source.check()
            wanted = replace(wanted, contenders=parse_contenders(names, sweeps=options.sweeps, own=checked.rule))
            if checked.note:
                print_notes(options.shared, [Note(checked.note)])
        if options.scheduler is None:
            _compile(options, wanted, interrupts)
        interrupts.check()
        with _progress(options, dataset) as advance:

            def advanced(rows: int) -> None:
                advance(rows)
                interrupts.release()

            simulation = simulate(
                wanted,
                dataset,
                runner=runner,
                seed=options.seed,
                bounds=options.bounds,
                shares=shares,
                advanced=advanced,
                sink=results.sink,
            )
        skipped = getattr(dataset, "skipped", 0)
        if skipped:
            rows = "1 row" if skipped == 1 else f"{skipped:,} rows"
            print_notes(options.shared, [Note(f"{options.dataset}: {rows} left out that can't be read")])
        results.finish(simulation)
    return INTERRUPTED if simulation.partial else 0


def _algorithm_file(options: SimulationOptions) -> "AlgorithmFile | None":
    if options.algorithm_file is None:
        return None
    from zoneward.lab.algorithm_file import load_algorithm_file

    return load_algorithm_file(options.algorithm_file)


# --- what to score ----------------------------------------------------------------------------------------------------


def _dataset(options: SimulationOptions) -> "Dataset":
    from zoneward.lab import COMPUTED_DATASETS

    written = options.inputs
    if written == CLUSTER:
        from zoneward.cli.planned_services import plan_services
        from zoneward.lab.datasets import cluster_dataset

        planned = plan_services(options.shared)
        return cluster_dataset(planned.plans, planned.cluster_state.demand)
    name, _, rest = written.partition(":")
    if name in COMPUTED_DATASETS:
        return _computed(name, rest, options)
    from zoneward.lab.csv_dataset import CsvDataset

    if not Path(written).exists() and os.sep not in written and not written.endswith(".csv"):
        known = (*COMPUTED_DATASETS, CLUSTER)
        expected = f"expected one of {', '.join(known)}, or a CSV file, got {show(written)}"
        raise InputError("--dataset", expected + did_you_mean(written, known))
    return CsvDataset(Path(written), skip_invalid=options.skip_invalid, sample=options.sample_size, seed=options.seed)


def _computed(name: str, written: str, options: SimulationOptions) -> "ComputedDataset":
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
    return ComputedDataset(name, seed=options.seed, sample=options.sample_size, inputs=inputs, **ranges)


# --- who works --------------------------------------------------------------------------------------------------------


def _runner(options: SimulationOptions) -> "Runner":
    if options.scheduler is not None:
        from zoneward.lab.dask_runner import DaskRunner

        return DaskRunner(options.scheduler)
    from zoneward.lab.simulation import ThreadRunner

    return ThreadRunner(options.jobs or os.cpu_count() or 1)


def _compile(options: SimulationOptions, wanted: "SimulationSpec", interrupts: Interrupts) -> None:
    """Compile the algorithms. It takes long only the first time; a terminal then shows that it is at work."""
    from zoneward.lab.scoring import compile_kernels, machine_code_cache

    start = perf_counter()
    with ExitStack() as stack:
        directory = machine_code_cache()
        if _shows_progress(options) and not (directory and any(Path(directory).iterdir())):
            from rich.console import Console

            waiting = "compiling, once for this version: some 10 to 60 s"
            stack.enter_context(Console(stderr=True).status(waiting))
        for contender in wanted.contenders:
            compile_kernels([contender])
            # LLVM swallows an exception that is raised in a callback.
            interrupts.check()
    took = perf_counter() - start
    if took > _NOTE_AFTER:
        kept = (
            f"once for this version: kept in {directory}" if directory else "again each time: no cache can be written"
        )
        print_notes(options.shared, [Note(f"compiled in {took:.1f} s, {kept}")])


def _shows_progress(options: SimulationOptions) -> bool:
    return not options.shared.quiet and sys.stderr.isatty()


@contextmanager
def _progress(options: SimulationOptions, dataset: "Dataset") -> Iterator[Callable[[int], None]]:
    """A progress bar with rate and remaining time on a terminal; nothing elsewhere."""
    if not _shows_progress(options):
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    from zoneward.report.simulation_report import RateColumn

    columns = (BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(dataset.name, total=dataset.rows)
        yield lambda rows: progress.advance(task, rows)
