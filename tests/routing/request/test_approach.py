"""Which setting wins, which values are known, and what each comes to (KEP-2433, KEP-4444, KEP-3015, KEP-2004)."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Final, NamedTuple, get_args

import pytest
from msgspec.structs import replace
from tests.clusters import a_service

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.configuration import (
    STARTING_THRESHOLD_EXPECTED,
    Configuration,
    DefaultApproach,
    FeatureGates,
    HintsSettings,
    SubsettingSettings,
)
from zoneward.routing.request.annotations import SHARE_EXPECTED, topology_annotation
from zoneward.routing.request.approach import Approach, RequestedApproach, requested_approach
from zoneward.routing.request.what_if import WHAT_IF_VALUES, as_if_requested
from zoneward.routing.rules import Reason, RuleLog

OLD: Final = names.TOPOLOGY_AWARE_HINTS_ANNOTATION
NEW: Final = names.TOPOLOGY_MODE_ANNOTATION
SUBSETTING: Final = names.SUBSETTING_ANNOTATION
THRESHOLD: Final = names.HINTS_THRESHOLD_ANNOTATION


def asked(service: Service, configuration: Configuration | None = None) -> RequestedApproach:
    return requested_approach(service, configuration if configuration is not None else Configuration(), RuleLog())


def rules(service: Service, configuration: Configuration | None = None) -> list[tuple[str, bool]]:
    """Names of the rules that were asked, in order, and their answers."""
    asking = RuleLog()
    requested_approach(service, configuration if configuration is not None else Configuration(), asking)
    return [(rule.rule, rule.passed) for rule in asking.as_tuple()]


def outcome(service: Service, configuration: Configuration | None = None) -> str:
    """``<approach>/<heuristic>``, or the reason of a refusal, or ``nothing``."""
    found = asked(service, configuration)
    if found.heuristic is not None:
        return f"{found.approach}/{found.heuristic.name}"
    assert found.approach is Approach.CLUSTER_WIDE
    return found.refusal.value if found.refusal is not None else "nothing"


# --- values -----------------------------------------------------------------------------------------------------------


class Values(NamedTuple):
    """What one value comes to where it stands alone: in the new annotation, in the old one, in the field, in the
    annotation for subsetting, and as its algorithm beside ``Auto`` there."""

    new: str
    old: str
    field: str
    subsetting: str = "UnknownValue"
    algorithm: str = "Subsetting/local"


PROPORTIONAL: Final = "Hints/ProportionalZoneCPU"
UNKNOWN: Final = "UnknownValue"
LOCAL: Final = "Subsetting/local"
"""What an unknown algorithm comes to as well: the controller's own."""
REQUIRED: Final = "Subsetting/RequireZone"
VALUES: Final[Mapping[str, Values]] = {
    "Auto": Values(PROPORTIONAL, PROPORTIONAL, UNKNOWN, subsetting=LOCAL),
    "auto": Values(PROPORTIONAL, PROPORTIONAL, UNKNOWN),
    "AUTO": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    " Auto": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "Disabled": Values("nothing", "nothing", UNKNOWN, subsetting="nothing"),
    "disabled": Values("nothing", "nothing", UNKNOWN),
    "Disable": Values(UNKNOWN, UNKNOWN, UNKNOWN, subsetting="nothing"),
    "DISABLED": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "": Values("nothing", "nothing", UNKNOWN, subsetting="nothing"),
    "ProportionalZoneCPU": Values(PROPORTIONAL, UNKNOWN, UNKNOWN),
    "proportionalzonecpu": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "PreferZone": Values("Hints/PreferZone", UNKNOWN, UNKNOWN),
    "PreferClose": Values(UNKNOWN, UNKNOWN, "TrafficDistribution/PreferSameZone"),
    "PreferSameZone": Values(UNKNOWN, UNKNOWN, "TrafficDistribution/PreferSameZone"),
    "PreferSameNode": Values(UNKNOWN, UNKNOWN, "TrafficDistribution/PreferSameNode"),
    "prefersamezone": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "zoneward.dev/ProportionalZoneCPU": Values(PROPORTIONAL, UNKNOWN, "TrafficDistribution/ProportionalZoneCPU"),
    "zoneward.dev/PreferZone": Values("Hints/PreferZone", UNKNOWN, "TrafficDistribution/PreferZone"),
    "zoneward.dev/PreferSameZone": Values("Hints/PreferSameZone", UNKNOWN, "TrafficDistribution/PreferSameZone"),
    "zoneward.dev/PreferSameNode": Values("Hints/PreferSameNode", UNKNOWN, "TrafficDistribution/PreferSameNode"),
    "Prefer": Values(UNKNOWN, UNKNOWN, UNKNOWN, subsetting=LOCAL),
    "prefer": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "Require": Values(UNKNOWN, UNKNOWN, UNKNOWN, subsetting=REQUIRED),
    "Random": Values(UNKNOWN, UNKNOWN, UNKNOWN, subsetting="nothing"),
    **{
        name: Values(UNKNOWN, UNKNOWN, UNKNOWN, algorithm=f"Subsetting/{name}")
        for name in ("local", "local-shared", "local-weighted", "local-opt", "random")
    },
    "Local": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "RequireZone": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    **{
        f"zoneward.dev/{name}": Values(UNKNOWN, UNKNOWN, UNKNOWN)
        for name in ("local", "local-shared", "local-weighted", "local-opt", "random", "RequireZone")
    },
    "zoneward.dev/Auto": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "zoneward.dev/": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "/ProportionalZoneCPU": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "example.com/ProportionalZoneCPU": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "Banana": Values(UNKNOWN, UNKNOWN, UNKNOWN),
}
"""New values only in the new annotation (KEP-2433 § Configuration), compared letter for letter as upstream does."""


@pytest.mark.parametrize("value", VALUES)
def test_a_value_alone(value: str) -> None:
    """Each place understands its own values; all others are like unset."""
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


def test_without_settings_nothing_is_asked_for() -> None:
    found = asked(a_service())
    assert (found.approach, found.heuristic, found.refusal, found.accepted) == (Approach.CLUSTER_WIDE, None, None, None)
    assert rules(a_service()) == [("annotation", False), ("traffic-distribution", False)]


# --- precedence -------------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """A way to fill each of the four places, that for subsetting, and the controller's default."""

    keys: Sequence[str] | None
    old: str | None
    new: str | None
    distribution: str | None
    subsetting: str | None = None
    default: DefaultApproach = "ClusterWide"


KEYS: Final = (None, (), ("kubernetes.io/hostname", "*"))
OLDS: Final = (None, "Auto", "Disabled", "", "Banana", "PreferZone")
NEWS: Final = (None, "PreferZone", "Disabled", "Banana")
FIELDS: Final = (None, "PreferSameNode", "Banana")
SUBSETTINGS: Final = (None, "Auto", "Require", "Disabled", "", "Banana")


def expected_of(setting: Setting) -> str:
    """The rules of precedence, told once more: topologyKeys, then subsetting, then the annotation, then the field,
    then the default, which is for Services whose subsetting annotation is absent or empty."""
    if setting.keys:
        return "TopologyKeys"
    if setting.subsetting in ("Auto", "Require"):
        return LOCAL if setting.subsetting == "Auto" else REQUIRED
    hints = expected_of_hints(setting)
    if hints not in ("nothing", UNKNOWN):
        return hints
    if not setting.subsetting and setting.default == "Subsetting":
        return LOCAL
    return UNKNOWN if setting.subsetting == "Banana" else hints


def expected_of_hints(setting: Setting) -> str:
    annotation = setting.new if setting.old is None else setting.old
    known = {"Auto": PROPORTIONAL, **({"PreferZone": "Hints/PreferZone"} if setting.old is None else {})}
    if annotation in known:
        return known[annotation]
    if setting.distribution == "PreferSameNode":
        return "TrafficDistribution/PreferSameNode"
    unknown = annotation not in (None, "Disabled", "") or setting.distribution is not None
    return UNKNOWN if unknown else "nothing"


@pytest.mark.parametrize("setting", [Setting(*each) for each in product(KEYS, OLDS, NEWS, FIELDS)])
def test_precedence(setting: Setting) -> None:
    """All places, filled in every way together."""
    for subsetting, default in product(SUBSETTINGS, get_args(DefaultApproach)):
        each = setting._replace(subsetting=subsetting, default=default)
        service = a_service(
            each.new, old=each.old, distribution=each.distribution, keys=each.keys, subsetting=subsetting
        )
        assert outcome(service, Configuration(default_approach=default)) == expected_of(each), each


def test_the_old_annotation_hides_the_new_one_even_where_it_is_empty() -> None:
    assert topology_annotation(a_service("Auto", old="")) == (OLD, "")
    assert topology_annotation(a_service("Auto")) == (NEW, "Auto")
    assert topology_annotation(a_service()) is None


def test_rules_stand_in_the_order_in_which_they_are_asked() -> None:
    service = a_service("Auto", distribution="PreferClose")
    assert rules(service) == [
        ("annotation", True),
        ("traffic-distribution", False),
        ("gate-topology-aware-hints", True),
    ]
    service = a_service("Banana", distribution="PreferSameNode")
    assert rules(service) == [
        ("annotation", False),
        ("traffic-distribution", True),
        ("gate-service-traffic-distribution", True),
        ("gate-topology-aware-hints", True),
        ("gate-prefer-same-traffic-distribution", True),
    ]
    assert rules(a_service("Auto", keys=("*",))) == [("topology-keys", False)]
    service = a_service("Auto", distribution="PreferClose", subsetting="Auto", algorithm="Banana", starting="2")
    assert rules(service) == [
        ("subsetting-algorithm", False),
        ("starting-threshold-annotation", True),
        ("subsetting-annotation", True),
        ("gate-topology-aware-subsetting", True),
        ("annotation", False),
        ("traffic-distribution", False),
    ]
    assert rules(a_service(subsetting="Disabled")) == [
        ("subsetting-annotation", False),
        ("annotation", False),
        ("traffic-distribution", False),
    ]
    assert rules(a_service(), Configuration(default_approach="Subsetting")) == [
        ("annotation", False),
        ("traffic-distribution", False),
        ("gate-topology-aware-subsetting", True),
        ("default-approach", True),
    ]


# --- acceptance -------------------------------------------------------------------------------------------------------

ACCEPTED: Final[Mapping[str, tuple[Service, bool | None, str]]] = {
    "nothing": (a_service(), None, ""),
    "annotation": (a_service("Auto"), True, f"{NEW}: Auto"),
    "old annotation": (a_service(old="auto"), True, f"{OLD}: auto"),
    "field": (a_service(distribution="PreferClose"), True, "spec.trafficDistribution: PreferClose"),
    "field beside a switched-off annotation": (
        a_service("Disabled", distribution="PreferClose"),
        True,
        "spec.trafficDistribution: PreferClose",
    ),
    "unknown annotation": (a_service("Banana"), False, f"{NEW}: 'Banana' is not a known value"),
    "unknown old annotation": (a_service(old="PreferZone"), False, f"{OLD}: 'PreferZone' is not a known value"),
    "unknown field": (
        a_service(distribution="Banana"),
        False,
        "'spec.trafficDistribution: Banana' is not a known value",
    ),
    "topologyKeys": (a_service(keys=("*",)), None, "spec.topologyKeys is set and overrides every newer setting"),
    "topologyKeys over an annotation": (
        a_service("Auto", keys=("*",)),
        False,
        "spec.topologyKeys is set and overrides every newer setting",
    ),
    "topologyKeys over a field": (
        a_service(distribution="PreferClose", keys=("*",)),
        False,
        "spec.topologyKeys is set and overrides every newer setting",
    ),
    "subsetting": (a_service(subsetting="Auto"), True, f"{SUBSETTING}: Auto"),
    "subsetting, the first version's word": (a_service(subsetting="Prefer"), True, f"{SUBSETTING}: Prefer"),
    "required": (a_service(subsetting="Require"), True, f"{SUBSETTING}: Require"),
    "subsetting over hints": (a_service("Auto", subsetting="Auto"), True, f"{SUBSETTING}: Auto"),
    "subsetting switched off": (a_service(subsetting="Disabled"), None, ""),
    "subsetting switched off beside hints": (a_service("Auto", subsetting="Disabled"), True, f"{NEW}: Auto"),
    "unknown subsetting": (a_service(subsetting="Banana"), False, f"{SUBSETTING}: 'Banana' is not a known value"),
    "unknown subsetting beside hints that work": (
        a_service("Auto", subsetting="Banana"),
        False,
        f"{SUBSETTING}: 'Banana' is not a known value",
    ),
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
    "a threshold for hints": (a_service("Auto", threshold="25%"), True, f"{NEW}: Auto"),
    "unknown threshold for hints": (
        a_service("Auto", threshold="20"),
        False,
        f"{THRESHOLD}: '20' is not {SHARE_EXPECTED}, so 0.2 is used",
    ),
    "unknown threshold beside an unknown annotation": (
        a_service("Banana", distribution="zoneward.dev/ProportionalZoneCPU", threshold="much"),
        False,
        f"{NEW}: 'Banana' is not a known value; {THRESHOLD}: 'much' is not {SHARE_EXPECTED}, so 0.2 is used",
    ),
    "a long unknown annotation": (
        a_service("Auto" * 10000),
        False,
        f"{NEW}: '{'Auto' * 10}...' is not a known value",
    ),
    "topologyKeys over subsetting": (
        a_service(subsetting="Auto", keys=("*",)),
        False,
        "spec.topologyKeys is set and overrides every newer setting",
    ),
    "unknown annotation beside a field that works": (
        a_service("Banana", distribution="PreferClose"),
        False,
        f"{NEW}: 'Banana' is not a known value",
    ),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_acceptance_says_which_value_was_understood_or_not(what: str) -> None:
    service, accepted, detail = ACCEPTED[what]
    found = asked(service)
    assert (found.accepted, found.accepted_detail) == (accepted, detail)


def test_an_unknown_annotation_does_not_keep_the_field_from_working() -> None:
    """Unknown is like unset, but told: hints are set and Accepted is False."""
    found = asked(a_service("Banana", distribution="PreferSameZone"))
    assert found.heuristic is HEURISTICS["PreferSameZone"]
    assert found.accepted is False


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
    found = asked(given, configuration)
    expected = HintsSettings(start_threshold=Fraction(start), keep_threshold=Fraction(keep), missing_cpu="disable")
    assert (found.hints, found.accepted) == (expected, True)
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
    ],
    ids=["PreferZone", "PreferSameZone", "subsetting", "nothing"],
)
def test_a_threshold_matters_only_where_hints_balance(service: Service) -> None:
    assert asked(service).accepted is not False
    assert "hints-threshold-annotation" not in dict(rules(service))


# --- gates ------------------------------------------------------------------------------------------------------------

GATES: Final[Mapping[str, FeatureGates]] = {
    "all on": FeatureGates(),
    "no hints": FeatureGates(topology_aware_hints=False),
    "no traffic distribution": FeatureGates(service_traffic_distribution=False),
    "no new values of it": FeatureGates(prefer_same_traffic_distribution=False),
    "no subsetting": FeatureGates(topology_aware_subsetting=False),
}
DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode", "zoneward.dev/PreferZone")
ANNOTATIONS: Final[Mapping[str, Service]] = {
    "annotation": a_service("Auto"),
    "PreferZone in the annotation": a_service("PreferZone"),
    "PreferSameZone in the annotation": a_service("zoneward.dev/PreferSameZone"),
    "PreferSameNode in the annotation": a_service("zoneward.dev/PreferSameNode"),
    "Auto": a_service(subsetting="Auto"),
    "Require": a_service(subsetting="Require"),
}
GATED_SETTINGS: Final[Mapping[str, Service]] = {
    **ANNOTATIONS,
    **{value: a_service(distribution=value) for value in DISTRIBUTIONS},
}
HINTING: Final = ("annotation", *(name for name in ANNOTATIONS if name.endswith(" in the annotation")), *DISTRIBUTIONS)
GATED: Final[Mapping[tuple[str, str], str]] = {
    **{(setting, "no hints"): "TopologyAwareHints" for setting in HINTING},
    **{(setting, "no traffic distribution"): "ServiceTrafficDistribution" for setting in DISTRIBUTIONS},
    ("PreferSameZone", "no new values of it"): "PreferSameTrafficDistribution",
    ("PreferSameNode", "no new values of it"): "PreferSameTrafficDistribution",
    ("PreferSameZone in the annotation", "no new values of it"): "PreferSameTrafficDistribution",
    ("PreferSameNode in the annotation", "no new values of it"): "PreferSameTrafficDistribution",
    ("Auto", "no subsetting"): "TopologyAwareSubsetting",
    ("Require", "no subsetting"): "TopologyAwareSubsetting",
}
"""Which setting which gate refuses; every other pair works. Without TopologyAwareHints there are no hints to set."""


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("setting", GATED_SETTINGS)
def test_a_gate_refuses_its_own_settings_and_no_others(setting: str, gates: str) -> None:
    found = asked(GATED_SETTINGS[setting], Configuration(gates=GATES[gates]))
    gate = GATED.get((setting, gates))
    if gate is None:
        assert found.heuristic is not None
        assert found.accepted is True
    else:
        assert (found.heuristic, found.refusal) == (None, Reason.FEATURE_GATE_OFF)
        assert (found.accepted, found.accepted_detail) == (False, f"the feature gate {gate} is off")


@pytest.mark.parametrize("value", ["Auto", "Require"])
@pytest.mark.parametrize("gate", ["TopologyAwareHints", "TopologyAwareSubsetting"])
def test_subsetting_that_hints_encode_needs_the_gates_of_both(value: str, gate: str) -> None:
    hints_on = gate != "TopologyAwareHints"
    off = FeatureGates(topology_aware_hints=hints_on, topology_aware_subsetting=not hints_on)
    configuration = Configuration(gates=off, subsetting=SubsettingSettings(encoding="hints"))
    found = asked(a_service(subsetting=value), configuration)
    assert (found.heuristic, found.refusal) == (None, Reason.FEATURE_GATE_OFF)
    assert (found.accepted, found.accepted_detail) == (False, f"the feature gate {gate} is off")


def test_a_default_that_hints_encode_asks_for_nothing_while_their_gate_is_off() -> None:
    configuration = Configuration(
        gates=FeatureGates(topology_aware_hints=False),
        default_approach="Subsetting",
        subsetting=SubsettingSettings(encoding="hints"),
    )
    found = asked(a_service(), configuration)
    assert (found.heuristic, found.refusal, found.accepted) == (None, None, None)
    assert ("gate-topology-aware-hints", False) in rules(a_service(), configuration)


def test_a_refused_annotation_wins_all_the_same() -> None:
    """With its gate off the annotation gives no hints, and the field beside it does not step in."""
    off = Configuration(gates=FeatureGates(topology_aware_hints=False))
    assert outcome(a_service("Auto", distribution="PreferClose"), off) == "FeatureGateOff"


# --- as upstream ------------------------------------------------------------------------------------------------------

UPSTREAM: Final = Configuration().as_upstream()


@pytest.mark.parametrize("value", VALUES)
def test_upstream_knows_no_value_of_ours(value: str) -> None:
    """Current Kubernetes knows Auto in both annotations and three values of the field."""
    assert outcome(a_service(subsetting=value, algorithm=value), UPSTREAM) == "nothing"
    for service in (a_service(value), a_service(old=value)):
        expected = VALUES[value].old if value in names.AUTO_VALUES + names.DISABLED_VALUES else UNKNOWN
        assert outcome(service, UPSTREAM) == expected
    expected = VALUES[value].field if value in names.TRAFFIC_DISTRIBUTIONS else UNKNOWN
    assert outcome(a_service(distribution=value), UPSTREAM) == expected


# --- what if ----------------------------------------------------------------------------------------------------------

WHAT_IF: Final[Mapping[str, str]] = {
    "Auto": PROPORTIONAL,
    "ProportionalZoneCPU": PROPORTIONAL,
    "PreferZone": "Hints/PreferZone",
    "PreferSameZone": "TrafficDistribution/PreferSameZone",
    "PreferSameNode": "TrafficDistribution/PreferSameNode",
    "local": LOCAL,
    "local-shared": "Subsetting/local-shared",
    "local-weighted": "Subsetting/local-weighted",
    "local-opt": "Subsetting/local-opt",
    "random": "Subsetting/random",
    "RequireZone": REQUIRED,
    "none": "nothing",
}


def test_every_value_that_may_be_asked_about_is_in_the_table() -> None:
    assert tuple(WHAT_IF) == WHAT_IF_VALUES


@pytest.mark.parametrize("value", WHAT_IF)
@pytest.mark.parametrize(
    "service",
    [
        a_service(),
        a_service("PreferZone", old="Disabled", distribution="PreferSameNode"),
        a_service("Banana", old="Auto", distribution="Banana"),
        a_service("Auto", distribution="PreferSameNode", subsetting="Require", algorithm="local-opt"),
        a_service(subsetting="Banana", algorithm="Banana"),
    ],
    ids=["nothing set", "other settings", "unknown settings", "subsetting", "unknown subsetting"],
)
@pytest.mark.parametrize("default", get_args(DefaultApproach))
def test_what_if_asks_for_the_value_and_for_nothing_else(
    service: Service, value: str, default: DefaultApproach
) -> None:
    """Not even for what the controller gives to whoever asks for nothing."""
    asking = as_if_requested(service, value)
    configuration = Configuration(default_approach=default)
    assert outcome(asking, configuration) == WHAT_IF[value]
    assert asked(asking, configuration).accepted is (None if value == "none" else True)


def test_what_if_leaves_topology_keys_policies_and_other_annotations() -> None:
    """They would still be there, so the answer counts them in."""
    service = a_service("Auto", keys=("*",), internal="Local", external="Local")
    others = {"example.com/owner": "web", names.STARTING_THRESHOLD_ANNOTATION: "2"}
    annotations = {**(service.metadata.annotations or {}), **others}
    service = replace(service, metadata=replace(service.metadata, annotations=annotations))
    for value in WHAT_IF:
        changed = as_if_requested(service, value)
        assert outcome(changed) == "TopologyKeys"
        assert changed.spec.internal_traffic_policy == changed.spec.external_traffic_policy == "Local"
        assert others.items() <= (changed.metadata.annotations or {}).items()
    assert as_if_requested(service, "PreferSameZone").metadata.annotations == {
        **others,
        names.SUBSETTING_ANNOTATION: "Disabled",
    }


def test_what_if_leaves_the_service_itself_alone() -> None:
    service = a_service("Auto", distribution="PreferClose")
    as_if_requested(service, "none")
    assert service == a_service("Auto", distribution="PreferClose")


@pytest.mark.parametrize(
    "value", ["PreferClose", "auto", "Banana", "", "zoneward.dev/PreferZone", "Require", "Prefer", "Disabled", "Local"]
)
def test_what_if_takes_no_other_value(value: str) -> None:
    with pytest.raises(ValueError, match=r"^expected one of Auto, ProportionalZoneCPU, .*none, got "):
        as_if_requested(a_service(), value)
