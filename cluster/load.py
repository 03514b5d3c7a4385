"""Servers, two Pods on each node, and clients that open new connections to them, one in each zone."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from threading import Event, Thread
from typing import Any, Final

from cluster.box import WAIT
from cluster.images import OPENING
from cluster.lifecycle import Cluster
from cluster.sites import SITES
from e2e.processes import wait_until

from zoneward.kube import names

NAMESPACE: Final = ("--namespace", "load")
WEB: Final = "deployment/web"
BALANCED: Final = f"{names.TOPOLOGY_MODE_ANNOTATION}=zoneward.dev/Balanced"
"""The annotation with which the Service asks for it."""
REPLICAS: Final = 12
CLIENTS: Final = ("n1", "n2", "n3")
"""One in each zone. Disruptions affect other nodes."""
RATE: Final = 50
"""New connections a second of each client."""
_SERVER: Final = Path(__file__).parent / "manifests" / "tests" / "load.yaml"
_PERIOD: Final = 2.0
"""Seconds between two lists of the Pods: less than the shortest life of a Pod."""
_LABEL: Final = "--selector=run=client"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of all clients. ``slow`` took over 0.8 s; ``lines`` has one for each connection that failed or was slow.
    ``in_zone`` is the share of the answers that came from the client's own zone; ``answers`` has for each client how
    many came from there, and how many in all.
    """

    sent: int
    failed: int
    slow: int
    reasons: dict[str, int]
    lines: str
    in_zone: float
    answers: tuple[tuple[int, int], ...]


def serve(cluster: Cluster, *, delay: int) -> None:
    """Wait until all Pods are ready. They serve for ``delay`` seconds after SIGTERM."""
    cluster.kubectl("apply", "--filename=-", text=Template(_SERVER.read_text()).substitute(delay=delay))
    wait_for_rollout(cluster)


def wait_for_rollout(cluster: Cluster) -> None:
    cluster.kubectl("rollout", "status", WEB, WAIT, *NAMESPACE)


def scale(cluster: Cluster, replicas: int) -> None:
    cluster.kubectl("scale", WEB, f"--replicas={replicas}", *NAMESPACE)


def settle(cluster: Cluster) -> None:
    """Wait until all Pods are ready; replace them if one terminates or they are not spread evenly."""
    if not _is_even(cluster):
        scale(cluster, 0)
        cluster.kubectl("wait", "--for=delete", "pods", "--selector=app=web", WAIT, *NAMESPACE)
        scale(cluster, REPLICAS)
    wait_for_rollout(cluster)


def open_connections(cluster: Cluster, seconds: int, act: Callable[[], None]) -> Outcome:
    """Run the clients for this time, and call ``act`` when they have started."""
    address = cluster.kubectl("get", "service", "web", *NAMESPACE, "--output=jsonpath={.spec.clusterIP}")
    remove_clients(cluster)
    pods = [_client(node, [f"http://{address}/hostname", str(RATE), str(seconds)]) for node in CLIENTS]
    cluster.kubectl("apply", "--filename=-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    wait_until(lambda: _have_started(cluster), "clients that have started")
    zone_of: dict[str, str] = {}
    with _watched(cluster, zone_of):
        act()
        ended = "--for=jsonpath={.status.phase}=Succeeded"
        cluster.kubectl("wait", ended, "pods", _LABEL, WAIT, *NAMESPACE)
    logs = [cluster.kubectl("logs", f"client-{node}", *NAMESPACE) for node in CLIENTS]
    remove_clients(cluster)
    return _sum(logs, zone_of)


def _have_started(cluster: Cluster) -> bool:
    """Of some the time may be over already, where others take long to start."""
    phases = cluster.kubectl("get", "pods", _LABEL, "--output=jsonpath={.items[*].status.phase}", *NAMESPACE).split()
    return len(phases) == len(CLIENTS) and "Pending" not in phases


@contextmanager
def _watched(cluster: Cluster, zone_of: dict[str, str]) -> Iterator[None]:
    """Record the zone of each Pod, also of short-lived ones."""
    zones = {site.name: site.zone for site in SITES}
    ended = Event()

    def look() -> None:
        for pod in pods(cluster):
            if node := pod["spec"].get("nodeName"):
                zone_of[pod["metadata"]["name"]] = zones[node]

    def watch() -> None:
        look()
        while not ended.wait(_PERIOD):
            look()

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    look()


def remove_clients(cluster: Cluster) -> None:
    cluster.kubectl("delete", "pods", _LABEL, "--now", *NAMESPACE)


def pods(cluster: Cluster) -> list[dict[str, Any]]:
    """The servers, as the API returns them."""
    printed = cluster.kubectl("get", "pods", "--selector=app=web", "--output=json", *NAMESPACE)
    return list(json.loads(printed)["items"])


def _is_even(cluster: Cluster) -> bool:
    running = pods(cluster)
    if len(running) != REPLICAS or any("deletionTimestamp" in pod["metadata"] for pod in running):
        return False
    return set(Counter(pod["spec"].get("nodeName") for pod in running).values()) == {REPLICAS // len(SITES)}


def _client(node: str, arguments: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"client-{node}", "namespace": NAMESPACE[1], "labels": {"run": "client"}},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [{"name": "client", "image": OPENING, "args": arguments}],
        },
    }


def _sum(logs: list[str], zone_of: Mapping[str, str]) -> Outcome:
    summaries = [json.loads(log.splitlines()[-1]) for log in logs]
    reasons = sum((Counter(summary["reasons"]) for summary in summaries), Counter[str]())
    zones = {site.name: site.zone for site in SITES}
    answers = []
    for node, summary in zip(CLIENTS, summaries, strict=True):
        known = {pod: count for pod, count in summary["answers"].items() if pod in zone_of}
        inside = sum(count for pod, count in known.items() if zone_of[pod] == zones[node])
        answers.append((inside, sum(known.values())))
    inside, total = map(sum, zip(*answers, strict=True))
    lines = [f"{node} {line}\n" for node, log in zip(CLIENTS, logs, strict=True) for line in log.splitlines()[:-1]]
    return Outcome(
        sum(summary["sent"] for summary in summaries),
        sum(summary["failed"] for summary in summaries),
        sum(summary["slow"] for summary in summaries),
        dict(reasons.most_common()),
        "".join(sorted(lines, key=lambda line: line.partition(" ")[2])),
        inside / max(total, 1),
        tuple(answers),
    )
