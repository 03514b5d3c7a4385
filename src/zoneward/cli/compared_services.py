"""The selected Services of a snapshot, each with every approach. Several processes compare them, in order."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Final

from zoneward.advice.cluster_abilities import ClusterAbilities, abilities_of
from zoneward.advice.comparison import COMPARED, Recommendation, recommend
from zoneward.advice.kubernetes_version import kubernetes_minor
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.service_input import ServiceInput
from zoneward.cli.choices import unknown_approach
from zoneward.cli.cluster_input import load_configuration
from zoneward.cli.options import Options
from zoneward.cli.planned_services import SelectedServices, select_services
from zoneward.kube.gc_tuning import disable_gc, frozen_objects, without_gc
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import Service
from zoneward.routing.request.what_if import find_what_if_value

_CHUNK: Final = 20
"""Services that a process compares at once: about a fifth of a second."""
_LEAST: Final = 200
"""With fewer Services, other processes are not worth their start."""


@dataclass(frozen=True)
class ComparisonRequest:
    """What is compared: some approaches for the selected Services of a snapshot.

    If options change the cluster, proxies and abilities are those of the cluster as it was read. ``flows``: with those
    between zones.
    """

    selected: SelectedServices
    approaches: tuple[str, ...]
    node_proxies: NodeProxies
    abilities: ClusterAbilities
    flows: bool = False

    @property
    def proxies(self) -> dict[str, int]:
        """The number of nodes where traffic starts, by the title of their kind of proxy."""
        nodes = (self.selected.unchanged or self.selected).cluster_state.demand.nodes
        return dict(Counter(self.node_proxies.on(node.name).title for node in nodes))

    def compare(self, service: Service) -> tuple[Recommendation, ...]:
        """All address families of one of the Services."""
        return recommend(
            _input_of(service, self.selected),
            approaches=self.approaches,
            node_proxies=self.node_proxies,
            abilities=self.abilities,
            unchanged=None if self.selected.unchanged is None else _input_of(service, self.selected.unchanged),
            flows=self.flows,
        )


def _input_of(service: Service, selected: SelectedServices) -> ServiceInput:
    snapshot = selected.snapshot
    return ServiceInput(
        service,
        snapshot.nodes,
        snapshot.pods_of(service),
        snapshot.slices_of(service),
        selected.cluster_state,
        selected.taken.get(service.metadata.namespace, ()),
    )


def chosen_approaches(only: Iterable[str], options: Options) -> tuple[str, ...]:
    """The approaches that ``--only`` names, in the default order; all if it names none. ``Auto`` is what the
    configuration says.

    Raises InputError.
    """
    named = set()
    for name in (name.strip() for names in only for name in names.split(",")):
        value = find_what_if_value(name)
        if value is None:
            raise InputError("--only", unknown_approach(name))
        named.add(load_configuration(options).hints.auto if value == "Auto" else value)
    return tuple(approach for approach in COMPARED if approach in named) if named else COMPARED


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
    request: ComparisonRequest, options: Options, *, processes: int | None = None, chunk: int = _CHUNK
) -> Generator[Recommendation, None, None]:
    """Yield the recommendations for all selected Services in their order, as soon as they are computed.

    ``processes``: by default one for each core; one in all for few Services, and where no process can be forked. Each
    compares a ``chunk`` at once.
    """
    services = request.selected.services
    if processes is None:
        # macOS forks unsafely and Windows not at all; any other way to start a process would copy the snapshot.
        can_fork = hasattr(os, "fork") and sys.platform != "darwin"
        processes = (os.cpu_count() or 1) if can_fork and len(services) >= _LEAST else 1
    with (
        without_gc(),
        frozen_objects(),
        # The processes start first: the bar has a thread, and forking a process with threads is unsafe.
        _recommendations(request, processes, chunk) as compared,
        _progress(options, len(services)) as advance,
    ):
        for recommendations in compared:
            advance()
            yield from recommendations


# --- processes --------------------------------------------------------------------------------------------------------

_request: ComparisonRequest
"""In a process of the pool: what it compares."""


@contextmanager
def _recommendations(
    request: ComparisonRequest, processes: int, chunk: int
) -> Iterator[Iterator[tuple[Recommendation, ...]]]:
    """The recommendations for each Service. The processes end with the block."""
    services = request.selected.services
    if processes == 1:
        yield map(request.compare, services)
        return
    # A forked process shares the snapshot: nothing of it is sent.
    with ProcessPoolExecutor(
        processes, mp_context=get_context("fork"), initializer=_begin_process, initargs=(request,)
    ) as pool:
        try:
            yield pool.map(_compare_numbered, range(len(services)), chunksize=chunk)
        except BrokenProcessPool as error:
            raise InputError("compare", "a process was killed: is there too little memory?") from error
        finally:
            pool.shutdown(cancel_futures=True)


def _begin_process(request: ComparisonRequest) -> None:
    global _request
    _request = request
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


def _compare_numbered(index: int) -> tuple[Recommendation, ...]:
    return _request.compare(_request.selected.services[index])


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
def _progress(options: Options, services: int) -> Iterator[Callable[[], None]]:
    """A progress bar on a terminal; nothing elsewhere."""
    if not _shows_progress(options):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Services", total=services)
        yield lambda: progress.advance(task)
