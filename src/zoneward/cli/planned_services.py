"""The selected Services of a snapshot and their plans."""

import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from msgspec import structs

from zoneward.advice.cluster_abilities import OVERLAY_SINCE, kubernetes_configuration, kubernetes_minor
from zoneward.advice.deciders import NO_OVERLAYS, ClusterStates, Overlays
from zoneward.advice.findings.codes import Need
from zoneward.advice.node_proxies import PROXY_KINDS, NodeProxies, ProxyKind, detect_node_proxies, same_proxy_everywhere
from zoneward.advice.now import CurrentTraffic
from zoneward.advice.service_input import NO_OBJECTS, ServiceInput, WorkloadObjects
from zoneward.cli.cluster_input import (
    filter_services,
    load_configuration,
    load_snapshot,
    no_services_note,
    reading_notes,
)
from zoneward.cli.known_demand import NO_PARTS, KnownDemand, ServiceParts, know_demand
from zoneward.cli.options import Options
from zoneward.cli.output import Note
from zoneward.kube import names
from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.gc_tuning import without_gc
from zoneward.kube.objects import (
    ConfigMap,
    EndpointSlice,
    Node,
    ObjectKey,
    Service,
    node_zone,
    time_text,
)
from zoneward.kube.workload_objects import plural
from zoneward.routing.algorithms.heuristics import BUILT_IN_HEURISTICS
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import demands_of
from zoneward.routing.phrases import counted, listed
from zoneward.routing.what_if import NO_APPROACH, as_if_requested
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.existing import approach_of_slice
from zoneward.slices.overlay import read_entries
from zoneward.slices.plan import ServicePlan
from zoneward.snapshots.cluster_snapshot import Snapshot

_KUBERNETES_VALUES: Final = ("Auto", *BUILT_IN_HEURISTICS, names.PREFER_CLOSE, NO_APPROACH)
"""Values of ``--what-if`` that Kubernetes knows."""
_WORKLOAD_KINDS: Final[tuple[tuple[Need, tuple[str, ...]], ...]] = (
    ("workloads", ("Deployment", "StatefulSet")),
    ("autoscalers", ("HorizontalPodAutoscaler",)),
    ("volumes", ("PersistentVolumeClaim", "PersistentVolume")),
    ("Leases", ("Lease",)),
    ("policies", ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")),
)


@dataclass(frozen=True)
class SelectedServices:
    """A snapshot and the selected Services of it.

    ``node_proxies`` has the kinds of proxies on the nodes. Print ``notes`` on standard error once nothing can fail any
    more: bad input causes one line and nothing else.

    Where options change the input (``--without-zone``), all this is of the changed cluster, and ``unchanged`` is the
    same Services in the cluster as it was read; else None.
    """

    options: Options
    snapshot: Snapshot
    states: ClusterStates
    node_proxies: NodeProxies
    services: tuple[Service, ...]
    notes: tuple[Note, ...] = ()
    unchanged: "SelectedServices | None" = None

    @property
    def cluster_state(self) -> ClusterState:
        """What plans depend on in the cluster as a whole; `input_of` has that of one Service."""
        return self.states.of_most

    @property
    def configuration(self) -> Configuration:
        return self.cluster_state.configuration

    @property
    def kubernetes(self) -> int | None:
        """The minor version of Kubernetes, at least; None where nothing says it. An overlay in use does, too."""
        kubelets = kubernetes_minor(self.snapshot.nodes)
        return max(kubelets or 0, OVERLAY_SINCE) if self.states.overlays else kubelets

    @cached_property
    def of_zoneward(self) -> "SelectedServices":
        """The same as Zoneward decides, or would decide."""
        unchanged = None if self.unchanged is None else self.unchanged.of_zoneward
        return replace(self, states=replace(self.states, asks_zoneward=True), unchanged=unchanged)

    @cached_property
    def plans(self) -> tuple[ServicePlan, ...]:
        """Those of the Services, in their order."""
        with without_gc():
            return tuple(self.asked_of(service).plan for service in self.services)

    @cached_property
    def plans_before(self) -> tuple[ServicePlan, ...] | None:
        """Those of the unchanged cluster, with the same settings; None where no option changes the input."""
        return None if self.unchanged is None else self.unchanged.plans

    @cached_property
    def _slice_names(self) -> Mapping[str, Container[str]]:
        names_in: dict[str, set[str]] = {}
        for slice_ in self.snapshot.slices:
            names_in.setdefault(slice_.metadata.namespace, set()).add(slice_.metadata.name)
        return names_in

    def input_of(self, service: Service, objects: WorkloadObjects = NO_OBJECTS) -> ServiceInput:
        """What the advice about one of the Services reads. ``objects`` are the workloads of the snapshot."""
        namespace = service.metadata.namespace
        state, slices = self.states.decided(service, self.snapshot.slices_of(service))
        return ServiceInput(
            service,
            self.snapshot.nodes,
            self.snapshot.pods_of(service),
            slices,
            state.for_service(service),
            self._slice_names.get(namespace, ()),
            namespace_pods=self.snapshot.pods_in(namespace),
            objects=objects,
            is_changed=self.unchanged is not None,
        )

    def asked_of(self, service: Service, objects: WorkloadObjects = NO_OBJECTS) -> ServiceInput:
        """The same as the Service would be with ``--what-if``."""
        given = self.input_of(service, objects)
        asking = with_what_if(service, self.options, given.cluster_state.configuration)
        return given if asking is service else replace(given, service=asking)

    def now_of(self, service: Service) -> dict[str, CurrentTraffic]:
        """What the slices of a Service in the snapshot do, by address type."""
        return self.input_of(service).traffic_now(self.node_proxies)

    def now(self) -> dict[ObjectKey, dict[str, CurrentTraffic]]:
        """The same for all selected Services, by namespace and name, in the cluster as it was read."""
        read = self.unchanged or self
        return {(service.metadata.namespace, service.metadata.name): read.now_of(service) for service in read.services}


def with_what_if(service: Service, options: Options, configuration: Configuration) -> Service:
    """The Service, or what it would be with ``--what-if``."""
    if options.what_if == names.PREFER_CLOSE:
        return as_if_requested(service, names.PREFER_SAME_ZONE, configuration, same_zone=names.PREFER_CLOSE)
    return as_if_requested(service, options.what_if, configuration) if options.what_if else service


def build_cluster_states(
    nodes: Iterable[Node],
    node_zones: Mapping[str, str | None],
    *,
    options: Options,
    configuration: Configuration,
    of_kubernetes: Configuration | None = None,
    overlays: Overlays = NO_OVERLAYS,
    pods_known: bool,
    node_proxies: NodeProxies,
    service_parts: ServiceParts = NO_PARTS,
) -> ClusterStates:
    """What the plans of all Services depend on, from the Nodes and their proxies, and what is known of demand.
    ``of_kubernetes`` is `configuration_of_kubernetes`.
    """
    nodes = tuple(nodes)
    demand, cpu_demand = demands_of(nodes, configuration)
    zoneward = ClusterState(
        demand=demand,
        cpu_demand=cpu_demand,
        node_zones=node_zones,
        configuration=configuration,
        pods_known=pods_known,
        consumer=node_proxies.default.consumer,
        consumer_by_node=node_proxies.consumer_by_node,
        labelled_consumer=node_proxies.labelled.consumer,
        service_parts=service_parts,
    )
    states = ClusterStates.of(zoneward, nodes, of_kubernetes, overlays)
    return states if options.what_if in (None, *_KUBERNETES_VALUES) else replace(states, asks_zoneward=True)


def proxies_in(snapshot: Snapshot, options: Options) -> NodeProxies:
    """The kinds of proxies on the nodes: that of ``--proxy``, or what is detected."""
    if options.proxy is not None:
        return same_proxy_everywhere(snapshot.nodes, PROXY_KINDS[options.proxy])
    return detect_node_proxies(
        snapshot.nodes,
        daemon_sets=snapshot.daemon_sets,
        pods=snapshot.proxy_pods,
        config_maps=snapshot.config_maps,
        missing=snapshot.unread_proxy_objects,
    )


def read_overlays(config_maps: Iterable[ConfigMap]) -> Overlays:
    """What those of an overlay say."""
    return {
        (config_map.metadata.namespace, *key): overlay
        for config_map in config_maps
        if config_map.metadata.name == names.OVERLAY_CONFIG_MAP
        for key, overlay in read_entries(config_map.data or {}).items()
    }


def built_in_slices(snapshot: Snapshot) -> tuple[EndpointSlice, ...]:
    """Those with the label of the built-in controller."""
    return tuple(slice_ for slice_ in snapshot.slices if manager_of(slice_) == names.BUILT_IN_MANAGER)


def configuration_of_kubernetes(
    configuration: Configuration, options: Options, snapshot: Snapshot, *, assumed: bool = False
) -> Configuration | None:
    """The same, deciding as this cluster's version of Kubernetes does; None unless the built-in controller writes
    slices of the cluster, and no option says who decides. ``assumed``: it does where no slices are known.
    """
    if options.upstream or options.with_mode is not None:
        return None
    built_in = built_in_slices(snapshot)
    is_written = any(map(approach_of_slice, built_in)) and not read_overlays(snapshot.config_maps)
    if configuration.keep_built_in_label or is_written:
        # Zoneward's slices may have the label of the built-in controller. Beside an overlay, they are left over.
        return None
    if not built_in and not assumed:
        return None
    return kubernetes_configuration(configuration, kubernetes_minor(snapshot.nodes))


def read_workload_objects(snapshot: Snapshot) -> WorkloadObjects:
    """The workload objects of a snapshot, without Leases, and why some are not known. Only `advise`, `check` and
    `explain` read them.
    """
    return WorkloadObjects.of(snapshot.workload_objects, lacking=dict(_lacking_workloads(snapshot)))


def _lacking_workloads(snapshot: Snapshot) -> Iterator[tuple[Need, str]]:
    present = {type(workload).__name__ for workload in snapshot.workload_objects}
    for need, kinds in _WORKLOAD_KINDS:
        unread = next((kind for kind in kinds if kind in snapshot.unread_workloads), None)
        if unread is not None:
            yield need, f"{plural(unread)} cannot be read ({snapshot.unread_workloads[unread]})"
        elif not snapshot.lists_workloads and not present.intersection(kinds):
            yield need, f"there are no {' and no '.join(map(plural, kinds))} in the snapshot"


@without_gc()
def select_services(options: Options, *, workloads: bool = False, assumes_kubernetes: bool = False) -> SelectedServices:
    """Read the snapshot and select Services. ``workloads``: a live cluster's workload objects are read, too.
    ``assumes_kubernetes``: where there are no slices, the built-in controller decides.

    Raises InputError or a usage error.
    """
    configuration = load_configuration(options)
    if not (options.files or options.sample):
        # A snapshot shows Nodes as they were at a time that is not known: none of them is new.
        configuration = structs.replace(
            configuration, nodes_new_since=time_text(time.time() - configuration.hints.new_node_grace)
        )
    snapshot = load_snapshot(options, workloads=workloads)
    known_demand = know_demand(
        configuration,
        nodes=snapshot.node_names,
        zones={zone for node in snapshot.nodes if (zone := node_zone(node))},
        services={(service.metadata.namespace, service.metadata.name) for service in snapshot.services},
    )
    of_kubernetes = configuration_of_kubernetes(
        known_demand.configuration, options, snapshot, assumed=assumes_kubernetes
    )
    selected = _select(snapshot, options, known_demand, of_kubernetes)
    if not options.changes:
        return selected
    from zoneward.cli.changed_snapshot import change_snapshot

    changed, notes = change_snapshot(snapshot, options.changes)
    return replace(
        _select(changed, options, known_demand, of_kubernetes),
        notes=(*selected.notes, *map(Note, notes)),
        unchanged=selected,
    )


def _select(
    snapshot: Snapshot, options: Options, known_demand: KnownDemand, of_kubernetes: Configuration | None
) -> SelectedServices:
    services = filter_services(snapshot, options)
    node_proxies = proxies_in(snapshot, options)
    states = build_cluster_states(
        snapshot.nodes,
        snapshot.node_zones,
        options=options,
        configuration=known_demand.configuration,
        of_kubernetes=of_kubernetes,
        overlays=read_overlays(snapshot.config_maps),
        pods_known=snapshot.has_pods,
        node_proxies=node_proxies,
        service_parts=known_demand.service_parts,
    )
    notes = tuple(_notes(snapshot, services, node_proxies, options, known_demand))
    return SelectedServices(options, snapshot, states, node_proxies, tuple(services), notes)


def proxy_notes(node_proxies: NodeProxies) -> Iterator[Note]:
    """What is not known of the nodes' proxies; with ``-v`` also what is, and from what."""
    yield from map(Note, node_proxies.notes)
    evidence: dict[ProxyKind, list[str]] = {}
    for node, kind in node_proxies.kind_of.items():
        evidence.setdefault(kind, []).append(node_proxies.evidence.get(node, ""))
    for kind, sources in sorted(evidence.items(), key=lambda item: -len(item[1])):
        first, *others = dict.fromkeys(sources)
        more = f" and {len(others)} more" if others else ""
        yield Note(
            f"{counted(len(sources), 'node')} with {kind.title}, which {kind.about}: {first}{more}", verbose=True
        )


def _fault_domains(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The zones of Nodes of AKS that are none."""
    zones = {node_zone(node) for node in nodes if names.AKS_CLUSTER_LABEL in (node.metadata.labels or {})}
    return tuple(sorted(zone for zone in zones if zone is not None and zone.isdecimal()))


def _notes(
    snapshot: Snapshot,
    services: Sequence[Service],
    node_proxies: NodeProxies,
    options: Options,
    known_demand: KnownDemand,
) -> Iterator[Note]:
    yield from reading_notes(snapshot)
    yield from known_demand.notes
    if services:
        yield from proxy_notes(node_proxies)
    if not snapshot.has_pods:
        yield Note("no Pods in the snapshot: endpoints are taken from its EndpointSlices")
    if domains := _fault_domains(snapshot.nodes):
        are = "is a fault domain" if len(domains) == 1 else "are fault domains"
        zones = f"zone{'s' if len(domains) > 1 else ''} {listed(domains)}"
        yield Note(f"{zones} {are} of Azure: node pools without availability zones have no other")
    if not snapshot.nodes:
        yield Note("no Nodes in the snapshot: zones and demand are unknown")
    if not services:
        yield no_services_note(snapshot, options)
