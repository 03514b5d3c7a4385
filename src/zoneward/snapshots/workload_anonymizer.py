"""Workloads, autoscalers, volumes and Leases of a snapshot that can be shared: the same findings, and no names.

Objects are built anew, as in `zoneward.snapshots.anonymizer`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from zoneward.kube import names
from zoneward.kube.controller_lease import CONTROLLER_LEASE
from zoneward.kube.objects import NodeAffinity, NodeSelector, NodeSelectorRequirement
from zoneward.kube.workload_objects import (
    AutoscalerSpec,
    ClaimSource,
    ClaimSpec,
    ClaimTemplate,
    ClaimTemplateMeta,
    Deployment,
    DeploymentSpec,
    HorizontalPodAutoscaler,
    Lease,
    LeaseSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    PodAffinity,
    PodAffinityTerm,
    PodSelector,
    PodTemplate,
    ScaleTarget,
    StatefulSet,
    StatefulSetSpec,
    TemplateAffinity,
    TemplateMeta,
    TemplateSpec,
    TopologySpreadConstraint,
    Volume,
    VolumeNodeAffinity,
    VolumeSpec,
    WeightedPodAffinityTerm,
    WorkloadMeta,
    WorkloadObject,
)
from zoneward.snapshots import public_values
from zoneward.snapshots.pseudonyms import NameKind

_TOPOLOGY_KEYS: Final = (names.ZONE_LABEL, "kubernetes.io/hostname", names.REGION_LABEL)
_KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet")
_MOST_ORDINALS: Final = 10_000


class Selectors(Protocol):
    """Replaces what labels say, wherever they stand."""

    def labels(self, labels: Mapping[str, str] | None) -> dict[str, str] | None: ...
    def requirement(self, each: NodeSelectorRequirement) -> NodeSelectorRequirement: ...
    def node_selector(self, selector: NodeSelector) -> NodeSelector: ...


class WorkloadAnonymizer:
    """Builds the same objects with other names."""

    def __init__(
        self, name: Callable[[NameKind, str], str], selectors: Selectors, objects: Iterable[WorkloadObject]
    ) -> None:
        self._name, self._labels, self._requirement = name, selectors.labels, selectors.requirement
        self._node_selector = selectors.node_selector
        self._objects = tuple(objects)
        self._claims: dict[tuple[str, str], tuple[str, str, int]] = {}
        """Template, StatefulSet and ordinal of claims, by which they are found."""
        for each in self._objects:
            if isinstance(each, StatefulSet):
                for template in each.spec.volume_claim_templates or ():
                    for ordinal in range(min(each.spec.replicas or 1, _MOST_ORDINALS)):
                        parts = template.metadata.name, each.metadata.name, ordinal
                        self._claims[each.metadata.namespace, "-".join(map(str, parts))] = parts

    def objects(self) -> tuple[WorkloadObject, ...]:
        return tuple(map(self._object, self._objects))

    def _object(self, each: WorkloadObject) -> WorkloadObject:
        namespace = each.metadata.namespace
        match each:
            case Deployment():
                spec = DeploymentSpec(
                    replicas=each.spec.replicas, template=self._template(each.spec.template, namespace)
                )
                return Deployment(metadata=self._meta("workload", each.metadata), spec=spec)
            case StatefulSet():
                templates = each.spec.volume_claim_templates
                return StatefulSet(
                    metadata=self._meta("workload", each.metadata),
                    spec=StatefulSetSpec(
                        replicas=each.spec.replicas,
                        template=self._template(each.spec.template, namespace),
                        volume_claim_templates=None
                        if templates is None
                        else tuple(map(self._claim_template, templates)),
                    ),
                )
            case HorizontalPodAutoscaler():
                target = each.spec.scale_target_ref
                kind = target.kind if target.kind in _KINDS else "Other"
                known = ScaleTarget(kind=kind, name=self._name("workload", target.name))
                return HorizontalPodAutoscaler(
                    metadata=self._meta("workload", each.metadata),
                    spec=AutoscalerSpec(
                        scale_target_ref=known,
                        min_replicas=each.spec.min_replicas,
                        max_replicas=each.spec.max_replicas,
                    ),
                )
            case PersistentVolumeClaim():
                meta = WorkloadMeta(
                    name=self._claim(namespace, each.metadata.name), namespace=self._name("namespace", namespace)
                )
                volume = self._name("volume", each.spec.volume_name)
                return PersistentVolumeClaim(metadata=meta, spec=ClaimSpec(volume_name=volume))
            case PersistentVolume():
                affinity = each.spec.node_affinity
                required = self._node_selector(affinity.required) if affinity and affinity.required else None
                return PersistentVolume(
                    metadata=WorkloadMeta(name=self._name("volume", each.metadata.name)),
                    spec=VolumeSpec(
                        node_affinity=VolumeNodeAffinity(required=required) if affinity is not None else None
                    ),
                )

            case Lease():
                return self._lease(each)

    def _lease(self, each: Lease) -> Lease:
        """The controller's keeps its name, by which it is found."""
        name, namespace, spec = each.metadata.name, each.metadata.namespace, each.spec
        kept = name if name == CONTROLLER_LEASE else self._name("lease", name)
        holder = spec.holder_identity
        return Lease(
            metadata=WorkloadMeta(name=kept, namespace=self._name("namespace", namespace)),
            spec=LeaseSpec(
                holder_identity=self._name("lease", holder) if holder is not None else None,
                lease_duration_seconds=spec.lease_duration_seconds,
                renew_time=public_values.kept_time(spec.renew_time),
            ),
        )

    def _meta(self, kind: NameKind, meta: WorkloadMeta) -> WorkloadMeta:
        return WorkloadMeta(name=self._name(kind, meta.name), namespace=self._name("namespace", meta.namespace))

    def _claim(self, namespace: str, name: str) -> str:
        parts = self._claims.get((namespace, name))
        if parts is None:
            return self._name("claim", name)
        template, workload, ordinal = parts
        return f"{self._name('claim', template)}-{self._name('workload', workload)}-{ordinal}"

    def _claim_template(self, each: ClaimTemplate) -> ClaimTemplate:
        return ClaimTemplate(metadata=ClaimTemplateMeta(name=self._name("claim", each.metadata.name)))

    # --- pod templates ------------------------------------------------------------------------------------------------

    def _template(self, template: PodTemplate, namespace: str) -> PodTemplate:
        spec = template.spec
        constraints, volumes = spec.topology_spread_constraints, spec.volumes
        return PodTemplate(
            metadata=TemplateMeta(labels=self._labels(template.metadata.labels)),
            spec=TemplateSpec(
                node_selector=self._labels(spec.node_selector),
                affinity=self._affinity(spec.affinity) if spec.affinity is not None else None,
                topology_spread_constraints=tuple(
                    TopologySpreadConstraint(topology_key=_topology_key(each.topology_key)) for each in constraints
                )
                if constraints is not None
                else None,
                volumes=tuple(self._volume(each, namespace) for each in volumes) if volumes is not None else None,
            ),
        )

    def _volume(self, each: Volume, namespace: str) -> Volume:
        source = each.persistent_volume_claim
        if source is None:
            return Volume()
        return Volume(persistent_volume_claim=ClaimSource(claim_name=self._claim(namespace, source.claim_name)))

    def _affinity(self, affinity: TemplateAffinity) -> TemplateAffinity:
        nodes = affinity.node_affinity
        return TemplateAffinity(
            node_affinity=NodeAffinity(required=self._node_selector(nodes.required) if nodes.required else None)
            if nodes is not None
            else None,
            pod_affinity=self._pod_affinity(affinity.pod_affinity),
            pod_anti_affinity=self._pod_affinity(affinity.pod_anti_affinity),
        )

    def _pod_affinity(self, affinity: PodAffinity | None) -> PodAffinity | None:
        if affinity is None:
            return None
        required, preferred = affinity.required, affinity.preferred
        return PodAffinity(
            required=tuple(map(self._term, required)) if required is not None else None,
            preferred=tuple(
                WeightedPodAffinityTerm(pod_affinity_term=self._term(each.pod_affinity_term)) for each in preferred
            )
            if preferred is not None
            else None,
        )

    def _term(self, term: PodAffinityTerm) -> PodAffinityTerm:
        selector = term.label_selector
        return PodAffinityTerm(
            topology_key=_topology_key(term.topology_key),
            label_selector=PodSelector(
                match_labels=self._labels(selector.match_labels),
                match_expressions=self._requirements(selector.match_expressions),
            )
            if selector is not None
            else None,
        )

    def _requirements(
        self, requirements: tuple[NodeSelectorRequirement, ...] | None
    ) -> tuple[NodeSelectorRequirement, ...] | None:
        return None if requirements is None else tuple(map(self._requirement, requirements))


def _topology_key(key: str) -> str:
    return key if key in _TOPOLOGY_KEYS else "other"
