"""What the subresource ``pods/binding`` does: a scheduler says where a pod runs."""

from zoneward.sandbox.server.kinds import Object, Surroundings
from zoneward.sandbox.server.managed_fields import as_time
from zoneward.sandbox.server.refusals import Refusal, bad_request
from zoneward.sandbox.server.rules.pod_admission import node_labels
from zoneward.sandbox.server.rules.pod_errors import required, unsupported


def bind(pod: Object, binding: Object, surroundings: Surroundings) -> Object:
    """The pod on its node: ``pod`` is left alone, parts that do not change are shared with it.

    It gets the labels and annotations of the binding, which admission gives those of the node's zone and region. Its
    generation stays. Raises Refusal.
    """
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    old = pod["metadata"]
    if metadata.get("name") not in (None, "", old["name"]):
        raise bad_request("name in URL does not match name in Binding object")
    kind, node = target.get("kind") or "", target.get("name") or ""
    if kind not in ("", "Node"):
        raise Refusal(500, "", str(unsupported("target.kind", kind, ("Node", "<empty>"))))
    if not node:
        raise Refusal(500, "", str(required("target.name")))
    _check(pod, metadata.get("uid") or "")
    labels = metadata.get("labels") or {}
    if kind:
        labels = labels | node_labels(node, surroundings)
    fresh = dict(old)
    for field, added in (("labels", labels), ("annotations", metadata.get("annotations") or {})):
        if added:
            fresh[field] = (old.get(field) or {}) | added
    now = as_time(surroundings.now)
    status = pod.get("status") or {}
    return pod | {
        "metadata": fresh,
        "spec": pod["spec"] | {"nodeName": node},
        "status": status | {"conditions": _scheduled(status.get("conditions") or [], now)},
    }


def _check(pod: Object, uid: str) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    name = metadata["name"]
    if uid and uid != metadata.get("uid"):
        key = f"/registry/pods/{metadata.get('namespace')}/{name}"
        found = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata.get('uid')}"
        told = f"invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {found}"
        raise _conflict("pods", name, f"StorageError: {told}")
    if metadata.get("deletionTimestamp"):
        raise _conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _conflict("pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def _conflict(resource: str, name: str, problem: str) -> Refusal:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {problem}'
    return Refusal(409, "Conflict", message, details={"name": name, "kind": resource})


def _scheduled(conditions: list[Object], now: str) -> list[Object]:
    fresh = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    for index, condition in enumerate(conditions):
        if condition.get("type") == "PodScheduled":
            if condition.get("status") == "True":
                fresh["lastTransitionTime"] = condition.get("lastTransitionTime")
            return [*conditions[:index], fresh, *conditions[index + 1 :]]
    return [*conditions, fresh]
