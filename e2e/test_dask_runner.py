"""Simulations on a dask cluster: a real scheduler and real workers, on loopback."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

import zoneward
from zoneward.kube.input_error import InputError
from zoneward.lab import dask_runner as on_dask
from zoneward.lab.contenders import CustomAlgorithm, parse_contenders
from zoneward.lab.dask_runner import DaskRunner
from zoneward.lab.datasets import ROWS_PER_CHUNK, Chunk, ComputedDataset, Dataset, InMemoryChunk, Inputs, Range
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


# --- processes --------------------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """A scheduler and workers as processes of their own, each in a session of its own."""

    directory: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def scheduler(self) -> str:
        path = self.directory / "scheduler.json"
        settings = {
            # Gives a task up at the first worker that dies of it, as cautious schedulers are told to.
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
            # Where pytest itself is killed.
            "DASK_DISTRIBUTED__SCHEDULER__IDLE_TIMEOUT": "2 minutes",
        }
        self._start("scheduler", "--host=127.0.0.1", "--port=0", "--scheduler-file", str(path), **settings)
        wait_for(lambda: path.exists() and path.read_text().endswith("}"))
        self.address = str(json.loads(path.read_text())["address"])
        return self.address

    def worker(self, **settings: str) -> subprocess.Popen[bytes]:
        # Without a nanny, which would start it again.
        return self._start("worker", self.address, "--nthreads=1", "--no-nanny", "--death-timeout=60", **settings)

    def _start(self, kind: str, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
        log = (self.directory / f"{kind}-{len(self.processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments, "--no-dashboard"],
                cwd=self.directory,
                env={**os.environ, "DASK_TEMPORARY_DIRECTORY": str(self.directory), **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes:
            process.wait(10)


def wait_for(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, "nothing happened in time"
        sleep(0.02)


@pytest.fixture(scope="module")
def module_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        found.scheduler()
        yield found
    finally:
        found.stop()


@pytest.fixture
def cluster(module_cluster: Cluster) -> Cluster:
    """The scheduler, and two workers of this test's own where the last one's are gone."""
    workers = module_cluster.processes[1:]
    alive = [each for each in workers if each.poll() is None]
    for _ in range(2 - len(alive)):
        module_cluster.worker()
    return module_cluster


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler without workers."""
    found = Cluster(tmp_path)
    try:
        found.scheduler()
        yield found
    finally:
        found.stop()


def dask(cluster: Cluster) -> DaskRunner:
    return DaskRunner(cluster.address, rows_per_task=ROWS_PER_CHUNK, workers_within=20)


def refusal(runner: DaskRunner, dataset: Dataset = SAMPLE) -> str:
    with pytest.raises(InputError) as caught:
        simulate(PLAIN, dataset, runner=runner)
    return str(caught.value)


# --- the same result --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunks:
    """Inputs that are held, as those of a CSV file are."""

    inputs: tuple[Inputs, ...]
    name: str = "held"

    @property
    def rows(self) -> int:
        return sum(len(each.numbers) for each in self.inputs)

    @property
    def whole(self) -> int:
        return self.rows

    def chunks(self) -> Iterator[Chunk]:
        return map(InMemoryChunk, self.inputs)


def held() -> Chunks:
    chunks = []
    for each in ComputedDataset("kep", sample=150_000).chunks():
        inputs = each.inputs()
        names = [f"service {number}" for number in inputs.numbers.tolist()]
        chunks.append(Inputs(inputs.numbers, inputs.demand, inputs.supply, names))
    return Chunks(tuple(chunks))


@pytest.mark.parametrize("dataset", [UNIFORM, held()], ids=["computed", "held"])
def test_a_cluster_gives_exactly_what_one_machine_gives(cluster: Cluster, dataset: Dataset) -> None:
    runner = DaskRunner(cluster.address, rows_per_task=2 * ROWS_PER_CHUNK)
    shares = (0.5, 0.99)
    there = simulate(EVERYTHING, dataset, runner=runner, shares=shares, bounds=True)
    assert there == simulate(EVERYTHING, dataset, runner=ThreadRunner(2), shares=shares, bounds=True)


def test_rows_come_back_in_their_order_with_their_columns(cluster: Cluster) -> None:
    dataset = held()

    def rows(runner: DaskRunner | ThreadRunner) -> list[tuple[Inputs, list[Floats]]]:
        found: list[tuple[Inputs, list[Floats]]] = []
        simulate(PLAIN, dataset, runner=runner, sink=lambda inputs, columns: found.append((inputs, columns)))
        return found

    there, here = rows(dask(cluster)), rows(ThreadRunner(1))
    assert len(there) == len(here) == len(dataset.inputs)
    for (inputs, columns), (same, expected) in zip(there, here, strict=True):
        assert list(inputs.names) == list(same.names)
        for one, other in [
            (inputs.numbers, same.numbers),
            (inputs.demand, same.demand),
            (inputs.supply, same.supply),
            *zip(columns, expected, strict=True),
        ]:
            assert np.array_equal(one, other)


def test_a_rule_from_a_file_travels_with_what_it_calls_there(cluster: Cluster, tmp_path: Path) -> None:
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
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        for plain, rows in ((False, 200_000), (True, 2_000)):
            own = CustomAlgorithm(name="own", rule=module.rule, key="", interpreted=plain)
            wanted = SimulationSpec(contenders=parse_contenders(["own", "cluster-wide"], own=own))
            dataset = ComputedDataset("kep", sample=rows)
            assert simulate(wanted, dataset, runner=dask(cluster)) == simulate(wanted, dataset, runner=ThreadRunner(1))
    finally:
        del sys.modules[path.stem]


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_in_the_middle_loses_nothing(cluster: Cluster) -> None:
    victim = next(each for each in cluster.processes[1:] if each.poll() is None)
    done: list[int] = []

    def advanced(rows: int) -> None:
        done.append(rows)
        if len(done) == CHUNKS // 4:
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait(10)

    there = simulate(EVERYTHING, SAMPLE, runner=dask(cluster), advanced=advanced)
    assert victim.poll() is not None
    assert sum(done) == SAMPLE.rows
    assert there == simulate(EVERYTHING, SAMPLE, runner=ThreadRunner(2))


def test_ctrl_c_gives_what_is_known_and_leaves_nothing_to_do(cluster: Cluster) -> None:
    from distributed import Client

    def advanced(_rows: int) -> None:
        raise KeyboardInterrupt

    there = simulate(PLAIN, SAMPLE, runner=dask(cluster), advanced=advanced)
    assert there.partial
    assert there.rows == ROWS_PER_CHUNK
    with Client(cluster.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        wait_for(lambda: not any(client.processing().values()))


def test_workers_that_all_die_end_it_with_a_line(empty: Cluster) -> None:
    from distributed import Client

    only = empty.worker()
    with Client(empty.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        client.wait_for_workers(1, timeout=30)

    def advanced(_rows: int) -> None:
        if only.poll() is None:
            os.killpg(only.pid, signal.SIGKILL)
            only.wait(10)

    runner = DaskRunner(empty.address, rows_per_task=ROWS_PER_CHUNK, workers_within=0.5)
    with pytest.raises(InputError) as caught:
        simulate(PLAIN, SAMPLE, runner=runner, advanced=advanced)
    assert str(caught.value) == f"--scheduler: {empty.address}: expected workers, there was none for 0.5 s"


def test_a_worker_of_another_version_is_named(empty: Cluster) -> None:
    package = Path(zoneward.__file__).parent
    other = empty.directory / "other"
    shutil.copytree(package, other / "zoneward", ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "zoneward" / "lab" / "tally.py").open("a") as file:
        file.write("# changed\n")
    empty.worker(PYTHONPATH=str(other))
    said = refusal(dask(empty))
    assert said.startswith("--scheduler: worker tcp://127.0.0.1:")
    assert ": expected zoneward " in said
    assert " as here, got zoneward " in said


def test_workers_that_never_come_are_not_waited_for_forever(module_cluster: Cluster, empty: Cluster) -> None:
    assert module_cluster.address != empty.address
    runner = DaskRunner(empty.address, workers_within=0.3)
    assert refusal(runner) == f"--scheduler: {empty.address}: expected workers, there was none for 0.3 s"


def test_a_scheduler_that_goes_away_ends_it_with_a_line(empty: Cluster) -> None:
    empty.worker()
    scheduler = empty.processes[0]

    def advanced(_rows: int) -> None:
        if scheduler.poll() is None:
            os.killpg(scheduler.pid, signal.SIGKILL)
            scheduler.wait(10)

    with pytest.raises(InputError, match=r"^--scheduler: tcp://127\.0\.0\.1:[0-9]+: expected the scheduler to stay, "):
        simulate(PLAIN, SAMPLE, runner=dask(empty), advanced=advanced)


@pytest.mark.parametrize("listens", [False, True], ids=["nobody there", "nobody answers"])
def test_a_scheduler_that_does_not_answer_is_said_in_a_line(*, listens: bool) -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        if listens:
            door.listen()
        address = f"tcp://127.0.0.1:{door.getsockname()[1]}"
        start = monotonic()
        said = refusal(DaskRunner(address, answers_within=0.5))
        assert monotonic() - start < 5
    assert said.startswith(f"--scheduler: {address}: expected a dask scheduler, ")


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:8786", "tcp://host", "tcp://:8786", "tcp://host:0", "tcp://host:65536", "http://host:8786",
     "tcp://host:8786/x", "tcp://a b:8786", "tcp://host:\uff18", "tcp://[::1:8786", "tls://host:8786"],
)  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=r"^--scheduler: expected tcp://HOST:PORT, got '"):
        DaskRunner(address)


@pytest.mark.parametrize("address", ["tcp://10.0.0.7:8786", "tcp://dask-scheduler.lab.svc:8786", "tcp://[::1]:1"])
def test_names_and_numbers_are_addresses(address: str) -> None:
    assert DaskRunner(address).address == address


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_dask, "find_spec", lambda _name: None)
    with pytest.raises(InputError, match=r"pip install 'zoneward\[cluster\]'"):
        DaskRunner("tcp://host:8786")
