"""One function for many Services, in several processes and in order, with a progress bar on a terminal."""

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, Final, TypeVar

from zoneward.cli.options import Options
from zoneward.cli.output import shows_progress
from zoneward.kube.gc_tuning import disable_gc, frozen_objects, without_gc
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import Service

CHUNK: Final = 20
"""Services that a process takes at once: about a fifth of a second."""
_LEAST: Final = 200
"""With fewer Services, other processes are not worth their start."""

_Result = TypeVar("_Result")
_Work = Callable[[Service], _Result]


def in_processes(
    work: _Work[_Result],
    services: Sequence[Service],
    options: Options,
    *,
    processes: int | None = None,
    chunk: int = CHUNK,
) -> Generator[_Result, None, None]:
    """Yield what ``work`` returns for each Service, in their order, as soon as it is computed.

    ``processes``: by default one for each core; one in all for few Services, and where no process can be forked. Each
    takes a ``chunk`` at once. Results are sent between processes, so they should be small.
    """
    if processes is None:
        # macOS forks unsafely and Windows not at all; any other way to start a process would copy the snapshot.
        can_fork = hasattr(os, "fork") and sys.platform != "darwin"
        processes = (os.cpu_count() or 1) if can_fork and len(services) >= _LEAST else 1
    with (
        without_gc(),
        frozen_objects(),
        # The processes start first: the bar has a thread, and forking a process with threads is unsafe.
        _results(work, services, processes, chunk) as results,
        _progress(options, len(services)) as advance,
    ):
        for result in results:
            advance()
            yield result


# --- processes --------------------------------------------------------------------------------------------------------

_task: tuple[_Work[Any], Sequence[Service]]
"""In a process of the pool: what it does, and all Services."""


@contextmanager
def _results(
    work: _Work[_Result], services: Sequence[Service], processes: int, chunk: int
) -> Iterator[Iterator[_Result]]:
    """The result for each Service. The processes end with the block."""
    if processes == 1:
        yield map(work, services)
        return
    # A forked process shares the snapshot: nothing of it is sent.
    with ProcessPoolExecutor(
        processes, mp_context=get_context("fork"), initializer=_begin_process, initargs=(work, services)
    ) as pool:
        try:
            yield pool.map(_work_on, range(len(services)), chunksize=chunk)
        except BrokenProcessPool as error:
            raise InputError("a process was killed: is there too little memory?") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _begin_process(work: _Work[Any], services: Sequence[Service]) -> None:
    global _task
    _task = work, services
    disable_gc()
    # A terminal sends Ctrl-C to all processes. The first one ends the others, which would only print traces.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process of the pool would otherwise wait forever for a first one that was killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work_on(index: int) -> Any:
    work, services = _task
    return work(services[index])


# --- progress ---------------------------------------------------------------------------------------------------------


@contextmanager
def waiting(options: Options, text: str) -> Iterator[None]:
    """A sign of life on a terminal."""
    if not shows_progress(options):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def _progress(options: Options, services: int) -> Iterator[Callable[[], None]]:
    if not shows_progress(options):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Services", total=services)
        yield lambda: progress.advance(task)
