"""A cluster as a node's proxy sees it: Services with their slices, as an API server keeps them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.builders import objects

Object = dict[str, Any]
NAMESPACE: Final = "bench"
NODE: Final = "node-0"
"""Whose proxy it is; in zone a."""
NODES: Final = 30
ZONES: Final = ("a", "b", "c")
MOST_IN_SLICE: Final = 100
PORT: Final = 8080
_FIRST: Final = 10 << 24 | 97 << 16
_PODS: Final = 10 << 24
_MANAGER: Final = "endpointslice-controller.k8s.io"


def address_of(service: int) -> str:
    """A Service's own."""
    return _dotted(_FIRST + service)


def pod_address(pod: int) -> str:
    """Of 10.0.0.0/12, which no Service is in."""
    assert pod < 1 << 20
    return _dotted(_PODS + 256 + pod)


def cluster(services: int, endpoints: int) -> Iterator[Object]:
    """Nodes in three zones, and Services with endpoints on all of them in turn."""
    yield objects.a_namespace(NAMESPACE)
    yield from (node(index) for index in range(NODES))
    for index in range(services):
        yield service(index)
        yield from slices(index, range(index * endpoints, (index + 1) * endpoints))


def node(index: int) -> Object:
    return objects.a_node(f"node-{index}", ZONES[index % len(ZONES)], address=f"192.168.0.{index + 1}")


def service(index: int, **spec: Any) -> Object:
    """``spec`` is added to its own."""
    given = {
        "type": "ClusterIP",
        "clusterIP": address_of(index),
        "clusterIPs": [address_of(index)],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": PORT}],
    }
    service = objects.a_service(f"service-{index}", namespace=NAMESPACE, **given | spec)
    service["metadata"] |= {"uid": _uid(index), "labels": {"app": f"service-{index}"}}
    return service


def slices(service: int, pods: Sequence[int]) -> Iterator[Object]:
    """Of one Service, at most a hundred endpoints each."""
    for start in range(0, len(pods), MOST_IN_SLICE):
        name = f"service-{service}-{start // MOST_IN_SLICE}"
        yield slice_(name, service, pods[start : start + MOST_IN_SLICE])


def slice_(name: str, service: int, pods: Sequence[int], *, labels: Object | None = None) -> Object:
    of = f"service-{service}"
    owner = {"apiVersion": "v1", "kind": "Service", "name": of, "uid": _uid(service)}
    slice_object = objects.a_slice(
        name, service=of, namespace=NAMESPACE, manager=_MANAGER, labels={"app": of} | (labels or {})
    )
    slice_object["metadata"]["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    return slice_object | {"endpoints": [endpoint(pod) for pod in pods]}


def endpoint(pod: int) -> Object:
    on = pod % NODES
    return {
        "addresses": [pod_address(pod)],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": f"node-{on}",
        "zone": ZONES[on % len(ZONES)],
        "targetRef": {
            "kind": "Pod",
            "namespace": NAMESPACE,
            "name": f"pod-{pod}",
            "uid": f"00000000-0000-4000-9000-{pod:012d}",
        },
    }


def write(file: Path, objects: Iterator[Object]) -> None:
    with file.open("w") as stream:
        stream.write('{"apiVersion": "v1", "kind": "List", "items": [\n')
        stream.write(",\n".join(map(json.dumps, objects)))
        stream.write("\n]}\n")


def _uid(index: int) -> str:
    return f"00000000-0000-4000-8000-{index:012d}"


def _dotted(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))
