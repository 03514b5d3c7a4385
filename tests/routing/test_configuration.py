"""What an operator can set: defaults, the document, and every refusal with its one line."""

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from itertools import product
from typing import Any, Final, get_args

import pytest

from zoneward.controller.controller_configuration import SECTION
from zoneward.kube import names
from zoneward.proxy.proxy_configuration import SECTION as PROXY_SECTION
from zoneward.routing.configuration import (
    WEIGHTED_ALGORITHMS,
    Algorithm,
    Configuration,
    ConfigurationError,
    Encoding,
    Gates,
    HintsSettings,
    SubsettingSettings,
    configuration_from,
)

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
    "hints": {"startThreshold": 0.2, "keepThreshold": 0.3, "missingCPU": "count-nodes", "inZoneTolerance": 0.1},
    "subsetting": {
        "algorithm": "local",
        "startingThreshold": 3,
        "padding": 3,
        "overloadThreshold": 0.5,
        "inZoneTolerance": 0.1,
        "encoding": "slice-groups",
    },
    "maxEndpointsPerSlice": 100,
}
"""The document in the design, which spells out every default, with the tolerances that laziness turned out to need."""


# --- defaults ---------------------------------------------------------------------------------------------------------


def test_the_designs_document_is_the_default() -> None:
    """Every key may be left out, alone or with all others."""
    assert configuration_from(HEAD) == Configuration()
    assert configuration_from(DESIGN) == Configuration()
    for section in ("featureGates", "hints", "subsetting"):
        for key in DESIGN[section]:
            rest = {name: value for name, value in DESIGN[section].items() if name != key}
            assert configuration_from({**DESIGN, section: rest}) == Configuration()


def test_thresholds_by_default_are_20_and_30_percent() -> None:
    hints = Configuration().hints
    assert (hints.start_threshold, hints.keep_threshold) == (Fraction(20, 100), Fraction(30, 100))


def test_subsetting_by_default_starts_at_three_endpoints_a_zone_and_three_more_and_keeps_below_50_percent() -> None:
    settings = Configuration().subsetting
    assert (settings.starting_threshold, settings.padding) == (Fraction(3), 3)
    assert settings.overload_threshold == Fraction(1, 2)
    assert (settings.algorithm, settings.in_zone_tolerance, settings.encoding) == (
        "local",
        Fraction(1, 10),
        "slice-groups",
    )
    assert Configuration().default_approach == "ClusterWide"


def test_every_gate_is_on_but_the_one_that_the_others_replaced() -> None:
    assert {gate.name for gate in fields(Gates) if not getattr(Gates(), gate.name)} == {"service_topology"}


def test_slices_are_managed_by_us_or_as_upstream_by_the_built_in_controller() -> None:
    assert Configuration().manager == names.MANAGER == "endpointslice-controller.zoneward.dev"
    assert Configuration().as_upstream().manager == names.BUILT_IN_MANAGER


def test_as_upstream_has_one_threshold_and_gives_up_on_nodes_without_cpu() -> None:
    """And keeps all that is no matter of how upstream decides."""
    ours = Configuration(
        gates=Gates(prefer_same_traffic_distribution=False),
        subsetting=SubsettingSettings(padding=1),
        max_endpoints_per_slice=7,
    )
    upstream = ours.as_upstream()
    assert upstream.upstream
    assert upstream.hints == HintsSettings(
        start_threshold=Fraction(1, 5), keep_threshold=Fraction(1, 5), missing_cpu="disable"
    )
    assert (upstream.gates, upstream.subsetting, upstream.max_endpoints_per_slice) == (ours.gates, ours.subsetting, 7)


# --- the document -----------------------------------------------------------------------------------------------------

READ: Final[Mapping[str, tuple[dict[str, Any], Configuration]]] = {
    "a gate": (
        {"featureGates": {"TopologyAwareHints": False}},
        Configuration(gates=Gates(topology_aware_hints=False)),
    ),
    "every gate turned round": (
        {
            "featureGates": {
                "TopologyAwareHints": False,
                "TopologyAwareSubsetting": False,
                "ServiceTrafficDistribution": False,
                "PreferSameTrafficDistribution": False,
                "ServiceTrafficPolicy": False,
                "ServiceTopology": True,
            }
        },
        Configuration(
            gates=Gates(
                topology_aware_hints=False,
                topology_aware_subsetting=False,
                service_traffic_distribution=False,
                prefer_same_traffic_distribution=False,
                service_traffic_policy=False,
                service_topology=True,
            )
        ),
    ),
    "sections without content": ({"featureGates": None, "hints": None, "subsetting": None}, Configuration()),
    "sections of nothing": ({"featureGates": {}, "hints": {}, "subsetting": {}}, Configuration()),
    "subsetting by default": ({"defaultApproach": "Subsetting"}, Configuration(default_approach="Subsetting")),
    "a threshold": (
        {"hints": {"startThreshold": 0.1}},
        Configuration(hints=HintsSettings(start_threshold=Fraction(1, 10))),
    ),
    "a whole number as a threshold": (
        {"hints": {"keepThreshold": 1}},
        Configuration(hints=HintsSettings(keep_threshold=Fraction(1))),
    ),
    "the highest threshold": (
        {"hints": {"keepThreshold": 100}},
        Configuration(hints=HintsSettings(keep_threshold=Fraction(100))),
    ),
    "a threshold with an exponent": (
        {"hints": {"startThreshold": 1e-05}},
        Configuration(hints=HintsSettings(start_threshold=Fraction(1, 100_000))),
    ),
    "equal thresholds": (
        {"hints": {"startThreshold": 0.3, "keepThreshold": 0.3}},
        Configuration(hints=HintsSettings(start_threshold=Fraction(3, 10))),
    ),
    "missing CPU": (
        {"hints": {"missingCPU": "disable"}},
        Configuration(hints=HintsSettings(missing_cpu="disable")),
    ),
    **{
        f"algorithm {algorithm}": (
            {"subsetting": {"algorithm": algorithm}},
            Configuration(subsetting=SubsettingSettings(algorithm=algorithm)),
        )
        for algorithm in get_args(Algorithm)
    },
    **{
        f"encoding {encoding}": (
            {"subsetting": {"encoding": encoding}},
            Configuration(subsetting=SubsettingSettings(encoding=encoding)),
        )
        for encoding in get_args(Encoding)
    },
    "a starting threshold": (
        {"subsetting": {"startingThreshold": 5}},
        Configuration(subsetting=SubsettingSettings(starting_threshold=Fraction(5))),
    ),
    "a starting threshold between two numbers": (
        {"subsetting": {"startingThreshold": 0.1}},
        Configuration(subsetting=SubsettingSettings(starting_threshold=Fraction(1, 10))),
    ),
    "the highest starting threshold": (
        {"subsetting": {"startingThreshold": 1000}},
        Configuration(subsetting=SubsettingSettings(starting_threshold=Fraction(1000))),
    ),
    "no padding": ({"subsetting": {"padding": 0}}, Configuration(subsetting=SubsettingSettings(padding=0))),
    "the largest padding": (
        {"subsetting": {"padding": 1000}},
        Configuration(subsetting=SubsettingSettings(padding=1000)),
    ),
    "an overload threshold": (
        {"subsetting": {"overloadThreshold": 0.7}},
        Configuration(subsetting=SubsettingSettings(overload_threshold=Fraction(7, 10))),
    ),
    "the highest overload threshold": (
        {"subsetting": {"overloadThreshold": 100}},
        Configuration(subsetting=SubsettingSettings(overload_threshold=Fraction(100))),
    ),
    "no tolerance": (
        {"subsetting": {"inZoneTolerance": 0}},
        Configuration(subsetting=SubsettingSettings(in_zone_tolerance=Fraction(0))),
    ),
    "every tolerance": (
        {"subsetting": {"inZoneTolerance": 1.0}},
        Configuration(subsetting=SubsettingSettings(in_zone_tolerance=Fraction(1))),
    ),
    "no tolerance of hints": (
        {"hints": {"inZoneTolerance": 0}},
        Configuration(hints=HintsSettings(in_zone_tolerance=Fraction(0))),
    ),
    "every tolerance of hints": (
        {"hints": {"inZoneTolerance": 1}},
        Configuration(hints=HintsSettings(in_zone_tolerance=Fraction(1))),
    ),
    "every key of subsetting": (
        {
            "subsetting": {
                "algorithm": "local-shared",
                "startingThreshold": 2.5,
                "padding": 1,
                "overloadThreshold": 0.25,
                "inZoneTolerance": 0.05,
                "encoding": "hints",
            }
        },
        Configuration(
            subsetting=SubsettingSettings(
                algorithm="local-shared",
                starting_threshold=Fraction(5, 2),
                padding=1,
                overload_threshold=Fraction(1, 4),
                in_zone_tolerance=Fraction(1, 20),
                encoding="hints",
            )
        ),
    ),
    "the smallest slices": ({"maxEndpointsPerSlice": 1}, Configuration(max_endpoints_per_slice=1)),
    "the largest slices": ({"maxEndpointsPerSlice": 1000}, Configuration(max_endpoints_per_slice=1000)),
}


@pytest.mark.parametrize("what", READ)
def test_a_setting_is_read(what: str) -> None:
    document, expected = READ[what]
    assert configuration_from({**HEAD, **document}) == expected


def test_shares_are_what_was_written_not_the_double_next_to_it() -> None:
    written = configuration_from({**HEAD, "hints": {"startThreshold": 0.1, "keepThreshold": 0.7}}).hints
    assert (written.start_threshold, written.keep_threshold) == (Fraction(1, 10), Fraction(7, 10))
    subsetting = configuration_from({**HEAD, "subsetting": {"startingThreshold": 2.3, "overloadThreshold": 0.1}})
    assert subsetting.subsetting.starting_threshold == Fraction(23, 10)
    assert subsetting.subsetting.overload_threshold == Fraction(1, 10)
    assert Fraction(0.1) != Fraction(1, 10)


def test_what_an_unknown_key_is_answered_with_is_every_key_that_is_read() -> None:
    with pytest.raises(ConfigurationError) as refused:
        configuration_from({**HEAD, "colour": "red"})
    listed = str(refused.value).removeprefix("colour: expected one of ").removesuffix(", got an unknown key")
    assert set(listed.split(", ")) == DESIGN.keys() - HEAD.keys() | {SECTION, PROXY_SECTION}
    assert configuration_from({**HEAD, SECTION: {}, PROXY_SECTION: {}}) == Configuration()


# --- refusals ---------------------------------------------------------------------------------------------------------

GATE_NAMES: Final = ", ".join(DESIGN["featureGates"])
ALGORITHMS: Final = " or ".join(("local", "local-shared", "local-weighted", "local-opt", "random"))
A_STARTING_THRESHOLD: Final = (
    "subsetting.startingThreshold: expected a number above 0 (3 is three endpoints a zone), at most 1000, got "
)
A_PADDING: Final = "subsetting.padding: expected a number of endpoints from 0 to 1000, got "
A_TOLERANCE: Final = "inZoneTolerance: expected a share of all traffic from 0 to 1 (0.1 is 10 %), got "
AN_OVERLOAD_THRESHOLD: Final = "subsetting.overloadThreshold: expected a share above 0 (0.5 is 50 %), at most 100, got "
REFUSED: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "no apiVersion": ({"apiVersion": None}, "apiVersion: expected zoneward.dev/v1alpha1, got None"),
    "another apiVersion": ({"apiVersion": "v1"}, "apiVersion: expected zoneward.dev/v1alpha1, got 'v1'"),
    "another kind": ({"kind": "Configuration"}, "kind: expected ZonewardConfiguration, got 'Configuration'"),
    "an unknown key": (
        {"colour": "red"},
        (
            "colour: expected one of featureGates, defaultApproach, hints, subsetting, maxEndpointsPerSlice,"
            " controller, proxy, got an unknown key"
        ),
    ),
    "gates that are no map": ({"featureGates": [True]}, "featureGates: expected a map, got [True]"),
    "hints that are no map": ({"hints": 0.2}, "hints: expected a map, got 0.2"),
    "subsetting that is no map": ({"subsetting": "local"}, "subsetting: expected a map, got 'local'"),
    "an unknown gate": (
        {"featureGates": {"TopologyKeys": True}},
        f"featureGates.TopologyKeys: expected one of {GATE_NAMES}, got an unknown key",
    ),
    "a gate that is text": (
        {"featureGates": {"TopologyAwareHints": "true"}},
        "featureGates.TopologyAwareHints: expected true or false, got 'true'",
    ),
    "a gate that is a number": (
        {"featureGates": {"ServiceTopology": 0}},
        "featureGates.ServiceTopology: expected true or false, got 0",
    ),
    "an approach that is none": (
        {"defaultApproach": "Auto"},
        "defaultApproach: expected ClusterWide or Subsetting, got 'Auto'",
    ),
    "an approach in small letters": (
        {"defaultApproach": "subsetting"},
        "defaultApproach: expected ClusterWide or Subsetting, got 'subsetting'",
    ),
    "an approach that is a list": (
        {"defaultApproach": []},
        "defaultApproach: expected ClusterWide or Subsetting, got []",
    ),
    "an approach of null": (
        {"defaultApproach": None},
        "defaultApproach: expected ClusterWide or Subsetting, got None",
    ),
    "an unknown key of hints": (
        {"hints": {"threshold": 0.2}},
        f"hints.threshold: expected one of {', '.join(DESIGN['hints'])}, got an unknown key",
    ),
    "an unknown key of subsetting": (
        {"subsetting": {"zones": 3}},
        f"subsetting.zones: expected one of {', '.join(DESIGN['subsetting'])}, got an unknown key",
    ),
    "an algorithm that is none": (
        {"subsetting": {"algorithm": "ProportionalZoneCPU"}},
        f"subsetting.algorithm: expected {ALGORITHMS}, got 'ProportionalZoneCPU'",
    ),
    "an algorithm that only an annotation asks for": (
        {"subsetting": {"algorithm": "RequireZone"}},
        f"subsetting.algorithm: expected {ALGORITHMS}, got 'RequireZone'",
    ),
    "an algorithm of null": (
        {"subsetting": {"algorithm": None}},
        f"subsetting.algorithm: expected {ALGORITHMS}, got None",
    ),
    "an algorithm that is a list": (
        {"subsetting": {"algorithm": ["local"]}},
        f"subsetting.algorithm: expected {ALGORITHMS}, got ['local']",
    ),
    "an encoding that is none": (
        {"subsetting": {"encoding": "labels"}},
        "subsetting.encoding: expected slice-groups or hints, got 'labels'",
    ),
    "an encoding that is a number": (
        {"subsetting": {"encoding": 0}},
        "subsetting.encoding: expected slice-groups or hints, got 0",
    ),
    "a starting threshold that is text": (
        {"subsetting": {"startingThreshold": "3"}},
        f"{A_STARTING_THRESHOLD}'3'",
    ),
    "a starting threshold that is true": ({"subsetting": {"startingThreshold": True}}, f"{A_STARTING_THRESHOLD}True"),
    "a starting threshold of null": ({"subsetting": {"startingThreshold": None}}, f"{A_STARTING_THRESHOLD}None"),
    "a starting threshold that is no number": (
        {"subsetting": {"startingThreshold": float("nan")}},
        f"{A_STARTING_THRESHOLD}nan",
    ),
    "a starting threshold of nothing": ({"subsetting": {"startingThreshold": 0}}, f"{A_STARTING_THRESHOLD}0"),
    "a starting threshold below nothing": ({"subsetting": {"startingThreshold": -3}}, f"{A_STARTING_THRESHOLD}-3"),
    "a starting threshold beyond measure": (
        {"subsetting": {"startingThreshold": 1000.5}},
        f"{A_STARTING_THRESHOLD}1000.5",
    ),
    "a starting threshold beyond all doubles": (
        {"subsetting": {"startingThreshold": 10**400}},
        f"{A_STARTING_THRESHOLD}a number far above",
    ),
    "a padding that is text": (
        {"subsetting": {"padding": "3"}},
        "subsetting.padding: expected a whole number, got '3'",
    ),
    "a padding of parts": ({"subsetting": {"padding": 2.5}}, "subsetting.padding: expected a whole number, got 2.5"),
    "a padding that is true": (
        {"subsetting": {"padding": True}},
        "subsetting.padding: expected a whole number, got True",
    ),
    "a padding of null": ({"subsetting": {"padding": None}}, "subsetting.padding: expected a whole number, got None"),
    "a padding below nothing": ({"subsetting": {"padding": -1}}, f"{A_PADDING}-1"),
    "a padding beyond measure": ({"subsetting": {"padding": 1001}}, f"{A_PADDING}1001"),
    "an overload threshold that is text": (
        {"subsetting": {"overloadThreshold": "50%"}},
        "subsetting.overloadThreshold: expected a share above 0 (0.2 is 20 %), got '50%'",
    ),
    "an overload threshold without end": (
        {"subsetting": {"overloadThreshold": float("inf")}},
        "subsetting.overloadThreshold: expected a share above 0 (0.2 is 20 %), got inf",
    ),
    "an overload threshold of nothing": ({"subsetting": {"overloadThreshold": 0}}, f"{AN_OVERLOAD_THRESHOLD}0"),
    "an overload threshold below nothing": (
        {"subsetting": {"overloadThreshold": -0.5}},
        f"{AN_OVERLOAD_THRESHOLD}-0.5",
    ),
    "an overload threshold beyond measure": (
        {"subsetting": {"overloadThreshold": 101}},
        f"{AN_OVERLOAD_THRESHOLD}101",
    ),
    **{
        f"a tolerance of {section} {what}": ({section: {"inZoneTolerance": value}}, f"{section}.{A_TOLERANCE}{value!r}")
        for section in ("hints", "subsetting")
        for what, value in {
            "that is text": "10%",
            "that is true": True,
            "below nothing": -0.1,
            "above all": 1.1,
            "without end": float("inf"),
        }.items()
    },
    "a threshold that is text": (
        {"hints": {"startThreshold": "20%"}},
        "hints.startThreshold: expected a share above 0 (0.2 is 20 %), got '20%'",
    ),
    "a threshold that is true": (
        {"hints": {"keepThreshold": True}},
        "hints.keepThreshold: expected a share above 0 (0.2 is 20 %), got True",
    ),
    "a threshold that is no number": (
        {"hints": {"startThreshold": float("nan")}},
        "hints.startThreshold: expected a share above 0 (0.2 is 20 %), got nan",
    ),
    "a threshold without end": (
        {"hints": {"keepThreshold": float("inf")}},
        "hints.keepThreshold: expected a share above 0 (0.2 is 20 %), got inf",
    ),
    "a threshold of nothing": (
        {"hints": {"startThreshold": 0}},
        "hints.startThreshold: expected a share above 0 (0.2 is 20 %), at most 100, got 0",
    ),
    "a threshold below nothing": (
        {"hints": {"startThreshold": -0.2}},
        "hints.startThreshold: expected a share above 0 (0.2 is 20 %), at most 100, got -0.2",
    ),
    "a threshold beyond measure": (
        {"hints": {"keepThreshold": 101}},
        "hints.keepThreshold: expected a share above 0 (0.2 is 20 %), at most 100, got 101",
    ),
    "keeping less than starting": (
        {"hints": {"startThreshold": 0.5}},
        "hints.keepThreshold: expected at least startThreshold (0.5), got 0.3",
    ),
    "an unknown way with missing CPU": (
        {"hints": {"missingCPU": "guess"}},
        "hints.missingCPU: expected count-nodes or disable, got 'guess'",
    ),
    "slices of nobody": ({"maxEndpointsPerSlice": 0}, "maxEndpointsPerSlice: expected a number from 1 to 1000, got 0"),
    "slices too large": (
        {"maxEndpointsPerSlice": 1001},
        "maxEndpointsPerSlice: expected a number from 1 to 1000, got 1001",
    ),
    "slices of parts": (
        {"maxEndpointsPerSlice": 10.5},
        "maxEndpointsPerSlice: expected a whole number, got 10.5",
    ),
    "slices of truth": (
        {"maxEndpointsPerSlice": True},
        "maxEndpointsPerSlice: expected a whole number, got True",
    ),
    "slices of null": ({"maxEndpointsPerSlice": None}, "maxEndpointsPerSlice: expected a whole number, got None"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_setting_is_refused_in_one_line(what: str) -> None:
    """Field, what was expected, what was found."""
    document, message = REFUSED[what]
    with pytest.raises(ConfigurationError) as raised:
        configuration_from({**HEAD, **document})
    assert str(raised.value) == message
    assert "\n" not in message


def test_an_empty_document_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^apiVersion: expected zoneward\.dev/v1alpha1, got None$"):
        configuration_from({})


@pytest.mark.parametrize("encoding", get_args(Encoding))
@pytest.mark.parametrize("algorithm", get_args(Algorithm))
def test_hints_are_refused_for_algorithms_with_weights_and_for_no_others(algorithm: str, encoding: str) -> None:
    """Every pair of the two: a hint names zones and has no room for a weight."""
    document = {**HEAD, "subsetting": {"algorithm": algorithm, "encoding": encoding}}
    if encoding == "slice-groups" or algorithm not in WEIGHTED_ALGORITHMS:
        settings = configuration_from(document).subsetting
        assert (settings.algorithm, settings.encoding) == (algorithm, encoding)
        return
    with pytest.raises(ConfigurationError) as raised:
        configuration_from(document)
    expected = f"subsetting.encoding: expected slice-groups with {algorithm}, got hints, which have no weights"
    assert str(raised.value) == expected


# --- gates that exclude each other ------------------------------------------------------------------------------------

FORBIDDEN: Final[Mapping[str, Mapping[str, bool]]] = {
    "TopologyAwareHints together with ServiceTopology": {"TopologyAwareHints": True, "ServiceTopology": True},
    "TopologyAwareHints without ServiceTrafficPolicy": {"TopologyAwareHints": True, "ServiceTrafficPolicy": False},
    "TopologyAwareSubsetting together with ServiceTopology": {"TopologyAwareSubsetting": True, "ServiceTopology": True},
}
CONCERNED: Final = ("TopologyAwareHints", "TopologyAwareSubsetting", "ServiceTrafficPolicy", "ServiceTopology")


def test_subsetting_is_read_while_its_gate_is_off() -> None:
    """Gates say what is in force; whether a setting can be meant is another question."""
    document = {"featureGates": {"TopologyAwareSubsetting": False}, "defaultApproach": "Subsetting"}
    configuration = configuration_from({**HEAD, **document, "subsetting": {"padding": 1}})
    assert not configuration.gates.topology_aware_subsetting
    assert (configuration.default_approach, configuration.subsetting.padding) == ("Subsetting", 1)


@pytest.mark.parametrize(
    "gates", [dict(zip(CONCERNED, values, strict=True)) for values in product((False, True), repeat=len(CONCERNED))]
)
def test_gates_that_exclude_each_other_are_refused(gates: dict[str, bool]) -> None:
    """All combinations of the four gates concerned; the first reason is given."""
    reasons = [text for text, excluded in FORBIDDEN.items() if {**gates, **excluded} == gates]
    document = {**HEAD, "featureGates": gates}
    if not reasons:
        assert configuration_from(document).gates.service_topology == gates["ServiceTopology"]
        return
    with pytest.raises(ConfigurationError) as raised:
        configuration_from(document)
    assert str(raised.value) == f"featureGates: expected a combination that works, got {reasons[0]}"
