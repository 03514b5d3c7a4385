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


def pod_address(number: int) -> str:
    """Of 10.0.0.0/12, which no Service is in."""
    assert number < 1 << 20
    return _dotted(_PODS + 256 + number)


def cluster(services: int, endpoints: int) -> Iterator[Object]:
    """Nodes in three zones, and Services with endpoints on all of them in turn."""
    yield objects.a_namespace(NAMESPACE)
    yield from (node(number) for number in range(NODES))
    for number in range(services):
        yield service(number)
        yield from slices(number, range(number * endpoints, (number + 1) * endpoints))


def node(number: int) -> Object:
    return objects.a_node(f"node-{number}", ZONES[number % len(ZONES)], address=f"192.168.0.{number + 1}")


def service(number: int, **spec: Any) -> Object:
    """``spec`` is added to its own."""
    given = {
        "type": "ClusterIP",
        "clusterIP": address_of(number),
        "clusterIPs": [address_of(number)],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": PORT}],
    }
    found = objects.a_service(f"service-{number}", namespace=NAMESPACE, **given | spec)
    found["metadata"] |= {"uid": _uid(number), "labels": {"app": f"service-{number}"}}
    return found


def slices(service: int, pods: Sequence[int]) -> Iterator[Object]:
    """Of one Service, at most a hundred endpoints each."""
    for place in range(0, len(pods), MOST_IN_SLICE):
        name = f"service-{service}-{place // MOST_IN_SLICE}"
        yield slice_(name, service, pods[place : place + MOST_IN_SLICE])


def slice_(name: str, service: int, pods: Sequence[int], *, labels: Object | None = None) -> Object:
    of = f"service-{service}"
    owner = {"apiVersion": "v1", "kind": "Service", "name": of, "uid": _uid(service)}
    found = objects.a_slice(
        name, service=of, namespace=NAMESPACE, manager=_MANAGER, labels={"app": of} | (labels or {})
    )
    found["metadata"]["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    return found | {"endpoints": [endpoint(pod) for pod in pods]}


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


def _uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _dotted(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
