"""Changed clusters: what is added, what is removed, and that the decision follows."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import DUAL_STACK, a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import cluster_state, rounded, slices_after
from tests.properties.random_clusters import examples

from zoneward.advice.changed_cluster import (
    ADDED_UID,
    ImpossibleChange,
    ServicePods,
    SliceReplicas,
    nodes_in_zone,
    without_endpoints_on,
    without_nodes,
)
from zoneward.kube.names import NODE_EXCLUDED_LABELS
from zoneward.kube.objects import ContainerPort, EndpointSlice, Node, Pod, Service, ServicePort, identity
from zoneward.slices.plan import ServicePlan, plan_service

ZONES = ("a", "b", "c")
NODES = nodes_in({"a": 4, "b": 4, "c": 4})
_counts = st.fixed_dictionaries({zone: st.integers(0, 5) for zone in ZONES})
_settings = st.sampled_from(("Auto", "PreferZone", None))


def _by_zone(pods: tuple[Pod, ...]) -> dict[str, int]:
    return dict(Counter(pod.spec.node_name.removeprefix("node-") for pod in pods))


def _plan(service: Service, pods: tuple[Pod, ...], nodes: tuple[Node, ...] = NODES) -> ServicePlan:
    return plan_service(service, pods=pods, slices=(), cluster_state=cluster_state(nodes))


def _from_slices(service: Service, slices: tuple[EndpointSlice, ...]) -> ServicePlan:
    return plan_service(service, pods=(), slices=slices, cluster_state=cluster_state(NODES, pods_known=False))


def _answers(plan: ServicePlan) -> list[object]:
    """What is decided and predicted, without the names and the order of slices and Pods."""
    return [
        (
            family.decision.active,
            family.decision.reason,
            family.decision.endpoints,
            family.decision.allocation,
            family.traffic and rounded(family.traffic),
        )
        for family in plan.families
    ]


# --- replicas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("present", "replicas", "changes"),
    [
        ({"a": 2, "b": 2, "c": 2}, 7, {"a": 1}),
        ({"a": 2, "b": 2, "c": 2}, 5, {"a": -1}),
        ({"a": 3, "b": 1}, 7, {"b": 1, "c": 2}),
        ({"a": 3, "b": 1}, 1, {"a": -3}),
        ({"a": 3, "b": 1}, 0, {"a": -3, "b": -1}),
        ({"c": 3, "b": 3}, 6, {}),
    ],
)
def test_replicas_are_added_and_removed_evenly(
    present: Mapping[str, int], replicas: int, changes: Mapping[str, int]
) -> None:
    assert ServicePods(a_service(), pods_in(present), nodes=NODES).changes_to(replicas) == changes


@examples(40)
@given(_counts.filter(lambda counts: any(counts.values())), st.integers(0, 20))
def test_change_reaches_the_number_of_replicas(counts: dict[str, int], replicas: int) -> None:
    pods = ServicePods(a_service(), pods_in(counts), nodes=NODES)
    changed = pods.changed(pods.changes_to(replicas))
    assert len(changed) == replicas
    numbers = Counter(dict.fromkeys(ZONES, 0) | _by_zone(changed))
    if replicas > sum(counts.values()):
        grown = [zone for zone in ZONES if numbers[zone] > counts[zone]]
        assert all(numbers[zone] <= min(numbers.values()) + 1 for zone in grown)


def test_finished_and_terminating_pods_are_no_replicas() -> None:
    pods = (a_pod("done", phase="Succeeded"), a_pod("leaving", terminating=True), a_pod("here"))
    replicas = ServicePods(a_service(), pods, nodes=NODES)
    assert replicas.by_zone == {"a": 1}
    assert [pod.metadata.name for pod in replicas.changed(replicas.changes_to(0))] == ["done", "leaving"]


def test_unready_pods_are_removed_first() -> None:
    pods = (a_pod("x"), a_pod("y", ready=False), a_pod("z"))
    assert [pod.metadata.name for pod in ServicePods(a_service(), pods, nodes=NODES).changed({"a": -1})] == ["x", "z"]
    assert [pod.metadata.name for pod in ServicePods(a_service(), pods, nodes=NODES).changed({"a": -2})] == ["x"]


# --- Pods -------------------------------------------------------------------------------------------------------------


def test_added_pod_is_a_ready_copy_with_new_name_and_addresses() -> None:
    ports = (ContainerPort(name="web", container_port=8123),)
    pods = (
        a_pod("x", ips=("10.0.0.1", "fd00::1"), ports=ports, ready=False, hostname="x"),
        a_pod("cart-added-1", ips=("240.0.0.1", "fd00::2"), ports=ports, ready=False, hostname="y"),
    )
    first, second = ServicePods(a_service(), pods, nodes=NODES).changed({"b": 2})[2:]
    assert [first.metadata.name, second.metadata.name] == ["cart-added-2", "cart-added-3"]
    assert [address.ip for address in first.status.pod_ips or ()] == ["240.0.0.2", "2001:db8::1"]
    assert (first.spec.node_name, first.spec.hostname) == ("node-b", "cart-added-2")
    service = a_service(ports=(ServicePort(name="http", port=80, target_port="web"),), families=DUAL_STACK)
    plan = _plan(service, (*pods, first, second))
    assert [family.decision.endpoints for family in plan.families] == [2, 2]
    assert {port.port for slice_ in slices_after(plan) for port in slice_.ports or ()} == {8123}


def test_added_pods_are_spread_over_ready_nodes() -> None:
    excluded = dict.fromkeys(NODE_EXCLUDED_LABELS, "")
    nodes = (
        a_node("a1"),
        a_node("a2"),
        a_node("a3", ready=False),
        a_node("a4", labels=excluded),
        a_node("b1", "b", labels=excluded),
    )
    added = ServicePods(a_service(), (a_pod("x", "a1"),), nodes=nodes).changed({"a": 4})[1:]
    assert [pod.spec.node_name for pod in added] == ["a2", "a1", "a2", "a1"]
    assert ServicePods(a_service(), (a_pod("x", "a1"),), nodes=nodes).changed({"b": 1})[1].spec.node_name == "b1"


@pytest.mark.parametrize(
    ("pods", "changes", "message"),
    [
        (pods_in({"a": 1}), {"d": 1}, r"expected a zone with a ready Node \(a, b, c\), got 'd'"),
        (pods_in({"a": 1}), {"a": -2}, "expected at most 1 Pods to remove in zone a, got 2"),
        (pods_in({"a": 1}), {"b": -1}, "expected at most 0 Pods to remove in zone b, got 1"),
        ((), {"b": 1}, "expected a Pod to copy, found none"),
    ],
)
def test_impossible_change_has_a_reason(pods: tuple[Pod, ...], changes: Mapping[str, int], message: str) -> None:
    with pytest.raises(ImpossibleChange, match=message):
        ServicePods(a_service(), pods, nodes=NODES).changed(changes)


def test_no_replica_without_a_ready_node() -> None:
    pods = ServicePods(a_service(), pods_in({"a": 1}), nodes=(a_node("node-a", ready=False),))
    with pytest.raises(ImpossibleChange, match="expected a ready Node in a zone for more Pods, found none"):
        pods.changes_to(2)


@examples(40)
@given(_counts, _settings, st.sampled_from(ZONES), st.integers(1, 6), st.sets(st.integers(0, 14)))
def test_adding_and_removing_pods_is_a_no_op(
    counts: dict[str, int], mode: str | None, zone: str, count: int, not_ready: set[int]
) -> None:
    every = pods_in({"a": 1} | {zone: count for zone, count in counts.items() if count})
    pods = tuple(
        a_pod(pod.metadata.name, pod.spec.node_name, ips=(pod.status.pod_ip,), ready=rank not in not_ready)
        for rank, pod in enumerate(every)
    )
    more = ServicePods(a_service(mode), pods, nodes=NODES).changed({zone: count})
    assert len(more) == len(pods) + count
    assert more[: len(pods)] == pods
    assert ServicePods(a_service(mode), more, nodes=NODES).changed({zone: -count}) == pods


@examples(40)
@given(_counts, _settings, st.sampled_from(ZONES), st.integers(1, 4))
def test_added_pods_decide_like_real_ones(counts: dict[str, int], mode: str | None, zone: str, count: int) -> None:
    counts = counts | {zone: counts[zone] + 1}
    changed = ServicePods(a_service(mode), pods_in(counts), nodes=NODES).changed({zone: count})
    real = pods_in(counts | {zone: counts[zone] + count})
    assert _answers(_plan(a_service(mode), changed)) == _answers(_plan(a_service(mode), real))


# --- without Nodes ----------------------------------------------------------------------------------------------------


def test_removing_a_zone_removes_its_nodes_and_pods() -> None:
    nodes = (*NODES, a_node("more-a", "a"), a_node("nowhere", None))
    pods = (*pods_in({"a": 2, "b": 1}), a_pod("x", "more-a"), a_pod("y", "nowhere"), a_pod("z", "unknown"))
    nodes_left, left = without_nodes(nodes, pods, nodes_in_zone(nodes, "a"))
    assert [node.metadata.name for node in nodes_left] == ["node-b", "node-c", "nowhere"]
    assert [pod.metadata.name for pod in left] == ["b-0000", "y", "z"]


# --- slices alone -----------------------------------------------------------------------------------------------------


@examples(40)
@given(
    _counts.filter(lambda counts: any(counts.values())),
    _settings,
    st.fixed_dictionaries({}, optional={zone: st.integers(-3, 3) for zone in ZONES}),
)
def test_decision_from_slices_equals_decision_from_pods(
    counts: dict[str, int], mode: str | None, wanted: dict[str, int]
) -> None:
    changes = {zone: max(change, -counts[zone]) for zone, change in wanted.items()}
    # The slices were written for another approach, so that only endpoints are taken from them.
    slices = slices_after(_plan(a_service(), pods_in(counts)))
    from_slices = SliceReplicas(a_service(), slices, address_type="IPv4", nodes=NODES).changed(changes)
    from_pods = ServicePods(a_service(), pods_in(counts), nodes=NODES).changed(changes)
    service = a_service(mode)
    assert _answers(_from_slices(service, from_slices)) == _answers(_plan(service, from_pods))
    assert {identity(endpoint)[2] for slice_ in from_slices for endpoint in slice_.endpoints or ()} == {
        pod.metadata.name for pod in from_pods
    }


def test_unchanged_slices_stay_the_same_objects() -> None:
    slices = slices_after(_plan(a_service(families=DUAL_STACK), pods_in({"a": 2, "b": 1}, dual_stack=True)))
    replicas = SliceReplicas(a_service(), slices, address_type="IPv6", nodes=NODES)
    assert all(new is old for new, old in zip(replicas.changed({}), slices, strict=True))
    changed = replicas.changed({"c": 1})
    assert [new is old for new, old in zip(changed, slices, strict=True)] == [
        slice_.address_type == "IPv4" for slice_ in slices
    ]
    added = [endpoint for slice_ in changed for endpoint in slice_.endpoints or () if endpoint.zone == "c"]
    assert [(endpoint.addresses, endpoint.node_name) for endpoint in added] == [(("2001:db8::1",), "node-c")]
    assert added[0].target_ref is not None
    assert added[0].target_ref.uid == ADDED_UID


def test_without_nodes_zones_come_from_endpoints() -> None:
    slices = slices_after(_plan(a_service(), pods_in({"a": 2, "b": 1})))
    replicas = SliceReplicas(a_service(), slices, address_type="IPv4", nodes=())
    assert replicas.zones == ("a", "b")
    assert replicas.changes_to(5) == {"a": 1, "b": 1}


def test_endpoints_on_removed_nodes_leave_their_slices() -> None:
    slices = slices_after(_plan(a_service(), pods_in({"a": 2, "b": 1, "c": 1})))
    left = without_endpoints_on(slices, nodes={"node-a"}, zones={"b"})
    assert [endpoint.zone for slice_ in left for endpoint in slice_.endpoints or ()] == ["c"]
    assert without_endpoints_on(left, nodes={"node-a"}) == left


def test_added_names_are_unused() -> None:
    pods = ServicePods(a_service(), pods_in({"a": 1}), nodes=NODES, taken={"cart-added-1", "240.0.0.1"})
    added = pods.changed({"a": 1})[1]
    assert (added.metadata.name, added.status.pod_ip) == ("cart-added-2", "240.0.0.2")
    assert replace(added.metadata, name="a-0000", uid="uid-of-a-0000") == pods_in({"a": 1})[0].metadata
