"""One whole sync of a Service by its planner, from a Pod's event to the slice to write: CPU time, without network."""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from statistics import mean, median

import msgspec
from msgspec.structs import replace

from bench.measuring import Figure
from bench.services import cluster_state, flipped, flipping, service
from bench.services import pod as pod_of
from zoneward.kube.objects import EndpointSlice
from zoneward.slices.plan import ServicePlan
from zoneward.slices.planner import ServicePlanner

_APPROACHES = ("none", "Auto", "Balanced", "PreferSameZone", "PreferSameNode", "local")
_SIZES = (100, 1_000, 5_000, 10_000)
_FLIPS = 200
_MOST_MS = {100: 1.0, 1_000: 1.0, 5_000: 3.0, 10_000: 3.0}
"""From the event to the slice, by the number of endpoints; with the bytes of the request it may take half a ms more."""
_MOST_JSON_MS = 0.5
_MOST_BYTES = 1024.0


def one_flips() -> Iterator[Figure]:
    """A Pod's readiness flips, its Service is planned, and the watch returns the slice; then another Pod flips."""
    for approach in _APPROACHES:
        for size in _SIZES:
            sync, encoding, echo = _flips(approach, size)
            what = f"one of {size} flips, {approach}"
            yield Figure(f"{what}, mean", mean(sync), "ms", _MOST_MS[size])
            yield Figure(f"{what}, p50", median(sync), "ms", _MOST_MS[size])
            yield Figure(f"{what}, with JSON, mean", mean(sync) + mean(encoding), "ms", _MOST_MS[size] + _MOST_JSON_MS)
            yield Figure(f"{what}, the slice comes back, mean", mean(echo), "ms")
    for approach in ("none", "Auto"):
        yield Figure(f"memory an endpoint, {approach}", _memory(approach, 10_000), "B", _MOST_BYTES)


def _flips(approach: str, size: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of CPU: of the sync, of encoding the slices, and of updating the planner with them."""
    pods = [pod_of(index) for index in range(size)]
    planner = ServicePlanner(service(approach), cluster_state(), pods=pods)
    version = 0
    while plan := _written(planner):
        for slice_ in plan:
            version += 1
            planner.update_slice(slice_.metadata.name, _echoed(slice_, version))
    sync, encoding, echo = [], [], []
    gc.collect()
    for index in flipping(size, flips=_FLIPS):
        pods[index] = pod = flipped(pods[index])
        start = time.process_time_ns()
        planner.update_pod((pod.metadata.namespace, pod.metadata.name), pod)
        plan = _written(planner)
        planned = time.process_time_ns()
        bodies = [msgspec.json.encode(slice_) for slice_ in plan]
        encoded = time.process_time_ns()
        assert len(bodies) in (1, 2, 3), (approach, size, len(bodies))
        echoes = []
        for slice_ in plan:
            version += 1
            echoes.append(_echoed(slice_, version))
        before = time.process_time_ns()
        for echoed in echoes:
            planner.update_slice(echoed.metadata.name, echoed)
        done = time.process_time_ns()
        sync.append((planned - start) / 1e6)
        encoding.append((encoded - planned) / 1e6)
        echo.append((done - before) / 1e6)
    return sync, encoding, echo


def _memory(approach: str, size: int) -> float:
    """Bytes that the planner state takes for each endpoint, beyond Pods and slices, which the cache holds anyway."""
    pods = [pod_of(index) for index in range(size)]
    asking, around = service(approach), cluster_state()
    first = ServicePlanner(asking, around, pods=pods)
    slices = [_echoed(slice_, 1) for slice_ in _written(first)]
    del first
    gc.collect()
    tracemalloc.start()
    planner = ServicePlanner(asking, around, pods=pods, slices=slices)
    planner.plan()
    for pod in pods[:3]:
        planner.update_pod((pod.metadata.namespace, pod.metadata.name), flipped(pod))
        planner.plan()
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / size


def _written(planner: ServicePlanner) -> list[EndpointSlice]:
    plan: ServicePlan = planner.plan(trigger_time="2026-11-21T08:00:00Z")
    (family,) = plan.families
    assert not family.changes.delete, family.changes
    return [*family.changes.create, *family.changes.update]


def _echoed(slice_: EndpointSlice, version: int) -> EndpointSlice:
    """A copy, as a watch event brings a new object."""
    metadata = replace(slice_.metadata, resource_version=str(version))
    return msgspec.json.decode(msgspec.json.encode(replace(slice_, metadata=metadata)), type=EndpointSlice)
