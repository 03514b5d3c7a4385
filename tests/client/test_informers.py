"""Four kinds at once, under seeded mixes of everything that can go wrong: the cache ends equal to the server.

A few mixes, for what only this small server does: nonsense, events that come again, errors in a watch.
``sandbox/test_fault_mixes.py`` has the many.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import pytest
from tests.client.a_client import AClient
from tests.client.a_server import AServer, Fault
from tests.client.recording import Recording, until

from zoneward.client.api_errors import CallFailed, Forbidden
from zoneward.client.backoff import Backoff
from zoneward.client.informer_cache import InformerCache
from zoneward.client.informers import run_informers
from zoneward.client.reflector import ReflectorRuntime, ReflectorSettings
from zoneward.client.resources import CACHED_RESOURCES, AnyWatchedResource, object_key_of
from zoneward.client.transport_interface import ServerFeatures
from zoneward.kube.names import SERVICE_NAME_LABEL, ZONE_LABEL

MIXES: Final = 4
CHANGES: Final = 500
QUICK: Final = ReflectorSettings(watch=0.3, silence=0.15, backoff=Backoff(initial=0.005, cap=0.02, jitter=0.5))
HARMLESS: Final = [Fault.DROP, Fault.CUT, Fault.END, Fault.REPEAT, Fault.UNAVAILABLE]
"""After which a watch goes on where it was, however often they come."""


class Following:
    """A server, a cache that follows it, and what was told of each kind."""

    def __init__(self, server: AServer, client: AClient) -> None:
        self.server, self.client, self.cache = server, client, InformerCache()
        self.recordings: list[Recording[Any]] = [
            Recording(self.cache.store(resource), resource) for resource in CACHED_RESOURCES
        ]
        self.troubles: list[tuple[AnyWatchedResource, CallFailed]] = []

    def is_equal(self) -> bool:
        return all(recording.is_equal_to(self.server) for recording in self.recordings)


@asynccontextmanager
async def a_scene(server: AServer, chance: Random) -> AsyncIterator[Following]:
    async with server, AClient(server.address) as client:
        scene = Following(server, client)
        following = run_informers(
            client,
            scene.cache,
            settings=QUICK,
            runtime=ReflectorRuntime(random=chance),
            on_error=lambda resource, trouble: scene.troubles.append((resource, trouble)),
        )
        task = asyncio.create_task(following)
        try:
            yield scene
        finally:
            assert not task.done(), task.exception()
            task.cancel()
            await asyncio.wait([task])


def change(server: AServer, chance: Random) -> None:
    """Something small happens in the cluster."""
    plural = chance.choice(["pods", "pods", "pods", "services", "endpointslices", "nodes"])
    namespace = "" if plural == "nodes" else chance.choice(["n1", "n2"])
    name = f"{chance.randrange(12)}"
    if chance.random() < 0.3 and (namespace, name) in server.objects[plural]:
        server.delete(plural, name, namespace)
        return
    app = {"app": chance.choice("abc")}
    match plural:
        case "pods":
            server.put(plural, name, namespace, metadata={"labels": app}, spec={"nodeName": f"{chance.randrange(12)}"})
        case "services":
            server.put(plural, name, namespace, spec={"selector": app})
        case "endpointslices":
            labels = {SERVICE_NAME_LABEL: f"{chance.randrange(12)}"}
            server.put(plural, name, namespace, metadata={"labels": labels}, endpoints=None)
        case _:
            server.put(plural, name, metadata={"labels": {ZONE_LABEL: chance.choice("xyz")}})


async def happen(scene: Following, chance: Random, faults: list[Fault], *, compacts: bool) -> None:
    """Changes come singly and in bursts, and a fault with every fifth of them or so."""
    server = scene.server
    for _ in range(CHANGES):
        change(server, chance)
        if chance.random() < 0.2:
            server.plan(chance.choice(faults), after=chance.randrange(6))
            # One that waits for what does not come makes room.
            del server.faults[:-4]
        if compacts and chance.random() < 0.02:
            server.compact()
        if chance.random() < 0.3:
            await asyncio.sleep(chance.random() * 0.003)
    server.faults.clear()
    await until(scene.is_equal)
    change(server, chance)
    await until(scene.is_equal)


def check(scene: Following, *, is_complete: bool) -> None:
    for recording in scene.recordings:
        recording.check_order(scene.server, is_complete=is_complete)
    cache = scene.cache
    for pod in cache.pods:
        assert pod in cache.pods_on(pod.spec.node_name)
        for service in cache.services_of(pod):
            assert pod in cache.pods_of(*object_key_of(service))


@pytest.mark.parametrize("seed", range(MIXES))
def test_after_any_mix_of_faults_the_cache_is_equal_to_the_server(seed: int) -> None:
    """With lost versions as well: no object goes back, and every state that is told was one that it had."""
    chance = Random(seed)
    streams_lists = chance.random() < 0.5

    async def run() -> set[Fault]:
        server = AServer(streams_lists=streams_lists, page=chance.choice([None, 3]), bookmark_every=0.02)
        async with a_scene(server, chance) as scene:
            await happen(scene, chance, list(Fault), compacts=True)
            check(scene, is_complete=False)
            return set(server.met)

    met = asyncio.run(run())
    assert len(met) >= 5


@pytest.mark.parametrize("seed", range(MIXES // 2))
def test_without_lost_versions_every_single_event_is_told(seed: int) -> None:
    chance = Random(seed)

    async def run() -> tuple[int, int]:
        async with a_scene(AServer(streams_lists=seed % 2 == 0, bookmark_every=0.02), chance) as scene:
            await asyncio.wait_for(scene.cache.synced.wait(), 5)
            lists = len(scene.client.asked)
            await happen(scene, chance, HARMLESS, compacts=False)
            check(scene, is_complete=True)
            listed = [query for _, query in scene.client.asked[lists:] if "watch" not in query]
            return len(scene.server.met), len(listed)

    met, listed = asyncio.run(run())
    assert met >= 20
    assert listed == 0


async def test_the_cache_is_synced_when_all_kinds_are_there() -> None:
    server = AServer()
    for plural in server.objects:
        server.put(plural, "a")
    async with a_scene(server, Random(1)) as scene:
        await asyncio.wait_for(scene.cache.synced.wait(), 5)
        assert scene.is_equal()
        assert scene.troubles == []


def test_what_a_server_cannot_do_is_remembered() -> None:
    async def run() -> tuple[bool, list[dict[str, str]]]:
        features = ServerFeatures()
        async with AServer(streams_lists=False) as server, AClient(server.address) as client:
            for _ in range(2):
                client.asked.clear()
                cache = InformerCache()
                task = asyncio.create_task(run_informers(client, cache, features=features))
                await asyncio.wait_for(cache.synced.wait(), 5)
                task.cancel()
            return features.streams_lists, [query for _, query in client.asked]

    streams_lists, asked = asyncio.run(run())
    assert not streams_lists
    assert len(asked) >= 4
    assert not any("sendInitialEvents" in query for query in asked)


def test_a_kind_that_may_not_be_read_is_told_at_once() -> None:
    async def run() -> None:
        async with AServer(refusals={"endpointslices": 403}) as server, AClient(server.address) as client:
            await run_informers(client, InformerCache())

    with pytest.raises(Forbidden) as caught:
        asyncio.run(run())
    assert caught.value.path == "/apis/discovery.k8s.io/v1/endpointslices"


def test_trouble_is_told_with_its_kind() -> None:
    async def run() -> set[str]:
        server = AServer()
        server.plan(Fault.UNAVAILABLE)
        async with a_scene(server, Random(1)) as scene:
            await asyncio.wait_for(scene.cache.synced.wait(), 5)
            return {resource.kind for resource, _ in scene.troubles}

    assert len(asyncio.run(run())) == 1
