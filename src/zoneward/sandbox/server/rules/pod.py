"""Pods: what is added to them, what may change, what is refused. Learnt from a ``kube-apiserver`` v1.36."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Final

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object, Rules, Surroundings
from zoneward.sandbox.server.managed_fields import as_time
from zoneward.sandbox.server.rules import metadata as metadata_rules
from zoneward.sandbox.server.rules.pod_admission import admit_change, admit_new
from zoneward.sandbox.server.rules.pod_changes import annotation_change_errors, is_same, spec_change_errors
from zoneward.sandbox.server.rules.pod_defaults import default_spec, default_status
from zoneward.sandbox.server.rules.pod_resources import quality_of_service
from zoneward.sandbox.server.rules.pod_status import keep_observed, status_errors
from zoneward.sandbox.server.rules.pod_validation import annotation_errors, creation_errors, pod_errors

SELECTABLE: Final = frozenset(
    {
        "spec.nodeName",
        "spec.host",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    }
)
_OF_DELETION: Final = ("ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds")


class PodRules(Rules):
    """Of pods, their status included. Subresources of pods have functions of their own."""

    has_generation = True
    is_graceful = True

    def default(self, new: Object, old: Object | None = None) -> None:
        """With ``old``, what is the same as there is not looked at; the new spec then is the very object of the old."""
        spec = new.get("spec")
        if spec is None:
            spec = new["spec"] = {}
        before = None if old is None else old["spec"]
        if spec is not before:
            if spec == before:
                new["spec"] = before
            else:
                default_spec(spec)
        status = new.get("status")
        if status and (old is None or status is not old.get("status")):
            default_status(status)

    def prepare_create(self, new: Object, surroundings: Surroundings) -> None:
        """Raises Refusal (403) where admission would."""
        admit_new(new, surroundings)
        spec = new["spec"]
        new["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        if spec.get("schedulingGates"):
            new["status"]["conditions"] = [_gated(surroundings.now)]
        _drop_stop_signals(spec)
        _take_label_keys(new)

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return metadata_rules.metadata_errors(new, name_problems=name_problems, is_namespaced=True)

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        return creation_errors(new)

    def prepare_update(self, new: Object, old: Object, surroundings: Surroundings) -> None:
        new["status"] = old.get("status") or {}
        if new["spec"] is not old["spec"]:
            admit_change(new["spec"], old["spec"])
            _drop_stop_signals(new["spec"])

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata_rules.common_update_errors(new, old)

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        """A spec that is as it was has been judged before."""
        is_changed = self.is_new_generation(new, old)
        yield from metadata_rules.changed_metadata_errors(new, old)
        yield from metadata_rules.metadata_errors(new, name_problems=name_problems, is_namespaced=True, old=old)
        yield from pod_errors(new) if is_changed else annotation_errors(new)
        yield from annotation_change_errors(new, old)
        if is_changed:
            yield from spec_change_errors(new["spec"], old["spec"])

    def prepare_status(self, new: Object, old: Object, surroundings: Surroundings) -> None:
        new["spec"] = old["spec"]
        metadata, before = new["metadata"], old["metadata"]
        if metadata is not before:
            for field in _OF_DELETION:
                if field in before:
                    metadata[field] = before[field]
                else:
                    metadata.pop(field, None)
        status, before = new.get("status"), old.get("status") or {}
        if status is None:
            status = new["status"] = {}
        if status is not before:
            if not status.get("qosClass") and before.get("qosClass"):
                status["qosClass"] = before["qosClass"]
            keep_observed(status, before)

    def validate_status(self, new: Object, old: Object) -> Iterable[FieldError]:
        metadata_errors = metadata_rules.changed_metadata_errors(new, old)
        return chain(metadata_errors, annotation_change_errors(new, old), status_errors(new, old))

    def is_new_generation(self, new: Object, old: Object) -> bool:
        return new["spec"] is not old["spec"] and not is_same(new["spec"], old["spec"])

    def grace(self, thing: Object, asked: int | None) -> int:
        return graceful(thing, asked=asked)


def pod_fields(thing: Object) -> dict[str, str]:
    """What field selectors may ask for. Upstream also takes ``spec.host`` for ``spec.nodeName``, and knows
    ``status.podIPs``, which is no pod's.
    """
    spec, status = thing.get("spec") or {}, thing.get("status") or {}
    node = spec.get("nodeName") or ""
    addresses = status.get("podIPs")
    return {
        "spec.nodeName": node,
        "spec.host": node,
        "spec.restartPolicy": spec.get("restartPolicy") or "",
        "spec.schedulerName": spec.get("schedulerName") or "",
        "spec.serviceAccountName": spec.get("serviceAccountName") or "",
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase") or "",
        "status.podIP": addresses[0].get("ip") or "" if addresses else "",
        "status.podIPs": "",
        "status.nominatedNodeName": status.get("nominatedNodeName") or "",
    }


def graceful(thing: Object, *, asked: int | None) -> int:
    """Seconds that a pod has to end once it is deleted; 0: it is gone at once. ``asked`` is what the request says."""
    spec = thing["spec"]
    if not spec.get("nodeName") or (thing.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    period: int = (spec.get("terminationGracePeriodSeconds") or 0) if asked is None else asked
    return 1 if period < 0 else period


def name_problems(text: str, *, is_prefix: bool = False) -> Iterator[str]:
    """``is_prefix``: of ``generateName``, which may end in a dash."""
    return metadata_rules.subdomain_name_problems(text, is_prefix=is_prefix)


def _gated(now: datetime) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": as_time(now),
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _drop_stop_signals(spec: Object) -> None:
    # They wait behind a gate that is off. With copies: containers may be those of the old spec.
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind) or ()
        if any("stopSignal" in (container.get("lifecycle") or ()) for container in containers):
            spec[kind] = [_without_stop_signal(container) for container in containers]


def _without_stop_signal(container: Object) -> Object:
    rest = {field: value for field, value in container.items() if field != "lifecycle"}
    hooks = {name: hook for name, hook in (container.get("lifecycle") or {}).items() if name != "stopSignal"}
    return rest | ({"lifecycle": hooks} if hooks else {})


def _take_label_keys(pod: Object) -> None:
    """Selectors get the pod's own values of the labels that they name."""
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    terms = list(spec.get("topologySpreadConstraints") or ())
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(kind) or {}
        terms += affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        weighted = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each["podAffinityTerm"] for each in weighted if each.get("podAffinityTerm")]
    for term in terms:
        selector = term.get("labelSelector")
        if selector is None:
            continue
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field) or ()
            if key in labels
        ]
        if added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]
