"""Pods of three zones, and their readiness as a kubelet writes it."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.builders.objects import a_namespace, a_node, a_pod
from tests.contract.api import Api, Object

LABELS: Final = {"app": "cart"}


def a_shop(namespace: str, pods: int, *, nodes: Sequence[str] = ("node-a", "node-b", "node-c")) -> list[Object]:
    """A namespace and nodes of zones a, b and c, with the Pods cart-0, cart-1, ... on them in turn."""
    return [
        a_namespace(namespace),
        *(a_node(name, zone=zone) for name, zone in zip(nodes, "abc", strict=True)),
        *(
            a_pod(f"cart-{each}", namespace=namespace, node=nodes[each % 3], ips=[address(each)], labels=LABELS)
            for each in range(pods)
        ),
    ]


def address(pod: int) -> str:
    return f"10.1.0.{pod + 1}"


def ready_addresses(slices: Iterable[Object]) -> set[str]:
    """Of all endpoints that are ready."""
    return {
        address
        for each in slices
        for one in each["endpoints"] or ()
        if one["conditions"].get("ready")
        for address in one["addresses"]
    }


def set_pod_ready(api: Api, namespace: str, name: str, ready: bool) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}
    condition = {"type": "Ready", "status": str(ready)}
    api.patch(pod, {"status": {"conditions": [condition]}}, subresource="status")


@contextmanager
def flipping(api: Api, namespace: str, *pods: str, period: float = 0.15) -> Iterator[None]:
    """All these Pods turn unready and ready again, in a thread until the block ends; then they are ready."""
    ends = threading.Event()

    def flip() -> None:
        ready = False
        while not ends.wait(period):
            for pod in pods:
                set_pod_ready(api, namespace, pod, ready)
            ready = not ready
        for pod in pods:
            set_pod_ready(api, namespace, pod, True)

    thread = threading.Thread(target=flip, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(60)
    assert not thread.is_alive()
