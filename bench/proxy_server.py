"""A sandbox in the benchmark's process, which replaces endpoints of slices and records the time of each change."""

import gc
import itertools
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.controllers import kubeconfig_of
from bench.proxy_cluster import NAMESPACE, Object, pod_address
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.object_store import StoredChange
from zoneward.sandbox.server.persistence import load_objects, new_registry
from zoneward.sandbox.server.resource_registry import LocalClient, Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

_SLICES: Final = "endpointslices.discovery.k8s.io"


class ChangingServer:
    """`replace` puts a new endpoint into the place of another one; each address is used once."""

    def __init__(self, registry: Registry, kubeconfig: Path, *, first_pod: int) -> None:
        self.kubeconfig: Final = kubeconfig
        self._store, self._kind = LocalClient(registry), registry.kinds[_SLICES]
        self._pods = itertools.count(first_pod)
        self._had = 0.0
        registry.store.listeners.append(self._note)

    def new_address(self) -> str:
        return pod_address(next(self._pods) % (1 << 20))

    def replace(self, slice_: str, place: int, address: str) -> float:
        """The moment (``time.perf_counter``) at which the server had the change and had not sent it yet."""

        def change(thing: Object) -> Object:
            endpoints = list(thing["endpoints"])
            endpoints[place] = endpoints[place] | {"addresses": [address]}
            return thing | {"endpoints": endpoints}

        return self.change(slice_, change)

    def change(self, slice_: str, change: Any) -> float:
        self._store.update(self._kind, NAMESPACE, slice_, change)
        return self._had

    def _note(self, kind: Kind, _change: StoredChange) -> None:
        if kind is self._kind:
            self._had = time.perf_counter()


@asynccontextmanager
async def serving(objects: Iterable[Object], folder: Path, *, first_pod: int) -> AsyncIterator[ChangingServer]:
    registry = new_registry()
    thing = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    load_objects(registry, [("the cluster", msgspec.json.encode(thing))])
    del thing
    # The server's garbage collection is not part of the measurement.
    gc.collect()
    gc.freeze()
    gc.disable()
    async with SandboxServer(registry) as server:
        yield ChangingServer(registry, kubeconfig_of(server.address, folder), first_pod=first_pod)
