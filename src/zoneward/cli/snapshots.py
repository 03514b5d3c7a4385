"""From options to a snapshot, and to the Services of it that were asked for."""

import sys
from collections import Counter
from collections.abc import Iterator

import click

from zoneward.cli.clusters import access_for
from zoneward.cli.options import Note, Options
from zoneward.kube.input_error import InputError
from zoneward.kube.label_selector import parse_selector
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import Node, Service
from zoneward.routing.rules import listed
from zoneward.snapshots.cluster_snapshot import Snapshot, read_snapshot


def snapshot_for(options: Options) -> Snapshot:
    """All objects of the cluster that the options name: the one place that knows where clusters come from.

    Raises InputError or a usage error.
    """
    if options.files or options.sample:
        _refuse_access(options)
    if options.sample:
        if options.files:
            raise click.UsageError("-f and --sample: expected one of them, got both")
        from zoneward.sample import cluster

        skipped: Counter[str] = Counter()
        return Snapshot.of(read_objects("the sample", cluster().read_bytes(), skipped=skipped), skipped=skipped)
    if options.files:
        return read_snapshot(options.files, stdin=sys.stdin.buffer)
    from zoneward.snapshots.cluster_snapshot import read_cluster

    access, namespace = access_for(options)
    return read_cluster(access, namespace=namespace)


def _refuse_access(options: Options) -> None:
    for name, value in (("context", options.context), ("kubeconfig", options.kubeconfig), ("as", options.impersonate)):
        if value is not None:
            raise click.UsageError(f"--{name}: expected neither -f nor --sample with it, which reads no cluster")


def services_in(snapshot: Snapshot, options: Options) -> list[Service]:
    """The Services that were asked for: those that are named in the order given, otherwise all, by namespace and name.

    Raises InputError for a name that no Service has, and a usage error.
    """
    services = sorted(snapshot.services, key=lambda each: (each.metadata.namespace, each.metadata.name))
    if options.namespace is not None:
        services = [each for each in services if each.metadata.namespace == options.namespace]
    if options.selector is not None:
        try:
            selector = parse_selector(options.selector)
        except ValueError as error:
            raise click.UsageError(f"--selector: {error}") from error
        services = [each for each in services if selector.matches(each.metadata.labels)]
    if options.services:
        services = [each for name in options.services for each in _named(name, services)]
        services = list({(each.metadata.namespace, each.metadata.name): each for each in services}.values())
    return services


def node_in(snapshot: Snapshot, name: str) -> Node:
    """The Node that ``--node`` names. Raises InputError where there is none."""
    nodes = {each.metadata.name: each for each in snapshot.nodes}
    if name not in nodes:
        known = listed(tuple(sorted(nodes))) or "there are none"
        raise InputError("--node", f"expected one of the {len(nodes)} Nodes in the snapshot ({known}), got {name!r}")
    return nodes[name]


def reading_notes(snapshot: Snapshot) -> Iterator[Note]:
    """What is worth knowing about how a snapshot was read_objects."""
    for warning in snapshot.warnings:
        yield Note(warning)
    if snapshot.skipped:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(snapshot.skipped.items()))
        number = sum(snapshot.skipped.values())
        yield Note(f"skipped {number} objects of kinds that are not needed: {kinds}", verbose=True)


def no_services(snapshot: Snapshot) -> Note:
    """Where no Service was chosen: where there are some."""
    namespaces = listed(tuple(sorted({each.metadata.namespace for each in snapshot.services}))) or "none"
    return Note(f"no Service to show; there are Services in the namespaces: {namespaces}")


def _named(name: str, services: list[Service]) -> list[Service]:
    namespace, slash, service = name.rpartition("/")
    found = [
        each
        for each in services
        if each.metadata.name == service and (not slash or each.metadata.namespace == namespace)
    ]
    if not found:
        known = (
            listed(tuple(f"{each.metadata.namespace}/{each.metadata.name}" for each in services)) or "there are none"
        )
        raise InputError(f"Service {name}", f"expected one of the {len(services)} selected Services ({known})")
    return found
