"""A play is done on a server as time passes, and lives with what others do there meanwhile."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sandbox.play import a_world
from tests.sandbox.play.a_world import CART, START, a_workload, is_ready, nodes
from tests.sandbox.server.local_client import LocalClient

from zoneward.kube.input_error import InputError
from zoneward.sandbox.play import driver
from zoneward.sandbox.play.play_file import Flap, NodeSelection, Outage, Play, RollOut, Scale, Step, WorkloadService
from zoneward.sandbox.server.persistence import new_registry

Object = dict[str, Any]


def a_play(*actions: dict[str, Any]) -> Play:
    """Two nodes, four pods with a Service; an action each after 10, 20, ... seconds."""
    steps = tuple(Step(at=10 * step, **action) for step, action in enumerate(actions, start=1))
    workload = a_workload(replicas=4, service=WorkloadService())
    return a_world.a_play(nodes=nodes(1, 1), workloads=(workload,), steps=steps)


class Sandbox:
    """A clock that sleeping advances. ``at`` has actions of another client by their time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at: dict[float, Callable[[], object]] = {}
        self.registry = new_registry(now=self.clock)
        self.client = LocalClient(self.registry)
        self.kinds = {kind.kind: kind for kind in self.registry.kinds.values() if kind.api == "v1"}
        self.lines: list[tuple[float, str]] = []

    def clock(self) -> datetime:
        return START + timedelta(seconds=self.now)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        for time in sorted(time for time in self.at if time <= self.now):
            self.at.pop(time)()

    async def run(self, play: Play, *, until: float = 60) -> None:
        await driver.play(
            play,
            self.registry,
            clock=self.clock,
            sleep=self.sleep,
            on_line=lambda line: self.lines.append((round(self.now, 2), line)),
            until=until,
            source="p.yaml",
        )

    def all(self, kind: str) -> list[Object]:
        return [record.object() for _, record in self.registry.store.records(self.kinds[kind])]

    def ready_pods(self) -> int:
        pods = self.all("Pod")
        assert all(is_ready(pod) for pod in pods)
        return len(pods)

    def delete(self, kind: str, index: int = 0, grace: int | None = None) -> None:
        metadata = self.all(kind)[index]["metadata"]
        self.client.delete(self.kinds[kind], metadata.get("namespace", ""), metadata["name"], grace=grace)


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


async def test_sandbox_accepts_all_actions_of_a_play(sandbox: Sandbox) -> None:
    play = a_play(
        {"scale": Scale(workload=CART, replicas=7)},
        {"flap": Flap(workload=CART, period=4, duration=9)},
        {"outage": Outage(zone="a", duration=20, noticed_after=3, evicted_after=5)},
        {"rollout": RollOut(workload=CART)},
        {"add_nodes": nodes(1)[0]},
        {"remove_nodes": NodeSelection(nodes=("b-1",))},
    )
    # A node has room for three pods: at times some are missing.
    workload = a_workload(cpu=300, service=WorkloadService())
    await sandbox.run(replace(play, nodes=nodes(1, 1, cpu=1_000), workloads=(workload,)), until=120)
    assert [line for _, line in sandbox.lines][:2] == [
        "0s: 2 nodes, 1 workload, 1 pod",
        "10s: shop/cart is scaled to 7",
    ]
    assert not [line for _, line in sandbox.lines if "refused" in line]
    assert [node["metadata"]["name"] for node in sandbox.all("Node")] == ["a-1", "a-2"]
    assert sandbox.ready_pods() == 7
    labels = sandbox.all("Pod")[0]["metadata"]["labels"]
    assert labels.items() >= {"app": "cart", "topology.kubernetes.io/zone": "a"}.items()
    (_, service) = sandbox.all("Service")
    assert service["spec"]["selector"] == {"app": "cart"}


async def test_faster_play_ends_sooner(sandbox: Sandbox) -> None:
    play = a_play(*({"scale": Scale(workload=CART, replicas=replicas)} for replicas in range(5)))
    await sandbox.run(replace(play, speed=100.0))
    assert [at for at, line in sandbox.lines if "scaled" in line] == [0.1, 0.2, 0.3, 0.4, 0.5]


async def test_a_pod_that_is_deleted_with_or_without_grace_is_replaced(sandbox: Sandbox) -> None:
    sandbox.at = {12: lambda: sandbox.delete("Pod"), 20: lambda: sandbox.delete("Pod", grace=0)}
    await sandbox.run(a_play())
    assert sandbox.ready_pods() == 4


async def test_play_follows_cordons_and_deleted_nodes(sandbox: Sandbox) -> None:
    cordoned = {"spec": {"unschedulable": True}}
    sandbox.at = {
        12: lambda: sandbox.client.update(sandbox.kinds["Node"], "", "a-1", lambda old: old | cordoned),
        20: lambda: sandbox.delete("Node", 1),
    }
    await sandbox.run(a_play(), until=40)
    assert [pod["spec"]["nodeName"] for pod in sandbox.all("Pod")] == ["a-1"] * 2
    assert sum("by another client" in line for _, line in sandbox.lines) == 2


async def test_play_uses_existing_objects_unchanged(sandbox: Sandbox) -> None:
    await sandbox.run(a_play(), until=20)
    before = sandbox.all("Service"), sandbox.all("Namespace")
    sandbox.now = 0
    await sandbox.run(replace(a_play(), seed=2), until=20)
    assert (sandbox.all("Service"), sandbox.all("Namespace")) == before
    assert sandbox.ready_pods() == 8


async def test_refusal_is_reported_once_and_the_play_continues(sandbox: Sandbox) -> None:
    def delete_all() -> None:
        for _ in range(4):
            sandbox.delete("Pod", grace=0)
        sandbox.registry.store.delete(sandbox.kinds["Namespace"], ("", "shop"), namespace)

    namespace: Object = {}
    sandbox.at = {
        11: lambda: namespace.update(sandbox.client.get(sandbox.kinds["Namespace"], "", "shop")),
        12: delete_all,
        30: lambda: sandbox.client.create(sandbox.kinds["Namespace"], "", {"metadata": {"name": "shop"}}),
    }
    await sandbox.run(a_play())
    (refusal,) = (line for _, line in sandbox.lines if "refused" in line)
    assert refusal.endswith('namespaces "shop" not found')
    assert sandbox.ready_pods() == 4


async def test_refused_service_of_a_play_is_an_error_with_its_field(sandbox: Sandbox) -> None:
    workload = a_workload(service=WorkloadService(traffic_distribution="Nearby"))
    with pytest.raises(InputError, match=r'^p\.yaml: workloads\[0\]\.service: Service "cart" is invalid'):
        await sandbox.run(replace(a_play(), workloads=(workload,)))
