"""What ``zoneward simulate`` scores: the file of ``--run`` and the options together, and the dataset that they name."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import click
import msgspec
from msgspec import Meta, Struct

from zoneward.cli.options import Options
from zoneward.kube.input_error import InputError, did_you_mean, show
from zoneward.kube.schema import field_mismatch
from zoneward.routing.simulation_results import ENCODINGS, HINTS, SLICE_GROUPS

if TYPE_CHECKING:
    from zoneward.lab.datasets import ComputedDataset, Dataset

CLUSTER: Final = "cluster"
PARQUET: Final = "parquet"
TOPOLOGY_SIMULATOR: Final = "topology-simulator"
"""The output in the columns of the proposal's tool."""
_DEFAULT: Final = "kep"
_OF_THE_PROPOSAL: Final = "random,local,local-kep-tool,local-shared,local-weighted,local-opt"
_ENCODING_SETS: Final = {"both": (SLICE_GROUPS, HINTS), "all": ENCODINGS}
"""Several encodings by one word."""
_HIDDEN_BY: Final = {
    "csv": ("quantiles", "worst", "differences"),
    PARQUET: ("by", "bounds", "quantiles", "worst", "differences"),
    TOPOLOGY_SIMULATOR: ("by", "bounds", "quantiles", "worst", "differences"),
}
"""The fields that an output can't show."""
_Percentage = Annotated[float, Meta(gt=0, lt=100, description="a percentage above 0 and below 100")]


class SimulationRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A run: the fields of the file of ``--run``, which options replace. docs/commands.md describes each."""

    dataset: str = ""
    algorithms: tuple[str, ...] = ()
    algorithm_file: str = ""
    encodings: tuple[str, ...] = ()
    by: Annotated[Literal["endpoints", "zones", ""], Meta(description="endpoints or zones")] = ""
    bounds: bool = False
    sample_size: Annotated[int, Meta(ge=1)] | None = None
    sweep: dict[str, Annotated[tuple[float | str, ...], Meta(description="a list of values")]] = {}
    quantiles: Annotated[tuple[_Percentage, ...], Meta(description="a list of percentages")] = ()
    worst: Annotated[int, Meta(ge=0, le=10_000)] = 0
    differences: bool = False
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 2004
    skip_invalid: bool = False
    jobs: Annotated[int, Meta(ge=1, le=1024)] | None = None
    scheduler: str | None = None
    config: str | None = None

    @property
    def shares(self) -> tuple[float, ...]:
        """The quantiles, lowest first."""
        return tuple(sorted({percent / 100 for percent in self.quantiles}))

    @property
    def contenders(self) -> tuple[str, ...]:
        """The algorithms as they were written; those of the proposal if none was, not even a file with one."""
        return self.algorithms if self.algorithms or self.algorithm_file else (_OF_THE_PROPOSAL,)


def read_run(file: str | None, shared: Options, options: dict[str, Any]) -> SimulationRun:
    """The run of a file, with the options in place of its fields. Raises `InputError`."""
    run = SimulationRun() if file is None else _read_file(file)
    given = {name: value for name, value in options.items() if value}
    run = msgspec.structs.replace(run, **given)
    from_cluster = bool(shared.files) or shared.sample
    return msgspec.structs.replace(
        run,
        dataset=run.dataset or (CLUSTER if from_cluster else _DEFAULT),
        encodings=_encodings(run.encodings or (SLICE_GROUPS,)),
    )


def _read_file(file: str) -> SimulationRun:
    from zoneward.kube.yaml_documents import read_document

    # An empty file is a run with all defaults.
    document = read_document(file, what="run", most=1) or {}
    try:
        return msgspec.convert(document, SimulationRun)
    except msgspec.ValidationError as error:
        raise InputError(file, str(field_mismatch(error, SimulationRun, document))) from None


def _encodings(written: tuple[str, ...]) -> tuple[str, ...]:
    encodings: list[str] = []
    for name in ",".join(written).split(","):
        for encoding in _ENCODING_SETS.get(name, (name,)):
            if encoding not in ENCODINGS:
                known = (*ENCODINGS, *_ENCODING_SETS)
                expected = f"expected one of {', '.join(known)}, got {show(name)}"
                raise InputError("--encoding", expected + did_you_mean(name, known))
            if encoding in encodings:
                raise InputError("--encoding", f"expected {encoding} once, got it twice")
            encodings.append(encoding)
    return tuple(encodings)


def check_usage(run: SimulationRun, shared: Options, output: str, to: str | None) -> None:
    """Refuse options that would have no effect: a user who waits for a minute wants every option to count.

    Raises a usage error.
    """
    if output == PARQUET and to is None:
        raise click.UsageError("-o parquet: expected --to DIRECTORY")
    for field in _HIDDEN_BY.get(output, ()):
        if getattr(run, field):
            name = f"--{field}" if field in ("by", "bounds") else field
            raise click.UsageError(f"{name}: expected an output that shows it, such as table, got -o {output}")
    if output in (PARQUET, TOPOLOGY_SIMULATOR) and SLICE_GROUPS not in run.encodings:
        raise click.UsageError(f"-o {output}: expected --encoding {SLICE_GROUPS}, got {','.join(run.encodings)}")
    if run.jobs is not None and run.scheduler is not None:
        raise click.UsageError("jobs and scheduler: expected one of them, got both")
    if run.dataset != CLUSTER:
        if shared.files or shared.sample:
            raise click.UsageError(f"-f and --sample: expected --dataset cluster with them, got {run.dataset}")
        if run.config is not None:
            raise click.UsageError(f"config: expected --dataset cluster with it, got {run.dataset}")
    elif run.sample_size is not None:
        raise click.UsageError("--sample-size: expected another dataset than cluster with it")


# --- the dataset ------------------------------------------------------------------------------------------------------


def open_dataset(run: SimulationRun, shared: Options) -> "Dataset":
    """The dataset of a run. Raises `InputError`."""
    from zoneward.lab import COMPUTED_DATASETS

    written = run.dataset
    if written == CLUSTER:
        from zoneward.cli.planned_services import select_services
        from zoneward.lab.datasets import cluster_dataset

        selected = select_services(shared)
        return cluster_dataset(selected.plans, selected.cluster_state.demand)
    name, _, rest = written.partition(":")
    if name in COMPUTED_DATASETS:
        return _computed_dataset(name, rest, run)
    from zoneward.lab.csv_dataset import CsvDataset

    if not Path(written).exists() and os.sep not in written and not written.endswith(".csv"):
        known = (*COMPUTED_DATASETS, CLUSTER)
        expected = f"expected one of {', '.join(known)}, or a CSV file, got {show(written)}"
        raise InputError("--dataset", expected + did_you_mean(written, known))
    return CsvDataset(Path(written), skip_invalid=run.skip_invalid, sample=run.sample_size, seed=run.seed)


def _computed_dataset(name: str, written: str, run: SimulationRun) -> "ComputedDataset":
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
    return ComputedDataset(name, seed=run.seed, sample=run.sample_size, inputs=inputs, **ranges)
