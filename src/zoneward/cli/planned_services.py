"""The selected Services of a snapshot and their plans."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zoneward.advice.node_proxies import NodeProxies, detect_node_proxies, same_proxy_everywhere
from zoneward.advice.now import CurrentTraffic, traffic_now
from zoneward.advice.proxy_kinds import PROXY_KINDS
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
from zoneward.kube.objects import ConfigMap, DaemonSet, Node, ObjectKey, ProxyPod, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.routing.request.what_if import as_if_requested
from zoneward.routing.rules import counted
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SelectedServices:
    """A snapshot and the selected Services of it.

    ``taken`` has the names of all slices by namespace, ``node_proxies`` the kinds of proxies on the nodes. Print
    ``notes`` on standard error once nothing can fail any more: bad input causes one line and nothing else.
    """

    snapshot: Snapshot
    cluster_state: ClusterState
    node_proxies: NodeProxies
    services: tuple[Service, ...]
    taken: Mapping[str, Container[str]]
    notes: tuple[Note, ...]

    @property
    def configuration(self) -> Configuration:
        return self.cluster_state.configuration

    def now_of(self, service: Service) -> dict[str, CurrentTraffic]:
        """What the slices of a Service in the snapshot do, by address type."""
        return traffic_now(
            service,
            slices=self.snapshot.slices_of(service),
            demand=self.cluster_state.demand,
            node_proxies=self.node_proxies,
            gates=self.configuration.gates,
        )

    def now(self) -> dict[ObjectKey, dict[str, CurrentTraffic]]:
        """The same for all selected Services, by namespace and name."""
        return {(each.metadata.namespace, each.metadata.name): self.now_of(each) for each in self.services}


@dataclass(frozen=True, slots=True)
class PlannedServices(SelectedServices):
    """The same with the plans of the Services, in their order."""

    plans: tuple[ServicePlan, ...]


def plan_services(options: Options) -> PlannedServices:
    """Plan the selected Services of the snapshot. Raises InputError or a usage error, before anything is printed."""
    with without_gc():
        selected = select_services(options)
        plans = tuple(
            plan_service(
                with_what_if(service, options),
                pods=selected.snapshot.pods_of(service),
                slices=selected.snapshot.slices_of(service),
                cluster_state=selected.cluster_state,
                taken=selected.taken.get(service.metadata.namespace, ()),
            )
            for service in selected.services
        )
    return PlannedServices(
        selected.snapshot,
        selected.cluster_state,
        selected.node_proxies,
        selected.services,
        selected.taken,
        selected.notes,
        plans,
    )


def with_what_if(service: Service, options: Options) -> Service:
    """The Service, or what it would be with ``--what-if``."""
    return as_if_requested(service, options.what_if) if options.what_if else service


def build_cluster_state(
    nodes: Iterable[Node],
    node_zones: Mapping[str, str | None],
    *,
    configuration: Configuration,
    pods_known: bool,
    node_proxies: NodeProxies,
) -> ClusterState:
    """What the plans of all Services depend on, from the Nodes and their proxies."""
    return ClusterState(
        demand=compute_demand(nodes, missing_cpu=configuration.hints.missing_cpu),
        node_zones=node_zones,
        configuration=configuration,
        pods_known=pods_known,
        consumer=node_proxies.default.consumer,
        consumer_by_node=node_proxies.consumer_by_node,
        labelled_consumer=node_proxies.labelled.consumer,
    )


def find_node_proxies(
    nodes: Iterable[Node],
    *,
    options: Options,
    daemon_sets: Iterable[DaemonSet],
    pods: Iterable[ProxyPod],
    config_maps: Iterable[ConfigMap],
    missing: Sequence[str],
) -> NodeProxies:
    """The kinds of proxies on the nodes: that of ``--proxy``, or what is detected."""
    if options.proxy is not None:
        return same_proxy_everywhere(nodes, PROXY_KINDS[options.proxy])
    return detect_node_proxies(nodes, daemon_sets=daemon_sets, pods=pods, config_maps=config_maps, missing=missing)


def proxies_in(snapshot: Snapshot, options: Options) -> NodeProxies:
    """The kinds of proxies on the nodes of a snapshot."""
    return find_node_proxies(
        snapshot.nodes,
        options=options,
        daemon_sets=snapshot.daemon_sets,
        pods=snapshot.proxy_pods,
        config_maps=snapshot.config_maps,
        missing=snapshot.unread_proxy_objects,
    )


def select_services(options: Options) -> SelectedServices:
    """Read the snapshot and select Services. Raises InputError or a usage error."""
    configuration = load_configuration(options)
    snapshot = load_snapshot(options)
    services = filter_services(snapshot, options)
    node_proxies = proxies_in(snapshot, options)
    cluster_state = build_cluster_state(
        snapshot.nodes,
        snapshot.node_zones,
        configuration=configuration,
        pods_known=snapshot.has_pods,
        node_proxies=node_proxies,
    )
    taken: dict[str, set[str]] = {}
    for each in snapshot.slices:
        taken.setdefault(each.metadata.namespace, set()).add(each.metadata.name)
    notes = tuple(_notes(snapshot, services, node_proxies))
    return SelectedServices(snapshot, cluster_state, node_proxies, tuple(services), taken, notes)


def proxy_notes(node_proxies: NodeProxies) -> Iterator[Note]:
    """What is not known of the nodes' proxies; with ``-v`` also what is, and from what."""
    yield from map(Note, node_proxies.notes)
    found = Counter((kind, node_proxies.evidence.get(node, "")) for node, kind in node_proxies.kind_of.items())
    for (kind, evidence), number in found.most_common():
        yield Note(f"{counted(number, 'node')} with {kind.title}, which {kind.about}: {evidence}", verbose=True)


def _notes(snapshot: Snapshot, services: Sequence[Service], node_proxies: NodeProxies) -> Iterator[Note]:
    yield from reading_notes(snapshot)
    if services:
        yield from proxy_notes(node_proxies)
    if not snapshot.has_pods:
        yield Note("no Pods in the snapshot: endpoints are taken from its EndpointSlices")
    if not snapshot.nodes:
        yield Note("no Nodes in the snapshot: zones and demand are unknown")
    if not services:
        yield no_services_note(snapshot)
