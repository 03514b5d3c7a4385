"""What admission adds to pods, or refuses: the plugins that a ``kube-apiserver`` (v1.36) has on unless told otherwise.

These are DefaultTolerationSeconds, Priority, RuntimeClass and PodTopologyLabels. ServiceAccount, LimitRanger and
ResourceQuota are left out: they need objects of other kinds.
"""

from typing import Final

from zoneward.kube.names import ZONE_LABEL
from zoneward.sandbox.server.kinds import Object, Surroundings
from zoneward.sandbox.server.refusals import Refusal

REGION_LABEL: Final = "topology.kubernetes.io/region"
_ABSENCES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PATIENCE: Final = 300
"""Seconds that pods stay on a node that is gone."""
_PREEMPTION: Final = "PreemptLowerPriority"
_PRIORITIES: Final = {"": 0, "system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has; the empty one stands for none."""


def admit_new(pod: Object, surroundings: Surroundings) -> None:
    """Raises Refusal (403)."""
    spec = pod["spec"]
    add_tolerations(spec)
    _set_priority(pod, spec)
    if spec.get("runtimeClassName"):
        raise _forbidden(pod, f'pod rejected: RuntimeClass "{spec["runtimeClassName"]}" not found')
    if spec.get("overhead"):
        raise _forbidden(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if labels := node_labels(spec.get("nodeName") or "", surroundings):
        pod["metadata"]["labels"] = (pod["metadata"].get("labels") or {}) | labels


def admit_change(spec: Object, old: Object) -> None:
    """Of a pod's spec; a priority that is not told stays as it was."""
    add_tolerations(spec)
    for field in ("priority", "preemptionPolicy"):
        if spec.get(field) is None and old.get(field) is not None:
            spec[field] = old[field]


def add_tolerations(spec: Object) -> None:
    """Of a node that is not ready or out of reach, for five minutes, where nothing else is said."""
    tolerations = spec.get("tolerations") or []
    missing = [key for key in _ABSENCES if not any(_tolerates(each, key) for each in tolerations)]
    if missing:
        what = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE}
        spec["tolerations"] = [*tolerations, *({"key": key} | what for key in missing)]


def node_labels(node: str, surroundings: Surroundings) -> dict[str, str]:
    """The labels of that node that its pods get: its zone and its region."""
    found = surroundings.find("nodes", "", node) if node else None
    labels = ((found or {}).get("metadata") or {}).get("labels") or {}
    return {label: labels[label] for label in (REGION_LABEL, ZONE_LABEL) if label in labels}


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, "", None) and toleration.get("effect") in ("NoExecute", "", None)


def _set_priority(pod: Object, spec: Object) -> None:
    name = spec.get("priorityClassName") or ""
    priority = _PRIORITIES.get(name)
    if priority is None:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    rule = "must not be provided in pod spec; priority admission controller computed"
    source = "from the given PriorityClass name"
    if (told := spec.get("priority")) not in (None, priority):
        raise _forbidden(pod, f"the integer value of priority ({told}) {rule} {priority} {source}")
    if (told := spec.get("preemptionPolicy")) not in (None, _PREEMPTION):
        raise _forbidden(pod, f"the string value of PreemptionPolicy ({told}) {rule} {_PREEMPTION} {source}")
    spec["priority"], spec["preemptionPolicy"] = priority, _PREEMPTION


def _forbidden(pod: Object, problem: str) -> Refusal:
    name = pod["metadata"].get("name") or ""
    message = f'pods "{name}" is forbidden: {problem}'
    return Refusal(403, "Forbidden", message, details={"name": name, "kind": "pods"})
