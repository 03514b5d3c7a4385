"""Why a decision came out as it did: the rules it applied, in order, with their numbers, and the reason it ended with.

`explain` prints exactly this list; there is no other explanation anywhere. To add a rule, record it where the decision
applies it: `zoneward.routing.request` (settings), `zoneward.routing.hints_decision`,
`zoneward.routing.balanced_decision` or `zoneward.routing.subsetting_decision`.
"""

from enum import StrEnum

import msgspec


class Reason(StrEnum):
    """The reason of a condition, in the API's camel case."""

    ENABLED = "Enabled"
    NOT_ASKED_FOR = "NotAskedFor"
    ACCEPTED = "Accepted"
    UNKNOWN_VALUE = "UnknownValue"
    FEATURE_GATE_OFF = "FeatureGateOff"
    TOPOLOGY_KEYS = "TopologyKeys"
    EXTERNAL_TRAFFIC_POLICY_LOCAL = "ExternalTrafficPolicyLocal"
    NO_READY_NODES = "NoReadyNodes"
    ONLY_CONTROL_PLANES = "OnlyControlPlanesReady"
    NODE_WITHOUT_ZONE = "NodeWithoutZone"
    NODE_WITHOUT_CPU = "NodeWithoutCPU"
    ONE_ZONE = "OneZone"
    NO_READY_ENDPOINTS = "NoReadyEndpoints"
    TOO_FEW_ENDPOINTS = "TooFewEndpoints"
    OVERLOAD = "Overload"
    ENDPOINT_WITHOUT_ZONE = "EndpointWithoutZone"
    NO_SELECTOR = "NoSelector"
    BELOW_STARTING_THRESHOLD = "BelowStartingThreshold"
    HINTS_WITHOUT_WEIGHTS = "HintsWithoutWeights"
    TOO_MANY_ZONES = "TooManyZones"
    CLUSTER_WIDE_IS_BEST = "ClusterWideIsBest"
    BEING_DELETED = "BeingDeleted"
    HINTS_NOT_STORED = "HintsNotStored"


class Rule(msgspec.Struct, frozen=True, gc=False):
    """One rule that a decision applied.

    ``rule`` is a stable name in kebab case, ``passed`` says whether the decision continued, ``detail`` is a phrase with
    the numbers, for people.
    """

    rule: str
    passed: bool
    detail: str


class RuleLog:
    """The rules that one decision has recorded so far. ``deciding`` is the index of the rule that decided."""

    __slots__ = ("_rules", "deciding")

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self.deciding: int | None = None

    @property
    def latest(self) -> int:
        """The index of the rule that was recorded last."""
        return len(self._rules) - 1

    def record(self, rule: str, passed: bool, detail: str) -> bool:
        """Append a rule, and return whether it passed."""
        self._rules.append(Rule(rule, passed, detail))
        return passed

    def require(self, rule: str, passed: bool, detail: str) -> bool:
        """Append a rule that decides where it does not pass, and return whether it passed."""
        self.record(rule, passed, detail)
        if not passed:
            self.deciding = self.latest
        return passed

    def decide(self, rule: str, passed: bool, detail: str) -> bool:
        """Append the rule that decides, and return whether it passed."""
        self.record(rule, passed, detail)
        self.deciding = self.latest
        return passed

    def as_tuple(self) -> tuple[Rule, ...]:
        return tuple(self._rules)
