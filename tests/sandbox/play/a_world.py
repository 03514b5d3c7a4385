"""A server's objects as a play leaves them, and what must hold of them at all times."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

from zoneward.sandbox.durations import Span
from zoneward.sandbox.play.actions import Action, Bind, Create, Delete, Message, Patch, patched
from zoneward.sandbox.play.play_model import NodeGroup, Play, PlayStep, StepAction, Workload
from zoneward.sandbox.play.played_cluster import PlayedCluster

Object = dict[str, Any]
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ZONES = ("a", "b", "c")
CART = "shop/cart"
"""The one workload of `a_play`."""


def nodes(*counts: int, cpu: int = 4_000, pods: int = 110) -> tuple[NodeGroup, ...]:
    """So many in each zone; those of zone a are called ``a-1`` and so on."""
    return tuple(
        NodeGroup(name=zone, zone=zone, region="r", count=count, cpu=cpu, pods=pods)
        for zone, count in zip(ZONES, counts, strict=False)
        if count
    )


def a_workload(name: str = "cart", **fields: Any) -> Workload:
    return Workload(
        **{
            "name": name,
            "namespace": "shop",
            "labels": {"app": name},
            "startup": Span(2, 4),
            "termination": Span(1, 3),
            **fields,
        }
    )


def a_play(*happenings: StepAction, **fields: object) -> Play:
    """Six nodes in three zones, nine pods; what happens does so after 20, 40, ... seconds."""
    steps = tuple(PlayStep(at=20 * (i + 1), action=each) for i, each in enumerate(happenings))
    defaults: dict[str, object] = {"nodes": nodes(2, 2, 2), "workloads": (a_workload(replicas=9),), "steps": steps}
    return Play(**{**defaults, **fields})  # type: ignore[arg-type]


def cluster_of(play: Play) -> PlayedCluster:
    return PlayedCluster(play, Random(play.seed), start=START)


class World:
    """Takes actions, and no senseless ones: nothing is created twice, nothing is changed that is not there."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.lines: list[str] = []

    def take(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Message):
                self.lines.append(action.line)
                continue
            key = (action.kind, action.namespace, action.name)
            match action:
                case Create(thing=thing):
                    assert key not in self.objects, key
                    self.objects[key] = thing
                case Patch(patch=patch, is_status=is_status):
                    assert ("status" in patch) == is_status
                    self.objects[key] = patched(self.objects[key], patch)
                case Bind(node=node):
                    assert "nodeName" not in self.objects[key]["spec"], key
                    self.objects[key] = patched(self.objects[key], {"spec": {"nodeName": node}})
                case Delete(grace=grace):
                    if action.kind == "Node" or grace == 0:
                        del self.objects[key]
                    else:
                        assert "deletionTimestamp" not in self.objects[key]["metadata"], key
                        assert self.objects[key]["spec"]["nodeName"], key
                        self.objects[key] = patched(self.objects[key], {"metadata": {"deletionTimestamp": "then"}})

    def of(self, kind: str) -> list[Object]:
        return [thing for (each, _, _), thing in self.objects.items() if each == kind]

    def pods(self, workload: str = "") -> list[Object]:
        """Those that are not terminating."""
        return [
            pod
            for pod in self.of("Pod")
            if "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"].startswith(workload)
        ]

    def ready_pods(self, workload: str = "") -> list[Object]:
        return [pod for pod in self.pods(workload) if is_ready(pod)]

    def zones(self, workload: str = "") -> dict[str, int]:
        """Pods by zone."""
        zone_of = {node["metadata"]["name"]: node["metadata"]["name"].split("-")[0] for node in self.of("Node")}
        found = [zone_of[pod["spec"]["nodeName"]] for pod in self.pods(workload) if "nodeName" in pod["spec"]]
        return {zone: found.count(zone) for zone in sorted(set(found))}

    def check(self) -> None:
        """What holds at all times, whatever happens."""
        nodes_ = {node["metadata"]["name"]: node for node in self.of("Node")}
        addresses = [pod["status"]["podIP"] for pod in self.of("Pod") if "podIP" in pod.get("status", {})]
        assert len(addresses) == len(set(addresses))
        used: dict[str, int] = {}
        for pod in self.of("Pod"):
            on = pod["spec"].get("nodeName")
            if on is None:
                assert not is_ready(pod)
                continue
            assert on in nodes_, "a pod on a node that is no more"
            assert is_ready(nodes_[on]) or not is_ready(pod), "a ready pod on a silent node"
            assert "podIP" in pod.get("status", {}) or not is_ready(pod), "a ready pod without an address"
            used[on] = used.get(on, 0) + int(
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m")
            )
        for on, milli in used.items():
            assert milli <= 1000 * int(nodes_[on]["status"]["allocatable"]["cpu"]), "more than there is room for"


def is_ready(thing: Object) -> bool:
    return status_of(thing, "Ready") == "True"


def status_of(thing: Object, condition: str) -> str:
    """Empty where there is no such condition."""
    conditions = thing.get("status", {}).get("conditions", ())
    return next((each["status"] for each in conditions if each["type"] == condition), "")


def moments(cluster: PlayedCluster, *, until: float) -> Iterator[tuple[float, list[Action]]]:
    """Each time at which something is due, and what is."""
    while cluster.next is not None and cluster.next <= until:
        now = cluster.next
        yield now, cluster.advance(now)


def played(play: Play, *, until: float = 1_000) -> World:
    """As a play leaves it at that time; checked at every moment of it."""
    world = World()
    for _, actions in moments(cluster_of(play), until=until):
        world.take(actions)
        world.check()
    return world


def names(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.pods()}
