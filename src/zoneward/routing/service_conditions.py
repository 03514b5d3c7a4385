"""Conditions of a Service, with our domain as prefix (KEP-4444 § Status Reporting), and the family that they report.

``TrafficDistributionAccepted`` says whether Zoneward understood every setting, ``TrafficDistributionProgrammed``
whether hints or slice groups are in force, and if not, why; its message starts with ``<approach>/<heuristic>``. The
conditions are also the memory of what was reported last (`zoneward.routing.service_events`).
"""

from collections.abc import Iterable, Mapping

from zoneward.kube import names
from zoneward.kube.objects import Condition
from zoneward.routing.decision import Decision
from zoneward.routing.rules import Reason


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
