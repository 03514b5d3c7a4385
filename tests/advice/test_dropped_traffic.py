"""What proxies drop, in numbers that follow from the nodes, and why."""

import pytest
from msgspec.structs import replace
from tests.advice.inputs import input_of
from tests.builders.structs import a_node, a_service, a_slice, an_endpoint, nodes_in, pods_in, with_port
from tests.clusters import Cluster

from zoneward.advice.dropped_traffic import DroppedTraffic, dropped_traffic, format_dropped
from zoneward.advice.explanation import explain_service
from zoneward.advice.fixes import find_fixes
from zoneward.advice.node_proxies import PROXY_KINDS, same_proxy_everywhere
from zoneward.kube.objects import EndpointPort, Node, Pod, Service, ServicePort

ZONES = "abcdefghij"
NODES = nodes_in(dict.fromkeys(ZONES, 4))
"""Ten zones of one size: ten times 0.1 is not 1."""


def dropped(cluster: Cluster) -> DroppedTraffic | None:
    (family,) = cluster.plan().families
    return dropped_traffic(family.service, family.slices, family.traffic, family.cluster_state.demand)


def with_target(*names: str) -> Service:
    return a_service(
        ports=[ServicePort(name=name, port=80 + index, target_port=name) for index, name in enumerate(names)]
    )


def test_local_policy_drops_traffic_of_nodes_without_pod() -> None:
    """Pods on 3 of 10 nodes of one size."""
    loss = dropped(Cluster(service=a_service(internal="Local"), nodes=NODES, pods=pods_in({"a": 2, "b": 1, "c": 1})))
    assert loss is not None
    assert loss.share == pytest.approx(0.7)
    assert loss.reason == "internalTrafficPolicy is Local, and 7 of 10 nodes have no ready endpoint"
    assert loss.what == "70% of its traffic"


def test_local_policy_with_a_pod_on_every_node_drops_nothing() -> None:
    pods = pods_in(dict.fromkeys(ZONES, 1))
    assert dropped(Cluster(service=a_service(internal="Local"), nodes=NODES, pods=pods)) is None


@pytest.mark.parametrize(
    ("pods", "reason", "is_empty"),
    [
        pytest.param((), "no endpoint", True, id="no pods"),
        pytest.param(pods_in({"a": 1}), "its only endpoint is not ready", False, id="one that is not ready"),
        pytest.param(pods_in({"a": 3}), "none of its 3 endpoints is ready", False, id="some that are not ready"),
    ],
)
@pytest.mark.parametrize("nodes", [NODES, (a_node(ready=False),)], ids=["nodes", "no ready node"])
def test_all_traffic_is_dropped_without_a_ready_endpoint(
    pods: tuple[Pod, ...], reason: str, is_empty: bool, nodes: tuple[Node, ...]
) -> None:
    """Exactly all, although sums of floats differ; also without any demand."""
    waiting = tuple(replace(pod, status=replace(pod.status, conditions=())) for pod in pods)
    cluster = Cluster(service=a_service("Auto"), nodes=nodes, pods=waiting)
    loss = dropped(cluster)
    assert loss is not None
    assert (loss.share, loss.what) == (1.0, "all of its traffic")
    assert (loss.reason, loss.is_empty) == (reason, is_empty)


def test_reason_is_a_target_port_without_container() -> None:
    pods = pods_in(dict.fromkeys(ZONES, 1))
    loss = dropped(Cluster(service=with_target("web"), nodes=NODES, pods=with_port(pods, "http")))
    assert loss is not None
    assert (loss.share, loss.reason) == (1.0, "no container port is called 'web'")


def test_unserved_port_is_named() -> None:
    pods = pods_in(dict.fromkeys(ZONES, 1))
    loss = dropped(Cluster(service=with_target("http", "metrics"), nodes=NODES, pods=with_port(pods, "http")))
    assert loss is not None
    assert (loss.share, loss.ports) == (0.0, ("metrics",))
    assert (loss.what, loss.reason) == ("all traffic to port metrics", "no container port is called 'metrics'")


def test_port_with_one_serving_pod_drops_nothing() -> None:
    old, new = with_port(pods_in({"a": 2}), "http"), with_port(pods_in({"b": 2}), "web")
    assert dropped(Cluster(service=with_target("http"), nodes=NODES, pods=(*old, *new))) is None


def test_serving_terminating_endpoints_drop_nothing() -> None:
    leaving = an_endpoint(node="node-a", ready=False, serving=True, terminating=True)
    cluster = Cluster(service=a_service(selects=False), nodes=NODES, slices=(a_slice("x", leaving, owner=None),))
    assert dropped(cluster) is None


def test_headless_service_drops_nothing() -> None:
    assert dropped(Cluster(service=a_service(cluster_ip="None"), nodes=NODES)) is None


@pytest.mark.parametrize(
    ("share", "text"), [(0.001, "<1%"), (0.01, "1%"), (0.9, "90%"), (0.999, ">99%"), (1.0, "100%"), (0.0, "0%")]
)
def test_nearly_all_is_not_shown_as_all(share: float, text: str) -> None:
    assert format_dropped(share) == text


def test_fix_for_local_is_the_cluster_policy() -> None:
    cluster = Cluster(service=a_service(internal="Local"), nodes=NODES, pods=pods_in({"a": 1}))
    (fix,) = find_fixes(input_of(cluster), "IPv4")
    assert fix.change.service_patch == {"spec": {"internalTrafficPolicy": "Cluster"}}
    assert fix.needs == ()
    assert fix.family.traffic is not None
    assert fix.family.traffic.dropped == 0


def test_dropped_now_comes_before_dropped_in_the_plan() -> None:
    """The slice lists a pod that is not ready any more; all of them would be served by what is planned."""
    stale = a_slice("cart-1", an_endpoint(ready=False), ports=[EndpointPort(name="http", protocol="TCP", port=8080)])
    cluster = Cluster(service=a_service(), nodes=NODES, pods=pods_in({"a": 1}), slices=(stale,))
    proxies = same_proxy_everywhere(cluster.nodes, PROXY_KINDS["kube-proxy-1.34"])
    (family,) = explain_service(input_of(cluster), node_proxies=proxies).families
    assert family.planned.dropped is None
    assert family.dropped is not None
    assert family.dropped.reason == "its only endpoint is not ready"
    assert family.dropped.fix.startswith("With slices as planned nothing is dropped")


def test_reason_of_an_empty_slice_comes_from_the_plan() -> None:
    empty = a_slice("cart-1")
    pods = with_port(pods_in({"a": 1}), "http")
    cluster = Cluster(service=with_target("web"), nodes=NODES, pods=pods, slices=(empty,))
    proxies = same_proxy_everywhere(cluster.nodes, PROXY_KINDS["kube-proxy-1.34"])
    (family,) = explain_service(input_of(cluster), node_proxies=proxies).families
    assert family.now is not None
    assert family.now.dropped is not None
    assert family.now.dropped.is_empty
    assert family.dropped is not None
    assert family.dropped.reason == "no container port is called 'web'"
