"""A Service as if it requested another approach, and nothing else."""

from collections.abc import Mapping
from typing import Final, get_args

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_service

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import BALANCED, PREFER_SAME_ZONE, SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import Configuration, DefaultApproach, FeatureGates, HintsSettings
from zoneward.routing.request import RequestedApproach, requested_approach
from zoneward.routing.rules import RuleLog
from zoneward.routing.what_if import WHAT_IF_VALUES, as_if_requested, find_what_if_value


def asked(service: Service, configuration: Configuration | None = None) -> RequestedApproach:
    return requested_approach(service, configuration if configuration is not None else Configuration(), RuleLog())


WHAT_IF: Final[Mapping[str, str]] = {
    "Auto": "Hints/ProportionalZoneCPU",
    "ProportionalZoneCPU": "Hints/ProportionalZoneCPU",
    "Balanced": "Hints/Balanced",
    "PreferZone": "Hints/PreferZone",
    "PreferSameZone": "TrafficDistribution/PreferSameZone",
    "PreferSameNode": "TrafficDistribution/PreferSameNode",
    **{name: f"Subsetting/{name}" for name in (*SUBSETTING_ALGORITHMS, "RequireZone")},
    "none": "ClusterWide",
}


@pytest.mark.parametrize("value", WHAT_IF_VALUES)
@pytest.mark.parametrize(
    "service",
    [
        a_service(),
        a_service("PreferZone", old="Disabled", distribution="PreferSameNode"),
        a_service("Auto", distribution="PreferSameNode", subsetting="Require", algorithm="local-opt"),
    ],
    ids=["nothing set", "other settings", "subsetting"],
)
@pytest.mark.parametrize("default", get_args(DefaultApproach))
def test_what_if_asks_for_the_value_and_for_nothing_else(
    service: Service, value: str, default: DefaultApproach
) -> None:
    configuration = Configuration(default_approach=default)
    asking = as_if_requested(service, value, configuration)
    requested = asked(asking, configuration)
    assert (
        f"{requested.approach}/{requested.heuristic.name}" if requested.heuristic else requested.approach
    ) == WHAT_IF[value]
    assert requested.accepted is (None if value == "none" else True)


def test_what_if_auto_asks_for_what_auto_is_configured_to_mean() -> None:
    configuration = Configuration(hints=HintsSettings(auto="Balanced"))
    assert asked(as_if_requested(a_service(), "Auto", configuration), configuration).heuristic is BALANCED


@pytest.mark.parametrize("value", ["Auto", "ProportionalZoneCPU", "PreferSameZone", "PreferSameNode", "none"])
def test_what_if_uses_the_names_that_kubernetes_knows(value: str) -> None:
    configuration = Configuration(hints=HintsSettings(auto="Balanced")).as_upstream()
    requested = asked(as_if_requested(a_service("PreferZone"), value, configuration), configuration)
    assert (
        f"{requested.approach}/{requested.heuristic.name}" if requested.heuristic else requested.approach
    ) == WHAT_IF[value]


def test_what_if_uses_the_older_name_where_the_gate_of_the_newer_one_is_off() -> None:
    configuration = Configuration(gates=FeatureGates(prefer_same_traffic_distribution=False))
    asking = as_if_requested(a_service(), "PreferSameZone", configuration)
    assert asking.spec.traffic_distribution == "PreferClose"
    assert asked(asking, configuration).heuristic is PREFER_SAME_ZONE
    assert asked(as_if_requested(a_service(), "PreferSameNode", configuration), configuration).refusal


def test_what_if_leaves_topology_keys_policies_and_other_annotations() -> None:
    service = a_service("Auto", keys=("*",), internal="Local", external="Local")
    others = {"example.com/owner": "web", names.STARTING_THRESHOLD_ANNOTATION: "2", names.MAX_OVERLOAD_ANNOTATION: "1"}
    annotations = {**(service.metadata.annotations or {}), **others}
    service = replace(service, metadata=replace(service.metadata, annotations=annotations))
    for value in WHAT_IF:
        changed = as_if_requested(service, value, Configuration())
        assert asked(changed).refusal == "TopologyKeys"
        assert changed.spec.internal_traffic_policy == changed.spec.external_traffic_policy == "Local"
        assert others.items() <= (changed.metadata.annotations or {}).items()
    assert as_if_requested(service, "Balanced", Configuration()).metadata.annotations == {
        **others,
        names.TOPOLOGY_MODE_ANNOTATION: "zoneward.dev/Balanced",
        names.SUBSETTING_ANNOTATION: "Disabled",
    }
    assert as_if_requested(service, "PreferSameZone", Configuration()).metadata.annotations == {
        **others,
        names.SUBSETTING_ANNOTATION: "Disabled",
    }


@pytest.mark.parametrize(
    "value", ["PreferClose", "auto", "Banana", "", "zoneward.dev/PreferZone", "Require", "Prefer", "Disabled", "Local"]
)
def test_what_if_takes_no_other_value(value: str) -> None:
    with pytest.raises(ValueError, match=r"^expected one of Auto, ProportionalZoneCPU, .*none, got "):
        as_if_requested(a_service(), value, Configuration())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((value, value) for value in WHAT_IF_VALUES),
        *((value.upper(), value) for value in WHAT_IF_VALUES),
        ("PreferClose", "PreferSameZone"),
        ("preferclose", "PreferSameZone"),
        ("cluster-wide", "none"),
        ("ClusterWide", "none"),
        ("Disabled", "none"),
        ("Require", "RequireZone"),
        ("Original", "random"),
        ("LocalShared", "local-shared"),
        ("zoneward.dev/Balanced", "Balanced"),
        ("zoneward.dev/PreferSameZone", "PreferSameZone"),
        ("Hints/ProportionalZoneCPU", "ProportionalZoneCPU"),
        ("Subsetting/local-opt", "local-opt"),
        ("TrafficDistribution/PreferSameNode", "PreferSameNode"),
        ("zoneward.dev/local", None),
        ("zoneward.dev/none", None),
        ("example.com/Balanced", None),
        ("Hints/none", None),
        ("a/b/Balanced", None),
        ("PreferSame", None),
        ("", None),
        ("/", None),
    ],
)
def test_every_name_that_docs_and_tables_use_means_a_value(name: str, value: str | None) -> None:
    assert find_what_if_value(name) == value
