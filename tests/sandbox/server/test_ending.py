"""Deleted pods end by themselves, by the clock."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import LocalClient
from zoneward.sandbox.server.sandbox_server import PodTerminator

Object = dict[str, Any]


class Pods:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.registry = new_registry(now=lambda: self.now)
        self.kind = self.registry.kinds["pods"]
        self.ending = PodTerminator(self.registry)
        self.inside = LocalClient(self.registry)

    def add(self, name: str, *, node: str = "n", finalizers: tuple[str, ...] = ()) -> None:
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        metadata: Object = {"name": name, "finalizers": list(finalizers)}
        thing = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
        self.inside.create(self.kind, "default", thing)

    def delete(self, name: str, *, grace: int | None = None) -> None:
        self.inside.delete(self.kind, "default", name, grace=grace)

    def wait(self, seconds: float) -> str:
        """The names that are left after so long."""
        self.now += timedelta(seconds=seconds)
        self.ending.end_pods()
        return self.left

    @property
    def left(self) -> str:
        return " ".join(key[1] for key, _ in self.registry.store.records(self.kind))


@pytest.fixture
def pods() -> Pods:
    return Pods()


def test_a_pod_ends_two_seconds_after_its_deletion(pods: Pods) -> None:
    pods.add("a")
    pods.add("b")
    assert pods.wait(100) == "a b"
    pods.delete("a")
    assert pods.wait(1.9) == "a b"
    assert pods.wait(0.1) == "b"


@pytest.mark.parametrize("is_shortened", [False, True])
def test_it_does_not_take_longer_than_its_grace(pods: Pods, *, is_shortened: bool) -> None:
    """Be that given at once, or later, after that of another pod."""
    pods.add("a")
    pods.add("b")
    pods.delete("b")
    if is_shortened:
        pods.delete("a")
    pods.delete("a", grace=1)
    assert pods.wait(0.9) == "a b"
    assert pods.wait(0.1) == "b"
    assert pods.wait(1) == ""


def test_a_pod_that_runs_nowhere_or_has_no_grace_is_gone_at_once(pods: Pods) -> None:
    pods.add("a", node="")
    pods.add("b")
    pods.delete("a")
    pods.delete("b", grace=0)
    assert pods.left == ""


def test_another_pod_of_the_name_is_left_alone(pods: Pods) -> None:
    pods.add("a")
    pods.delete("a")
    pods.delete("a", grace=0)
    pods.add("a")
    assert pods.wait(100) == "a"


def test_a_pod_with_finalizers_goes_with_the_last_of_them(pods: Pods) -> None:
    pods.add("a", finalizers=("example.com/wait",))
    pods.delete("a")
    assert pods.wait(100) == "a"

    def without(thing: Object) -> Object:
        return thing | {"metadata": thing["metadata"] | {"finalizers": []}}

    pods.inside.update(pods.kind, "default", "a", without)
    assert pods.left == ""


def test_a_pod_that_ends_in_a_file_stays(pods: Pods) -> None:
    times = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    thing = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", **times}, "spec": spec}
    registry = new_registry(now=lambda: pods.now)
    registry.restore(registry.kinds["pods"], thing)
    ending = PodTerminator(registry)
    pods.now += timedelta(seconds=100)
    ending.end_pods()
    assert registry.find("pods", "default", "a") is not None
