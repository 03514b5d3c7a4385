"""A sandbox in the benchmark's process, which replaces endpoints of slices and records the time of each change; and
Zoneward's proxy of one node beside it."""

import asyncio
import gc
import itertools
import json
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import msgspec

from bench.processes import peak_of
from bench.proxies import Zoneward
from bench.proxy_cluster import NAMESPACE, Object, pod_address
from zoneward.netlink.messages import GENERIC, attributes, messages
from zoneward.netlink.nftables import DEL_ELEMENTS, ELEMENTS, KEY, NEW_ELEMENTS, NEW_GENERATION, SET, SUBSYSTEM
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.persistence import load_objects, new_registry
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer
from zoneward.sandbox.server.versioned_store import StoredChange

PAUSE: Final = 0.01
"""Seconds between two changes."""
_NETFILTER: Final = 12
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_NFTABLES: Final = 7
_SO_RCVBUFFORCE: Final = 33
_ROOM: Final = 64 << 20
_NEW_GENERATION: Final = SUBSYSTEM << 8 | NEW_GENERATION
_OF_ELEMENTS: Final = frozenset((SUBSYSTEM << 8 | NEW_ELEMENTS, SUBSYSTEM << 8 | DEL_ELEMENTS))
_SLICES: Final = "endpointslices.discovery.k8s.io"


class KernelEvents:
    """The times at which the kernel applies changes of rules, from its notifications.

    Used as a context manager, in the event loop's thread and in the network namespace of the rules.
    """

    def __init__(self) -> None:
        self._awaited: dict[bytes, asyncio.Future[float]] = {}
        self.transactions = 0
        self.elements: set[tuple[bytes, bytes]] | None = None
        """The elements that changed, by set and key, if the caller gave a set for them."""

    def __enter__(self) -> Self:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETFILTER)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
        self._socket.bind((0, 0))
        self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, _NFTABLES)
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def awaited(self, address: str) -> asyncio.Future[float]:
        """The moment (``time.perf_counter``) at which an IPv4 address is first in the rules."""
        future = self._awaited[socket.inet_aton(address)] = asyncio.get_running_loop().create_future()
        return future

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv(1 << 20)
            except BlockingIOError:
                return
            now = time.perf_counter()
            for address in [awaited for awaited in self._awaited if awaited in data]:
                future = self._awaited.pop(address)
                if not future.done():
                    future.set_result(now)
            for kind, body in messages(data):
                self.transactions += kind == _NEW_GENERATION
                if self.elements is not None and kind in _OF_ELEMENTS:
                    self.elements.update(_changed(body))


def _changed(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    fields = dict(attributes(body, GENERIC.size))
    for _, element in attributes(fields[ELEMENTS]):
        yield fields[SET], dict(attributes(element))[KEY]


class ChangingServer:
    """`replace` replaces an endpoint by a new one; each address is used once."""

    def __init__(self, registry: Registry, *, first_pod: int) -> None:
        self._registry, self._kind = registry, registry.kinds[_SLICES]
        self._pods = itertools.count(first_pod)
        self._had = 0.0
        registry.store.listeners.append(self._note)

    def new_address(self) -> str:
        return pod_address(next(self._pods) % (1 << 20))

    def replace(self, slice_: str, index: int, address: str) -> float:
        """The moment (``time.perf_counter``) at which the server had the change and had not sent it yet."""

        def change(endpoints: list[Object]) -> None:
            endpoints[index] = endpoints[index] | {"addresses": [address]}

        return self.change(slice_, change)

    def change(self, slice_: str, change: Callable[[list[Object]], None]) -> float:
        """As `replace`; ``change`` is given a copy of the slice's endpoints."""

        def changed(slice_object: Object) -> Object:
            endpoints = list(slice_object["endpoints"])
            change(endpoints)
            return slice_object | {"endpoints": endpoints}

        self._registry.update(self._kind, NAMESPACE, slice_, changed)
        return self._had

    def _note(self, kind: Kind, _change: StoredChange) -> None:
        if kind is self._kind:
            self._had = time.perf_counter()


@dataclass(frozen=True, slots=True)
class ProxiedNode:
    """A proxy whose kernel has everything, with the line of its log and the metrics that say so; its CPU and peak
    memory of the start are those of both processes."""

    server: ChangingServer
    proxy: Zoneward
    kernel: KernelEvents
    started: dict[str, Any]
    metrics: dict[str, float]
    start_cpu: float
    start_peak: float

    async def replace(self, slice_: str, index: int) -> float:
        """Seconds from the server's change of an endpoint until the kernel has it."""
        address = self.server.new_address()
        seen = self.kernel.awaited(address)
        had = self.server.replace(slice_, index, address)
        return await asyncio.wait_for(seen, 30) - had

    async def replace_many(self, count: int, *, services: int, endpoints: int) -> list[float]:
        """The same for random endpoints of random Services, one after the other."""
        drawn, seconds = random.Random(1), []
        for _ in range(count):
            service = drawn.randrange(services)
            seconds.append(await self.replace(f"service-{service}-0", drawn.randrange(endpoints)))
            # The proxy handles each change separately.
            await asyncio.sleep(PAUSE)
        return seconds


@asynccontextmanager
async def proxied_node(objects: Iterable[Object]) -> AsyncIterator[ProxiedNode]:
    """Objects number their Pods from 0. Needs a separate network namespace."""
    registry, items = new_registry(), list(objects)
    pods = sum(len(item.get("endpoints", ())) for item in items)
    load_objects(registry, [("the cluster", msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))])
    del items
    # The server's garbage collection is not part of the measurement.
    gc.collect()
    gc.freeze()
    gc.disable()
    async with SandboxServer(registry) as server:
        with TemporaryDirectory() as name:
            kubeconfig = Path(name, "kubeconfig.json")
            kubeconfig.write_text(json.dumps(server.kubeconfig()))
            with Zoneward(kubeconfig, Path(name)) as proxy:
                started = await asyncio.to_thread(proxy.until_programmed)
                cpu, peak = proxy.cpu, peak_of(*proxy.pids)
                metrics = await asyncio.to_thread(proxy.metrics)
                await asyncio.sleep(1.0)
                with KernelEvents() as kernel:
                    changing = ChangingServer(registry, first_pod=pods)
                    yield ProxiedNode(changing, proxy, kernel, started, metrics, cpu, peak)
