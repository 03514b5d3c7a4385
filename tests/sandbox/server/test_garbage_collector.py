"""What goes by itself when its owner goes, without HTTP."""

from typing import Any

import pytest

from zoneward.sandbox.server.garbage_collector import GarbageCollector
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Deletion, LocalClient

Object = dict[str, Any]


class Owners:
    """Services in one namespace that own each other."""

    def __init__(self) -> None:
        self.registry = new_registry()
        self.services = self.registry.kinds["services"]
        self.garbage = GarbageCollector(self.registry)
        self.inside = LocalClient(self.registry)

    def add(self, *names: str) -> None:
        for name in names:
            metadata = {"name": name, "namespace": "default"}
            thing = {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
            self.inside.create(self.services, "default", thing)

    def own(self, name: str, *owners: Object | str, blocks: bool = True, finalizers: tuple[str, ...] = ()) -> None:
        """From now on these own it, and no others."""
        references = [self.reference(each, blocks=blocks) if isinstance(each, str) else each for each in owners]

        def changed(thing: Object) -> Object:
            return thing | {
                "metadata": thing["metadata"] | {"ownerReferences": references, "finalizers": list(finalizers)}
            }

        self.inside.update(self.services, "default", name, changed)

    def reference(self, name: str, *, blocks: bool = True) -> Object:
        metadata = self.inside.get(self.services, "default", name)["metadata"]
        named = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": metadata["uid"]}
        return named | {"blockOwnerDeletion": True} if blocks else named

    def delete(self, name: str) -> None:
        self.registry.delete(self.services, "default", name, Deletion())

    def collect(self) -> None:
        """Until there is nothing to do, which must come soon."""
        for _ in range(20):
            if self.garbage.is_idle:
                return
            self.garbage.collect()
        raise AssertionError("it never comes to an end")

    @property
    def left(self) -> str:
        names = [key[1] for key, _ in self.registry.store.records(self.services, namespace="default")]
        return " ".join(name for name in names if name != "kubernetes")

    def owners_of(self, name: str) -> list[str]:
        metadata = self.inside.get(self.services, "default", name)["metadata"]
        return [owner["name"] for owner in metadata.get("ownerReferences", ())]


@pytest.fixture
def owners() -> Owners:
    return Owners()


def test_dependents_of_dependents_go_as_well(owners: Owners) -> None:
    owners.add("a", "b", "c", "d", "other")
    owners.own("b", "a")
    owners.own("c", "b")
    owners.own("d", "b", blocks=False)
    owners.collect()
    owners.delete("a")
    owners.collect()
    assert owners.left == "other"


def test_a_circle_of_owners_ends(owners: Owners) -> None:
    """As a real server's collector breaks it; what is orphaned is out of the circle."""
    owners.add("a", "b", "c")
    owners.own("b", "a")
    owners.own("c", "b")
    owners.own("a", "c")
    owners.collect()
    assert owners.left == "a b c"
    owners.delete("a")
    owners.collect()
    assert owners.left == ""


def test_what_has_another_owner_stays_with_that(owners: Owners) -> None:
    owners.add("a", "b", "c")
    owners.own("c", "a", "b")
    owners.delete("a")
    owners.collect()
    assert (owners.left, owners.owners_of("c")) == ("b c", ["b"])
    owners.delete("b")
    owners.collect()
    assert owners.left == ""


def test_owners_of_kinds_that_are_not_served_count_as_there(owners: Owners) -> None:
    owners.add("a", "b")
    replicas = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "none"}
    owners.own("a", replicas)
    owners.own("b", replicas | {"apiVersion": "v1", "kind": "Service"})
    owners.collect()
    assert owners.left == "a"


def test_another_of_the_owners_name_is_not_the_owner(owners: Owners) -> None:
    owners.add("a", "b")
    owners.own("b", "a")
    owners.delete("a")
    owners.add("a")
    owners.collect()
    assert owners.left == "a"


def test_a_namespace_goes_after_all_that_is_in_it(owners: Owners) -> None:
    namespaces = owners.registry.kinds["namespaces"]
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "n"}}
    owners.inside.create(namespaces, "", namespace)
    lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1"}
    metadata = {"name": "held", "finalizers": ["example.com/wait"]}
    leases = owners.registry.kinds["leases.coordination.k8s.io"]
    owners.inside.create(leases, "n", lease | {"metadata": {"name": "free"}})
    owners.inside.create(leases, "n", lease | {"metadata": metadata})
    owners.inside.delete(namespaces, "", "n")
    owners.collect()
    assert [key for key, _ in owners.registry.store.records(leases)] == [("n", "held")]
    assert owners.registry.find("namespaces", "", "n") is not None
    owners.inside.update(
        leases, "n", "held", lambda thing: thing | {"metadata": thing["metadata"] | {"finalizers": []}}
    )
    owners.collect()
    assert owners.registry.find("namespaces", "", "n") is None
