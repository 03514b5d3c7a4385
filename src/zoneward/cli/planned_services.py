"""The selected Services of a snapshot and their plans."""

import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from msgspec import structs

from zoneward.advice.cluster_abilities import kubernetes_configuration, kubernetes_minor
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
from zoneward.kube.adoption_marks import has_selector_annotation, manager_of
from zoneward.kube.gc_tuning import without_gc
from zoneward.kube.objects import (
    ConfigMap,
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
from zoneward.routing.phrases import counted
from zoneward.routing.what_if import NO_APPROACH, as_if_requested
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.existing import approach_of_slice
from zoneward.slices.overlay import FamilyOverlay, read_entries
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot

_KUBERNETES_VALUES: Final = ("Auto", *BUILT_IN_HEURISTICS, NO_APPROACH)
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
    cluster_state: ClusterState
    node_proxies: NodeProxies
    services: tuple[Service, ...]
    notes: tuple[Note, ...] = ()
    unchanged: "SelectedServices | None" = None
    zoneward_configuration: Configuration | None = None
    """What Zoneward would decide by, where ``configuration`` decides as Kubernetes does because that runs there."""

    @property
    def configuration(self) -> Configuration:
        return self.cluster_state.configuration

    @property
    def is_kubernetes(self) -> bool:
        """Whether the configuration decides as Kubernetes does because that is what runs there."""
        return self.zoneward_configuration is not None

    def of_zoneward(self) -> "SelectedServices | None":
        """The same by the configuration of Zoneward; None where that is this one."""
        if self.zoneward_configuration is None:
            return None
        state = replace(self.cluster_state, configuration=self.zoneward_configuration)
        unchanged = self.unchanged.of_zoneward() if self.unchanged is not None else None
        return replace(self, cluster_state=state, unchanged=unchanged, zoneward_configuration=None)

    @cached_property
    def plans(self) -> tuple[ServicePlan, ...]:
        """Those of the Services, in their order."""
        with without_gc():
            return tuple(
                plan_service(
                    with_what_if(service, self.options, self.configuration),
                    pods=self.snapshot.pods_of(service),
                    slices=self.snapshot.slices_of(service),
                    cluster_state=self.cluster_state,
                    taken=self._slice_names.get(service.metadata.namespace, ()),
                )
                for service in self.services
            )

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
        return ServiceInput(
            service,
            self.snapshot.nodes,
            self.snapshot.pods_of(service),
            self.snapshot.slices_of(service),
            self.cluster_state.for_service(service),
            self._slice_names.get(namespace, ()),
            namespace_pods=self.snapshot.pods_in(namespace),
            objects=objects,
            is_changed=self.unchanged is not None,
        )

    def overlays(self) -> dict[tuple[str, str, str], FamilyOverlay]:
        """What ConfigMaps of an overlay say, by namespace, Service and address type."""
        return {
            (config_map.metadata.namespace, *key): overlay
            for config_map in self.snapshot.config_maps
            if config_map.metadata.name == names.OVERLAY_CONFIG_MAP
            for key, overlay in read_entries(config_map.data or {}).items()
        }

    def now_of(self, service: Service) -> dict[str, CurrentTraffic]:
        """What the slices of a Service in the snapshot do, by address type."""
        return self.input_of(service).traffic_now(self.node_proxies)

    def now(self) -> dict[ObjectKey, dict[str, CurrentTraffic]]:
        """The same for all selected Services, by namespace and name, in the cluster as it was read."""
        read = self.unchanged or self
        return {(service.metadata.namespace, service.metadata.name): read.now_of(service) for service in read.services}


def with_what_if(service: Service, options: Options, configuration: Configuration) -> Service:
    """The Service, or what it would be with ``--what-if``."""
    return as_if_requested(service, options.what_if, configuration) if options.what_if else service


def build_cluster_state(
    nodes: Iterable[Node],
    node_zones: Mapping[str, str | None],
    *,
    configuration: Configuration,
    pods_known: bool,
    node_proxies: NodeProxies,
    service_parts: ServiceParts = NO_PARTS,
) -> ClusterState:
    """What the plans of all Services depend on, from the Nodes and their proxies, and what is known of demand."""
    demand, cpu_demand = demands_of(nodes, configuration)
    return ClusterState(
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


def _has_overlay(config_maps: Iterable[ConfigMap]) -> bool:
    return any(config_map.metadata.name == names.OVERLAY_CONFIG_MAP for config_map in config_maps)


def configuration_of_kubernetes(
    configuration: Configuration, options: Options, snapshot: Snapshot
) -> Configuration | None:
    """The same, deciding as this cluster's version of Kubernetes does; None unless the built-in controller writes the
    slices of the cluster, and no option asks for Zoneward.
    """
    if options.upstream or options.with_mode is not None or options.what_if not in (None, *_KUBERNETES_VALUES):
        return None
    if configuration.keep_built_in_label or any(map(approach_of_slice, snapshot.slices)):
        # Zoneward's slices may have the label of the built-in controller.
        return None
    managers = set(map(manager_of, snapshot.slices))
    if names.BUILT_IN_MANAGER not in managers or names.MANAGER in managers or _has_overlay(snapshot.config_maps):
        return None
    if any(map(has_selector_annotation, snapshot.services)):
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
def select_services(options: Options, *, workloads: bool = False, views_kubernetes: bool = False) -> SelectedServices:
    """Read the snapshot and select Services. ``workloads``: a live cluster's workload objects are read, too.
    ``views_kubernetes``: where the built-in controller writes the slices, decide as it does.

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
    of_zoneward = of_kubernetes = None
    if views_kubernetes:
        of_kubernetes = configuration_of_kubernetes(known_demand.configuration, options, snapshot)
    if of_kubernetes is not None:
        of_zoneward = known_demand.configuration
        known_demand = replace(known_demand, configuration=of_kubernetes)
    selected = replace(_select(snapshot, options, known_demand), zoneward_configuration=of_zoneward)
    if not options.changes:
        return selected
    from zoneward.cli.changed_snapshot import change_snapshot

    changed, notes = change_snapshot(snapshot, options.changes)
    return replace(
        _select(changed, options, known_demand),
        notes=(*selected.notes, *map(Note, notes)),
        unchanged=selected,
        zoneward_configuration=of_zoneward,
    )


def _select(snapshot: Snapshot, options: Options, known_demand: KnownDemand) -> SelectedServices:
    services = filter_services(snapshot, options)
    node_proxies = proxies_in(snapshot, options)
    cluster_state = build_cluster_state(
        snapshot.nodes,
        snapshot.node_zones,
        configuration=known_demand.configuration,
        pods_known=snapshot.has_pods,
        node_proxies=node_proxies,
        service_parts=known_demand.service_parts,
    )
    notes = tuple(_notes(snapshot, services, node_proxies, options, known_demand))
    return SelectedServices(options, snapshot, cluster_state, node_proxies, tuple(services), notes)


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
    if options.with_mode is None and _has_overlay(snapshot.config_maps):
        yield Note("an overlay of Zoneward is in use: --with overlay shows what it does")
    if not snapshot.has_pods:
        yield Note("no Pods in the snapshot: endpoints are taken from its EndpointSlices")
    if not snapshot.nodes:
        yield Note("no Nodes in the snapshot: zones and demand are unknown")
    if not services:
        yield no_services_note(snapshot, options)
