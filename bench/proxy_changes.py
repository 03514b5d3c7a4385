"""The time until the kernel has one changed endpoint of a Service, and the kernel's part of it.

Zoneward's proxy is measured with a sandbox in this process, from the moment at which the server has stored the change
to the kernel's notification at the end of the transaction. Beside kube-proxy both are measured on the same real API
server, in turns, from the request that makes the change: the time of the server is included.
"""

import asyncio
import gc
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

from e2e.programs import ProgramsError, find_programs
from tests.proxy.drawn_services import key, node_service, one_port

from bench.api_server import ApiServer
from bench.children import results_of
from bench.measuring import MIB, Figure, quantile
from bench.processes import peak_of
from bench.proxies import KubeProxy, Zoneward, create, plane
from bench.proxy_cluster import NAMESPACE, address_of, cluster, pod_address
from bench.proxy_server import PAUSE, KernelEvents, proxied_node
from zoneward.netlink.messages import Family, error_number
from zoneward.proxy.kernel.nft_client import KernelRefused
from zoneward.proxy.kernel.nft_process import NftLibrary, TransactionSocket, query_kernel
from zoneward.proxy.kernel.table_syncer import ProgrammedTransaction, TableSyncer
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.proxy.ruleset.base_rules import RulesetOptions

FIGURES: Final = Path(".cache/bench/proxy-changes.json")
"""The last measurement, for ``docs/pictures/make_proxy_changes.py``."""
_SIZES: Final = (100, 1_000, 10_000, 30_000)
_BESIDE: Final = (100, 1_000, 10_000)
_CHECKED: Final = 10_000
_ENDPOINTS: Final = 10
_CHANGES, _APPLIED = 1_000, 5_000
_ZONEWARD: Final = 200
_KUBE_PROXY: Final = {100: 40, 1_000: 20, 10_000: 20}
_MEASURED: Final = (
    ("apply", "apply", {0.5: 0.15, 0.99: 0.3}),
    ("event", "watch event to kernel", {0.5: 2.0, 0.99: 10.0}),
)
"""With limits in milliseconds, by share."""
_MOST_GROWTH: Final = 1.5
_MOST_PART: Final = 0.03
"""Since 1.37 kube-proxy lists no table with each sync: 0.3 s with 10,000 Services, where 1.36 took 8 s."""
_SLICES: Final = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"


def changes() -> Iterator[Figure]:
    """Zoneward's proxy by the number of Services, and beside kube-proxy."""
    results: dict[str, Any] = {"apply": {}, "event": {}, "beside": {}}
    for size in _SIZES:
        what = f"{size:,} Services x {_ENDPOINTS}, one endpoint replaced"
        for name, label, limits in _MEASURED:
            (seconds,) = results_of(f"proxy_changes.{name}", size, alone=True)
            results[name][size] = seconds
            for share, most in limits.items():
                milliseconds = quantile(seconds, share) * 1e3
                limit = most if size == _CHECKED else None
                yield Figure(f"{what}: {label}, p{share * 100:.0f}", milliseconds, "ms", limit)
    for name, label, _ in _MEASURED:
        growth = median(results[name][_SIZES[-1]]) / median(results[name][_SIZES[0]])
        # The kernel takes some hundredths of a millisecond, so that its caches matter.
        most_growth = _MOST_GROWTH if name == "event" else None
        yield Figure(f"{label}, {_SIZES[-1]:,} Services against {_SIZES[0]:,}, p50", growth, "x", most_growth)
    yield from _beside_kube_proxy(results["beside"])
    if results["beside"]:
        kube_proxy, zoneward = (
            results["beside"][name][_CHECKED]["seconds"] for name in (KubeProxy.name, Zoneward.name)
        )
        part = median(zoneward) / median(kube_proxy)
        yield Figure(f"{_CHECKED:,} Services: request to kernel, part of kube-proxy's", part, "x", _MOST_PART)
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(results))


def _beside_kube_proxy(results: dict[str, Any]) -> Iterator[Figure]:
    try:
        find_programs(environment=os.environ)
    except ProgramsError as error:
        print(f"not beside kube-proxy: {error}", file=sys.stderr)
        return
    for result in results_of("proxy_changes.beside", _BESIDE, alone=True):
        size, name, seconds = result["size"], result["name"], result["seconds"]
        results.setdefault(name, {})[size] = result
        what = f"real API server, {size:,} Services x {_ENDPOINTS}, {name}"
        yield Figure(f"{what}: start to programmed", result["start"], "s")
        yield Figure("  resident at its peak", result["peak"] / MIB, "MiB")
        yield Figure("  one endpoint replaced, request to kernel, p50", median(seconds) * 1e3, "ms")
        yield Figure("  the slowest", max(seconds) * 1e3, "ms")
        yield Figure("  CPU for one", result["cpu"] / len(seconds) * 1e3, "ms")
    for size in _BESIDE:
        zoneward, kube_proxy = (results[name][size] for name in (Zoneward.name, KubeProxy.name))
        faster = median(kube_proxy["seconds"]) / median(zoneward["seconds"])
        yield Figure(f"real API server, {size:,} Services: kube-proxy's latency over Zoneward's, p50", faster, "x")
        cheaper = kube_proxy["cpu"] / len(kube_proxy["seconds"]) / (zoneward["cpu"] / len(zoneward["seconds"]))
        yield Figure("  the same for CPU", cheaper, "x")


class _Kernel:
    """The process that programs the kernel, without the pipe to it, which all other figures include."""

    def __init__(self) -> None:
        self._library, self._sender = NftLibrary(), TransactionSocket()
        self.transactions_done = 0

    async def run_commands(self, commands: str) -> None:
        done, said = self._library.run(commands.encode())
        assert done, said
        self.transactions_done += 1

    async def send_batch(self, batch: bytes) -> None:
        assert not error_number(self._sender.answer(batch))
        self.transactions_done += 1

    async def query(self, request: bytes) -> bytes:
        answer = b"".join(query_kernel(request))
        if code := error_number(answer):
            raise KernelRefused("", code)
        return answer


async def apply(services: int) -> list[float]:
    """Seconds that the kernel takes for each change."""
    durations: list[float] = []

    class Durations:
        def transaction_done(self, _family: Family, done: ProgrammedTransaction) -> None:
            durations.append(done.seconds)

        def service_refused(self, *_: object) -> None: ...

    drawn, pods = random.Random(1), iter(range(services * _ENDPOINTS, 1 << 20))
    table = TableSyncer(_Kernel(), "ip", options=RulesetOptions(), listener=Durations())
    there = {}
    for service in range(services):
        first = service * _ENDPOINTS
        there[service] = [Backend(pod_address(first + index), 8080) for index in range(_ENDPOINTS)]
        served = _served(service, there[service])
        table.set_service(key(served), served)
    running = asyncio.create_task(table.run())
    await table.wait_until_synced()
    durations.clear()
    # The objects that stay have no cycles.
    gc.freeze()
    for _ in range(_APPLIED):
        service = drawn.randrange(services)
        there[service][drawn.randrange(_ENDPOINTS)] = Backend(pod_address(next(pods)), 8080)
        served = _served(service, there[service])
        table.set_service(key(served), served)
        await table.wait_until_synced()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return durations


def _served(service: int, targets: list[Backend]) -> NodeService:
    return node_service(
        one_port(*targets), namespace=NAMESPACE, name=f"service-{service}", cluster_ip=address_of(service)
    )


async def event(services: int) -> list[float]:
    """Seconds from the server's change to the end of the transaction."""
    async with proxied_node(cluster(services, _ENDPOINTS)) as node:
        return await node.replace_many(_CHANGES, services=services, endpoints=_ENDPOINTS)


async def beside(sizes: list[int]) -> AsyncIterator[dict[str, Any]]:
    drawn, pods = random.Random(1), iter(range(max(sizes) * _ENDPOINTS, 1 << 20))
    async with plane() as (control, server):
        objects, made = list(cluster(max(sizes), _ENDPOINTS)), 0
        head = len(objects) - 2 * max(sizes)
        await create(server, objects[:head])
        for size in sizes:
            await create(server, objects[head + 2 * made : head + 2 * size])
            made = size
            for contender in (Zoneward(control.kubeconfig(), control.folder), KubeProxy(control)):
                with contender:
                    await asyncio.to_thread(contender.until_programmed)
                    start = time.perf_counter() - contender.started
                    peak = peak_of(*contender.pids)
                    await asyncio.sleep(3.0)
                    count = _ZONEWARD if isinstance(contender, Zoneward) else _KUBE_PROXY[size]
                    cpu = contender.cpu
                    seconds = await _replace(server, size, count, drawn, pods)
                    # Work after the transaction counts too.
                    await asyncio.sleep(1.0)
                    cpu = contender.cpu - cpu
                    yield {
                        "size": size,
                        "name": contender.name,
                        "start": start,
                        "peak": max(peak, peak_of(*contender.pids)),
                        "seconds": seconds,
                        "cpu": cpu,
                    }
                contender.clear()


async def _replace(server: ApiServer, size: int, count: int, drawn: random.Random, pods: Iterator[int]) -> list[float]:
    seconds = []
    with KernelEvents() as kernel:
        for _ in range(count):
            address = pod_address(next(pods))
            seen = kernel.awaited(address)
            path = f"{_SLICES}/service-{drawn.randrange(size)}-0"
            where = f"/endpoints/{drawn.randrange(_ENDPOINTS)}/addresses/0"
            patch = [{"op": "replace", "path": where, "value": address}]
            asked = time.perf_counter()
            await server.ask("PATCH", path, patch, form="application/json-patch+json")
            seconds.append(await asyncio.wait_for(seen, 60) - asked)
            await asyncio.sleep(PAUSE)
    return seconds
