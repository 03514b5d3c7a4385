"""Services of one namespace that change all the time and are costly to decide, and a new Pod of another namespace."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, Final

from tests.builders import objects

from bench.controller_syncs import AnsweringLink
from bench.measuring import Figure
from zoneward.client.writer import Writer
from zoneward.controller.context import ControllerContext, ControllerOptions
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan

Object = dict[str, Any]
_ZONES: Final = (8, 20, 32)
_SERVICES: Final = 50
_PODS_IN_ZONE: Final = 2
_PATCHES: Final = 400.0
"""A second."""
_NEW_PODS: Final = 5
_VARIANTS: Final = 4
_PAUSE: Final = 1.0
_MOST_SECONDS: Final = 4.0
"""One decision with 32 zones takes up to three seconds of CPU, and nothing interrupts it."""
_START: Final = 1_000_000
_LABELS: Final = {"app": "web"}
_TURNS: Final = 5
"""Turns of the event loop that a request takes at least."""


def latencies() -> Iterator[Figure]:
    """From the event of a Pod to the request that lists it, while the other namespace floods."""
    for zones in _ZONES:
        waited, cpu, decided = asyncio.run(_flooded(zones))
        yield Figure(f"{zones} zones: new Pod of another namespace, p50", sorted(waited)[len(waited) // 2], "s")
        yield Figure("  longest", max(waited), "s")
        yield Figure("  longest, CPU of the controller meanwhile", max(cpu), "s", _MOST_SECONDS)
        yield Figure("  decisions for the flooding namespace, per second of CPU", decided, "")


class _Link(AnsweringLink):
    """What was written comes back as an event at once. ``listed`` is set by a request for the namespace shop."""

    def __init__(self, begin: dict[str, list[bytes]]) -> None:
        super().__init__(begin, version=_START)
        self.listed = asyncio.Event()

    async def send(self, method: str, path: str, body: bytes, *, metadata_only: bool = False, **options: Any) -> bytes:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        answer = await super().send(method, path, body, metadata_only=metadata_only, **options)
        if "/namespaces/shop/" in path:
            self.listed.set()
        for line in self.echoes:
            self.tell("endpointslices", line)
        self.echoes.clear()
        return answer


class _CountedSyncs(ControllerMetrics):
    flooding = 0

    def record_sync(self, plan: ServicePlan) -> None:
        super().record_sync(plan)
        self.flooding += plan.service.metadata.namespace == "flood"


async def _flooded(zones: int) -> tuple[list[float], list[float], float]:
    """Seconds that each new Pod of the namespace shop waits, the CPU meanwhile, and decisions for the other namespace
    in a second of CPU."""
    link, metrics = _Link(_objects(zones)), _CountedSyncs()
    context = ControllerContext(
        connection=link, configuration=Configuration(), mode=Mode.TAKE_OVER, writer=Writer(link), metrics=metrics
    )
    controller = EndpointSliceController(context, ControllerOptions())
    running = asyncio.create_task(controller.run())
    await link.listed.wait()
    await controller.wait_until_idle(120)
    flooding = asyncio.create_task(_flood(link, zones))
    metrics.flooding, start = 0, time.process_time()
    waited, cpu = list[float](), list[float]()
    for index in range(_NEW_PODS):
        await asyncio.sleep(_PAUSE)
        link.listed.clear()
        begin, used = time.perf_counter(), time.process_time()
        link.tell("pods", _line("ADDED", _pod("shop", 10 + index, 0), link.next_version()))
        await link.listed.wait()
        waited.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - used)
    rate = metrics.flooding / (time.process_time() - start)
    for task in (flooding, running):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return waited, cpu, rate


async def _flood(link: _Link, zones: int) -> None:
    """Patches at a steady rate, also while the controller works."""
    chance = Random(2)
    services = [_service("flood", index, zones, chance) for index in range(_SERVICES) for _ in range(_VARIANTS)]
    # Writing them costs the server, not the controller.
    lines = [_line("MODIFIED", service, 7_777_777).replace(b"7777777", b"%d") for service in services]
    sent, start = 0, time.perf_counter()
    while True:
        while sent < (time.perf_counter() - start) * _PATCHES:
            line = lines[sent % _SERVICES * _VARIANTS + sent // _SERVICES % _VARIANTS]
            link.tell("services", line.replace(b"%d", b"%d" % link.next_version()))
            sent += 1
        await asyncio.sleep(0.001)


def _objects(zones: int) -> dict[str, list[bytes]]:
    chance = Random(1)
    nodes = [objects.a_node(f"node-{zone}", f"zone-{zone:02}", version=1) | {"spec": {}} for zone in range(zones)]
    services = [_service("flood", index, zones, chance) for index in range(_SERVICES)]
    plain = objects.a_service("web", namespace="shop", selector=_LABELS, version=1, ports=_PORTS)
    plain["metadata"]["uid"] = "shop"
    pods = [_pod("flood", index, index % zones) for index in range(zones * _PODS_IN_ZONE)]
    pods += [_pod("shop", index, index) for index in range(3)]
    return {
        "nodes": [_line("ADDED", node, 1) for node in nodes],
        "services": [_line("ADDED", service, 2) for service in (*services, plain)],
        "pods": [_line("ADDED", pod, 3) for pod in pods],
    }


_PORTS: Final = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]


def _service(namespace: str, index: int, zones: int, chance: Random) -> Object:
    demand = ",".join(f"zone-{zone:02}={chance.randint(1, 1000)}" for zone in range(zones))
    annotations = {
        "service.kubernetes.io/topology-mode": "zoneward.dev/Balanced",
        "zoneward.dev/demand": demand,
        "zoneward.dev/max-overload": f"{chance.randint(1, 50)}%",
    }
    service = objects.a_service(
        f"web-{index}", namespace=namespace, selector=_LABELS, annotations=annotations, version=1, ports=_PORTS
    )
    service["metadata"]["uid"] = f"{namespace}-{index}"
    return service


def _pod(namespace: str, index: int, zone: int) -> Object:
    address = f"10.{1 + (namespace == 'shop')}.{index >> 8}.{index & 255}"
    pod = objects.a_pod(f"web-{index}", node=f"node-{zone}", ips=[address], namespace=namespace, labels=_LABELS)
    pod["metadata"]["uid"] = f"{namespace}-{index}"
    return pod


def _line(kind: str, object_: Object, version: int) -> bytes:
    object_["metadata"]["resourceVersion"] = str(version)
    return json.dumps({"type": kind, "object": object_}, separators=(",", ":")).encode()
