"""A cluster as the checks see it: typed objects, the plan of each Service, and what its slices do now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from zoneward.advice.cluster_abilities import kubernetes_minor, setting_name
from zoneward.advice.deciders import NO_OVERLAYS, Overlays
from zoneward.advice.dropped_traffic import DroppedTraffic, dropped_first, dropped_traffic
from zoneward.advice.findings.codes import FindingObject, Need
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.now import CurrentTraffic
from zoneward.advice.service_input import ServiceInput
from zoneward.kube.adoption_marks import effective_selector, runs_zoneward
from zoneward.kube.objects import Node, ObjectKey, Service
from zoneward.kube.overlay_objects import OVERLAY
from zoneward.kube.workload_objects import (
    HorizontalPodAutoscaler,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    PersistentVolume,
    PersistentVolumeClaim,
    Workload,
)
from zoneward.routing.algorithms.heuristics import HEURISTICS, Heuristic
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.overlay import is_selected
from zoneward.slices.plan import FamilyPlan, ServicePlan


@dataclass(frozen=True)
class ServiceView:
    """One Service: as it is, with its Pods and all slices that name it, its plan, and its traffic now.

    ``asking`` is the same Service with what ``--what-if`` asks for: the plan is for that one. ``current`` is by address
    type.
    """

    given: ServiceInput
    current: Mapping[str, CurrentTraffic]
    asking: Service | None = None

    @property
    def service(self) -> Service:
        return self.given.service

    @cached_property
    def plan(self) -> ServicePlan:
        return (self.given if self.asking is None else replace(self.given, service=self.asking)).plan

    @property
    def key(self) -> ObjectKey:
        return self.given.key

    @property
    def object(self) -> FindingObject:
        return FindingObject("Service", *self.key)

    @property
    def runs_zoneward(self) -> bool:
        """As `zoneward.kube.adoption_marks.runs_zoneward`."""
        return runs_zoneward(self.service, self.given.slices)

    @property
    def is_hypothetical(self) -> bool:
        """Whether the plan is for other settings than those of the Service."""
        return self.plan.service is not self.service

    @cached_property
    def asks(self) -> bool:
        """Whether it asks for zone aware routing, by a setting or by the controller's default."""
        for family in self.plan.families:
            requested = family.cluster_state.requested(self.plan.service)
            return requested.accepted is not None or requested.heuristic is not None
        return False

    def dropped(self, family: FamilyPlan) -> DroppedTraffic | None:
        """What proxies drop of one address family: now, else as planned."""
        planned = dropped_traffic(family.service, family.slices, family.traffic, family.cluster_state.demand)
        current = self.current.get(family.address_type)
        if current is None or self.is_hypothetical:
            return planned
        slices = self.given.slices_of(family.address_type)
        now = dropped_traffic(self.service, slices, current.traffic, family.cluster_state.demand)
        return dropped_first(now, planned)

    def asking_families(self) -> Iterator[tuple[FamilyPlan, Heuristic]]:
        """The families for which a heuristic is requested, with it."""
        for family in self.plan.families:
            name = family.decision.heuristic
            if name is not None and name in HEURISTICS:
                yield family, HEURISTICS[name]


@dataclass(frozen=True)
class ClusterView:
    """All that checks read. ``lacking`` says, in a phrase, why some of it is not known.

    ``services`` are the selected ones; all other objects are those of the whole cluster, or of one namespace.
    """

    nodes: tuple[Node, ...]
    cluster_state: ClusterState
    services: tuple[ServiceView, ...]
    node_proxies: NodeProxies | None = None
    workloads: tuple[Workload, ...] = ()
    autoscalers: tuple[HorizontalPodAutoscaler, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    overlays: Overlays = field(default_factory=lambda: NO_OVERLAYS)
    policies: tuple[MutatingAdmissionPolicy, ...] = ()
    policy_bindings: tuple[MutatingAdmissionPolicyBinding, ...] = ()
    is_led: bool = True
    """Whether a controller of Zoneward's runs, by its Lease."""
    lacking: Mapping[Need, str] = field(default_factory=lambda: MappingProxyType({}))

    def knows(self, *needs: Need) -> bool:
        return not any(need in self.lacking for need in needs)

    def expects_overlay_of(self, service: Service) -> bool:
        """Whether the policy of an overlay is installed, and a Service is to be in that overlay."""
        if not self.knows("policies") or not any(one.spec.policy_name == OVERLAY for one in self.policy_bindings):
            return False
        return is_selected(service, None, self.cluster_state.configuration)

    @cached_property
    def kubernetes(self) -> int | None:
        """The minor version of Kubernetes, None where it is not known."""
        return kubernetes_minor(self.nodes)

    def name_of(self, approach: str | None) -> str:
        """What the cluster calls an approach."""
        return setting_name(approach or "", self.kubernetes)

    @cached_property
    def needs_old_annotation(self) -> bool:
        """Whether a proxy is known that does not know ``topology-mode``."""
        proxies = self.node_proxies
        return proxies is not None and any(
            proxies.on(node.metadata.name).consumer.zone_hints == "old-annotation" for node in self.nodes
        )

    @cached_property
    def all_honor_node_hints(self) -> bool:
        """Whether no proxy is known to ignore hints for nodes."""
        proxies = self.node_proxies
        return proxies is None or all(proxies.on(node.metadata.name).consumer.node_hints for node in self.nodes)

    @cached_property
    def services_of_workloads(self) -> Mapping[FindingObject, tuple[ServiceView, ...]]:
        """The Services that select the Pods of each workload; workloads that none selects are left out."""
        by_label: dict[tuple[str, str, str], list[ServiceView]] = {}
        for view in self.services:
            selector = effective_selector(view.service)
            if selector:
                # A Pod must have every label of the selector, so one of them is enough as a key.
                key = min(selector)
                by_label.setdefault((view.key[0], key, selector[key]), []).append(view)
        services = {}
        for workload in self.workloads:
            labels = workload.spec.template.metadata.labels or {}
            namespace = workload.metadata.namespace
            selecting = tuple(
                view
                for label in labels.items()
                for view in by_label.get((namespace, *label), ())
                if (effective_selector(view.service) or {}).items() <= labels.items()
            )
            if selecting:
                services[object_of(workload)] = selecting
        return services


def object_of(workload: Workload) -> FindingObject:
    return FindingObject(type(workload).__name__, workload.metadata.namespace, workload.metadata.name)
