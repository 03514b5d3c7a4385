"""Which workload the Pods of a Service belong to, as their owners or the labels of its controller say."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zoneward.kube.objects import Pod

POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which a Deployment tells the Pods of its ReplicaSets apart."""
_STATEFUL_SET_POD: Final = "statefulset.kubernetes.io/pod-name"
_API_VERSION: Final = "apps/v1"
_SCALED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_NOT_SCALED: Final = ("DaemonSet", "Job", "Node")


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that makes Pods: ``Deployment``, ``StatefulSet`` and so on; others have an ``api_version`` of their
    own. ``pods`` counts those of the Service.
    """

    kind: str
    name: str
    api_version: str
    pods: int

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


def workload_of(pods: Iterable[Pod]) -> Workload | None:
    """The workload of most of the Pods, of equals the first by name. None where nothing says so."""
    found = Counter(owner for pod in pods if (owner := _owner(pod)) is not None)
    if not found:
        return None
    (kind, name, api_version), number = min(found.items(), key=lambda each: (-each[1], each[0]))
    return Workload(kind, name, api_version, number)


def _owner(pod: Pod) -> tuple[str, str, str] | None:
    meta = pod.metadata
    labels = meta.labels or {}
    template_hash = labels.get(POD_TEMPLATE_HASH, "")
    for owner in meta.owner_references or ():
        if owner.controller:
            if owner.kind == "ReplicaSet" and template_hash and owner.name.endswith(f"-{template_hash}"):
                return "Deployment", owner.name.removesuffix(f"-{template_hash}"), _API_VERSION
            return owner.kind, owner.name, owner.api_version
    # Whoever wrote the snapshot may have left the owners out.
    name, _, _ = meta.name.rpartition("-")
    if template_hash and name.endswith(f"-{template_hash}"):
        return "Deployment", name.removesuffix(f"-{template_hash}"), _API_VERSION
    if labels.get(_STATEFUL_SET_POD) == meta.name and name:
        return "StatefulSet", name, _API_VERSION
    return None
