"""Work for another machine: some chunks that follow each other, scored there, and what comes back of them.

The sums of each chunk come back apart, so that they are added in the order of the dataset, to the same bits as on one
machine. Of rows only the columns come back: the inputs are known where the task was made.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock
from typing import Any, Final

from zoneward import __version__
from zoneward.lab.datasets import ROWS_PER_CHUNK, Chunk, Held, Picked, Stretch
from zoneward.lab.scoring import Reals, prepare, source_digest
from zoneward.lab.serialization import deserialize, serialize
from zoneward.lab.simulation import Scored, score_chunk
from zoneward.lab.tally import SimulationSpec, Tally, merged

LEAST_ROWS: Final = 100_000
"""Inputs of the smallest task, but for a dataset's last: with fewer, too much time goes into sending."""
_HEAVY: Final = 1 << 20
"""Bytes of a task from which on it takes no more chunks than `LEAST_ROWS` need: they wait in the scheduler's memory."""

Result = tuple[bytes, list[Reals]] | str
"""A serialize of rows and tally with the columns of each contender for each chunk; or who refuses, and why."""


@dataclass(slots=True)
class Task:
    """Chunks in packets. ``future`` is what stands for the result; ``losses`` counts how often nobody survived it."""

    packets: tuple[bytes, ...]
    future: Any = None
    losses: int = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.packets))


def tasks_of(chunks: Iterable[Chunk], *, rows_per_task: int, with_rows: bool) -> Iterator[Task]:
    """Chunks put together; tasks that are heavy, or whose results are, hold as few as `LEAST_ROWS` allow."""
    packets: list[bytes] = []
    rows = 0
    for chunk in chunks:
        packets.append(serialize(chunk))
        rows += _rows(chunk)
        heavy = with_rows or sum(map(len, packets)) >= _HEAVY
        if rows >= (min(rows_per_task, LEAST_ROWS) if heavy else rows_per_task):
            yield Task(tuple(packets))
            packets = []
            rows = 0
    if packets:
        yield Task(tuple(packets))


def _rows(chunk: Chunk) -> int:
    match chunk:
        case Stretch():
            return chunk.stop - chunk.start
        case Picked():
            return len(chunk.numbers)
        case Held():
            return len(chunk.held.numbers)
        case _:
            return ROWS_PER_CHUNK


def score_task(expected: str, wanted: bytes, packets: tuple[bytes, ...], *, with_rows: bool) -> Result:
    """Runs on a worker. Parcels of another version are not deserialize: they may mean something else there."""
    if expected != version():
        from distributed import get_worker

        return f"worker {get_worker().address}: expected {expected} as here, got {version()}"
    asked = _opened(wanted)
    tallies: list[Tally] = []
    columns: list[Reals] = []
    processed = 0
    for each in packets:
        scored = score_chunk(asked, deserialize(each), rows=with_rows)
        processed += scored.processed
        tallies.append(scored.tally)
        columns.extend(column for _, found in scored.rows for column in found)
    return serialize((processed, merged(asked, tallies, fold=False))), columns


def scored_of(task: Task, result: tuple[bytes, list[Reals]]) -> Scored:
    """What a task's result says, where the task was made."""
    packed, columns = result
    processed, tally = deserialize(packed)
    if not columns:
        return Scored(processed, tally)
    each = len(columns) // len(task.packets)
    rows = tuple(
        (deserialize(chunk).inputs(), columns[number * each : (number + 1) * each])
        for number, chunk in enumerate(task.packets)
    )
    return Scored(processed, tally, rows)


@cache
def version() -> str:
    """What results depend on: our code, numpy and numba in a digest; Python, whose code rules of one's own are."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return f"zoneward {__version__} ({source_digest()}, Python {python})"


_opening = Lock()


@lru_cache(maxsize=8)
def _opened_once(wanted: bytes) -> SimulationSpec:
    asked: SimulationSpec = deserialize(wanted)
    prepare(asked.contenders)
    return asked


def _opened(wanted: bytes) -> SimulationSpec:
    """The same one for all tasks of a run: what is compiled hangs on the very function that came in it."""
    with _opening:
        return _opened_once(wanted)
