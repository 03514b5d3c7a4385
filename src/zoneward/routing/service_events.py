"""Conditions and events of a Service, and the address family that they report.

Conditions have our domain as prefix (KEP-4444 § Status Reporting). ``TrafficDistributionAccepted`` says whether
Zoneward understood every setting, ``TrafficDistributionProgrammed`` whether hints or slice groups are in force, and if
not, why; its message starts with ``<approach>/<heuristic>``.

Events report only changes: KEP-2433's six (§ Events), and the same for subsetting. What changed follows from values
alone: what the slices say was in force, and what the Service's conditions reported last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import Condition, Service, ServiceEvent
from zoneward.routing.algorithms.heuristics import BALANCED, HEURISTICS
from zoneward.routing.decision import Decision
from zoneward.routing.request import Approach, requests_hints, requests_subsetting
from zoneward.routing.rules import Reason

# --- conditions -------------------------------------------------------------------------------------------------------


def conditions_of(decisions: Mapping[str, Decision]) -> tuple[Condition, ...]:
    """The conditions that a Service should have. ``decisions`` by address type; none where it requests nothing."""
    worst = worst_family(decisions)
    if worst is None or worst[1].accepted is None:
        return ()
    decision = worst[1]
    return (
        Condition(
            type=names.ACCEPTED_CONDITION,
            status=_status(decision.accepted is True),
            reason=decision.accepted_reason,
            message=decision.accepted_message,
        ),
        Condition(
            type=names.PROGRAMMED_CONDITION,
            status=_status(decision.active),
            reason=decision.reason,
            message=f"{decision.asked_for}: {decision.message}" if decision.asked_for else decision.message,
        ),
    )


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def _status(true: bool) -> str:
    return "True" if true else "False"


def worst_family(decisions: Mapping[str, Decision]) -> tuple[str, Decision] | None:
    """Address type and decision of the family with the worst outcome, which conditions and events report.

    The first of several; None without decisions. Families without endpoints count only where no family has any.
    """
    if not decisions:
        return None
    return max(families_with_endpoints(decisions).items(), key=lambda item: _severity(item[1]))


def families_with_endpoints(decisions: Mapping[str, Decision]) -> Mapping[str, Decision]:
    """The decisions of families that have endpoints, ready or not; all of them where no family has any.

    Nothing is routed in a family without endpoints. A dual-stack Service has one where its Pods have IPv4 alone.
    """
    return {family: decision for family, decision in decisions.items() if decision.has_endpoints} or decisions


def _severity(decision: Decision) -> int:
    """0 in force, 1 nothing requested, 2 requested but not in force."""
    if decision.active:
        return 0
    return 1 if decision.reason is Reason.NOT_ASKED_FOR else 2


# --- events -----------------------------------------------------------------------------------------------------------


ENABLED: Final = "TopologyAwareRoutingEnabled"
DISABLED: Final = "TopologyAwareRoutingDisabled"
SUBSETTING_ENABLED: Final = "TopologyAwareSubsettingEnabled"
SUBSETTING_DISABLED: Final = "TopologyAwareSubsettingDisabled"
NOT_ACCEPTED: Final = "TrafficDistributionNotAccepted"
NOT_STORED: Final = "TrafficDistributionNotStored"
UPSTREAM_ENABLED: Final = "TopologyAwareHintsEnabled"
UPSTREAM_DISABLED: Final = "TopologyAwareHintsDisabled"

_TOO_FEW: Final = "Insufficient number of Endpoints ({endpoints}), impossible to safely allocate proportionally"
_MESSAGES: Final = {
    Reason.TOO_FEW_ENDPOINTS: _TOO_FEW,
    Reason.OVERLOAD: _TOO_FEW,
    Reason.ENDPOINT_WITHOUT_ZONE: "1 or more Endpoints do not have a Zone specified",
    Reason.NODE_WITHOUT_CPU: "1 or more Nodes do not have allocatable CPU specified",
    Reason.ONE_ZONE: "Nodes only ready in 1 zone",
    # The proposal has no messages for these, nor for subsetting, where the decision's own message serves.
    Reason.NODE_WITHOUT_ZONE: "1 or more Nodes do not have a Zone specified",
    Reason.NO_READY_NODES: "No Nodes are ready",
    Reason.ONLY_CONTROL_PLANES: "Only control plane Nodes are ready",
    Reason.NO_READY_ENDPOINTS: "No Endpoints are ready",
    Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL: "externalTrafficPolicy is Local",
    Reason.HINTS_NOT_STORED: "The API server does not store hints: its feature gate is off, or a webhook removes them",
}
_NODE_INFORMATION: Final = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
_UPSTREAM_MESSAGES: Final = {
    Reason.TOO_FEW_ENDPOINTS: "Insufficient number of endpoints ({detail})",
    Reason.OVERLOAD: "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
    " ({detail})",
    Reason.ENDPOINT_WITHOUT_ZONE: "One or more endpoints do not have a zone specified",
    Reason.NODE_WITHOUT_ZONE: _NODE_INFORMATION,
    Reason.NODE_WITHOUT_CPU: _NODE_INFORMATION,
    Reason.ONE_ZONE: _NODE_INFORMATION,
}


class EventSubject(Enum):
    """What events are about, as they name it."""

    HINTS = "Topology Aware Routing"
    SUBSETTING = "Topology Aware Subsetting"

    @property
    def enabled(self) -> str:
        return ENABLED if self is EventSubject.HINTS else SUBSETTING_ENABLED

    @property
    def disabled(self) -> str:
        return DISABLED if self is EventSubject.HINTS else SUBSETTING_DISABLED


@dataclass(frozen=True, slots=True)
class ReportedState:
    """What was reported last: what the Service requested (None: nothing that events are about), whether it was active,
    and if not, why.
    """

    subject: EventSubject | None
    active: bool
    reason: str = ""


def _conditions(service: Service) -> tuple[Condition, ...]:
    return (service.status.conditions or ()) if service.status else ()


def last_reported(service: Service) -> ReportedState | None:
    """Read the last report from a Service's condition and annotation; None where it has none, or only the condition,
    as earlier versions wrote it."""
    programmed = find_condition(_conditions(service), names.PROGRAMMED_CONDITION)
    approach = (service.metadata.annotations or {}).get(names.REQUESTED_APPROACH_ANNOTATION)
    if programmed is None or approach is None:
        return None
    return ReportedState(_subject(approach), active=programmed.status == "True", reason=programmed.reason)


def events_of(
    service: Service, decisions: Mapping[str, Decision], *, in_force: Mapping[str, str | None]
) -> tuple[ServiceEvent, ...]:
    """The events that a Service's new decisions cause. ``decisions`` and ``in_force`` are by address type.

    The Service's conditions are the memory of what was reported last. Where it has none of our conditions, ``in_force``
    replaces them: what the existing slices were written for. Nothing is reported twice. The controller's default causes
    no events: such a Service has no conditions, and nothing would remember them.
    """
    worst = worst_family(decisions)
    if worst is None:
        return ()
    decision = worst[1]
    if decision.reason is Reason.BEING_DELETED:
        return ()
    subject = _subject(decision.asked_for or "") if decision.accepted is not None else None
    last = last_reported(service) or _state_in_force(
        subject, {family: in_force.get(family) for family in families_with_endpoints(decisions)}
    )
    events = []
    if last.subject is not None and last.subject is not subject:
        events.append(_ended(last.subject, service, decision))
    if subject is not None:
        previous = last if last.subject is subject else ReportedState(subject, active=False)
        if decision.active:
            if not previous.active:
                events.append(ServiceEvent("Normal", subject.enabled, f"{subject.value} has been enabled"))
        elif previous.active or previous.reason != decision.reason:
            events.append(_disabled(subject, decision))
    is_new = last.reason != Reason.HINTS_NOT_STORED
    if subject is None and decision.reason is Reason.HINTS_NOT_STORED and decision.accepted is not None and is_new:
        events.append(ServiceEvent("Warning", NOT_STORED, decision.message))
    if _has_new_unknown_value(decision, service) and all(
        event.message != decision.accepted_message for event in events
    ):
        events.append(ServiceEvent("Warning", NOT_ACCEPTED, decision.accepted_message))
    return tuple(events)


def _has_new_unknown_value(decision: Decision, service: Service) -> bool:
    """Whether some value is unknown, and no condition has reported it yet."""
    if decision.accepted is not False or decision.accepted_reason is not Reason.UNKNOWN_VALUE:
        return False
    last = find_condition(_conditions(service), names.ACCEPTED_CONDITION)
    # An anonymized snapshot has no messages.
    return last is None or last.status != "False" or last.message not in ("", decision.accepted_message)


def _ended(subject: EventSubject, service: Service, decision: Decision) -> ServiceEvent:
    """The Service no longer gets hints or subsetting, which it requested before.

    Where the annotation is still there, the event names what overrides it: "removed" would lead nobody to a feature
    gate or a misspelt value. Only subsetting wins over an annotation with a known value, so that is about hints.
    """
    if not (requests_hints(service) if subject is EventSubject.HINTS else requests_subsetting(service)):
        return ServiceEvent("Normal", subject.disabled, f"{subject.value} configuration was removed")
    if decision.accepted is not False:
        wins = f"{decision.asked_for} is asked for too and wins: {decision.accepted_message}"
        return ServiceEvent("Normal", DISABLED, wins)
    return ServiceEvent("Warning", subject.disabled, decision.accepted_message)


def _disabled(subject: EventSubject, decision: Decision) -> ServiceEvent:
    if subject is EventSubject.SUBSETTING:
        return ServiceEvent("Warning", SUBSETTING_DISABLED, decision.message)
    words = _MESSAGES.get(decision.reason)
    message = decision.message if words is None else words.format(endpoints=decision.endpoints)
    return ServiceEvent("Normal" if decision.reason is Reason.CLUSTER_WIDE_IS_BEST else "Warning", DISABLED, message)


def _state_in_force(requested: EventSubject | None, in_force: Mapping[str, str | None]) -> ReportedState:
    """What the slices say. What may have been there by default counts only where the Service requests it."""
    subjects = {_subject(approach or "") for approach in in_force.values()}
    own = [approach for approach in in_force.values() if approach and not _may_be_default(approach)]
    reported = {requested, *map(_subject, own)}
    for subject in (EventSubject.HINTS, EventSubject.SUBSETTING):
        if subject in subjects & reported:
            return ReportedState(subject, active=subjects == {subject})
    return ReportedState(None, active=False)


def _may_be_default(approach: str) -> bool:
    return _subject(approach) is EventSubject.SUBSETTING or approach == f"{Approach.HINTS}/{BALANCED.name}"


def upstream_events_of(decisions: Mapping[str, Decision], *, last: ReportedState | None) -> tuple[ServiceEvent, ...]:
    """The events that current Kubernetes sends: on every sync that fails, and per address family.

    Upstream remembers the last state in memory; here `last_reported` reads it.
    """
    populated = last is not None and last.subject is EventSubject.HINTS and last.active
    events = []
    for address_type, decision in decisions.items():
        where = f", addressType: {address_type}"
        if _subject(decision.asked_for or "") is not EventSubject.HINTS:
            if populated:
                text = f"Topology Aware Hints has been disabled{where}"
                events.append(ServiceEvent("Warning", UPSTREAM_DISABLED, text))
        elif not decision.active:
            words = _UPSTREAM_MESSAGES.get(decision.reason, "{detail}")
            text = words.format(detail=decision.message) + where
            events.append(ServiceEvent("Warning", UPSTREAM_DISABLED, text))
        elif not populated:
            events.append(ServiceEvent("Normal", UPSTREAM_ENABLED, f"Topology Aware Hints has been enabled{where}"))
            populated = True
    return tuple(events)


def _subject(approach: str) -> EventSubject | None:
    """What events about ``<approach>/<heuristic>`` are about; None where it causes none."""
    kind, _, name = approach.partition("/")
    heuristic = HEURISTICS.get(name)
    if heuristic is None:
        return None
    if heuristic.subsets:
        return EventSubject.SUBSETTING
    return EventSubject.HINTS if kind == Approach.HINTS or heuristic.balances else None
