"""A sandbox that runs: bookmarks, watchers that do not keep up, and its end."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.patience import PATIENCE
from tests.sandbox.server.local_client import LocalClient

from zoneward.sandbox.server import versioned_store as stores
from zoneward.sandbox.server.list_watch import list_options, watch
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

Object = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1/leases"
WATCHES = 100


def add(registry: Registry, name: str, *, plural: str = "leases.coordination.k8s.io") -> int:
    """Its version."""
    kind = registry.kinds[plural]
    namespace = "default" if kind.is_namespaced else ""
    made = LocalClient(registry).create(kind, namespace, {"metadata": {"name": name}})
    return int(made["metadata"]["resourceVersion"])


@asynccontextmanager
async def a_sandbox(**options: Any) -> AsyncIterator[tuple[SandboxServer, aiohttp.ClientSession]]:
    async with (
        aiohttp.ClientSession(read_bufsize=1 << 16) as session,
        SandboxServer(new_registry(), **options) as serving,
    ):
        yield serving, session


@asynccontextmanager
async def a_watch(
    serving: SandboxServer, session: aiohttp.ClientSession, **query: str
) -> AsyncIterator[aiohttp.ClientResponse]:
    asked = {"watch": "true", "resourceVersion": str(serving.registry.store.version), **query}
    async with session.get(serving.address + LEASES, params=asked) as answer:
        assert answer.status == 200
        yield answer


async def event(answer: aiohttp.ClientResponse) -> Object:
    async with asyncio.timeout(PATIENCE):
        event: Object = msgspec.json.decode(await answer.content.readline())
    return event


async def test_bookmarks_come_at_their_interval_with_the_version_of_all_kinds() -> None:
    every = 0.05

    def bookmark(version: int) -> Object:
        metadata = {"resourceVersion": str(version)}
        return {
            "type": "BOOKMARK",
            "object": {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata},
        }

    async with a_sandbox(bookmarks=every) as running:
        registry = running[0].registry
        start, times, version = time.monotonic(), list[float](), registry.store.version
        async with a_watch(*running, allowWatchBookmarks="true") as watching:
            for index in range(4):
                before, version = version, add(registry, f"n{index}", plural="nodes")
                received: Object = {}
                while received != bookmark(version):
                    received = await event(watching)
                    times.append(time.monotonic() - start)
                    # On a busy machine the next bookmark may be due before the object is added.
                    assert received in (bookmark(before), bookmark(version))
    assert all(moment > count_ * every * 0.8 for count_, moment in enumerate(times, 1))


async def test_watch_from_a_bookmark_neither_misses_nor_repeats_events() -> None:
    async with a_sandbox(bookmarks=0.01) as running:
        registry = running[0].registry
        add(registry, "a")
        async with a_watch(*running, allowWatchBookmarks="true") as watching:
            version = (await event(watching))["object"]["metadata"]["resourceVersion"]
        add(registry, "b")
        registry.store.compact(int(version))
        async with a_watch(*running, resourceVersion=version) as watching:
            add(registry, "c")
            assert [(await event(watching))["object"]["metadata"]["name"] for _ in range(2)] == ["b", "c"]


async def test_a_watcher_that_falls_behind_the_history_gets_410(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept for it: it gets what its connection holds, then 410, and all others lose nothing."""
    monkeypatch.setattr(stores, "HISTORY", 40)
    monkeypatch.setattr(stores, "_SPARE", 10)
    changes, events = 600, []
    async with a_sandbox() as running, a_watch(*running) as slow, a_watch(*running) as quick:
        registry = running[0].registry
        kind = registry.kinds["leases.coordination.k8s.io"]
        for index in range(changes):
            metadata = {"name": "a", "namespace": "default", "uid": "u", "annotations": {"text": "x" * 50_000}}
            registry.store.put(kind, ("default", "a"), {"metadata": metadata})
            if index % 20 == 0:
                for _ in range(1 if index == 0 else 20):
                    assert b'"annotations"' in await quick.content.readline()
        async with asyncio.timeout(PATIENCE):
            while line := await slow.content.readline():
                events.append(msgspec.json.decode(line))
    *observed, last = events
    assert len(observed) < changes
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in observed]
    assert versions == list(range(versions[0], versions[0] + len(versions)))
    assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert last["object"]["message"].startswith(f"too old resource version: {versions[-1]} (")


async def test_missed_changes_are_sent_in_batches() -> None:
    """A watcher who does not read makes a part wait in memory, not all."""
    registry = new_registry()
    kind = registry.kinds["leases.coordination.k8s.io"]
    events = watch(registry.store, kind, list_options(kind, {"resourceVersion": str(registry.store.version)}))
    parts = [len(await anext(events))]
    for index in range(250):
        add(registry, f"l{index}")
    async with aclosing(events):
        assert parts + [len(await anext(events)) for _ in range(3)] == [0, 100, 100, 50]


async def test_server_stops_at_once_with_many_watches(caplog: pytest.LogCaptureFixture) -> None:
    """All watches end like those whose time is over; that of a watcher who does not read breaks off."""
    caplog.set_level(logging.WARNING)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async with SandboxServer(new_registry()) as serving:
            path = serving.address + LEASES
            answers = [await session.get(path, params={"watch": "true"}) for _ in range(WATCHES)]
            add(serving.registry, "a")
            assert [(await event(answer))["type"] for answer in answers] == ["ADDED"] * WATCHES
        async with asyncio.timeout(PATIENCE):
            assert {await answer.content.read() for answer in answers} == {b""}
    assert caplog.records == []
