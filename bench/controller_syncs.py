"""One whole sync of the controller, from the bytes of a Pod's event to the bytes of its request: CPU, no network."""

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from math import inf
from random import Random
from statistics import mean, median
from typing import Any, Final

import msgspec
from tests.builders import objects
from tests.synthetic_details import decorate_node, decorate_pod

from bench.measuring import Figure
from bench.services import NODES_IN_ZONE, ZONES, address_of, flipping, node_of
from zoneward.client.list_watch_decoder import Bookmark, decode_watch_event
from zoneward.client.resources import PODS, SLICES
from zoneward.client.writer import Writer
from zoneward.controller.context import ControllerContext, ControllerOptions
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.queue.work_queue import Batching
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan

Object = dict[str, Any]
_APPROACHES: Final[dict[str, tuple[dict[str, str], Object]]] = {
    "none": ({}, {}),
    "Auto": ({"service.kubernetes.io/topology-mode": "Auto"}, {}),
    "PreferSameZone": ({}, {"distribution": "PreferSameZone"}),
}
_SIZES: Final = (100, 1_000, 5_000, 10_000)
_FLIPS: Final = 200
_WARM: Final = 10
_MOST_MS: Final = 1.5
_START: Final = 1_000_000
_UNHURRIED: Final = Batching(writes_per_second=inf)


def syncs() -> Iterator[Figure]:
    """A Pod's readiness flips, the controller writes, and the watch returns the slice; then another Pod flips."""
    for approach in _APPROACHES:
        for size in _SIZES:
            syncs, decoding, echoes, written = asyncio.run(_flips(approach, size))
            what = f"one of {size} flips, {approach}: event to request"
            yield Figure(f"{what}, mean", mean(syncs), "ms", _MOST_MS)
            yield Figure("  p50", median(syncs), "ms", _MOST_MS)
            yield Figure("  p95", sorted(syncs)[len(syncs) * 95 // 100], "ms")
            yield Figure("  of this, decoding the event", mean(decoding), "ms")
            yield Figure("  afterwards: the answer, and the slice's event", mean(echoes), "ms")
            yield Figure("  slices written", mean(written), "")


_END: Final = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}'
)
_DECODE: Final = msgspec.json.Decoder().decode
_ENCODE: Final = msgspec.json.Encoder().encode


class AnsweringLink:
    """A connection of a controller to a server in this process, which answers at once; its cost does not count.

    ``begin`` has the lines of all objects by the plural of their kind, of a ``version`` below all that follow.

    ``sent_at`` is the CPU time of this process (ns) when the last request came, less what its answers took here;
    ``echoes`` are the watch's lines of what was written, until the caller takes them.
    """

    def __init__(self, begin: Mapping[str, Sequence[bytes]], *, version: int) -> None:
        self._begin, self.version = begin, version
        self._lines: dict[str, asyncio.Queue[bytes]] = {}
        self.sent_at = self.own = 0
        self.bodies: list[int] = []
        self.echoes: list[bytes] = []

    def tell(self, plural: str, line: bytes) -> None:
        """A line of the watch of this kind."""
        self._lines[plural].put_nowait(line)

    def next_version(self) -> int:
        self.version += 1
        return self.version

    # --- the interface of a connection --------------------------------------------------------------------------------

    async def get(self, path: str, *_query: Mapping[str, str], **_options: Any) -> bytes:
        raise AssertionError(f"{path} is not asked for here")

    @asynccontextmanager
    async def stream(
        self, path: str, *_query: Mapping[str, str], **_options: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        plural = path.rpartition("/")[2]
        queue = self._lines[plural] = asyncio.Queue()
        yield self._streamed(plural, queue)

    async def _streamed(self, plural: str, queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        for line in self._begin.get(plural, ()):
            yield line
        yield _END % self.version
        while True:
            yield await queue.get()

    async def send(self, method: str, path: str, body: bytes, *, metadata_only: bool = False, **_options: Any) -> bytes:
        start = time.process_time_ns()
        self.sent_at = start - self.own
        self.bodies.append(len(body))
        assert path.rpartition("/")[2] == SLICES.plural or f"/{SLICES.plural}/" in path, path
        slice_ = _DECODE(body)
        metadata = slice_["metadata"]
        metadata["resourceVersion"] = str(self.next_version())
        metadata["generation"] = metadata.get("generation", 0) + 1
        if method == "POST":
            metadata["uid"] = f"uid-{self.version}"
        written = _ENCODE(slice_)
        kind = b"ADDED" if method == "POST" else b"MODIFIED"
        assert method in ("POST", "PUT"), method
        self.echoes.append(b'{"type":"%b","object":%b}' % (kind, written))
        self.own += time.process_time_ns() - start
        return _ENCODE({"metadata": metadata}) if metadata_only else written


class _SyncedMetrics(ControllerMetrics):
    """Signals the end of a sync."""

    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.Event()

    def record_sync(self, plan: ServicePlan) -> None:
        super().record_sync(plan)
        self.over.set()


async def _flips(approach: str, size: int) -> tuple[list[float], list[float], list[float], list[float]]:
    """By flip: milliseconds of CPU to the last request, of decoding alone, and of the rest; slices written."""
    flips = tuple(flipping(size, flips=_FLIPS))
    begin, pods = _objects(approach, size, flipping=set(flips))
    link, metrics = AnsweringLink(begin, version=_START), _SyncedMetrics()
    context = ControllerContext(
        connection=link,
        configuration=Configuration(),
        mode=Mode.TAKE_OVER,
        writer=Writer(link),
        metrics=metrics,
    )
    controller = EndpointSliceController(context, ControllerOptions(batching=_UNHURRIED))
    running = asyncio.create_task(controller.run())
    await metrics.over.wait()
    await _come_back(link)
    assert await controller.wait_until_idle(10)
    gc.collect()
    times: tuple[list[float], list[float], list[float], list[float]] = ([], [], [], [])
    for flip, pod in enumerate(flips):
        line = _flipped(pods[pod], version=link.next_version(), second=flip)
        metrics.over.clear()
        link.bodies.clear()
        start = time.process_time_ns()
        own = link.own
        link.tell("pods", line)
        await metrics.over.wait()
        after = time.process_time_ns()
        sync = link.sent_at + own - start
        answered = after - start - (link.own - own) - sync
        echoing = time.process_time_ns()
        await _come_back(link)
        done = time.process_time_ns()
        assert controller.is_idle
        decoding = time.process_time_ns()
        assert not isinstance(decode_watch_event(line, PODS), Bookmark)
        decoded = time.process_time_ns()
        if flip >= _WARM:
            values = sync, decoded - decoding, answered + done - echoing
            for list_, value in zip(times, values, strict=False):
                list_.append(value / 1e6)
            times[3].append(len(link.bodies))
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return times


async def _come_back(link: AnsweringLink) -> None:
    """Send the watch event of a write."""
    for line in link.echoes:
        link.tell("endpointslices", line)
    link.echoes.clear()
    for _ in range(10):
        await asyncio.sleep(0)


def _objects(approach: str, size: int, *, flipping: set[int]) -> tuple[dict[str, Sequence[bytes]], dict[int, Object]]:
    """Lines of a watch that begins with all objects, and the Pods that flip as objects."""
    chance, pods = Random(7), {}
    annotations, spec = _APPROACHES[approach]
    names = [(zone, f"node-{zone}-{index}") for zone in ZONES for index in range(NODES_IN_ZONE)]
    nodes = [objects.a_node(name, zone, cpu=ZONES[zone], version=1) | {"spec": {}} for zone, name in names]
    lines = [_line("ADDED", decorate_node(node, chance, instance="m6i.xlarge", cores=4)) for node in nodes]
    begin: dict[str, Sequence[bytes]] = {"nodes": lines}
    lines = []
    for index in range(size):
        labels = {"app": "web", "pod-template-hash": "5d8f6c7b9d"}
        pod = objects.a_pod(
            f"web-{index}", node=node_of(index), ips=[address_of(index)], namespace="shop", labels=labels
        )
        pod["metadata"]["uid"] = f"pod-{index}"
        pod["status"]["hostIP"] = "100.64.0.1"
        pod = decorate_pod(pod, chance, service="web")
        pod["metadata"]["resourceVersion"] = str(index + 1)
        lines.append(_line("ADDED", pod))
        if index in flipping:
            pods[index] = pod
    selector = {"app": "web"}
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    given: Object = {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": ports} | spec
    service = objects.a_service("web", namespace="shop", selector=selector, annotations=annotations, version=1, **given)
    service["metadata"]["uid"] = "1"
    return begin | {"pods": lines, "services": [_line("ADDED", service)]}, pods


def _flipped(pod: Object, *, version: int, second: int) -> bytes:
    """The watch event for a Pod that is ready, or not ready any more; changes ``pod``."""
    pod["metadata"]["resourceVersion"] = str(version)
    for condition in pod["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = "False" if condition["status"] == "True" else "True"
            condition["lastTransitionTime"] = f"2026-11-21T08:{second // 60:02d}:{second % 60:02d}Z"
    return _line("MODIFIED", pod)


def _line(kind: str, object_: Object) -> bytes:
    return json.dumps({"type": kind, "object": object_}, separators=(",", ":")).encode()
