"""Chunks of a dataset through the contenders, on all cores of this machine, and back in their order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from zoneward.lab.datasets import Chunk, Dataset, Inputs
from zoneward.lab.scoring import Reals, prepare
from zoneward.lab.summary import summary
from zoneward.lab.tally import Tally, Wanted, merged, tally
from zoneward.routing.simulation_results import Simulation


@dataclass(frozen=True, slots=True)
class Scored:
    """What came of some chunks that follow each other. ``rows`` are the inputs and the columns of each contender, where
    somebody writes them down.
    """

    processed: int
    tally: Tally
    rows: tuple[tuple[Inputs, list[Reals]], ...] = ()


class Runner(Protocol):
    """Scores chunks somewhere, and gives what comes of them in the order of the chunks."""

    def run(self, wanted: Wanted, chunks: Iterable[Chunk], *, rows: bool) -> Iterator[Scored]: ...


def score_chunk(wanted: Wanted, chunk: Chunk, *, rows: bool) -> Scored:
    """One chunk, wherever it is scored."""
    inputs = chunk.inputs()
    counted, columns = tally(wanted, inputs)
    return Scored(len(inputs.numbers), counted, ((inputs, columns),) if rows else ())


@dataclass(frozen=True, slots=True)
class Threads:
    """This machine. The compiled rules let go of the interpreter, so threads do, and share what is compiled."""

    jobs: int

    def run(self, wanted: Wanted, chunks: Iterable[Chunk], *, rows: bool) -> Iterator[Scored]:
        prepare(wanted.contenders)
        waiting: deque[Future[Scored]] = deque()
        left = iter(chunks)
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="scoring") as pool:
            try:
                for chunk in left:
                    waiting.append(pool.submit(score_chunk, wanted, chunk, rows=rows))
                    # One more than can run, so that nobody waits while the first is looked at.
                    if len(waiting) > 2 * self.jobs:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


Sink = Callable[[Inputs, list[Reals]], None]


def simulate(
    wanted: Wanted,
    dataset: Dataset,
    *,
    runner: Runner,
    seed: int = 0,
    bounds: bool = False,
    shares: tuple[float, ...] = (),
    advanced: Callable[[int], None] = lambda _rows: None,
    sink: Sink | None = None,
) -> Simulation:
    """Score a dataset. ``advanced`` is told how many rows were done, ``sink`` gets each chunk with its columns.

    Ctrl-C (KeyboardInterrupt) ends it early, with what is known of the rows until then.
    """
    found = Tally()
    partial = False
    try:
        for scored in runner.run(wanted, dataset.chunks(), rows=sink is not None):
            for inputs, columns in scored.rows:
                if sink is not None:
                    sink(inputs, columns)
            # A new one each time, so that Ctrl-C never finds it half added.
            found = merged(wanted, (found, scored.tally)) if found.sums else merged(wanted, (scored.tally,))
            advanced(scored.processed)
    except KeyboardInterrupt:
        partial = True
    return summary(
        wanted,
        found,
        dataset=dataset.name,
        of=dataset.rows,
        whole=dataset.whole,
        seed=seed,
        partial=partial,
        bounds=bounds,
        shares=shares,
    )
