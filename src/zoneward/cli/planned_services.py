"""The selected Services of a snapshot and their plans."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zoneward.cli.cluster_input import (
    filter_services,
    load_configuration,
    load_snapshot,
    no_services_note,
    reading_notes,
)
from zoneward.cli.options import Options
from zoneward.cli.output import Note
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
class SelectedServices:
    """A snapshot and the selected Services of it.

    ``taken`` has the names of all slices by namespace. Print ``notes`` on standard error once nothing can fail any
    more: bad input causes one line and nothing else.

    Where options change the input (``--without-zone``), all this is of the changed cluster, and ``unchanged`` is the
    same Services in the cluster as it was read; else None.
    """

    snapshot: Snapshot
    cluster_state: ClusterState
    services: tuple[Service, ...]
    taken: Mapping[str, Container[str]]
    notes: tuple[Note, ...]
    unchanged: "SelectedServices | None" = field(default=None, kw_only=True)

    @property
    def configuration(self) -> Configuration:
        return self.cluster_state.configuration


@dataclass(frozen=True, slots=True)
class PlannedServices(SelectedServices):
    """The same with the plans of the Services, in their order.

    Where options change the input, ``plans_before`` are those of the unchanged cluster, with the same settings.
    """

    plans: tuple[ServicePlan, ...]
    plans_before: tuple[ServicePlan, ...] | None = None


def plan_services(options: Options) -> PlannedServices:
    """Plan the selected Services of the snapshot. Raises InputError or a usage error, before anything is printed."""
    with without_gc():
        selected = select_services(options)
        plans = _plans(selected, options)
        before = None if selected.unchanged is None else _plans(selected.unchanged, options)
    return PlannedServices(
        selected.snapshot,
        selected.cluster_state,
        selected.services,
        selected.taken,
        selected.notes,
        plans,
        before,
        unchanged=selected.unchanged,
    )


def _plans(selected: SelectedServices, options: Options) -> tuple[ServicePlan, ...]:
    return tuple(
        plan_service(
            with_what_if(service, options),
            pods=selected.snapshot.pods_of(service),
            slices=selected.snapshot.slices_of(service),
            cluster_state=selected.cluster_state,
            taken=selected.taken.get(service.metadata.namespace, ()),
        )
        for service in selected.services
    )


def with_what_if(service: Service, options: Options) -> Service:
    """The Service, or what it would be with ``--what-if``."""
    return as_if_requested(service, options.what_if) if options.what_if else service


def build_cluster_state(
    nodes: Iterable[Node],
    node_zones: Mapping[str, str | None],
    *,
    options: Options,
    configuration: Configuration,
    pods_known: bool,
) -> ClusterState:
    """What the plans of all Services depend on, from the Nodes and the options."""
    return ClusterState(
        demand=compute_demand(nodes, missing_cpu=configuration.hints.missing_cpu),
        node_zones=node_zones,
        configuration=configuration,
        pods_known=pods_known,
        consumer=CONSUMERS[options.consumer],
    )


def select_services(options: Options, *, workloads: bool = False) -> SelectedServices:
    """Read the snapshot and select Services. ``workloads``: a live cluster's workload objects are read, too.

    Raises InputError or a usage error.
    """
    configuration = load_configuration(options)
    snapshot = load_snapshot(options, workloads=workloads)
    selected = _select(snapshot, options, configuration)
    if not options.changes:
        return selected
    from zoneward.cli.changed_snapshot import change_snapshot

    changed, notes = change_snapshot(snapshot, options.changes)
    return replace(
        _select(changed, options, configuration), notes=(*selected.notes, *map(Note, notes)), unchanged=selected
    )


def _select(snapshot: Snapshot, options: Options, configuration: Configuration) -> SelectedServices:
    services = filter_services(snapshot, options)
    cluster_state = build_cluster_state(
        snapshot.nodes, snapshot.node_zones, options=options, configuration=configuration, pods_known=snapshot.has_pods
    )
    taken: dict[str, set[str]] = {}
    for each in snapshot.slices:
        taken.setdefault(each.metadata.namespace, set()).add(each.metadata.name)
    return SelectedServices(snapshot, cluster_state, tuple(services), taken, tuple(_notes(snapshot, services, options)))


def _notes(snapshot: Snapshot, services: Sequence[Service], options: Options) -> Iterator[Note]:
    yield from reading_notes(snapshot)
    if not snapshot.has_pods:
        yield Note("no Pods in the snapshot: endpoints are taken from its EndpointSlices")
    if not snapshot.nodes:
        yield Note("no Nodes in the snapshot: zones and demand are unknown")
    if not services:
        yield no_services_note(snapshot, options)
