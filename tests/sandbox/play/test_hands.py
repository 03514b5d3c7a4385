"""What others do to a played cluster is taken as it is, and the play goes on from there."""

from tests.sandbox.play.a_world import (
    CART,
    World,
    a_play,
    a_workload,
    cluster_of,
    moments,
    nodes,
)

from zoneward.sandbox.durations import Span
from zoneward.sandbox.play.actions import Bind, Create, Delete
from zoneward.sandbox.play.play_model import (
    AddNodes,
    Play,
    Scale,
)
from zoneward.sandbox.play.played_cluster import PlayedCluster


def after(play: Play, *, until: float) -> tuple[PlayedCluster, World]:
    cluster, world = cluster_of(play), World()
    for _, actions in moments(cluster, until=until):
        world.take(actions)
    return cluster, world


def go_on(cluster: PlayedCluster, world: World, *, until: float) -> None:
    world.take(cluster.advance(0))
    for _, actions in moments(cluster, until=until):
        world.take(actions)


def test_a_pod_that_somebody_deletes_is_replaced_and_ended_by_its_kubelet() -> None:
    cluster, world = after(a_play(), until=15)
    pod = world.pods()[0]
    name = pod["metadata"]["name"]
    pod["metadata"]["deletionTimestamp"] = "now"
    cluster.observe("Pod", "shop", name, pod)
    go_on(cluster, world, until=40)
    assert ("Pod", "shop", name) not in world.objects
    assert len(world.ready_pods()) == 9


def test_a_node_that_somebody_cordons_takes_no_more_pods() -> None:
    cluster, world = after(a_play(Scale(workload=CART, replicas=30)), until=15)
    for name in ("a-1", "a-2"):
        cluster.observe("Node", "", name, {"spec": {"unschedulable": True}})
    go_on(cluster, world, until=40)
    assert world.zones()["a"] == 3
    assert len(world.ready_pods()) == 30


def test_a_node_that_somebody_deletes_takes_its_pods_with_it() -> None:
    cluster, world = after(a_play(), until=15)
    for name in ("a-1", "a-2"):
        del world.objects["Node", "", name]
        cluster.observe("Node", "", name, None)
    go_on(cluster, world, until=40)
    assert world.zones() == {"b": 5, "c": 4}
    assert len(world.ready_pods()) == len(world.of("Pod")) == 9


def test_a_pod_that_the_server_refuses_is_tried_again_under_another_name_after_a_while() -> None:
    cluster = cluster_of(a_play(workloads=(a_workload(replicas=1),)))
    first = [each for each in cluster.advance(0) if isinstance(each, Create) and each.kind == "Pod"]
    cluster.refused(first[0])
    assert not [each for each in cluster.advance(0.9) if isinstance(each, Create)]
    second = [each for each in cluster.advance(1) if isinstance(each, Create) and each.kind == "Pod"]
    assert len(first) == len(second) == 1
    assert first[0].name != second[0].name


def test_while_pods_are_refused_nothing_else_makes_more() -> None:
    cluster = cluster_of(a_play(workloads=(a_workload(replicas=2, startup=Span(0.5, 0.5)),)))
    first, _ = (each for each in cluster.advance(0) if isinstance(each, Create) and each.kind == "Pod")
    cluster.refused(first)
    assert "Pod" not in [each.kind for each in cluster.advance(0.9) if isinstance(each, Create)]
    assert "Pod" in [each.kind for each in cluster.advance(1) if isinstance(each, Create)]


def test_a_pod_that_cannot_be_bound_makes_room_for_one_that_is_born_with_its_node() -> None:
    play = a_play(AddNodes(group=nodes(1)[0]), nodes=(), workloads=(a_workload(replicas=1),))
    cluster, world = after(play, until=19)
    (bind,) = (each for each in cluster.advance(20) if isinstance(each, Bind))
    assert bind.node == "a-1"
    cluster.refused(bind)
    deleted, created = (
        each for each in cluster.advance(20) if isinstance(each, Create | Delete) and each.kind == "Pod"
    )
    assert deleted == Delete(kind="Pod", namespace="shop", name=bind.name, grace=0)
    assert isinstance(created, Create)
    assert created.thing["spec"]["nodeName"] == "a-1"
    assert len(world.pods()) == 1
