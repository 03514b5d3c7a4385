"""Four kinds at once, under seeded mixes of all faults: in the end the cache is equal to the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import pytest
from tests.client.a_server import AServer, Fault
from tests.client.recording import Recording, until
from tests.client.test_reflector import Answer, Scripted

from zoneward.client.api_errors import ApiError, CallFailed, Gone, Unreachable
from zoneward.client.backoff import Backoff
from zoneward.client.informer_cache import InformerCache
from zoneward.client.informers import WatchedStores, WatchHealth, run_informers
from zoneward.client.list_pager import ListScope
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.reflector import ReflectorRuntime, ReflectorSettings, ServerFeatures
from zoneward.client.resources import CACHED_RESOURCES, NODES, PODS, SERVICES, AnyWatchedResource, object_key_of
from zoneward.kube.names import SERVICE_NAME_LABEL, ZONE_LABEL

QUICK: Final = ReflectorSettings(backoff=Backoff(initial=0.005, cap=0.02, jitter=0.5))
HARMLESS: Final = [Fault.DROP, Fault.END, Fault.UNAVAILABLE]
"""Faults after which a watch continues at the same version, even if they are repeated."""


class Following:
    """A server, a cache that follows it, and the reported changes of each kind."""

    def __init__(self, server: AServer) -> None:
        self.server, self.cache = server, InformerCache()
        stores = [(self.cache.store(resource), resource) for resource in CACHED_RESOURCES]
        self.recordings: list[Recording[Any]] = [Recording(*store) for store in stores]
        self.troubles: list[tuple[AnyWatchedResource, CallFailed]] = []

    def is_equal(self) -> bool:
        return all(recording.is_equal_to(self.server) for recording in self.recordings)


@asynccontextmanager
async def following(server: AServer, chance: Random, **options: Any) -> AsyncIterator[Following]:
    scene = Following(server)
    informers = run_informers(
        server,
        scene.cache,
        settings=QUICK,
        runtime=ReflectorRuntime(random=chance),
        on_error=lambda resource, trouble: scene.troubles.append((resource, trouble)),
        **options,
    )
    task = asyncio.create_task(informers)
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
    for _ in range(400):
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


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_mix_of_faults_the_cache_is_equal_to_the_server(seed: int) -> None:
    chance = Random(seed)
    server = AServer(streams_lists=seed % 2 == 0, page=chance.choice([None, 3]), bookmark_every=0.02)
    async with following(server, chance) as scene:
        await happen(scene, chance, list(Fault), compacts=True)
    for recording in scene.recordings:
        recording.check_order(server, is_complete=False)
    assert server.met
    assert all(error.path == resource.path() for resource, error in scene.troubles if isinstance(error, ApiError))
    cache = scene.cache
    for pod in cache.pods:
        assert pod in cache.pods_on(pod.spec.node_name)
        for service in cache.services_of(pod):
            assert pod in cache.pods_of(*object_key_of(service))


@pytest.mark.parametrize("streams_lists", [True, False])
async def test_without_lost_versions_every_single_event_is_told(streams_lists: bool) -> None:
    chance = Random(1)
    async with following(AServer(streams_lists=streams_lists, bookmark_every=0.02), chance) as scene:
        await scene.cache.synced.wait()
        lists = len(scene.server.asked)
        await happen(scene, chance, HARMLESS, compacts=False)
        assert all("watch" in query for _, query in scene.server.asked[lists:])
    for recording in scene.recordings:
        recording.check_order(scene.server, is_complete=True)
    assert scene.server.met


async def test_the_cache_is_synced_when_all_kinds_are_there_also_from_a_server_that_cannot_stream_lists() -> None:
    features, one_node = ServerFeatures(), {"Node": ListScope(field_selector="metadata.name=a")}
    for _ in range(2):
        server = AServer(streams_lists=False)
        for plural in server.objects:
            server.put(plural, "a")
        async with following(server, Random(1), features=features, options=one_node) as scene:
            await scene.cache.synced.wait()
            assert scene.is_equal()
            assert scene.troubles == []
    assert not features.streams_lists
    assert not any("sendInitialEvents" in query for _, query in scene.server.asked), "it is remembered"
    assert {path for path, query in scene.server.asked if "fieldSelector" in query} == {"/api/v1/nodes"}


def test_what_cannot_be_read_is_listed_by_kind_and_name() -> None:
    reported: list[UnreadableObject] = []
    stores = WatchedStores((SERVICES, NODES), on_unreadable=reported.append)
    services, nodes = stores.add_store(SERVICES), stores.add_store(NODES)
    node, late, early = (
        UnreadableObject(resource=resource, namespace=namespace, name=name, version="1", problem="expected a list")
        for resource, namespace, name in ((NODES, "", "a"), (SERVICES, "shop", "z"), (SERVICES, "shop", "b"))
    )
    for store, unreadable in ((nodes, node), (services, late), (services, early)):
        store.mark_unreadable(unreadable)
    assert reported == [node, late, early]
    assert stores.unreadable == (early, late, node)


class Scene:
    def __init__(self, *answers: Answer) -> None:
        self.now = 100.0
        self.health = WatchHealth(Scripted(*answers), clock=lambda: self.now, patience=1.0)

    def lasting(self) -> tuple[float, CallFailed] | None:
        return self.health.lasting

    async def opens(self, path: str) -> list[bytes]:
        async with self.health.stream(path, {"timeoutSeconds": "1"}, idle=1.0) as lines:
            return [line async for line in lines]


def test_a_trouble_is_told_once_it_lasts_with_its_beginning_and_its_latest_error() -> None:
    scene = Scene()
    first, second = Unreachable("one"), Unreachable("two")
    scene.health.trouble(PODS, first)
    assert scene.lasting() is None
    scene.now += 1.0
    assert scene.lasting() == (100.0, first)
    scene.health.trouble(PODS, second)
    assert scene.lasting() == (100.0, second)
    assert scene.health.trouble_seconds == 1.0


async def test_it_is_over_when_the_watch_of_that_kind_stands_again() -> None:
    scene = Scene([b"line"], Unreachable("still"), [])
    scene.health.trouble(PODS, Unreachable("pods"))
    scene.health.trouble(NODES, nodes := Unreachable("nodes"))
    scene.now += 5.0
    assert await scene.opens("/api/v1/namespaces/shop/pods") == [b"line"]
    assert scene.lasting() == (100.0, nodes)
    with pytest.raises(Unreachable):
        await scene.opens("/api/v1/nodes")
    assert scene.lasting() is not None
    await scene.opens("/api/v1/nodes")
    assert scene.lasting() is None
    assert scene.health.trouble_seconds == 0.0


async def test_a_version_that_is_forgotten_is_no_trouble_and_lists_go_through() -> None:
    scene = Scene(b"got")
    scene.health.trouble(PODS, Gone(410, "Expired", "too old"))
    scene.now += 60.0
    assert scene.lasting() is None
    assert await scene.health.get("/api/v1/pods", {}) == b"got"
