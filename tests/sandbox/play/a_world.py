"""The objects of a server during a play, and their invariants."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from zoneward.sandbox.play.play_file import NodeGroup, Play, Step, Workload
from zoneward.sandbox.play.played_cluster import PlayedCluster
from zoneward.sandbox.play.timeline import Action, Create, Delete, Key, Patch
from zoneward.sandbox.server.patches import strategic_merge_patch
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.schema import type_of

Object = dict[str, Any]
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ZONES = ("a", "b", "c")
CART = "shop/cart"
"""The one workload of `a_play`."""
_KINDS = {kind.kind: kind for kind in new_registry().kinds.values()}


def nodes(*counts: int, cpu: int = 4_000) -> tuple[NodeGroup, ...]:
    """Node groups with these counts by zone; nodes of zone a are ``a-1`` and so on."""
    counted = zip(ZONES, counts, strict=False)
    return tuple(NodeGroup(zone=zone, count=count, cpu=cpu) for zone, count in counted if count)


def a_workload(name: str = "cart", **fields: Any) -> Workload:
    return Workload(**{"name": name, "namespace": "shop", "startup": "2s-4s", "termination": "1s-3s", **fields})


def a_play(*actions: dict[str, Any], **fields: Any) -> Play:
    """Six nodes in three zones, nine pods, and an action every 20 seconds."""
    steps = tuple(Step(at=20 * step, **action) for step, action in enumerate(actions, start=1))
    defaults = {"nodes": nodes(2, 2, 2), "workloads": (a_workload(replicas=9),), "steps": steps}
    return Play(api_version="zoneward.dev/v1alpha1", kind="Play", **{**defaults, **fields})


def cluster_of(play: Play) -> PlayedCluster:
    return PlayedCluster(play, start=START)


class World:
    """Applies actions; fails for duplicate creations and for changes of missing objects."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.lines: list[str] = []

    def take(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case str():
                    self.lines.append(action)
                case Create(key=key, obj=obj):
                    assert key not in self.objects, key
                    self.objects[key] = obj
                case Patch(key=key, patch=patch):
                    self._patch(key, patch)
                case Delete(key=key, grace=None) if key[0] == "Pod":
                    assert "deletionTimestamp" not in self.objects[key]["metadata"], key
                    self._patch(key, {"metadata": {"deletionTimestamp": "then"}})
                case Delete(key=key):
                    del self.objects[key]

    def _patch(self, key: Key, patch: Object) -> None:
        self.objects[key] = strategic_merge_patch(self.objects[key], patch, type_of(_KINDS[key[0]]))

    def of(self, kind: str) -> list[Object]:
        return [obj for (obj_kind, _, _), obj in self.objects.items() if obj_kind == kind]

    def pods(self, workload: str = "") -> list[Object]:
        """Pods that are not terminating."""
        pods = [pod for pod in self.of("Pod") if pod["metadata"]["name"].startswith(workload)]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def ready_pods(self) -> list[Object]:
        return [pod for pod in self.pods() if is_ready(pod)]

    def names(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.pods()}

    def zones(self) -> dict[str, int]:
        """Pods by zone."""
        zones = [pod["spec"]["nodeName"][0] for pod in self.pods()]
        return {zone: zones.count(zone) for zone in sorted(set(zones))}

    def check(self) -> None:
        """Check the invariants."""
        known = {node["metadata"]["name"]: node for node in self.of("Node")}
        addresses = [pod["status"]["podIP"] for pod in self.of("Pod") if "podIP" in pod.get("status", {})]
        assert len(addresses) == len(set(addresses))
        used = dict.fromkeys(known, 0)
        for pod in self.of("Pod"):
            on = pod["spec"]["nodeName"]
            assert on in known, "a pod on a node that is no more"
            assert is_ready(known[on]) or not is_ready(pod), "a ready pod on a silent node"
            assert "podIP" in pod.get("status", {}) or not is_ready(pod), "a ready pod without an address"
            cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            used[on] += int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)
        for on, milli in used.items():
            assert milli <= 1000 * int(known[on]["status"]["allocatable"]["cpu"]), "more than there is room for"


def is_ready(obj: Object) -> bool:
    return bool(condition(obj, "Ready")["status"] == "True")


def condition(obj: Object, kind: str) -> Object:
    conditions = obj.get("status", {}).get("conditions", ())
    return next((condition_ for condition_ in conditions if condition_["type"] == kind), {"status": ""})


def moments(cluster: PlayedCluster, *, until: float) -> Iterator[tuple[float, list[Action]]]:
    """The times at which actions are due, with these actions."""
    while (now := cluster.timeline.next) is not None and now <= until:
        yield now, cluster.timeline.run(now)


def played(play: Play, *, until: float = 1_000) -> World:
    """The objects of a play at a time, with invariants checked at all earlier times."""
    world = World()
    for _, actions in moments(cluster_of(play), until=until):
        world.take(actions)
        world.check()
    return world
