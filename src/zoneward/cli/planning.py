"""From options to plans of the Services that were chosen."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zoneward.cli.configuring import configuration_for
from zoneward.cli.options import Note, Options
from zoneward.cli.snapshots import no_services, reading_notes, services_in, snapshot_for
from zoneward.kube.gc_tuning import without_gc
from zoneward.kube.objects import Node, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.routing.request.what_if import as_if_requested
from zoneward.routing.selection.endpoint_selection import CONSUMERS
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Chosen:
    """A snapshot and the Services of it that were asked for, by namespace and name.

    ``taken`` has the names of all slices by namespace. ``notes`` are for standard error, once nothing can fail any
    more: bad input is told in one line and nothing else.
    """

    snapshot: Snapshot
    cluster_state: ClusterState
    services: tuple[Service, ...]
    taken: Mapping[str, Container[str]]
    notes: tuple[Note, ...]

    @property
    def configuration(self) -> Configuration:
        return self.cluster_state.configuration


@dataclass(frozen=True, slots=True)
class Planned(Chosen):
    """What the Services come to, in their order."""

    plans: tuple[ServicePlan, ...]


def plan_for(options: Options) -> Planned:
    """Plan the selected Services of the snapshot. Raises InputError or a usage error; nothing is written before."""
    with without_gc():
        chosen = choose_for(options)
        plans = tuple(
            plan_service(
                as_asked(service, options),
                pods=chosen.snapshot.pods_of(service),
                slices=chosen.snapshot.slices_of(service),
                cluster_state=chosen.cluster_state,
                taken=chosen.taken.get(service.metadata.namespace, ()),
            )
            for service in chosen.services
        )
    return Planned(chosen.snapshot, chosen.cluster_state, chosen.services, chosen.taken, chosen.notes, plans)


def as_asked(service: Service, options: Options) -> Service:
    """The Service, or what it would be with ``--what-if``."""
    return as_if_requested(service, options.what_if) if options.what_if else service


def surroundings_of(
    nodes: Iterable[Node],
    node_zones: Mapping[str, str | None],
    *,
    options: Options,
    configuration: Configuration,
    pods_known: bool,
) -> ClusterState:
    """What all Services of a cluster share, from its Nodes and the options."""
    return ClusterState(
        demand=compute_demand(nodes, missing_cpu=configuration.hints.missing_cpu),
        node_zones=node_zones,
        configuration=configuration,
        pods_known=pods_known,
        consumer=CONSUMERS[options.consumer],
    )


def choose_for(options: Options) -> Chosen:
    """Read the snapshot and choose Services. Raises InputError or a usage error."""
    configuration = configuration_for(options)
    snapshot = snapshot_for(options)
    services = services_in(snapshot, options)
    cluster_state = surroundings_of(
        snapshot.nodes, snapshot.node_zones, options=options, configuration=configuration, pods_known=snapshot.has_pods
    )
    taken: dict[str, set[str]] = {}
    for each in snapshot.slices:
        taken.setdefault(each.metadata.namespace, set()).add(each.metadata.name)
    return Chosen(snapshot, cluster_state, tuple(services), taken, tuple(_notes(snapshot, services)))


def _notes(snapshot: Snapshot, services: Sequence[Service]) -> Iterator[Note]:
    yield from reading_notes(snapshot)
    if not snapshot.has_pods:
        yield Note("no Pods in the snapshot: endpoints are taken from its EndpointSlices")
    if not snapshot.nodes:
        yield Note("no Nodes in the snapshot: zones and demand are unknown")
    if not services:
        yield no_services(snapshot)
