"""The selected Services of a snapshot, each with every approach: computed by several processes, in order."""

import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from typing import Final

import msgspec

from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.recommendations import ClusterAbilities, Recommendation, abilities_of, recommend
from zoneward.advice.service_input import ServiceInput
from zoneward.cli.options import Options
from zoneward.cli.planned_services import SelectedServices, select_services
from zoneward.kube.gc_tuning import frozen_objects, without_gc
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import Service
from zoneward.kube.proxy_programs import minor_version

_CHUNK: Final = 50
"""Services for one task of a process: some tenths of a second."""
_AHEAD: Final = 4
"""Tasks for each process that are done or begun before their results are wanted."""
_LEAST: Final = 4 * _CHUNK
"""With fewer Services, other processes are not worth their start."""
_RESULTS: Final = msgspec.msgpack.Decoder(list[Recommendation])


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """What is compared: some approaches for the selected Services of a snapshot.

    Where options change the cluster, proxies and abilities are those of the cluster as it was read.
    """

    selected: SelectedServices
    approaches: tuple[str, ...]
    node_proxies: NodeProxies
    abilities: ClusterAbilities

    @property
    def proxies(self) -> dict[str, int]:
        """The nodes from which traffic starts, by the title of their kind of proxy."""
        nodes = (self.selected.unchanged or self.selected).cluster_state.demand.nodes
        return dict(Counter(self.node_proxies.on(each.name).title for each in nodes))

    def compare(self, services: Iterable[Service]) -> list[Recommendation]:
        """All address families of some of the Services."""
        snapshot = self.selected.snapshot
        return [
            each
            for service in services
            for each in recommend(
                service,
                approaches=self.approaches,
                pods=snapshot.pods_of(service),
                slices=snapshot.slices_of(service),
                cluster_state=self.selected.cluster_state,
                node_proxies=self.node_proxies,
                abilities=self.abilities,
                taken=self.selected.taken.get(service.metadata.namespace, ()),
                unchanged=self._unchanged(service),
            )
        ]

    def _unchanged(self, service: Service) -> ServiceInput | None:
        """The Service in the cluster as it was read, where options change it. They change no Service itself."""
        read = self.selected.unchanged
        if read is None:
            return None
        return ServiceInput(
            service,
            read.snapshot.nodes,
            read.snapshot.pods_of(service),
            read.snapshot.slices_of(service),
            read.cluster_state,
            read.taken.get(service.metadata.namespace, ()),
        )


def read_request(options: Options, approaches: tuple[str, ...]) -> ComparisonRequest:
    """Read the snapshot. Raises InputError or a usage error, before anything is printed."""
    with without_gc(), _waiting(options, "reading"):
        selected = select_services(options)
    read = selected.unchanged or selected
    kubelets = (
        each.status.node_info.kubelet_version for each in read.snapshot.nodes if each.status and each.status.node_info
    )
    abilities = abilities_of(
        read.snapshot.slices,
        node_proxies=read.node_proxies,
        configuration=selected.configuration,
        # Control planes are at least as new as every kubelet (version skew policy).
        kubernetes=max((minor for each in kubelets if (minor := minor_version(each)) is not None), default=None),
    )
    return ComparisonRequest(selected, approaches, read.node_proxies, abilities)


def compare_services(
    request: ComparisonRequest, options: Options, *, processes: int | None = None
) -> Generator[Recommendation, None, None]:
    """The comparisons of all selected Services, in their order, as soon as they are there.

    ``processes``: as many as the machine has cores, where it can make copies of this one; else one.
    """
    services = request.selected.services
    if processes is None:
        processes = (os.cpu_count() or 1) if len(services) >= _LEAST else 1
    if "fork" not in get_all_start_methods() or sys.platform == "darwin":
        processes = 1
    chunks = [services[start : start + _CHUNK] for start in range(0, len(services), _CHUNK)]
    with (
        without_gc(),
        frozen_objects(),
        # The bar has a thread of its own, which must not be there when the processes start.
        _chunk_results(request, chunks, processes) as results,
        _progress(options, len(services)) as advance,
    ):
        for chunk, found in zip(chunks, results, strict=True):
            advance(len(chunk))
            yield from found


# --- processes --------------------------------------------------------------------------------------------------------

_inherited: tuple[ComparisonRequest, Sequence[Sequence[Service]]] | None = None
"""What the processes share with this one: it is set before they start, and nothing of it is copied or sent."""


@contextmanager
def _chunk_results(
    request: ComparisonRequest, chunks: Sequence[Sequence[Service]], processes: int
) -> Iterator[Iterable[list[Recommendation]]]:
    if processes == 1:
        yield map(request.compare, chunks)
        return
    global _inherited
    _inherited = (request, chunks)
    pool = ProcessPoolExecutor(processes, mp_context=get_context("fork"), initializer=_ignore_interrupts)
    try:
        ahead = processes * _AHEAD
        begun = [pool.submit(_compare_chunk, number) for number in range(min(ahead, len(chunks)))]
        yield _in_order(pool, begun, range(ahead, len(chunks)))
    except BrokenProcessPool as error:
        raise InputError(
            "compare", "expected its processes to end by themselves: is there too little memory?"
        ) from error
    finally:
        _inherited = None
        pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor, begun: Iterable[Future[bytes]], others: Iterable[int]
) -> Iterator[list[Recommendation]]:
    waiting, numbers = deque(begun), iter(others)
    while waiting:
        found = waiting.popleft().result()
        waiting.extend(pool.submit(_compare_chunk, number) for number in islice(numbers, 1))
        yield _RESULTS.decode(found)


def _ignore_interrupts() -> None:
    """Ctrl-C goes to all processes of a terminal. This one then ends the others, which would only print traces."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _compare_chunk(number: int) -> bytes:
    """In another process: the results as bytes, for they are many small objects."""
    assert _inherited is not None
    request, chunks = _inherited
    return msgspec.msgpack.encode(request.compare(chunks[number]))


# --- progress ---------------------------------------------------------------------------------------------------------


def _shows_progress(options: Options) -> bool:
    return not options.quiet and sys.stderr.isatty()


@contextmanager
def _waiting(options: Options, text: str) -> Iterator[None]:
    """A sign of life on a terminal."""
    if not _shows_progress(options):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def _progress(options: Options, services: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal; nothing elsewhere."""
    if not _shows_progress(options):
        yield lambda _services: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Services", total=services)
        yield lambda number: progress.advance(task, number)
