"""Scores chunks of a dataset on many machines: the workers of a running `dask.distributed` cluster.

The scheduler and this process know only a window of tasks, however large the dataset is. If a worker dies, another one
scores its tasks. A task is a few consecutive chunks. The sums of each chunk are sent back separately, so that they are
added in the order of the dataset, to the same bits as on one machine. Of rows only the columns are sent back: this
process knows the inputs.
"""

import asyncio
import pickle
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final

from zoneward import __version__
from zoneward.extras import how_to_install
from zoneward.kube.input_error import InputError, show
from zoneward.lab.datasets import ROWS_PER_CHUNK, Chunk
from zoneward.lab.scoring import Floats, compile_kernels, source_digest
from zoneward.lab.simulation import ScoredChunks, score_chunk
from zoneward.lab.tally import SimulationSpec, Tally, merge_tallies

OPTION: Final = "scheduler"
_TASKS_PER_THREAD: Final = 3
"""Tasks in the window for each thread of the workers: one runs, one is next, one is fetched."""
_MOST_WAITING: Final = 1 << 29
"""Bytes of all tasks in the window."""
_RESULTS_PER_FETCH: Final = 32
"""Results that are fetched at once; one where rows come with them."""
_MOST_LOSSES: Final = 5
"""Times that a task is sent again after the scheduler gave it up, which by default it does after four dead workers."""
_CHECK_INTERVAL: Final = 2.0
"""Seconds between two counts of the workers."""
_ADDRESS: Final = re.compile(r"tcp://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class DaskRunner:
    """A running cluster. Raises `InputError` for an address that can't be one, and where the extra is missing.

    `run` raises it where nothing answers, no worker comes or all leave, and where a worker has another version.

    ``answers_within`` are the seconds to wait for the scheduler, ``workers_within`` those for the first worker, and for
    another one after the last is gone.
    """

    address: str
    _: KW_ONLY
    rows_per_task: int = 8 * ROWS_PER_CHUNK
    answers_within: float = 10.0
    workers_within: float = 60.0

    def __post_init__(self) -> None:
        match = _ADDRESS.fullmatch(self.address)
        if not match or not 0 < int(match[1]) < 1 << 16:
            raise InputError(OPTION, f"expected tcp://HOST:PORT, got {show(self.address)}")
        if find_spec("distributed") is None:
            raise InputError(OPTION, f"expected dask.distributed to be installed: {how_to_install('cluster')}")

    def run(self, spec: SimulationSpec, chunks: Iterable[Chunk], *, rows: bool) -> Iterator[ScoredChunks]:
        """See `Runner`. However it ends, the tasks that are left are cancelled."""
        client = _connect(self.address, within=self.answers_within)
        try:
            window = TaskWindow(
                self, client, serialize(spec, by_value=[contender.rule for contender in spec.contenders]), rows
            )
            tasks = split_tasks(chunks, rows_per_task=self.rows_per_task, with_rows=rows)
            while window.fill(tasks):
                yield from window.next_results()
        finally:
            # The scheduler forgets the tasks of a client that is gone.
            client.close()


# --- a task, here and on a worker -------------------------------------------------------------------------------------

LEAST_ROWS: Final = 100_000
"""Inputs of the smallest task, except the last of a dataset: with fewer, sending takes too much time."""
_HEAVY_TASK: Final = 1 << 20
"""Bytes of a task from which on it takes no more chunks than `LEAST_ROWS` need: they wait in the scheduler's memory."""

Result = tuple[bytes, list[Floats]] | str
"""Serialized rows and tally, with the columns of each contender for each chunk; or which worker refuses, and why."""


@dataclass(slots=True)
class ScoringTask:
    """Serialized chunks. ``future`` has the result; ``losses`` counts how often its workers died."""

    packets: tuple[bytes, ...]
    future: Any = None
    losses: int = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.packets))


def split_tasks(chunks: Iterable[Chunk], *, rows_per_task: int, with_rows: bool) -> Iterator[ScoringTask]:
    """Consecutive chunks as tasks. Those that are heavy, or whose results are, hold as few as `LEAST_ROWS` allow."""
    packets: list[bytes] = []
    rows = 0
    for chunk in chunks:
        packets.append(serialize(chunk))
        rows += len(chunk.numbers)
        heavy = with_rows or sum(map(len, packets)) >= _HEAVY_TASK
        if rows >= (min(rows_per_task, LEAST_ROWS) if heavy else rows_per_task):
            yield ScoringTask(tuple(packets))
            packets = []
            rows = 0
    if packets:
        yield ScoringTask(tuple(packets))


def run_task(expected: str, packed_spec: bytes, packets: tuple[bytes, ...], *, with_rows: bool) -> Result:
    """Runs on a worker. Bytes of another version are not deserialized: they may mean something else there."""
    if expected != version():
        from distributed import get_worker

        return f"worker {get_worker().address}: expected {expected} as here, got {version()}"
    spec = _deserialize_spec(packed_spec)
    tallies: list[Tally] = []
    columns: list[Floats] = []
    processed = 0
    for packet in packets:
        scored = score_chunk(spec, deserialize(packet), rows=with_rows)
        processed += scored.processed
        tallies.append(scored.tally)
        columns.extend(column for _, row_columns in scored.rows for column in row_columns)
    return serialize((processed, merge_tallies(spec, tallies, fold=False))), columns


def result_chunks(task: ScoringTask, result: tuple[bytes, list[Floats]]) -> ScoredChunks:
    """The result of a task, with the inputs that are known where the task was made."""
    packed, columns = result
    processed, tally = deserialize(packed)
    if not columns:
        return ScoredChunks(processed, tally)
    per_chunk = len(columns) // len(task.packets)
    rows = tuple(
        (deserialize(chunk).inputs(), columns[index * per_chunk : (index + 1) * per_chunk])
        for index, chunk in enumerate(task.packets)
    )
    return ScoredChunks(processed, tally, rows)


@cache
def version() -> str:
    """What results depend on: our code, numpy and numba in a digest, and Python, whose code custom algorithms are."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return f"zoneward {__version__} ({source_digest()}, Python {python})"


_deserializing = Lock()


@lru_cache(maxsize=8)
def _deserialize_once(packed: bytes) -> SimulationSpec:
    spec: SimulationSpec = deserialize(packed)
    compile_kernels(spec.contenders)
    return spec


def _deserialize_spec(packed: bytes) -> SimulationSpec:
    """The same object for all tasks of a run: compiled code belongs to the very function that came in it."""
    with _deserializing:
        return _deserialize_once(packed)


# --- the tasks that wait for their results ----------------------------------------------------------------------------


@dataclass(slots=True)
class TaskWindow:
    """Tasks that wait for their results, in the order of the dataset, and how many threads work on them."""

    runner: DaskRunner
    client: Any
    packed_spec: bytes
    with_rows: bool
    waiting: deque[ScoringTask] = field(default_factory=deque)
    size: int = 0
    threads: int = 0
    checked: float = field(default_factory=lambda: monotonic() - _CHECK_INTERVAL)
    last_seen: float = field(default_factory=monotonic)

    def fill(self, tasks: Iterator[ScoringTask]) -> bool:
        """Send tasks as long as there is room for them; returns whether any waits."""
        self._count_threads()
        while not self.waiting or (len(self.waiting) < _TASKS_PER_THREAD * self.threads and self.size < _MOST_WAITING):
            task = next(tasks, None)
            if task is None:
                break
            self._send(task)
            self.waiting.append(task)
            self.size += task.size
        return bool(self.waiting)

    def next_results(self) -> Iterator[ScoredChunks]:
        """The results of the first tasks that wait; none, if the first is not done after a while."""
        first = self.waiting[0]
        try:
            error = first.future.exception(timeout=_CHECK_INTERVAL)
        except TimeoutError:
            return
        if first.future.cancelled():
            raise self._error("expected the scheduler to stay, the connection to it or its tasks were lost")
        if error is not None:
            self._retry(first, error)
            return
        for result in self._fetch():
            task = self.waiting.popleft()
            self.size -= task.size
            if isinstance(result, str):
                raise InputError(OPTION, result)
            yield result_chunks(task, result)

    def _send(self, task: ScoringTask) -> None:
        import dask

        # dask warns of large graphs, but these can't be smaller, and would show our source in its dashboard.
        settings = {"admin.large-graph-warning-threshold": "1 GiB", "diagnostics.computations.nframes": 0}
        with dask.config.set({f"distributed.{key}": value for key, value in settings.items()}):
            task.future = self.client.submit(
                run_task, version(), self.packed_spec, task.packets, with_rows=self.with_rows, pure=False
            )

    def _retry(self, task: ScoringTask, error: BaseException) -> None:
        """Send a task again that died with its worker. Every other error is raised."""
        from distributed import KilledWorker

        if isinstance(error, ImportError) or "deserialization" in str(error):
            raise self._error(f"expected {version()} on the scheduler and all workers, got {_first_line(error)}")
        if not isinstance(error, KilledWorker):
            raise error
        task.losses += 1
        if task.losses > _MOST_LOSSES:
            raise self._error(f"expected workers that survive their tasks, got {_first_line(error)}")
        self._send(task)

    def _fetch(self) -> list[Result]:
        """Results of the first tasks that are done; none, if one of them is lost meanwhile."""
        ready: list[Any] = []
        for task in self.waiting:
            if task.future.status != "finished" or len(ready) == (1 if self.with_rows else _RESULTS_PER_FETCH):
                break
            ready.append(task.future)
        timeout = _CHECK_INTERVAL
        while True:
            try:
                gather = partial(self.client.gather, ready, asynchronous=True)
                results: list[Result] = self.client.sync(gather, callback_timeout=timeout)
                return results
            except TimeoutError:
                # Slow, or lost with a worker: then another worker scores it again.
                timeout *= 2
                self._count_threads()
            except Exception:
                if all(future.status == "finished" for future in ready):
                    raise
                return []

    def _count_threads(self) -> None:
        """Every few seconds, and without a pause as long as there are none."""
        while not self.threads or monotonic() - self.checked > _CHECK_INTERVAL:
            try:
                self.threads = sum(self.client.nthreads().values())
            except OSError as error:
                raise self._error(f"expected the scheduler to stay, {_first_line(error)}") from None
            self.checked = monotonic()
            if self.threads:
                self.last_seen = self.checked
            elif self.checked - self.last_seen > self.runner.workers_within:
                raise self._error(f"expected workers, there was none for {self.runner.workers_within:g} s")
            else:
                sleep(0.1)

    def _error(self, message: str) -> InputError:
        return InputError(OPTION, self.runner.address, message)


# --- values on their way ----------------------------------------------------------------------------------------------

_PROJECT: Final = __name__.partition(".")[0]
_FASTEST: Final = 1


def serialize(value: object, *, by_value: Sequence[Callable[..., Any]] = ()) -> bytes:
    """A value as bytes that `deserialize` turns back into its equal.

    Functions of ``by_value`` are sent with their code, unless they are Zoneward's.
    """
    modules = {function.__module__ for function in by_value if function.__module__.partition(".")[0] != _PROJECT}
    pickled = _pickle_with_code(value, modules) if modules else pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return zlib.compress(pickled, _FASTEST)


def deserialize(packed: bytes) -> Any:
    """The value from the bytes of `serialize`. Runs code of their sender, as everything on such a cluster does."""
    return pickle.loads(zlib.decompress(packed))


def _pickle_with_code(value: object, modules: set[str]) -> bytes:
    """A value with what its functions call from their own files; the other machine imports what those files import."""
    import cloudpickle  # type: ignore[import-untyped]

    known = {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    registered = [sys.modules[name] for name in modules - known if name in sys.modules]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(value))
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


# --- the connection to the scheduler ----------------------------------------------------------------------------------


def _connect(address: str, *, within: float) -> Any:
    """A client of the scheduler there, which the caller closes. Raises `InputError` where there is no scheduler."""
    from distributed import Client

    # A client would wait forever for a server that says nothing.
    try:
        identity = asyncio.run(asyncio.wait_for(_identify(address), within))
    except TimeoutError:
        raise _no_scheduler(address, f"nobody answered within {within:g} s") from None
    except Exception as error:
        # Another server may listen there, which does not speak dask's protocol.
        raise _no_scheduler(address, f"got {_first_line(error)}") from error
    if identity.get("type") != "Scheduler":
        raise _no_scheduler(address, f"got a {str(identity.get('type')).lower()}")
    try:
        return Client(address, timeout=within, set_as_default=False, name="zoneward")  # type: ignore[no-untyped-call]
    except (OSError, ImportError) as error:
        raise _no_scheduler(address, f"got {_first_line(error)}") from error


def _no_scheduler(address: str, got: str) -> InputError:
    return InputError(OPTION, address, f"expected a dask scheduler, {got}")


async def _identify(address: str) -> dict[str, Any]:
    from distributed import rpc

    async with rpc(address) as server:  # type: ignore[no-untyped-call]
        identity: dict[str, Any] = await server.identity()
        return identity


def _first_line(error: BaseException) -> str:
    """What an error says, or its name where it says nothing."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
