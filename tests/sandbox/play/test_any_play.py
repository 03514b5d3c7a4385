"""Whatever is played, the cluster stays sound, and what happens depends on the seed alone."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sandbox.play.a_world import (
    CART,
    ZONES,
    World,
    a_play,
    a_workload,
    cluster_of,
    moments,
    names,
    nodes,
    played,
)

from zoneward.sandbox.play.actions import Action
from zoneward.sandbox.play.play_model import (
    AddNodes,
    Autoscale,
    CurvePoint,
    Drain,
    Flap,
    NodeGroup,
    NodeSelection,
    Outage,
    Play,
    PlayStep,
    PodSpread,
    RemoveNodes,
    RollOut,
    Scale,
    StepAction,
)

which = st.one_of(
    st.builds(NodeSelection, zone=st.sampled_from(ZONES), count=st.sampled_from([None, 1])),
    st.builds(NodeSelection, nodes=st.lists(st.sampled_from(["a-1", "b-1", "b-2"]), min_size=1, max_size=2).map(tuple)),
)
workloads = st.sampled_from([CART, "shop/search"])
lasting = st.sampled_from([3.0, 20.0, 70.0])
happenings: st.SearchStrategy[StepAction] = st.one_of(
    st.builds(Scale, workload=workloads, replicas=st.integers(0, 14)),
    st.builds(RollOut, workload=workloads),
    st.builds(Flap, workload=workloads, pods=st.integers(1, 4), period=st.just(4.0), duration=lasting),
    st.builds(
        Outage,
        which=which,
        duration=lasting,
        noticed_after=st.sampled_from([0.0, 10.0]),
        evicted_after=st.sampled_from([0.0, 25.0]),
    ),
    st.builds(Drain, which=which, duration=lasting),
    st.builds(AddNodes, group=st.sampled_from(nodes(1, 1, 1, pods=5))),
    st.builds(RemoveNodes, which=which),
    st.builds(
        Autoscale,
        workload=workloads,
        points=st.just((CurvePoint(0, 3), CurvePoint(30, 10), CurvePoint(60, 5))),
        each=st.just(4.0),
        noise=st.just(0.3),
    ),
)
steps = st.builds(PlayStep, at=st.integers(0, 60).map(float), action=happenings)


@st.composite
def any_plays(draw: st.DrawFn) -> Play:
    return Play(
        seed=draw(st.integers(0, 9)),
        events=False,
        nodes=nodes(draw(st.integers(1, 2)), 2, 2, cpu=2_000, pods=draw(st.sampled_from([4, 110]))),
        workloads=(
            a_workload(replicas=draw(st.integers(0, 10)), cpu=200),
            a_workload("search", replicas=3, spread=draw(st.sampled_from(PodSpread)), zones=("b", "c")),
        ),
        steps=tuple(draw(st.lists(steps, max_size=6))),
    )


@given(play=any_plays())
@settings(max_examples=60)
def test_whatever_is_played_the_cluster_stays_sound_and_comes_to_rest(play: Play) -> None:
    cluster, world = cluster_of(play), World()
    for _, actions in moments(cluster, until=2_000):
        world.take(actions)
        world.check()
    assert cluster.next is None
    assert cluster.is_over
    waiting = [pod for pod in world.pods() if "nodeName" not in pod["spec"]]
    assert len(world.ready_pods()) + len(waiting) == len(world.of("Pod")), "each pod is ready, or waits for room"
    for workload in play.workloads:
        if any(pod["metadata"]["name"].startswith(workload.name) for pod in waiting):
            continue  # a rollout that has no room for its surge stays where it is
        asked = [step.action.workload for step in play.steps if isinstance(step.action, Scale | Autoscale)]
        if workload.path not in asked:
            assert len(world.pods(workload.name)) == workload.replicas
        assert len({pod["metadata"]["labels"]["pod-template-hash"] for pod in world.pods(workload.name)}) <= 1


@given(play=any_plays(), stride=st.sampled_from([0.7, 5.0, 2_000.0]))
@settings(max_examples=15)
def test_what_happens_depends_on_the_seed_and_not_on_how_often_time_moves_on(play: Play, stride: float) -> None:
    def strided() -> list[Action]:
        cluster, done, now = cluster_of(play), [], 0.0
        while now < 200:
            done += cluster.advance(now)
            now += stride
        return done + cluster.advance(2_000)

    assert strided() == [action for _, actions in moments(cluster_of(play), until=2_000) for action in actions]


def test_another_seed_is_another_play() -> None:
    assert names(played(a_play(), until=5)) != names(played(a_play(seed=2), until=5))


def test_nodes_that_come_and_go_for_a_long_time_keep_to_their_address_ranges() -> None:
    group = NodeGroup(name="spot", zone="a", region="r")
    play = a_play(
        nodes=nodes(0, 1),
        steps=(
            PlayStep(at=0, every=10, until=5_000, action=AddNodes(group=group)),
            PlayStep(at=5, every=10, until=5_005, action=RemoveNodes(which=NodeSelection(zone="a"))),
        ),
        events=False,
    )
    world = World()
    observe: dict[str, str] = {}
    for _, actions in moments(cluster_of(play), until=5_100):
        world.take(actions)
        observe |= {node["metadata"]["name"]: node["spec"]["podCIDR"] for node in world.of("Node")}
    assert len(observe) == 502
    assert len(set(observe.values())) <= 3
