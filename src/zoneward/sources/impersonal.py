"""What in objects names nobody, and stays when a snapshot is anonymized."""

import re
from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import Condition, Container, NodeCondition

KEPT_LABELS: Final = frozenset(
    {
        names.ZONE_LABEL,
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
"""Labels whose values stay. Of the others, what decisions ask for is whether they are there and equal."""
KEPT_ANNOTATIONS: Final = frozenset(
    {names.TOPOLOGY_AWARE_HINTS_ANNOTATION, names.TOPOLOGY_MODE_ANNOTATION, names.SUBSETTING_ANNOTATION}
)
"""Annotations that stay as they are, beside Zoneward's own: settings, also those that are not understood."""

_CONDITIONS: Final = (names.ACCEPTED_CONDITION, names.PROGRAMMED_CONDITION)
_DOMAINS: Final = ("k8s.io", "kubernetes.io", names.DOMAIN)
_ASKED: Final = re.compile(r"[A-Za-z]+/[A-Za-z-]+")
"""``<approach>/<heuristic>``, with which the message of a condition begins; what was told last is read from there."""
_TIME: Final = re.compile(r"[0-9TZ:.+-]+")
_SOME_TIME: Final = "1970-01-01T00:00:00Z"


def is_kept_label(key: str, value: str) -> bool:
    """Who manages a slice decides what happens to it, where it is a controller that is known."""
    return key in KEPT_LABELS or (key == names.MANAGED_BY_LABEL and is_well_known(value))


def is_well_known(name: str) -> bool:
    """Whether something is named by Kubernetes or by Zoneward."""
    return name in _DOMAINS or name.endswith(tuple(f".{domain}" for domain in _DOMAINS))


def kept_annotations(annotations: dict[str, str] | None) -> dict[str, str] | None:
    """Those that decisions read. Where none is left there are no annotations, rather than a map without any: a slice
    with such a map would be written once more.
    """
    if not annotations:
        return annotations
    return {key: value for key, value in annotations.items() if _is_kept_annotation(key, value)} or None


def _is_kept_annotation(key: str, value: str) -> bool:
    if key == names.TRIGGER_TIME_ANNOTATION:
        return _TIME.fullmatch(value) is not None
    return key in KEPT_ANNOTATIONS or key.startswith(f"{names.DOMAIN}/")


def kept_conditions(conditions: tuple[Condition, ...] | None) -> tuple[Condition, ...] | None:
    """Zoneward's own, which say what was told last. Their messages go, but for what was asked for."""
    if conditions is None:
        return None
    return tuple(
        Condition(type=each.type, status=each.status, reason=each.reason, message=_asked(each.message))
        for each in conditions
        if each.type in _CONDITIONS
    )


def _asked(message: str) -> str:
    asked = message.partition(": ")[0]
    return asked if _ASKED.fullmatch(asked) else ""


def readiness(conditions: tuple[NodeCondition, ...] | None) -> tuple[NodeCondition, ...] | None:
    """Whether a Node or a Pod is ready, and no other condition: people have conditions of their own."""
    if conditions is None:
        return None
    return tuple(NodeCondition(type=each.type, status=each.status) for each in conditions if each.type == "Ready")


def kept_containers(containers: tuple[Container, ...] | None) -> tuple[Container, ...] | None:
    """Their ports: a Service may ask for one by its name."""
    if containers is None:
        return None
    return tuple(Container(ports=each.ports, restart_policy=each.restart_policy) for each in containers)


def kept_time(text: str | None) -> str | None:
    """A time; some time in place of anything else, for it matters that there is one."""
    return text if text is None or _TIME.fullmatch(text) else _SOME_TIME
