"""Chunks of a dataset through the contenders on many machines: the workers of a running `dask.distributed` cluster.

The scheduler and this process only ever know a window of tasks, however large the dataset is. What dies with a worker
is scored again by another.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from importlib.util import find_spec
from time import monotonic, sleep
from typing import Any, Final

from zoneward.kube.input_error import InputError, show
from zoneward.lab.datasets import ROWS_PER_CHUNK, Chunk
from zoneward.lab.schedulers import OPTION, connected, first_line
from zoneward.lab.serialization import serialize
from zoneward.lab.simulation import Scored
from zoneward.lab.tally import SimulationSpec
from zoneward.lab.tasks import Result, Task, score_task, scored_of, tasks_of, version

_TASKS_PER_THREAD: Final = 3
"""Tasks in the window for each thread of the workers: one that runs, one that is next, one that is fetched."""
_MOST_WAITING: Final = 1 << 29
"""Bytes of all tasks in the window."""
_TOGETHER: Final = 32
"""Results that are fetched at once; one where rows come with them."""
_LOSSES: Final = 5
"""Times that a task is sent again after the scheduler gave it up, which by default it does after four dead workers."""
_LOOK: Final = 2.0
"""Seconds between looks at who is there."""
_ADDRESS: Final = re.compile(r"tcp://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class DaskRunner:
    """A running cluster. Raises `InputError` for an address that can't be one, and where the extra is missing;
    `run` raises it where nobody answers, no worker comes or all go, and where one of them has another version.

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
            raise InputError(OPTION, "expected dask.distributed to be installed: pip install 'zoneward[cluster]'")

    def run(self, wanted: SimulationSpec, chunks: Iterable[Chunk], *, rows: bool) -> Iterator[Scored]:
        """See `Runner`. However it ends, the tasks that are left are cancelled."""
        client = connected(self.address, within=self.answers_within)
        try:
            window = _Window(self, client, serialize(wanted, by_value=[each.rule for each in wanted.contenders]), rows)
            left = tasks_of(chunks, rows_per_task=self.rows_per_task, with_rows=rows)
            while window.fill(left):
                yield from window.finished()
        finally:
            # The scheduler forgets the tasks of a client that is gone.
            client.close()


@dataclass(slots=True)
class _Window:
    """Tasks that wait for their results, in the order of the dataset, and how many threads work on them."""

    asked: DaskRunner
    client: Any
    wanted: bytes
    with_rows: bool
    waiting: deque[Task] = field(default_factory=deque)
    size: int = 0
    threads: int = 0
    looked: float = field(default_factory=lambda: monotonic() - _LOOK)
    inhabited: float = field(default_factory=monotonic)

    def fill(self, left: Iterator[Task]) -> bool:
        """Send tasks as long as there is room for them; says whether any waits."""
        self._look()
        while not self.waiting or (len(self.waiting) < _TASKS_PER_THREAD * self.threads and self.size < _MOST_WAITING):
            task = next(left, None)
            if task is None:
                break
            self._send(task)
            self.waiting.append(task)
            self.size += task.size
        return bool(self.waiting)

    def finished(self) -> Iterator[Scored]:
        """What came of the first of those that wait; nothing, if it isn't known after a while."""
        first = self.waiting[0]
        try:
            error = first.future.exception(timeout=_LOOK)
        except TimeoutError:
            return
        if first.future.cancelled():
            raise self._error("expected the scheduler to stay, the connection to it or its tasks were lost")
        if error is not None:
            self._send_again(first, error)
            return
        for result in self._fetched():
            task = self.waiting.popleft()
            self.size -= task.size
            if isinstance(result, str):
                raise InputError(OPTION, result)
            yield scored_of(task, result)

    def _send(self, task: Task) -> None:
        import dask

        # The warning of large graphs is for those who could send less. Nobody looks at our source in a dashboard.
        settings = {"admin.large-graph-warning-threshold": "1 GiB", "diagnostics.computations.nframes": 0}
        with dask.config.set({f"distributed.{key}": value for key, value in settings.items()}):
            task.future = self.client.submit(
                score_task, version(), self.wanted, task.packets, with_rows=self.with_rows, pure=False
            )

    def _send_again(self, task: Task, error: BaseException) -> None:
        """Once more, if workers died of something else; otherwise raises what is wrong."""
        from distributed import KilledWorker

        if isinstance(error, ImportError) or "deserialization" in str(error):
            raise self._error(f"expected {version()} on the scheduler and all workers, got {first_line(error)}")
        if not isinstance(error, KilledWorker):
            raise error
        task.losses += 1
        if task.losses > _LOSSES:
            raise self._error(f"expected workers that survive their tasks, got {first_line(error)}")
        self._send(task)

    def _fetched(self) -> list[Result]:
        """Results of the first tasks that are done; none, if one of them is lost meanwhile."""
        ready: list[Any] = []
        for task in self.waiting:
            if task.future.status != "finished" or len(ready) == (1 if self.with_rows else _TOGETHER):
                break
            ready.append(task.future)
        patience = _LOOK
        while True:
            try:
                gather = partial(self.client.gather, ready, asynchronous=True)
                results: list[Result] = self.client.sync(gather, callback_timeout=patience)
                return results
            except TimeoutError:
                # Slow, or lost with a worker and scored again, if there is another.
                patience *= 2
                self._look()
            except Exception:
                if all(future.status == "finished" for future in ready):
                    raise
                return []

    def _look(self) -> None:
        """How many threads there are now, every few seconds, and at once as long as there are none."""
        while not self.threads or monotonic() - self.looked > _LOOK:
            try:
                self.threads = sum(self.client.nthreads().values())
            except OSError as error:
                raise self._error(f"expected the scheduler to stay, {first_line(error)}") from None
            self.looked = monotonic()
            if self.threads:
                self.inhabited = self.looked
            elif self.looked - self.inhabited > self.asked.workers_within:
                raise self._error(f"expected workers, there was none for {self.asked.workers_within:g} s")
            else:
                sleep(0.1)

    def _error(self, message: str) -> InputError:
        return InputError(OPTION, self.asked.address, message)
