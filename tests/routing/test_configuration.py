"""The configuration: what may be set, how it is refused, what it comes to, and costs between zones."""

from fractions import Fraction
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from zoneward.cli.configuration_file import configuration_from
from zoneward.kube import names
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.prometheus_settings import PrometheusSettings
from zoneward.kube.settings import read_settings
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.algorithms.set_value import COST_UNIT
from zoneward.routing.configuration import (
    MAX_OVERLOAD_EXPECTED,
    BalancedSettings,
    Configuration,
    DemandSettings,
    FeatureGates,
    HintsSettings,
    SubsettingSettings,
    ZoneCosts,
    cost_table,
    parse_max_overload,
)

HEAD: Final = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "ZonewardConfiguration"}
PER_ZONE: Final = {"b": {"a": 0.3, "b": 0}, "a": {"b": 2}}


def read(document: dict[str, Any]) -> Configuration:
    return configuration_from({**HEAD, **document}).configuration


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


def test_every_gate_can_be_switched() -> None:
    switched = {key: key == "ServiceTopology" for key in map(pascal, FeatureGates.__struct_fields__)}
    gates = read({"featureGates": switched}).gates
    assert {name: getattr(gates, name) for name in gates.__struct_fields__} == {
        name: name == "service_topology" for name in gates.__struct_fields__
    }


def pascal(name: str) -> str:
    return name.title().replace("_", "")


@pytest.mark.parametrize(
    ("document", "settings"),
    [
        ({}, {}),
        ({"defaultApproach": "Subsetting"}, {"default_approach": "Subsetting"}),
        ({"maxEndpointsPerSlice": 1}, {"max_endpoints_per_slice": 1}),
        ({"maxEndpointsPerSlice": 1000}, {"max_endpoints_per_slice": 1000}),
        ({"demand": {"source": "file", "file": "d.csv"}}, {"demand": DemandSettings(source="file", file="d.csv")}),
        (
            {"demand": {"source": "prometheus", "prometheus": {"url": "http://p"}}},
            {"demand": DemandSettings(source="prometheus", prometheus=PrometheusSettings(url="http://p"))},
        ),
        ({"demand": {"prometheus": {"window": "2h"}}}, {}),
        (
            {"demand": {"zones": {"b": 2, "a": 0.1}}},
            {"demand": DemandSettings(zones=(("a", Fraction(1, 10)), ("b", Fraction(2))))},
        ),
        (
            {"demand": {"floor": 0.25, "minTraffic": 0, "margin": 0, "maxChangesPerHour": 3, "refresh": "1m30s"}},
            {
                "demand": DemandSettings(
                    floor=Fraction(1, 4),
                    min_traffic=Fraction(0),
                    margin=Fraction(0),
                    max_changes_per_hour=3,
                    refresh=90.0,
                )
            },
        ),
        (
            {"hints": {"startThreshold": 1e-05, "keepThreshold": 100, "missingCPU": "disable", "auto": "Balanced"}},
            {
                "hints": HintsSettings(
                    start_threshold=Fraction(1, 100_000),
                    keep_threshold=Fraction(100),
                    missing_cpu="disable",
                    auto="Balanced",
                )
            },
        ),
        ({"hints": {"startThreshold": 0.3}}, {"hints": HintsSettings(start_threshold=Fraction(3, 10))}),
        ({"hints": {"newNodeGrace": "0s"}}, {"hints": HintsSettings(new_node_grace=0.0)}),
        (
            {"subsetting": {"algorithm": "random", "startingThreshold": 0.1, "padding": 0, "inZoneTolerance": 1.0}},
            {
                "subsetting": SubsettingSettings(
                    algorithm="random",
                    starting_threshold=Fraction(1, 10),
                    padding=0,
                    in_zone_tolerance=Fraction(1),
                )
            },
        ),
        *[
            ({"balanced": {"maxOverload": written}}, {"balanced": BalancedSettings(max_overload=Fraction(share))})
            for written, share in ((0, "0"), (-0.0, "0"), (0.35, "7/20"), ("20%", "1/5"), ("2.5", "5/2"), ("1000%", 10))
        ],
        (
            {"balanced": {"costs": {"sameRegion": 0.5, "otherRegion": 1e9, "zones": PER_ZONE}}},
            {
                "balanced": BalancedSettings(
                    costs=ZoneCosts(
                        Fraction(1, 2), Fraction(10**9), (("a", "b", Fraction(2)), ("b", "a", Fraction(3, 10)))
                    )
                )
            },
        ),
        ({"balanced": {"costs": {"zones": {"a": None, "b": {}}}}}, {}),
    ],
)
def test_a_document_is_read(document: dict[str, Any], settings: dict[str, Any]) -> None:
    assert read(document) == replace(Configuration(), **settings)


ALGORITHMS: Final = " or ".join(("local", "local-shared", "local-weighted", "local-opt", "random"))
A_SHARE: Final = "a share above 0 (0.2 is 20 %), at most 100"
A_TOLERANCE: Final = "a share of all traffic from 0 to 1 (0.1 is 10 %)"
A_PART: Final = "a number from 0 to 1e9: only their ratios matter"
A_COST: Final = "a number from 0 to 1e9"


@pytest.mark.parametrize(
    ("path", "expected", "values"),
    [
        ("apiVersion", "zoneward.dev/v1alpha1", {"v1": "'v1'", None: "none"}),
        ("kind", "ZonewardConfiguration", {"Configuration": "'Configuration'"}),
        ("defaultApproach", "ClusterWide or Subsetting or Balanced", {"Auto": "'Auto'"}),
        ("maxEndpointsPerSlice", "a whole number from 1 to 1000", {0: "0", 1001: "1001", 10.5: "10.5"}),
        ("demand.source", "cpu or nodes or even or file or prometheus", {"CPU": "'CPU'"}),
        ("demand.file", "the name of a file", {"": "''", 1: "1"}),
        ("demand.zones", "a mapping", {"a": "'a'"}),
        ("demand.zones.a", A_PART, {"50%": "'50%'", True: "true", -1: "-1", None: "null"}),
        ("demand.floor", "a part from 0 to 1 (0.5: half of the share of CPU)", {1.5: "1.5"}),
        ("demand.minTraffic", "a number from 0 to 1e9", {-1: "-1"}),
        ("demand.margin", A_TOLERANCE, {"10%": "'10%'"}),
        ("demand.maxChangesPerHour", "a whole number from 1 to 10000", {0: "0", 2.5: "2.5"}),
        ("demand.refresh", "a duration from 10s to 1h", {"1s": "1s"}),
        ("demand.maxAge", "a duration from 1m to 168h", {"169h": "608400s"}),
        ("hints.startThreshold", A_SHARE, {"20%": "'20%'", 0: "0", -0.2: "-0.2"}),
        ("hints.keepThreshold", A_SHARE, {True: "true", float("inf"): "inf", 101: "101"}),
        ("hints.missingCPU", "count-nodes or disable", {"guess": "'guess'"}),
        ("hints.inZoneTolerance", A_TOLERANCE, {-0.1: "-0.1", 1.1: "1.1"}),
        ("hints.auto", "ProportionalZoneCPU or Balanced", {"PreferZone": "'PreferZone'"}),
        ("hints.newNodeGrace", "a duration from 0s to 1h", {"2h": "7200s"}),
        ("subsetting.algorithm", ALGORITHMS, {"ProportionalZoneCPU": "'ProportionalZoneCPU'", 1: "1"}),
        ("subsetting.encoding", "slice-groups or hints", {"labels": "'labels'"}),
        (
            "subsetting.startingThreshold",
            "a number above 0 (3 is three endpoints a zone), at most 1000",
            {"3": "'3'", 0: "0", 1000.5: "1000.5", 10**400: "a number far above"},
        ),
        ("subsetting.padding", "a whole number from 0 to 1000", {-1: "-1", 2.5: "2.5", 1001: "1001"}),
        ("subsetting.overloadThreshold", "a share above 0 (0.5 is 50 %), at most 100", {0: "0", 101: "101"}),
        ("balanced.maxOverload", MAX_OVERLOAD_EXPECTED, {-0.1: "-0.1", True: "true", "20 %": "'20 %'", "": "''"}),
        ("balanced.objective", "score or locality", {"cost": "'cost'"}),
        ("balanced.costs.sameRegion", A_COST, {-1: "-1", "1%": "'1%'"}),
        ("balanced.costs.otherRegion", A_COST, {2 * 10**9: "2e+09"}),
        ("balanced.costs.zones.a", "a mapping", {1: "1", "b": "'b'"}),
        ("balanced.costs.zones.a.b", A_COST, {-1: "-1", "0.5": "'0.5'", None: "null"}),
        ("balanced.costs.zones.a.a", "0 within a zone", {0.5: "0.5"}),
    ],
)
def test_a_wrong_value_is_refused_with_its_field(path: str, expected: str, values: dict[Any, str]) -> None:
    for value, shown in values.items():
        with pytest.raises(ConfigurationError) as raised:
            read(document_with(path, value))
        assert str(raised.value) == f"{path}: expected {expected}, got {shown}"


def document_with(path: str, value: Any) -> dict[str, Any]:
    section, _, key = path.partition(".")
    return {section: document_with(key, value) if key else value}


@pytest.mark.parametrize("zone", [1, "", "a\nb", "a b", "a/b"])
def test_a_key_that_is_no_zone_is_refused(zone: Any) -> None:
    for zones, path in (({zone: {"b": 1}}, ""), ({"b": {zone: 1}}, ".b")):
        with pytest.raises(ConfigurationError) as raised:
            read({"balanced": {"costs": {"zones": zones}}})
        assert str(raised.value) == f"balanced.costs.zones{path}: expected names of zones, got {zone!r}"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"hints": {"startThreshold": 0.5}}, "hints.keepThreshold: expected at least startThreshold (0.5), got 0.3"),
        ({"demand": {"zones": {"a": 0, "b": 0.0}}}, "demand.zones: expected a part above 0, got 0 for all"),
        ({"demand": {"source": "file"}}, "demand.file: expected a file with the source file, got none"),
        ({"demand": {"source": "prometheus"}}, "demand.prometheus.url: expected an address with the source prometheus"),
        (
            {"demand": {"source": "prometheus", "prometheus": {"window": "2h"}}},
            "demand.prometheus.url: expected an address with the source prometheus",
        ),
        (
            {"balanced": {"costs": {"sameRegion": 0, "otherRegion": 0.0, "zones": {"a": {"b": 0}}}}},
            "balanced.costs: expected a cost above 0, got 0 for all",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read(document)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("algorithm", SUBSETTING_ALGORITHMS)
def test_hints_are_refused_for_algorithms_with_weights_and_for_no_others(algorithm: str) -> None:
    document = {"subsetting": {"algorithm": algorithm, "encoding": "hints"}}
    if not SUBSETTING_ALGORITHMS[algorithm].weighs:
        assert read(document).subsetting.encoding == "hints"
        return
    expected = f"^subsetting.encoding: expected slice-groups with {algorithm}, got hints, which have no weights$"
    with pytest.raises(ConfigurationError, match=expected):
        read(document)


FORBIDDEN: Final = {
    "TopologyAwareHints together with ServiceTopology": {"TopologyAwareHints": True, "ServiceTopology": True},
    "TopologyAwareHints without ServiceTrafficPolicy": {"TopologyAwareHints": True, "ServiceTrafficPolicy": False},
    "TopologyAwareSubsetting together with ServiceTopology": {"TopologyAwareSubsetting": True, "ServiceTopology": True},
}
CONCERNED: Final = ("TopologyAwareHints", "TopologyAwareSubsetting", "ServiceTrafficPolicy", "ServiceTopology")


def test_gates_that_exclude_each_other_are_refused() -> None:
    for values in product((False, True), repeat=len(CONCERNED)):
        gates = dict(zip(CONCERNED, values, strict=True))
        reasons = [text for text, excluded in FORBIDDEN.items() if {**gates, **excluded} == gates]
        document = {"featureGates": gates}
        if reasons:
            message = f"^featureGates: expected a combination that works, got {reasons[0]}$"
            with pytest.raises(ConfigurationError, match=message):
                read(document)
        else:
            assert read(document).gates.service_topology == gates["ServiceTopology"]


# --- costs between zones ----------------------------------------------------------------------------------------------


ZONES = ("a", "b", "c", "d")
REGIONS = {"a": "north", "b": "north", "c": "south"}
HALF = COST_UNIT // 2


def rows(costs: ZoneCosts) -> list[tuple[int, ...]]:
    """A row for each zone where requests start."""
    table = cost_table(costs, ZONES, REGIONS)
    return [table[start : start + len(ZONES)] for start in range(0, len(table), len(ZONES))]


def test_zones_of_one_region_are_near_and_an_unknown_region_is_another_one() -> None:
    assert rows(ZoneCosts(same_region=Fraction(1, 2))) == [
        (0, HALF, COST_UNIT, COST_UNIT),
        (HALF, 0, COST_UNIT, COST_UNIT),
        (COST_UNIT, COST_UNIT, 0, COST_UNIT),
        (COST_UNIT, COST_UNIT, COST_UNIT, 0),
    ]
    assert cost_table(ZoneCosts(same_region=Fraction(0)), ("d", "e"), {}) == (0, COST_UNIT, COST_UNIT, 0)


def test_a_cost_between_two_zones_wins_over_their_regions_in_its_direction() -> None:
    costs = ZoneCosts(same_region=Fraction(1, 2), pairs=(("a", "b", Fraction(0)), ("c", "a", Fraction(1, 4))))
    assert [row[:3] for row in rows(costs)[:3]] == [
        (0, 0, COST_UNIT),
        (HALF, 0, COST_UNIT),
        (COST_UNIT // 4, COST_UNIT, 0),
    ]


def test_the_largest_cost_of_the_settings_is_the_unit_wherever_it_holds() -> None:
    """Zones that are not in the cluster count, too: the costs of the others do not change when such a zone appears."""
    elsewhere = ZoneCosts(Fraction(1), Fraction(2), (("x", "y", Fraction(4)),))
    assert rows(elsewhere)[0] == (0, COST_UNIT // 4, HALF, HALF)
    assert rows(ZoneCosts(Fraction(0), Fraction(0))) == [(0, 0, 0, 0)] * 4


@given(st.integers(1, 10**9), st.integers(0, 50), st.integers(1, 50), st.integers(0, 50))
def test_only_the_ratios_of_costs_matter(factor: int, near: int, far: int, pair: int) -> None:
    one, other = (
        ZoneCosts(Fraction(near) * scale, Fraction(far) * scale, (("a", "c", Fraction(pair) * scale),))
        for scale in (1, Fraction(factor, 100))
    )
    assert rows(one) == rows(other)


@pytest.mark.parametrize(
    ("zones", "there", "back"),
    [
        ({"a": {"b": 0.5}}, HALF, HALF),
        ({"b": {"a": 0.5}}, HALF, HALF),
        ({"a": {"b": 0.5}, "b": {"a": 1}}, HALF, COST_UNIT),
        ({"a": {"b": 0.5}, "b": {"a": 0}}, HALF, 0),
    ],
)
def test_a_configured_pair_holds_in_both_directions_unless_the_other_has_its_own(
    zones: dict[str, dict[str, float]], there: int, back: int
) -> None:
    table = rows(read_settings({"zones": zones}, ZoneCosts))
    assert (table[0][1], table[1][0]) == (there, back)


# --- shares as text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "share"),
    [
        *(("0", "0"), ("0.2", "1/5"), ("10", "10"), ("3", "3"), ("00.5", "1/2"), ("0.000001", "1/1000000")),
        *(("0%", "0"), ("20%", "1/5"), ("1000%", "10"), ("12.5%", "1/8")),
    ],
)
def test_an_overload_is_a_share_or_a_percentage(text: str, share: str) -> None:
    assert parse_max_overload(text) == Fraction(share)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "banana", "20", "10.1", "1001%", "1000.01%", "-0.2", "+0.2", "-0%", "20 %", "%", ".5", "1.", "1e0"),
        *("nan", "inf", "20%%", "0.2\n", "0,2", "1/5", "0.0000001", "\u0662%", "\u00b2", "1" * 300, "true"),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_nothing_else_is_an_overload(text: str) -> None:
    assert parse_max_overload(text) is None
