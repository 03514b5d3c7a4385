"""Everything that the plan of one Service depends on, and the same with a change: other numbers of Pods, labels of
Nodes, settings of the Service. The workload of its Pods is found by their owners or the labels of its controller.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from zoneward.advice.changed_cluster import ServicePods, SliceReplicas
from zoneward.advice.findings.codes import Need
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.now import CurrentTraffic, traffic_now
from zoneward.kube import names, workload_objects
from zoneward.kube.adoption_marks import effective_selector, runs_zoneward
from zoneward.kube.objects import EndpointSlice, Node, ObjectKey, Pod, Service, node_zone
from zoneward.kube.workload_objects import (
    HorizontalPodAutoscaler,
    PersistentVolume,
    PersistentVolumeClaim,
    WorkloadObject,
)
from zoneward.routing.demand import cpu_demand_of, demands_of
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.overlay import overlay_configuration
from zoneward.slices.plan import FamilyPlan, ServicePlan, plan_service

POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which a Deployment distinguishes the Pods of its ReplicaSets."""
_ROLLOUT_TEMPLATE_HASH: Final = "rollouts-pod-template-hash"
"""The same of a Rollout of Argo Rollouts, which undoes changes of its ReplicaSets."""
_STATEFUL_SET_POD: Final = "statefulset.kubernetes.io/pod-name"
_API_VERSION: Final = "apps/v1"
_MAKERS_OF_REPLICA_SETS: Final = (
    (POD_TEMPLATE_HASH, "Deployment", _API_VERSION),
    (_ROLLOUT_TEMPLATE_HASH, "Rollout", "argoproj.io/v1alpha1"),
)
_SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_NOT_SCALED: Final = ("DaemonSet", "Job", "Node")
_BUILT_IN_GROUPS: Final = ("apps", "batch")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_VERSION: Final = re.compile(rf"(({_NAME.pattern}/)?v[a-z0-9]{{1,30}})?")
"""What a name, a kind and an apiVersion look like. API servers take any text in an ``ownerReference``, and anybody who
may write Pods may write it.
"""


Owner = tuple[str, str, str]
"""Kind, name and apiVersion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadObjects:
    """Workloads, autoscalers and volumes of the input. ``lacking`` says, in a phrase, why some kinds are missing."""

    workloads: tuple[workload_objects.Workload, ...] = ()
    autoscalers: tuple[HorizontalPodAutoscaler, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    lacking: Mapping[Need, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, objects: Iterable[WorkloadObject], *, lacking: Mapping[Need, str] | None = None) -> "WorkloadObjects":
        """Sort objects by what they are read for."""
        objects = tuple(objects)
        return cls(
            workloads=tuple(object_ for object_ in objects if isinstance(object_, workload_objects.Workload)),
            autoscalers=tuple(object_ for object_ in objects if isinstance(object_, HorizontalPodAutoscaler)),
            claims=tuple(object_ for object_ in objects if isinstance(object_, PersistentVolumeClaim)),
            volumes=tuple(object_ for object_ in objects if isinstance(object_, PersistentVolume)),
            lacking=MappingProxyType(dict(lacking or {})),
        )


NO_OBJECTS: Final = WorkloadObjects()


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that makes Pods: ``Deployment``, ``StatefulSet`` and so on; others have an ``api_version`` of their
    own. ``pods`` counts those of the Service. ``object`` is the workload itself and ``autoscaler`` what scales it, None
    where the input does not have them.
    """

    kind: str
    name: str
    api_version: str
    pods: int
    object: workload_objects.Workload | None = None
    autoscaler: HorizontalPodAutoscaler | None = None

    @property
    def scales(self) -> bool:
        """Whether it has a number of replicas that people may set. A kind that is not known is taken to have one."""
        return self.kind not in _NOT_SCALED

    @property
    def is_built_in(self) -> bool:
        """Not of another API group that has a kind with the same name, such as OpenKruise's StatefulSet."""
        group, slash, _ = self.api_version.rpartition("/")
        return self.kind in (*_SCALED, *_NOT_SCALED) and (not slash or group in _BUILT_IN_GROUPS)

    @property
    def resource(self) -> str:
        """What kubectl calls it: ``deployment/cart``, ``rollout.argoproj.io/cart``."""
        group, slash, _ = self.api_version.rpartition("/")
        return f"{self.kind.lower()}{'.' + group if slash and not self.is_built_in else ''}/{self.name}"


UNKNOWN_WORKLOAD: Final = Workload("Deployment", "NAME", _API_VERSION, 0)
"""Used where the input does not say what owns the Pods."""


def workload_of(
    pods: Iterable[Pod], objects: WorkloadObjects, *, selector: Mapping[str, str] | None = None
) -> Workload | None:
    """The workload of most of the Pods, of equals the first by name. Where nothing names it, the only one of the input
    whose template has the labels of ``selector``; None where there is no such one either.
    """
    pods = tuple(pods)
    owners = Counter(owner for pod in pods if (owner := owner_of(pod)) is not None)
    if owners:
        (kind, name, api_version), count = min(owners.items(), key=lambda owner: (-owner[1], owner[0]))
        return _with_objects(Workload(kind, name, api_version, count), pods[0].metadata.namespace, objects)
    if not pods or not selector:
        return None
    namespace = pods[0].metadata.namespace
    matches = [
        workload
        for workload in objects.workloads
        if workload.metadata.namespace == namespace and makes(workload, selector)
    ]
    if len(matches) != 1:
        return None
    workload = Workload(type(matches[0]).__name__, matches[0].metadata.name, _API_VERSION, len(pods))
    return _with_objects(workload, namespace, objects)


def makes(workload: workload_objects.Workload, selector: Mapping[str, str]) -> bool:
    """Whether the Pods of its template have the labels of a selector."""
    return selector.items() <= (workload.spec.template.metadata.labels or {}).items()


def _with_objects(workload: Workload, namespace: str, objects: WorkloadObjects) -> Workload:
    """Another API group may have a kind with the name of a built-in one."""
    named = (
        workload_object
        for workload_object in objects.workloads
        if (type(workload_object).__name__, workload_object.metadata.name, workload_object.metadata.namespace)
        == (workload.kind, workload.name, namespace)
        and workload.api_version.startswith("apps/")
    )
    autoscalers = (
        autoscaler
        for autoscaler in objects.autoscalers
        if autoscaler.metadata.namespace == namespace
        and (autoscaler.spec.scale_target_ref.kind, autoscaler.spec.scale_target_ref.name)
        == (workload.kind, workload.name)
    )
    return dataclasses.replace(workload, object=next(named, None), autoscaler=next(autoscalers, None))


def owner_of(pod: Pod) -> Owner | None:
    """The workload of one Pod, or None where nothing names it as objects are named."""
    owner = _named_owner(pod)
    if owner is None or (owner[0], owner[2]) == names.ANONYMIZED_OWNER:
        return None
    patterns = _KIND, _NAME, _VERSION
    return owner if all(map(re.Pattern.fullmatch, patterns, owner)) else None


def _named_owner(pod: Pod) -> Owner | None:
    meta = pod.metadata
    labels = meta.labels or {}
    owner = next((owner for owner in meta.owner_references or () if owner.controller), None)
    # A snapshot may lack the owners.
    name = meta.name.rpartition("-")[0] if owner is None else owner.name
    if owner is None or owner.kind == "ReplicaSet":
        for label, kind, api_version in _MAKERS_OF_REPLICA_SETS:
            template_hash = labels.get(label, "")
            if template_hash and name.endswith(f"-{template_hash}"):
                return kind, name.removesuffix(f"-{template_hash}"), api_version
    if owner is not None:
        return owner.kind, owner.name, owner.api_version
    if labels.get(_STATEFUL_SET_POD) == meta.name and name:
        return "StatefulSet", name, _API_VERSION
    return None


def template_hash_label(kind: str) -> str | None:
    """The label that has the revision of a Pod, for workloads of a kind that makes ReplicaSets."""
    return next((label for label, maker, _ in _MAKERS_OF_REPLICA_SETS if maker == kind), None)


MergePatch = Mapping[str, Any]
"""A JSON merge patch (RFC 7396), as ``kubectl patch --type merge`` takes it."""


# --- the input of a decision ------------------------------------------------------------------------------------------


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different. ``pods`` has by how many Pods each zone changes, ``zone_of_node`` zones for Nodes that
    have none, and ``service_patch`` other settings of the Service.
    """

    pods: Mapping[str, int] = {}
    zone_of_node: Mapping[str, str] = {}
    service_patch: MergePatch = {}

    @property
    def more_pods(self) -> int:
        """How many Pods more the Service has afterwards; below 0 where it has fewer."""
        return sum(self.pods.values())

    @property
    def moved_pods(self) -> int:
        """How many Pods leave a zone."""
        return sum(-change for change in self.pods.values() if change < 0)


@dataclass(frozen=True)
class ServiceInput:
    """One Service with the Pods that it selects, all slices that name it, the Nodes, and what all Services share.

    ``taken`` has names of slices elsewhere in the namespace, ``namespace_pods`` all of its Pods. ``is_changed``:
    options change the Pods, so that the numbers in ``objects`` are those of another cluster.
    """

    service: Service
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    slices: tuple[EndpointSlice, ...]
    cluster_state: ClusterState
    taken: Container[str] = field(default=(), compare=False, repr=False)
    namespace_pods: tuple[Pod, ...] = field(default=(), compare=False, repr=False)
    objects: WorkloadObjects = field(default=WorkloadObjects(), compare=False, repr=False)
    is_changed: bool = False

    @property
    def key(self) -> ObjectKey:
        return self.service.metadata.namespace, self.service.metadata.name

    @cached_property
    def plan(self) -> ServicePlan:
        """The real decision, by `plan_service`."""
        return plan_service(
            self.service, pods=self.pods, slices=self.slices, cluster_state=self.cluster_state, taken=self.taken
        )

    def slices_of(self, address_type: str) -> tuple[EndpointSlice, ...]:
        return tuple(slice_ for slice_ in self.slices if slice_.address_type == address_type)

    def family(self, address_type: str) -> FamilyPlan | None:
        """The plan of one address family, or None where the Service has none of it."""
        return next((family for family in self.plan.families if family.address_type == address_type), None)

    @cached_property
    def workload(self) -> Workload | None:
        """The workload of most of the Pods, or None where nothing says which it is."""
        return workload_of(self.pods, self.objects, selector=effective_selector(self.service))

    def is_of_workload(self, pod: Pod) -> bool:
        """Whether a Pod belongs to `workload`; where the Service's Pods name no owner, all of them do."""
        owner, workload = owner_of(pod), self.workload
        if workload is None or owner is None:
            return not self._names_owners and id(pod) in self._pod_ids
        return owner[:2] == (workload.kind, workload.name)

    @cached_property
    def _names_owners(self) -> bool:
        return any(owner_of(pod) for pod in self.pods)

    @cached_property
    def _pod_ids(self) -> frozenset[int]:
        return frozenset(map(id, self.pods))

    @cached_property
    def _service_pods(self) -> ServicePods:
        return ServicePods(self.service, self.pods, nodes=self.nodes)

    def replicas(self, address_type: str) -> ServicePods | SliceReplicas:
        """What can be made more or fewer: the Pods, or the endpoints of one family where no Pods are known."""
        if self.cluster_state.pods_known:
            return self._service_pods
        return SliceReplicas(self.service, self.slices, address_type=address_type, nodes=self.nodes)

    def changed(self, change: Change, *, address_type: str) -> "ServiceInput":
        """The same with a change. Where no Pods are known, endpoints of ``address_type`` change instead.

        Raises ImpossibleChange.
        """
        service, nodes, pods, slices, state = self.service, self.nodes, self.pods, self.slices, self.cluster_state
        if change.service_patch:
            service = patched(service, change.service_patch)
        if change.pods:
            replicas = self.replicas(address_type)
            if isinstance(replicas, ServicePods):
                pods = replicas.changed(change.pods)
            else:
                slices = replicas.changed(change.pods)
        if change.zone_of_node:
            nodes = tuple(_labelled(node, change.zone_of_node) for node in nodes)
            demand, cpu_demand = demands_of(nodes, state.configuration)
            state = dataclasses.replace(
                state,
                demand=demand,
                cpu_demand=cpu_demand,
                decided_by=None,
                node_zones={node.metadata.name: node_zone(node) for node in nodes},
            ).for_service(service)
        return dataclasses.replace(self, service=service, nodes=nodes, pods=pods, slices=slices, cluster_state=state)

    def traffic_now(self, node_proxies: NodeProxies) -> dict[str, CurrentTraffic]:
        """What the slices in force do, by address type."""
        state = self.cluster_state.for_service(self.service)
        gates = state.configuration.gates
        return traffic_now(
            self.service, slices=self.slices, demand=state.demand, node_proxies=node_proxies, gates=gates
        )

    def with_state(self, **changes: Any) -> "ServiceInput":
        """The same with other fields of the cluster's state."""
        return dataclasses.replace(self, cluster_state=dataclasses.replace(self.cluster_state, **changes))

    @property
    def is_of_built_in(self) -> bool:
        """Whether the built-in controller writes the slices, and Zoneward's settings decide here."""
        return not self.cluster_state.configuration.upstream and not runs_zoneward(self.service, self.slices)

    def as_upstream(self) -> "ServiceInput":
        """The same, decided as the built-in controller does. Traffic starts where it did."""
        configuration = self.cluster_state.configuration.as_upstream()
        return self.with_state(cpu_demand=cpu_demand_of(self.nodes, configuration), configuration=configuration)

    def as_overlay(self) -> "ServiceInput":
        """The same, decided for an overlay on the slices of the built-in controller."""
        return self.with_state(configuration=overlay_configuration(self.cluster_state.configuration))


def _labelled(node: Node, zones: Mapping[str, str]) -> Node:
    zone = zones.get(node.metadata.name)
    if zone is None:
        return node
    labels = {**(node.metadata.labels or {}), names.ZONE_LABEL: zone}
    return replace(node, metadata=replace(node.metadata, labels=labels))


def patched(service: Service, patch: MergePatch) -> Service:
    """The Service after a merge patch of fields that Zoneward reads."""
    return msgspec.convert(merged(msgspec.to_builtins(service), patch), Service)


def merged(document: Any, patch: Any, *, keeps_null: bool = False) -> Any:
    """RFC 7396 § 2. ``keeps_null``: the document is a patch too, in which null removes a field."""
    if not isinstance(patch, Mapping):
        return patch
    fields = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None and not keeps_null:
            fields.pop(key, None)
        else:
            fields[key] = merged(fields.get(key), value, keeps_null=keeps_null)
    return fields
