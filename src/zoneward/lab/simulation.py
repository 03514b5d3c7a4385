"""Runs a simulation: scores the chunks of a dataset on all cores of this machine, and adds them up in their order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from zoneward.lab.datasets import Chunk, Dataset, Inputs
from zoneward.lab.scoring import Floats, compile_kernels
from zoneward.lab.summary import summarize
from zoneward.lab.tally import SimulationSpec, Tally, merge_tallies, tally_chunk
from zoneward.routing.simulation_results import Simulation


@dataclass(frozen=True, slots=True)
class ScoredChunks:
    """The result of some consecutive chunks. ``rows`` are the inputs and the columns of each contender, where they
    are written to a file.
    """

    processed: int
    tally: Tally
    rows: tuple[tuple[Inputs, list[Floats]], ...] = ()


class Runner(Protocol):
    """Scores chunks somewhere, and yields the results in the order of the chunks."""

    def run(self, spec: SimulationSpec, chunks: Iterable[Chunk], *, rows: bool) -> Iterator[ScoredChunks]: ...


def score_chunk(spec: SimulationSpec, chunk: Chunk, *, rows: bool) -> ScoredChunks:
    """Score one chunk; the same function on every machine."""
    inputs = chunk.inputs()
    counted, columns = tally_chunk(spec, inputs)
    return ScoredChunks(len(inputs.numbers), counted, ((inputs, columns),) if rows else ())


@dataclass(frozen=True, slots=True)
class ThreadRunner:
    """The cores of this machine. Compiled rules release the interpreter, so that threads are enough."""

    jobs: int

    def run(self, spec: SimulationSpec, chunks: Iterable[Chunk], *, rows: bool) -> Iterator[ScoredChunks]:
        compile_kernels(spec.contenders)
        waiting: deque[Future[ScoredChunks]] = deque()
        left = iter(chunks)
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="scoring") as pool:
            try:
                for chunk in left:
                    waiting.append(pool.submit(score_chunk, spec, chunk, rows=rows))
                    # More than can run, so that no thread waits while the first result is used.
                    if len(waiting) > 2 * self.jobs:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


RowSink = Callable[[Inputs, list[Floats]], None]


def simulate(
    spec: SimulationSpec,
    dataset: Dataset,
    *,
    runner: Runner,
    seed: int = 0,
    bounds: bool = False,
    shares: tuple[float, ...] = (),
    advanced: Callable[[int], None] = lambda _rows: None,
    sink: RowSink | None = None,
) -> Simulation:
    """Score a dataset. ``advanced`` gets the number of rows that were done, ``sink`` each chunk with its columns.

    Ctrl-C (KeyboardInterrupt) ends it early, with the figures of the rows so far.
    """
    tally = Tally()
    partial = False
    try:
        for scored in runner.run(spec, dataset.chunks(), rows=sink is not None):
            for inputs, columns in scored.rows:
                if sink is not None:
                    sink(inputs, columns)
            # A new one each time, so that Ctrl-C never leaves it half added.
            tally = merge_tallies(spec, (tally, scored.tally))
            advanced(scored.processed)
    except KeyboardInterrupt:
        partial = True
    return summarize(
        spec,
        tally,
        dataset=dataset.name,
        of=dataset.rows,
        whole=dataset.whole,
        seed=seed,
        partial=partial,
        bounds=bounds,
        shares=shares,
    )
