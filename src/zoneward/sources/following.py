"""A cache that stays current: one reflector for each of its kinds."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import NoReturn

from zoneward.sources.api_errors import CallFailed
from zoneward.sources.cache import Cache
from zoneward.sources.connection import Abilities, Connection
from zoneward.sources.resources import AnyResource
from zoneward.sources.watching import Reflector, Timing

Trouble = Callable[[AnyResource, CallFailed], None]


async def follow(
    connection: Connection,
    cache: Cache,
    *,
    namespace: str | None = None,
    abilities: Abilities | None = None,
    timing: Timing | None = None,
    patient: bool = True,
    on_trouble: Trouble = lambda _resource, _trouble: None,
    random: Random | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> NoReturn:
    """Fill the cache, which sets `Cache.synced`, and keep it current until cancelled.

    Kinds are listed at once. ``namespace`` limits the kinds that have one. ``abilities``: the server's, where known.
    Raises the first CallFailed that trying again does not change (see `Reflector`), and whatever a handler of the cache
    raises.
    """
    shared = abilities or Abilities()

    def reflector(resource: AnyResource) -> Awaitable[NoReturn]:
        return Reflector(
            connection,
            resource,
            cache.store(resource),  # type: ignore[misc]
            namespace=namespace,
            abilities=shared,
            timing=timing,
            patient=patient,
            on_trouble=lambda trouble: on_trouble(resource, trouble),
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
