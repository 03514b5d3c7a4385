"""Controllers and proxies of different ages: every version-skew case of KEP-4444 and of KEP-3015, under its name.

An old controller is one with the proposal's gate off; an old proxy is one of `CONSUMERS`.
"""

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import CLUSTER, Cluster, endpoints_in, only_family, written

from zoneward.kube.objects import EndpointSlice, Service
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.selection.endpoint_selection import (
    CONSUMERS,
    SelectionRule,
    endpoints_of_port,
    honored_hints,
    select_endpoints,
)

NEW: Final = Configuration()
BEFORE_4444: Final = Configuration(gates=FeatureGates(service_traffic_distribution=False))
BEFORE_3015: Final = Configuration(gates=FeatureGates(prefer_same_traffic_distribution=False))

AUTO: Final = a_service("Auto")
FIELD: Final = a_service(distribution="PreferClose")
BOTH: Final = a_service("Auto", distribution="PreferClose")
SAME_ZONE: Final = a_service(distribution="PreferSameZone")
SAME_NODE: Final = a_service(distribution="PreferSameNode")

NODES: Final = (*nodes_in({"a": 4, "b": 8}), a_node("node-a2", "a"))
PODS: Final = (*pods_in({"a": 2, "b": 1}), a_pod("a2-0000", "node-a2", ips=("10.99.9.9",)))
"""Three Pods in zone a, on two Nodes, and one in zone b. By CPU it is two endpoints each."""

Used = tuple[set[str], SelectionRule]
ALL: Final[Used] = ({"a-0000", "a-0001", "a2-0000", "b-0000"}, SelectionRule.ALL)
ZONE_A: Final[Used] = ({"a-0000", "a-0001", "a2-0000"}, SelectionRule.ZONE_HINTS)
NODE_A: Final[Used] = ({"a-0000", "a-0001"}, SelectionRule.NODE_HINTS)
SHARE_OF_A: Final[Used] = ({"a-0000", "a-0001"}, SelectionRule.ZONE_HINTS)
"""Zone a under ProportionalZoneCPU: its third endpoint serves zone b."""


def a_cluster(service: Service, controller: Configuration) -> Cluster:
    return Cluster(service=service, nodes=NODES, pods=PODS, configuration=controller)


def used_on_node_a(cluster: Cluster, proxy: str) -> Used:
    """The Pods that the proxy on node-a uses, and by which rule, after the controller was there."""
    family = only_family(cluster.plan())
    selection = select_endpoints(
        tuple(endpoints_of_port(family.slices, "http", node="node-a").values()),
        policies=CLUSTER,
        honored=honored_hints(cluster.service, CONSUMERS[proxy], FeatureGates()),
        node="node-a",
        zone="a",
    )
    return {endpoint.target_ref.name for endpoint in selection.cluster or () if endpoint.target_ref}, selection.rule


def slices_of(cluster: Cluster) -> tuple[EndpointSlice, ...]:
    return only_family(cluster.plan()).changes.after


def has_hints(cluster: Cluster) -> bool:
    return any(endpoint.hints for endpoint in endpoints_in(slices_of(cluster)))


OLD_PROXY: Final = "annotation"
"""Until KEP-4444 proxies honored hints only beside the annotation."""
NEW_PROXY: Final = "zone-hints"


KEP_4444: Final[Mapping[str, tuple[Service, Configuration, str, Used]]] = {
    "new kube-controller-manager, old kube-proxy: both are set": (BOTH, NEW, OLD_PROXY, SHARE_OF_A),
    # Hints are there, and the old proxy ignores them, because it sees no annotation.
    "new kube-controller-manager, old kube-proxy: only trafficDistribution is set": (FIELD, NEW, OLD_PROXY, ALL),
    "new kube-controller-manager, old kube-proxy: only topology-mode is set": (AUTO, NEW, OLD_PROXY, SHARE_OF_A),
    "old kube-controller-manager, new kube-proxy: both are set": (BOTH, BEFORE_4444, NEW_PROXY, SHARE_OF_A),
    "old kube-controller-manager, new kube-proxy: only trafficDistribution is set": (
        *(FIELD, BEFORE_4444, NEW_PROXY, ALL),
    ),
    "old kube-controller-manager, new kube-proxy: only topology-mode is set": (
        *(AUTO, BEFORE_4444, NEW_PROXY, SHARE_OF_A),
    ),
}


@pytest.mark.parametrize("case", KEP_4444)
def test_skew_of_kep_4444(case: str) -> None:
    """The annotation wins where both are set, and its hints are those of the old controller."""
    service, controller, proxy, used = KEP_4444[case]
    cluster = a_cluster(service, controller)
    assert used_on_node_a(cluster, proxy) == used
    assert has_hints(cluster) is not (service is FIELD and controller is BEFORE_4444)
    assert service is FIELD or slices_of(cluster) == slices_of(a_cluster(AUTO, BEFORE_4444))


def test_with_a_new_api_server_alone_the_field_is_as_if_it_were_not_there() -> None:
    """KEP-4444: older kube-controller-manager and kube-proxy silently ignore it."""
    assert slices_of(a_cluster(FIELD, BEFORE_4444)) == slices_of(a_cluster(a_service(), BEFORE_4444))
    assert used_on_node_a(a_cluster(FIELD, BEFORE_4444), OLD_PROXY) == ALL


def old_controller_new_values() -> None:
    """The new values are not recognized: no hints, and the conditions say why. The old value still works."""
    for service in (SAME_ZONE, SAME_NODE):
        cluster = a_cluster(service, BEFORE_3015)
        assert not has_hints(cluster)
        assert used_on_node_a(cluster, "current") == ALL
        assert [(condition.status, condition.reason) for condition in cluster.plan().conditions] == [
            ("False", "FeatureGateOff")
        ] * 2
    assert used_on_node_a(a_cluster(FIELD, BEFORE_3015), "current") == ZONE_A


def old_proxy_same_zone() -> None:
    """Its hints are those of PreferClose, which the old proxy knows."""
    cluster = a_cluster(SAME_ZONE, NEW)
    assert used_on_node_a(cluster, "zone-hints") == ZONE_A == used_on_node_a(cluster, "current")
    assert slices_of(cluster) == slices_of(a_cluster(FIELD, NEW))


def old_proxy_same_node() -> None:
    """The old proxy knows no hints for nodes and falls back to those for zones."""
    cluster = a_cluster(SAME_NODE, NEW)
    assert used_on_node_a(cluster, "current") == NODE_A
    assert used_on_node_a(cluster, "zone-hints") == ZONE_A


def upgrade() -> None:
    """Nobody uses the new values yet, so there is nothing to do."""
    for service in (a_service(), AUTO, FIELD, BOTH):
        before = a_cluster(service, BEFORE_3015).settled()
        assert not written(before.with_(configuration=NEW).plan())


def downgrade() -> None:
    """An unrecognized value is like none: hints are removed from the slices, and all endpoints serve everybody."""
    for service in (SAME_ZONE, SAME_NODE):
        downgraded = a_cluster(service, NEW).settled().with_(configuration=BEFORE_3015)
        assert len(only_family(downgraded.plan()).changes.update) == 1
        assert not has_hints(downgraded)
        assert used_on_node_a(downgraded, "current") == ALL


def re_upgrade() -> None:
    """The value is still set, so the hints come back as they were."""
    for service in (SAME_ZONE, SAME_NODE):
        first = a_cluster(service, NEW).settled()
        downgraded = first.with_(configuration=BEFORE_3015).settled()
        assert downgraded.slices != first.slices
        assert slices_of(downgraded.with_(configuration=NEW)) == first.slices


KEP_3015: Final[Mapping[str, Callable[[], None]]] = {
    "old kube-controller-manager": old_controller_new_values,
    "new kube-controller-manager, old kube-proxy: PreferSameZone": old_proxy_same_zone,
    "new kube-controller-manager, old kube-proxy: PreferSameNode": old_proxy_same_node,
    "upgrade": upgrade,
    "downgrade": downgrade,
    "re-upgrade": re_upgrade,
}


@pytest.mark.parametrize("case", KEP_3015)
def test_skew_of_kep_3015(case: str) -> None:
    KEP_3015[case]()
