"""What an operator can set: defaults, the document, and every refusal with its one line."""

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any, Final, get_args

import pytest

from zoneward.advice.prices import SECTION as PRICES_SECTION
from zoneward.controller.controller_configuration import SECTION
from zoneward.kube import names
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.prometheus_settings import PrometheusSettings
from zoneward.meter.meter_configuration import SECTION as METER_SECTION
from zoneward.proxy.proxy_configuration import SECTION as PROXY_SECTION
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import (
    BalancedSettings,
    Configuration,
    DemandSettings,
    DemandSource,
    Encoding,
    FeatureGates,
    HintsSettings,
    Objective,
    SubsettingSettings,
    configuration_from,
)
from zoneward.routing.share_text import MAX_OVERLOAD_EXPECTED
from zoneward.routing.zone_costs import ZoneCosts

HEAD: Final = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "ZonewardConfiguration"}
DESIGN: Final[dict[str, Any]] = {
    **HEAD,
    "featureGates": {
        "TopologyAwareHints": True,
        "TopologyAwareSubsetting": True,
        "ServiceTrafficDistribution": True,
        "PreferSameTrafficDistribution": True,
        "ServiceTrafficPolicy": True,
        "ServiceTopology": False,
    },
    "defaultApproach": "ClusterWide",
    "demand": {
        "source": "cpu",
        "zones": {},
        "file": None,
        "prometheus": None,
        "floor": 0.5,
        "minTraffic": 100,
        "margin": 0.15,
        "maxChangesPerHour": 20,
        "refresh": "5m",
        "maxAge": "3h",
    },
    "hints": {
        "startThreshold": 0.2,
        "keepThreshold": 0.3,
        "missingCPU": "count-nodes",
        "inZoneTolerance": 0.1,
        "auto": "ProportionalZoneCPU",
        "newNodeGrace": "2m",
    },
    "subsetting": {
        "algorithm": "local",
        "startingThreshold": 3,
        "padding": 3,
        "overloadThreshold": 0.5,
        "inZoneTolerance": 0.1,
        "encoding": "slice-groups",
    },
    "balanced": {
        "maxOverload": 0.2,
        "objective": "score",
        "costs": {"sameRegion": 1, "otherRegion": 1, "zones": {}},
    },
    "maxEndpointsPerSlice": 100,
}
"""The document in the design, which spells out every default, with the tolerances that laziness turned out to need."""


def test_the_designs_document_is_the_default() -> None:
    assert configuration_from(HEAD) == Configuration()
    assert configuration_from(DESIGN) == Configuration()
    for section in ("featureGates", "hints", "subsetting", "balanced"):
        for key in DESIGN[section]:
            rest = {name: value for name, value in DESIGN[section].items() if name != key}
            assert configuration_from({**DESIGN, section: rest}) == Configuration()


def test_as_upstream_has_one_threshold_and_auto_and_gives_up_on_nodes_without_cpu() -> None:
    ours = Configuration(
        hints=HintsSettings(start_threshold=Fraction(1, 10), auto="Balanced"),
        gates=FeatureGates(prefer_same_traffic_distribution=False),
        subsetting=SubsettingSettings(padding=1),
        max_endpoints_per_slice=7,
    )
    upstream = ours.as_upstream()
    assert upstream.upstream
    assert (ours.manager, upstream.manager) == (names.MANAGER, names.BUILT_IN_MANAGER)
    assert upstream.hints == HintsSettings(
        start_threshold=Fraction(1, 5), keep_threshold=Fraction(1, 5), missing_cpu="disable", auto="ProportionalZoneCPU"
    )
    assert (upstream.gates, upstream.subsetting, upstream.max_endpoints_per_slice) == (ours.gates, ours.subsetting, 7)


SETTINGS: Final[tuple[tuple[str, str, str, tuple[tuple[Any, Any], ...]], ...]] = (
    ("demand", "source", "source", (("cpu", "cpu"), ("nodes", "nodes"), ("even", "even"))),
    ("demand", "file", "file", ((None, None), ("d.csv", "d.csv"))),
    (
        *("demand", "prometheus", "prometheus"),
        ((None, None), ({"url": "http://p:9090"}, PrometheusSettings(url="http://p:9090"))),
    ),
    (
        *("demand", "zones", "zones"),
        (({"b": 2, "a": 0.1}, (("a", Fraction(1, 10)), ("b", Fraction(2)))), ({"a": 1, "b": 0}, (("a", 1), ("b", 0)))),
    ),
    ("hints", "startThreshold", "start_threshold", ((0.1, Fraction(1, 10)), (1e-05, Fraction(1, 100_000)))),
    ("hints", "keepThreshold", "keep_threshold", ((1, Fraction(1)), (100, Fraction(100)))),
    ("hints", "missingCPU", "missing_cpu", (("disable", "disable"),)),
    ("hints", "inZoneTolerance", "in_zone_tolerance", ((0, Fraction(0)), (1, Fraction(1)))),
    ("hints", "auto", "auto", (("Balanced", "Balanced"),)),
    ("subsetting", "algorithm", "algorithm", tuple((algorithm, algorithm) for algorithm in SUBSETTING_ALGORITHMS)),
    ("subsetting", "encoding", "encoding", tuple((arg, arg) for arg in get_args(Encoding))),
    ("subsetting", "startingThreshold", "starting_threshold", ((0.1, Fraction(1, 10)), (1000, Fraction(1000)))),
    ("subsetting", "padding", "padding", ((0, 0), (1000, 1000))),
    ("subsetting", "overloadThreshold", "overload_threshold", ((0.7, Fraction(7, 10)), (100, Fraction(100)))),
    ("subsetting", "inZoneTolerance", "in_zone_tolerance", ((0, Fraction(0)), (1.0, Fraction(1)))),
    (
        *("balanced", "maxOverload", "max_overload"),
        (
            *((0, Fraction(0)), (-0.0, Fraction(0)), (0.35, Fraction(7, 20)), (10, Fraction(10))),
            *(("0%", Fraction(0)), ("20%", Fraction(1, 5)), ("1000%", Fraction(10)), ("2.5", Fraction(5, 2))),
        ),
    ),
    ("balanced", "objective", "objective", tuple((arg, arg) for arg in get_args(Objective))),
    (
        *("balanced", "costs", "costs"),
        (
            (None, ZoneCosts()),
            ({"sameRegion": 0.5}, ZoneCosts(same_region=Fraction(1, 2))),
            ({"sameRegion": 0, "otherRegion": 1e9}, ZoneCosts(Fraction(0), Fraction(10**9))),
            ({"zones": None}, ZoneCosts()),
            ({"zones": {"a": None, "b": {}}}, ZoneCosts()),
            ({"zones": {"b": {"a": 0.3}}}, ZoneCosts(pairs=(("a", "b", Fraction(3, 10)), ("b", "a", Fraction(3, 10))))),
            (
                {"zones": {"b": {"a": 0.3, "b": 0}, "a": {"b": 2}}},
                ZoneCosts(pairs=(("a", "b", Fraction(2)), ("b", "a", Fraction(3, 10)))),
            ),
            (
                {"sameRegion": 0, "otherRegion": 0, "zones": {"a": {"b": 1}}},
                ZoneCosts(Fraction(0), Fraction(0), (("a", "b", Fraction(1)), ("b", "a", Fraction(1)))),
            ),
        ),
    ),
)
"""Section, key, the attribute that it becomes, and values as written and as read."""
SECTIONS: Final = {
    "demand": DemandSettings,
    "hints": HintsSettings,
    "subsetting": SubsettingSettings,
    "balanced": BalancedSettings,
}
READ: Final[Mapping[str, tuple[dict[str, Any], Configuration]]] = {
    "every gate turned round": (
        {"featureGates": {key: not on for key, on in DESIGN["featureGates"].items()}},
        Configuration(
            gates=FeatureGates(
                **{field.name: field.name == "service_topology" for field in dataclasses.fields(FeatureGates)}
            )
        ),
    ),
    "demand from a file": (
        {"demand": {"source": "file", "file": "d.csv"}},
        Configuration(demand=DemandSettings(source="file", file="d.csv")),
    ),
    "demand from Prometheus": (
        {"demand": {"source": "prometheus", "prometheus": {"url": "http://p"}}},
        Configuration(demand=DemandSettings(source="prometheus", prometheus=PrometheusSettings(url="http://p"))),
    ),
    "sections without content": ({"featureGates": None, "hints": None, "subsetting": {}}, Configuration()),
    "subsetting by default": ({"defaultApproach": "Subsetting"}, Configuration(default_approach="Subsetting")),
    "balanced by default": ({"defaultApproach": "Balanced"}, Configuration(default_approach="Balanced")),
    "an empty section for costs": ({"balanced": None}, Configuration()),
    "equal thresholds": (
        {"hints": {"startThreshold": 0.3, "keepThreshold": 0.3}},
        Configuration(hints=HintsSettings(start_threshold=Fraction(3, 10))),
    ),
    "the smallest slices": ({"maxEndpointsPerSlice": 1}, Configuration(max_endpoints_per_slice=1)),
    "the largest slices": ({"maxEndpointsPerSlice": 1000}, Configuration(max_endpoints_per_slice=1000)),
    **{
        f"{section}.{key}: {written}": (
            {section: {key: written}},
            dataclasses.replace(Configuration(), **{section: SECTIONS[section](**{attribute: read})}),
        )
        for section, key, attribute, values in SETTINGS
        for written, read in values
    },
}


@pytest.mark.parametrize("what", READ)
def test_a_setting_is_read(what: str) -> None:
    document, expected = READ[what]
    assert configuration_from({**HEAD, **document}) == expected


def test_what_an_unknown_key_is_answered_with_is_every_key_that_is_read() -> None:
    with pytest.raises(ConfigurationError) as refused:
        configuration_from({**HEAD, "colour": "red"})
    listed = str(refused.value).removeprefix("colour: expected one of ").removesuffix(", got an unknown key")
    assert set(listed.split(", ")) == DESIGN.keys() - HEAD.keys() | {
        SECTION,
        PROXY_SECTION,
        METER_SECTION,
        PRICES_SECTION,
    }
    assert configuration_from({**HEAD, SECTION: {}, PROXY_SECTION: {}, PRICES_SECTION: {}}) == Configuration()


ALGORITHMS: Final = " or ".join(("local", "local-shared", "local-weighted", "local-opt", "random"))
A_SHARE: Final = "a share above 0 (0.2 is 20 %)"
AN_OVERLOAD: Final = "a share above 0 (0.5 is 50 %), at most 100"
A_STARTING_THRESHOLD: Final = "a number above 0 (3 is three endpoints a zone), at most 1000"
A_TOLERANCE: Final = "a share of all traffic from 0 to 1 (0.1 is 10 %)"
A_MAP: Final = "a map"
A_PART: Final = "a number from 0 to 1e9: only their ratios matter"
AN_INTEGER: Final = "a whole number"
A_BOOLEAN: Final = "true or false"
AN_APPROACH: Final = "ClusterWide or Subsetting or Balanced"
AN_AUTO: Final = "ProportionalZoneCPU or Balanced"
AN_OBJECTIVE: Final = "score or locality"
A_COST: Final = "a number from 0 to 1e9"
NAN, INFINITY = float("nan"), float("inf")
INVALID: Final[tuple[tuple[str, str, tuple[Any, ...]], ...]] = (
    ("apiVersion", "zoneward.dev/v1alpha1", (None, "v1")),
    ("kind", "ZonewardConfiguration", ("Configuration",)),
    ("featureGates", A_MAP, ([True],)),
    ("featureGates.TopologyAwareHints", A_BOOLEAN, ("true",)),
    ("featureGates.ServiceTopology", A_BOOLEAN, (0,)),
    ("defaultApproach", AN_APPROACH, ("Auto", "subsetting", [], None)),
    ("demand", A_MAP, ("cpu", 1)),
    ("demand.source", " or ".join(get_args(DemandSource)), ("CPU", None, ["cpu"])),
    ("demand.file", "the name of a file", ("", 1, ["d.csv"])),
    ("demand.zones", A_MAP, ("a", [0.5])),
    ("demand.zones.a", A_PART, ("50%", True, -1, NAN, None)),
    ("hints", A_MAP, (0.2,)),
    ("hints.startThreshold", A_SHARE, ("20%", NAN)),
    ("hints.startThreshold", f"{A_SHARE}, at most 100", (0, -0.2)),
    ("hints.keepThreshold", A_SHARE, (True, INFINITY)),
    ("hints.keepThreshold", f"{A_SHARE}, at most 100", (101,)),
    ("hints.missingCPU", "count-nodes or disable", ("guess",)),
    ("hints.inZoneTolerance", A_TOLERANCE, ("10%", True, -0.1, 1.1, INFINITY)),
    ("hints.auto", AN_AUTO, ("balanced", "PreferZone", None, True, ["Balanced"], {"Balanced": 1})),
    ("subsetting", A_MAP, ("local",)),
    ("subsetting.algorithm", ALGORITHMS, ("ProportionalZoneCPU", "RequireZone", None, ["local"])),
    ("subsetting.encoding", "slice-groups or hints", ("labels", 0)),
    ("subsetting.startingThreshold", A_STARTING_THRESHOLD, ("3", True, None, NAN, 0, -3, 1000.5)),
    ("subsetting.padding", AN_INTEGER, ("3", 2.5, True, None)),
    ("subsetting.padding", "a number of endpoints from 0 to 1000", (-1, 1001)),
    ("subsetting.overloadThreshold", A_SHARE, ("50%", INFINITY)),
    ("subsetting.overloadThreshold", AN_OVERLOAD, (0, -0.5, 101)),
    ("subsetting.inZoneTolerance", A_TOLERANCE, ("10%", True, -0.1, 1.1, INFINITY)),
    ("balanced", A_MAP, ("score", [], 0.2, True)),
    (
        "balanced.maxOverload",
        MAX_OVERLOAD_EXPECTED,
        (-0.1, 10.01, True, None, NAN, INFINITY, [0.2], {"a": 1}),
    ),
    ("balanced.maxOverload", MAX_OVERLOAD_EXPECTED, ("20", "1001%", "-1%", "+20%", "20 %", "20%\n", "", "much", "nan")),
    ("balanced.objective", AN_OBJECTIVE, ("Score", "cost", None, False, ["score"], {})),
    ("balanced.costs", A_MAP, (1, [1], "free")),
    ("balanced.costs.sameRegion", A_COST, (-1, "0.5", "1%", True, None, NAN, INFINITY, [1], {"a": 1})),
    ("balanced.costs.otherRegion", A_COST, (-0.001, {})),
    ("balanced.costs.zones", A_MAP, ([], "a", 1)),
    ("balanced.costs.zones.a", A_MAP, (1, ["b"], "b")),
    ("balanced.costs.zones.a.b", A_COST, (-1, "0.5", True, None, NAN, {"c": 1})),
    ("balanced.costs.zones.a.a", "0 within a zone", (1, 0.5)),
    ("maxEndpointsPerSlice", "a number from 1 to 1000", (0, 1001)),
    ("maxEndpointsPerSlice", AN_INTEGER, (10.5, True, None)),
)
"""Key, what is expected there, and values that are something else."""


def document_with(path: str, value: Any) -> dict[str, Any]:
    section, _, key = path.partition(".")
    return {section: document_with(key, value) if key else value}


REFUSED: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    **{
        f"{path}: {value!r}": (document_with(path, value), f"{path}: expected {expected}, got {value!r}")
        for path, expected, values in INVALID
        for value in values
    },
    "no demand anywhere": (
        {"demand": {"zones": {"a": 0, "b": 0.0}}},
        "demand.zones: expected a part above 0, got 0 for all: only their ratios matter",
    ),
    **{
        f"unknown {path}": (document_with(path, 1), f"{path}: expected one of {', '.join(known)}, got an unknown key")
        for path, known in {
            "colour": (*[key for key in DESIGN if key not in HEAD], "controller", "proxy", "meter", "prices"),
            "featureGates.TopologyKeys": DESIGN["featureGates"],
            "hints.threshold": DESIGN["hints"],
            "subsetting.zones": DESIGN["subsetting"],
            "balanced.overload": DESIGN["balanced"],
            "balanced.costs.region": DESIGN["balanced"]["costs"],
        }.items()
    },
    "a starting threshold beyond all doubles": (
        {"subsetting": {"startingThreshold": 10**400}},
        f"subsetting.startingThreshold: expected {A_STARTING_THRESHOLD}, got a number far above",
    ),
    "an overload beyond all doubles": (
        {"balanced": {"maxOverload": 16**5000}},
        f"balanced.maxOverload: expected {MAX_OVERLOAD_EXPECTED}, got a number far above",
    ),
    "a cost that is too high": (
        {"balanced": {"costs": {"otherRegion": 2 * 10**9}}},
        f"balanced.costs.otherRegion: expected {A_COST}, got 2e+09",
    ),
    "a cost beyond all doubles": (
        {"balanced": {"costs": {"zones": {"a": {"b": -(16**5000)}}}}},
        f"balanced.costs.zones.a.b: expected {A_COST}, got a number far below",
    ),
    "costs of nothing but 0": (
        {"balanced": {"costs": {"sameRegion": 0, "otherRegion": 0.0, "zones": {"a": {"b": 0}}}}},
        "balanced.costs: expected a cost above 0, got 0 for all: only their ratios matter",
    ),
    **{
        f"zone {zone!r}": (
            {"balanced": {"costs": {"zones": zones}}},
            f"balanced.costs.zones{within}: expected names of zones, got {zone!r}",
        )
        for zone in (1, None, True, "", "a\nb", "a b", "z" * 64)
        for zones, within in (({zone: {"b": 1}}, ""), ({"b": {zone: 1}}, ".b"))
    },
    "a file without its name": (
        {"demand": {"source": "file"}},
        "demand.file: expected a file with the source file, got none",
    ),
    "Prometheus without its address": (
        {"demand": {"source": "prometheus"}},
        "demand.prometheus.url: expected an address with the source prometheus, got none",
    ),
    "keeping less than starting": (
        {"hints": {"startThreshold": 0.5}},
        "hints.keepThreshold: expected at least startThreshold (0.5), got 0.3",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_setting_is_refused_in_one_line(what: str) -> None:
    document, message = REFUSED[what]
    with pytest.raises(ConfigurationError) as raised:
        configuration_from({**HEAD, **document})
    assert str(raised.value) == message
    assert "\n" not in message


@pytest.mark.parametrize("algorithm", SUBSETTING_ALGORITHMS)
def test_hints_are_refused_for_algorithms_with_weights_and_for_no_others(algorithm: str) -> None:
    document = {**HEAD, "subsetting": {"algorithm": algorithm, "encoding": "hints"}}
    if not SUBSETTING_ALGORITHMS[algorithm].weighs:
        assert configuration_from(document).subsetting.encoding == "hints"
        return
    expected = f"^subsetting.encoding: expected slice-groups with {algorithm}, got hints, which have no weights$"
    with pytest.raises(ConfigurationError, match=expected):
        configuration_from(document)


FORBIDDEN: Final[Mapping[str, Mapping[str, bool]]] = {
    "TopologyAwareHints together with ServiceTopology": {"TopologyAwareHints": True, "ServiceTopology": True},
    "TopologyAwareHints without ServiceTrafficPolicy": {"TopologyAwareHints": True, "ServiceTrafficPolicy": False},
    "TopologyAwareSubsetting together with ServiceTopology": {"TopologyAwareSubsetting": True, "ServiceTopology": True},
}
CONCERNED: Final = ("TopologyAwareHints", "TopologyAwareSubsetting", "ServiceTrafficPolicy", "ServiceTopology")


def test_gates_that_exclude_each_other_are_refused() -> None:
    for values in product((False, True), repeat=len(CONCERNED)):
        gates = dict(zip(CONCERNED, values, strict=True))
        reasons = [text for text, excluded in FORBIDDEN.items() if {**gates, **excluded} == gates]
        document = {**HEAD, "featureGates": gates}
        if reasons:
            message = f"^featureGates: expected a combination that works, got {reasons[0]}$"
            with pytest.raises(ConfigurationError, match=message):
                configuration_from(document)
        else:
            assert configuration_from(document).gates.service_topology == gates["ServiceTopology"]
