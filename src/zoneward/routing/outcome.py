"""What a Service's decisions come to as a whole: the family with the graver outcome speaks for the Service."""

from collections.abc import Mapping

from zoneward.routing.decision import Decision
from zoneward.routing.reasons import Reason


def speaker(decisions: Mapping[str, Decision]) -> tuple[str, Decision] | None:
    """Address type and decision of the family that speaks for the Service: the first of the gravest, or None."""
    if not decisions:
        return None
    return max(decisions.items(), key=lambda item: _gravity(item[1]))


def _gravity(decision: Decision) -> int:
    """0 in force, 1 nothing asked for, 2 asked for in vain."""
    if decision.active:
        return 0
    return 1 if decision.reason is Reason.NOT_ASKED_FOR else 2
