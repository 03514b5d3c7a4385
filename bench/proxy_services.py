"""Unusual Services: a very large one, some with session affinity, and some with slices for zones, of which a node only
decodes its own zone's. And a thousand changes a second of ordinary Services."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final

from bench.children import results_of
from bench.measuring import MIB, Figure, quantile
from bench.processes import cpu_of, peak_of, share_of
from bench.proxy_cluster import (
    MOST_IN_SLICE,
    NODES,
    ZONES,
    Object,
    cluster,
    endpoint,
    node,
    pod_address,
    service,
    slice_,
    slices,
)
from bench.proxy_server import PAUSE, ProxiedNode, proxied_node

_LARGE: Final = 5_000
_REMOVED: Final = 20
_MOST_ELEMENTS: Final = 4
"""For any number of addresses."""
_PORTS, _EXTERNAL, _OF_EXTERNAL = 200, 200, 100
_OTHERS, _WHILE = 100, 20
_MOST_SECONDS, _MOST_MEMORY = 4.0, 143.0
"""Time and memory (MiB) of kube-proxy v1.36 for the Service with many addresses."""
_AFFINE, _OF_EACH = 200, 10
_REPLACED: Final = 500
_ZONED, _OF_ZONED = 1_000, 50
_ELSEWHERE: Final = 1_000
_HERE: Final = b"hairpin\0"
_ELEMENTS: Final = "zoneward_proxy_elements"


def _latency(what: str, seconds: list[float]) -> Iterator[Figure]:
    yield Figure(f"{what}: watch event to kernel, p50", quantile(seconds, 0.5) * 1e3, "ms")
    yield Figure("  the slowest", max(seconds) * 1e3, "ms")


def _one_large() -> Iterator[Object]:
    yield from (node(index) for index in range(NODES))
    port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}
    yield service(0, type="NodePort", externalIPs=["203.0.113.1", "203.0.113.2"], ports=[port])
    yield from slices(0, range(_LARGE))


async def large() -> AsyncIterator[Figure]:
    """Remove endpoints of a Service of 5,000, one after the other."""
    seconds, elements = [], []
    async with proxied_node(_one_large()) as proxied:
        cpu = proxied.proxy.cpu
        for index in range(_REMOVED):
            proxied.kernel.elements = set()
            gone = index * 7 * MOST_IN_SLICE // 3 % _LARGE
            address = pod_address(gone)

            def remove(endpoints: list[Object], address: str = address) -> None:
                endpoints[:] = [rest for rest in endpoints if rest["addresses"] != [address]]

            seen = proxied.kernel.awaited(address)
            had = proxied.server.change(f"service-0-{gone // MOST_IN_SLICE}", remove)
            seconds.append(await asyncio.wait_for(seen, 30) - had)
            await asyncio.sleep(0.3)
            # One element says whether the endpoint is on this node, for all addresses of the Service.
            elements.append(sum(name != _HERE for name, _ in proxied.kernel.elements))
        what = f"one of {_LARGE:,} endpoints removed"
        yield Figure(f"{what}: elements that change", max(elements), "", _MOST_ELEMENTS)
        for figure in _latency(what, seconds):
            yield figure
        yield Figure("  CPU of both processes", (proxied.proxy.cpu - cpu) / _REMOVED * 1e3, "ms")


def _many_addresses() -> Iterator[Object]:
    yield from cluster(_OTHERS, _OF_EACH)
    names = [f"port-{index}" for index in range(_PORTS)]
    ports = [{"name": name, "port": 1000 + index, "protocol": "TCP"} for index, name in enumerate(names)]
    yield service(_OTHERS, externalIPs=[f"203.0.113.{index}" for index in range(1, _EXTERNAL + 1)], ports=ports)
    first = _OTHERS * _OF_EACH
    for slice_object in slices(_OTHERS, range(first, first + _OF_EXTERNAL)):
        yield slice_object | {"ports": [{"name": name, "port": 8080, "protocol": "TCP"} for name in names]}


async def addresses() -> AsyncIterator[Figure]:
    """A Service of 200 ports, 200 external addresses and 100 endpoints, and others that change right after it."""
    seconds = []
    async with proxied_node(_many_addresses()) as proxied:
        cpu = proxied.proxy.cpu
        for index in range(_WHILE):
            proxied.server.replace(f"service-{_OTHERS}-0", index, proxied.server.new_address())
            seconds.append(await proxied.replace(f"service-{index}-0", 0))
            await asyncio.sleep(1.0)
        cpu = proxied.proxy.cpu - cpu
        elements = sum(value for name, value in proxied.metrics.items() if name.startswith(_ELEMENTS))
        what = f"{_PORTS} ports x {_EXTERNAL} external addresses x {_OF_EXTERNAL} endpoints"
        programming = proxied.started["since_listed"]
        yield Figure(f"{what}, from synced caches to programmed", programming, "s", _MOST_SECONDS)
        yield Figure("  resident at its peak, both processes", peak_of(*proxied.proxy.pids) / MIB, "MiB", _MOST_MEMORY)
        yield Figure("  elements in the kernel", elements, "")
        yield Figure("  an endpoint of another Service meanwhile, the slowest", max(seconds), "s", _MOST_SECONDS)
        yield Figure("  the whole Service changed, CPU of both processes", cpu / _WHILE, "s")


def _affine() -> Iterator[Object]:
    affinity = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}}}
    for object_ in cluster(_AFFINE, _OF_EACH):
        yield object_ | {"spec": object_["spec"] | affinity} if object_["kind"] == "Service" else object_


async def affinity() -> AsyncIterator[Figure]:
    """Services with ClientIP affinity: a chain for each endpoint, and a timed set for each port."""
    async with proxied_node(_affine()) as proxied:
        cpu = proxied.proxy.cpu
        seconds = await proxied.replace_many(_REPLACED, services=_AFFINE, endpoints=_OF_EACH)
        cpu = proxied.proxy.cpu - cpu
        what = f"{_AFFINE:,} Services x {_OF_EACH} with affinity"
        yield Figure(f"{what}, from synced caches to programmed", proxied.started["since_listed"], "s")
        yield Figure("  of it in apply", proxied.metrics["zoneward_proxy_apply_seconds_sum"], "s")
        yield Figure("  resident at its peak, both processes", proxied.start_peak / MIB, "MiB")
        for figure in _latency("one endpoint replaced there", seconds):
            yield figure
        yield Figure("  CPU of both processes", cpu / _REPLACED * 1e3, "ms")


def _zoned(*, by_zone: bool) -> Iterator[Object]:
    yield from (node(index) for index in range(NODES))
    for index in range(_ZONED):
        yield service(index)
        pods = range(index * _OF_ZONED, (index + 1) * _OF_ZONED)
        if not by_zone:
            yield slice_(f"service-{index}-b", index, pods)
            continue
        for zone in ZONES:
            own = [pod for pod in pods if endpoint(pod)["zone"] == zone]
            labels = {"topology.kubernetes.io/zone": zone}
            yield slice_(f"service-{index}-{zone}", index, own, labels=labels)


def node_of_many() -> Iterator[Figure]:
    """A node in a cluster of 50,000 endpoints, of which a third are for its zone, with subsetting and without."""
    for by_zone in (False, True):
        yield from (Figure(*values) for values in results_of("proxy_services.zones", by_zone, alone=True))


async def zones(by_zone: bool) -> AsyncIterator[Figure]:
    """``by_zone``: with subsetting."""
    drawn = random.Random(1)
    async with proxied_node(_zoned(by_zone=by_zone)) as proxied:
        pids = proxied.proxy.pids
        share, cpu = share_of(*pids), sum(map(cpu_of, pids))
        for _ in range(_ELSEWHERE):
            address = proxied.server.new_address()

            def move(endpoints: list[Object], address: str = address) -> None:
                """The one in zone b of the first three endpoints of a Service, with slices for zones or without."""
                at = next(index for index, member in enumerate(endpoints) if member["zone"] == ZONES[1])
                endpoints[at] = endpoints[at] | {"addresses": [address]}

            proxied.server.change(f"service-{drawn.randrange(_ZONED)}-b", move)
            await asyncio.sleep(PAUSE)
        await asyncio.sleep(2.0)
        cpu = sum(map(cpu_of, pids)) - cpu
        what = f"{_ZONED:,} Services x {_OF_ZONED}, {'with' if by_zone else 'without'} subsetting"
        yield Figure(f"{what}: CPU of the start, both processes", proxied.start_cpu, "s")
        yield Figure("  resident at its peak, both processes", proxied.start_peak / MIB, "MiB")
        yield Figure("  resident at rest, what is shared in parts", share / MIB, "MiB")
        yield Figure("  elements in the kernel", proxied.metrics[f'{_ELEMENTS}{{address_type="IPv4"}}'], "")
        yield Figure(f"  CPU of {_ELSEWHERE:,} changes in other zones, both processes", cpu, "s")
        yield Figure("  transactions for them", proxied.kernel.transactions, "")


_SERVICES, _ENDPOINTS = 10_000, 10
_RATE: Final = 1_000
_SECONDS: Final = 60
_FIRST: Final = 30
"""Seconds until memory is measured: nearly every Service has changed by then, and its state was computed again."""
_MOST_CPU: Final = 0.5
_MOST_GROWTH: Final = 5.0
"""MiB: of Services that change for the first time, one in twenty."""


async def rate() -> AsyncIterator[Figure]:
    """CPU of both processes; memory of both after half of the time and at the end."""
    async with proxied_node(cluster(_SERVICES, _ENDPOINTS)) as node:
        pids = node.proxy.pids
        cpu, begun = [*map(cpu_of, pids)], time.perf_counter()
        work = asyncio.create_task(_change(node))
        await asyncio.sleep(_FIRST)
        before = share_of(*pids)
        latencies = sorted(await work)
        took = time.perf_counter() - begun
        cpu = [cpu_of(pid) - was for pid, was in zip(pids, cpu, strict=True)]
        after = share_of(*pids)
        what = f"{_RATE:,} changes a second for {_SECONDS} s, {_SERVICES:,} Services x {_ENDPOINTS}"
        yield Figure(f"{what}: of one core, both processes", sum(cpu) / took * 100, "%", _MOST_CPU * 100)
        yield Figure("  of it the one that programs the kernel", cpu[1] / took * 100, "%")
        yield Figure("  changes a second", len(latencies) / took, "1/s")
        yield Figure("  transactions a second", node.kernel.transactions / took, "1/s")
        yield Figure("  until the kernel has it, p50", quantile(latencies, 0.5) * 1e3, "ms")
        yield Figure("  until the kernel has it, p99", quantile(latencies, 0.99) * 1e3, "ms")
        yield Figure("  memory of both at the end", after / MIB, "MiB")
        yield Figure(f"  more than {_FIRST} s after the beginning", (after - before) / MIB, "MiB", _MOST_GROWTH)


async def _change(node: ProxiedNode) -> list[float]:
    drawn = random.Random(1)
    begun, done, waited = time.perf_counter(), 0, []
    while done < _RATE * _SECONDS:
        due = min(_RATE * _SECONDS, int((time.perf_counter() - begun) * _RATE))
        while done < due:
            address = node.server.new_address()
            seen = node.kernel.awaited(address)
            had = node.server.replace(f"service-{drawn.randrange(_SERVICES)}-0", drawn.randrange(_ENDPOINTS), address)
            waited.append((seen, had))
            done += 1
            # One event for each change, as a server sends them.
            await asyncio.sleep(0)
        await asyncio.sleep(1 / _RATE)
    await asyncio.sleep(2.0)
    # An endpoint that was replaced before it was programmed never appears.
    return [seen.result() - had for seen, had in waited if seen.done()]
