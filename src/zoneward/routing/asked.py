"""What the settings of a Service come to: an approach and a heuristic, or why there is none."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from zoneward.routing.algorithms.registry import Heuristic
from zoneward.routing.reasons import Reason


class Approach(StrEnum):
    CLUSTER_WIDE = "ClusterWide"
    SUBSETTING = "Subsetting"
    HINTS = "Hints"
    TRAFFIC_DISTRIBUTION = "TrafficDistribution"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the settings of a Service come to.

    ``heuristic`` is None where nothing is asked for or nothing may be done; ``refusal`` then says why something that
    was asked for may not be done. ``accepted`` is None where no setting is present, else whether all values were
    understood, with why not, and ``accepted_detail`` naming them. ``starting_threshold`` is for subsetting, in
    endpoints a zone.
    """

    approach: Approach
    heuristic: Heuristic | None
    refusal: Reason | None = None
    refusal_detail: str = ""
    accepted: bool | None = None
    accepted_reason: Reason = Reason.ACCEPTED
    accepted_detail: str = ""
    starting_threshold: Fraction = Fraction(0)


def refused(reason: Reason, detail: str) -> Asked:
    """Something was asked for, and nothing may be done."""
    return Asked(
        Approach.CLUSTER_WIDE,
        None,
        refusal=reason,
        refusal_detail=detail,
        accepted=False,
        accepted_reason=reason,
        accepted_detail=detail,
    )


def gate_state(on: bool) -> str:
    return "on" if on else "off"
