"""What a simulation was asked for, and what can't be asked for together."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import click

from zoneward.cli.options import Options
from zoneward.kube.input_error import InputError, show
from zoneward.lab import COMPUTED_DATASETS
from zoneward.routing.simulation_results import ENCODINGS

CLUSTER: Final = "cluster"
_DEFAULT: Final = "kep"
_NEEDED: Final = {"html": ("matplotlib",), "parquet": ("polars",), "like": ("polars",)}
_ROOM: Final = {
    "by": ("table", "csv", "json", "html"),
    "bounds": ("table", "csv", "json", "html"),
    "quantiles": ("table", "json", "html"),
    "worst": ("table", "json", "html"),
    "differences": ("table", "json", "html"),
}
"""Outputs that have room for what an option asks for."""


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

    @property
    def from_cluster(self) -> bool:
        """Whether there is a snapshot to read."""
        return bool(self.options.files) or self.options.sample

    @property
    def inputs(self) -> str:
        """The dataset as it was written, or the one that is meant where none was."""
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


def check_usage(request: Request) -> None:
    """An option that would change nothing is a mistake: who waits for a minute wants what was asked for."""
    for option, outputs in _ROOM.items():
        if getattr(request, option) not in (None, "", 0, False) and request.output not in outputs:
            wanted = f"{', '.join(outputs[:-1])} or {outputs[-1]}"
            got = "--like" if request.output == "like" else request.output
            raise click.UsageError(f"--{option}: expected -o {wanted} with it, got {got}")
    if request.output == "like" and request.encodings != ENCODINGS[:1]:
        raise click.UsageError(f"--like: expected --encoding {ENCODINGS[0]} with it, got {_encoding(request)}")
    if request.output == "parquet" and request.encodings == ENCODINGS[1:]:
        raise click.UsageError(f"-o parquet: expected --encoding {ENCODINGS[0]} or both with it, got {ENCODINGS[1]}")
    if request.jobs is not None and request.scheduler is not None:
        raise click.UsageError("--jobs and --scheduler: expected one of them, got both")
    if request.from_cluster and request.inputs != CLUSTER:
        raise click.UsageError(f"-f and --sample: expected --dataset cluster with them, got {request.inputs}")
    if request.options.config is not None and request.inputs != CLUSTER:
        raise click.UsageError(f"--config: expected --dataset cluster with it, got {request.inputs}")
    if request.sample_size is not None and request.inputs == CLUSTER:
        raise click.UsageError("--sample-size: expected another dataset than cluster with it")


def check_extra(request: Request) -> None:
    """Raises `InputError` where something that the simulation needs is not installed."""
    needed = ["numpy", "numba", *_NEEDED.get(request.output, ())]
    if request.inputs.partition(":")[0] not in (*COMPUTED_DATASETS, CLUSTER):
        needed.append("polars")
    for module in needed:
        if find_spec(module) is None:
            missing = f"expected the extra lab to be installed, {module} is missing"
            raise InputError("simulate", f"{missing}: pip install 'zoneward[lab]'")


def _encoding(request: Request) -> str:
    return "both" if len(request.encodings) > 1 else request.encodings[0]
