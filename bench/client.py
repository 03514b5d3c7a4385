"""The client layer: lists over loopback, a cache as large as a large cluster, events through it, and its questions.

Client and server are separate processes; the server sends prepared bytes. Only the processes that need heavy modules
import them, because the memory of a parent counts for its children.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.children import measured, results_of
from bench.measuring import MIB, Figure
from bench.processes import resident_of
from bench.snapshots import CACHE, NODES, PODS, SEED, SERVICES

if TYPE_CHECKING:
    from zoneward.client.transport import Transport

_PAGES: Final = CACHE / f"pages-{PODS}-{NODES}-{SERVICES}-{SEED}"
_PAGE: Final = 500
_VERSION: Final = 2_000_000_000
_EVENTS: Final = 40_000
_REPEATS: Final = 5
_MOST_EVENT: Final = 50.0
"""Microseconds: 20,000 events a second on one core."""
_MOST_QUESTION: Final = 20.0
_MOST_RATIO: Final = 1.5
_MOST_MEMORY: Final = 400.0
"""MiB, interpreter and libraries included."""


def client() -> Iterator[Figure]:
    """All figures of the client layer."""
    _prepare()
    for shape in ("app", "app and instance", "team and tier"):
        yield Figure(f"Services of a Pod among 10,000, by {shape}", _services_of_a_pod(shape), "us", _MOST_QUESTION)
    yield Figure("a Pod's event through the cache", measured("client.events")[0], "us", _MOST_EVENT)
    with closing(results_of("client.serve")) as serving:
        address = next(serving)
        listed, decoded = measured("client.list_pods", address)[0]
        yield Figure(f"{PODS:,} Pods decoded from memory, CPU", decoded, "s")
        yield Figure(f"{PODS:,} Pods listed over loopback, CPU", listed, "s")
        yield Figure("  times as much", listed / decoded, "x", _MOST_RATIO)
        for way in ("pages", "stream"):
            (resident, wall, cpu, event), took = measured("client.fill", way, address)
            yield Figure(f"cache filled from {way}, resident", resident / MIB, "MiB", _MOST_MEMORY)
            yield Figure("  at its peak", took.peak / MIB, "MiB")
            yield Figure("  wall time", wall, "s")
            yield Figure("  CPU", cpu, "s")
            yield Figure("  a Pod's event over loopback, CPU", event, "us", _MOST_EVENT)


# --- prepared bytes ---------------------------------------------------------------------------------------------------


def _prepare() -> None:
    """Pages of lists as an API server sends them, and lines of watches; made once and cached."""
    from tests.synthetic_cluster import synthetic_cluster

    if _PAGES.exists():
        return
    unfinished = _PAGES.with_suffix(".part")
    unfinished.mkdir(parents=True, exist_ok=True)
    totals = {"Node": NODES, "Service": SERVICES, "Pod": PODS}
    waiting: dict[str, list[bytes]] = {kind: [] for kind in totals}
    counts = dict.fromkeys(totals, 0)
    with (unfinished / "pods.events").open("wb") as events:
        objects = synthetic_cluster(seed=SEED, pods=PODS, nodes=NODES, services=SERVICES)
        for version, object_ in enumerate((object_ for object_ in objects if object_["kind"] in totals), start=1):
            kind, page = object_["kind"], waiting[object_["kind"]]
            object_["metadata"]["resourceVersion"] = str(version)
            page.append(_json(object_))
            counts[kind] += 1
            if kind == "Pod" and counts[kind] <= _EVENTS:
                events.write(_json({"type": "MODIFIED", "object": _changed(object_, counts[kind])}) + b"\n")
            if len(page) == _PAGE or counts[kind] == totals[kind]:
                _write_page(unfinished, f"{kind.lower()}s", page, counts[kind], is_last=counts[kind] == totals[kind])
                page.clear()
    unfinished.rename(_PAGES)


def _write_page(folder: Path, plural: str, items: list[bytes], count: int, *, is_last: bool) -> None:
    """A page of a list, and the same as lines of a watch. ``count``: with all pages before."""
    page = (count - 1) // _PAGE
    metadata = {"resourceVersion": str(_VERSION)} | ({} if is_last else {"continue": str(page + 1)})
    head = b'{"kind":"List","metadata":%b,"items":[' % _json(metadata)
    (folder / f"{plural}.{page}").write_bytes(head + b",".join(items) + b"]}")
    with (folder / f"{plural}.stream").open("ab") as stream:
        stream.writelines(b'{"type":"ADDED","object":%b}\n' % item for item in items)


def _changed(pod: dict[str, Any], index: int) -> dict[str, Any]:
    """The same Pod some time later: it is no longer ready, or is again."""
    conditions = [
        condition
        | ({"status": "False" if condition["status"] == "True" else "True"} if "eady" in condition["type"] else {})
        for condition in pod["status"]["conditions"]
    ]
    metadata = pod["metadata"] | {"resourceVersion": str(_VERSION + index)}
    return pod | {"metadata": metadata, "status": pod["status"] | {"conditions": conditions}}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# --- the server -------------------------------------------------------------------------------------------------------


async def serve() -> AsyncIterator[str]:
    """Yields its address, and serves until it is killed."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.StreamResponse:
        plural, query = request.match_info["plural"], request.query
        if "watch" not in query:
            return web.Response(body=(_PAGES / f"{plural}.{query.get('continue', 0)}").read_bytes())
        stream = web.StreamResponse()
        await stream.prepare(request)
        if "sendInitialEvents" in query:
            await send(stream, _PAGES / f"{plural}.stream")
            metadata = {"resourceVersion": str(_VERSION), "annotations": {"k8s.io/initial-events-end": "true"}}
            await stream.write(_json({"type": "BOOKMARK", "object": {"metadata": metadata}}) + b"\n")
        if plural == "pods":
            await asyncio.sleep(1.0)
            await send(stream, _PAGES / "pods.events")
        await asyncio.sleep(60)
        return stream

    async def send(stream: web.StreamResponse, path: Path) -> None:
        with path.open("rb") as file:
            while block := file.read(1 << 18):
                await stream.write(block)

    application = web.Application()
    application.router.add_get("/api/v1/{plural}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield "http://{}:{}".format(*runner.addresses[0][:2])
    await asyncio.Event().wait()


# --- the client -------------------------------------------------------------------------------------------------------


def _services_of_a_pod(shape: str) -> float:
    """Microseconds, the mean over many Pods; each is selected by one of the Services."""
    from zoneward.client.informer_cache import InformerCache
    from zoneward.kube.objects import ObjectMeta, Pod, PodMeta, Service, ServiceSpec

    services = 10_000
    cache, pods = InformerCache(), []
    for index in range(services):
        selector = {
            "app": {"app.kubernetes.io/name": f"a{index}"},
            "app and instance": {"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": f"i{index}"},
            # Each label is in a hundred selectors.
            "team and tier": {"team": f"t{index // 100}", "tier": f"t{index % 100}"},
        }[shape]
        metadata = ObjectMeta(name=f"s{index}", namespace="shop", resource_version="1")
        cache.services.put(Service(metadata=metadata, spec=ServiceSpec(selector=selector)))
        labels = selector | {"pod-template-hash": f"h{index}", "version": "1", "zone": "a", "region": "b", "helm": "c"}
        pods.append(Pod(metadata=PodMeta(name=f"p{index}", namespace="shop", labels=labels)))
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        for pod in pods:
            assert cache.services_of(pod)
        best = min(best, time.perf_counter() - start)
    return best / services * 1e6


def events() -> float:
    """Microseconds of CPU from the line of a watch to the call of the handler; every Pod is in the cache already."""
    from zoneward.client import resources as known
    from zoneward.client.informer_cache import InformerCache
    from zoneward.client.list_watch_decoder import UnreadableObject, WatchChange, decode_watch_event

    with (_PAGES / "pods.events").open("rb") as file:
        lines = list(islice(file, _EVENTS // 2))
    cache, seen = InformerCache(), 0
    for path in _PAGES.glob("services.[0-9]*"):
        for service in known.SERVICES.lists.decode(path.read_bytes()).items or ():
            cache.services.put(service)
    for path in _PAGES.glob("pods.[0-9]*"):
        for pod in known.PODS.lists.decode(path.read_bytes()).items or ():
            cache.pods.put(pod)

    def handler(_old: object, new: Any) -> None:
        nonlocal seen
        seen += len(cache.services_of(new))

    cache.pods.subscribe(handler)
    start = time.process_time()
    for line in lines:
        event = decode_watch_event(line, known.PODS)
        assert isinstance(event, WatchChange)
        assert not isinstance(event.object, UnreadableObject)
        cache.pods.put(event.object)
    took = time.process_time() - start
    assert seen >= len(lines)
    return took / len(lines) * 1e6


async def list_pods(address: str) -> tuple[float, float]:
    """Seconds of CPU for the list, and for decoding its pages from memory; the best of some runs."""
    from zoneward.client import resources as known
    from zoneward.client.list_pager import list_all

    listed, decoded = [], []
    async with _transport(address) as transport:
        for _ in range(_REPEATS):
            start = time.process_time()
            pods = await list_all(transport, known.PODS)
            listed.append(time.process_time() - start)
            assert len(pods) == PODS
            # Freeing them takes time too.
            del pods
    pages = [path.read_bytes() for path in _PAGES.glob("pods.[0-9]*")]
    for _ in range(_REPEATS):
        start = time.process_time()
        pages_of_pods = [known.PODS.lists.decode(page).items or () for page in pages]
        decoded.append(time.process_time() - start)
        assert sum(map(len, pages_of_pods)) == PODS
        del pages_of_pods
    return min(listed), min(decoded)


async def fill(way: str, address: str) -> tuple[float, float, float, float]:
    """Bytes resident once the cache is synced, seconds of wall time and CPU; then CPU an event in microseconds."""
    from zoneward.client import resources as known
    from zoneward.client.informer_cache import InformerCache
    from zoneward.client.reflector import Reflector, ServerFeatures

    cache, features = InformerCache((known.NODES, known.SERVICES, known.PODS)), ServerFeatures(way == "stream")
    seen, done = 0, asyncio.Event()

    def handler(_old: object, _new: object) -> None:
        nonlocal seen
        seen += 1
        if seen == _EVENTS:
            done.set()

    async with _transport(address) as transport:
        wall, cpu = time.perf_counter(), time.process_time()
        reflectors: list[Reflector[Any]] = [
            Reflector(transport, resource, cache.store(resource), features=features)
            for resource in (known.NODES, known.SERVICES, known.PODS)
        ]
        tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
        await cache.synced.wait()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        cache.pods.subscribe(handler)
        resident = resident_of(os.getpid())
        assert (len(cache.pods), len(cache.services), len(cache.nodes)) == (PODS, SERVICES, NODES)
        start = time.process_time()
        await done.wait()
        events = time.process_time() - start
        for task in tasks:
            task.cancel()
    return resident, wall, cpu, events / _EVENTS * 1e6


def _transport(address: str) -> "Transport":
    from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
    from zoneward.client.transport import Transport

    return Transport(ClientConfig(cluster=ClusterInfo(server=address), user=UserInfo()))
