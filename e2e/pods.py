"""A namespace with Pods in three zones: its objects, and changes as kubelets write them."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml
from tests.builders.objects import MANAGED_BY, SERVICE_NAME, a_namespace, a_node, a_pod, a_service
from tests.contract.api import Api, Object

LABELS: Final = {"app": "cart"}


def a_shop(namespace: str, pods: int) -> list[Object]:
    """A namespace, and the nodes node-a, node-b and node-c with the Pods cart-0, cart-1, ... on them in turn."""
    nodes = ("node-a", "node-b", "node-c")
    return [
        a_namespace(namespace),
        *(a_node(name, zone=zone) for name, zone in zip(nodes, "abc", strict=True)),
        *(
            a_pod(f"cart-{index}", namespace=namespace, node=nodes[index % 3], ips=[address(index)], labels=LABELS)
            for index in range(pods)
        ),
    ]


def address(pod: int) -> str:
    return f"10.1.0.{pod + 1}"


def ready_addresses(slices: Iterable[Object]) -> set[str]:
    """The addresses of all ready endpoints."""
    return {
        address
        for slice_ in slices
        for one in slice_["endpoints"] or ()
        if one["conditions"].get("ready")
        for address in one["addresses"]
    }


class Shop:
    """The Services of a namespace that select the Pods of `a_shop`, as an administrator sees them."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace

    def items(self, path: str, **query: str) -> list[Object]:
        """``path``: as in ``/api/v1/{}/services``."""
        listed: list[Object] = self.api.get(path.format(f"namespaces/{self.namespace}"), **query)["items"]
        return listed

    def service(self, name: str) -> Object:
        return self.api.read(a_service(name, namespace=self.namespace))

    def slices(self, service: str = "", manager: str = "") -> list[Object]:
        labels = {SERVICE_NAME: service, MANAGED_BY: manager}
        selector = ",".join(f"{label}={value}" for label, value in labels.items() if value)
        return self.items("/apis/discovery.k8s.io/v1/{}/endpointslices", labelSelector=selector)

    def managers(self, service: str = "") -> set[str]:
        return {slice_["metadata"]["labels"][MANAGED_BY] for slice_ in self.slices(service)}

    def ready(self, service: str = "", manager: str = "") -> set[str]:
        return ready_addresses(self.slices(service, manager))

    def endpoints(self, service: str) -> Object | None:
        answer = self.api.send("GET", f"/api/v1/namespaces/{self.namespace}/endpoints/{service}")
        assert answer.code in (200, 404)
        return answer.object if answer.code == 200 else None

    def listed(self, service: str) -> set[str]:
        """The ready addresses of the Endpoints object."""
        subsets = (self.endpoints(service) or {}).get("subsets") or ()
        return {one["ip"] for subset in subsets for one in subset.get("addresses") or ()}

    def conditions(self, service: str) -> dict[str, str]:
        """Reasons, by their types."""
        listed = self.service(service)["status"].get("conditions") or ()
        return {condition["type"]: condition["reason"] for condition in listed}

    def make_ready(self, pod: str, ready: bool) -> None:
        pod_object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": self.namespace}}
        condition = {"type": "Ready", "status": str(ready)}
        self.api.patch(pod_object, {"status": {"conditions": [condition]}}, subresource="status")

    @contextmanager
    def flipping(self, *pods: str, period: float = 0.15) -> Iterator[None]:
        """Keep changing the readiness of these Pods until the block ends; then they are ready."""
        ends = threading.Event()

        def flip() -> None:
            ready = False
            while not ends.wait(period):
                for pod in pods:
                    self.make_ready(pod, ready)
                ready = not ready
            for pod in pods:
                self.make_ready(pod, True)

        thread = threading.Thread(target=flip, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join(60)
        assert not thread.is_alive()


class AuditLog:
    """The audit log of an API server that is started with ``flags``."""

    def __init__(self, folder: Path, *rules: Object) -> None:
        policy, self._log = folder / "audit-policy.yaml", folder / "audit.log"
        head = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"]}
        policy.write_text(yaml.safe_dump(head | {"rules": list(rules)}))
        self.flags: Final = (
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-mode=blocking",
        )

    def entries(self) -> list[Object]:
        """The entries about objects."""
        whole, _, _ = self._log.read_text().rpartition("\n")
        return [event for event in map(json.loads, whole.splitlines()) if "objectRef" in event]
