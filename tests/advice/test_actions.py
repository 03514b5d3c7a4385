"""The advice for one Service, beside `tests.properties.test_actions`, which holds for random clusters."""

from tests.advice.inputs import input_of
from tests.builders.structs import a_node, a_service, pods_in
from tests.clusters import Cluster

from zoneward.advice.actions import AdvisedCluster, advise_service
from zoneward.advice.node_proxies import PROXY_KINDS, same_proxy_everywhere
from zoneward.routing.configuration import Configuration, DemandSettings


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
    advice = advise_service(input_of(cluster), AdvisedCluster(same_proxy_everywhere(nodes, PROXY_KINDS["current"]), 37))
    assert advice is not None
    assert advice.kubernetes is not None
    assert advice.kubernetes.kind == "label-node"
    assert round(advice.kubernetes.after.in_zone, 4) == round(10 / 11, 4)
