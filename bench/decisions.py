"""One whole plan from Pods and slices, without kept state, after one endpoint of many changed."""

import time
from collections.abc import Iterator
from statistics import median

from bench.measuring import Figure
from bench.services import cluster_state, flipped, pod, service
from zoneward.slices.plan import plan_service

_REPEATS = 7


def one_changed() -> Iterator[Figure]:
    """Previous decision read back, decision, hints and packing; microseconds, the median."""
    for setting in ("none", "Auto", "PreferSameZone", "local"):
        for size in (1_000, 10_000):
            yield Figure(f"one of {size} endpoints changed, {setting}", _measure(setting, size), "us")


def _measure(setting: str, size: int) -> float:
    asking, around = service(setting), cluster_state()
    pods = [pod(number) for number in range(size)]
    (before,) = plan_service(asking, pods=pods, slices=(), cluster_state=around).families
    pods[size // 2] = flipped(pods[size // 2])
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        plan = plan_service(asking, pods=pods, slices=before.changes.after, cluster_state=around)
        times.append(time.perf_counter() - start)
        (family,) = plan.families
        assert len(family.changes.update) == 1, family.changes
        assert not family.changes.create, family.changes
    return median(times) * 1e6
