"""What a Service requests: which of its settings wins, and numbers that it sets for itself."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import Final, NamedTuple, get_args

import pytest
from msgspec import structs
from tests.builders.structs import a_service

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import HEURISTICS, SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import (
    MAX_OVERLOAD_EXPECTED,
    STARTING_THRESHOLD_EXPECTED,
    AutoHeuristic,
    BalancedSettings,
    Configuration,
    DefaultApproach,
    FeatureGates,
    HintsSettings,
    SubsettingSettings,
    ZoneCosts,
)
from zoneward.routing.request import (
    SHARE_EXPECTED,
    Approach,
    RequestedApproach,
    parse_share,
    quote_value,
    requested_approach,
)
from zoneward.routing.rules import Reason, Rule, RuleLog
from zoneward.routing.what_if import WHAT_IF_VALUES

OLD: Final = names.TOPOLOGY_AWARE_HINTS_ANNOTATION
NEW: Final = names.TOPOLOGY_MODE_ANNOTATION
SUBSETTING: Final = names.SUBSETTING_ANNOTATION
THRESHOLD: Final = names.HINTS_THRESHOLD_ANNOTATION
MAX_OVERLOAD: Final = names.MAX_OVERLOAD_ANNOTATION


def asked(service: Service, configuration: Configuration | None = None) -> RequestedApproach:
    return requested_approach(service, configuration if configuration is not None else Configuration(), RuleLog())


def rules(service: Service, configuration: Configuration | None = None) -> list[tuple[str, bool]]:
    """Names of the recorded rules, in order, and whether they passed."""
    return [(rule.rule, rule.passed) for rule in recorded(service, configuration)]


def recorded(service: Service, configuration: Configuration | None = None) -> tuple[Rule, ...]:
    log = RuleLog()
    requested_approach(service, configuration if configuration is not None else Configuration(), log)
    return log.as_tuple()


def outcome(service: Service, configuration: Configuration | None = None) -> str:
    """``<approach>/<heuristic>``, or the reason of a refusal, or ``nothing``."""
    requested = asked(service, configuration)
    if requested.heuristic is not None:
        return f"{requested.approach}/{requested.heuristic.name}"
    assert requested.approach is Approach.CLUSTER_WIDE
    return requested.refusal.value if requested.refusal is not None else "nothing"


# --- values -----------------------------------------------------------------------------------------------------------


class Values(NamedTuple):
    """The outcome of one value that is the only setting: in the new annotation, in the old one, in the field, in the
    annotation for subsetting, and as its algorithm beside ``Auto`` there."""

    new: str = "UnknownValue"
    old: str = "UnknownValue"
    field: str = "UnknownValue"
    subsetting: str = "UnknownValue"
    algorithm: str = "Subsetting/local"


PROPORTIONAL: Final = "Hints/ProportionalZoneCPU"
BALANCED: Final = "Hints/Balanced"
UNKNOWN: Final = "UnknownValue"
LOCAL: Final = "Subsetting/local"
"""What an unknown algorithm comes to as well: the controller's own."""
REQUIRED: Final = "Subsetting/RequireZone"
VALUES: Final[Mapping[str, Values]] = {
    "Auto": Values(PROPORTIONAL, PROPORTIONAL, subsetting=LOCAL),
    "auto": Values(PROPORTIONAL, PROPORTIONAL, subsetting=LOCAL),
    "Disabled": Values("nothing", "nothing", subsetting="nothing"),
    "disabled": Values("nothing", "nothing", subsetting="nothing"),
    "Disable": Values(subsetting="nothing"),
    "": Values("nothing", "nothing", subsetting="nothing"),
    "ProportionalZoneCPU": Values(PROPORTIONAL),
    "PreferZone": Values("Hints/PreferZone"),
    "PreferClose": Values(field="TrafficDistribution/PreferSameZone"),
    "PreferSameZone": Values(field="TrafficDistribution/PreferSameZone"),
    "PreferSameNode": Values(field="TrafficDistribution/PreferSameNode"),
    "zoneward.dev/ProportionalZoneCPU": Values(PROPORTIONAL, field="TrafficDistribution/ProportionalZoneCPU"),
    "zoneward.dev/Balanced": Values(BALANCED, field="TrafficDistribution/Balanced"),
    "zoneward.dev/PreferZone": Values("Hints/PreferZone", field="TrafficDistribution/PreferZone"),
    "zoneward.dev/PreferSameZone": Values("Hints/PreferSameZone", field="TrafficDistribution/PreferSameZone"),
    "zoneward.dev/PreferSameNode": Values("Hints/PreferSameNode", field="TrafficDistribution/PreferSameNode"),
    "Prefer": Values(subsetting=LOCAL),
    "Require": Values(subsetting=REQUIRED),
    "Random": Values(subsetting="nothing"),
    **{name: Values(algorithm=f"Subsetting/{name}") for name in SUBSETTING_ALGORITHMS},
    **{
        name: Values()
        for name in (
            *("AUTO", " Auto", "disable", "DISABLED", "proportionalzonecpu", "prefersamezone", "prefer", "Local"),
            *("RequireZone", "zoneward.dev/RequireZone", *(f"zoneward.dev/{name}" for name in SUBSETTING_ALGORITHMS)),
            *(
                "Balanced",
                "zoneward.dev/Auto",
                "zoneward.dev/balanced",
                "zoneward.dev/",
                "/ProportionalZoneCPU",
                "example.com/ProportionalZoneCPU",
                "Banana",
            ),
        )
    },
}
"""New values only in the new annotation (KEP-2433 § Configuration), compared letter for letter as upstream does."""


@pytest.mark.parametrize("value", VALUES)
def test_a_value_alone(value: str) -> None:
    got = Values(
        new=outcome(a_service(value)),
        old=outcome(a_service(old=value)),
        field=outcome(a_service(distribution=value)),
        subsetting=outcome(a_service(subsetting=value)),
        algorithm=outcome(a_service(subsetting="Auto", algorithm=value)),
    )
    assert got == VALUES[value]


def test_every_value_that_is_known_to_any_place_is_in_the_table() -> None:
    known = {*names.AUTO_VALUES, *names.DISABLED_VALUES, *names.TRAFFIC_DISTRIBUTIONS, *WHAT_IF_VALUES, *HEURISTICS}
    known |= {*names.SUBSETTING_AUTO_VALUES, names.SUBSETTING_REQUIRE, *names.SUBSETTING_DISABLED_VALUES}
    ours = {f"{names.DOMAIN}/{name}" for name in HEURISTICS}
    assert (known - {"none"}) | ours <= VALUES.keys()


# --- precedence -------------------------------------------------------------------------------------------------------

SAME_ZONE: Final = "TrafficDistribution/PreferSameZone"
ASKED: Final[Mapping[str | None, str]] = {
    None: "absent",
    "": "absent",
    "Auto": LOCAL,
    "Require": REQUIRED,
    "Disabled": "nothing",
    "Banana": UNKNOWN,
}
"""Values of the subsetting annotation."""


class Hints(NamedTuple):
    """A hints setting: the values of both annotations and of the field, and what they come to without subsetting."""

    old: str | None
    new: str | None
    field: str | None
    outcome: str
    accepted: bool | None


HINTS: Final[Mapping[str, Hints]] = {
    "no hints": Hints(None, None, None, "nothing", None),
    "mode": Hints(None, "Auto", None, PROPORTIONAL, True),
    "mode off": Hints(None, "Disabled", None, "nothing", None),
    "mode unknown": Hints(None, "Banana", None, UNKNOWN, False),
    "field": Hints(None, None, "PreferSameZone", SAME_ZONE, True),
    "field unknown": Hints(None, None, "Banana", UNKNOWN, False),
    "mode and field": Hints(None, "Auto", "PreferSameZone", PROPORTIONAL, True),
    "mode off and field": Hints(None, "Disabled", "PreferSameZone", SAME_ZONE, True),
    "mode unknown and field": Hints(None, "Banana", "PreferSameZone", SAME_ZONE, False),
    "mode and field unknown": Hints(None, "PreferZone", "Banana", "Hints/PreferZone", True),
    "old": Hints("Auto", None, None, PROPORTIONAL, True),
    "old and mode": Hints("Auto", "PreferZone", "PreferSameZone", PROPORTIONAL, True),
    "old off and mode": Hints("Disabled", "Auto", None, "nothing", None),
    "old empty and mode": Hints("", "Auto", None, "nothing", None),
    "old empty, mode and field": Hints("", "Auto", "PreferSameZone", SAME_ZONE, True),
    "old unknown and mode": Hints("PreferZone", "PreferZone", None, UNKNOWN, False),
    "old unknown, mode and field": Hints("Banana", "Auto", "PreferSameZone", SAME_ZONE, False),
}


class Expected(NamedTuple):
    outcome: str
    accepted: bool | None


def expected_of(value: str | None, hints: Hints, *, gate: bool, default: bool, keys: bool) -> Expected:
    """The precedence: topologyKeys, then the subsetting annotation, then hints, then the default, which is for Services
    whose subsetting annotation is absent or empty. An unknown value or a gate that is off leaves the next one."""
    says = ASKED[value]
    asks = says in (LOCAL, REQUIRED)
    if keys:
        newer = value is not None or hints != HINTS["no hints"]
        return Expected("TopologyKeys", False if newer else None)
    if asks and gate:
        return Expected(says, True)
    if says == "absent" and default and gate and "/" not in hints.outcome:
        return Expected(LOCAL, hints.accepted)
    if says in ("absent", "nothing"):
        return Expected(hints.outcome, hints.accepted)
    refused = "FeatureGateOff" if asks else UNKNOWN
    return Expected(hints.outcome if hints.outcome != "nothing" else refused, False)


@pytest.mark.parametrize("value", ASKED, ids=repr)
@pytest.mark.parametrize("setting", HINTS)
def test_precedence(setting: str, value: str | None) -> None:
    hints = HINTS[setting]
    for gate, default, keys in product((True, False), (True, False), (None, (), ("kubernetes.io/hostname", "*"))):
        service = a_service(hints.new, old=hints.old, distribution=hints.field, keys=keys, subsetting=value)
        configuration = Configuration(
            gates=FeatureGates(topology_aware_subsetting=gate),
            default_approach="Subsetting" if default else "ClusterWide",
        )
        got = Expected(outcome(service, configuration), asked(service, configuration).accepted)
        assert got == expected_of(value, hints, gate=gate, default=default, keys=bool(keys)), (gate, default, keys)


AUTO_SETTINGS: Final = (a_service("Auto"), a_service("auto"), a_service(old="Auto"), a_service(old="auto"))


@pytest.mark.parametrize("heuristic", get_args(AutoHeuristic))
def test_auto_means_what_is_configured_in_both_annotations_and_nowhere_else(heuristic: AutoHeuristic) -> None:
    configuration = Configuration(hints=HintsSettings(auto=heuristic))
    for service in AUTO_SETTINGS:
        requested = asked(service, configuration)
        assert (outcome(service, configuration), requested.accepted) == (f"Hints/{heuristic}", True)
        assert (requested.hints is None, requested.balanced is None) == (
            heuristic == "Balanced",
            heuristic != "Balanced",
        )
    for value, expected in VALUES.items():
        if value not in names.AUTO_VALUES:
            assert (outcome(a_service(value), configuration), outcome(a_service(old=value), configuration)) == (
                *(expected.new, expected.old),
            )
        assert outcome(a_service(distribution=value), configuration) == expected.field


BY_DEFAULT: Final[Mapping[str, tuple[Service, str, bool | None]]] = {
    "nothing": (a_service(), BALANCED, None),
    "an empty mode": (a_service(""), BALANCED, None),
    "an empty old annotation": (a_service("Disabled", old=""), BALANCED, None),
    "an unknown mode": (a_service("Banana"), BALANCED, False),
    "an unknown field": (a_service(distribution="Banana"), BALANCED, False),
    "empty subsetting": (a_service(subsetting=""), BALANCED, None),
    "mode off": (a_service("Disabled"), "nothing", None),
    "mode off in small letters": (a_service("disabled"), "nothing", None),
    "old off": (a_service(old="Disabled"), "nothing", None),
    "mode off and an unknown field": (a_service("Disabled", distribution="Banana"), UNKNOWN, False),
    "mode off and a field": (a_service("Disabled", distribution="PreferSameZone"), SAME_ZONE, True),
    "subsetting off": (a_service(subsetting="Disabled"), "nothing", None),
    "unknown subsetting": (a_service(subsetting="Banana"), UNKNOWN, False),
    "mode": (a_service("Auto"), PROPORTIONAL, True),
    "field": (a_service(distribution="PreferSameZone"), SAME_ZONE, True),
    "subsetting": (a_service(subsetting="Auto"), LOCAL, True),
    "topologyKeys": (a_service(keys=("*",)), "TopologyKeys", None),
}


@pytest.mark.parametrize("what", BY_DEFAULT)
def test_balanced_by_default_is_for_services_that_ask_for_nothing_and_refuse_nothing(what: str) -> None:
    service, expected, accepted = BY_DEFAULT[what]
    configuration = Configuration(default_approach="Balanced")
    assert (outcome(service, configuration), asked(service, configuration).accepted) == (expected, accepted)


def test_balanced_by_default_is_the_last_rule_and_has_the_settings_of_balanced() -> None:
    balanced = BalancedSettings(max_overload=Fraction(1, 10), objective="locality")
    configuration = Configuration(default_approach="Balanced", balanced=balanced)
    assert asked(a_service(), configuration).balanced == balanced
    detail = "the controller's default is Balanced: Balanced"
    assert recorded(a_service(), configuration)[-1] == Rule("default-approach", True, detail)
    own = asked(a_service(max_overload="1"), configuration)
    assert (own.balanced, own.accepted) == (structs.replace(balanced, max_overload=Fraction(1)), None)
    assert asked(a_service(max_overload="banana"), configuration).accepted is False


# --- rules ------------------------------------------------------------------------------------------------------------


def test_rules_say_what_was_read_and_what_it_comes_to() -> None:
    details = {rule.rule: rule.detail for rule in recorded(a_service(subsetting="Disables"))}
    assert (
        details["subsetting-annotation"] == f"{SUBSETTING}: 'Disables' is not a known value, so it counts as Disabled"
    )
    details = {rule.rule: rule.detail for rule in recorded(a_service("Auto", distribution="X", subsetting="Prefer"))}
    assert details["subsetting-annotation"] == f"{SUBSETTING}: Prefer asks for local"
    assert details["annotation"] == f"{NEW}: Auto is set too, but subsetting wins"
    assert details["traffic-distribution"] == "X is set too, but subsetting wins"
    for value, detail in (
        ("PreferSameZone", "spec.trafficDistribution is PreferSameZone"),
        ("PreferClose", "PreferClose asks for PreferSameZone"),
    ):
        details = {rule.rule: rule.detail for rule in recorded(a_service(distribution=value))}
        assert details["traffic-distribution"] == detail


def test_without_a_reader_of_slice_groups_hints_decide_beside_subsetting() -> None:
    def asked_here(service: Service) -> RequestedApproach:
        return requested_approach(service, Configuration(), RuleLog(), slice_groups_read=False)

    both = a_service("Auto", subsetting="Auto", algorithm="Banana")
    assert asked(both).heuristic is not None
    assert asked(both).instead is not None
    here = asked_here(both)
    assert (here.approach, here.instead) == (Approach.HINTS, None)
    # What is wrong with the other setting is still reported.
    assert here.accepted is False
    assert asked_here(a_service(subsetting="Auto")).approach is Approach.SUBSETTING


# --- acceptance -------------------------------------------------------------------------------------------------------

ACCEPTED: Final[Mapping[str, tuple[Service, bool | None, str]]] = {
    "nothing": (a_service(), None, ""),
    "annotation": (a_service("Auto"), True, f"{NEW}: Auto"),
    "old annotation": (a_service(old="auto"), True, f"{OLD}: auto"),
    "field": (a_service(distribution="PreferClose"), True, "spec.trafficDistribution: PreferClose"),
    "unknown annotation": (a_service("Banana"), False, f"{NEW}: 'Banana' is not a known value"),
    "unknown old annotation": (a_service(old="PreferZone"), False, f"{OLD}: 'PreferZone' is not a known value"),
    "unknown field": (
        a_service(distribution="Banana"),
        False,
        "spec.trafficDistribution: 'Banana' is not a known value",
    ),
    "topologyKeys": (a_service(keys=("*",)), None, "spec.topologyKeys is set and overrides every newer setting"),
    "subsetting": (a_service(subsetting="Auto"), True, f"{SUBSETTING}: Auto"),
    "unknown subsetting": (a_service(subsetting="Banana"), False, f"{SUBSETTING}: 'Banana' is not a known value"),
    "unknown algorithm": (
        a_service(subsetting="Auto", algorithm="Banana"),
        False,
        f"{names.SUBSETTING_ALGORITHM_ANNOTATION}: 'Banana' is not a known value, so local is used",
    ),
    "unknown starting threshold": (
        a_service(subsetting="Auto", starting="-1"),
        False,
        f"{names.STARTING_THRESHOLD_ANNOTATION}: '-1' is not {STARTING_THRESHOLD_EXPECTED}, so 3 is used",
    ),
    "unknown threshold for hints": (
        a_service("Auto", threshold="20"),
        False,
        f"{THRESHOLD}: '20' is not {SHARE_EXPECTED}, so 0.2 is used",
    ),
    "unknown highest overload": (
        a_service("zoneward.dev/Balanced", max_overload="banana"),
        False,
        f"{MAX_OVERLOAD}: 'banana' is not {MAX_OVERLOAD_EXPECTED}, so 0.2 is used",
    ),
    "unknown threshold beside an unknown annotation": (
        a_service("Banana", distribution="zoneward.dev/ProportionalZoneCPU", threshold="much"),
        False,
        f"{NEW}: 'Banana' is not a known value; {THRESHOLD}: 'much' is not {SHARE_EXPECTED}, so 0.2 is used",
    ),
    "a long unknown annotation": (a_service("Auto" * 10000), False, f"{NEW}: '{'Auto' * 10}...' is not a known value"),
    "topologyKeys over subsetting": (
        a_service(subsetting="Auto", keys=("*",)),
        False,
        "spec.topologyKeys is set and overrides every newer setting",
    ),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_acceptance_says_which_value_was_understood_or_not(what: str) -> None:
    service, accepted, detail = ACCEPTED[what]
    requested = asked(service)
    assert (requested.accepted, requested.accepted_detail) == (accepted, detail)
    reason = Reason.TOPOLOGY_KEYS if "topologyKeys" in detail else Reason.UNKNOWN_VALUE
    assert requested.accepted_reason is (Reason.ACCEPTED if accepted is not False else reason) or accepted is None


# --- a Service's own threshold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "start", "keep"), [("0.5", "1/2", "7/10"), ("5%", "1/20", "1/4"), ("150%", "3/2", "17/10")]
)
@pytest.mark.parametrize("service", ["annotation", "field"])
def test_a_service_has_its_own_threshold_and_is_kept_as_much_longer_as_configured(
    own: str, start: str, keep: str, service: str
) -> None:
    given = a_service("Auto", threshold=own)
    if service == "field":
        given = a_service(distribution="zoneward.dev/ProportionalZoneCPU", threshold=own)
    configuration = Configuration(hints=HintsSettings(start_threshold=Fraction(1, 10), missing_cpu="disable"))
    requested = asked(given, configuration)
    expected = HintsSettings(start_threshold=Fraction(start), keep_threshold=Fraction(keep), missing_cpu="disable")
    assert (requested.hints, requested.accepted) == (expected, True)
    assert ("hints-threshold-annotation", True) in rules(given, configuration)


@pytest.mark.parametrize("own", ["20", "0", "-1", "", "20 percent"])
def test_without_a_valid_threshold_the_configured_ones_hold(own: str) -> None:
    configuration = Configuration(hints=HintsSettings(start_threshold=Fraction(1, 4)))
    assert asked(a_service("Auto", threshold=own), configuration).hints == configuration.hints
    assert asked(a_service("Auto"), configuration).hints == configuration.hints


@pytest.mark.parametrize(
    "service",
    [
        a_service("PreferZone", threshold="much"),
        a_service(distribution="PreferSameZone", threshold="much"),
        a_service(subsetting="Auto", threshold="much"),
        a_service(threshold="much"),
        a_service("zoneward.dev/Balanced", threshold="much"),
    ],
    ids=["PreferZone", "PreferSameZone", "subsetting", "nothing", "Balanced"],
)
def test_a_threshold_matters_only_to_proportional_zone_cpu(service: Service) -> None:
    assert asked(service).accepted is not False
    assert "hints-threshold-annotation" not in dict(rules(service))


# --- a Service's own highest overload ---------------------------------------------------------------------------------

ASKS_FOR_BALANCED: Final[Mapping[str, Callable[[str | None], tuple[Service, Configuration]]]] = {
    "annotation": lambda own: (a_service("zoneward.dev/Balanced", max_overload=own), Configuration()),
    "field": lambda own: (a_service(distribution="zoneward.dev/Balanced", max_overload=own), Configuration()),
    "Auto": lambda own: (*(a_service("Auto", max_overload=own), Configuration(hints=HintsSettings(auto="Balanced"))),),
    "default": lambda own: (a_service(max_overload=own), Configuration(default_approach="Balanced")),
}


@pytest.mark.parametrize("how", ASKS_FOR_BALANCED)
@pytest.mark.parametrize(("own", "most"), [("0.5", "1/2"), ("5%", "1/20"), ("0", "0"), ("10", "10"), ("1000%", "10")])
def test_a_service_has_its_own_highest_overload(how: str, own: str, most: str) -> None:
    service, configuration = ASKS_FOR_BALANCED[how](own)
    costs = ZoneCosts(other_region=Fraction(2))
    balanced = BalancedSettings(max_overload=Fraction(3), objective="locality", costs=costs)
    configuration = structs.replace(configuration, balanced=balanced)
    requested = asked(service, configuration)
    assert requested.balanced == BalancedSettings(max_overload=Fraction(most), objective="locality", costs=costs)
    assert (requested.hints, requested.accepted) == (None, None if how == "default" else True)
    assert Rule("max-overload-annotation", True, f"{MAX_OVERLOAD}: {own!r}") in recorded(service, configuration)


@pytest.mark.parametrize("how", ASKS_FOR_BALANCED)
@pytest.mark.parametrize("own", ["banana", "20", "1001%", "-1", "", "nan", "0.2 ", "1" * 300], ids=lambda own: own[:9])
def test_without_a_valid_overload_the_configured_one_holds(how: str, own: str) -> None:
    service, configuration = ASKS_FOR_BALANCED[how](own)
    configuration = structs.replace(configuration, balanced=BalancedSettings(max_overload=Fraction(1, 4)))
    requested, log = asked(service, configuration), recorded(service, configuration)
    assert (requested.balanced, requested.accepted) == (configuration.balanced, False)
    assert requested.accepted_reason is Reason.UNKNOWN_VALUE
    assert requested.accepted_detail.endswith(f"is not {MAX_OVERLOAD_EXPECTED}, so 0.25 is used")
    assert Rule("max-overload-annotation", False, requested.accepted_detail) in log
    assert len(requested.accepted_detail) < 250
    without, _ = ASKS_FOR_BALANCED[how](None)
    assert asked(without, configuration).balanced == configuration.balanced


@pytest.mark.parametrize(
    "service",
    [
        a_service("Auto", max_overload="much"),
        a_service("PreferZone", max_overload="much"),
        a_service(distribution="PreferSameZone", max_overload="much"),
        a_service("zoneward.dev/Balanced", subsetting="Auto", max_overload="much"),
        a_service(max_overload="much"),
    ],
    ids=["Auto", "PreferZone", "PreferSameZone", "subsetting", "nothing"],
)
def test_the_highest_overload_matters_only_to_balanced(service: Service) -> None:
    assert asked(service).accepted is not False
    assert asked(service).balanced is None
    assert "max-overload-annotation" not in dict(rules(service))


# --- algorithm and starting threshold ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", SUBSETTING_ALGORITHMS)
def test_a_service_names_its_algorithm_whatever_the_controller_s_is(algorithm: str) -> None:
    configuration = Configuration(subsetting=SubsettingSettings(algorithm="local-opt"))
    assert outcome(a_service(subsetting="Auto"), configuration) == "Subsetting/local-opt"
    service = a_service(subsetting="Auto", algorithm=algorithm)
    assert (outcome(service, configuration), asked(service).accepted) == (f"Subsetting/{algorithm}", True)


@pytest.mark.parametrize("value", ["", " local", "RequireZone", "Auto"])
def test_an_unknown_algorithm_is_the_controller_s(value: str) -> None:
    configuration = Configuration(subsetting=SubsettingSettings(algorithm="local-opt"))
    service = a_service(subsetting="Auto", algorithm=value)
    assert (outcome(service, configuration), asked(service).accepted) == ("Subsetting/local-opt", False)
    detail = f"{names.SUBSETTING_ALGORITHM_ANNOTATION}: {value!r} is none of them, local-opt is used"
    assert recorded(service, configuration)[0] == Rule("subsetting-algorithm", False, detail)


VALID: Final = ("2", "2.5", "1000", "1000.0", "0003", "0.1", "0.000001", "999.999999")
INVALID: Final = (
    *("", " ", "0", "0.0", "-1", "+1", "abc", "1e3", "1001", "1000.1", "9999", "10000", "nan", "inf", "Infinity"),
    *("1/2", "1,5", "1.", ".5", "1.0000001", " 2", "2 ", "2\n", "0x3", "1_0", "٣", "²", "½", "3" * 300),
)


@pytest.mark.parametrize("value", VALID)
def test_a_valid_starting_threshold_counts(value: str) -> None:
    service = a_service(subsetting="Auto", starting=value)
    assert (asked(service).starting_threshold, asked(service).accepted) == (Fraction(value), True)
    assert recorded(service)[0] == Rule(
        "starting-threshold-annotation", True, f"{names.STARTING_THRESHOLD_ANNOTATION}: {value!r}"
    )


@pytest.mark.parametrize("value", INVALID, ids=lambda value: ascii(value)[:20])
def test_an_invalid_starting_threshold_is_the_controller_s(value: str) -> None:
    configuration = Configuration(subsetting=SubsettingSettings(starting_threshold=Fraction(9, 2)))
    service = a_service(subsetting="Auto", starting=value)
    requested, rule = asked(service, configuration), recorded(service, configuration)[0]
    assert (requested.starting_threshold, requested.accepted, outcome(service, configuration)) == (
        Fraction(9, 2),
        False,
        LOCAL,
    )
    assert (rule.rule, rule.passed, rule.detail) == ("starting-threshold-annotation", False, requested.accepted_detail)
    assert rule.detail.endswith("is not a number above 0 (3 is three endpoints a zone), at most 1000, so 4.5 is used")
    assert len(rule.detail) < 200


@pytest.mark.parametrize("value", ["Require", "Disabled", "Banana"])
def test_algorithm_and_threshold_matter_only_where_something_is_balanced(value: str) -> None:
    with_them, without = a_service(subsetting=value, algorithm="Banana", starting="Banana"), a_service(subsetting=value)
    assert (asked(with_them), recorded(with_them)) == (asked(without), recorded(without))


# --- gates ------------------------------------------------------------------------------------------------------------

GATES: Final[Mapping[str, FeatureGates]] = {
    "TopologyAwareHints": FeatureGates(topology_aware_hints=False),
    "ServiceTrafficDistribution": FeatureGates(service_traffic_distribution=False),
    "PreferSameTrafficDistribution": FeatureGates(prefer_same_traffic_distribution=False),
    "TopologyAwareSubsetting": FeatureGates(topology_aware_subsetting=False),
}
FIELD: Final = {"TopologyAwareHints", "ServiceTrafficDistribution"}
GATED: Final[Mapping[str, tuple[Service, set[str]]]] = {
    "Auto": (a_service("Auto"), {"TopologyAwareHints"}),
    "PreferZone": (a_service("PreferZone"), {"TopologyAwareHints"}),
    "Balanced": (a_service("zoneward.dev/Balanced"), {"TopologyAwareHints"}),
    "PreferSameZone": (
        *(a_service("zoneward.dev/PreferSameZone"), {"TopologyAwareHints", "PreferSameTrafficDistribution"}),
    ),
    "PreferSameNode": (
        *(a_service("zoneward.dev/PreferSameNode"), {"TopologyAwareHints", "PreferSameTrafficDistribution"}),
    ),
    "field: PreferClose": (a_service(distribution="PreferClose"), FIELD),
    "field: PreferSameZone": (a_service(distribution="PreferSameZone"), FIELD | {"PreferSameTrafficDistribution"}),
    "field: PreferSameNode": (a_service(distribution="PreferSameNode"), FIELD | {"PreferSameTrafficDistribution"}),
    "field: Balanced": (a_service(distribution="zoneward.dev/Balanced"), FIELD),
    "field: PreferZone": (a_service(distribution="zoneward.dev/PreferZone"), FIELD),
    "subsetting: Auto": (a_service(subsetting="Auto"), {"TopologyAwareSubsetting"}),
    "subsetting: Require": (a_service(subsetting="Require"), {"TopologyAwareSubsetting"}),
}
"""Which gates refuse a setting; without TopologyAwareHints there are no hints to set."""


@pytest.mark.parametrize("setting", GATED)
def test_a_gate_refuses_its_own_settings_and_no_others(setting: str) -> None:
    service, refusing = GATED[setting]
    assert asked(service).accepted is True
    for gate, gates in GATES.items():
        requested = asked(service, Configuration(gates=gates))
        if gate in refusing:
            assert (requested.heuristic, requested.refusal) == (None, Reason.FEATURE_GATE_OFF)
            assert (requested.accepted, requested.accepted_detail) == (False, f"the feature gate {gate} is off")
            assert requested.accepted_reason is Reason.FEATURE_GATE_OFF
        else:
            assert (requested.heuristic is not None, requested.accepted) == (True, True)


@pytest.mark.parametrize("value", ["Auto", "Require"])
@pytest.mark.parametrize("gate", ["TopologyAwareHints", "TopologyAwareSubsetting"])
def test_subsetting_that_hints_encode_needs_the_gates_of_both(value: str, gate: str) -> None:
    hints_on = gate != "TopologyAwareHints"
    off = FeatureGates(topology_aware_hints=hints_on, topology_aware_subsetting=not hints_on)
    configuration = Configuration(gates=off, subsetting=SubsettingSettings(encoding="hints"))
    requested = asked(a_service(subsetting=value), configuration)
    assert (requested.heuristic, requested.refusal) == (None, Reason.FEATURE_GATE_OFF)
    assert (requested.accepted, requested.accepted_detail) == (False, f"the feature gate {gate} is off")


@pytest.mark.parametrize("default", ["Subsetting", "Balanced"])
def test_a_default_that_hints_encode_asks_for_nothing_while_their_gate_is_off(default: DefaultApproach) -> None:
    configuration = Configuration(
        gates=FeatureGates(topology_aware_hints=False),
        default_approach=default,
        subsetting=SubsettingSettings(encoding="hints"),
    )
    requested = asked(a_service(), configuration)
    assert (requested.heuristic, requested.refusal, requested.accepted) == (None, None, None)
    assert ("gate-topology-aware-hints", False) in rules(a_service(), configuration)


# --- as upstream ------------------------------------------------------------------------------------------------------

UPSTREAM: Final = Configuration(hints=HintsSettings(auto="Balanced")).as_upstream()


@pytest.mark.parametrize("value", VALUES)
def test_upstream_knows_no_value_of_ours(value: str) -> None:
    for default in get_args(DefaultApproach):
        configuration = structs.replace(UPSTREAM, default_approach=default)
        assert outcome(a_service(subsetting=value, algorithm=value), configuration) == "nothing"
    for service in (a_service(value), a_service(old=value)):
        expected = VALUES[value].old if value in names.AUTO_VALUES + names.DISABLED_VALUES else UNKNOWN
        assert outcome(service, UPSTREAM) == expected
    expected = VALUES[value].field if value in names.TRAFFIC_DISTRIBUTIONS else UNKNOWN
    assert outcome(a_service(distribution=value), UPSTREAM) == expected


# --- numbers in annotations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "share"),
    [
        *(("0.2", Fraction(1, 5)), ("20%", Fraction(1, 5)), ("1", Fraction(1)), ("100%", Fraction(1))),
        *(("0.000001", Fraction(1, 10**6)), ("12.5%", Fraction(1, 8)), ("10000%", Fraction(100))),
    ],
)
def test_a_share_is_written_as_a_number_or_as_a_percentage(text: str, share: Fraction) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize(
    "text",
    [
        *("20", "1.5", "1.000001", "0", "0%", "0.0", "-0.2", "+0.2", "-20%", "10000.1%", "99999%", "20 %", " 20%"),
        *("20%%", "%", "", ".2", "2.", "2e-1", "1/5", "0,2", "nan", "inf", "true", "\u0662\u0660%", "20%\n"),
        *("0.2000001", "9" * 1000),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_anything_else_is_no_share(text: str) -> None:
    """A number above 1 least of all: 20 would be 2000 %, and was meant as 20 %."""
    assert parse_share(text) is None


def test_a_value_is_quoted_on_one_line_and_not_at_length() -> None:
    assert quote_value("two\nlines\x1b") == "'two\\nlines\\x1b'"
    assert quote_value("x" * 200_000) == repr("x" * 40 + "...")
