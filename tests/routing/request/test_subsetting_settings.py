"""What a Service says about subsetting, and what it comes to (KEP-2004 § Configuration, § Interoperability).

A subsetting annotation that asks for something wins over every hints setting, because nobody else reads it; the
controller's default counts only where the annotation is absent or empty and no hints setting asks for anything.
"""

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Final, NamedTuple

import pytest
from tests.clusters import Cluster, a_service, nodes_in, only_family, pods_in, written

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import Configuration, ConfigurationError, FeatureGates, SubsettingSettings
from zoneward.routing.request.approach import Approach, RequestedApproach, requested_approach
from zoneward.routing.rules import Reason, Rule, RuleLog
from zoneward.slices.plan import ServicePlan

OFF: Final = FeatureGates(topology_aware_subsetting=False)


def asked(service: Service, configuration: Configuration | None = None) -> tuple[RequestedApproach, tuple[Rule, ...]]:
    rules = RuleLog()
    found = requested_approach(service, configuration if configuration is not None else Configuration(), rules)
    return found, rules.as_tuple()


def outcome(found: RequestedApproach) -> str:
    """``<approach>/<heuristic>``, or the reason of a refusal, or ``nothing``."""
    if found.heuristic is not None:
        return f"{found.approach}/{found.heuristic.name}"
    assert found.approach is Approach.CLUSTER_WIDE
    return found.refusal.value if found.refusal is not None else "nothing"


# --- all settings together --------------------------------------------------------------------------------------------

LOCAL: Final = "Subsetting/local"
REQUIRE: Final = "Subsetting/RequireZone"
PROPORTIONAL: Final = "Hints/ProportionalZoneCPU"
SAME_ZONE: Final = "TrafficDistribution/PreferSameZone"


class Hints(NamedTuple):
    """A hints setting: the topology annotation's value, the field's, and what both come to alone."""

    mode: str | None
    distribution: str | None
    outcome: str
    accepted: bool | None


SUBSETTING: Final[Mapping[str | None, str]] = {
    None: "absent",
    "": "absent",
    "Auto": LOCAL,
    "Prefer": LOCAL,
    "Require": REQUIRE,
    "Disabled": "nothing",
    "Random": "nothing",
    "Disable": "nothing",
    "disable": "UnknownValue",
    "auto": "UnknownValue",
    "AUTO": "UnknownValue",
    " Auto": "UnknownValue",
    "disabled": "UnknownValue",
    "RequireZone": "UnknownValue",
    "local": "UnknownValue",
    "Banana": "UnknownValue",
}
"""Values of the annotation, compared letter for letter."""
HINTS: Final[Mapping[str, Hints]] = {
    "no hints": Hints(None, None, "nothing", None),
    "mode": Hints("Auto", None, PROPORTIONAL, True),
    "mode off": Hints("Disabled", None, "nothing", None),
    "mode unknown": Hints("Banana", None, "UnknownValue", False),
    "field": Hints(None, "PreferSameZone", SAME_ZONE, True),
    "field unknown": Hints(None, "Banana", "UnknownValue", False),
    "mode and field": Hints("Auto", "PreferSameZone", PROPORTIONAL, True),
    "mode unknown and field": Hints("Banana", "PreferSameZone", SAME_ZONE, False),
}


class Setting(NamedTuple):
    subsetting: str | None
    gate: bool
    default: bool
    """Whether the controller's default is Subsetting."""
    keys: bool
    hints: str


SETTINGS: Final = tuple(
    Setting(*each) for each in product(SUBSETTING, (True, False), (False, True), (False, True), HINTS)
)


def in_words(setting: Setting) -> str:
    value = "absent" if setting.subsetting is None else repr(setting.subsetting)
    parts = (value, "gate" * setting.gate, "default" * setting.default, "keys" * setting.keys, setting.hints)
    return "-".join(filter(None, parts))


class Expected(NamedTuple):
    outcome: str
    accepted: bool | None


def expected_of(setting: Setting) -> Expected:
    """The decisions, told once more."""
    hints = HINTS[setting.hints]
    says = SUBSETTING[setting.subsetting]
    asks = says in (LOCAL, REQUIRE)
    if setting.keys:
        newer = setting.subsetting is not None or setting.hints != "no hints"
        return Expected("TopologyKeys", False if newer else None)
    if asks and setting.gate:
        return Expected(says, True)
    hints_ask = "/" in hints.outcome
    if says == "absent":
        if setting.default and setting.gate and not hints_ask:
            return Expected(LOCAL, hints.accepted)
        return Expected(hints.outcome, hints.accepted)
    if says == "nothing":
        return Expected(hints.outcome, hints.accepted)
    # Unknown, or refused for its gate: the hints setting counts, and the Service is told all the same.
    refused = "FeatureGateOff" if asks else "UnknownValue"
    return Expected(hints.outcome if hints.outcome != "nothing" else refused, False)


@pytest.mark.parametrize("gate", [True, False], ids=["gate on", "gate off"])
@pytest.mark.parametrize("value", SUBSETTING, ids=repr)
def test_what_all_settings_together_come_to(value: str | None, gate: bool) -> None:
    """The annotation with each default, with and without topologyKeys, beside each hints setting."""
    seen = 0
    for setting in SETTINGS:
        if (setting.subsetting, setting.gate) != (value, gate):
            continue
        hints = HINTS[setting.hints]
        service = a_service(
            hints.mode,
            distribution=hints.distribution,
            keys=("*",) if setting.keys else None,
            subsetting=setting.subsetting,
        )
        configuration = Configuration(
            gates=FeatureGates() if setting.gate else OFF,
            default_approach="Subsetting" if setting.default else "ClusterWide",
        )
        found, _ = asked(service, configuration)
        assert Expected(outcome(found), found.accepted) == expected_of(setting), in_words(setting)
        seen += 1
    assert seen == 4 * len(HINTS)


def test_every_value_that_is_known_is_in_the_table() -> None:
    known = {*names.SUBSETTING_AUTO_VALUES, names.SUBSETTING_REQUIRE, *names.SUBSETTING_DISABLED_VALUES}
    assert {value for value, says in SUBSETTING.items() if says not in ("absent", "UnknownValue")} == known


@pytest.mark.parametrize("value", SUBSETTING, ids=repr)
def test_as_upstream_all_of_it_is_ignored(value: str | None) -> None:
    """Neither the annotation nor the default nor topologyKeys beside it say anything about subsetting."""
    for hints in HINTS.values():
        for default in ("ClusterWide", "Subsetting"):
            configuration = Configuration(default_approach=default).as_upstream()
            with_it = asked(a_service(hints.mode, distribution=hints.distribution, subsetting=value), configuration)
            without = asked(a_service(hints.mode, distribution=hints.distribution), configuration)
            assert with_it == without
            assert with_it[0].approach is not Approach.SUBSETTING


# --- rules ------------------------------------------------------------------------------------------------------------

ANNOTATION: Final = names.SUBSETTING_ANNOTATION
RULES: Final[Mapping[str, tuple[Service, Configuration, list[tuple[str, bool]]]]] = {
    "Auto": (
        a_service(subsetting="Auto"),
        Configuration(),
        [("subsetting-annotation", True), ("gate-topology-aware-subsetting", True)],
    ),
    "Require": (
        a_service(subsetting="Require"),
        Configuration(),
        [("subsetting-annotation", True), ("gate-topology-aware-subsetting", True)],
    ),
    "Disabled": (
        a_service(subsetting="Disabled"),
        Configuration(),
        [("subsetting-annotation", False), ("annotation", False), ("traffic-distribution", False)],
    ),
    "Disable": (
        a_service(subsetting="Disable"),
        Configuration(),
        [("subsetting-annotation", False), ("annotation", False), ("traffic-distribution", False)],
    ),
    "gate off": (
        a_service(subsetting="Auto"),
        Configuration(gates=OFF),
        [
            ("subsetting-annotation", True),
            ("gate-topology-aware-subsetting", False),
            ("annotation", False),
            ("traffic-distribution", False),
        ],
    ),
    "gate off, hints asked for": (
        a_service("Auto", subsetting="Auto"),
        Configuration(gates=OFF),
        [
            ("subsetting-annotation", True),
            ("gate-topology-aware-subsetting", False),
            ("annotation", True),
            ("gate-topology-aware-hints", True),
        ],
    ),
    "over both hints settings": (
        a_service("Auto", distribution="PreferSameZone", subsetting="Auto"),
        Configuration(),
        [
            ("subsetting-annotation", True),
            ("gate-topology-aware-subsetting", True),
            ("annotation", False),
            ("traffic-distribution", False),
        ],
    ),
    "over hints settings that ask for nothing": (
        a_service("Disabled", subsetting="Auto"),
        Configuration(),
        [("subsetting-annotation", True), ("gate-topology-aware-subsetting", True)],
    ),
    "topologyKeys": (a_service(subsetting="Auto", keys=("*",)), Configuration(), [("topology-keys", False)]),
    "default": (
        a_service(),
        Configuration(default_approach="Subsetting"),
        [
            ("annotation", False),
            ("traffic-distribution", False),
            ("gate-topology-aware-subsetting", True),
            ("default-approach", True),
        ],
    ),
    "default, gate off": (
        a_service(),
        Configuration(default_approach="Subsetting", gates=OFF),
        [("annotation", False), ("traffic-distribution", False), ("gate-topology-aware-subsetting", False)],
    ),
    "own algorithm and threshold": (
        a_service(subsetting="Auto", algorithm="local-opt", starting="2"),
        Configuration(),
        [
            ("subsetting-algorithm", True),
            ("starting-threshold-annotation", True),
            ("subsetting-annotation", True),
            ("gate-topology-aware-subsetting", True),
        ],
    ),
}


@pytest.mark.parametrize("what", RULES)
def test_every_question_is_a_rule(what: str) -> None:
    """In the order in which they are asked."""
    service, configuration, expected = RULES[what]
    assert [(rule.rule, rule.passed) for rule in asked(service, configuration)[1]] == expected


def test_rules_tell_what_was_read_and_what_it_comes_to() -> None:
    details = {rule.rule: rule.detail for rule in asked(a_service(subsetting="Disables"))[1]}
    assert (
        details["subsetting-annotation"] == f"{ANNOTATION}: 'Disables' is not a known value, so it counts as Disabled"
    )
    details = {rule.rule: rule.detail for rule in asked(a_service("Auto", distribution="X", subsetting="Prefer"))[1]}
    assert details["subsetting-annotation"] == f"{ANNOTATION}: Prefer asks for local"
    assert details["annotation"] == f"{names.TOPOLOGY_MODE_ANNOTATION}: Auto is set too, but subsetting wins"
    assert details["traffic-distribution"] == "X is set too, but subsetting wins"


ACCEPTED: Final[Mapping[str, tuple[Service, FeatureGates, str, str]]] = {
    "understood": (a_service(subsetting="Auto"), FeatureGates(), "Accepted", f"{ANNOTATION}: Auto"),
    "unknown": (
        a_service(subsetting="Banana"),
        FeatureGates(),
        "UnknownValue",
        f"{ANNOTATION}: 'Banana' is not a known value",
    ),
    "unknown, beside hints that work": (
        a_service("Auto", subsetting="Banana"),
        FeatureGates(),
        "UnknownValue",
        f"{ANNOTATION}: 'Banana' is not a known value",
    ),
    "gate off": (
        a_service(subsetting="Require"),
        OFF,
        "FeatureGateOff",
        "the feature gate TopologyAwareSubsetting is off",
    ),
    "gate off, beside hints that work": (
        a_service("Auto", subsetting="Require"),
        OFF,
        "FeatureGateOff",
        "the feature gate TopologyAwareSubsetting is off",
    ),
    "unknown algorithm": (
        a_service(subsetting="Auto", algorithm="Banana"),
        FeatureGates(),
        "UnknownValue",
        f"{names.SUBSETTING_ALGORITHM_ANNOTATION}: 'Banana' is not a known value, so local is used",
    ),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_the_condition_accepted_says_why_not(what: str) -> None:
    """Its reason and its message are about the same thing."""
    service, gates, reason, message = ACCEPTED[what]
    plan = a_cluster(service, Configuration(gates=gates)).plan()
    (condition,) = (each for each in plan.conditions if each.type == names.ACCEPTED_CONDITION)
    assert (condition.status, condition.reason, condition.message) == (
        "True" if reason == "Accepted" else "False",
        reason,
        message,
    )


def test_a_default_needs_no_condition() -> None:
    """Conditions are for what a Service says itself."""
    plan = a_cluster(a_service(), Configuration(default_approach="Subsetting")).plan()
    assert only_family(plan).decision.active
    assert plan.conditions == ()


# --- algorithm and starting threshold ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", SUBSETTING_ALGORITHMS)
def test_a_service_names_its_algorithm(algorithm: str) -> None:
    """Whatever the controller's is."""
    for own in SUBSETTING_ALGORITHMS:
        configuration = Configuration(subsetting=SubsettingSettings(algorithm=own))
        assert outcome(asked(a_service(subsetting="Auto"), configuration)[0]) == f"Subsetting/{own}"
        found, _ = asked(a_service(subsetting="Auto", algorithm=algorithm), configuration)
        assert (outcome(found), found.accepted) == (f"Subsetting/{algorithm}", True)


@pytest.mark.parametrize("value", ["", "Local", "localshared", " local", "RequireZone", "ProportionalZoneCPU", "Auto"])
def test_an_unknown_algorithm_is_the_controller_s(value: str) -> None:
    """With a rule that failed, and not accepted."""
    configuration = Configuration(subsetting=SubsettingSettings(algorithm="local-opt"))
    found, rules = asked(a_service(subsetting="Auto", algorithm=value), configuration)
    assert (outcome(found), found.accepted, found.refusal) == ("Subsetting/local-opt", False, None)
    assert rules[0] == Rule(
        "subsetting-algorithm",
        False,
        f"{names.SUBSETTING_ALGORITHM_ANNOTATION}: {value!r} is none of them, local-opt is used",
    )


VALID: Final[Mapping[str, Fraction]] = {
    "2": Fraction(2),
    "2.5": Fraction(5, 2),
    "1000": Fraction(1000),
    "1000.0": Fraction(1000),
    "0003": Fraction(3),
    "0.1": Fraction(1, 10),
    "0.000001": Fraction(1, 1_000_000),
    "999.999999": Fraction(999_999_999, 1_000_000),
}
INVALID: Final = (
    *("", " ", "0", "0.0", "-1", "+1", "abc", "1e3", "1001", "1000.1", "9999", "10000", "nan", "inf", "Infinity"),
    *("1/2", "1,5", "1.", ".5", "1.0000001", " 2", "2 ", "2\n", "0x3", "1_0", "٣", "²", "½", "3" * 300),
)


@pytest.mark.parametrize("value", VALID)
def test_a_valid_starting_threshold_counts(value: str) -> None:
    """Exactly as it is written; the controller's does not."""
    found, rules = asked(a_service(subsetting="Auto", starting=value))
    assert (found.starting_threshold, found.accepted) == (VALID[value], True)
    assert rules[0] == Rule("starting-threshold-annotation", True, f"{names.STARTING_THRESHOLD_ANNOTATION}: {value!r}")


@pytest.mark.parametrize("value", INVALID, ids=lambda value: ascii(value)[:20])
def test_an_invalid_starting_threshold_is_the_controller_s(value: str) -> None:
    """With a rule that failed, and not accepted; in a few words, however long it is."""
    configuration = Configuration(subsetting=SubsettingSettings(starting_threshold=Fraction(9, 2)))
    found, rules = asked(a_service(subsetting="Auto", starting=value), configuration)
    assert (found.starting_threshold, found.accepted, outcome(found)) == (Fraction(9, 2), False, LOCAL)
    assert (rules[0].rule, rules[0].passed) == ("starting-threshold-annotation", False)
    assert rules[0].detail == found.accepted_detail
    assert rules[0].detail.endswith(
        "is not a number above 0 (3 is three endpoints a zone), at most 1000, so 4.5 is used"
    )
    assert len(rules[0].detail) < 200


def test_two_invalid_values_are_both_told() -> None:
    found, rules = asked(a_service(subsetting="Auto", algorithm="Banana", starting="Banana"))
    assert [(rule.rule, rule.passed) for rule in rules[:2]] == [
        ("subsetting-algorithm", False),
        ("starting-threshold-annotation", False),
    ]
    for name in (names.SUBSETTING_ALGORITHM_ANNOTATION, names.STARTING_THRESHOLD_ANNOTATION):
        assert f"{name}: 'Banana'" in found.accepted_detail


@pytest.mark.parametrize("value", ["Require", "Disabled", "Banana"])
def test_algorithm_and_threshold_matter_only_where_something_is_balanced(value: str) -> None:
    """Beside the other values nobody asks about them."""
    with_them = asked(a_service(subsetting=value, algorithm="Banana", starting="Banana"))
    assert with_them == asked(a_service(subsetting=value))


def test_they_count_for_the_default_too() -> None:
    """What is invalid there is told, though the default itself is no setting of the Service."""
    configuration = Configuration(default_approach="Subsetting")
    found, _ = asked(a_service(algorithm="local-opt", starting="2"), configuration)
    assert (outcome(found), found.starting_threshold, found.accepted) == ("Subsetting/local-opt", Fraction(2), None)
    found, _ = asked(a_service(algorithm="Banana"), configuration)
    assert (outcome(found), found.accepted) == (LOCAL, False)


def test_the_gate_may_not_be_on_together_with_service_topology() -> None:
    """KEP-2004 § Feature Gate, with the gate for hints out of the way."""
    with pytest.raises(ConfigurationError, match="TopologyAwareSubsetting together with ServiceTopology"):
        Configuration(gates=FeatureGates(topology_aware_hints=False, service_topology=True))
    Configuration(
        gates=FeatureGates(topology_aware_hints=False, topology_aware_subsetting=False, service_topology=True)
    )


# --- traffic policies -------------------------------------------------------------------------------------------------


def a_cluster(service: Service, configuration: Configuration | None = None) -> Cluster:
    """Twelve Pods in three zones, most of them in one."""
    return Cluster(
        service=service,
        nodes=nodes_in({"a": 4, "b": 4, "c": 4}),
        pods=pods_in({"a": 8, "b": 3, "c": 1}),
        configuration=configuration if configuration is not None else Configuration(),
    )


def labels(plan: ServicePlan) -> list[str]:
    slices = only_family(plan).changes.after
    return sorted((each.metadata.labels or {}).get(names.ZONE_LABEL, "") for each in slices)


@pytest.mark.parametrize("value", ["Auto", "Prefer", "Require"])
def test_an_external_policy_of_local_disables_subsetting(value: str) -> None:
    """KEP-2004 § Risks: an endpoint on a Node could be given to another zone; groups that are there go."""
    settled = a_cluster(a_service(subsetting=value)).settled()
    assert labels(settled.plan()) == ["a", "b", "c"]
    service = a_service(subsetting=value, external="Local", type_="LoadBalancer", node_port=30080)
    plan = settled.with_(service=service).plan()
    decision = only_family(plan).decision
    assert (decision.active, decision.reason) == (False, Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL)
    assert [(rule.rule, rule.passed) for rule in decision.rules][-1] == ("external-traffic-policy", False)
    assert labels(plan) == [""]


def test_an_external_policy_of_local_disables_the_default_too() -> None:
    service = a_service(external="Local", type_="LoadBalancer", node_port=30080)
    plan = a_cluster(service, Configuration(default_approach="Subsetting")).plan()
    assert only_family(plan).decision.reason is Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL
    assert labels(plan) == [""]


@pytest.mark.parametrize("value", ["Auto", "Require"])
def test_an_internal_policy_of_local_leaves_the_slices_as_they_are(value: str) -> None:
    """Traffic from outside still uses them; a rule says that traffic from inside does not."""
    settled = a_cluster(a_service(subsetting=value)).settled()
    plan = settled.with_(service=a_service(subsetting=value, internal="Local")).plan()
    assert only_family(plan).decision.active
    assert not written(plan)
    assert ("internal-traffic-policy", False) in [(rule.rule, rule.passed) for rule in only_family(plan).decision.rules]
