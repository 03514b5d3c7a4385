"""Why a decision came out as it did: a short code for machines, and the words for people."""

from enum import StrEnum


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
    BEING_DELETED = "BeingDeleted"
