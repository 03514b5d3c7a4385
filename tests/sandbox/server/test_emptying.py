"""A namespace that ends takes all that is in it along, in portions, and is looked at no more often than needed."""

import pytest

from zoneward.sandbox.server import garbage_collector as module
from zoneward.sandbox.server.garbage_collector import GarbageCollector
from zoneward.sandbox.server.persistence import a_namespace, new_registry
from zoneward.sandbox.server.resource_registry import Deletion, LocalClient, Registry

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
COUNT = 23


class Namespace:
    """With so many Leases in it, of which some wait for somebody."""

    def __init__(self, *, waiting: int = 0) -> None:
        self.registry: Registry = new_registry()
        self.garbage = GarbageCollector(self.registry)
        self.leases, self.namespaces = (
            self.registry.kinds[name] for name in ("leases.coordination.k8s.io", "namespaces")
        )
        self.inside = LocalClient(self.registry)
        self.inside.create(self.namespaces, "", a_namespace("full"))
        for number in range(COUNT):
            metadata = {"name": f"lease-{number}", "finalizers": ["a.example/b"] if number < waiting else []}
            self.inside.create(self.leases, "full", LEASE | {"metadata": metadata})

    def end(self) -> None:
        self.registry.delete(self.namespaces, "", "full", Deletion())

    @property
    def count(self) -> int:
        return self.registry.store.count(self.leases)

    @property
    def is_there(self) -> bool:
        return self.registry.find("namespaces", "", "full") is not None


def test_many_objects_go_in_portions_and_then_the_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 10)
    full = Namespace()
    full.end()
    counts = []
    while full.is_there:
        counts.append(full.count)
        assert not full.garbage.is_idle
        full.garbage.collect(most=1)
    assert counts[:3] == [23, 13, 3]
    assert full.count == 0


def test_however_many_objects_go_the_namespace_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Namespace(waiting=COUNT)
    full.end()
    while not full.garbage.is_idle:
        full.garbage.collect()
    assert (full.is_there, full.count) == (True, COUNT)
    for number in range(COUNT):
        name = f"lease-{number}"
        full.inside.update(
            full.leases, "full", name, lambda old: old | {"metadata": old["metadata"] | {"finalizers": []}}
        )
    looks: list[str] = []
    look = GarbageCollector._empty

    def counted(self: GarbageCollector, namespace: str) -> None:
        looks.append(namespace)
        look(self, namespace)

    monkeypatch.setattr(GarbageCollector, "_empty", counted)
    full.garbage.collect()
    assert looks == ["full"]
    assert not full.is_there
