"""Conditions of a Service, with our domain as prefix (KEP-4444 § Status Reporting).

``TrafficDistributionAccepted`` says whether every setting was understood, ``TrafficDistributionProgrammed`` whether
hints
were set for it, and if not, why; its message starts with ``<approach>/<heuristic>``. They are also where what was told
last is remembered.
"""

from collections.abc import Iterable, Mapping

from zoneward.kube import names
from zoneward.kube.objects import Condition
from zoneward.routing.decision import Decision
from zoneward.routing.outcome import speaker


def conditions_of(decisions: Mapping[str, Decision]) -> tuple[Condition, ...]:
    """The conditions that a Service should have. ``decisions`` by address type; none where nothing is asked for."""
    spoken = speaker(decisions)
    if spoken is None or spoken[1].accepted is None:
        return ()
    decision = spoken[1]
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


def condition_of(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def _status(true: bool) -> str:
    return "True" if true else "False"
