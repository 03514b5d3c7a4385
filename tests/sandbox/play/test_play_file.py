"""A play's file says what is played; what is wrong in it is reported in one line that points."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sandbox.play.a_world import a_play, played

from zoneward.kube.input_error import InputError
from zoneward.sandbox.play.play_file import (
    Flap,
    NodeGroup,
    NodeSelection,
    Outage,
    Play,
    RollingUpdate,
    Scale,
    Workload,
    WorkloadService,
    play_from,
    read_play,
)

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "plays").glob("*.yaml"))
HEAD = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "Play"}


def read(**fields: Any) -> Play:
    return play_from("p.yaml", yaml.safe_dump(HEAD | fields).encode())


def test_an_empty_play_has_the_defaults() -> None:
    assert read() == a_play(nodes=(), workloads=())


def test_nodes_need_little_and_default_the_rest() -> None:
    one, other = read(nodes=[{"zone": "eu-central-1a"}, {"zone": "Rack_1"}]).nodes
    assert (one.prefix, one.region, one.count) == ("eu-central-1a", "eu-central-1", 1)
    assert (other.prefix, other.region, other.cpu) == ("rack-1", "Rack_1", 4_000)


def test_every_field_of_nodes_and_workloads_is_read() -> None:
    play = read(
        seed=3,
        speed=2.5,
        nodes=[{"zone": "a", "name": "n", "count": 2, "cpu": "1500m"}],
        workloads=[
            {
                "name": "cart",
                "namespace": "shop",
                "replicas": 3,
                "cpu": 0.5,
                "spread": "random",
                "rollout": {"maxSurge": 2, "maxUnavailable": "50%"},
                "startup": "1s-2s",
                "termination": 4,
                "service": {"annotations": {"k": "v"}, "trafficDistribution": "PreferClose"},
            }
        ],
    )
    assert (play.seed, play.speed) == (3, 2.5)
    assert play.nodes == (NodeGroup(name="n", zone="a", count=2, cpu=1_500),)
    assert play.workloads == (
        Workload(
            name="cart",
            namespace="shop",
            replicas=3,
            cpu=500,
            spread="random",
            rollout=RollingUpdate(max_surge=2, max_unavailable="50%"),
            startup="1s-2s",
            termination="4.000000s",
            service=WorkloadService(annotations={"k": "v"}, traffic_distribution="PreferClose"),
        ),
    )


NODES = [{"zone": "a", "count": 2}]
WORKLOADS = [{"name": "cart", "namespace": "shop"}, {"name": "web"}]
WEB = "default/web"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"scale": {"workload": "shop/cart", "replicas": 0}}, Scale(workload="shop/cart", replicas=0)),
        ({"scale": {"workload": WEB, "replicas": 5, "over": "1h"}}, Scale(workload=WEB, replicas=5, over=3_600)),
        ({"flap": {"workload": WEB, "pods": 2, "for": "9s"}}, Flap(workload=WEB, pods=2, period=20, duration=9)),
        (
            {"outage": {"nodes": ["a-1"], "for": "3m", "noticedAfter": 0, "evictedAfter": "5s"}},
            Outage(nodes=("a-1",), duration=180, noticed_after=0, evicted_after=5),
        ),
        ({"removeNodes": {"zone": "a", "count": 1}}, NodeSelection(zone="a", count=1)),
    ],
)
def test_steps_are_read(step: dict[str, Any], expected: object) -> None:
    (parsed,) = read(nodes=NODES, workloads=WORKLOADS, steps=[{"at": "1m30s", "every": 5, **step}]).steps
    assert (parsed.at, parsed.every, parsed.action) == (90, 5, expected)


def with_step(**step: Any) -> dict[str, Any]:
    return {"nodes": NODES, "workloads": WORKLOADS, "steps": [{"at": 1} | step]}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"apiVersion": None}, "apiVersion: expected zoneward.dev/v1alpha1, got null"),
    (
        {"step": []},
        (
            "step: expected one of apiVersion, kind, seed, speed, nodes, workloads, steps, got an unknown key"
            " (did you mean 'steps'?)"
        ),
    ),
    ({"speed": 0}, "speed: expected a number above 0, at most 100000, got 0"),
    ({"nodes": [{"count": 1}]}, "nodes[0].zone: expected a zone, as the value of a label, got none"),
    ({"nodes": [{"zone": "a", "cpu": "x"}]}, "nodes[0].cpu: expected CPUs such as 4 or 250m, got 'x'"),
    ({"nodes": [{"zone": "a", "cpu": 0}]}, "nodes[0].cpu: expected CPUs such as 4 or 250m, got 0"),
    ({"nodes": [{"zone": "a", "count": 0}]}, "nodes[0].count: expected a whole number from 1 to 1000, got 0"),
    (
        {"nodes": [{"zone": "a", "count": 600}, {"zone": "b", "count": 600}]},
        "nodes: expected no more than 1000 in all, got 1200",
    ),
    (
        {"workloads": [{"name": "Cart"}]},
        (
            "workloads[0].name: expected a name of at most 40 characters: small letters, digits and dashes between"
            " them, got 'Cart'"
        ),
    ),
    (
        {"workloads": [{"name": "cart"}, {"name": "cart"}]},
        "workloads[1].name: expected a unique name in its namespace, got 'cart'",
    ),
    (
        {"workloads": [{"name": "cart", "startup": "9s-5s"}]},
        "workloads[0].startup: expected the shorter time first, such as 5s-15s, got '9s-5s'",
    ),
    (with_step(), "steps[0]: expected one action, got none"),
    (
        with_step(flap={"workload": WEB}, rollout={"workload": WEB}),
        "steps[0]: expected one action, got rollout and flap",
    ),
    (
        with_step(addNodes={"zone": "a"}, removeNodes={"zone": "a"}),
        "steps[0]: expected one action, got addNodes and removeNodes",
    ),
    (
        with_step(at="soon", rollout={"workload": WEB}),
        "steps[0].at: expected a time such as 90s, 1m30s or 250ms, got 'soon'",
    ),
    (
        with_step(every=0, rollout={"workload": WEB}),
        "steps[0].every: expected a time above 0 and of no more than ten years, got 0",
    ),
    (
        with_step(rollout={"workload": "cart"}),
        "steps[0]: expected one of the workloads (default/web, shop/cart), got 'cart'",
    ),
    (with_step(outage={"zone": "b"}), "steps[0]: expected one of the zones (a), got 'b'"),
    (with_step(outage={"nodes": ["b-1"]}), "steps[0]: expected one of the nodes (a-1), got 'b-1'"),
    (with_step(removeNodes={}), "steps[0].removeNodes: expected either zone, with or without count, or nodes"),
]


@pytest.mark.parametrize(("fields", "message"), MISTAKES, ids=lambda value: value if isinstance(value, str) else "")
def test_invalid_play_is_reported_with_its_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(**fields)
    assert str(caught.value) == f"p.yaml: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: 1\n---\nb: 2\n", "expected one document, got 2"),
        (b"", "expected a mapping, got null"),
        (b"a: 1\n  b: [\n", r"line 2, column \d+: "),
    ],
)
def test_file_without_exactly_one_document_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=rf"^p\.yaml: {message}"):
        play_from("p.yaml", text)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_are_sound_plays(file: Path) -> None:
    play = read_play(str(file))
    world = played(play, until=11 * 3_600 if play.speed > 100 else 900)
    assert {pod["metadata"]["namespace"] for pod in world.ready_pods()} == {"shop"}
    assert len(world.lines) > 4
