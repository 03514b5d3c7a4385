"""Conditions of a Service (KEP-4444 § Status Reporting), with our domain as prefix."""

from collections.abc import Mapping
from itertools import product
from typing import Final

import pytest
from tests.builders.structs import a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster, only_family

from zoneward.kube.objects import Condition, Pod, Service
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.decision import Decision
from zoneward.routing.service_conditions import worst_family

ACCEPTED: Final = "zoneward.dev/TrafficDistributionAccepted"
PROGRAMMED: Final = "zoneward.dev/TrafficDistributionProgrammed"
OFF: Final = Configuration(
    gates=FeatureGates(
        topology_aware_hints=False, service_traffic_distribution=False, prefer_same_traffic_distribution=False
    )
)


def a_cluster(service: Service, *, pods: int = 2, configuration: Configuration | None = None) -> Cluster:
    return Cluster(
        service=service,
        nodes=nodes_in({"a": 4, "b": 4}),
        pods=pods_in({"a": pods, "b": pods}),
        configuration=configuration if configuration is not None else Configuration(),
    )


Reported = tuple[tuple[str, str, str], tuple[str, str, str]]
"""Status, reason and message of Accepted and of Programmed."""

OVERRIDDEN: Final = "spec.topologyKeys is set and overrides every newer setting"
UNKNOWN: Final = "service.kubernetes.io/topology-mode: 'Banana' is not a known value"
CASES: Final[Mapping[str, tuple[Cluster, Reported]]] = {
    "Auto, on": (
        a_cluster(a_service("Auto")),
        (
            ("True", "Accepted", "service.kubernetes.io/topology-mode: Auto"),
            ("True", "Enabled", "Hints/ProportionalZoneCPU: every zone has its fair share; 4 endpoints for 2 zones"),
        ),
    ),
    "Auto, in vain": (
        a_cluster(a_service("Auto"), pods=0),
        (
            ("True", "Accepted", "service.kubernetes.io/topology-mode: Auto"),
            ("False", "TooFewEndpoints", "Hints/ProportionalZoneCPU: 0 endpoints for 2 zones: fewer than one each"),
        ),
    ),
    "a distribution, on": (
        a_cluster(a_service(distribution="PreferClose")),
        (
            ("True", "Accepted", "spec.trafficDistribution: PreferClose"),
            ("True", "Enabled", "TrafficDistribution/PreferSameZone: every endpoint serves its own zone"),
        ),
    ),
    "a distribution, in vain": (
        a_cluster(a_service(distribution="PreferSameNode"), pods=0),
        (
            ("True", "Accepted", "spec.trafficDistribution: PreferSameNode"),
            ("False", "NoReadyEndpoints", "TrafficDistribution/PreferSameNode: no endpoint is ready"),
        ),
    ),
    "an unknown value": (
        a_cluster(a_service("Banana")),
        (("False", "UnknownValue", UNKNOWN), ("False", "UnknownValue", UNKNOWN)),
    ),
    "an unknown value beside one that works": (
        a_cluster(a_service("Banana", distribution="PreferSameZone")),
        (
            ("False", "UnknownValue", UNKNOWN),
            ("True", "Enabled", "TrafficDistribution/PreferSameZone: every endpoint serves its own zone"),
        ),
    ),
    "topologyKeys over a newer setting": (
        a_cluster(a_service("Auto", keys=("*",))),
        (("False", "TopologyKeys", OVERRIDDEN), ("False", "TopologyKeys", OVERRIDDEN)),
    ),
    "a gate that is off": (
        a_cluster(a_service(distribution="PreferClose"), configuration=OFF),
        (
            ("False", "FeatureGateOff", "the feature gate ServiceTrafficDistribution is off"),
            ("False", "FeatureGateOff", "the feature gate ServiceTrafficDistribution is off"),
        ),
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_conditions_say_what_was_understood_and_what_was_done(what: str) -> None:
    """Programmed begins with what the Service requests: that is how it is remembered."""
    cluster, (accepted, programmed) = CASES[what]
    expected = [
        Condition(type=type_, status=each[0], reason=each[1], message=each[2])
        for type_, each in ((ACCEPTED, accepted), (PROGRAMMED, programmed))
    ]
    assert list(cluster.plan().conditions) == expected


@pytest.mark.parametrize(
    "service",
    [
        a_service(),
        a_service("Disabled"),
        a_service(keys=("*",)),
        a_service("Auto", type_="ExternalName"),
        a_service("Auto", selects=False),
    ],
    ids=["nothing set", "switched off", "topologyKeys", "ExternalName", "no selector"],
)
def test_a_service_that_asks_for_nothing_of_ours_has_no_conditions(service: Service) -> None:
    assert a_cluster(service).plan().conditions == ()


# --- which family they report -----------------------------------------------------------------------------------------


def decision(mode: str | None, pods: tuple[Pod, ...]) -> Decision:
    cluster = Cluster(service=a_service(mode), nodes=nodes_in({"a": 1, "b": 1}), pods=pods)
    return only_family(cluster.plan()).decision


PODS = pods_in({"a": 1, "b": 1})
BY_SEVERITY = {
    "in force": decision("Auto", PODS),
    "nothing asked for": decision(None, PODS),
    "in vain": decision("Auto", PODS[:1]),
}
"""From best to worst."""
EMPTY = decision("Auto", ())
UNREADY = decision("Auto", (a_pod("starting", ready=False),))


@pytest.mark.parametrize(("first", "second"), list(product(BY_SEVERITY, repeat=2)))
def test_conditions_report_the_worst_family_and_of_equals_the_first(first: str, second: str) -> None:
    ranks = list(BY_SEVERITY)
    worst = worst_family({"IPv4": BY_SEVERITY[first], "IPv6": BY_SEVERITY[second]})
    assert worst is not None
    assert worst[0] == ("IPv6" if ranks.index(second) > ranks.index(first) else "IPv4")
    assert worst[1] is BY_SEVERITY[max(first, second, key=ranks.index)]


@pytest.mark.parametrize("outcome", BY_SEVERITY)
def test_a_family_without_endpoints_does_not_count(outcome: str) -> None:
    """Neither its outcome nor the first place changes that."""
    for families in ({"IPv4": EMPTY, "IPv6": BY_SEVERITY[outcome]}, {"IPv6": BY_SEVERITY[outcome], "IPv4": EMPTY}):
        assert worst_family(families) == ("IPv6", BY_SEVERITY[outcome])


def test_a_family_whose_endpoints_are_not_ready_counts() -> None:
    assert worst_family({"IPv4": BY_SEVERITY["in force"], "IPv6": UNREADY}) == ("IPv6", UNREADY)


def test_where_no_family_has_endpoints_the_worst_counts() -> None:
    assert worst_family({"IPv4": EMPTY, "IPv6": EMPTY}) == ("IPv4", EMPTY)
    assert worst_family({"IPv4": decision(None, ()), "IPv6": EMPTY}) == ("IPv6", EMPTY)
