"""Simulations on a dask cluster: a real scheduler and real workers, on loopback."""

import json
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from e2e.processes import Process, wait_until
from tests.patience import PATIENCE

import zoneward
from zoneward.kube.input_error import InputError
from zoneward.lab.contenders import CustomAlgorithm, parse_contenders
from zoneward.lab.dask_runner import DaskRunner
from zoneward.lab.datasets import ROWS_PER_CHUNK, ComputedDataset, Inputs, Range
from zoneward.lab.scoring import Floats
from zoneward.lab.simulation import ThreadRunner, simulate
from zoneward.lab.tally import SimulationSpec

CHUNKS = 16
PLAIN = SimulationSpec(contenders=parse_contenders(["random", "cluster-wide"]))
EVERYTHING = SimulationSpec(
    contenders=parse_contenders(["random", "cluster-wide:maxEndpointsPerSlice=7"]),
    encodings=("slice-groups", "hints"),
    by="endpoints",
    quantiles=True,
    plots=True,
    worst=5,
)
SAMPLE = ComputedDataset("kep", sample=CHUNKS * ROWS_PER_CHUNK)
UNIFORM = ComputedDataset("uniform", zones=Range(2, 4), inputs=500_000)


@dataclass
class Cluster:
    """A scheduler and workers as separate processes; leave the block to end them."""

    directory: Path
    workers: list[Process] = field(default_factory=list)

    def __enter__(self) -> Self:
        path = self.directory / "scheduler.json"
        # It gives a task up at the first worker that dies of it, as a cautious scheduler is configured.
        environment = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
        arguments = ("--host=127.0.0.1", "--port=0", "--scheduler-file", str(path))
        self.scheduler = self._start("scheduler", *arguments, **environment)
        wait_until(lambda: path.exists() and path.read_text().endswith("}"), "a scheduler", self.scheduler)
        self.address = str(json.loads(path.read_text())["address"])
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()

    def worker(self, **environment: str) -> Process:
        # Without a nanny, which would start it again.
        arguments = (self.address, "--nthreads=1", "--no-nanny", "--death-timeout=300")
        self.workers.append(self._start("worker", *arguments, **environment))
        return self.workers[-1]

    def _start(self, kind: str, *arguments: str, **environment: str) -> Process:
        settings = {"DASK_TEMPORARY_DIRECTORY": str(self.directory), **environment}
        command = ["env", *(f"{name}={value}" for name, value in settings.items()), sys.executable]
        command += ["-m", f"distributed.cli.dask_{kind}", *arguments, "--no-dashboard"]
        return Process(command, log=self.directory / f"{kind}-{len(self.workers)}.log")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """The scheduler, and two workers of this test's own where the last one's are gone."""
    for _ in range(2 - sum(worker.runs for worker in shared.workers)):
        shared.worker()
    return shared


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler without workers."""
    with Cluster(tmp_path) as cluster:
        yield cluster


def dask(cluster: Cluster, *, chunks_per_task: int = 1, workers_within: float = PATIENCE) -> DaskRunner:
    rows = chunks_per_task * ROWS_PER_CHUNK
    return DaskRunner(cluster.address, rows_per_task=rows, answers_within=PATIENCE, workers_within=workers_within)


def refusal(runner: DaskRunner, advanced: Callable[[int], None] = lambda _rows: None) -> str:
    with pytest.raises(InputError) as caught:
        simulate(PLAIN, SAMPLE, runner=runner, advanced=advanced)
    return str(caught.value)


def test_cluster_gives_the_same_result_as_one_machine(cluster: Cluster) -> None:
    def found(runner: DaskRunner | ThreadRunner) -> tuple[object, list[tuple[Inputs, list[Floats]]]]:
        rows: list[tuple[Inputs, list[Floats]]] = []
        return simulate(
            EVERYTHING, UNIFORM, runner=runner, shares=(0.5, 0.99), bounds=True, sink=lambda *row: rows.append(row)
        ), rows

    runner = dask(cluster, chunks_per_task=2)
    (by_dask, rows), (by_threads, expected) = found(runner), found(ThreadRunner(2))
    assert by_dask == by_threads
    assert len(rows) == len(expected) > 1
    for (inputs, columns), (same, wanted) in zip(rows, expected, strict=True):
        for one, other in [
            (inputs.numbers, same.numbers),
            (inputs.demand, same.demand),
            (inputs.supply, same.supply),
            *zip(columns, wanted, strict=True),
        ]:
            assert np.array_equal(one, other)


def test_custom_rule_is_sent_with_the_functions_that_it_calls(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own_to_travel.py"
    path.write_text(
        "def first(zones):\n    return 0 * zones\n\n\n"
        "def rule(demand, supply, parameters, previous, composition, weights, scratch, reals):\n"
        "    zones = len(demand)\n"
        "    for zone in range(zones):\n"
        "        composition[first(zones) + zone] = supply[zone]\n"
        "        weights[zone] = 1.0\n"
        "    return 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module(path.stem)
    try:
        for plain, rows in ((False, 200_000), (True, 2_000)):
            own = CustomAlgorithm(name="own", rule=module.rule, interpreted=plain)
            wanted = SimulationSpec(contenders=parse_contenders(["own", "cluster-wide"], own=own))
            dataset = ComputedDataset("kep", sample=rows)
            assert simulate(wanted, dataset, runner=dask(cluster)) == simulate(wanted, dataset, runner=ThreadRunner(1))
    finally:
        del sys.modules[path.stem]


def test_killed_worker_loses_no_result(cluster: Cluster) -> None:
    victim = next(worker for worker in cluster.workers if worker.runs)
    done: list[int] = []

    def advanced(rows: int) -> None:
        done.append(rows)
        if len(done) == CHUNKS // 4:
            victim.kill()

    by_dask = simulate(EVERYTHING, SAMPLE, runner=dask(cluster), advanced=advanced)
    assert not victim.runs
    assert sum(done) == SAMPLE.rows
    assert by_dask == simulate(EVERYTHING, SAMPLE, runner=ThreadRunner(2))


def test_error_when_all_workers_die(empty: Cluster) -> None:
    from distributed import Client

    only = empty.worker()
    with Client(empty.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        client.wait_for_workers(1, timeout=PATIENCE)

    said = refusal(dask(empty, workers_within=0.5), advanced=lambda _rows: only.kill())
    assert said == f"scheduler: {empty.address}: expected workers, there was none for 0.5 s"


def test_error_names_a_worker_of_another_version(empty: Cluster) -> None:
    package = Path(zoneward.__file__).parent
    other = empty.directory / "other"
    shutil.copytree(package, other / "zoneward", ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "zoneward" / "lab" / "tally.py").open("a") as file:
        file.write("# changed\n")
    empty.worker(PYTHONPATH=str(other))
    said = refusal(dask(empty))
    assert said.startswith("scheduler: worker tcp://127.0.0.1:")
    assert ": expected zoneward " in said
    assert " as here, got zoneward " in said


def test_error_when_the_scheduler_dies(empty: Cluster) -> None:
    empty.worker()
    said = refusal(dask(empty), advanced=lambda _rows: empty.scheduler.kill())
    assert said.startswith(f"scheduler: {empty.address}: expected the scheduler to stay, ")


@pytest.mark.parametrize("listens", [False, True], ids=["nobody there", "nobody answers"])
def test_error_when_the_scheduler_does_not_answer(*, listens: bool) -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        if listens:
            door.listen()
        address = f"tcp://127.0.0.1:{door.getsockname()[1]}"
        said = refusal(DaskRunner(address, answers_within=0.5))
    assert said.startswith(f"scheduler: {address}: expected a dask scheduler, ")
