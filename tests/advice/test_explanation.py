import pytest
from hypothesis import given
from tests.advice.inputs import input_of
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster
from tests.properties.random_clusters import clusters, examples

from zoneward.advice.explanation import explain_service
from zoneward.advice.node_proxies import ZONEWARD_PROXY, same_proxy_everywhere
from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.rules import Reason

NOBODY_DECIDES = {Reason.NOT_ASKED_FOR, Reason.BEING_DELETED}
"""What nothing asks for may have no rule at all."""


@examples(30)
@given(clusters(most_pods=12))
def test_deciding_rule_matches_the_decision(cluster: Cluster) -> None:
    for family in cluster.plan().families:
        decision, index = family.decision, family.decision.deciding
        if index is None:
            assert decision.reason in NOBODY_DECIDES, decision
            continue
        rule = decision.rules[index]
        assert rule.passed == (decision.active and family.void_hints is None), (decision, rule)


def test_now_needs_slices() -> None:
    cluster = Cluster(
        service=a_service("Auto"), nodes=nodes_in({"a": 1, "b": 1}), pods=pods_in({"a": 2, "b": 2}, dual_stack=False)
    )
    proxies = same_proxy_everywhere(cluster.nodes, ZONEWARD_PROXY)
    (before,) = explain_service(input_of(cluster), node_proxies=proxies).families
    (after,) = explain_service(input_of(cluster.settled()), node_proxies=proxies).families
    assert before.now is None
    assert after.now is not None
    assert after.now.zones == after.planned.zones
    assert after.now.proxies == {"zoneward": 2}


def test_refusal_of_the_built_in_controller_is_shown_while_it_writes() -> None:
    service = a_service("zoneward.dev/Balanced")
    cluster = Cluster(service=service, nodes=nodes_in({"a": 3, "b": 1}), pods=pods_in({"a": 3, "b": 1}))
    proxies = same_proxy_everywhere(cluster.nodes, ZONEWARD_PROXY)
    (before,) = explain_service(input_of(cluster), node_proxies=proxies).families
    (after,) = explain_service(input_of(cluster.settled()), node_proxies=proxies).families
    assert before.planned.active
    unknown = "service.kubernetes.io/topology-mode: 'zoneward.dev/Balanced' is not a value that Kubernetes knows"
    assert before.planned.built_in == unknown
    assert after.planned.built_in is None


def test_traffic_by_hints_of_the_built_in_controller_is_shown() -> None:
    cluster = Cluster(
        service=a_service("Auto", annotations={names.DEMAND_ANNOTATION: "a=70%,b=30%"}),
        nodes=nodes_in({"a": 1, "b": 1}),
        pods=pods_in({"a": 7, "b": 3}),
    )
    proxies = same_proxy_everywhere(cluster.nodes, ZONEWARD_PROXY)
    (before,) = explain_service(input_of(cluster), node_proxies=proxies).families
    assert before.planned.max_overload == pytest.approx(0)
    assert before.planned.built_in is None
    assert before.planned.built_in_traffic is not None
    assert before.planned.built_in_traffic.max_overload == pytest.approx(0.4)
    (after,) = explain_service(input_of(cluster.settled()), node_proxies=proxies).families
    assert after.planned.built_in_traffic is None, "Zoneward's controller is at work"
    without = cluster.with_(service=a_service("Auto"))
    assert explain_service(input_of(without), node_proxies=proxies).families[0].planned.built_in_traffic is None


@pytest.mark.parametrize(
    ("service", "rule"),
    [
        (a_service(distribution="Bogus"), "traffic-distribution"),
        (a_service("Bogus"), "annotation"),
        (a_service(subsetting="Bogus"), "subsetting-annotation"),
        (a_service(subsetting="Disabled"), "subsetting-annotation"),
        (a_service(), "traffic-distribution"),
    ],
)
def test_unknown_value_is_the_deciding_rule(service: Service, rule: str) -> None:
    cluster = Cluster(service=service, nodes=nodes_in({"a": 1, "b": 1}), pods=pods_in({"a": 2, "b": 2}))
    (family,) = cluster.plan().families
    assert family.decision.deciding is not None
    assert family.decision.rules[family.decision.deciding].rule == rule
