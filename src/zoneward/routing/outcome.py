"""What a Service's decisions come to as a whole: of the families that have endpoints the one with the graver outcome
speaks for the Service."""

from collections.abc import Mapping

from zoneward.routing.decision import Decision
from zoneward.routing.reasons import Reason


def speaker(decisions: Mapping[str, Decision]) -> tuple[str, Decision] | None:
    """Address type and decision of the family that speaks for the Service: the first of the gravest, or None."""
    if not decisions:
        return None
    return max(with_endpoints(decisions).items(), key=lambda item: _gravity(item[1]))


def with_endpoints(decisions: Mapping[str, Decision]) -> Mapping[str, Decision]:
    """The decisions of families that have endpoints, ready or not; all of them where no family has any.

    Nothing is routed in a family without endpoints. A dual-stack Service has one where its Pods have IPv4 alone.
    """
    return {family: each for family, each in decisions.items() if each.has_endpoints} or decisions


def _gravity(decision: Decision) -> int:
    """0 in force, 1 nothing asked for, 2 asked for in vain."""
    if decision.active:
        return 0
    return 1 if decision.reason is Reason.NOT_ASKED_FOR else 2
