"""Events of a Service, only when something changed: KEP-2433's six (§ Events), and their like for subsetting.

What changed is told from values alone: what the slices say was in force, and what the Service's conditions say was told
last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Literal

import msgspec

from zoneward.kube import names
from zoneward.kube.objects import Condition, Service
from zoneward.routing.algorithms.registry import HEURISTICS
from zoneward.routing.conditions import condition_of
from zoneward.routing.decision import Decision
from zoneward.routing.outcome import speaker, with_endpoints
from zoneward.routing.reasons import Reason
from zoneward.routing.request.approach import asks_for_hints
from zoneward.routing.request.asked import Approach
from zoneward.routing.request.subsetting_settings import asks_for_subsetting

ENABLED: Final = "TopologyAwareRoutingEnabled"
DISABLED: Final = "TopologyAwareRoutingDisabled"
SUBSETTING_ENABLED: Final = "TopologyAwareSubsettingEnabled"
SUBSETTING_DISABLED: Final = "TopologyAwareSubsettingDisabled"
NOT_ACCEPTED: Final = "TrafficDistributionNotAccepted"
UPSTREAM_ENABLED: Final = "TopologyAwareHintsEnabled"
UPSTREAM_DISABLED: Final = "TopologyAwareHintsDisabled"

_TOO_FEW: Final = "Insufficient number of Endpoints ({endpoints}), impossible to safely allocate proportionally"
_MESSAGES: Final = {
    Reason.TOO_FEW_ENDPOINTS: _TOO_FEW,
    Reason.OVERLOAD: _TOO_FEW,
    Reason.ENDPOINT_WITHOUT_ZONE: "1 or more Endpoints do not have a Zone specified",
    Reason.NODE_WITHOUT_CPU: "1 or more Nodes do not have allocatable CPU specified",
    Reason.ONE_ZONE: "Nodes only ready in 1 zone",
    # The proposal has no words for these, and others for none of subsetting's: the decision's own serve.
    Reason.NODE_WITHOUT_ZONE: "1 or more Nodes do not have a Zone specified",
    Reason.NO_READY_NODES: "No Nodes are ready",
    Reason.NO_READY_ENDPOINTS: "No Endpoints are ready",
    Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL: "externalTrafficPolicy is Local",
}
_UPSTREAM_MESSAGES: Final = {
    Reason.TOO_FEW_ENDPOINTS: "Insufficient number of endpoints ({detail})",
    Reason.OVERLOAD: "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
    " ({detail})",
    Reason.ENDPOINT_WITHOUT_ZONE: "One or more endpoints do not have a zone specified",
    Reason.NODE_WITHOUT_CPU: "Insufficient Node information: allocatable CPU or zone not specified on one or more"
    " nodes",
}


class Event(msgspec.Struct, frozen=True, gc=False):
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Matter(Enum):
    """What events are about."""

    HINTS = auto()
    SUBSETTING = auto()


@dataclass(frozen=True, slots=True)
class Told:
    """What a Service's conditions say was told last: what was asked for (None: nothing that events are about), whether
    it was on, and if not, why.
    """

    matter: Matter | None
    on: bool
    reason: str = ""


def told_last(conditions: Iterable[Condition]) -> Told | None:
    """Read it back. None where the Service has no condition of ours."""
    programmed = condition_of(conditions, names.PROGRAMMED_CONDITION)
    if programmed is None:
        return None
    approach = programmed.message.partition(": ")[0]
    return Told(matter=_matter(approach), on=programmed.status == "True", reason=programmed.reason)


def events_of(
    service: Service, decisions: Mapping[str, Decision], *, in_force: Mapping[str, str | None]
) -> tuple[Event, ...]:
    """The events that a Service's new decisions are worth, by address type.

    The Service's conditions are the memory of what was told last. Where it has none of ours, ``in_force`` stands in for
    them: what the existing slices of each address type were written for. Nothing is told twice. Of subsetting by
    default nothing is told: such a Service has no conditions, and nothing would remember it.
    """
    spoken = speaker(decisions)
    if spoken is None:
        return ()
    decision = spoken[1]
    if decision.reason is Reason.BEING_DELETED:
        return ()
    matter = _matter(decision.asked_for or "") if decision.accepted is not None else None
    told = (service.status.conditions or ()) if service.status else ()
    last = told_last(told) or _in_force(matter, {family: in_force.get(family) for family in with_endpoints(decisions)})
    events = []
    if last.matter is not None and last.matter is not matter:
        events.append(_over(last.matter, service, decision))
    if matter is not None:
        before = last if last.matter is matter else Told(matter, on=False)
        if decision.active:
            if not before.on:
                events.append(_enabled(matter))
        elif before.on or before.reason != decision.reason:
            events.append(_disabled(matter, decision))
    if _is_misspelt(decision, told) and all(event.message != decision.accepted_message for event in events):
        events.append(Event("Warning", NOT_ACCEPTED, decision.accepted_message))
    return tuple(events)


def _is_misspelt(decision: Decision, told: Iterable[Condition]) -> bool:
    """Whether some value is not a known one, and nobody was told of it yet."""
    if decision.accepted is not False or decision.accepted_reason is not Reason.UNKNOWN_VALUE:
        return False
    last = condition_of(told, names.ACCEPTED_CONDITION)
    # An anonymized snapshot has no messages.
    return last is None or last.status != "False" or last.message not in ("", decision.accepted_message)


def _over(matter: Matter, service: Service, decision: Decision) -> Event:
    """What asked for hints or subsetting before does so no more. Where the annotation is still there, what overrules it
    is told: to hear that it was removed would lead nobody to a gate or to a misspelt value. Nothing but subsetting wins
    over an annotation that is understood, so that is about hints.
    """
    if not (asks_for_hints(service) if matter is Matter.HINTS else asks_for_subsetting(service)):
        return _removed(matter)
    if decision.accepted is not False:
        wins = f"{decision.asked_for} is asked for too and wins: {decision.accepted_message}"
        return Event("Normal", DISABLED, wins)
    if matter is Matter.HINTS:
        return Event("Warning", DISABLED, decision.accepted_message)
    return Event("Warning", SUBSETTING_DISABLED, decision.accepted_message)


def _enabled(matter: Matter) -> Event:
    if matter is Matter.HINTS:
        return Event("Normal", ENABLED, "Topology Aware Routing has been enabled")
    return Event("Normal", SUBSETTING_ENABLED, "Topology Aware Subsetting has been enabled")


def _removed(matter: Matter) -> Event:
    if matter is Matter.HINTS:
        return Event("Normal", DISABLED, "Topology Aware Routing configuration was removed")
    return Event("Normal", SUBSETTING_DISABLED, "Topology Aware Subsetting configuration was removed")


def _disabled(matter: Matter, decision: Decision) -> Event:
    if matter is Matter.SUBSETTING:
        return Event("Warning", SUBSETTING_DISABLED, decision.message)
    words = _MESSAGES.get(decision.reason)
    message = decision.message if words is None else words.format(endpoints=decision.endpoints)
    return Event("Warning", DISABLED, message)


def _in_force(matter: Matter | None, in_force: Mapping[str, str | None]) -> Told:
    """What slices tell. Those of subsetting count where it is asked for: it may have been there by default."""
    there = {family: _matter(each or "") for family, each in in_force.items()}
    for kind in (Matter.HINTS, Matter.SUBSETTING):
        if kind in there.values() and (kind is Matter.HINTS or kind is matter):
            return Told(kind, on=all(each is kind for each in there.values()))
    return Told(None, on=False)


def upstream_events_of(decisions: Mapping[str, Decision], *, told: Iterable[Condition]) -> tuple[Event, ...]:
    """The events that current Kubernetes sends: on every sync that fails, and per address family.

    Upstream remembers in memory; here the Service's condition stands for that.
    """
    last = told_last(told)
    populated = last is not None and last.matter is Matter.HINTS and last.on
    events = []
    for address_type, decision in decisions.items():
        where = f", addressType: {address_type}"
        if _matter(decision.asked_for or "") is not Matter.HINTS:
            if populated:
                text = f"Topology Aware Hints has been disabled{where}"
                events.append(Event("Warning", UPSTREAM_DISABLED, text))
        elif not decision.active:
            text = _UPSTREAM_MESSAGES[decision.reason].format(detail=decision.message) + where
            events.append(Event("Warning", UPSTREAM_DISABLED, text))
        elif not populated:
            events.append(Event("Normal", UPSTREAM_ENABLED, f"Topology Aware Hints has been enabled{where}"))
            populated = True
    return tuple(events)


def _matter(approach: str) -> Matter | None:
    """What ``<approach>/<heuristic>`` is a matter of; None for those that no event speaks of."""
    kind, _, name = approach.partition("/")
    heuristic = HEURISTICS.get(name)
    if heuristic is None:
        return None
    if heuristic.subsets:
        return Matter.SUBSETTING
    return Matter.HINTS if kind == Approach.HINTS or heuristic.balances else None
