"""Workloads, autoscalers, volumes, Leases and admission policies: checks and fixes read some fields, decisions none.

The rules of `zoneward.kube.objects` apply. An object that cannot be read is skipped without an error.
"""

from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from zoneward.kube.names import DEFAULT_NAMESPACE
from zoneward.kube.objects import Int32, NodeAffinity, NodeSelector, NodeSelectorRequirement, Object, ProxyObject


class _WorkloadPart(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Base of all structs."""


class WorkloadMeta(_WorkloadPart, frozen=True, gc=False):
    """``namespace`` is empty for a PersistentVolume. Only objects of a live cluster have a ``resource_version``."""

    name: str = ""
    namespace: str = ""
    resource_version: str | None = None


# --- pod templates ----------------------------------------------------------------------------------------------------


class PodSelector(_WorkloadPart, frozen=True, gc=False):
    """``metav1.LabelSelector``. An empty one selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None


class PodAffinityTerm(_WorkloadPart, frozen=True, gc=False):
    topology_key: str = ""
    label_selector: PodSelector | None = None


class WeightedPodAffinityTerm(_WorkloadPart, frozen=True, gc=False):
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(_WorkloadPart, frozen=True, gc=False):
    """Affinity or anti-affinity, which have the same fields."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class TemplateAffinity(_WorkloadPart, frozen=True, gc=False):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(_WorkloadPart, frozen=True, gc=False):
    topology_key: str = ""


class ClaimSource(_WorkloadPart, frozen=True, gc=False):
    claim_name: str = ""


class Volume(_WorkloadPart, frozen=True, gc=False):
    persistent_volume_claim: ClaimSource | None = None


class TemplateSpec(_WorkloadPart, frozen=True, gc=False):
    """The fields of a pod template that decide where its Pods may run."""

    node_selector: dict[str, str] | None = None
    affinity: TemplateAffinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    volumes: tuple[Volume, ...] | None = None


class TemplateMeta(_WorkloadPart, frozen=True, gc=False):
    labels: dict[str, str] | None = None


class PodTemplate(_WorkloadPart, frozen=True, gc=False):
    metadata: TemplateMeta = TemplateMeta()
    spec: TemplateSpec = TemplateSpec()


# --- kinds ------------------------------------------------------------------------------------------------------------


class DeploymentSpec(_WorkloadPart, frozen=True, gc=False):
    replicas: Int32 | None = None
    """Defaults to 1."""
    template: PodTemplate = PodTemplate()


class Deployment(_WorkloadPart, frozen=True, gc=False):
    metadata: WorkloadMeta = WorkloadMeta()
    spec: DeploymentSpec = DeploymentSpec()


class ClaimTemplateMeta(_WorkloadPart, frozen=True, gc=False):
    name: str = ""


class ClaimTemplate(_WorkloadPart, frozen=True, gc=False):
    metadata: ClaimTemplateMeta = ClaimTemplateMeta()


class StatefulSetSpec(_WorkloadPart, frozen=True, gc=False):
    replicas: Int32 | None = None
    """Defaults to 1."""
    template: PodTemplate = PodTemplate()
    volume_claim_templates: tuple[ClaimTemplate, ...] | None = None


class StatefulSet(_WorkloadPart, frozen=True, gc=False):
    metadata: WorkloadMeta = WorkloadMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class ScaleTarget(_WorkloadPart, frozen=True, gc=False):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(_WorkloadPart, frozen=True, gc=False):
    scale_target_ref: ScaleTarget = ScaleTarget()
    min_replicas: Int32 | None = None
    """Defaults to 1."""
    max_replicas: Int32 | None = None


class HorizontalPodAutoscaler(_WorkloadPart, frozen=True, gc=False):
    metadata: WorkloadMeta = WorkloadMeta()
    spec: AutoscalerSpec = AutoscalerSpec()


class ClaimSpec(_WorkloadPart, frozen=True, gc=False):
    volume_name: str = ""
    """Empty while the claim is not bound."""


class PersistentVolumeClaim(_WorkloadPart, frozen=True, gc=False):
    metadata: WorkloadMeta = WorkloadMeta()
    spec: ClaimSpec = ClaimSpec()


class VolumeNodeAffinity(_WorkloadPart, frozen=True, gc=False):
    required: NodeSelector | None = None


class VolumeSpec(_WorkloadPart, frozen=True, gc=False):
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(_WorkloadPart, frozen=True, gc=False):
    metadata: WorkloadMeta = WorkloadMeta()
    spec: VolumeSpec = VolumeSpec()


class LeaseSpec(_WorkloadPart, frozen=True, gc=False):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    renew_time: str | None = None


class AnnotatedMeta(WorkloadMeta, frozen=True, gc=False):
    annotations: dict[str, str] | None = None


class Lease(_WorkloadPart, frozen=True, gc=False):
    """Released if it has no holder. It says in an annotation in which mode its holder runs."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: LeaseSpec = LeaseSpec()


class MutatingAdmissionPolicy(_WorkloadPart, frozen=True, gc=False):
    """A policy of the API server. It says in an annotation which version of Zoneward's overlay it is."""

    metadata: AnnotatedMeta = AnnotatedMeta()


class ParamRef(_WorkloadPart, frozen=True, gc=False):
    name: str = ""


class PolicyBindingSpec(_WorkloadPart, frozen=True, gc=False):
    policy_name: str = ""
    param_ref: ParamRef | None = None


class MutatingAdmissionPolicyBinding(_WorkloadPart, frozen=True, gc=False):
    metadata: WorkloadMeta = WorkloadMeta()
    spec: PolicyBindingSpec = PolicyBindingSpec()


Workload = Deployment | StatefulSet
ClusterScoped = PersistentVolume | MutatingAdmissionPolicy | MutatingAdmissionPolicyBinding
"""Workload objects that are in no namespace."""
WorkloadObject = Deployment | StatefulSet | HorizontalPodAutoscaler | PersistentVolumeClaim | Lease | ClusterScoped
WorkloadT = TypeVar("WorkloadT", bound=WorkloadObject)
AnyObject = Object | ProxyObject | WorkloadObject
"""Every object that is read from files."""
WORKLOAD_KINDS: Final[dict[tuple[str, str], type[WorkloadObject]]] = {
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("autoscaling/v2", "HorizontalPodAutoscaler"): HorizontalPodAutoscaler,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("coordination.k8s.io/v1", "Lease"): Lease,
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"): MutatingAdmissionPolicy,
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding"): MutatingAdmissionPolicyBinding,
}
"""By apiVersion and kind."""


def plural(kind: str) -> str:
    """``Deployments``, ``MutatingAdmissionPolicies``."""
    return f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"


def replicas_of(workload: Workload) -> int:
    """``spec.replicas``, or the API's default."""
    return 1 if workload.spec.replicas is None else workload.spec.replicas


def normalized(obj: WorkloadT) -> WorkloadT:
    """The object as in a file: with a namespace if its kind has one, without a resourceVersion."""
    meta = obj.metadata
    namespace = "" if isinstance(obj, ClusterScoped) else meta.namespace or DEFAULT_NAMESPACE
    return replace(obj, metadata=replace(meta, namespace=namespace, resource_version=None))
