"""A play's file says what is played; what is wrong in it is told in one line that points."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sandbox.play.a_world import played

from zoneward.kube.input_error import InputError
from zoneward.sandbox.durations import Span
from zoneward.sandbox.play.play_file import play_from, read_play
from zoneward.sandbox.play.play_model import (
    AddNodes,
    Autoscale,
    CountOrPercent,
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
    Rollout,
    Scale,
    Wave,
    Workload,
    WorkloadService,
)

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "plays").glob("*.yaml"))
HEAD = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "Play"}


def read(**fields: Any) -> Play:
    return play_from("p.yaml", yaml.safe_dump(HEAD | fields).encode())


def error_of(**fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(**fields)
    return str(caught.value)


def test_an_empty_play_has_the_defaults() -> None:
    assert read() == Play(source="p.yaml")


def test_nodes_and_workloads_need_little_and_default_the_rest() -> None:
    play = read(nodes=[{"zone": "eu-central-1a"}, {"zone": "Rack_1"}], workloads=[{"name": "cart"}])
    assert play.nodes == (
        NodeGroup(name="eu-central-1a", zone="eu-central-1a", region="eu-central-1"),
        NodeGroup(name="rack-1", zone="Rack_1", region="Rack_1"),
    )
    assert play.workloads == (Workload(name="cart", labels={"app": "cart"}),)


def test_every_field_of_nodes_and_workloads_is_read() -> None:
    play = read(
        seed=3,
        speed=2.5,
        events=False,
        nodes=[{"zone": "a", "region": "r", "name": "n", "count": 2, "cpu": "1500m", "pods": 9, "labels": {"x": "y"}}],
        workloads=[
            {
                "name": "cart",
                "namespace": "shop",
                "replicas": 3,
                "labels": {"app.kubernetes.io/name": "cart"},
                "port": 9090,
                "cpu": 0.5,
                "zones": ["a"],
                "spread": "packed",
                "rollout": {"maxSurge": 2, "maxUnavailable": "50%"},
                "startup": "1s-2s",
                "termination": 4,
                "service": {"port": 81, "annotations": {"k": "v"}, "trafficDistribution": "PreferClose"},
            }
        ],
    )
    assert (play.seed, play.speed, play.events) == (3, 2.5, False)
    assert play.nodes == (NodeGroup(name="n", zone="a", region="r", count=2, cpu=1_500, pods=9, labels={"x": "y"}),)
    assert play.workloads == (
        Workload(
            name="cart",
            namespace="shop",
            replicas=3,
            labels={"app.kubernetes.io/name": "cart"},
            port=9090,
            cpu=500,
            zones=("a",),
            spread=PodSpread.PACKED,
            rollout=Rollout(max_surge=CountOrPercent(2), max_unavailable=CountOrPercent(50, is_percent=True)),
            startup=Span(1, 2),
            termination=Span(4, 4),
            service=WorkloadService(port=81, annotations={"k": "v"}, traffic_distribution="PreferClose"),
        ),
    )


NODES = [{"zone": "a", "count": 2}]
WORKLOADS = [{"name": "cart", "namespace": "shop"}, {"name": "web"}]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"scale": {"workload": "shop/cart", "replicas": 0}}, Scale(workload="shop/cart", replicas=0)),
        ({"rollout": {"workload": "web"}}, RollOut(workload="default/web")),
        (
            {"autoscale": {"workload": "web", "points": [{"at": 0, "replicas": 1}, {"at": "1h", "replicas": 5}]}},
            Autoscale(workload="default/web", points=(CurvePoint(0, 1), CurvePoint(3_600, 5))),
        ),
        (
            {
                "autoscale": {
                    "workload": "web",
                    "wave": {"low": 1, "high": 5, "period": "24h"},
                    "noise": "10%",
                    "each": "1m",
                    "for": "48h",
                }
            },
            Autoscale(
                workload="default/web",
                wave=Wave(low=1, high=5, period=86_400),
                noise=0.1,
                each=60,
                duration=172_800,
            ),
        ),
        ({"flap": {"workload": "web"}}, Flap(workload="default/web")),
        (
            {"flap": {"workload": "web", "pods": 2, "period": "4s", "for": "9s"}},
            Flap(workload="default/web", pods=2, period=4, duration=9),
        ),
        ({"outage": {"zone": "a"}}, Outage(which=NodeSelection(zone="a"))),
        (
            {"outage": {"nodes": ["a-1"], "for": "3m", "noticedAfter": 0, "evictedAfter": "5s"}},
            Outage(which=NodeSelection(nodes=("a-1",)), duration=180, noticed_after=0, evicted_after=5),
        ),
        ({"drain": {"zone": "a", "count": 1, "for": "5s"}}, Drain(which=NodeSelection(zone="a", count=1), duration=5)),
        ({"removeNodes": {"nodes": ["a-1", "a-2"]}}, RemoveNodes(which=NodeSelection(nodes=("a-1", "a-2")))),
        ({"addNodes": {"zone": "b"}}, AddNodes(group=NodeGroup(name="b", zone="b", region="b"))),
    ],
)
def test_steps_are_read(step: dict[str, Any], expected: object) -> None:
    play = read(nodes=NODES, workloads=WORKLOADS, steps=[{"at": "1m30s", "every": 5, "until": "1h", **step}])
    assert play.steps == (PlayStep(at=90, every=5, until=3_600, action=expected),)  # type: ignore[arg-type]


def test_manifests_are_taken_whole_into_the_default_namespace_where_they_name_none() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"x": 1}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    printed = node | {"metadata": {"name": "n", "resourceVersion": "7", "uid": "u", "generation": 2}}
    assert read(objects=[service, printed]).objects == (
        service | {"metadata": {"name": "web", "namespace": "default"}},
        node,
    )


def with_step(**step: Any) -> dict[str, Any]:
    return {"nodes": NODES, "workloads": WORKLOADS, "steps": [{"at": 1} | step]}


KINDS = "Service, Node, Pod, Event, Namespace, Endpoints, EndpointSlice, Lease"
STEP_ACTIONS = ("scale", "rollout", "autoscale", "flap", "outage", "drain", "addNodes", "removeNodes")
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "Cluster"}, "p.yaml: kind: expected Play, got 'Cluster'"),
    ({"apiVersion": None}, "p.yaml: apiVersion: expected zoneward.dev/v1alpha1, got none"),
    (
        {"step": []},
        "p.yaml: expected one of apiVersion, kind, seed, speed, events, nodes, workloads, objects, steps, got 'step'",
    ),
    ({"seed": "x"}, "p.yaml: seed: expected a whole number from 0 to 9007199254740992, got 'x'"),
    ({"speed": 0}, "p.yaml: speed: expected a number above 0, up to 100000, got 0"),
    ({"nodes": {}}, "p.yaml: nodes: expected a list, got a mapping"),
    ({"nodes": [{"count": 1}]}, "p.yaml: nodes[0].zone: expected the name of a zone, got none"),
    ({"nodes": [{"zone": "a", "cpu": "x"}]}, "p.yaml: nodes[0].cpu: expected CPUs such as 4 or 250m, got 'x'"),
    ({"nodes": [{"zone": "a", "count": 0}]}, "p.yaml: nodes[0].count: expected a whole number from 1 to 1000, got 0"),
    (
        {"nodes": [{"zone": "a", "count": 600}, {"zone": "b", "count": 600}]},
        "p.yaml: nodes: expected no more than 1000 in all, got 1200",
    ),
    (
        {"nodes": [{"zone": "a", "labels": {"x": "a b"}}]},
        "p.yaml: nodes[0].labels.x: expected a value that labels can have, got 'a b'",
    ),
    ({"workloads": ["cart"]}, "p.yaml: workloads[0]: expected a mapping, got 'cart'"),
    (
        {"workloads": [{"name": "Cart"}]},
        "p.yaml: workloads[0].name: expected lower case letters, digits and '-', 1 to 40 of them, got 'Cart'",
    ),
    (
        {"workloads": [{"name": "cart"}, {"name": "cart"}]},
        "p.yaml: workloads[1].name: expected a name of its own in its namespace, got 'cart'",
    ),
    (
        {"workloads": [{"name": "cart", "spread": "odd"}]},
        "p.yaml: workloads[0].spread: expected one of even, random, packed, got 'odd'",
    ),
    (
        {"workloads": [{"name": "cart", "zones": ["b"]}], "nodes": NODES},
        "p.yaml: workloads[0].zones[0]: expected one of the zones (a), got 'b'",
    ),
    (
        {"workloads": [{"name": "cart", "startup": "9s-5s"}]},
        "p.yaml: workloads[0].startup: expected the shorter time first, such as 5s-15s, got '9s-5s'",
    ),
    (
        {"workloads": [{"name": "cart", "rollout": {"maxSurge": 0, "maxUnavailable": "0%"}}]},
        "p.yaml: workloads[0].rollout.maxUnavailable: expected more than 0, where maxSurge is 0, got 0",
    ),
    (
        {"workloads": [{"name": "cart", "rollout": {"maxSurge": "some"}}]},
        "p.yaml: workloads[0].rollout.maxSurge: expected pods such as 1, or a part of them such as 25%, got 'some'",
    ),
    (
        {"objects": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}]},
        f"p.yaml: objects[0].kind: expected a kind that the sandbox serves ({KINDS}), got 'apps/v1 Deployment'",
    ),
    (
        {"objects": [{"apiVersion": "v1", "kind": "Pod"}]},
        "p.yaml: objects[0].metadata.name: expected a string that is not empty, got none",
    ),
    (
        with_step(),
        f"p.yaml: steps[0]: expected one of {', '.join(STEP_ACTIONS)}, got none",
    ),
    (
        with_step(flap={"workload": "web"}, rollout={"workload": "web"}),
        f"p.yaml: steps[0]: expected one of {', '.join(STEP_ACTIONS)}, got rollout and flap",
    ),
    (
        with_step(at="soon", rollout={"workload": "web"}),
        "p.yaml: steps[0].at: expected a time such as 90s, 1m30s or 250ms, got 'soon'",
    ),
    (
        with_step(at=-1, rollout={"workload": "web"}),
        "p.yaml: steps[0].at: expected a time such as 90s, 1m30s or 250ms, got -1",
    ),
    (
        with_step(every=0, rollout={"workload": "web"}),
        "p.yaml: steps[0].every: expected a time above 0, got 0",
    ),
    (
        with_step(rollout={"workload": "cart"}),
        "p.yaml: steps[0].rollout.workload: expected one of the workloads (shop/cart, default/web), got 'cart'",
    ),
    (
        with_step(scale={"workload": "web"}),
        "p.yaml: steps[0].scale.replicas: expected a whole number from 0 to 5000, got none",
    ),
    (
        with_step(outage={"zone": "b"}),
        "p.yaml: steps[0].outage.zone: expected one of the zones (a), got 'b'",
    ),
    (
        with_step(outage={"nodes": ["b-1"]}),
        "p.yaml: steps[0].outage.nodes[0]: expected one of the nodes (a-1), got 'b-1'",
    ),
    (
        with_step(drain={}),
        "p.yaml: steps[0].drain: expected either zone, with or without count, or nodes, got none",
    ),
    (
        with_step(autoscale={"workload": "web"}),
        "p.yaml: steps[0].autoscale: expected either points or wave, got none",
    ),
    (
        with_step(autoscale={"workload": "web", "points": [{"at": 5, "replicas": 1}, {"at": 5, "replicas": 2}]}),
        "p.yaml: steps[0].autoscale.points[1].at: expected a time after that of the point before, got an earlier one",
    ),
    (
        with_step(autoscale={"workload": "web", "wave": {"low": 5, "high": 2, "period": "1h"}}),
        "p.yaml: steps[0].autoscale.wave.high: expected a whole number from 5 to 5000, got 2",
    ),
    (
        with_step(autoscale={"workload": "web", "noise": 3, "wave": {"low": 1, "high": 2, "period": "1h"}}),
        "p.yaml: steps[0].autoscale.noise: expected a part such as 10%, got 3",
    ),
]


@pytest.mark.parametrize(("fields", "message"), MISTAKES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_mistake_is_reported_with_its_place(fields: dict[str, Any], message: str) -> None:
    assert error_of(**fields) == message


def test_one_document_is_a_play_and_two_are_none() -> None:
    with pytest.raises(InputError, match=r"^p\.yaml: expected one document, got 2$"):
        play_from("p.yaml", b"a: 1\n---\nb: 2\n")
    with pytest.raises(InputError, match=r"^p\.yaml: expected one document, got none$"):
        play_from("p.yaml", b"")


def test_malformed_yaml_is_reported_with_its_line() -> None:
    with pytest.raises(InputError, match=r"^p\.yaml: line 2, column \d+: "):
        play_from("p.yaml", b"a: 1\n  b: [\n")


def test_a_file_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file, got: No such file or directory"):
        read_play(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_are_sound_plays(file: Path) -> None:
    play = read_play(str(file))
    world = played(play, until=11 * 3_600 if play.speed > 100 else 900)
    assert {pod["metadata"]["namespace"] for pod in world.ready_pods()} == {"shop"}
    assert len(world.lines) > 4
