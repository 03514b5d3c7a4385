"""``plan --watch`` on a large cluster: the cost of the first table, of a changed Pod, and of a changed Node."""

import time
from collections.abc import Iterator
from itertools import count, cycle, islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from bench.measuring import Figure
from bench.snapshots import PODS, SERVICES, large_snapshot

_RATE: Final = 20
"""Changed Pods a second."""
_ROUND: Final = 2
"""Changes that arrive together, in the tenth of a second that a watch waits."""
_ROUNDS: Final = 200
_MOST_SHARE: Final = 5.0
"""Percent of one core."""


class _Items(msgspec.Struct, gc=False):
    items: list[msgspec.Raw]


def watch() -> Iterator[Figure]:
    """Everything between the decoded event of a watch and the line of JSON, or the table on a terminal."""
    from zoneward.cli.live_plans import LivePlans
    from zoneward.cli.options import Options
    from zoneward.cli.plan_watch import WatchScreen
    from zoneward.client.informer_cache import InformerCache
    from zoneward.client.resources import LivePodCondition, LivePodStatus
    from zoneward.routing.configuration import Configuration
    from zoneward.routing.demand import counts_for_demand

    cache, versions = InformerCache(), count(1)
    _fill(cache, versions)
    options = Options(color="always")
    plans = LivePlans(cache, options=options, configuration=Configuration(), on_stale=lambda: None)
    plans.begin()
    yield Figure(f"{SERVICES:,} Services planned for the first time, CPU", _updated(plans), "s")

    pods = cycle(list(islice((pod for pod in cache.pods if cache.services_of(pod)), 0, PODS, 7)))
    took, changed_lines = 0.0, 0
    for _ in range(_ROUNDS):
        start = time.process_time()
        for pod in islice(pods, _ROUND):
            now = cache.pods.get(pod.metadata.namespace, pod.metadata.name)
            assert now is not None
            is_ready = any(
                condition.type == "Ready" and condition.status == "True" for condition in now.status.conditions or ()
            )
            conditions = (LivePodCondition(type="Ready", status=str(not is_ready)),)
            status: LivePodStatus = replace(now.status, conditions=conditions)
            metadata = replace(now.metadata, resource_version=str(next(versions)))
            cache.pods.put(replace(now, metadata=metadata, status=status))
        changed_lines += sum(
            len(msgspec.json.encode(change.view)) > 0 for changes in plans.update() for change in changes
        )
        took += time.process_time() - start
    assert changed_lines >= _ROUNDS
    per_pod = took / _ROUNDS / _ROUND
    yield Figure(f"a changed Pod among {PODS:,}, CPU", per_pod * 1e3, "ms")
    yield Figure(f"  {_RATE} of them a second, of one core", per_pod * _RATE * 100, "%", _MOST_SHARE)

    view = WatchScreen(plans, cache, options, wide=False, server="")
    start = time.process_time()
    for _ in range(20):
        assert len(view.picture(120, 50, marked=())) == 50
    yield Figure("a picture of 120 columns and 50 lines, CPU", (time.process_time() - start) / 20 * 1e3, "ms")

    node = next(node for node in cache.nodes if counts_for_demand(node))
    alive = replace(node, metadata=replace(node.metadata, resource_version=str(next(versions))))
    start = time.process_time()
    cache.nodes.put(alive)
    assert not plans.is_stale
    yield Figure("a heartbeat of a Node, CPU", (time.process_time() - start) * 1e6, "us")
    cache.nodes.delete(alive)
    yield Figure("a deleted Node: all Services again, CPU", _updated(plans), "s")


def _fill(cache: Any, versions: Iterator[int]) -> None:
    from zoneward.client.resources import CACHED_RESOURCES

    by_kind = {resource.kind: resource for resource in CACHED_RESOURCES}
    for raw in msgspec.json.decode(large_snapshot("json").read_bytes(), type=_Items).items:
        resource = by_kind.get(msgspec.json.decode(raw)["kind"])
        if resource is not None:
            object_: Any = msgspec.json.decode(raw, type=resource.struct)
            metadata = replace(object_.metadata, resource_version=str(next(versions)))
            cache.store(resource).put(replace(object_, metadata=metadata))


def _updated(plans: Any) -> float:
    start = time.process_time()
    for changes in plans.update():
        assert changes is not None
    return time.process_time() - start
