"""Conditions of a Service (KEP-4444 § Status Reporting), with our domain as prefix."""

from collections.abc import Mapping
from itertools import product
from typing import Final

import pytest
from tests.builders.structs import a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster, only_family

from zoneward.kube.objects import Condition, Pod, Service
from zoneward.routing.decision import Decision
from zoneward.routing.service_conditions import worst_family

ACCEPTED: Final = "zoneward.dev/TrafficDistributionAccepted"
PROGRAMMED: Final = "zoneward.dev/TrafficDistributionProgrammed"


def a_cluster(service: Service, *, pods: int = 2) -> Cluster:
    return Cluster(service=service, nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": pods, "b": pods}))


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
}


@pytest.mark.parametrize("what", CASES)
def test_conditions_say_what_was_understood_and_what_was_done(what: str) -> None:
    cluster, (accepted, programmed) = CASES[what]
    expected = [
        Condition(type=type_, status=content[0], reason=content[1], message=content[2])
        for type_, content in ((ACCEPTED, accepted), (PROGRAMMED, programmed))
    ]
    assert list(cluster.plan().conditions) == expected


def test_a_service_that_asks_for_nothing_of_ours_has_no_conditions() -> None:
    """Nor does one that has no slices of Zoneward."""
    nothing = (a_service(), a_service("Disabled"), a_service(keys=("*",)))
    for service in (*nothing, a_service("Auto", type_="ExternalName"), a_service("Auto", selects=False)):
        assert a_cluster(service).plan().conditions == ()


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


def test_conditions_report_the_worst_family_and_of_equals_the_first() -> None:
    for (rank, first), (other, second) in product(enumerate(BY_SEVERITY.values()), repeat=2):
        worst = ("IPv6", second) if other > rank else ("IPv4", first)
        assert worst_family({"IPv4": first, "IPv6": second}) == worst


def test_a_family_without_endpoints_does_not_count_unless_no_family_has_any() -> None:
    for outcome in BY_SEVERITY.values():
        for families in ({"IPv4": EMPTY, "IPv6": outcome}, {"IPv6": outcome, "IPv4": EMPTY}):
            assert worst_family(families) == ("IPv6", outcome)
    assert worst_family({"IPv4": BY_SEVERITY["in force"], "IPv6": UNREADY}) == ("IPv6", UNREADY)
    assert worst_family({"IPv4": EMPTY, "IPv6": EMPTY}) == ("IPv4", EMPTY)
    assert worst_family({"IPv4": decision(None, ()), "IPv6": EMPTY}) == ("IPv6", EMPTY)
