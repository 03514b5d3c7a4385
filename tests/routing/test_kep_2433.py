"""The test plan of KEP-2433: every row of its controller table and of its proxy table, under that row's name."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from tests.builders.structs import a_node, a_service, an_endpoint, hints, nodes_in, pods_in
from tests.clusters import CLUSTER, Cluster, hinted_zones, only_family, written

from zoneward.kube.objects import Number
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.selection.endpoint_selection import (
    CURRENT,
    EndpointSelection,
    SelectionRule,
    honored_hints,
    policies_of,
    select_endpoints,
)
from zoneward.slices.plan import ServicePlan


def a_cluster(value: str, cpu: Mapping[str, Number], pods: Mapping[str, int]) -> Cluster:
    return Cluster(service=a_service(value), nodes=nodes_in(cpu), pods=pods_in(pods))


def consumed(plan: ServicePlan) -> dict[str, int]:
    """How many endpoints are hinted to each zone; nothing where there are no hints."""
    return dict(Counter(hinted_zones(only_family(plan).changes.after).values()))


def expect_hints(plan: ServicePlan, expected: Mapping[str, int]) -> None:
    assert consumed(plan) == expected
    assert only_family(plan).decision.active


def expect_no_hints(plan: ServicePlan) -> None:
    assert consumed(plan) == {}
    assert not only_family(plan).decision.active


Rows = Mapping[str, tuple[tuple[Mapping[str, Number], Mapping[str, int], Mapping[str, int]], ...]]
"""CPU by zone, endpoints by zone, and how many each zone consumes then: nothing where there are no hints."""

COUNTED: Final[Rows] = {
    "feature_on_two_zones": (
        ({"a": 4, "b": 4}, {"a": 2, "b": 2}, {"a": 2, "b": 2}),
        ({"a": 4, "b": 4, "c": 8}, {"a": 1, "b": 3, "c": 4}, {"a": 2, "b": 2, "c": 4}),
    ),
    "feature_on_one_zone": (({"a": 4}, {"a": 4}, {}),),
    "two_endpoints_three_zones": (({"a": 4, "b": 4, "c": 4}, {"a": 1, "b": 1}, {}),),
    "three_endpoints_three_zones": (
        ({"a": 4, "b": 4, "c": 4}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}),
        ({"a": 4, "b": 4, "c": 4}, {"a": 2, "b": 1}, {"a": 1, "b": 1, "c": 1}),
    ),
    # 1.33 expected and 1 consumed in two zones: 33 %.
    "four_endpoints_three_zones": (({"a": 4, "b": 4, "c": 4}, {"a": 2, "b": 1, "c": 1}, {}),),
    "four_endpoints_two_zones": (({"a": 4, "b": 4}, {"a": 2, "b": 2}, {"a": 2, "b": 2}),),
    "four_endpoints_all_from_one_zone": (({"a": 4, "b": 4}, {"a": 4}, {"a": 2, "b": 2}),),
    "four_endpoints_one_zone_with_twice_the_cores": (
        ({"a": 8, "b": 4, "c": 4}, {"a": 2, "b": 1, "c": 1}, {"a": 2, "b": 1, "c": 1}),
    ),
}


def feature_off_two_zones(value: str) -> None:
    off = Configuration(gates=FeatureGates(topology_aware_hints=False))
    expect_no_hints(a_cluster(value, {"a": 4, "b": 4}, {"a": 2, "b": 2}).with_(configuration=off).plan())


def feature_on_external_policy_local(value: str) -> None:
    cluster = a_cluster(value, {"a": 4, "b": 4}, {"a": 2, "b": 2})
    expect_no_hints(cluster.with_(service=a_service(value, external="Local", type_="LoadBalancer")).plan())


def four_hundred_endpoints_slightly_different_cores(value: str) -> None:
    cpu: dict[str, Number] = {"a": "3920m", "b": "3.93", "c": "3940m", "d": 4}
    plan = a_cluster(value, cpu, dict.fromkeys("abcd", 100)).plan()
    assert sum(consumed(plan).values()) == 400
    assert [count >= 97 for count in consumed(plan).values()] == [True] * 4
    assert only_family(plan).decision.active


def node_removal_within_the_threshold(value: str) -> None:
    nodes = tuple(a_node(f"node-{zone}{index}", zone) for zone in "abc" for index in range(10))
    cluster = Cluster(
        service=a_service(value),
        nodes=(*nodes_in({"a": 4, "b": 4, "c": 4}), *nodes),
        pods=pods_in(dict.fromkeys("abc", 10)),
    ).settled()
    assert consumed(cluster.plan()) == {"a": 10, "b": 10, "c": 10}
    plan = cluster.with_(nodes=cluster.nodes[:-1]).plan()
    assert not written(plan)
    assert plan.events == ()


def node_removal_across_the_threshold(value: str) -> None:
    """Zone a has two of four Nodes and two of four endpoints; with one of three Nodes two zones are 33 % overloaded."""
    nodes = (*nodes_in({"a": 4, "b": 4, "c": 4}), a_node("node-a2", "a"))
    cluster = Cluster(service=a_service(value), nodes=nodes, pods=pods_in({"a": 2, "b": 1, "c": 1})).settled()
    expect_hints(cluster.plan(), {"a": 2, "b": 1, "c": 1})
    plan = cluster.with_(nodes=nodes[:-1]).plan()
    assert len(only_family(plan).changes.update) == 1
    expect_no_hints(plan)


def node_without_cores(value: str) -> None:
    """The Node with 64 cores counts as one of four, like the one that reports none."""
    nodes = (
        *(a_node("node-a", "a", cpu=64), a_node("node-a2", "a", cpu=1)),
        *(a_node("node-b", "b", cpu=None), a_node("node-b2", "b", cpu=4)),
    )
    cluster = Cluster(service=a_service(value), nodes=nodes, pods=pods_in({"a": 3, "b": 3}))
    expect_hints(cluster.plan(), {"a": 3, "b": 3})
    assert cluster.cluster_state.demand.unit == "nodes"


def endpoint_additions(value: str) -> None:
    cluster = a_cluster(value, {"a": 4, "b": 4}, {"a": 1, "b": 1}).settled()
    assert consumed(cluster.plan()) == {"a": 1, "b": 1}
    plan = cluster.with_(pods=pods_in({"a": 5, "b": 1})).plan()
    expect_hints(plan, {"a": 3, "b": 3})
    assert written(plan)


def endpoint_removals(value: str) -> None:
    cluster = a_cluster(value, {"a": 4, "b": 4}, {"a": 4, "b": 4}).settled()
    assert set(hinted_zones(cluster.slices).items()) >= {("a-0003", "a"), ("b-0003", "b")}
    plan = cluster.with_(pods=pods_in({"a": 4, "b": 1})).plan()
    assert written(plan)
    expect_hints(plan, {"a": 3, "b": 2})


CONTROLLER: Final[Mapping[str, Callable[[str], None]]] = {
    test.__name__: test
    for test in (
        *(feature_off_two_zones, feature_on_external_policy_local, four_hundred_endpoints_slightly_different_cores),
        *(node_removal_within_the_threshold, node_removal_across_the_threshold, node_without_cores),
        *(endpoint_additions, endpoint_removals),
    )
}


@pytest.mark.parametrize("row", [*COUNTED, *CONTROLLER])
@pytest.mark.parametrize("value", ["Auto", "ProportionalZoneCPU"])
def test_controller(row: str, value: str) -> None:
    if row in CONTROLLER:
        CONTROLLER[row](value)
    for cpu, pods, expected in COUNTED.get(row, ()):
        plan = a_cluster(value, cpu, pods).plan()
        assert consumed(plan) == expected
        assert only_family(plan).decision.active is bool(expected)


ENDPOINTS: Final = (
    an_endpoint("10.0.0.1", "a", node="node-a", hinted=hints("a")),
    an_endpoint("10.0.0.2", "b", node="node-b", hinted=hints("b")),
    an_endpoint("10.0.0.3", "a", node="node-a", hinted=hints("b")),
)
"""On node-a in zone a: one endpoint hinted to zone a, one hinted to zone b."""


def selected(*, zone: str = "a", gates: FeatureGates | None = None) -> EndpointSelection:
    honored = honored_hints(a_service("Auto"), CURRENT, gates if gates is not None else FeatureGates())
    return select_endpoints(ENDPOINTS, policies=CLUSTER, honored=honored, node=f"node-{zone}", zone=zone)


def proxy_feature_on() -> None:
    selection = selected()
    assert (selection.cluster, selection.rule) == (ENDPOINTS[:1], SelectionRule.ZONE_HINTS)
    assert selected(zone="b").cluster == ENDPOINTS[1:]


def proxy_external_policy_local() -> None:
    """Traffic from outside is sent to every endpoint of the node, hinted to its zone or not (§ Interoperability)."""
    service = a_service("Auto", external="Local", type_="LoadBalancer", node_port=30080)
    honored = honored_hints(service, CURRENT, FeatureGates())
    selection = select_endpoints(ENDPOINTS, policies=policies_of(service), honored=honored, node="node-a", zone="a")
    assert selection.local == (ENDPOINTS[0], ENDPOINTS[2])
    assert selection.healthy_local == 2


def proxy_feature_off() -> None:
    selection = selected(gates=FeatureGates(topology_aware_hints=False))
    assert (selection.cluster, selection.rule) == (ENDPOINTS, SelectionRule.ALL)


def proxy_no_hints_matching() -> None:
    selection = selected(zone="c")
    assert (selection.cluster, selection.rule) == (ENDPOINTS, SelectionRule.ALL)


PROXY: Final[Mapping[str, Callable[[], None]]] = {
    test.__name__: test
    for test in (proxy_feature_on, proxy_external_policy_local, proxy_feature_off, proxy_no_hints_matching)
}


@pytest.mark.parametrize("row", PROXY)
def test_proxy(row: str) -> None:
    PROXY[row]()
