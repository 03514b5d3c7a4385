"""From options to plans: read the snapshot, choose Services, plan each of them."""

import gc
import sys
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click

from zoneward.cli.configuring import configuration_for
from zoneward.cli.options import Note, Options
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import Service
from zoneward.kube.reading import read
from zoneward.kube.selector import parse_selector
from zoneward.routing.approach import as_if_asked
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import demand_of
from zoneward.routing.rules import listed
from zoneward.routing.selection import CONSUMERS
from zoneward.slices.plan import ServicePlan, Surroundings, plan_service
from zoneward.sources.snapshot import Snapshot, read_snapshot


@dataclass(frozen=True, slots=True)
class Chosen:
    """A snapshot and the Services of it that were asked for, by namespace and name.

    ``taken`` has the names of all slices by namespace. ``notes`` are for standard error, once nothing can fail any
    more: bad input is told in one line and nothing else.
    """

    snapshot: Snapshot
    surroundings: Surroundings
    services: tuple[Service, ...]
    taken: Mapping[str, Container[str]]
    notes: tuple[Note, ...]

    @property
    def configuration(self) -> Configuration:
        return self.surroundings.configuration


@dataclass(frozen=True, slots=True)
class Planned(Chosen):
    """What the Services come to, in their order."""

    plans: tuple[ServicePlan, ...]


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector: there are millions of values and no cycles to speak of, and it would only walk
    them over and over.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def plan_for(options: Options) -> Planned:
    """Plan the selected Services of the snapshot. Raises InputError or a usage error; nothing is written before."""
    with uncollected():
        chosen = choose_for(options)
        plans = tuple(
            plan_service(
                as_if_asked(service, options.what_if) if options.what_if else service,
                pods=chosen.snapshot.pods_of(service),
                slices=chosen.snapshot.slices_of(service),
                surroundings=chosen.surroundings,
                taken=chosen.taken.get(service.metadata.namespace, ()),
            )
            for service in chosen.services
        )
    return Planned(chosen.snapshot, chosen.surroundings, chosen.services, chosen.taken, chosen.notes, plans)


def choose_for(options: Options) -> Chosen:
    """Read the snapshot and choose Services. Raises InputError or a usage error."""
    configuration = configuration_for(options)
    snapshot = _snapshot(options)
    services = _chosen(snapshot, options)
    surroundings = Surroundings(
        demand=demand_of(snapshot.nodes, missing_cpu=configuration.hints.missing_cpu),
        node_zones=snapshot.node_zones,
        configuration=configuration,
        pods_known=snapshot.has_pods,
        consumer=CONSUMERS[options.consumer],
    )
    taken: dict[str, set[str]] = {}
    for each in snapshot.slices:
        taken.setdefault(each.metadata.namespace, set()).add(each.metadata.name)
    return Chosen(snapshot, surroundings, tuple(services), taken, tuple(_notes(snapshot, services)))


def _snapshot(options: Options) -> Snapshot:
    if options.sample:
        if options.files:
            raise click.UsageError("-f and --sample: expected one of them, got both")
        from zoneward.sample import cluster

        skipped: Counter[str] = Counter()
        snapshot = Snapshot.of(read("the sample", cluster().read_bytes(), skipped=skipped), skipped=skipped)
    elif options.files:
        snapshot = read_snapshot(options.files, stdin=sys.stdin.buffer)
    else:
        raise click.UsageError("expected -f PATH or --sample (this version reads snapshots, not live clusters)")
    return snapshot


def _notes(snapshot: Snapshot, services: Sequence[Service]) -> Iterator[Note]:
    for warning in snapshot.warnings:
        yield Note(warning)
    if snapshot.skipped:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(snapshot.skipped.items()))
        number = sum(snapshot.skipped.values())
        yield Note(f"skipped {number} objects of kinds that are not needed: {kinds}", verbose=True)
    if not snapshot.has_pods:
        yield Note("no Pods in the snapshot: endpoints are taken from its EndpointSlices")
    if not snapshot.nodes:
        yield Note("no Nodes in the snapshot: zones and demand are unknown")
    if not services:
        namespaces = listed(tuple(sorted({each.metadata.namespace for each in snapshot.services}))) or "none"
        yield Note(f"no Service to show; there are Services in the namespaces: {namespaces}")


def _chosen(snapshot: Snapshot, options: Options) -> list[Service]:
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
