"""Any play keeps the cluster consistent, and depends only on its seed."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sandbox.play.a_world import CART, ZONES, World, a_play, a_workload, cluster_of, moments, nodes, played

from zoneward.sandbox.play.play_file import (
    Flap,
    NodeGroup,
    NodeSelection,
    Outage,
    Play,
    RollOut,
    Scale,
    Step,
)
from zoneward.sandbox.play.timeline import Action

zones = st.fixed_dictionaries({"zone": st.sampled_from(ZONES), "count": st.sampled_from([None, 1])})
names = st.lists(st.sampled_from(["a-1", "b-1", "b-2"]), min_size=1, max_size=2)
which: st.SearchStrategy[dict[str, Any]] = st.one_of(zones, st.fixed_dictionaries({"nodes": names.map(tuple)}))
workloads = st.sampled_from([CART, "shop/search"])
lasting = st.sampled_from([3.0, 20.0, 70.0])
outages = st.fixed_dictionaries(
    {
        "duration": lasting,
        "noticed_after": st.sampled_from([0.0, 10.0]),
        "evicted_after": st.sampled_from([0.0, 25.0]),
    }
)
actions: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        {"scale": st.builds(Scale, workload=workloads, replicas=st.integers(0, 14), over=st.sampled_from([0.0, 30.0]))}
    ),
    st.fixed_dictionaries({"rollout": st.builds(RollOut, workload=workloads)}),
    st.builds(
        lambda path, pods, duration: {"flap": Flap(workload=path, pods=pods, period=4, duration=duration)},
        workloads,
        st.integers(1, 4),
        lasting,
    ),
    st.builds(lambda nodes_, outage: {"outage": Outage(**nodes_, **outage)}, which, outages),
    st.fixed_dictionaries({"add_nodes": st.sampled_from(nodes(1, 1, 1, cpu=1_000))}),
    st.builds(lambda nodes_: {"remove_nodes": NodeSelection(**nodes_)}, which),
)
steps = st.builds(lambda at, action: Step(at=at, **action), st.integers(0, 60).map(float), actions)


@st.composite
def any_plays(draw: st.DrawFn) -> Play:
    return a_play(
        seed=draw(st.integers(0, 9)),
        nodes=nodes(draw(st.integers(1, 2)), 2, 2, cpu=draw(st.sampled_from([1_000, 8_000]))),
        workloads=(
            a_workload(replicas=draw(st.integers(0, 10)), cpu=250),
            a_workload("search", replicas=3, cpu=250, spread=draw(st.sampled_from(["even", "random"]))),
        ),
        steps=tuple(draw(st.lists(steps, max_size=6))),
    )


@given(play=any_plays())
@settings(max_examples=30)
def test_any_play_keeps_the_cluster_consistent_and_comes_to_rest(play: Play) -> None:
    cluster, world = cluster_of(play), World()
    for _, done in moments(cluster, until=2_000):
        world.take(done)
        world.check()
    assert cluster.timeline.next is None
    assert len(world.ready_pods()) == len(world.of("Pod"))
    for workload in play.workloads:
        pods = world.pods(workload.name)
        scaled = [step for step in play.steps if step.scale is not None and step.scale.workload == workload.path]
        has_room = [node["status"]["allocatable"]["cpu"] for node in world.of("Node")].count("8") > 2
        if has_room and not scaled:
            assert len(pods) == workload.replicas
            assert len({pod["metadata"]["labels"]["pod-template-hash"] for pod in pods}) <= 1


@given(play=any_plays(), stride=st.sampled_from([0.7, 5.0, 2_000.0]))
@settings(max_examples=15)
def test_play_depends_only_on_the_seed(play: Play, stride: float) -> None:
    timeline, done, now = cluster_of(play).timeline, list[Action](), 0.0
    while now < 200:
        done += timeline.run(now)
        now += stride
    done += timeline.run(2_000)
    assert done == [action for _, actions_at in moments(cluster_of(play), until=2_000) for action in actions_at]


def test_another_seed_is_another_play() -> None:
    assert played(a_play(), until=5).names() != played(a_play(seed=2), until=5).names()


def test_address_ranges_of_removed_nodes_are_reused() -> None:
    play = a_play(
        nodes=nodes(0, 1),
        steps=(
            Step(at=0, every=10, add_nodes=NodeGroup(name="spot", zone="a")),
            Step(at=5, every=10, remove_nodes=NodeSelection(zone="a")),
        ),
    )
    world, ranges = World(), dict[str, str]()
    for _, done in moments(cluster_of(play), until=1_100):
        world.take(done)
        ranges |= {node["metadata"]["name"]: node["spec"]["podCIDR"] for node in world.of("Node")}
    assert len(ranges) == 112
    assert len(set(ranges.values())) <= 3
