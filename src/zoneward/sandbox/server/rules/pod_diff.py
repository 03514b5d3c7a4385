"""How two specs differ, as a ``kube-apiserver`` (v1.36) tells it: a unified difference of what it has within.

Labels and selectors are the API's own there too. Templates of claims are shown without their metadata's rarer fields.
"""

import json
from difflib import unified_diff
from functools import cache
from typing import Any, Final

from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules.pod_shapes import RENAMED, SHAPES

_ZEROS: Final[dict[str, object]] = {"'": "", "#": 0, "?": False}
_OF_THE_HOST: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
"""Fields of the spec that are in its security context within."""
_CLAIM_METADATA: Final = ("name", "generateName", "namespace", "labels", "annotations", "finalizers")


def difference(old: Object, new: Object) -> str:
    """Of two specs; ends with a line break, where they differ."""
    before, after = (_text(_within(spec)).splitlines() for spec in (old, new))
    lines = list(unified_diff(before, after, lineterm=""))[2:]  # no names of files
    return "".join(f"{line}\n" for line in lines)


def internal(value: Object, shape: str) -> Object:
    """An object with all fields of its type, in order, under the names they have within."""
    fields = {name.lower(): each for name, each in value.items()}
    shown: Object = {}
    for name, key, kind, detail in _fields(shape):
        each = fields.get(key)
        if kind == "!":
            each = internal(each or {}, detail)
        elif kind == ":":
            each = _children(each, detail)
        elif kind and each is None:
            each = _ZEROS[kind]
        elif isinstance(each, dict):
            each = dict(sorted(each.items()))
        shown[name] = each
    return shown


def _within(spec: Object) -> Object:
    of_the_host = {field: spec[field] for field in _OF_THE_HOST if field in spec}
    return internal(spec | {"securityContext": (spec.get("securityContext") or {}) | of_the_host}, "PodSpec")


def _children(value: Any, shape: str) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_children(each, shape) for each in value]
    if shape == "LabelSelector":
        return _selector(value)
    if shape == "PersistentVolumeClaimTemplate":
        metadata = value.get("metadata") or {}
        claim = internal(value.get("spec") or {}, "PersistentVolumeClaimSpec")
        return {name: metadata[name] for name in _CLAIM_METADATA if metadata.get(name)} | {"Spec": claim}
    return internal(value, shape)


def _selector(selector: Object) -> Object:
    shown: Object = {}
    if labels := selector.get("matchLabels"):
        shown["matchLabels"] = dict(sorted(labels.items()))
    if expressions := selector.get("matchExpressions"):
        shown["matchExpressions"] = [
            {"key": each.get("key") or "", "operator": each.get("operator") or ""}
            | ({"values": each["values"]} if each.get("values") else {})
            for each in expressions
        ]
    return shown


@cache
def _fields(shape: str) -> tuple[tuple[str, str, str, str], ...]:
    """Name within, the API's in small letters, what follows the name in the table, the type of an object."""
    if shape == "EphemeralContainer":
        return (*_fields("Container"), *_parsed("TargetContainerName'"))
    return tuple(field for each in SHAPES[shape].split() for field in _parsed(each))


def _parsed(written: str) -> tuple[tuple[str, str, str, str]]:
    name, kind, detail = written, "", ""
    for mark in ":!":
        if mark in written:
            name, kind, detail = written.partition(mark)
    if written[-1] in _ZEROS:
        name, kind = written[:-1], written[-1]
    return ((name, RENAMED.get(name, name).lower(), kind, detail),)


def _text(value: Object) -> str:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    # Upstream's encoder makes what it writes safe for HTML.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
