"""A played cluster does what its play says, as a real one would do it."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sandbox.play.a_world import (
    CART,
    World,
    a_play,
    a_workload,
    cluster_of,
    condition,
    is_ready,
    moments,
    nodes,
    played,
)

from zoneward.sandbox.play.play_file import (
    Flap,
    NodeSelection,
    Outage,
    RollingUpdate,
    RollOut,
    Scale,
    Step,
    WorkloadService,
)
from zoneward.sandbox.play.timeline import Create, Delete

ROLLOUT: dict[str, Any] = {"rollout": RollOut(workload=CART)}


def templates(world: World) -> Counter[str]:
    return Counter(pod["metadata"]["labels"]["pod-template-hash"] for pod in world.pods())


def scale(replicas: int) -> dict[str, Any]:
    return {"scale": Scale(workload=CART, replicas=replicas)}


def outage(**fields: Any) -> dict[str, Any]:
    """Of zone a."""
    return {"outage": Outage(**{"zone": "a", **fields})}


# --- how pods come and go ---------------------------------------------------------------------------------------------


def test_pods_start_and_end_as_with_a_kubelet() -> None:
    workload = a_workload(replicas=1, startup="8s", termination="10s")
    world = World()
    seen: list[tuple[float, str | None, bool, bool]] = []
    for now, actions in moments(cluster_of(a_play(scale(0), workloads=(workload,))), until=60):
        world.take(actions)
        seen.extend(
            (now, pod.get("status", {}).get("phase"), "podIP" in pod.get("status", {}), is_ready(pod))
            for pod in world.of("Pod")
        )
    assert seen == [
        (0, None, False, False),
        (4, "Running", True, False),
        (8, "Running", True, True),
        (20, "Running", True, True),
        (26, "Succeeded", True, False),
    ]


def test_namespace_and_service_are_created_before_the_pods() -> None:
    service = WorkloadService(annotations={"a": "b"}, traffic_distribution="PreferSameZone")
    play = a_play(workloads=(a_workload(service=service), a_workload("other")))
    namespace, made, node = cluster_of(play).timeline.run(0)[:3]
    assert isinstance(namespace, Create)
    assert isinstance(made, Create)
    assert isinstance(node, Create)
    assert [namespace.key, made.key, node.key[0]] == [("Namespace", "", "shop"), ("Service", "shop", "cart"), "Node"]
    assert made.path == "workloads[0].service"
    assert made.obj["metadata"]["annotations"] == {"a": "b"}
    assert made.obj["spec"]["trafficDistribution"] == "PreferSameZone"
    assert made.obj["spec"]["selector"] == {"app": "cart"}


# --- where pods go ----------------------------------------------------------------------------------------------------


def test_a_rollout_ends_spread_evenly() -> None:
    failed = outage(duration=30, noticed_after=5, evicted_after=5)
    assert played(a_play(failed), until=100).zones() == {"b": 5, "c": 4}
    assert played(a_play(failed, scale(9), scale(9), ROLLOUT)).zones() == {"a": 3, "b": 3, "c": 3}


def test_pods_without_room_are_created_when_a_node_comes() -> None:
    small = nodes(1, cpu=1_000)
    play = a_play({"add_nodes": small[0]}, nodes=small, workloads=(a_workload(replicas=6, cpu=250),))
    assert len(played(play, until=19).ready_pods()) == 4
    assert len(played(play, until=40).ready_pods()) == 6


def test_a_rollout_within_a_full_node_ends() -> None:
    rollout = RollingUpdate(max_surge=0, max_unavailable=1)
    workload = a_workload(replicas=4, cpu=1_000, rollout=rollout)
    play = a_play(ROLLOUT, nodes=nodes(1), workloads=(workload,))
    world = played(play)
    assert not world.names() & played(play, until=15).names()
    assert len(world.ready_pods()) == len(world.of("Pod")) == 4


# --- rollouts and scaling ---------------------------------------------------------------------------------------------


@given(
    replicas=st.integers(1, 12),
    surge=st.one_of(st.integers(0, 4), st.sampled_from(["25%", "100%"])),
    unavailable=st.one_of(st.integers(0, 4), st.sampled_from(["25%", "50%"])),
    seed=st.integers(0, 5),
    twice=st.booleans(),
)
@settings(max_examples=30)
def test_a_rollout_replaces_every_pod_within_its_bounds(
    replicas: int, surge: int | str, unavailable: int | str, seed: int, twice: bool
) -> None:
    rollout = RollingUpdate(max_surge=surge, max_unavailable=unavailable)
    more, fewer = rollout.bounds(replicas)
    steps = [Step(at=20, **ROLLOUT)]
    if twice:  # during the first one
        steps.append(Step(at=24, **ROLLOUT))
    play = a_play(workloads=(a_workload(replicas=replicas, rollout=rollout),), steps=tuple(steps), seed=seed)
    world, before, most, least = World(), set[str](), 0, replicas
    for now, actions in moments(cluster_of(play), until=1_000):
        before = before if now >= 20 else world.names()
        world.take(actions)
        world.check()
        if now >= 20:
            most, least = max(most, len(world.pods())), min(least, len(world.ready_pods()))
    assert most <= replicas + more
    assert least >= replicas - fewer
    assert len(world.ready_pods()) == len(world.of("Pod")) == replicas
    assert len(templates(world)) == 1
    assert not world.names() & before


def test_scaling_down_deletes_pods_that_share_a_node_first() -> None:
    world = played(a_play(scale(6)), until=60)
    assert set(Counter(pod["spec"]["nodeName"] for pod in world.of("Pod")).values()) == {1}
    assert len(world.of("Pod")) == 6


def test_a_workload_is_scaled_evenly_within_a_time_until_another_step_sets_it() -> None:
    grows, shrinks = ({"scale": Scale(workload=CART, replicas=replicas, over=80)} for replicas in (13, 5))
    for step, counts in ((grows, [9, 10, 11, 12, 13, 13]), (shrinks, [9, 8, 7, 6, 5, 5])):
        times = (39, 41, 61, 81, 101, 200)
        assert [len(played(a_play(step), until=at).pods()) for at in times] == counts
        assert len(played(a_play(step, scale(3)), until=200).pods()) == 3
    assert "20s: shop/cart is scaled to 13 over 1m20s" in played(a_play(grows), until=20).lines


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_pods_of_a_failed_zone_are_replaced_and_end_when_it_recovers() -> None:
    play = a_play(outage(duration=60, noticed_after=10, evicted_after=20))

    def at(time: float) -> tuple[str, int, dict[str, int]]:
        """Ready of the zone's first node, pods that are there at all, and ready ones by zone."""
        world = played(play, until=time)
        status = condition(world.objects["Node", "", "a-1"], "Ready")["status"]
        ready = Counter(pod["spec"]["nodeName"][0] for pod in world.ready_pods())
        return status, len(world.of("Pod")), dict(sorted(ready.items()))

    assert at(29) == ("True", 9, {"a": 3, "b": 3, "c": 3})
    assert at(31) == ("Unknown", 9, {"b": 3, "c": 3})
    assert at(60) == ("Unknown", 12, {"b": 5, "c": 4})
    assert at(90) == ("True", 9, {"b": 5, "c": 4})


def test_pods_of_a_zone_that_recovers_in_time_are_kept() -> None:
    play = a_play(outage(duration=30, noticed_after=10, evicted_after=60))
    after = played(play, until=60)
    assert played(play, until=15).names() == after.names()
    assert len(after.ready_pods()) == 9


def test_pod_on_a_failed_node_starts_when_the_node_recovers() -> None:
    play = a_play(outage(duration=40, noticed_after=100), scale(12))
    world = played(play, until=55)
    assert (len(world.pods()), len(world.ready_pods())) == (12, 11)
    assert len(played(play, until=70).ready_pods()) == 12


def test_outage_has_separate_timers_from_an_earlier_one() -> None:
    play = a_play(
        outage(duration=10, noticed_after=25, evicted_after=5), outage(duration=60, noticed_after=40, evicted_after=5)
    )
    assert len(played(play, until=79).ready_pods()) == 9
    assert len(played(play, until=81).ready_pods()) == 6


def test_newest_nodes_are_removed_after_their_pods() -> None:
    play = a_play({"remove_nodes": NodeSelection(zone="c", count=1)})
    (gone,) = (now for now, actions in moments(cluster_of(play), until=99) if Delete(("Node", "", "c-2")) in actions)
    assert 21 < gone < 24
    world = played(play)
    assert {node["metadata"]["name"] for node in world.of("Node")} == {"a-1", "a-2", "b-1", "b-2", "c-1"}
    assert len(world.ready_pods()) == 9


def test_step_without_any_node_says_so() -> None:
    play = a_play(
        {"remove_nodes": NodeSelection(zone="c")},
        {"remove_nodes": NodeSelection(zone="c", count=1)},
        outage(zone=None, nodes=("a-9",)),
        outage(zone=None, nodes=("a-1", "a-9")),
    )
    lines = [line.partition(": ")[2] for line in played(play, until=99).lines]
    assert "zone c: drained and removed" in lines
    assert "zone c, 1 of its nodes: there is none" in lines
    assert "node a-9: there is none" in lines
    assert "nodes a-1, a-9: silent for good" in lines


def test_failed_node_is_removed_with_its_pods() -> None:
    play = a_play(outage(noticed_after=1, evicted_after=500), {"remove_nodes": NodeSelection(zone="a")})
    world = played(play)
    assert len(world.of("Node")) == 4
    assert len(world.ready_pods()) == len(world.of("Pod")) == 9


def test_flapping_pods_are_ready_for_half_of_each_period_and_in_the_end() -> None:
    play = a_play({"flap": Flap(workload=CART, pods=2, period=10, duration=28)})
    ready = [len(played(play, until=20 + at).ready_pods()) for at in (0, 4, 6, 11, 16, 21, 26, 29)]
    assert ready == [7, 7, 9, 7, 9, 7, 9, 9]


def test_address_is_reused_as_late_as_possible() -> None:
    play = a_play(nodes=nodes(1), workloads=(a_workload(replicas=20),), steps=(Step(at=5, every=20, **ROLLOUT),))
    world, holders = World(), dict[str, str]()
    for _, actions in moments(cluster_of(play), until=480):
        world.take(actions)
        for pod in world.of("Pod"):
            if address := pod.get("status", {}).get("podIP"):
                assert holders.setdefault(address, pod["metadata"]["name"]) == pod["metadata"]["name"]
    assert len(holders) > 400


def test_refused_pod_is_created_again_later_with_another_name() -> None:
    cluster = cluster_of(a_play(workloads=(a_workload(replicas=1),)))

    def created(now: float) -> list[str]:
        actions = cluster.timeline.run(now)
        return [action.key[2] for action in actions if isinstance(action, Create) and action.key[0] == "Pod"]

    (first,) = created(0)
    cluster.refused(("Pod", "shop", first))
    assert not created(0.9)
    (second,) = created(1)
    assert first != second
