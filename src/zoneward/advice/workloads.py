"""Which workload the Pods of a Service belong to, by their owners or the labels of its controller, and its objects in
the input.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from zoneward.advice.findings.codes import Need
from zoneward.kube import names, workload_objects
from zoneward.kube.objects import Pod
from zoneward.kube.workload_objects import (
    HorizontalPodAutoscaler,
    PersistentVolume,
    PersistentVolumeClaim,
    WorkloadObject,
)

POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which a Deployment distinguishes the Pods of its ReplicaSets."""
_STATEFUL_SET_POD: Final = "statefulset.kubernetes.io/pod-name"
_API_VERSION: Final = "apps/v1"
_SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_NOT_SCALED: Final = ("DaemonSet", "Job", "Node")
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
        return self.kind in (*_SCALED, *_NOT_SCALED)

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
    if workload.api_version.partition("/")[0] != "apps":
        named: Iterator[workload_objects.Workload] = iter(())
    else:
        named = (
            workload_object
            for workload_object in objects.workloads
            if (type(workload_object).__name__, workload_object.metadata.name, workload_object.metadata.namespace)
            == (workload.kind, workload.name, namespace)
        )
    autoscalers = (
        autoscaler
        for autoscaler in objects.autoscalers
        if autoscaler.metadata.namespace == namespace
        and (autoscaler.spec.scale_target_ref.kind, autoscaler.spec.scale_target_ref.name)
        == (workload.kind, workload.name)
    )
    return replace(workload, object=next(named, None), autoscaler=next(autoscalers, None))


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
    template_hash = labels.get(POD_TEMPLATE_HASH, "")
    for owner in meta.owner_references or ():
        if owner.controller:
            if owner.kind == "ReplicaSet" and template_hash and owner.name.endswith(f"-{template_hash}"):
                return "Deployment", owner.name.removesuffix(f"-{template_hash}"), _API_VERSION
            return owner.kind, owner.name, owner.api_version
    # A snapshot may lack the owners.
    name, _, _ = meta.name.rpartition("-")
    if template_hash and name.endswith(f"-{template_hash}"):
        return "Deployment", name.removesuffix(f"-{template_hash}"), _API_VERSION
    if labels.get(_STATEFUL_SET_POD) == meta.name and name:
        return "StatefulSet", name, _API_VERSION
    return None
