"""The advice for one Service, beside `tests.properties.test_actions`, which holds for random clusters."""

from tests.advice.inputs import advised_cluster, input_of, owned
from tests.builders.structs import a_node, a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.actions import AdvisedCluster, advise_service
from zoneward.advice.node_proxies import PROXY_KINDS, same_proxy_everywhere
from zoneward.routing.configuration import Configuration, DemandSettings


def advised(cluster: Cluster) -> AdvisedCluster:
    return advised_cluster(cluster, same_proxy_everywhere(cluster.nodes, PROXY_KINDS["current"]))


def test_zone_label_leads_to_the_demand_that_is_chosen() -> None:
    """By CPU, a label would overload the Pods of zone a; here each node sends as much."""
    cpu = {"a": 32, "b": 4, "c": 4}
    nodes = tuple(a_node(f"node-{zone}{suffix}", zone, cpu=cpu[zone]) for zone in "abc" for suffix in ("", "2", "3"))
    nodes += tuple(a_node(f"lost-{index}", zone=None) for index in range(2))
    cluster = Cluster(
        service=a_service(distribution="PreferSameZone"),
        nodes=nodes,
        pods=pods_in({"a": 9, "b": 9, "c": 9}),
        configuration=Configuration(demand=DemandSettings(source="nodes")),
    )
    advice = advise_service(input_of(cluster), advised(cluster))
    assert advice is not None
    assert advice.kubernetes is not None
    assert advice.kubernetes.kind == "label-node"
    assert round(advice.kubernetes.after.in_zone, 4) == round(10 / 11, 4)


def test_a_change_that_serves_dropped_traffic_in_other_zones_is_a_risk() -> None:
    """Two of three nodes have a Pod, and their clients use it."""
    nodes = nodes_in({"a": 4, "b": 4, "c": 4})
    cluster = Cluster(service=a_service(internal="Local"), nodes=nodes, pods=pods_in({"a": 1, "b": 1}))
    advice = advise_service(input_of(cluster), advised(cluster))
    assert advice is not None
    assert advice.kubernetes is not None
    assert round(advice.kubernetes.after.in_zone, 2) == 0.33
    assert (advice.kubernetes.risk, advice.kubernetes.risk_reason) == ("medium", "less traffic stays in its zone")


def test_a_note_says_that_clients_in_a_mesh_choose_endpoints_themselves() -> None:
    nodes = nodes_in({"a": 4, "b": 4, "c": 4})
    pods = owned(pods_in({"a": 2, "b": 2, "c": 2}), **{"security.istio.io/tlsMode": "istio"})
    cluster = Cluster(service=a_service(), nodes=nodes, pods=pods)
    advice = advise_service(input_of(cluster), advised(cluster))
    assert advice is not None
    assert advice.kubernetes is not None
    note = "clients in the mesh (Istio) choose endpoints themselves: the figures are for all others"
    assert note in advice.kubernetes.steps.notes


def test_advice_that_was_followed_is_not_taken_back() -> None:
    """Auto comes before PreferSameZone, which overloads Pods. Once it is set, it stays."""
    nodes = nodes_in({"a": 45, "b": 30, "c": 25})
    pods = pods_in({"a": 3, "b": 3, "c": 3})
    cluster = Cluster(service=a_service(), nodes=nodes, pods=pods)
    first = advise_service(input_of(cluster), advised(cluster))
    assert first is not None
    assert first.kubernetes is not None
    assert first.kubernetes.about == "topology-mode: Auto"
    assert first.kubernetes.after.in_zone < 0.95
    second = advise_service(input_of(Cluster(service=a_service("Auto"), nodes=nodes, pods=pods)), advised(cluster))
    assert second is not None
    assert second.kubernetes is None or second.kubernetes.kind != "setting"
