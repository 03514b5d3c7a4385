"""What an operator can set: defaults, the document, and every refusal with its one line."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any, Final, get_args

import pytest

from zoneward.controller.controller_configuration import SECTION
from zoneward.kube import names
from zoneward.kube.input_error import ConfigurationError
from zoneward.proxy.proxy_configuration import SECTION as PROXY_SECTION
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import (
    Configuration,
    Encoding,
    FeatureGates,
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


def test_slices_are_managed_by_us_or_as_upstream_by_the_built_in_controller() -> None:
    assert Configuration().manager == names.MANAGER == "endpointslice-controller.zoneward.dev"
    assert Configuration().as_upstream().manager == names.BUILT_IN_MANAGER


def test_as_upstream_has_one_threshold_and_gives_up_on_nodes_without_cpu() -> None:
    """And keeps all that is no matter of how upstream decides."""
    ours = Configuration(
        gates=FeatureGates(prefer_same_traffic_distribution=False),
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
        Configuration(gates=FeatureGates(topology_aware_hints=False)),
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
            gates=FeatureGates(
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
        for algorithm in SUBSETTING_ALGORITHMS
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

ALGORITHMS: Final = " or ".join(("local", "local-shared", "local-weighted", "local-opt", "random"))
A_SHARE: Final = "a share above 0 (0.2 is 20 %)"
AN_OVERLOAD: Final = "a share above 0 (0.5 is 50 %), at most 100"
A_STARTING_THRESHOLD: Final = "a number above 0 (3 is three endpoints a zone), at most 1000"
A_TOLERANCE: Final = "a share of all traffic from 0 to 1 (0.1 is 10 %)"
A_MAP: Final = "a map"
AN_INTEGER: Final = "a whole number"
A_BOOLEAN: Final = "true or false"
AN_APPROACH: Final = "ClusterWide or Subsetting"
NAN, INFINITY = float("nan"), float("inf")
INVALID: Final[tuple[tuple[str, str, tuple[Any, ...]], ...]] = (
    ("apiVersion", "zoneward.dev/v1alpha1", (None, "v1")),
    ("kind", "ZonewardConfiguration", ("Configuration",)),
    ("featureGates", A_MAP, ([True],)),
    ("featureGates.TopologyAwareHints", A_BOOLEAN, ("true",)),
    ("featureGates.ServiceTopology", A_BOOLEAN, (0,)),
    ("defaultApproach", AN_APPROACH, ("Auto", "subsetting", [], None)),
    ("hints", A_MAP, (0.2,)),
    ("hints.startThreshold", A_SHARE, ("20%", NAN)),
    ("hints.startThreshold", f"{A_SHARE}, at most 100", (0, -0.2)),
    ("hints.keepThreshold", A_SHARE, (True, INFINITY)),
    ("hints.keepThreshold", f"{A_SHARE}, at most 100", (101,)),
    ("hints.missingCPU", "count-nodes or disable", ("guess",)),
    ("hints.inZoneTolerance", A_TOLERANCE, ("10%", True, -0.1, 1.1, INFINITY)),
    ("subsetting", A_MAP, ("local",)),
    ("subsetting.algorithm", ALGORITHMS, ("ProportionalZoneCPU", "RequireZone", None, ["local"])),
    ("subsetting.encoding", "slice-groups or hints", ("labels", 0)),
    ("subsetting.startingThreshold", A_STARTING_THRESHOLD, ("3", True, None, NAN, 0, -3, 1000.5)),
    ("subsetting.padding", AN_INTEGER, ("3", 2.5, True, None)),
    ("subsetting.padding", "a number of endpoints from 0 to 1000", (-1, 1001)),
    ("subsetting.overloadThreshold", A_SHARE, ("50%", INFINITY)),
    ("subsetting.overloadThreshold", AN_OVERLOAD, (0, -0.5, 101)),
    ("subsetting.inZoneTolerance", A_TOLERANCE, ("10%", True, -0.1, 1.1, INFINITY)),
    ("maxEndpointsPerSlice", "a number from 1 to 1000", (0, 1001)),
    ("maxEndpointsPerSlice", AN_INTEGER, (10.5, True, None)),
)
"""Key, what is expected there, and values that are something else."""


def document_with(path: str, value: Any) -> dict[str, Any]:
    section, _, key = path.partition(".")
    return {section: {key: value} if key else value}


REFUSED: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    **{
        f"{path}: {value!r}": (document_with(path, value), f"{path}: expected {expected}, got {value!r}")
        for path, expected, values in INVALID
        for value in values
    },
    **{
        f"unknown {path}": (document_with(path, 1), f"{path}: expected one of {', '.join(known)}, got an unknown key")
        for path, known in {
            "colour": (*[key for key in DESIGN if key not in HEAD], "controller", "proxy"),
            "featureGates.TopologyKeys": DESIGN["featureGates"],
            "hints.threshold": DESIGN["hints"],
            "subsetting.zones": DESIGN["subsetting"],
        }.items()
    },
    "a starting threshold beyond all doubles": (
        {"subsetting": {"startingThreshold": 10**400}},
        f"subsetting.startingThreshold: expected {A_STARTING_THRESHOLD}, got a number far above",
    ),
    "keeping less than starting": (
        {"hints": {"startThreshold": 0.5}},
        "hints.keepThreshold: expected at least startThreshold (0.5), got 0.3",
    ),
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
@pytest.mark.parametrize("algorithm", SUBSETTING_ALGORITHMS)
def test_hints_are_refused_for_algorithms_with_weights_and_for_no_others(algorithm: str, encoding: str) -> None:
    """Every pair of the two: a hint names zones and has no room for a weight."""
    document = {**HEAD, "subsetting": {"algorithm": algorithm, "encoding": encoding}}
    if encoding == "slice-groups" or not SUBSETTING_ALGORITHMS[algorithm].weighs:
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
