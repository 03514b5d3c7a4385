"""A play is done on a server as time passes, and lives with what others do there meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.sandbox.play.a_world import START, a_workload, is_ready, nodes

from zoneward.kube.input_error import InputError
from zoneward.sandbox.play import driver
from zoneward.sandbox.play.play_model import (
    AddNodes,
    Drain,
    Flap,
    NodeSelection,
    Outage,
    Play,
    PlayStep,
    RemoveNodes,
    RollOut,
    Scale,
    StepAction,
    WorkloadService,
)
from zoneward.sandbox.server.kinds import Kind, Strategy
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import LocalClient
from zoneward.sandbox.server.status_errors import StatusError, already_exists, invalid, modified, not_found

Object = dict[str, Any]
ReplicaChange = Callable[[Object], Object]


def a_kind(kind: str, plural: str, *, is_namespaced: bool = True, has_status: bool = False) -> Kind:
    return Kind(
        kind=kind,
        plural=plural,
        is_namespaced=is_namespaced,
        has_status=has_status,
        strategy=Strategy(),
        columns=(),
    )


KINDS = {
    ("v1", kind.kind): kind
    for kind in (
        a_kind("Namespace", "namespaces", is_namespaced=False, has_status=True),
        a_kind("Node", "nodes", is_namespaced=False, has_status=True),
        a_kind("Pod", "pods", has_status=True),
        a_kind("Service", "services", has_status=True),
        a_kind("Event", "events"),
    )
}


class Server:
    """Just enough of a registry. As upstream, a pod on a node waits for its kubelet, and no update binds it."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.refuse: Callable[[str, str], StatusError | None] = lambda _verb, _kind: None
        self._uids = 0

    def create(self, kind: Kind, namespace: str, thing: Object) -> Object:
        key = self._key("create", kind, namespace, thing["metadata"]["name"], must_exist=False)
        if key in self.objects:
            raise already_exists(kind, key[2])
        self._uids += 1
        new = thing | {"metadata": thing["metadata"] | {"uid": f"uid-{self._uids}"}}
        if kind.kind == "Pod":
            new["status"] = {"phase": "Pending"}
        self.objects[key] = new
        return new

    def patch_status(self, kind: Kind, namespace: str, name: str, change: ReplicaChange) -> Object:
        key = self._key("patch_status", kind, namespace, name)
        self.objects[key] = self.objects[key] | {"status": change(self.objects[key])["status"]}
        return self.objects[key]

    def update(self, kind: Kind, namespace: str, name: str, change: ReplicaChange) -> Object:
        key = self._key("update", kind, namespace, name)
        old, new = self.objects[key], change(self.objects[key])
        if kind.kind == "Pod" and new["spec"] != old["spec"]:
            raise StatusError(422, "Invalid", f'Pod "{name}" is invalid: spec: Forbidden: ...\n{{ a difference }}')
        self.objects[key] = new | {"status": old["status"]}
        return new

    def bind(self, kind: Kind, namespace: str, name: str, *, node: str) -> None:
        key = self._key("bind", kind, namespace, name)
        assert kind.kind == "Pod"
        old = self.objects[key]
        self.objects[key] = old | {"spec": old["spec"] | {"nodeName": node}}

    def delete(self, kind: Kind, namespace: str, name: str, *, grace: int | None = None) -> None:
        key = self._key("delete", kind, namespace, name)
        if kind.kind == "Pod" and grace != 0 and "nodeName" in self.objects[key]["spec"]:
            self.objects[key]["metadata"]["deletionTimestamp"] = "soon"
        else:
            del self.objects[key]

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return self.objects[self._key("get", kind, namespace, name)]

    def pods(self) -> list[Object]:
        return [each for (kind, _, _), each in self.objects.items() if kind == "Pod"]

    def _key(
        self, verb: str, kind: Kind, namespace: str, name: str, *, must_exist: bool = True
    ) -> tuple[str, str, str]:
        refusal = self.refuse(verb, kind.kind)
        if refusal is not None:
            raise refusal
        assert bool(namespace) == kind.is_namespaced
        key = (kind.kind, namespace, name)
        if must_exist and key not in self.objects:
            raise not_found(kind, name)
        return key


class Time:
    """Goes as far as is slept. ``at``: what somebody does, and after how many seconds."""

    def __init__(self, at: dict[float, Callable[[], None]] | None = None) -> None:
        self.now = 0.0
        self._at = sorted((at or {}).items(), key=lambda each: each[0])

    def clock(self) -> datetime:
        return START + timedelta(seconds=self.now)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        while self._at and self._at[0][0] <= self.now:
            self._at.pop(0)[1]()


def a_play(*happenings: StepAction, replicas: int = 4) -> Play:
    steps = tuple(PlayStep(at=10 * (i + 1), action=each) for i, each in enumerate(happenings))
    return Play(nodes=nodes(1, 1), workloads=(a_workload(replicas=replicas, service=WorkloadService()),), steps=steps)


def run(
    play: Play, server: Server, *, until: float = 60, at: dict[float, Callable[[], None]] | None = None
) -> tuple[list[str], Time]:
    lines: list[str] = []
    time = Time(at)
    asyncio.run(
        driver.play(play, server, kinds=KINDS, clock=time.clock, sleep=time.sleep, on_line=lines.append, until=until)
    )
    return lines, time


def test_a_play_is_done_and_reported() -> None:
    server = Server()
    lines, _ = run(a_play(RollOut(workload="shop/cart"), Scale(workload="shop/cart", replicas=6)), server)
    assert [is_ready(pod) for pod in server.pods()] == [True] * 6
    assert lines == [
        "0s: 2 nodes, 1 workload, 4 pods",
        "10s: shop/cart is rolled out",
        "20s: shop/cart is scaled to 6",
        "The play is over; pods that are deleted are still replaced.",
    ]


def test_the_sandbox_takes_all_that_a_play_does() -> None:
    """And more strictly than the stand-in above: schema, defaults, validation."""
    time, lines = Time(), list[str]()
    registry = new_registry(now=time.clock)
    kinds = {(kind.api, kind.kind): kind for kind in registry.kinds.values()}
    play = a_play(
        Scale(workload="shop/cart", replicas=7),
        Flap(workload="shop/cart", period=4, duration=9),
        Outage(which=NodeSelection(zone="a"), duration=20, noticed_after=3, evicted_after=5),
        RollOut(workload="shop/cart"),
        AddNodes(group=nodes(1)[0]),
        Drain(which=NodeSelection(nodes=("a-1",)), duration=5),
        RemoveNodes(which=NodeSelection(nodes=("b-1",))),
    )
    # A node has room for three pods: at times some wait.
    play = replace(play, nodes=nodes(1, 1, cpu=1_000), workloads=(a_workload(cpu=300, service=WorkloadService()),))
    asyncio.run(
        driver.play(
            play,
            LocalClient(registry),
            kinds=kinds,
            clock=time.clock,
            sleep=time.sleep,
            on_line=lines.append,
            until=120,
        )
    )
    assert not [line for line in lines if "refused" in line]

    def there(kind: str) -> list[Object]:
        return [record.object() for _, record in registry.store.records(kinds["v1", kind])]

    assert [node["metadata"]["name"] for node in there("Node")] == ["a-1", "a-2"]
    assert [is_ready(pod) for pod in there("Pod")] == [True] * 7
    assert {"FailedScheduling", "NodeNotReady", "Killing"} < {event["reason"] for event in there("Event")}


def test_a_faster_play_is_done_sooner_and_on_time() -> None:
    play = a_play(*(Scale(workload="shop/cart", replicas=number) for number in range(5)))
    time, told = Time(), list[tuple[float, str]]()
    asyncio.run(
        driver.play(
            replace(play, speed=100.0),
            Server(),
            kinds=KINDS,
            clock=time.clock,
            sleep=time.sleep,
            on_line=lambda line: told.append((round(time.now, 2), line)),
            until=60,
        )
    )
    assert [at for at, line in told if "scaled" in line] == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_events_name_the_object_that_they_are_about_by_its_uid() -> None:
    server = Server()
    run(a_play(), server, until=20)
    uids = {pod["metadata"]["uid"] for pod in server.pods()}
    about = {each["involvedObject"]["uid"] for (kind, _, _), each in server.objects.items() if kind == "Event"}
    assert about == uids


def test_a_pod_that_is_deleted_with_or_without_grace_is_replaced() -> None:
    server = Server()

    def delete(grace: int | None) -> None:
        name = next(pod["metadata"]["name"] for pod in server.pods() if "deletionTimestamp" not in pod["metadata"])
        server.delete(KINDS["v1", "Pod"], "shop", name, grace=grace)

    run(a_play(), server, at={12: lambda: delete(None), 20: lambda: delete(0)})
    assert [is_ready(pod) for pod in server.pods()] == [True] * 4


def test_an_annotation_on_the_service_scales_the_workload() -> None:
    server = Server()

    def annotate() -> None:
        server.objects["Service", "shop", "cart"]["metadata"]["annotations"] = {"zoneward.dev/replicas": "7"}

    lines, _ = run(a_play(), server, at={12: annotate})
    assert len(server.pods()) == 7
    assert lines[1].endswith("s: shop/cart is scaled to 7, as its Service says")


def test_what_is_there_already_is_taken_as_it_is() -> None:
    server = Server()
    run(a_play(), server, until=20)
    services = {key: thing for key, thing in server.objects.items() if key[0] in ("Service", "Namespace")}
    run(replace(a_play(), seed=2), server, until=20)
    assert {key: thing for key, thing in server.objects.items() if key[0] in ("Service", "Namespace")} == services
    assert len([pod for pod in server.pods() if is_ready(pod)]) == 8


def names(server: Server) -> set[str]:
    return {pod["metadata"]["name"] for pod in server.pods()}


def test_a_pod_that_got_no_room_at_first_keeps_its_name_when_it_gets_a_node() -> None:
    server, waiting = Server(), set[str]()
    play = a_play(AddNodes(group=nodes(1)[0]))
    lines, _ = run(replace(play, nodes=()), server, at={5: lambda: waiting.update(names(server))})
    assert [is_ready(pod) for pod in server.pods()] == [True] * 4
    assert names(server) == waiting
    assert not [line for line in lines if "refused" in line]


def test_a_pod_that_somebody_else_has_bound_meanwhile_makes_room_for_another() -> None:
    server, waiting = Server(), set[str]()
    bound = StatusError(409, "Conflict", "it is already assigned")
    server.refuse = lambda verb, _kind: bound if verb == "bind" else None
    play = a_play(AddNodes(group=nodes(1)[0]))
    lines, _ = run(replace(play, nodes=()), server, at={5: lambda: waiting.update(names(server))})
    assert [is_ready(pod) for pod in server.pods()] == [True] * 4
    assert len(waiting) == 4
    assert not names(server) & waiting
    assert len([line for line in lines if "already assigned" in line]) == 1


def test_a_conflict_is_tried_again() -> None:
    server = Server()
    refused: list[str] = []

    def refuse(verb: str, kind: str) -> StatusError | None:
        if verb in ("patch_status", "update") and len(refused) % 3 < 2:
            refused.append(verb)
            return modified(KINDS["v1", kind], "it")
        refused.append("")
        return None

    server.refuse = refuse
    run(a_play(), server)
    assert [is_ready(pod) for pod in server.pods()] == [True] * 4
    assert refused.count("patch_status") > 8


def test_a_conflict_that_never_ends_is_reported_and_does_not_end_the_play() -> None:
    server = Server()
    server.refuse = lambda verb, kind: modified(KINDS["v1", kind], "it") if verb == "patch_status" else None
    lines, _ = run(a_play(Scale(workload="shop/cart", replicas=6)), server)
    assert any(line.startswith("The server refused Pod cart-") and "has been modified" in line for line in lines)
    assert len(server.pods()) == 6


def test_a_namespace_that_is_deleted_is_reported_once_and_the_play_continues_when_it_is_back() -> None:
    server = Server()

    def gone(verb: str, kind: str) -> StatusError | None:
        return not_found(KINDS["v1", "Namespace"], "shop") if verb == "create" and kind == "Pod" else None

    def forbid() -> None:
        server.refuse = gone
        for key in [key for key in server.objects if key[0] == "Pod"]:
            del server.objects[key]

    def allow() -> None:
        server.refuse = lambda _verb, _kind: None

    lines, _ = run(a_play(), server, at={12: forbid, 30: allow})
    assert len([line for line in lines if "refused" in line]) == 1
    assert all(line.endswith('namespaces "shop" not found') for line in lines if "refused" in line)
    assert [is_ready(pod) for pod in server.pods()] == [True] * 4


def test_an_object_of_the_file_that_the_server_refuses_is_an_error_that_points() -> None:
    server = Server()
    server.refuse = lambda verb, kind: (
        invalid(KINDS["v1", kind], "web", []) if (verb, kind) == ("create", "Service") else None
    )
    thing = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}
    with pytest.raises(InputError, match=r'^a\.yaml: objects\[0\]: Service "web" is invalid'):
        run(replace(a_play(), source="a.yaml", objects=(thing,)), server)
