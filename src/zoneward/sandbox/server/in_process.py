"""The registry as those see it who are in this process: they write as a controller would, without HTTP."""

from collections.abc import Callable
from typing import Any

from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.registry import Deletion, Registry, Write
from zoneward.sandbox.server.schema import decode

Object = dict[str, Any]


class InProcess:
    """All methods raise Refusal."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def create(self, kind: Kind, namespace: str, thing: Object, *, manager: str) -> Object:
        known, _ = decode(thing, kind, validation="Ignore")
        return self._registry.create(kind, namespace, known, Write(manager=manager)).object

    def patch_status(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], Object], *, manager: str
    ) -> Object:
        return self._registry.update(kind, namespace, name, change, Write(manager=manager, subresource="status")).object

    def update(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], Object], *, manager: str
    ) -> Object:
        return self._registry.update(kind, namespace, name, change, Write(manager=manager)).object

    def bind(self, kind: Kind, namespace: str, name: str, *, node: str) -> None:
        """Put a pod on a node, as a scheduler does."""
        (action,) = (each for each in kind.actions if each.name == "binding")
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self._registry.act(kind, namespace, name, action, binding, Write(manager="kube-scheduler"))

    def delete(self, kind: Kind, namespace: str, name: str, *, grace: int | None = None) -> None:
        self._registry.delete(kind, namespace, name, Deletion(grace=grace))

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return self._registry.get(kind, namespace, name)
