"""The API of a sandbox without HTTP, for tests that write in its process."""

from collections.abc import Callable
from typing import Any

from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.resource_registry import DeleteOptions, Registry, Write
from zoneward.sandbox.server.schema import decode

Object = dict[str, Any]


class LocalClient:
    """All methods raise StatusError."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def create(self, kind: Kind, namespace: str, obj: Object) -> Object:
        known, _ = decode(obj, kind, validation="Ignore")
        return self._registry.create(kind, namespace, known).object

    def patch_status(self, kind: Kind, namespace: str, name: str, change: Callable[[Object], Object]) -> Object:
        return self._registry.update(kind, namespace, name, change, Write(subresource="status")).object

    def update(self, kind: Kind, namespace: str, name: str, change: Callable[[Object], Object]) -> Object:
        return self._registry.update(kind, namespace, name, change).object

    def delete(self, kind: Kind, namespace: str, name: str, *, grace: int | None = None) -> None:
        self._registry.delete(kind, namespace, name, DeleteOptions(grace_period_seconds=grace))

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return self._registry.get(kind, namespace, name)
