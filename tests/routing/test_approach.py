"""Which setting wins, which values are known, and what each comes to (KEP-2433, KEP-4444, KEP-3015)."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

import pytest
from msgspec.structs import replace
from tests.clusters import a_service

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.registry import HEURISTICS
from zoneward.routing.approach import WHAT_IF_VALUES, Approach, Asked, as_if_asked, asked_for, topology_annotation
from zoneward.routing.configuration import Configuration, Gates
from zoneward.routing.reasons import Reason
from zoneward.routing.rules import Rules

OLD: Final = names.TOPOLOGY_AWARE_HINTS_ANNOTATION
NEW: Final = names.TOPOLOGY_MODE_ANNOTATION


def asked(service: Service, configuration: Configuration | None = None) -> Asked:
    return asked_for(service, configuration if configuration is not None else Configuration(), Rules())


def rules(service: Service, configuration: Configuration | None = None) -> list[tuple[str, bool]]:
    """Names of the rules that were asked, in order, and their answers."""
    asking = Rules()
    asked_for(service, configuration if configuration is not None else Configuration(), asking)
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
    """What one value comes to where it stands alone: in the new annotation, in the old one, in the field."""

    new: str
    old: str
    field: str


PROPORTIONAL: Final = "Hints/ProportionalZoneCPU"
UNKNOWN: Final = "UnknownValue"
VALUES: Final[Mapping[str, Values]] = {
    "Auto": Values(PROPORTIONAL, PROPORTIONAL, UNKNOWN),
    "auto": Values(PROPORTIONAL, PROPORTIONAL, UNKNOWN),
    "AUTO": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    " Auto": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "Disabled": Values("nothing", "nothing", UNKNOWN),
    "disabled": Values("nothing", "nothing", UNKNOWN),
    "DISABLED": Values(UNKNOWN, UNKNOWN, UNKNOWN),
    "": Values("nothing", "nothing", UNKNOWN),
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
    got = Values(outcome(a_service(value)), outcome(a_service(old=value)), outcome(a_service(distribution=value)))
    assert got == VALUES[value]


def test_every_value_that_is_known_to_any_place_is_in_the_table() -> None:
    known = {*names.AUTO_VALUES, *names.DISABLED_VALUES, *names.TRAFFIC_DISTRIBUTIONS, *WHAT_IF_VALUES, *HEURISTICS}
    ours = {f"{names.DOMAIN}/{name}" for name in HEURISTICS}
    assert (known - {"none"}) | ours <= VALUES.keys()


def test_without_settings_nothing_is_asked_for() -> None:
    found = asked(a_service())
    assert (found.approach, found.heuristic, found.refusal, found.accepted) == (Approach.CLUSTER_WIDE, None, None, None)
    assert rules(a_service()) == [("annotation", False), ("traffic-distribution", False)]


# --- precedence -------------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """A way to fill each of the four places."""

    keys: Sequence[str] | None
    old: str | None
    new: str | None
    distribution: str | None


KEYS: Final = (None, (), ("kubernetes.io/hostname", "*"))
OLDS: Final = (None, "Auto", "Disabled", "", "Banana", "PreferZone")
NEWS: Final = (None, "PreferZone", "Disabled", "Banana")
FIELDS: Final = (None, "PreferSameNode", "Banana")


def expected_of(setting: Setting) -> str:
    """The rules of precedence, told once more: topologyKeys, then the annotation, then the field."""
    if setting.keys:
        return "TopologyKeys"
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
    """All four places, filled in every way together."""
    service = a_service(setting.new, old=setting.old, distribution=setting.distribution, keys=setting.keys)
    assert outcome(service) == expected_of(setting)


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


# --- gates ------------------------------------------------------------------------------------------------------------

GATES: Final[Mapping[str, Gates]] = {
    "all on": Gates(),
    "no hints": Gates(topology_aware_hints=False),
    "no traffic distribution": Gates(service_traffic_distribution=False),
    "no new values of it": Gates(prefer_same_traffic_distribution=False),
}
DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode", "zoneward.dev/PreferZone")
GATED: Final[Mapping[tuple[str, str], str]] = {
    **{(setting, "no hints"): "TopologyAwareHints" for setting in ("annotation", *DISTRIBUTIONS)},
    **{(setting, "no traffic distribution"): "ServiceTrafficDistribution" for setting in DISTRIBUTIONS},
    ("PreferSameZone", "no new values of it"): "PreferSameTrafficDistribution",
    ("PreferSameNode", "no new values of it"): "PreferSameTrafficDistribution",
}
"""Which setting which gate refuses; every other pair works. Without TopologyAwareHints there are no hints to set."""


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("setting", ["annotation", *DISTRIBUTIONS])
def test_a_gate_refuses_its_own_settings_and_no_others(setting: str, gates: str) -> None:
    service = a_service("Auto") if setting == "annotation" else a_service(distribution=setting)
    found = asked(service, Configuration(gates=GATES[gates]))
    gate = GATED.get((setting, gates))
    if gate is None:
        assert found.heuristic is not None
        assert found.accepted is True
    else:
        assert (found.heuristic, found.refusal) == (None, Reason.FEATURE_GATE_OFF)
        assert (found.accepted, found.accepted_detail) == (False, f"the feature gate {gate} is off")


def test_a_refused_annotation_wins_all_the_same() -> None:
    """With its gate off the annotation gives no hints, and the field beside it does not step in."""
    off = Configuration(gates=Gates(topology_aware_hints=False))
    assert outcome(a_service("Auto", distribution="PreferClose"), off) == "FeatureGateOff"


# --- as upstream ------------------------------------------------------------------------------------------------------

UPSTREAM: Final = Configuration().as_upstream()


@pytest.mark.parametrize("value", VALUES)
def test_upstream_knows_no_value_of_ours(value: str) -> None:
    """Current Kubernetes knows Auto in both annotations and three values of the field."""
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
    ],
    ids=["nothing set", "other settings", "unknown settings"],
)
def test_what_if_asks_for_the_value_and_for_nothing_else(service: Service, value: str) -> None:
    assert outcome(as_if_asked(service, value)) == WHAT_IF[value]


def test_what_if_leaves_topology_keys_policies_and_other_annotations() -> None:
    """They would still be there, so the answer counts them in."""
    service = a_service("Auto", keys=("*",), internal="Local", external="Local")
    annotations = {**(service.metadata.annotations or {}), "example.com/owner": "web"}
    changed = as_if_asked(
        replace(service, metadata=replace(service.metadata, annotations=annotations)), "PreferSameZone"
    )
    assert outcome(changed) == "TopologyKeys"
    assert changed.spec.internal_traffic_policy == changed.spec.external_traffic_policy == "Local"
    assert changed.metadata.annotations == {"example.com/owner": "web"}


def test_what_if_leaves_the_service_itself_alone() -> None:
    service = a_service("Auto", distribution="PreferClose")
    as_if_asked(service, "none")
    assert service == a_service("Auto", distribution="PreferClose")


@pytest.mark.parametrize("value", ["PreferClose", "auto", "Banana", "", "zoneward.dev/PreferZone"])
def test_what_if_takes_no_other_value(value: str) -> None:
    with pytest.raises(ValueError, match=r"^expected one of Auto, ProportionalZoneCPU, .*none, got "):
        as_if_asked(a_service(), value)
