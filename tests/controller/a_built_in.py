"""A Service on a sandbox, a stand-in for the built-in controller, and a count of endpoints that are ever missing.

The stand-in keeps slices as current Kubernetes would and knows no Endpoints; the real thing is in ``e2e``.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.controller.a_controller import KEPT, LABELS, SandboxObjects, a_sandbox, plans_of
from tests.patience import PATIENCE

from zoneward.client.resources import SLICES
from zoneward.client.writer import encode_object
from zoneward.controller.handover.service_handover import HandoverTimeouts, ServiceHandover
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice
from zoneward.routing.configuration import Configuration
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.versioned_store import StoredChange

Object = dict[str, Any]
KEY = ("default", "cart")
NUMBER = 6


@dataclass
class Shop(SandboxObjects):
    """A Service with six Pods in three zones. ``missing``: what was ever missing of what should not be."""

    kubeconfig: Object
    missing: list[set[str]] = field(default_factory=list)
    steady: set[str] = field(default_factory=lambda: {f"10.0.0.{index}" for index in range(NUMBER)})
    reports: list[str] = field(default_factory=list)
    lets_go: bool = True
    runs: bool = True
    _seen: int = -1

    def adopting(self, **options: Any) -> ServiceHandover:
        seconds = {"total": PATIENCE, "settling": 0.1, "still": 0.0, "rest": 0.0}
        timeouts = HandoverTimeouts(**{name: options.pop(name, default) for name, default in seconds.items()})
        return ServiceHandover(
            self.link, KEY, configuration=Configuration(), report=self.reports.append, timeouts=timeouts, **options
        )

    def words(self) -> tuple[Object, ...]:
        """What people wrote of the Service."""
        service = self.registry.find("services", *KEY)
        assert service is not None
        metadata = service["metadata"]
        return metadata.get("labels") or {}, metadata.get("annotations") or {}, service["spec"]

    def slices(self, manager: str) -> list[Object]:
        return [
            object_
            for object_ in self.objects(KEPT)
            if object_["metadata"]["labels"][names.MANAGED_BY_LABEL] == manager
        ]

    def touch_slice(self, name: str) -> None:
        """Give it another version, with the same endpoints."""
        touched = {"annotations": {"touched": str(self.registry.store.version)}}
        self.change(KEPT, KEY[0], name, lambda old: old | {"metadata": old["metadata"] | touched})

    def change_service(self, change: Any) -> None:
        self.change("services", *KEY, change)

    def note(self, kind: Kind, _change: StoredChange) -> None:
        if kind.resource == KEPT and (gone := self.steady - self.listed()):
            self.missing.append(gone)

    # --- the built-in controller --------------------------------------------------------------------------------------

    async def work(self) -> None:
        while True:
            await asyncio.sleep(0.005)
            if self.runs and self._seen != self.registry.store.version:
                self.sync()
                self._seen = self.registry.store.version

    async def quiet(self) -> None:
        """The built-in controller has seen all that happened."""
        while self._seen != self.registry.store.version:
            await asyncio.sleep(0.005)

    def sync(self) -> None:
        def objects(resource: str) -> list[Object]:
            return [self._service()] if resource == "services" else self.objects(resource)

        def written(slice_: EndpointSlice) -> Object:
            object_: Object = msgspec.json.decode(encode_object(SLICES, slice_))
            return object_

        kind, key = self.registry.kinds[KEPT], KEY[0]
        for plan in plans_of(objects, Configuration().as_upstream()):
            for family in plan.families:
                for changed in family.changes.create:
                    self.store.create(kind, key, written(changed))
                for changed in family.changes.update:
                    self.store.update(kind, key, changed.metadata.name, lambda _old, changed=changed: written(changed))  # type: ignore[misc]
                for changed in family.changes.delete:
                    self.store.delete(kind, key, changed.metadata.name)

    def _service(self) -> Object:
        """The Service as the stand-in controller sees it. It may keep syncing a Service whose selector was removed."""
        result = self.registry.find("services", *KEY) or {"metadata": {}, "spec": {}}
        return result if self.lets_go else result | {"spec": {"selector": LABELS} | result["spec"]}


@asynccontextmanager
async def a_shop(*faults: str) -> AsyncIterator[Shop]:
    """In which the built-in controller has all in its slices; nothing may ever be missing."""
    async with a_sandbox(*faults) as (registry, server, link):
        shop = Shop(registry, link, server.kubeconfig())
        for zone in "abc":
            shop.node(f"node-{zone}", zone)
        for index in range(NUMBER):
            shop.pod(index, node=f"node-{'abc'[index % 3]}")
        shop.service(annotations={"a": "b"})
        shop.sync()
        assert shop.listed() == shop.steady
        registry.store.listeners.append(shop.note)
        work = asyncio.create_task(shop.work())
        try:
            yield shop
            assert shop.missing == []
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
