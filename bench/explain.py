"""What ``explain`` takes beyond reading: one Service of 1,000 Pods, at most 500 ms."""

import gc
import time
from collections.abc import Iterator
from statistics import median

from msgspec.structs import replace

from bench.measuring import Figure
from bench.services import NODES_IN_ZONE, cluster_state, node_of, nodes, pod, service
from zoneward.advice.explanation import explain_service
from zoneward.advice.node_proxies import ZONEWARD_PROXY, same_proxy_everywhere
from zoneward.advice.service_input import ServiceInput
from zoneward.kube.objects import Pod

_SIZE = 1_000
_TIMES = 5
_MOST_MS = 500.0
_APPROACHES = ("none", "Auto", "Balanced", "PreferSameZone", "local")


def explain() -> Iterator[Figure]:
    """CPU time: with Pods in proportion, with most of them in one zone, and with so few in one that all is searched."""
    for approach in _APPROACHES:
        for title, placement in (("in proportion", node_of), ("most in b", _skewed), ("few in a", _few)):
            pods = tuple(_on(pod(index), placement(index)) for index in range(_SIZE))
            took = median(_milliseconds(approach, pods) for _ in range(_TIMES))
            yield Figure(f"explain {_SIZE} Pods, {title}, {approach}, median of {_TIMES}", took, "ms", _MOST_MS)


def _milliseconds(approach: str, pods: tuple[Pod, ...]) -> float:
    cluster = nodes()
    given = ServiceInput(service(approach), cluster, pods, (), cluster_state())
    proxies = same_proxy_everywhere(cluster, ZONEWARD_PROXY)
    gc.collect()
    start = time.process_time_ns()
    explain_service(given, node_proxies=proxies)
    return (time.process_time_ns() - start) / 1e6


def _on(pod: Pod, node: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node))


def _skewed(index: int) -> str:
    return f"node-{'b' if index % 10 else 'a'}-{index % NODES_IN_ZONE}"


def _few(index: int) -> str:
    zone = "a" if index % 100 == 0 else "bc"[index % 2]
    return f"node-{zone}-{index % NODES_IN_ZONE}"
