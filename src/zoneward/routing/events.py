"""Events of a Service: KEP-2433's six, and only when something changed (KEP-2433 § Events).

What changed is told from values alone: what the slices say was in force, and what the Service's conditions say was told
last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from zoneward.kube import names
from zoneward.kube.objects import Condition
from zoneward.routing.algorithms.registry import HEURISTICS
from zoneward.routing.asked import Approach
from zoneward.routing.conditions import condition_of
from zoneward.routing.decision import Decision
from zoneward.routing.outcome import speaker
from zoneward.routing.reasons import Reason

ENABLED: Final = "TopologyAwareRoutingEnabled"
DISABLED: Final = "TopologyAwareRoutingDisabled"
UPSTREAM_ENABLED: Final = "TopologyAwareHintsEnabled"
UPSTREAM_DISABLED: Final = "TopologyAwareHintsDisabled"

_TOO_FEW: Final = "Insufficient number of Endpoints ({endpoints}), impossible to safely allocate proportionally"
_MESSAGES: Final = {
    Reason.TOO_FEW_ENDPOINTS: _TOO_FEW,
    Reason.OVERLOAD: _TOO_FEW,
    Reason.ENDPOINT_WITHOUT_ZONE: "1 or more Endpoints do not have a Zone specified",
    Reason.NODE_WITHOUT_CPU: "1 or more Nodes do not have allocatable CPU specified",
    Reason.ONE_ZONE: "Nodes only ready in 1 zone",
    # The proposal has no words for these.
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


@dataclass(frozen=True, slots=True)
class Told:
    """What a Service's conditions say was told last: whether hints were asked for, whether they were on, and if not,
    why.
    """

    hints: bool
    on: bool
    reason: str = ""


def told_last(conditions: Iterable[Condition]) -> Told | None:
    """Read it back. None where the Service has no condition of ours."""
    programmed = condition_of(conditions, names.PROGRAMMED_CONDITION)
    if programmed is None:
        return None
    approach = programmed.message.partition(": ")[0]
    return Told(hints=_asks_for_hints(approach), on=programmed.status == "True", reason=programmed.reason)


def events_of(
    decisions: Mapping[str, Decision], *, in_force: Mapping[str, str | None], told: Iterable[Condition]
) -> tuple[Event, ...]:
    """The events that a Service's new decisions are worth, by address type.

    ``told`` are the Service's conditions, the memory of what was told last. Where it has none of ours, ``in_force``
    stands in for them: what the existing slices of each address type were written for. Nothing is told twice.
    """
    spoken = speaker(decisions)
    if spoken is None:
        return ()
    decision = spoken[1]
    last = told_last(told)
    if last is None:
        on = bool(decisions) and all(_asks_for_hints(in_force.get(family) or "") for family in decisions)
        last = Told(hints=any(_asks_for_hints(each or "") for each in in_force.values()), on=on)
    if not _is_hints(decision):
        if last.hints:
            return (Event("Normal", DISABLED, "Topology Aware Routing configuration was removed"),)
        return ()
    if decision.active:
        on = last.hints and last.on
        return () if on else (Event("Normal", ENABLED, "Topology Aware Routing has been enabled"),)
    if last.hints and not last.on and last.reason == decision.reason:
        return ()
    words = _MESSAGES.get(decision.reason)
    message = decision.message if words is None else words.format(endpoints=decision.endpoints)
    return (Event("Warning", DISABLED, message),)


def upstream_events_of(decisions: Mapping[str, Decision], *, told: Iterable[Condition]) -> tuple[Event, ...]:
    """The events that current Kubernetes sends: on every sync that fails, and per address family.

    Upstream remembers in memory; here the Service's condition stands for that.
    """
    last = told_last(told)
    populated = last is not None and last.hints and last.on
    events = []
    for address_type, decision in decisions.items():
        where = f", addressType: {address_type}"
        if not _is_hints(decision):
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


def _is_hints(decision: Decision) -> bool:
    return _asks_for_hints(decision.asked_for or "")


def _asks_for_hints(approach: str) -> bool:
    """Whether ``<approach>/<heuristic>`` is one of those that KEP-2433's events speak of."""
    kind, _, name = approach.partition("/")
    heuristic = HEURISTICS.get(name)
    return heuristic is not None and not heuristic.subsets and (kind == Approach.HINTS or heuristic.balances)
