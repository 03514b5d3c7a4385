"""What holds for one Service holds for others that are alike, to the last digit."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster
from tests.properties.random_clusters import clusters, examples

from zoneward.kube import names
from zoneward.kube.objects import Pod
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.selection.endpoint_selection import CURRENT, ZONEWARD, Consumer
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.comparison import ServiceComparison, compare_service
from zoneward.slices.comparison_memo import ComparisonMemo


def compare(cluster: Cluster, state: ClusterState, memo: ComparisonMemo | None = None) -> tuple[ServiceComparison, ...]:
    return compare_service(cluster.service, pods=cluster.pods, slices=cluster.slices, cluster_state=state, memo=memo)


def placed_like(pods: Sequence[Pod], others: Sequence[Pod]) -> tuple[Pod, ...]:
    """Pods with their own names and addresses, in the places and states of others."""
    return tuple(
        replace(
            other,
            metadata=replace(pod.metadata, deletion_timestamp=other.metadata.deletion_timestamp),
            status=replace(other.status, pod_ip=pod.status.pod_ip, pod_ips=pod.status.pod_ips),
        )
        for pod, other in zip(pods, others, strict=True)
    )


def renamed(cluster: Cluster, pods: Sequence[Pod]) -> Cluster:
    """The same under another name, with the places of its pods exchanged."""
    service = cluster.service
    annotations = {**(service.metadata.annotations or {}), "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    metadata = replace(service.metadata, name="other", uid="uid-of-other", annotations=annotations)
    return cluster.with_(service=replace(service, metadata=metadata), pods=placed_like(cluster.pods, pods))


@st.composite
def some_in_one_cluster(draw: st.DrawFn) -> tuple[Cluster, ...]:
    """Services in the same cluster: one, the same under another name, and another one."""
    tidy = draw(st.booleans())
    one = draw(clusters(others=False, tidy=tidy))
    other = draw(clusters(others=False, tidy=tidy)).with_(nodes=one.nodes, configuration=one.configuration)
    in_its_place = one.with_(pods=other.pods, slices=other.slices)
    return one, renamed(one, draw(st.permutations(one.pods))), other, in_its_place, on_other_nodes(one)


def on_other_nodes(cluster: Cluster) -> Cluster:
    """The same with its pods on the last node of the same zone for the first, and so on."""
    zones = cluster.cluster_state.node_zones
    alike: dict[str | None, list[str]] = {}
    for node, zone in zones.items():
        alike.setdefault(zone, []).append(node)
    other = {node: last for nodes in alike.values() for node, last in zip(nodes, reversed(nodes), strict=True)}
    return cluster.with_(
        pods=tuple(
            replace(pod, spec=replace(pod.spec, node_name=other.get(pod.spec.node_name, pod.spec.node_name)))
            for pod in cluster.pods
        )
    )


@given(services=some_in_one_cluster(), consumer=st.sampled_from((CURRENT, ZONEWARD)))
@examples(25)
def test_a_memo_changes_no_number_of_any_service(services: tuple[Cluster, ...], consumer: Consumer) -> None:
    state = services[0].cluster_state
    state = ClusterState(state.demand, state.node_zones, state.configuration, consumer=consumer)
    memo = ComparisonMemo(state)
    for each in services:
        assert compare(each, state, memo) == compare(each, state)


def a_cluster(**pods: int) -> Cluster:
    return Cluster(service=a_service(), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in(pods))


def computed_anew(one: Cluster, other: Cluster) -> set[str]:
    """The approaches that are not taken over from one Service to another one in the same cluster."""
    state = one.cluster_state
    memo = ComparisonMemo(state)
    (first,) = compare(one, state, memo)
    (second,) = compare(other, state, memo)
    pairs = zip((first.requested, *first.candidates), (second.requested, *second.candidates), strict=True)
    return {each.approach for each, other in pairs if each is not other}


def test_services_that_are_alike_are_computed_once() -> None:
    one = a_cluster(a=5, b=4, c=3)
    assert computed_anew(one, renamed(one, one.pods[::-1])) == set()


def on_nodes(*nodes: str, unready: str = "node-c") -> tuple[Pod, ...]:
    """Ready pods on some nodes, and one on another that is not ready."""
    return tuple(
        a_pod(f"pod-{number}", node, ips=(f"10.0.0.{number + 1}",), ready=number < len(nodes))
        for number, node in enumerate((*nodes, unready))
    )


def test_where_pods_are_ready_only_hints_for_nodes_ask_which_nodes_of_the_zone_have_them() -> None:
    nodes = (*nodes_in({"a": 4, "b": 4, "c": 4}), a_node("other", "a", cpu=4), a_node("small", "a", cpu=2))
    one = Cluster(service=a_service(), nodes=nodes, pods=on_nodes("node-a", "node-a", "node-b"))
    for pods, anew in (
        (on_nodes("other", "other", "node-b"), set()),
        (on_nodes("node-a", "other", "node-b"), {names.PREFER_SAME_NODE}),
        (on_nodes("small", "small", "node-b"), {names.PREFER_SAME_NODE}),
    ):
        assert computed_anew(one, one.with_(pods=pods)) == anew


def test_where_pods_are_not_ready_only_slice_groups_ask_for_their_zone() -> None:
    one = Cluster(service=a_service(), nodes=a_cluster().nodes, pods=on_nodes("node-a", "node-b", "node-c"))
    other = one.with_(pods=on_nodes("node-a", "node-b", "node-c", unready="node-a"))
    in_groups = {name for name, heuristic in HEURISTICS.items() if heuristic.subsets}
    assert computed_anew(one, other) == {"", *in_groups}


@pytest.mark.parametrize(
    "change",
    [
        {"internal": "Local"},
        {"cluster_ip": names.HEADLESS},
        {"external": "Local", "type_": "LoadBalancer"},
        {"labels": {names.PROXY_NAME_LABEL: "mine"}},
        {"keys": ("*",)},
    ],
    ids=str,
)
def test_settings_that_count_with_every_approach_make_another_service(change: dict[str, object]) -> None:
    one = a_cluster(a=5, b=4, c=3)
    state = one.cluster_state
    memo = ComparisonMemo(state)
    (first,) = compare(one, state, memo)
    (second,) = compare(one.with_(service=a_service(**change)), state, memo)  # type: ignore[arg-type]
    assert not any(each is other for each, other in zip(first.candidates, second.candidates, strict=True))


def test_a_service_with_demand_of_its_own_shares_nothing() -> None:
    one = a_cluster(a=5, b=4, c=3)
    state = one.cluster_state
    memo = ComparisonMemo(state)
    (first,) = compare(one, state, memo)
    service = replace(
        one.service, metadata=replace(one.service.metadata, annotations={names.DEMAND_ANNOTATION: "a=90,b=5,c=5"})
    )
    (second,) = compare(one.with_(service=service), state, memo)
    assert second.candidates[0].traffic != first.candidates[0].traffic
