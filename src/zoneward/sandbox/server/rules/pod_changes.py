"""What an update may change in a pod (upstream's ``ValidatePodUpdate``): images and little else."""

from collections.abc import Iterator
from typing import Any, Final

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules import pod_formats
from zoneward.sandbox.server.rules.pod_diff import difference, internal
from zoneward.sandbox.server.rules.pod_errors import forbidden, invalid, required
from zoneward.sandbox.server.rules.pod_scheduling import toleration_errors
from zoneward.sandbox.server.rules.pod_validation import MIRROR, annotation_errors

_CHANGEABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_LONGEST: Final = (1 << 31) - 1


def is_same(new: Any, old: Any) -> bool:
    """Whether two values mean the same: an empty list is as good as none."""
    if new is old or new == old:
        return True
    if isinstance(new, dict) and isinstance(old, dict):
        return all(is_same(new.get(field), old.get(field)) for field in new.keys() | old.keys())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(is_same, new, old))
    return new in (None, []) and old in (None, [])


def annotation_change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Nobody but the kubelet says that a pod is a mirror of another one, and only once."""
    now, before = new["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    here = f"metadata.annotations[{MIRROR}]"
    if MIRROR in before and now.get(MIRROR) != before[MIRROR]:
        yield forbidden(here, "may not remove or update mirror pod annotation")
    if MIRROR in now and MIRROR not in before:
        yield forbidden(here, "may not add mirror pod annotation")
    yield from annotation_errors(new)


def spec_change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Of a spec with its defaults; whether the new one is good by itself is judged elsewhere."""
    for kind in ("containers", "initContainers"):
        if len(new.get(kind) or ()) != len(old.get(kind) or ()):
            yield forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(new.get(kind) or ()):
            image, here = container.get("image") or "", f"spec.{kind}[{index}].image"
            if not image:
                yield required(here)
            if image != image.strip():
                yield invalid(here, image, "must not have leading or trailing whitespace")
    deadline_errors = list(_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    yield from deadline_errors
    if deadline_errors and new.get("activeDeadlineSeconds") is not None:
        return
    yield from _tolerations(new.get("tolerations") or [], old.get("tolerations") or [])
    yield from _gates(new, old)
    allowed = _as_allowed(new, old)
    if old.get("schedulingGates"):
        yield from _gated(allowed, old)
    if not is_same(allowed, old):
        told = f"pod updates may not change fields other than {','.join(_CHANGEABLE)}\n{difference(old, allowed)}"
        yield forbidden("spec", told)


def _deadline(new: int | None, old: int | None) -> Iterator[FieldError]:
    here = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(here, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _LONGEST:
        yield invalid(here, new, pod_formats.range_problem(0, _LONGEST))
    elif old is not None and new > old:
        yield invalid(here, new, "must be less than or equal to previous value")


def _tolerations(new: list[Object], old: list[Object]) -> Iterator[FieldError]:
    here = "spec.tolerations"
    kept = [_timeless(each) for each in new]
    if any(_timeless(each) not in kept for each in old):
        yield forbidden(here, "existing toleration can not be modified except its tolerationSeconds")
        return
    yield from toleration_errors(new, here)


def _timeless(toleration: Object) -> Object:
    return {field: value for field, value in toleration.items() if value and field != "tolerationSeconds"}


def _gates(new: Object, old: Object) -> Iterator[FieldError]:
    before = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if (name := gate.get("name") or "") not in before:
            rule = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", rule)


def _as_allowed(new: Object, old: Object) -> Object:
    """The new spec, but with the old one's values wherever a change is allowed."""
    allowed = dict(new)
    for kind in ("containers", "initContainers"):
        if new.get(kind):
            pairs = zip(new[kind], old[kind], strict=True)
            allowed[kind] = [{**now, "image": before.get("image") or ""} for now, before in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take_over(field, allowed, old)
    # Upstream lets a negative grace period become 1 as well; defaults leave none that is negative.
    return allowed


def _gated(allowed: Object, old: Object) -> Iterator[FieldError]:
    """A pod that waits for its gates may become pickier about nodes."""
    now, before = allowed.get("nodeSelector"), old.get("nodeSelector") or {}
    if any((now or {}).get(key) != value for key, value in before.items()):
        rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", now, rule)
    _take_over("nodeSelector", allowed, old)
    nodes = (allowed.get("affinity") or {}).get("nodeAffinity")
    nodes_before = (old.get("affinity") or {}).get("nodeAffinity")
    if is_same(nodes, nodes_before):
        return
    yield from _node_affinity(nodes or {}, nodes_before or {})
    affinity = {kind: terms for kind, terms in (allowed.get("affinity") or {}).items() if kind != "nodeAffinity"}
    if nodes_before is not None:
        affinity["nodeAffinity"] = nodes_before
    if affinity or old.get("affinity") is not None:
        allowed["affinity"] = affinity
    else:
        allowed.pop("affinity", None)


def _node_affinity(new: Object, old: Object) -> Iterator[FieldError]:
    """What is required may get further conditions; what is preferred may change at will."""
    needed = "requiredDuringSchedulingIgnoredDuringExecution"
    here = f"spec.affinity.nodeAffinity.{needed}.nodeSelectorTerms"
    terms = (new.get(needed) or {}).get("nodeSelectorTerms")
    before = (old.get(needed) or {}).get("nodeSelectorTerms") or []
    if not before:
        return
    shown = None if terms is None else [internal(term, "NodeSelectorTerm") for term in terms]
    if len(shown or ()) != len(before):
        yield invalid(here, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (term, known) in enumerate(zip(terms or (), before, strict=True)):
        for kind in ("matchExpressions", "matchFields"):
            kept = known.get(kind) or []
            if not is_same((term.get(kind) or [])[: len(kept)], kept):
                rule = "only additions are allowed (no mutations or deletions)"
                yield invalid(f"{here}[{index}]", (shown or [])[index], rule)
                break


def _take_over(field: str, new: Object, old: Object) -> None:
    if old.get(field) is None:
        new.pop(field, None)
    else:
        new[field] = old[field]
