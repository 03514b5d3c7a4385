"""The condition ``TrafficDistributionHonored``: in which words it is told, and of what it is true (KEP-4444 § Status
Reporting).

API servers give Services no ``metadata.generation``. So what a Service asks for has a *revision*: a digest of the
Service's fields that decide it, and of whether it is in force. It stands in the message, and the next leader knows from
there what was found true before.
"""

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from zoneward.kube import names
from zoneward.kube.objects import Condition, Service
from zoneward.routing.service_conditions import find_condition

_DECIDING: Final = (
    names.TOPOLOGY_AWARE_HINTS_ANNOTATION,
    names.TOPOLOGY_MODE_ANNOTATION,
    names.SUBSETTING_ANNOTATION,
    names.SUBSETTING_ALGORITHM_ANNOTATION,
    names.STARTING_THRESHOLD_ANNOTATION,
    names.HINTS_THRESHOLD_ANNOTATION,
)
_DIGITS: Final = 8
_MOST_NAMES: Final = 3


class HonoredReason(StrEnum):
    """The reason of the condition."""

    PROGRAMMED = "Programmed"
    """Every node whose proxy is ours, and lives, has it in its kernel, or had it: this never changes back."""
    PROGRAMMING = "Programming"
    NODES_BEHIND = "NodesBehind"
    """As `PROGRAMMING`, for too long."""
    NOT_ACCEPTED = "NotAccepted"
    NOT_PROGRAMMED = "NotProgrammed"
    """There are no hints and no groups of slices that could be honored."""


_STATUS: Final = {HonoredReason.PROGRAMMED: "True", HonoredReason.PROGRAMMING: "Unknown"}


def revision_of(service: Service, planned: Iterable[Condition]) -> str:
    """Eight digits. ``planned`` are the other conditions that a plan says."""
    spec, annotations = service.spec, service.metadata.annotations or {}
    accepted, programmed = _of(planned, names.ACCEPTED_CONDITION), _of(planned, names.PROGRAMMED_CONDITION)
    said = (
        service.metadata.uid,
        (service.metadata.labels or {}).get(names.PROXY_NAME_LABEL),
        [annotations.get(name) for name in _DECIDING],
        (spec.selector, spec.ports, spec.ip_families, spec.publish_not_ready_addresses),
        (spec.internal_traffic_policy, spec.external_traffic_policy, spec.traffic_distribution, spec.topology_keys),
        (accepted.status, programmed.status, asked_for(programmed)),
    )
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:_DIGITS]


def reason_of(planned: Iterable[Condition]) -> HonoredReason:
    """What is to be said before any node is asked; PROGRAMMING where nodes have to be."""
    if _of(planned, names.ACCEPTED_CONDITION).status != "True":
        return HonoredReason.NOT_ACCEPTED
    if _of(planned, names.PROGRAMMED_CONDITION).status != "True":
        return HonoredReason.NOT_PROGRAMMED
    return HonoredReason.PROGRAMMING


def condition(
    reason: HonoredReason, planned: Iterable[Condition], revision: str, *, nodes: int = 0, behind: Sequence[str] = ()
) -> Condition:
    """``nodes`` have a proxy of ours that lives; the first of those that are ``behind`` are named."""
    message = f"revision {revision}"
    match reason:
        case HonoredReason.PROGRAMMED:
            message += f" is in the kernel of {_nodes(nodes)}"
        case HonoredReason.PROGRAMMING:
            message += " is on its way to the nodes"
        case HonoredReason.NODES_BEHIND:
            some = ", ".join(behind[:_MOST_NAMES]) + (", ..." if len(behind) > _MOST_NAMES else "")
            message += f" is in the kernel of {nodes - len(behind)} of {_nodes(nodes)}; not yet of {some}"
        case HonoredReason.NOT_ACCEPTED | HonoredReason.NOT_PROGRAMMED:
            type_ = names.ACCEPTED_CONDITION if reason is HonoredReason.NOT_ACCEPTED else names.PROGRAMMED_CONDITION
            message += f": {_of(planned, type_).reason}"
    asked = asked_for(_of(planned, names.PROGRAMMED_CONDITION))
    return Condition(
        type=names.HONORED_CONDITION,
        status=_STATUS.get(reason, "False"),
        reason=reason,
        message=f"{asked}: {message}" if asked else message,
    )


def is_of(condition: Condition | None, revision: str) -> bool:
    """Whether a condition says that this revision is honored."""
    return condition is not None and condition.status == "True" and f"revision {revision} " in condition.message


def asked_for(programmed: Condition) -> str:
    """``<approach>/<heuristic>``, with which the words of ``Programmed`` begin; empty where nothing known is asked."""
    words, colon, _ = programmed.message.partition(": ")
    return words if colon and "/" in words and " " not in words and "." not in words else ""


def _of(conditions: Iterable[Condition], type_: str) -> Condition:
    return find_condition(conditions, type_) or Condition(type=type_)


def _nodes(number: int) -> str:
    return f"{number} node{'s' if number != 1 else ''}"
