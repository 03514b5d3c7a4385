"""A reflector with a query is told of what the query selects, and of nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

import pytest
from tests.client.calling import transport
from tests.client.recording import until
from tests.client.serving import access_to
from tests.contract.objects import a_node

from zoneward.client.cache import Cache
from zoneward.client.connection import Abilities
from zoneward.client.following import follow
from zoneward.client.reflector import Reflector
from zoneward.client.resources import LEASES, NODES, Lease, LiveNode
from zoneward.client.store import Store
from zoneward.client.transport import Transport
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import LocalClient, Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

BOTH_LISTS = pytest.mark.parametrize("streams_lists", [True, False], ids=["streaming list", "pages"])
Work = Callable[[Registry, Transport], Awaitable[None]]


def on_a_sandbox(work: Work) -> None:
    async def run() -> None:
        registry = new_registry()
        async with SandboxServer(registry) as server, transport(access_to(server.address)) as link:
            await work(registry, link)

    asyncio.run(run())


def a_lease(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"holderIdentity": name},
    }


@BOTH_LISTS
def test_an_object_comes_when_its_labels_match_and_goes_when_they_no_longer_do(streams_lists: bool) -> None:
    async def work(registry: Registry, link: Transport) -> None:
        there, leases = LocalClient(registry), registry.kinds["leases.coordination.k8s.io"]
        for name, color in (("one", "red"), ("two", "blue")):
            there.create(leases, "default", a_lease(name, color=color))
        store, told = Store[Lease](), list[tuple[str, str]]()

        def note(old: Lease | None, new: Lease | None) -> None:
            kind = "added" if old is None else "deleted" if new is None else "modified"
            found = new or old
            assert found is not None
            told.append((kind, found.metadata.name))

        store.subscribe(note)
        reflector = Reflector(
            link,
            LEASES,
            store,
            query={"labelSelector": "color=red"},
            abilities=Abilities(streams_lists=streams_lists),
        )
        running = asyncio.create_task(reflector.run())

        def paint(name: str, color: str) -> None:
            def change(old: dict[str, Any]) -> dict[str, Any]:
                lease = deepcopy(old)
                lease["metadata"]["labels"] = {"color": color}
                return lease

            there.update(leases, "default", name, change)

        try:
            await until(lambda: bool(told))
            paint("two", "red")
            await until(lambda: len(told) == 2)
            paint("one", "green")
            there.create(leases, "default", a_lease("three", color="blue"))
            there.create(leases, "default", a_lease("four", color="red"))
            await until(lambda: len(told) == 4)
        finally:
            running.cancel()
        assert told == [("added", "one"), ("added", "two"), ("deleted", "one"), ("added", "four")]

    on_a_sandbox(work)


@BOTH_LISTS
def test_a_cache_may_hold_one_node_of_many(streams_lists: bool) -> None:
    async def work(registry: Registry, link: Transport) -> None:
        there, nodes = LocalClient(registry), registry.kinds["nodes"]
        for name in ("n1", "n2", "n3"):
            there.create(nodes, "", a_node(name, zone="a"))
        cache = Cache([NODES])
        following = follow(
            link,
            cache,
            queries={NODES.kind: {"fieldSelector": "metadata.name=n2"}},
            abilities=Abilities(streams_lists=streams_lists),
        )
        running = asyncio.create_task(following)

        def names() -> list[str]:
            return [node.metadata.name for node in cache.nodes]

        def zone(node: LiveNode | None) -> str:
            return ((node.metadata.labels or {}) if node else {}).get("topology.kubernetes.io/zone", "")

        def move(old: dict[str, Any]) -> dict[str, Any]:
            node = deepcopy(old)
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "b"
            return node

        try:
            async with asyncio.timeout(20):
                await cache.synced.wait()
            assert names() == ["n2"]
            for name in ("n1", "n2"):
                there.update(nodes, "", name, move)
            await until(lambda: zone(cache.nodes.get("", "n2")) == "b")
            assert names() == ["n2"]
        finally:
            running.cancel()

    on_a_sandbox(work)


@BOTH_LISTS
def test_a_version_is_told_when_the_sink_has_seen_all_that_came_up_to_it(streams_lists: bool) -> None:
    async def work(registry: Registry, link: Transport) -> None:
        there, leases = LocalClient(registry), registry.kinds["leases.coordination.k8s.io"]
        store, current = Store[Lease](), list[int]()

        def note(version: int) -> None:
            current.append(version)
            for kind, key, known in ((leases, ("default", each), store.get("default", each)) for each in "abc"):
                found = there.get(kind, *key) if key in written and written[key] <= version else None
                assert found is None or known is not None

        written: dict[tuple[str, str], int] = {}

        def write(name: str) -> int:
            made = there.create(leases, "default", a_lease(name))
            version = int(made["metadata"]["resourceVersion"])
            written["default", name] = version
            return version

        write("a")
        before = write("b")
        reflector = Reflector(link, LEASES, store, abilities=Abilities(streams_lists=streams_lists), on_current=note)
        running = asyncio.create_task(reflector.run())
        try:
            await until(lambda: bool(current))
            assert len(store) == 2
            assert current[0] >= before
            after = write("c")
            await until(lambda: current[-1] >= after)
            there.delete(leases, "default", "a")
            await until(lambda: current[-1] > after)
            assert len(store) == 2
            assert current == sorted(set(current))
        finally:
            running.cancel()

    on_a_sandbox(work)
