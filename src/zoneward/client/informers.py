"""A cache that stays current: one reflector for each of its kinds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import NoReturn, Protocol

from zoneward.client.api_errors import CallFailed
from zoneward.client.reflector import Reflector, ReflectorStore, ReflectorTiming
from zoneward.client.resources import AnyWatchedResource, WatchedResource, WatchedT
from zoneward.client.transport_interface import ReadTransport, ServerFeatures

TroubleHandler = Callable[[AnyWatchedResource, CallFailed], None]


class InformerTarget(Protocol):
    """What is kept current; `zoneward.client.informer_cache.Cache` is one."""

    @property
    def resources(self) -> Sequence[AnyWatchedResource]: ...

    def store(self, resource: WatchedResource[WatchedT]) -> ReflectorStore[WatchedT]:
        """Where objects of a kind are kept."""
        ...


async def run_informers(
    connection: ReadTransport,
    cache: InformerTarget,
    *,
    namespace: str | None = None,
    queries: Mapping[str, Mapping[str, str]] | None = None,
    abilities: ServerFeatures | None = None,
    timing: ReflectorTiming | None = None,
    patient: bool = True,
    on_trouble: TroubleHandler = lambda _resource, _trouble: None,
    on_current: Callable[[AnyWatchedResource, int], None] = lambda _resource, _version: None,
    random: Random | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> NoReturn:
    """Fill the cache, which sets `Cache.synced`, and keep it current until cancelled.

    Kinds are listed at once. ``namespace`` limits the kinds that have one, ``queries`` each kind that it has the
    ``query`` of a `Reflector` for (``{"Node": {"fieldSelector": "metadata.name=n1"}}``). ``abilities``: the server's,
    where known. ``on_trouble`` and ``on_current`` are those of a `Reflector`. Raises the first CallFailed that trying
    again does not change (see `Reflector`), and whatever a handler of the cache raises.
    """
    shared = abilities or ServerFeatures()

    def reflector(resource: AnyWatchedResource) -> Awaitable[NoReturn]:
        return Reflector(
            connection,
            resource,
            cache.store(resource),  # type: ignore[misc]
            namespace=namespace,
            query=(queries or {}).get(resource.kind),
            abilities=shared,
            timing=timing,
            patient=patient,
            on_trouble=lambda trouble: on_trouble(resource, trouble),
            on_current=lambda version: on_current(resource, version),
            random=random,
            sleep=sleep,
            clock=clock,
        ).run()

    try:
        async with asyncio.TaskGroup() as group:
            for resource in cache.resources:
                group.create_task(reflector(resource))  # type: ignore[arg-type]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    raise AssertionError("a reflector has no end")
