"""The garbage collector deletes dependents and pods, beyond what tests/contract proves of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.sandbox.server.local_client import LocalClient

from zoneward.sandbox.server.garbage_collector import GarbageCollector, PodTerminator
from zoneward.sandbox.server.persistence import new_registry

Object = dict[str, Any]


def with_metadata(obj: Object, **fields: object) -> Object:
    return obj | {"metadata": obj["metadata"] | fields}


class Owners:
    """Services in one namespace that own each other."""

    def __init__(self) -> None:
        self.registry = new_registry()
        self.services = self.registry.kinds["services"]
        self.garbage = GarbageCollector(self.registry)
        self.inside = LocalClient(self.registry)

    def add(self, *names: str) -> None:
        for name in names:
            service = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
            self.inside.create(self.services, "default", service)

    def own(self, name: str, *owners: Object | str) -> None:
        """From now on these own it, and no others."""
        references = [self.reference(owner) if isinstance(owner, str) else owner for owner in owners]
        self.inside.update(self.services, "default", name, lambda obj: with_metadata(obj, ownerReferences=references))

    def reference(self, name: str) -> Object:
        metadata = self.inside.get(self.services, "default", name)["metadata"]
        return {"apiVersion": "v1", "kind": "Service", "name": name, "uid": metadata["uid"]}

    def delete(self, name: str) -> None:
        self.registry.delete(self.services, "default", name)

    @property
    def left(self) -> str:
        """When the collector has nothing to do any more, which must come soon."""
        for _ in range(20):
            self.garbage.collect()
        assert self.garbage.is_idle
        names = [key[1] for key, _ in self.registry.store.records(self.services, namespace="default")]
        return " ".join(name for name in names if name != "kubernetes")


@pytest.fixture
def owners() -> Owners:
    return Owners()


def test_dependents_of_dependents_are_deleted_even_in_a_cycle(owners: Owners) -> None:
    owners.add("a", "b", "c", "d", "other")
    owners.own("b", "a")
    owners.own("c", "b")
    owners.own("d", "b")
    owners.own("a", "c")
    assert owners.left == "a b c d other"
    owners.delete("a")
    assert owners.left == "other"


def test_owners_of_unserved_kinds_count_as_existing(owners: Owners) -> None:
    owners.add("a", "b")
    replicas = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "none"}
    owners.own("a", replicas)
    owners.own("b", replicas | {"apiVersion": "v1", "kind": "Service"})
    assert owners.left == "a"


def test_another_of_the_owners_name_is_not_the_owner(owners: Owners) -> None:
    owners.add("a", "b")
    owners.own("b", "a")
    owners.delete("a")
    owners.add("a")
    assert owners.left == "a"


class Pods:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.registry = new_registry(now=lambda: self.now)
        self.kind = self.registry.kinds["pods"]
        self.ending = PodTerminator(self.registry)
        self.inside = LocalClient(self.registry)

    def add(self, name: str, *, node: str = "n", finalizers: tuple[str, ...] = ()) -> None:
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        self.inside.create(
            self.kind, "default", {"metadata": {"name": name, "finalizers": list(finalizers)}, "spec": spec}
        )

    def delete(self, name: str, *, grace: int | None = None) -> None:
        self.inside.delete(self.kind, "default", name, grace=grace)

    def wait(self, seconds: float) -> str:
        """The names that are left after so long."""
        self.now += timedelta(seconds=seconds)
        self.ending.end_pods()
        return " ".join(key[1] for key, _ in self.registry.store.records(self.kind))


@pytest.fixture
def pods() -> Pods:
    return Pods()


@pytest.mark.parametrize("is_shortened", [False, True])
def test_pod_ends_after_two_seconds_or_its_shorter_grace_period(pods: Pods, *, is_shortened: bool) -> None:
    """Be that given at once, or later, after that of another pod."""
    pods.add("a")
    pods.add("b")
    pods.delete("b")
    if is_shortened:
        pods.delete("a")
    pods.delete("a", grace=1)
    assert pods.wait(0.9) == "a b"
    assert pods.wait(0.1) == "b"
    assert pods.wait(0.9) == "b"
    assert pods.wait(0.1) == ""


def test_pod_without_node_or_grace_is_deleted_at_once_but_not_a_new_pod_of_its_name(pods: Pods) -> None:
    pods.add("a", node="")
    pods.add("b")
    pods.delete("a")
    pods.delete("b")
    pods.delete("b", grace=0)
    assert pods.wait(0) == ""
    pods.add("b")
    assert pods.wait(100) == "b"


def test_pod_is_deleted_with_its_last_finalizer(pods: Pods) -> None:
    pods.add("a", finalizers=("example.com/wait",))
    pods.delete("a")
    assert pods.wait(100) == "a"
    pods.inside.update(pods.kind, "default", "a", lambda obj: with_metadata(obj, finalizers=[]))
    assert pods.wait(0) == ""


def test_terminating_pod_from_a_file_is_kept(pods: Pods) -> None:
    times = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    registry = new_registry(now=lambda: pods.now)
    registry.restore(registry.kinds["pods"], {"metadata": {"name": "a", **times}, "spec": {"nodeName": "n"}})
    ending = PodTerminator(registry)
    pods.now += timedelta(seconds=100)
    ending.end_pods()
    assert registry.find("pods", "default", "a") is not None
