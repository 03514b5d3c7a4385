"""The selected Services of a snapshot, each with every approach: computed by several processes, in order."""

import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Final

import msgspec

from zoneward.advice.kubernetes_version import kubernetes_minor
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.recommendations import ClusterAbilities, Recommendation, abilities_of, recommend
from zoneward.advice.service_input import ServiceInput
from zoneward.cli.options import Options
from zoneward.cli.planned_services import SelectedServices, select_services
from zoneward.kube.gc_tuning import frozen_objects, without_gc
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import Service
from zoneward.slices.comparison_memo import ComparisonMemo

_CHUNK: Final = 50
"""Services that a process compares before it sends what it found: some tenths of a second."""
_AHEAD: Final = 20
"""Chunks that a process may be ahead of the slowest."""
_LEAST: Final = 4 * _CHUNK
"""With fewer Services, other processes are not worth their start."""
_Found = list[Recommendation]
"""All address families of one Service."""
_RESULTS: Final = msgspec.msgpack.Decoder(list[_Found])


@dataclass(frozen=True)
class ComparisonRequest:
    """What is compared: some approaches for the selected Services of a snapshot.

    Where options change the cluster, proxies and abilities are those of the cluster as it was read. ``flows``: with
    those between zones.
    """

    selected: SelectedServices
    approaches: tuple[str, ...]
    node_proxies: NodeProxies
    abilities: ClusterAbilities
    flows: bool = False

    @cached_property
    def memo(self) -> ComparisonMemo:
        """In each process what it has computed."""
        return ComparisonMemo(self.selected.cluster_state)

    @property
    def proxies(self) -> dict[str, int]:
        """The nodes from which traffic starts, by the title of their kind of proxy."""
        nodes = (self.selected.unchanged or self.selected).cluster_state.demand.nodes
        return dict(Counter(self.node_proxies.on(each.name).title for each in nodes))

    def compare(self, service: Service) -> list[Recommendation]:
        """All address families of one of the Services."""
        snapshot = self.selected.snapshot
        found = recommend(
            service,
            approaches=self.approaches,
            pods=snapshot.pods_of(service),
            slices=snapshot.slices_of(service),
            cluster_state=self.selected.cluster_state,
            node_proxies=self.node_proxies,
            abilities=self.abilities,
            taken=self.selected.taken.get(service.metadata.namespace, ()),
            unchanged=self._unchanged(service),
            flows=self.flows,
            memo=self.memo,
        )
        return list(found)

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
    abilities = abilities_of(
        read.snapshot.slices,
        node_proxies=read.node_proxies,
        configuration=selected.configuration,
        kubernetes=kubernetes_minor(read.snapshot.nodes),
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
        processes = _available_processes() if len(services) >= _LEAST else 1
    size = _CHUNK * processes
    chunks = [services[start : start + size] for start in range(0, len(services), size)]
    with (
        without_gc(),
        frozen_objects(),
        # The bar has a thread of its own, which must not be there when the processes start.
        _chunk_results(request, chunks, processes) as results,
        _progress(options, len(services)) as advance,
    ):
        for chunk, found in zip(chunks, results, strict=True):
            advance(len(chunk))
            for each in found:
                yield from each


# --- processes --------------------------------------------------------------------------------------------------------


def _available_processes() -> int:
    """The number of cores where a process can fork; else 1."""
    return (os.cpu_count() or 1) if hasattr(os, "fork") and sys.platform != "darwin" else 1


@contextmanager
def _chunk_results(
    request: ComparisonRequest, chunks: Sequence[Sequence[Service]], processes: int
) -> Iterator[Iterable[Iterable[_Found]]]:
    """For each chunk what is found for each of its Services."""
    if processes == 1:
        yield ([request.compare(service) for service in chunk] for chunk in chunks)
        return
    workers = _workers_of(request, processes)
    with ExitStack() as stack:
        results = [stack.enter_context(_worker(request, chunks, workers, number)) for number in range(processes)]
        yield _in_order(chunks, workers, results)


def _workers_of(request: ComparisonRequest, processes: int) -> dict[int, int]:
    """The number of the process that compares a Service, by the Service's ``id``.

    Services that are alike have as many pods as each other: a process remembers what it has computed, so that those
    with the same number go to the same one, unless these are more than its part.
    """
    snapshot, services = request.selected.snapshot, request.selected.services
    alike: dict[int, list[Service]] = {}
    for each in services:
        alike.setdefault(snapshot.most_pods_of(each), []).append(each)
    most = -(-len(services) // (2 * processes))
    found: dict[int, int] = {}
    load = [0] * processes
    for group in sorted(alike.values(), key=len, reverse=True):
        for start in range(0, len(group), most):
            part = group[start : start + most]
            worker = load.index(min(load))
            load[worker] += len(part)
            found.update((id(each), worker) for each in part)
    return found


@contextmanager
def _worker(
    request: ComparisonRequest, chunks: Sequence[Sequence[Service]], workers: Mapping[int, int], number: int
) -> Iterator[Connection]:
    """A process that compares its Services of each chunk, one chunk after the other: a copy of this one, so that
    nothing of the cluster is copied or sent. It ends with the block.
    """
    context = get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def compare() -> None:
        # Ctrl-C goes to all processes of a terminal. The first one then ends the others, which would only print traces.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for chunk in chunks:
            # As bytes of msgspec, for the results are many small objects.
            found = [request.compare(each) for each in chunk if workers[id(each)] == number]
            writer.send_bytes(msgspec.msgpack.encode(found))

    process = context.Process(target=compare, daemon=True)
    with reader:
        with writer:
            process.start()
        try:
            yield reader
        finally:
            process.kill()
            process.join()


def _in_order(
    chunks: Sequence[Sequence[Service]], workers: Mapping[int, int], readers: Sequence[Connection]
) -> Iterator[list[_Found]]:
    """What is found for the Services of each chunk, as soon as all processes have done it."""
    arrived = {reader: deque[bytes]() for reader in readers}
    missing = dict.fromkeys(readers, len(chunks))
    for chunk in chunks:
        while not all(arrived.values()):
            # Also those that are ahead: a full pipe would stop them.
            for reader in wait([each for each in readers if missing[each] and len(arrived[each]) < _AHEAD]):
                assert isinstance(reader, Connection)
                arrived[reader].append(_received(reader))
                missing[reader] -= 1
        found = [iter(_RESULTS.decode(arrived[reader].popleft())) for reader in readers]
        yield [next(found[workers[id(each)]]) for each in chunk]


def _received(reader: Connection) -> bytes:
    try:
        return reader.recv_bytes()
    except EOFError as error:
        raise InputError(
            "compare", "expected its processes to end by themselves: is there too little memory?"
        ) from error


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
