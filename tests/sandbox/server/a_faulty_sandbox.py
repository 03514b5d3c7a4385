"""A sandbox with faults that can be ended, the real client on it over HTTP, and a cache that follows it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from tests.sandbox.server.server_past import Past, Told

from zoneward.client.api_errors import CallFailed
from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
from zoneward.client.informer_cache import InformerCache
from zoneward.client.informers import run_informers
from zoneward.client.reflector import ReflectorRuntime, ReflectorSettings
from zoneward.client.resources import CACHED_RESOURCES
from zoneward.client.transport import Transport
from zoneward.client.transport_interface import ServerFeatures
from zoneward.sandbox.server.beginning import begun
from zoneward.sandbox.server.faults import Fault, Faults, RequestFault, WatchFault
from zoneward.sandbox.server.filling import a_namespace
from zoneward.sandbox.server.in_process import InProcess
from zoneward.sandbox.server.serving import Serving

QUICK: Final = ReflectorSettings(watch=0.3, silence=0.08)
BOOKMARKS: Final = 0.03
NAMESPACES: Final = ("n1", "n2")
PAGE: Final = 5
DEADLINE: Final = 20.0
_HASTE: Final = 100
"""How much shorter all pauses are; those that a 429 asks for, too."""


async def hurried(seconds: float) -> None:
    await asyncio.sleep(seconds / _HASTE)


class Passing(Faults):
    """Faults that can be over, and that count whom they met."""

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        super().__init__(faults, seed)
        self.is_over = False
        self.met: set[str] = set()

    def on_request(
        self, method: str, path: str, *, is_watch: bool = False, is_continued: bool = False
    ) -> RequestFault | None:
        if self.is_over:
            return None
        fault = super().on_request(method, path, is_watch=is_watch, is_continued=is_continued)
        if fault is not None:
            self.met.add("lost" if fault.is_answer_lost else str(fault.code or "late"))
        return fault

    def on_event(self) -> WatchFault | None:
        fault = None if self.is_over else super().on_event()
        if fault is not None:
            self.met.add(fault)
        return fault


class SmallPages:
    """The transport as lists and watches have it, with small pages; ``lists`` has the plurals of lists that began."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.lists: list[str] = []

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float | None = None) -> bytes:
        asked = dict(query or {})
        if "continue" not in asked:
            self.lists.append(path.rpartition("/")[2])
        if "limit" in asked:
            asked["limit"] = str(PAGE)
        return await self._transport.get(path, asked, timeout=timeout)

    def stream(
        self, path: str, query: Mapping[str, str], *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        if "sendInitialEvents" in query:
            self.lists.append(path.rpartition("/")[2])
        return self._transport.stream(path, query, idle=idle)


class Scene:
    """``registry`` is the server, ``transport`` the way to it, ``cache`` what was seen of it."""

    def __init__(self, serving: Serving, transport: Transport, faults: Passing) -> None:
        self.registry, self.transport, self.faults = serving.registry, transport, faults
        self.inside = InProcess(serving.registry)
        self.connection = SmallPages(transport)
        self.past, self.cache = Past(serving.registry), InformerCache()
        self.told: list[Told[Any]] = [Told(self.cache.store(resource), resource) for resource in CACHED_RESOURCES]
        self.troubles: list[CallFailed] = []
        self.following: asyncio.Task[None] | None = None

    def differences(self) -> list[str]:
        return [told.resource.kind for told in self.told if not told.is_equal_to(self.past)]

    async def settle(self) -> None:
        """Until the cache is equal to the server."""
        try:
            async with asyncio.timeout(DEADLINE):
                while self.differences():
                    self.check_following()
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"still different after {DEADLINE:g} s: {self.differences()}") from None

    def check_following(self) -> None:
        if self.following is not None and self.following.done():
            raise AssertionError("the client gave up") from self.following.exception()

    def check(self, *, relisted: Iterable[str]) -> None:
        """``relisted``: plurals of the kinds of which a list may have jumped over changes."""
        assert self.differences() == []
        jumped = set(relisted)
        for told in self.told:
            told.check(self.past, is_complete=told.resource.plural not in jumped)


@asynccontextmanager
async def a_scene(faults: Iterable[Fault], seed: int, *, streams_lists: bool) -> AsyncIterator[Scene]:
    registry = begun(now=lambda: datetime.now(UTC), chance=Random(seed))
    inside = InProcess(registry)
    for name in NAMESPACES:
        inside.create(registry.kinds["namespaces"], "", a_namespace(name), manager="test")
    passing, chance = Passing(faults, seed), Random(f"{seed} client")
    serving = Serving(registry, faults=passing, bookmarks=BOOKMARKS)
    async with serving:
        access = ClientConfig(cluster=ClusterInfo(server=serving.address), user=UserInfo())
        async with Transport(access, sleep=hurried, chance=chance.random, is_terminal=False) as transport:
            scene = Scene(serving, transport, passing)
            scene.following = asyncio.create_task(
                run_informers(
                    scene.connection,
                    scene.cache,
                    features=ServerFeatures(streams_lists=streams_lists),
                    settings=QUICK,
                    runtime=ReflectorRuntime(random=chance, sleep=hurried),
                    on_error=lambda _resource, trouble: scene.troubles.append(trouble),
                )
            )
            try:
                yield scene
                scene.check_following()
            finally:
                scene.following.cancel()
                await asyncio.wait([scene.following])
