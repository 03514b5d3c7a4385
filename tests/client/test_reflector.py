"""What a reflector holds is what the server has, whatever happens between them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from random import Random
from typing import Any

import pytest
from tests.builders.objects import a_lease, a_node
from tests.client.a_client import AClient
from tests.client.a_server import AServer, Fault
from tests.client.calling import transport
from tests.client.recording import Recording, until
from tests.client.serving import access_to

from zoneward.client.api_errors import CallFailed, Forbidden, Gone, SilentConnection
from zoneward.client.informer_cache import InformerCache
from zoneward.client.informers import run_informers
from zoneward.client.list_pager import ListScope
from zoneward.client.object_store import ObjectStore
from zoneward.client.reflector import Reflector, ReflectorRuntime, ReflectorSettings
from zoneward.client.resources import LEASES, NODES, PODS, LiveNode, LivePod
from zoneward.client.transport import Transport
from zoneward.client.transport_interface import ServerFeatures
from zoneward.kube.objects import Lease
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import LocalClient, Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

QUICK = ReflectorSettings(watch=4.0, silence=1.0)
BOTH_LISTS = pytest.mark.parametrize("streams_lists", [True, False], ids=["streaming list", "pages"])


async def quickly(seconds: float) -> None:
    await asyncio.sleep(seconds / 200)


class Scene:
    """A server with pods a, b and c, and a reflector of its pods."""

    def __init__(self, server: AServer, client: AClient) -> None:
        self.server, self.client = server, client
        self.store = ObjectStore[LivePod]()
        self.seen = Recording(self.store, PODS)
        self.troubles: list[CallFailed] = []
        self.pauses: list[float] = []
        self.features = ServerFeatures()

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await quickly(seconds)

    def reflector(self, *, sleep: Callable[[float], Awaitable[None]] | None = None, **given: Any) -> Reflector[LivePod]:

        usual: dict[str, Any] = {"settings": QUICK, "features": self.features, "on_error": self.troubles.append}
        runtime = ReflectorRuntime(random=Random(1), sleep=sleep or self.pause)
        return Reflector(self.client, PODS, self.store, runtime=runtime, **usual | given)

    def put(self, name: str, phase: str = "Running") -> None:
        self.server.put("pods", name, "shop", status={"phase": phase})

    def delete(self, name: str) -> None:
        self.server.delete("pods", name, "shop")

    async def settle(self) -> None:
        await until(lambda: self.seen.is_equal_to(self.server))

    def lists(self) -> int:
        """How many lists were begun, in pages or as streams."""
        return sum(
            ("watch" not in query and "continue" not in query) or "sendInitialEvents" in query
            for _, query in self.client.asked
        )


def play(act: Callable[[Scene], Awaitable[None]], *, server: AServer | None = None, **options: Any) -> Scene:
    """Run the scene with its reflector going on; what the reflector raises is raised."""

    async def run() -> Scene:
        async with server or AServer() as there, AClient(there.address) as client:
            scene = Scene(there, client)
            for name in "abc":
                scene.put(name)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(scene.reflector(**options).run())
                await act(scene)
                task.cancel()
            return scene

    try:
        return asyncio.run(run())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


# --- the ordinary way -------------------------------------------------------------------------------------------------


@BOTH_LISTS
def test_what_is_there_is_told_and_then_each_change(streams_lists: bool) -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        scene.put("d")
        scene.put("a", "Failed")
        scene.delete("b")
        scene.put("b")
        await scene.settle()

    scene = play(act, server=AServer(streams_lists=streams_lists))
    assert scene.seen.told[3:] == [
        ("added", "d", "104"),
        ("modified", "a", "105"),
        ("deleted", "b", "102"),
        ("added", "b", "107"),
    ]
    assert scene.seen.names("added")[:3] == ["a", "b", "c"]
    assert scene.troubles == []
    paths = {path for path, _ in scene.client.asked}
    assert paths == {"/api/v1/pods"}


def test_a_server_with_streaming_lists_is_never_asked_for_pages() -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()

    scene = play(act)
    (query,) = [query for _, query in scene.client.asked]
    assert query["sendInitialEvents"] == query["allowWatchBookmarks"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in query


def test_a_server_without_streaming_lists_is_asked_for_one_only_once() -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        other = ObjectStore[LivePod]()
        task = asyncio.create_task(Reflector(scene.client, PODS, other, features=scene.features).run())
        await until(lambda: len(other) == 3)
        task.cancel()

    scene = play(act, server=AServer(streams_lists=False))
    assert sum("sendInitialEvents" in query for _, query in scene.client.asked) == 1
    assert not scene.features.streams_lists
    assert scene.pauses == []


def test_a_watch_that_ends_in_time_goes_on_where_it_was_without_a_pause() -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        for index in range(3):
            watches = len(scene.client.asked)
            scene.put(f"n{index}")
            await until(lambda watches=watches: len(scene.client.asked) > watches)  # type: ignore[misc]
        await scene.settle()

    server = AServer()
    for _ in range(3):
        server.plan(Fault.END, after=5)
    server.bookmark_every = 0.01
    scene = play(act, server=server)
    scene.seen.check_order(server, is_complete=True)
    assert scene.troubles == []
    assert scene.lists() == 1


def test_a_namespace_alone_is_watched() -> None:
    async def act(scene: Scene) -> None:
        scene.server.put("pods", "x", "else")
        await until(lambda: len(scene.store) == 3)
        scene.server.put("pods", "y", "else")
        scene.put("d")
        await until(lambda: len(scene.store) == 4)

    scene = play(act, options=ListScope(namespace="shop"))
    assert set(scene.seen.names("added")) == {*"abcd"}
    assert {path for path, _ in scene.client.asked} == {"/api/v1/namespaces/shop/pods"}


# --- broken connections -----------------------------------------------------------------------------------------------


@BOTH_LISTS
@pytest.mark.parametrize(
    "fault",
    [Fault.DROP, Fault.CUT, Fault.ERROR_EVENT, Fault.NONSENSE, Fault.UNAVAILABLE, Fault.REPEAT, Fault.END],
)
def test_a_watch_goes_on_where_it_was_and_nothing_is_lost_or_told_twice(fault: Fault, streams_lists: bool) -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        for index in range(60):
            if index in (10, 20, 30):
                scene.server.plan(Fault.DROP, after=1)
                scene.server.plan(fault, after=2)
            scene.put(f"n{index % 7}", phase=str(index))
            await asyncio.sleep(0.001)
        await scene.settle()
        await until(lambda: not scene.server.faults)

    server = AServer(streams_lists=streams_lists, bookmark_every=0.02)
    scene = play(act, server=server)
    assert scene.server.met.count(fault) >= 3
    scene.seen.check_order(server, is_complete=True)
    assert scene.lists() == (1 if streams_lists else 2)  # the streaming list that is refused


def test_a_watch_resumes_from_the_last_bookmark() -> None:
    """Other kinds move the version on: what a pod's last event says may long be forgotten."""

    async def act(scene: Scene) -> None:
        await scene.settle()
        for index in range(50):
            scene.server.put("nodes", f"n{index}")
        scene.server.plan(Fault.DROP, after=1)
        await until(lambda: len(scene.client.asked) > 1)
        scene.server.compact()
        scene.put("d")
        await scene.settle()

    scene = play(act, server=AServer(bookmark_every=0.02))
    assert [query.get("resourceVersion") for _, query in scene.client.asked] == [None, "153"]


def test_a_silent_connection_is_noticed() -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        await until(lambda: Fault.SILENCE in scene.server.met)
        scene.put("d")
        await scene.settle()

    server = AServer()
    server.plan(Fault.SILENCE, after=4)
    scene = play(act, server=server, settings=ReflectorSettings(watch=0.1, silence=0.2))
    assert any(isinstance(trouble, SilentConnection) for trouble in scene.troubles)
    scene.seen.check_order(server, is_complete=True)


def test_silence_is_only_what_lasts_longer_than_the_watch() -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()

    idles: list[float] = []

    class Watched(AClient):
        def stream(self, path: str, query: Mapping[str, str], *, idle: float) -> Any:
            idles.append(idle - float(query["timeoutSeconds"]))
            return super().stream(path, query, idle=idle)

    async def run() -> None:
        async with AServer() as server, Watched(server.address) as client:
            server.put("pods", "a", "shop")
            for seed in range(20):
                store = ObjectStore[LivePod]()
                task = asyncio.create_task(
                    Reflector(client, PODS, store, runtime=ReflectorRuntime(random=Random(seed))).run()
                )
                await until(lambda store=store: len(store) == 1)  # type: ignore[misc]
                task.cancel()

    asyncio.run(run())
    assert len(idles) == 20
    assert min(idles) >= 10


# --- versions that are gone -------------------------------------------------------------------------------------------


@BOTH_LISTS
@pytest.mark.parametrize("fault", [Fault.GONE, Fault.GONE_EVENT])
def test_410_leads_to_a_list_whose_difference_is_told(fault: Fault, streams_lists: bool) -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        await until(lambda: Fault.DROP in scene.server.met)
        before = len(scene.seen.told)
        scene.put("d")
        scene.put("a", "Failed")
        scene.delete("b")
        await scene.settle()
        await until(lambda: fault in scene.server.met)
        told = scene.seen.told[before:]
        assert sorted(told) == [("added", "d", "104"), ("deleted", "b", "102"), ("modified", "a", "105")]
        scene.put("c", "Failed")
        await scene.settle()

    server = AServer(streams_lists=streams_lists, bookmark_every=0.01)
    server.plan(Fault.DROP, after=4 if streams_lists else 0)
    server.plan(fault)

    async def slowly(_seconds: float) -> None:
        # The three changes are made while the reflector waits.
        await asyncio.sleep(0.05)

    scene = play(act, server=server, sleep=slowly)
    assert any(isinstance(trouble, Gone) for trouble in scene.troubles)
    assert scene.seen.names("modified") == ["a", "c"]
    scene.seen.check_order(server, is_complete=False)
    assert scene.lists() == (2 if streams_lists else 3)


def test_a_compacted_history_leads_to_a_list() -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        scene.server.plan(Fault.DROP)
        await until(lambda: Fault.DROP in scene.server.met)
        scene.delete("a")
        scene.put("d")
        scene.server.compact()
        await scene.settle()

    async def slowly(_seconds: float) -> None:
        await asyncio.sleep(0.05)

    scene = play(act, sleep=slowly)
    assert scene.seen.told[3:] == [("added", "d", "105"), ("deleted", "a", "101")]
    assert any(isinstance(trouble, Gone) for trouble in scene.troubles)


@pytest.mark.parametrize("fault", [Fault.EXPIRE, Fault.UNAVAILABLE])
def test_a_first_list_that_fails_half_way_is_completed(fault: Fault) -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        scene.put("d")
        await scene.settle()

    server = AServer(streams_lists=False, page=1)
    server.plan(fault)
    if fault is Fault.UNAVAILABLE:
        server.plan(fault)
    scene = play(act, server=server)
    assert fault in server.met
    scene.seen.check_order(server, is_complete=True)


@pytest.mark.parametrize("fault", [Fault.DROP, Fault.CUT, Fault.END, Fault.NONSENSE])
def test_a_streaming_list_that_breaks_is_begun_again_and_at_last_given_up(fault: Fault) -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        await until(lambda: not scene.features.streams_lists)
        scene.put("d")
        await scene.settle()

    server = AServer()
    for _ in range(3):
        server.plan(fault, after=2)
    scene = play(act, server=server)
    assert len(scene.troubles) == 3
    scene.seen.check_order(server, is_complete=True)


def test_a_server_whose_data_were_restored_is_believed_in_the_end() -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        scene.put("a", "Failed")
        scene.put("d")
        scene.delete("b")
        await scene.settle()
        scene.server.plan(Fault.DROP)
        scene.server.go_back_to(103)
        await scene.settle()
        assert sorted(pod.metadata.name for pod in scene.store) == ["a", "b", "c"]
        scene.put("e")
        await scene.settle()

    play(act)


# --- what is raised ---------------------------------------------------------------------------------------------------


async def forever(_scene: Scene) -> None:
    await asyncio.sleep(10)


@BOTH_LISTS
def test_a_refusal_is_raised_as_long_as_no_watch_stands(streams_lists: bool) -> None:
    with pytest.raises(Forbidden):
        play(forever, server=AServer(streams_lists=streams_lists, refusals={"pods": 403}))


def test_a_right_that_is_lost_later_is_waited_for() -> None:
    async def act(scene: Scene) -> None:
        await scene.settle()
        scene.server.plan(Fault.DROP)
        scene.server.refusals["pods"] = 403
        scene.put("d")
        scene.put("e")
        await until(lambda: sum(isinstance(trouble, Forbidden) for trouble in scene.troubles) > 6)
        del scene.server.refusals["pods"]
        await scene.settle()

    server = AServer()
    server.plan(Fault.DROP, after=5)
    scene = play(act, server=server)
    assert scene.lists() == 1


Work = Callable[[Registry, Transport], Awaitable[None]]


def on_a_sandbox(work: Work) -> None:
    async def run() -> None:
        registry = new_registry()
        async with SandboxServer(registry) as server, transport(access_to(server.address)) as link:
            await work(registry, link)

    asyncio.run(run())


@BOTH_LISTS
def test_an_object_comes_when_its_labels_match_and_goes_when_they_no_longer_do(streams_lists: bool) -> None:
    async def work(registry: Registry, link: Transport) -> None:
        there, leases = LocalClient(registry), registry.kinds["leases.coordination.k8s.io"]
        for name, color in (("one", "red"), ("two", "blue")):
            there.create(leases, "default", a_lease(name, namespace="default", labels={"color": color}))
        store, told = ObjectStore[Lease](), list[tuple[str, str]]()

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
            options=ListScope(label_selector="color=red"),
            features=ServerFeatures(streams_lists=streams_lists),
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
            there.create(leases, "default", a_lease("three", namespace="default", labels={"color": "blue"}))
            there.create(leases, "default", a_lease("four", namespace="default", labels={"color": "red"}))
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
        cache = InformerCache([NODES])
        following = run_informers(
            link,
            cache,
            options={NODES.kind: ListScope(field_selector="metadata.name=n2")},
            features=ServerFeatures(streams_lists=streams_lists),
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
        store, current = ObjectStore[Lease](), list[int]()

        def note(version: int) -> None:
            current.append(version)
            for kind, key, known in ((leases, ("default", each), store.get("default", each)) for each in "abc"):
                found = there.get(kind, *key) if key in written and written[key] <= version else None
                assert found is None or known is not None

        written: dict[tuple[str, str], int] = {}

        def write(name: str) -> int:
            made = there.create(leases, "default", a_lease(name, namespace="default"))
            version = int(made["metadata"]["resourceVersion"])
            written["default", name] = version
            return version

        write("a")
        before = write("b")
        reflector = Reflector(
            link, LEASES, store, features=ServerFeatures(streams_lists=streams_lists), on_version=note
        )
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
