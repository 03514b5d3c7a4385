"""What the settings of a Service come to: an approach and a heuristic, or why there is none."""

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from zoneward.kube import names
from zoneward.routing.algorithms.registry import Heuristic
from zoneward.routing.configuration import Configuration, HintsSettings
from zoneward.routing.reasons import Reason
from zoneward.routing.rules import Rules


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
    endpoints a zone; ``hints`` are the settings for hints where the Service has its own.
    """

    approach: Approach
    heuristic: Heuristic | None
    refusal: Reason | None = None
    refusal_detail: str = ""
    accepted: bool | None = None
    accepted_reason: Reason = Reason.ACCEPTED
    accepted_detail: str = ""
    starting_threshold: Fraction = Fraction(0)
    hints: HintsSettings | None = None


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


def not_accepted(asked: Asked, reason: Reason, detail: str) -> Asked:
    """The same with one more setting that was not understood, before those that there are."""
    if asked.accepted is False:
        detail = f"{detail}; {asked.accepted_detail}"
    return replace(asked, accepted=False, accepted_reason=reason, accepted_detail=detail)


def gate_refusal(asked: Asked, configuration: Configuration, rules: Rules, *, value: str = "") -> Asked | None:
    """The refusal of what is asked for, where a gate that it needs is off; None where all of them are on.

    Every approach passes here, and the gates follow from what it would write: hints need TopologyAwareHints whoever
    asks for them, since without it API servers drop the field and proxies ignore it (KEP-2433 § Feature Gate).
    ``value`` is the value that was set.
    """
    heuristic, gates = asked.heuristic, configuration.gates
    assert heuristic is not None
    needed = []
    if asked.approach is Approach.TRAFFIC_DISTRIBUTION:
        on = gates.service_traffic_distribution
        needed.append(("service-traffic-distribution", "ServiceTrafficDistribution", on))
    if heuristic.subsets:
        needed.append(("topology-aware-subsetting", "TopologyAwareSubsetting", gates.topology_aware_subsetting))
    if not heuristic.subsets or configuration.subsetting.encoding == "hints":
        needed.append(("topology-aware-hints", "TopologyAwareHints", gates.topology_aware_hints))
    if heuristic.name in (names.PREFER_SAME_ZONE, names.PREFER_SAME_NODE) and value != names.PREFER_CLOSE:
        on = gates.prefer_same_traffic_distribution
        needed.append(("prefer-same-traffic-distribution", "PreferSameTrafficDistribution", on))
    for rule, gate, on in needed:
        if not rules.ask(f"gate-{rule}", on, f"{gate} is {'on' if on else 'off'}"):
            return refused(Reason.FEATURE_GATE_OFF, f"the feature gate {gate} is off")
    return None
