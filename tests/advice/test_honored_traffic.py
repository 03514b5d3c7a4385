"""Nodes that do not do what the slices in force say are named, and no others."""

import dataclasses
from typing import Final

import pytest
from tests.builders.structs import a_service, a_slice, an_endpoint, hints, nodes_in
from tests.clusters import cluster_state

from zoneward.advice.honored_traffic import LEAST_CONNECTIONS, NodeTraffic, node_traffic
from zoneward.advice.node_proxies import PROXY_KINDS
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.slices.cluster_state import ClusterState

NODES: Final = nodes_in({"a": 4, "b": 4, "c": 4})
ZONES: Final = {node.metadata.name: (node.metadata.labels or {})["topology.kubernetes.io/zone"] for node in NODES}
IN_A: Final = next(name for name, zone in ZONES.items() if zone == "a")
HINTED: Final = a_slice(
    "cart-1",
    *(an_endpoint(f"10.0.0.{index}", zone, hinted=hints(zone)) for index, zone in enumerate("abbc", start=1)),
)
PLAIN: Final = a_slice("cart-1", *(an_endpoint(f"10.0.0.{index}", zone) for index, zone in enumerate("abbc", start=1)))
STATE: Final = dataclasses.replace(cluster_state(NODES), consumer=PROXY_KINDS["kube-proxy-1.37"].consumer)


def only(
    to: dict[str, int],
    *,
    slices: tuple[EndpointSlice, ...] = (HINTED,),
    service: Service | None = None,
    state: ClusterState = STATE,
    node: str = IN_A,
) -> NodeTraffic:
    (node_traffic_,) = node_traffic(
        service or a_service(), "IPv4", {node: to}, zone_of=ZONES, slices=slices, cluster_state=state
    )
    return node_traffic_


def test_node_that_ignores_hints_deviates() -> None:
    node_traffic_ = only({"a": 25, "b": 50, "c": 25})
    assert (node_traffic_.in_zone, node_traffic_.predicted_in_zone, node_traffic_.deviates) == (0.25, 1.0, "a")
    ignoring = dataclasses.replace(STATE, consumer_by_node={IN_A: PROXY_KINDS["no-hints"].consumer})
    assert only({"a": 25, "b": 50, "c": 25}, state=ignoring).deviates is None


def test_node_with_too_much_traffic_for_a_zone_deviates() -> None:
    assert only({"a": 1000}, slices=(PLAIN,)).deviates == "a"
    assert only({"a": 250, "b": 250, "c": 500}, slices=(PLAIN,)).deviates in ("b", "c")
    assert only({"a": 250, "": 500, "c": 250}, slices=(PLAIN,)).deviates in ("b", "")


@pytest.mark.parametrize(
    ("to", "deviates"),
    [
        ({"a": 200, "b": 120, "c": 80}, "a"),
        # 4 standard errors of 25 % of 400 are 8.7 points, the tolerance is 5.
        ({"a": 130, "b": 180, "c": 90}, None),
        ({"a": 28_000, "b": 44_000, "c": 28_000}, "b"),
        ({"a": 26_000, "b": 46_000, "c": 28_000}, None),
        ({"b": LEAST_CONNECTIONS - 1}, None),
    ],
)
def test_random_variation_is_no_deviation(to: dict[str, int], deviates: str | None) -> None:
    assert only(to, slices=(PLAIN,)).deviates == deviates


def test_small_difference_is_a_rollout() -> None:
    assert only({"a": 9_600, "b": 400}).deviates is None
    assert only({"a": 9_400, "b": 600}).deviates == "a"


def test_session_affinity_is_not_judged() -> None:
    sticky = a_service(session_affinity="ClientIP")
    assert only({"a": 1000}, slices=(PLAIN,), service=sticky).deviates is None


def test_no_prediction_without_slices() -> None:
    node_traffic_ = only({"b": 1000}, slices=())
    assert (node_traffic_.predicted, node_traffic_.predicted_in_zone, node_traffic_.deviates) == (None, None, None)
    assert node_traffic(a_service(), "IPv4", {IN_A: {}}, zone_of=ZONES, slices=(PLAIN,), cluster_state=STATE) == ()


def test_node_without_zone_has_no_share() -> None:
    node_traffic_ = only({"a": 250, "b": 500, "c": 250}, node="elsewhere", slices=(PLAIN,))
    assert (node_traffic_.zone, node_traffic_.in_zone, node_traffic_.predicted_in_zone, node_traffic_.deviates) == (
        "",
        None,
        None,
        None,
    )
