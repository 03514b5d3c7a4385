"""Judging what variables and files take from elsewhere: fields of the pod, resources, keys of ConfigMaps."""

from collections.abc import Iterable, Iterator
from typing import Final

from zoneward.kube import formats
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules import pod_formats
from zoneward.sandbox.server.rules.pod_errors import all_invalid, invalid, required, unsupported

_CONVERTED: Final = frozenset(
    [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "spec.host",
    ]
)
"""Fields that the downward API knows, before it is asked where."""

_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_SIZES: Final = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
_WORDS: Final = {
    "cpu": "the cpu",
    "memory": "the memory",
    "ephemeral-storage": "the local ephemeral storage",
    "hugepages": "the hugepages",
}


def field_errors(reference: Object, field: str, allowed: Iterable[str]) -> Iterator[FieldError]:
    """``fieldRef``, to one of ``allowed`` or to a label or annotation."""
    version, path = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version or not path:
        yield required(f"{field}.{'fieldPath' if version else 'apiVersion'}")
        return
    name, subscript = pod_formats.split_subscript(path)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif subscript is not None and name not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {path}"
    elif name not in _CONVERTED:
        problem = f"field label not supported: {path}"
    if problem:
        yield invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {problem}")
        return
    name = "spec.nodeName" if name == "spec.host" else name
    if subscript is not None:
        key = subscript.lower() if name == "metadata.annotations" else subscript
        yield from all_invalid(field, key, formats.qualified_name_problems(key))
    elif name not in allowed:
        yield unsupported(f"{field}.fieldPath", name, allowed)


def resource_field_errors(reference: Object, field: str, *, in_file: bool = False) -> Iterator[FieldError]:
    """``resourceFieldRef``; a file has to name the container, a variable is of one."""
    resource = reference.get("resource") or ""
    kind = resource.partition(".")[2]
    is_huge = kind.startswith("hugepages-") and resource.startswith(("limits.", "requests."))
    if in_file and not reference.get("containerName"):
        yield required(f"{field}.containerName")
    elif not resource:
        yield required(f"{field}.resource")
    elif resource not in _RESOURCES and not is_huge:
        yield unsupported(f"{field}.resource", resource, _RESOURCES)
    divisor = reference.get("divisor") or "0"
    word = _WORDS.get("hugepages" if is_huge else kind)
    if divisor != "0" and word is not None:
        listed = "1m and 1" if kind == "cpu" else _SIZES
        if divisor not in listed.replace(" and ", ", ").split(", "):
            rule = f"only divisor's values {listed} are supported with {word} resource"
            yield invalid(f"{field}.divisor", resource, rule)


def key_errors(reference: Object, field: str) -> Iterator[FieldError]:
    """``configMapKeyRef`` or ``secretKeyRef``."""
    name, key = reference.get("name") or "", reference.get("key") or ""
    yield from all_invalid(f"{field}.name", name, formats.subdomain_problems(name))
    if not key:
        yield required(f"{field}.key")
    else:
        yield from all_invalid(f"{field}.key", key, pod_formats.config_key_problems(key))
