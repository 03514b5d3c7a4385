"""A played cluster does what its play says, as a real one would do it."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sandbox.play.a_world import (
    CART,
    World,
    a_play,
    a_workload,
    cluster_of,
    is_ready,
    moments,
    names,
    nodes,
    played,
    status_of,
)

from zoneward.sandbox.durations import Span
from zoneward.sandbox.play.actions import Create, Delete
from zoneward.sandbox.play.play_model import (
    AddNodes,
    Autoscale,
    CountOrPercent,
    CurvePoint,
    Drain,
    Flap,
    NodeSelection,
    Outage,
    PlayStep,
    PodSpread,
    RemoveNodes,
    RollOut,
    Rollout,
    Scale,
    Wave,
    WorkloadService,
)


def templates(world: World) -> Counter[str]:
    return Counter(pod["metadata"]["labels"]["pod-template-hash"] for pod in world.pods())


# --- how pods come and go ---------------------------------------------------------------------------------------------


def test_pods_become_ready_as_a_kubelet_makes_them() -> None:
    cluster = cluster_of(a_play(workloads=(a_workload(replicas=1, startup=Span(8, 8)),)))
    world, observe = World(), []
    for now, actions in moments(cluster, until=30):
        world.take(actions)
        (pod,) = world.pods()
        status = pod.get("status", {})
        observe.append((now, status.get("phase"), "podIP" in status, is_ready(pod)))
    assert observe == [
        (0, None, False, False),
        (0.1, "Pending", False, False),
        (4, "Running", True, False),
        (8, "Running", True, True),
    ]


def test_a_pod_that_is_deleted_serves_for_a_while_then_is_not_ready_then_gone() -> None:
    play = a_play(
        Scale(workload=CART, replicas=0), workloads=(a_workload(replicas=1, termination=Span(10, 10)),), events=False
    )
    cluster = cluster_of(play)
    world, observe = World(), []
    for now, actions in moments(cluster, until=60):
        world.take(actions)
        if now >= 20:
            observe.append((now, [(is_ready(pod), pod["status"]["phase"]) for pod in world.of("Pod")]))
    assert observe == [(20, [(True, "Running")]), (26, [(False, "Succeeded")]), (30, [])]


def test_a_pod_that_is_deleted_while_it_starts_goes_no_further() -> None:
    workload = a_workload(replicas=1, startup=Span(4, 4), termination=Span(9, 9))
    play = a_play(steps=(PlayStep(at=1, action=Scale(workload=CART, replicas=0)),), workloads=(workload,))
    (pod,) = played(play, until=9).of("Pod")
    assert pod["status"]["phase"] == "Pending"
    assert not played(play, until=11).of("Pod")


def test_pods_are_named_labelled_and_placed_like_those_of_a_deployment() -> None:
    pod = played(a_play(), until=15).pods()[0]
    template = pod["metadata"]["labels"]["pod-template-hash"]
    on = pod["spec"]["nodeName"]
    assert pod["metadata"]["labels"] == {
        "app": "cart",
        "pod-template-hash": template,
        "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/zone": on[0],
    }
    assert pod["metadata"]["name"].startswith(f"cart-{template}-")
    assert [status_of(pod, kind) for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")] == [
        "True"
    ] * 4


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    world = played(a_play(Flap(workload=CART, pods=1, period=6, duration=3)), until=30)
    stamps = [
        {each["type"]: each["lastTransitionTime"] for each in pod["status"]["conditions"]} for pod in world.pods()
    ]
    assert max(each["Ready"] for each in stamps) == "2026-03-01T12:00:23Z"
    assert max(each["Initialized"] for each in stamps) == "2026-03-01T12:00:00Z"


def test_events_report_pods_and_nodes_and_can_be_left_out() -> None:
    outage = Outage(which=NodeSelection(zone="a"), noticed_after=5, evicted_after=5)
    told = Counter(event["reason"] for event in played(a_play(outage), until=60).of("Event"))
    assert set(told) == {"Scheduled", "Started", "Killing", "NodeNotReady"}
    assert told["NodeNotReady"] == 2 + 3
    assert not played(a_play(outage, events=False), until=60).of("Event")


def test_a_service_is_made_for_a_workload_that_asks_for_one() -> None:
    service = WorkloadService(port=8080, annotations={"a": "b"}, traffic_distribution="PreferSameZone")
    world = played(a_play(workloads=(a_workload(service=service), a_workload("other"))), until=1)
    (made,) = world.of("Service")
    assert made["metadata"]["name"] == "cart"
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert made["spec"]["trafficDistribution"] == "PreferSameZone"
    assert made["spec"]["ports"][0]["port"] == 8080
    assert made["spec"]["selector"] == {"app": "cart"}


def test_namespaces_are_made_before_all_else_where_no_manifest_makes_them() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "two"}}
    given = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "two", "labels": {"a": "b"}}}
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "three"}}
    actions = cluster_of(a_play(objects=(service, given, other))).advance(0)
    made = [(each.kind, each.name, each.place) for each in actions if isinstance(each, Create)][:5]
    assert made == [
        ("Namespace", "shop", ""),
        ("Namespace", "three", ""),
        ("Namespace", "two", "objects[1]"),
        ("Service", "web", "objects[0]"),
        ("Service", "web", "objects[2]"),
    ]


# --- where pods go ----------------------------------------------------------------------------------------------------


def test_pods_are_spread_evenly_over_zones_whatever_their_nodes() -> None:
    play = a_play(nodes=nodes(1, 2, 5), workloads=(a_workload(replicas=12),))
    assert played(play, until=15).zones() == {"a": 4, "b": 4, "c": 4}


def test_packed_pods_fill_one_node_before_the_next() -> None:
    play = a_play(workloads=(a_workload(replicas=5, cpu=1_000, spread=PodSpread.PACKED),))
    on = Counter(pod["spec"]["nodeName"] for pod in played(play, until=15).pods())
    assert sorted(on.values()) == [1, 4]


def test_a_workload_stays_in_its_zones() -> None:
    assert played(a_play(workloads=(a_workload(replicas=9, zones=("b",)),)), until=15).zones() == {"b": 9}


def test_a_rollout_ends_spread_evenly() -> None:
    outage = Outage(which=NodeSelection(zone="a"), duration=30, noticed_after=5, evicted_after=5)
    world = played(a_play(outage, workloads=(a_workload(replicas=9),)), until=100)
    assert world.zones() == {"b": 5, "c": 4}
    world = played(
        replace(a_play(outage), steps=(*a_play(outage).steps, PlayStep(at=80, action=RollOut(workload=CART))))
    )
    assert world.zones() == {"a": 3, "b": 3, "c": 3}


def test_pods_wait_for_room_and_get_it_from_a_new_node() -> None:
    play = a_play(
        AddNodes(group=nodes(1, cpu=1_000)[0]), nodes=nodes(1, cpu=1_000), workloads=(a_workload(replicas=6, cpu=250),)
    )
    before = played(play, until=15)
    assert len(before.ready_pods()) == 4
    assert [status_of(pod, "PodScheduled") for pod in before.pods() if "nodeName" not in pod["spec"]] == ["False"] * 2
    after = played(play, until=40)
    assert len(after.ready_pods()) == 6
    assert names(after) == names(before)


def test_a_rollout_within_a_full_node_ends() -> None:
    rollout = Rollout(max_surge=CountOrPercent(0), max_unavailable=CountOrPercent(1))
    play = a_play(
        RollOut(workload=CART), nodes=nodes(1), workloads=(a_workload(replicas=4, cpu=1_000, rollout=rollout),)
    )
    world = played(play)
    assert not names(world) & names(played(play, until=15))
    assert len(world.ready_pods()) == len(world.of("Pod")) == 4


# --- rollouts and scaling ---------------------------------------------------------------------------------------------


def test_a_rollout_replaces_every_pod_by_one_of_another_template() -> None:
    before, after = played(a_play(RollOut(workload=CART)), until=15), played(a_play(RollOut(workload=CART)))
    assert len(after.ready_pods()) == 9
    assert not names(before) & names(after)
    assert len(templates(after)) == 1
    assert templates(before).keys() != templates(after).keys()


@given(
    replicas=st.integers(1, 12),
    surge=st.one_of(st.integers(0, 4), st.sampled_from(["25%", "100%"])),
    unavailable=st.one_of(st.integers(0, 4), st.sampled_from(["25%", "50%"])),
    seed=st.integers(0, 5),
    twice=st.booleans(),
)
@settings(max_examples=30)
def test_a_rollout_keeps_to_its_bounds(
    replicas: int, surge: int | str, unavailable: int | str, seed: int, twice: bool
) -> None:
    def part(value: int | str) -> CountOrPercent:
        return CountOrPercent(value) if isinstance(value, int) else CountOrPercent(int(value[:-1]), is_percent=True)

    if not surge and not unavailable:
        surge = 1
    rollout = Rollout(max_surge=part(surge), max_unavailable=part(unavailable))
    more, fewer = rollout.bounds(replicas)
    steps = [PlayStep(at=20, action=RollOut(workload=CART))]
    if twice:  # while the first is still going on
        steps.append(PlayStep(at=24, action=RollOut(workload=CART)))
    play = a_play(workloads=(a_workload(replicas=replicas, rollout=rollout),), steps=tuple(steps), seed=seed)
    world, most, least = World(), 0, replicas
    for now, actions in moments(cluster_of(play), until=1_000):
        world.take(actions)
        world.check()
        if now >= 20:
            most, least = max(most, len(world.pods())), min(least, len(world.ready_pods()))
    assert most <= replicas + more
    assert least >= replicas - fewer
    assert len(world.ready_pods()) == len(world.of("Pod")) == replicas
    assert len(templates(world)) == 1


def test_scaling_down_takes_pods_that_share_a_node_first() -> None:
    world = played(a_play(Scale(workload=CART, replicas=6)), until=60)
    assert len(world.of("Pod")) == 6
    assert set(Counter(pod["spec"]["nodeName"] for pod in world.pods()).values()) == {1}


def test_an_autoscaled_workload_follows_its_points() -> None:
    curve = Autoscale(
        workload=CART, each=10, points=(CurvePoint(0, 2), CurvePoint(100, 12), CurvePoint(200, 12), CurvePoint(300, 4))
    )
    play = a_play(curve)
    assert [len(played(play, until=20 + at + 9).pods()) for at in (0, 50, 100, 200, 250, 400)] == [2, 7, 12, 12, 8, 4]


def test_a_wave_begins_at_its_lowest_and_is_at_its_highest_after_half_a_period() -> None:
    play = a_play(Autoscale(workload=CART, each=10, wave=Wave(low=2, high=10, period=100)))
    assert [len(played(play, until=25 + at).pods()) for at in (0, 30, 50, 100, 150)] == [2, 7, 10, 2, 10]


def test_noise_moves_replicas_by_no_more_than_its_part() -> None:
    play = a_play(Autoscale(workload=CART, each=1, noise=0.2, wave=Wave(low=20, high=20, period=100)), events=False)
    counts, world = set(), World()
    for now, actions in moments(cluster_of(play), until=220):
        world.take(actions)
        if now > 20:
            counts.add(len(world.pods()))
    assert min(counts) in (16, 17)
    assert max(counts) in (23, 24)


def test_scaling_ends_autoscaling() -> None:
    curve = Autoscale(workload=CART, each=5, wave=Wave(low=2, high=10, period=100))
    cluster = cluster_of(a_play(curve, Scale(workload=CART, replicas=3)))
    world = World()
    for _, actions in moments(cluster, until=200):
        world.take(actions)
    assert len(world.pods()) == 3
    assert cluster.is_over


def test_a_step_repeats_until_it_is_to_end() -> None:
    step = PlayStep(at=10, every=20, until=50, action=RollOut(workload=CART))
    world = played(a_play(steps=(step,)))
    assert [line for line in world.lines if "rolled out" in line] == [
        f"{at}s: shop/cart is rolled out" for at in (10, 30, 50)
    ]


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_silent_zone_is_noticed_its_pods_are_replaced_and_end_when_it_is_back() -> None:
    outage = Outage(which=NodeSelection(zone="a"), duration=60, noticed_after=10, evicted_after=20)
    play = a_play(outage)

    def at(time: float) -> tuple[str, int, int, dict[str, int]]:
        """Ready of the zone's first node, its taints, pods that are there at all, and ready ones by zone."""
        world = played(play, until=time)
        first = world.objects["Node", "", "a-1"]
        ready = Counter(pod["spec"]["nodeName"][0] for pod in world.ready_pods())
        return (
            status_of(first, "Ready"),
            len(first["spec"].get("taints", ())),
            len(world.of("Pod")),
            dict(sorted(ready.items())),
        )

    assert at(29) == ("True", 0, 9, {"a": 3, "b": 3, "c": 3})
    assert at(31) == ("Unknown", 2, 9, {"b": 3, "c": 3})
    assert at(60) == ("Unknown", 2, 12, {"b": 5, "c": 4})
    assert at(90) == ("True", 0, 9, {"b": 5, "c": 4})


def test_pods_of_a_zone_that_is_back_in_time_are_ready_again_and_the_same() -> None:
    outage = Outage(which=NodeSelection(zone="a"), duration=30, noticed_after=10, evicted_after=60)
    before, after = played(a_play(outage), until=15), played(a_play(outage), until=60)
    assert names(before) == names(after)
    assert len(after.ready_pods()) == 9


def test_a_pod_on_a_node_that_is_silent_but_not_known_to_be_starts_when_it_is_back() -> None:
    play = a_play(
        Outage(which=NodeSelection(zone="a"), duration=40, noticed_after=100),
        Scale(workload=CART, replicas=12),
        workloads=(a_workload(replicas=9),),
    )
    world = played(play, until=55)
    assert (len(world.pods()), len(world.ready_pods())) == (12, 11)
    assert len(played(play, until=70).ready_pods()) == 12


def test_a_drained_node_keeps_no_pod_and_takes_none_until_it_is_uncordoned() -> None:
    play = a_play(Drain(which=NodeSelection(nodes=("a-1", "a-2")), duration=30))
    world = played(play, until=45)
    assert world.zones() == {"b": 5, "c": 4}
    assert world.objects["Node", "", "a-1"]["spec"]["unschedulable"]
    assert len(world.ready_pods()) == 9
    spec = played(play, until=60).objects["Node", "", "a-1"]["spec"]
    assert {"unschedulable", "taints"}.isdisjoint(spec)


def test_removed_nodes_are_the_newest_and_go_when_their_pods_have() -> None:
    play = a_play(RemoveNodes(which=NodeSelection(zone="c", count=1)))
    gone = [now for now, actions in moments(cluster_of(play), until=99) if Delete(kind="Node", name="c-2") in actions]
    assert 21 < gone[0] < 24
    world = played(play)
    assert {node["metadata"]["name"] for node in world.of("Node")} == {"a-1", "a-2", "b-1", "b-2", "c-1"}
    assert len(world.ready_pods()) == 9


def test_an_outage_is_not_noticed_by_the_clock_of_one_before() -> None:
    short = Outage(which=NodeSelection(zone="a"), duration=10, noticed_after=25, evicted_after=5)
    play = a_play(short, replace(short, duration=60, noticed_after=40))
    assert len(played(play, until=79).ready_pods()) == 9
    assert len(played(play, until=81).ready_pods()) == 6


def test_a_silent_node_is_removed_with_its_pods() -> None:
    world = played(
        a_play(
            Outage(which=NodeSelection(zone="a"), noticed_after=1, evicted_after=500),
            RemoveNodes(which=NodeSelection(zone="a")),
        )
    )
    assert len(world.of("Node")) == 4
    assert len(world.ready_pods()) == len(world.of("Pod")) == 9


def test_flapping_pods_are_ready_for_half_of_each_period_and_in_the_end() -> None:
    play = a_play(Flap(workload=CART, pods=2, period=10, duration=28))
    ready = [len(played(play, until=20 + at).ready_pods()) for at in (0, 4, 6, 11, 16, 21, 26, 29)]
    assert ready == [7, 7, 9, 7, 9, 7, 9, 9]
