"""What an operator can set: defaults, the document, and every refusal with its one line."""

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from itertools import product
from typing import Any, Final

import pytest

from zoneward.kube import names
from zoneward.routing.configuration import (
    SUBSETTING_KEYS,
    Configuration,
    ConfigurationError,
    Gates,
    HintsSettings,
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
    "hints": {"startThreshold": 0.2, "keepThreshold": 0.3, "missingCPU": "count-nodes"},
    "subsetting": {
        "algorithm": "local",
        "startingThreshold": 3,
        "padding": 3,
        "overloadThreshold": 0.5,
        "encoding": "slice-groups",
    },
    "maxEndpointsPerSlice": 100,
}
"""The document in the design, which spells out every default."""


# --- defaults ---------------------------------------------------------------------------------------------------------


def test_the_designs_document_is_the_default() -> None:
    """Every key may be left out; what is not used yet is said to be so."""
    assert configuration_from(HEAD) == Configuration()
    assert configuration_from({**DESIGN, "subsetting": None}) == Configuration(unused=("subsetting",))
    assert configuration_from(DESIGN) == Configuration(unused=("subsetting",))


def test_thresholds_by_default_are_20_and_30_percent() -> None:
    hints = Configuration().hints
    assert (hints.start_threshold, hints.keep_threshold) == (Fraction(20, 100), Fraction(30, 100))


def test_every_gate_is_on_but_the_one_that_the_others_replaced() -> None:
    assert {gate.name for gate in fields(Gates) if not getattr(Gates(), gate.name)} == {"service_topology"}


def test_slices_are_managed_by_us_or_as_upstream_by_the_built_in_controller() -> None:
    assert Configuration().manager == names.MANAGER == "endpointslice-controller.zoneward.dev"
    assert Configuration().as_upstream().manager == names.BUILT_IN_MANAGER


def test_as_upstream_has_one_threshold_and_gives_up_on_nodes_without_cpu() -> None:
    """And keeps all that is no matter of how upstream decides."""
    ours = Configuration(gates=Gates(prefer_same_traffic_distribution=False), max_endpoints_per_slice=7)
    upstream = ours.as_upstream()
    assert upstream.upstream
    assert upstream.hints == HintsSettings(
        start_threshold=Fraction(1, 5), keep_threshold=Fraction(1, 5), missing_cpu="disable"
    )
    assert (upstream.gates, upstream.max_endpoints_per_slice) == (ours.gates, 7)


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
    "sections without content": ({"featureGates": None, "hints": None}, Configuration()),
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
    assert Fraction(0.1) != Fraction(1, 10)


# --- refusals ---------------------------------------------------------------------------------------------------------

GATE_NAMES: Final = ", ".join(DESIGN["featureGates"])
REFUSED: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "no apiVersion": ({"apiVersion": None}, "apiVersion: expected zoneward.dev/v1alpha1, got None"),
    "another apiVersion": ({"apiVersion": "v1"}, "apiVersion: expected zoneward.dev/v1alpha1, got 'v1'"),
    "another kind": ({"kind": "Configuration"}, "kind: expected ZonewardConfiguration, got 'Configuration'"),
    "an unknown key": (
        {"colour": "red"},
        (
            "colour: expected one of featureGates, defaultApproach, hints, subsetting, maxEndpointsPerSlice,"
            " got an unknown key"
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
        "defaultApproach: expected ClusterWide, got 'Auto'",
    ),
    "an approach that is a list": ({"defaultApproach": []}, "defaultApproach: expected ClusterWide, got []"),
    "an unknown key of hints": (
        {"hints": {"threshold": 0.2}},
        "hints.threshold: expected one of startThreshold, keepThreshold, missingCPU, got an unknown key",
    ),
    "an unknown key of subsetting": (
        {"subsetting": {"zones": 3}},
        f"subsetting.zones: expected one of {', '.join(SUBSETTING_KEYS)}, got an unknown key",
    ),
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


# --- gates that exclude each other ------------------------------------------------------------------------------------

FORBIDDEN: Final[Mapping[str, Mapping[str, bool]]] = {
    "TopologyAwareHints together with ServiceTopology": {"TopologyAwareHints": True, "ServiceTopology": True},
    "TopologyAwareHints without ServiceTrafficPolicy": {"TopologyAwareHints": True, "ServiceTrafficPolicy": False},
    "TopologyAwareSubsetting together with ServiceTopology": {"TopologyAwareSubsetting": True, "ServiceTopology": True},
}
CONCERNED: Final = ("TopologyAwareHints", "TopologyAwareSubsetting", "ServiceTrafficPolicy", "ServiceTopology")


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
