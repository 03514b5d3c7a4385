"""Services that are not as most are: a very large one, those whose clients keep their endpoint, and those with slices
for zones, of which a node decodes its own zone's."""

import asyncio
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.alone import tell, told_alone
from bench.kernel_events import KernelEvents
from bench.measuring import MIB, Figure
from bench.proxies import Ours, peak_of, share_of, taken_by
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
from bench.proxy_server import ChangingServer, serving

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
_PAUSE: Final = 0.01
_HERE: Final = b"hairpin\0"


def large() -> Iterator[Figure]:
    """Endpoints of a Service of 5,000 go, one after the other."""
    (found,) = told_alone("proxy_services", "large")
    what = f"one of {_LARGE:,} endpoints removed"
    yield Figure(f"{what}: elements that change", max(found["elements"]), "", _MOST_ELEMENTS)
    yield from _latency(what, found["seconds"])
    yield Figure("  CPU of both processes", found["cpu"] / _REMOVED * 1e3, "ms")


def addresses() -> Iterator[Figure]:
    """A Service of 200 ports, 200 external addresses and 100 endpoints, and others that change with it."""
    (found,) = told_alone("proxy_services", "addresses")
    what = f"{_PORTS} ports x {_EXTERNAL} external addresses x {_OF_EXTERNAL} endpoints"
    yield Figure(f"{what}, from synced caches to programmed", found["programming"], "s", _MOST_SECONDS)
    yield Figure("  resident at its peak, both processes", found["peak"] / MIB, "MiB", _MOST_MEMORY)
    yield Figure("  elements in the kernel", found["elements"], "")
    yield Figure("  an endpoint of another Service meanwhile, the slowest", max(found["seconds"]), "s", _MOST_SECONDS)
    yield Figure("  the whole Service changed, CPU of both processes", found["cpu"] / _WHILE, "s")


def affinity() -> Iterator[Figure]:
    """Services with ClientIP affinity: a chain for each endpoint, and a timed set for each port."""
    (found,) = told_alone("proxy_services", "affinity")
    what = f"{_AFFINE:,} Services x {_OF_EACH} with affinity"
    yield Figure(f"{what}, from synced caches to programmed", found["programming"], "s")
    yield Figure("  of it in apply", found["apply"], "s")
    yield Figure("  resident at its peak, both processes", found["peak"] / MIB, "MiB")
    yield from _latency("one endpoint replaced there", found["seconds"])
    yield Figure("  CPU of both processes", found["cpu"] / _REPLACED * 1e3, "ms")


def node_of_many() -> Iterator[Figure]:
    """A node in a cluster of 50,000 endpoints, of which a third are for its zone, with subsetting and without."""
    for kind, label in (("whole", "without subsetting"), ("zoned", "with subsetting")):
        (found,) = told_alone("proxy_services", kind)
        what = f"{_ZONED:,} Services x {_OF_ZONED}, {label}"
        yield Figure(f"{what}: CPU of the start, both processes", found["start"], "s")
        yield Figure("  resident at its peak, both processes", found["peak"] / MIB, "MiB")
        yield Figure("  resident at rest, what is shared in parts", found["share"] / MIB, "MiB")
        yield Figure("  elements in the kernel", found["elements"], "")
        yield Figure(f"  CPU of {_ELSEWHERE:,} changes in other zones, both processes", found["cpu"], "s")
        yield Figure("  transactions for them", found["transactions"], "")


def _latency(what: str, seconds: list[float]) -> Iterator[Figure]:
    some = sorted(seconds)
    yield Figure(f"{what}: watch event to kernel, p50", some[len(some) // 2] * 1e3, "ms")
    yield Figure("  the slowest", some[-1] * 1e3, "ms")


# --- a large one ------------------------------------------------------------------------------------------------------


def _one_large() -> Iterator[Object]:
    yield from (node(number) for number in range(NODES))
    port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}
    yield service(0, type="NodePort", externalIPs=["203.0.113.1", "203.0.113.2"], ports=[port])
    yield from slices(0, range(_LARGE))


async def _large(folder: Path) -> dict[str, Any]:
    seconds, elements = [], []
    async with serving(_one_large(), folder, first_pod=_LARGE) as server:
        with Ours(server.kubeconfig, folder) as ours:
            await asyncio.to_thread(ours.until_programmed)
            await asyncio.sleep(1.0)
            cpu = ours.cpu
            with KernelEvents() as kernel:
                for number in range(_REMOVED):
                    kernel.elements = set()
                    gone = number * 7 * MOST_IN_SLICE // 3 % _LARGE
                    seen = kernel.awaited(pod_address(gone))
                    had = server.change(f"service-0-{gone // MOST_IN_SLICE}", _without(pod_address(gone)))
                    seconds.append(await asyncio.wait_for(seen, 30) - had)
                    await asyncio.sleep(0.3)
                    # One element says whether the endpoint is on this node, for all addresses of the Service.
                    elements.append(sum(name != _HERE for name, _ in kernel.elements))
            cpu = ours.cpu - cpu
    return {"seconds": seconds, "elements": elements, "cpu": cpu}


def _without(address: str) -> Any:
    def change(thing: Object) -> Object:
        return thing | {"endpoints": [each for each in thing["endpoints"] if each["addresses"] != [address]]}

    return change


# --- one with many addresses ------------------------------------------------------------------------------------------


def _many_addresses() -> Iterator[Object]:
    yield from cluster(_OTHERS, _OF_EACH)
    names = [f"port-{number}" for number in range(_PORTS)]
    ports = [{"name": name, "port": 1000 + number, "protocol": "TCP"} for number, name in enumerate(names)]
    yield service(_OTHERS, externalIPs=[f"203.0.113.{number}" for number in range(1, _EXTERNAL + 1)], ports=ports)
    first = _OTHERS * _OF_EACH
    for each in slices(_OTHERS, range(first, first + _OF_EXTERNAL)):
        yield each | {"ports": [{"name": name, "port": 8080, "protocol": "TCP"} for name in names]}


async def _addresses(folder: Path) -> dict[str, Any]:
    """An endpoint of the large one changes, and right after it one of another Service."""
    seconds = []
    async with serving(_many_addresses(), folder, first_pod=_OTHERS * _OF_EACH + _OF_EXTERNAL) as server:
        with Ours(server.kubeconfig, folder) as ours:
            told = await asyncio.to_thread(ours.until_programmed)
            metrics = await asyncio.to_thread(ours.metrics)
            await asyncio.sleep(1.0)
            cpu = ours.cpu
            with KernelEvents() as kernel:
                for number in range(_WHILE):
                    server.replace(f"service-{_OTHERS}-0", number, server.new_address())
                    address = server.new_address()
                    seen = kernel.awaited(address)
                    had = server.replace(f"service-{number}-0", 0, address)
                    seconds.append(await asyncio.wait_for(seen, 30) - had)
                    await asyncio.sleep(1.0)
            cpu, peak = ours.cpu - cpu, peak_of(ours.pids)
    elements = sum(value for name, value in metrics.items() if name.startswith("zoneward_proxy_elements"))
    return {
        "programming": told["since_listed"],
        "peak": peak,
        "elements": elements,
        "seconds": seconds,
        "cpu": cpu,
    }


# --- clients that keep their endpoint ---------------------------------------------------------------------------------


def _affine() -> Iterator[Object]:
    for each in cluster(_AFFINE, _OF_EACH):
        if each["kind"] == "Service":
            each["spec"] |= {
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}},
            }
        yield each


async def _affinity(folder: Path) -> dict[str, Any]:
    seconds, drawn = [], random.Random(1)
    async with serving(_affine(), folder, first_pod=_AFFINE * _OF_EACH) as server:
        with Ours(server.kubeconfig, folder) as ours:
            told = await asyncio.to_thread(ours.until_programmed)
            metrics = await asyncio.to_thread(ours.metrics)
            peak = peak_of(ours.pids)
            await asyncio.sleep(1.0)
            cpu = ours.cpu
            with KernelEvents() as kernel:
                for _ in range(_REPLACED):
                    address = server.new_address()
                    seen = kernel.awaited(address)
                    had = server.replace(f"service-{drawn.randrange(_AFFINE)}-0", drawn.randrange(_OF_EACH), address)
                    seconds.append(await asyncio.wait_for(seen, 30) - had)
                    await asyncio.sleep(_PAUSE)
            cpu = ours.cpu - cpu
    apply = metrics["zoneward_proxy_apply_seconds_sum"]
    return {"programming": told["since_listed"], "apply": apply, "peak": peak, "seconds": seconds, "cpu": cpu}


# --- zones ------------------------------------------------------------------------------------------------------------


def _zoned(*, by_zone: bool) -> Iterator[Object]:
    yield from (node(number) for number in range(NODES))
    for number in range(_ZONED):
        yield service(number)
        pods = range(number * _OF_ZONED, (number + 1) * _OF_ZONED)
        if not by_zone:
            yield slice_(f"service-{number}-b", number, pods)
            continue
        for zone in ZONES:
            own = [each for each in pods if endpoint(each)["zone"] == zone]
            labels = {"topology.kubernetes.io/zone": zone}
            yield slice_(f"service-{number}-{zone}", number, own, labels=labels)


async def _of_many(folder: Path, *, by_zone: bool) -> dict[str, Any]:
    async with serving(_zoned(by_zone=by_zone), folder, first_pod=_ZONED * _OF_ZONED) as server:
        with Ours(server.kubeconfig, folder) as ours:
            await asyncio.to_thread(ours.until_programmed)
            start, peak = ours.cpu, peak_of(ours.pids)
            elements = (await asyncio.to_thread(ours.metrics))['zoneward_proxy_elements{address_type="IPv4"}']
            await asyncio.sleep(1.0)
            share = share_of(ours.pids)
            before = [taken_by(pid) for pid in ours.pids]
            with KernelEvents() as kernel:
                await _change_elsewhere(server)
                cpu = [taken_by(pid) - was for pid, was in zip(ours.pids, before, strict=True)]
                transactions = kernel.transactions
    return {
        "start": start,
        "peak": peak,
        "share": share,
        "elements": elements,
        "cpu": sum(cpu),
        "transactions": transactions,
    }


async def _change_elsewhere(server: ChangingServer) -> None:
    drawn = random.Random(1)
    for _ in range(_ELSEWHERE):
        # The one in zone b of the first three endpoints of a Service, with slices for zones or without.
        address = server.new_address()
        server.change(f"service-{drawn.randrange(_ZONED)}-b", _moved(address))
        await asyncio.sleep(_PAUSE)
    await asyncio.sleep(2.0)


def _moved(address: str) -> Any:
    def change(thing: Object) -> Object:
        endpoints = list(thing["endpoints"])
        place = next(number for number, each in enumerate(endpoints) if each["zone"] == ZONES[1])
        endpoints[place] = endpoints[place] | {"addresses": [address]}
        return thing | {"endpoints": endpoints}

    return change


async def _main(what: str, folder: Path) -> None:
    match what:
        case "large":
            tell(await _large(folder))
        case "addresses":
            tell(await _addresses(folder))
        case "affinity":
            tell(await _affinity(folder))
        case _:
            tell(await _of_many(folder, by_zone=what == "zoned"))


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        asyncio.run(_main(sys.argv[1], Path(name)))
