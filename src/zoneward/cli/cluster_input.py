"""What commands read: the configuration file, the cluster or a snapshot of it, and which Services are selected."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec import structs

from zoneward.cli.options import Options
from zoneward.cli.output import Note, print_notes
from zoneward.kube.input_error import InputError, did_you_mean
from zoneward.kube.leases import CONTROLLER_LEASE
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import EndpointSlice, Node, Pod, Service
from zoneward.kube.selectors import parse_selector
from zoneward.routing.configuration import Configuration
from zoneward.routing.phrases import listed
from zoneward.snapshots.cluster_snapshot import Snapshot, read_snapshot

if TYPE_CHECKING:
    from zoneward.cli.known_demand import KnownDemand
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.client.transport import Transport
    from zoneward.client.transport_interface import ReadTransport

INSECURE_WARNING: Final = (
    "the server's certificate is not checked (insecure-skip-tls-verify): any server that answers gets the credentials"
)
_Answer = TypeVar("_Answer")
_Namespaced = Service | Pod | EndpointSlice
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SHORT_TIME: Final = 5.0
"""Seconds for a question whose answer only makes a message better."""


def load_configuration(options: Options) -> Configuration:
    """Read ``--config`` where it is given, and apply ``--demand`` and ``--compat``. Raises InputError with the file and
    the field.
    """
    configuration = Configuration()
    if options.config is not None:
        from zoneward.cli.configuration_file import read_configuration

        configuration = read_configuration(options.config).configuration
    if options.demand is not None:
        from zoneward.cli.known_demand import choose_demand

        configuration = structs.replace(configuration, demand=choose_demand(options.demand, configuration.demand))
    if options.upstream:
        # Kubernetes decides by CPU, and traffic starts where it does.
        return structs.replace(configuration.as_upstream(), demand=configuration.demand)
    if options.with_mode == "overlay":
        from zoneward.slices.overlay import overlay_configuration

        return overlay_configuration(configuration)
    return configuration


def controller_lease_name(options: Options) -> str:
    """The name of the controller's Lease, by ``--config``. Raises InputError."""
    if options.config is None:
        return CONTROLLER_LEASE
    from zoneward.cli.configuration_file import read_configuration

    return read_configuration(options.config).controller.leader_election.lease_name


# --- clusters and snapshots -------------------------------------------------------------------------------------------


def find_cluster(options: Options) -> "tuple[ClientConfig, tuple[str, ...] | None]":
    """The cluster of the current or the given context, and the namespaces to read there, or None for all.

    Raises InputError.
    """
    from zoneward.client.auth.kubeconfig import context_names, load_client_config

    try:
        access = load_client_config(
            kubeconfig=options.kubeconfig,
            context=options.context,
            impersonate=options.impersonate,
            environment=os.environ,
        )
    except InputError as error:
        if not options.context:
            raise
        contexts = context_names(kubeconfig=options.kubeconfig, environment=os.environ)
        near = "" if options.context in contexts else did_you_mean(options.context, contexts)
        raise InputError(f"{error}{near}") from error
    if access.cluster.insecure:
        print_notes(options, [Note(INSECURE_WARNING)])
    return access, _namespaces(options, access.namespace)


def call_cluster(access: "ClientConfig", calls: "Callable[[Transport], Coroutine[Any, Any, _Answer]]") -> _Answer:
    """What calls of a cluster return. Raises InputError where one fails."""
    import asyncio

    from zoneward.client.transport import Transport

    async def run() -> _Answer:
        async with Transport(access) as transport:
            return await calls(transport)

    with failed_calls(access):
        return asyncio.run(run())


@contextmanager
def failed_calls(access: "ClientConfig") -> Iterator[None]:
    """Raises InputError in place of CallFailed."""
    from zoneward.client.api_errors import CallFailed
    from zoneward.client.error_messages import to_input_error

    try:
        yield
    except CallFailed as error:
        raise to_input_error(error, access, now=datetime.now(UTC)) from error


def know_cluster_demand(configuration: Configuration, access: "ClientConfig") -> "KnownDemand":
    """As `know_demand`, before anything else of a running cluster is read: it lists the Nodes where they matter."""
    from zoneward.cli.known_demand import know_demand

    if configuration.demand.source not in ("file", "prometheus"):
        return know_demand(configuration)
    from zoneward.client.list_pager import list_all
    from zoneward.client.resources import NODES

    names: set[str] = set()
    nodes = call_cluster(access, lambda calls: list_all(calls, NODES, on_unreadable=lambda node: names.add(node.name)))
    return know_demand(configuration, nodes=names | {node.metadata.name for node in nodes})


def _namespaces(options: Options, default: str) -> tuple[str, ...] | None:
    """The namespaces to read, or None for all: those of ``-n``, else of the given Services, else of those that
    change, else the default one."""
    if options.all_namespaces:
        return None
    services = options.services or options.changes.services
    named = options.namespaces or tuple(name.rpartition("/")[0] or default for name in services) or (default,)
    for name in named:
        if _NAME.fullmatch(name) is None:
            raise InputError("-n", f"expected the name of a namespace, got {name!r}")
    return tuple(dict.fromkeys(named))


def load_snapshot(options: Options, *, workloads: bool = False) -> Snapshot:
    """Read the objects of the snapshot or the cluster that the options name. Without ``workloads``, no workload objects
    of a cluster are read.

    Raises InputError, also for a namespace that is not known, or a usage error.
    """
    if options.files or options.sample:
        access = (("context", options.context), ("kubeconfig", options.kubeconfig), ("as", options.impersonate))
        for name, value in access:
            if value is not None:
                raise click.UsageError(f"--{name}: expected neither -f nor --sample with it: they replace the cluster")
        if options.sample and options.files:
            raise click.UsageError("-f and --sample: expected one of them, got both")
        snapshot = _read_sample() if options.sample else read_snapshot(options.files, stdin=sys.stdin.buffer)
        _check_snapshot_namespaces(options, snapshot)
        return snapshot
    from zoneward.snapshots.cluster_snapshot import read_cluster

    try:
        cluster, namespaces = find_cluster(options)
    except InputError as error:
        if options.kubeconfig or options.context:
            raise
        ways = "--kubeconfig FILE, files of a cluster with -f PATH, or --sample"
        raise click.UsageError(f"{error}; or use {ways}") from error
    lease_name = controller_lease_name(options)
    snapshot = read_cluster(cluster, namespaces=namespaces, workloads=workloads, lease_name=lease_name)
    # The server is asked about namespaces without objects.
    empty = namespaces_without_objects(options, _namespaced_objects(snapshot))
    if empty:
        call_cluster(cluster, lambda transport: refuse_unknown_namespaces(transport, empty))
    return snapshot


def _read_sample() -> Snapshot:
    from zoneward.sample import cluster

    skipped: Counter[str] = Counter()
    objects = read_objects("the sample", cluster().read_bytes(), skipped=skipped)
    return Snapshot.of(objects, skipped=skipped)


# --- namespaces: a typing error in one must not look like a cluster without Services ----------------------------------


def namespaces_without_objects(options: Options, objects: Iterable[_Namespaced]) -> list[str]:
    """Namespaces that ``-n`` and the given Services name, and that no object is in."""
    named = (name.rpartition("/")[0] for name in options.services if "/" in name)
    empty = dict.fromkeys((*options.namespaces, *named))
    if empty:
        for namespaced in objects:
            empty.pop(namespaced.metadata.namespace, None)
    return list(empty)


def _check_snapshot_namespaces(options: Options, snapshot: Snapshot) -> None:
    if options.namespaces:
        known = {namespaced.metadata.namespace for namespaced in _namespaced_objects(snapshot)}
        for name in options.namespaces:
            check_name("-n", name, known, "namespaces in the snapshot")


def check_name(option: str, got: str, known: Collection[str], what: str) -> None:
    """Raises InputError for a name that is none of those known. ``what`` they are, and where."""
    if got not in known:
        shown = listed(tuple(sorted(known))) or "there are none"
        near = did_you_mean(got, known)
        raise InputError(option, f"expected one of the {len(known)} {what} ({shown}), got {got!r}{near}")


async def refuse_unknown_namespaces(transport: "ReadTransport", empty: Iterable[str]) -> None:
    """Raises InputError for a namespace without objects that the server does not know, or CallFailed.

    Where we may not ask the server, a namespace without objects counts as unknown: nothing could be shown of it.
    """
    from zoneward.client.api_errors import Forbidden, NotFound
    from zoneward.client.resources import NAMESPACES

    for name in empty:
        try:
            await transport.get(NAMESPACES.path(name=name))
        except NotFound:
            near = did_you_mean(name, await _known_to_server(transport))
            raise InputError("-n", f"the cluster has no namespace {name!r}{near}") from None
        except Forbidden:
            near = did_you_mean(name, await _known_to_server(transport))
            missing = f"there is nothing in namespace {name!r}, and without permission to get namespaces"
            raise InputError("-n", f"{missing} it is not known whether it exists{near}") from None


async def _known_to_server(transport: "ReadTransport") -> list[str]:
    """The names of all namespaces; none where the server does not list them."""
    from zoneward.client.api_errors import CallFailed
    from zoneward.client.list_pager import list_names
    from zoneward.client.resources import NAMESPACES

    try:
        return [name for _, name in await list_names(transport, NAMESPACES, time_limit=_SHORT_TIME)]
    except CallFailed:
        return []


def _namespaced_objects(snapshot: Snapshot) -> Iterable[_Namespaced]:
    return chain(snapshot.services, snapshot.pods, snapshot.slices)


# --- Services and Nodes -----------------------------------------------------------------------------------------------


def service_ranking(options: Options) -> Callable[[Service], int | None]:
    """A function that returns the position of a Service among the selected ones: that of the first name in the options
    that it has, 0 without names, None for one that is not selected.

    Raises a usage error for an invalid selector.
    """
    try:
        selector = None if options.selector is None else parse_selector(options.selector)
    except ValueError as error:
        raise click.UsageError(f"--selector: {error}") from error

    def rank(service: Service) -> int | None:
        meta = service.metadata
        if options.namespaces and meta.namespace not in options.namespaces:
            return None
        if selector is not None and not selector.matches(meta.labels):
            return None
        if not options.services:
            return 0
        return next((index for index, name in enumerate(options.services) if has_name(service, name)), None)

    return rank


def filter_services(snapshot: Snapshot, options: Options) -> list[Service]:
    """The selected Services: named ones in the given order, otherwise all, sorted by namespace and name.

    Raises InputError for a name that no Service has, and a usage error.
    """
    rank = service_ranking(replace(options, services=()))
    services = [service for service in snapshot.services if rank(service) is not None]
    for name in options.services:
        if not any(has_name(service, name) for service in services):
            titles = tuple(sorted(f"{service.metadata.namespace}/{service.metadata.name}" for service in services))
            expected = f"expected one of the {len(services)} selected Services ({listed(titles) or 'there are none'})"
            as_file = f"; to read the file of this name: -f {name}" if os.path.exists(name) else ""  # noqa: PTH110
            raise InputError(f"Service {name}", expected + _near_services(name, snapshot.services) + as_file)
    rank = service_ranking(options)
    ranked = [(position, service) for service in services if (position := rank(service)) is not None]
    ranked.sort(key=lambda pair: (pair[0], pair[1].metadata.namespace, pair[1].metadata.name))
    return [service for _, service in ranked]


def has_name(service: Service, name: str) -> bool:
    """Whether ``[NAMESPACE/]SERVICE`` means this Service."""
    namespace, slash, service_name = name.rpartition("/")
    return service.metadata.name == service_name and (not slash or service.metadata.namespace == namespace)


def find_node(snapshot: Snapshot, name: str) -> Node:
    """The Node that ``--node`` names. Raises InputError where there is none."""
    nodes = {node.metadata.name: node for node in snapshot.nodes}
    check_name("--node", name, nodes, "Nodes in the snapshot")
    return nodes[name]


def reading_notes(snapshot: Snapshot) -> Iterator[Note]:
    """Notes about how a snapshot was read."""
    for warning in snapshot.warnings:
        yield Note(warning)
    if snapshot.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(snapshot.skipped.items()))
        total = sum(snapshot.skipped.values())
        yield Note(f"skipped {total} objects of kinds that are not needed: {kinds}", verbose=True)


def no_services_note(snapshot: Snapshot, options: Options) -> Note:
    """The note for an empty selection: the namespaces that have Services, or how to read more of them."""
    nothing = f"no Service with the labels {options.selector}" if options.selector else "no Service to show"
    namespaces = listed(tuple(sorted({service.metadata.namespace for service in snapshot.services})))
    if namespaces:
        return Note(f"{nothing}; there are Services in the namespaces: {namespaces}")
    is_part = not options.files and not options.sample and not options.all_namespaces
    return Note(nothing + ("; -A shows those of all namespaces" if is_part else ""))


def _near_services(name: str, services: Iterable[Service]) -> str:
    """Of all Services that were read: also of those that ``-n`` or ``-l`` leave out."""
    titles = {f"{service.metadata.namespace}/{service.metadata.name}": service.metadata.name for service in services}
    same = sorted(title for title, service in titles.items() if service == name.rpartition("/")[2])
    if same:
        return did_you_mean(name, same) or did_you_mean(same[0], same)
    return did_you_mean(name, titles if "/" in name else titles.values())
