"""Pods whose readiness changes, as a kubelet writes it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.contract.api import Api


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
        thread.join(10)
