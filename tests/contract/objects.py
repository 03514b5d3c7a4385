"""Objects as a kubelet, a user or a controller would have written them, with what tests need to choose."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from tests.contract.api import Object

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
ABSENT: Final = object()


def a_namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def a_node(
    name: str, *, zone: str | None = "a", cpu: str = "4", address: str = "10.0.0.1", ready: bool = True
) -> Object:
    """The taint that admission adds to new nodes does no harm: nobody schedules here."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name} | ({ZONE: zone} if zone is not None else {})},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"},
            "capacity": {"cpu": cpu, "memory": "16Gi", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [_condition(ready=ready)],
        },
    }


def a_pod(
    name: str,
    *,
    node: str,
    address: str,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    ready: bool = True,
) -> Object:
    """Running on ``node``, which must exist already: the pod takes over its zone."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "main", "ports": [{"name": "http", "containerPort": 8080}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [_condition(ready=ready)],
        },
    }


def a_service(
    name: str,
    *,
    namespace: str = "default",
    selector: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    traffic_distribution: str | None = None,
) -> Object:
    spec: Object = {"ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]}
    if selector is not None:
        spec["selector"] = dict(selector)
    if traffic_distribution is not None:
        spec["trafficDistribution"] = traffic_distribution
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {})},
        "spec": spec,
    }


def an_endpoint_slice(
    name: str,
    *,
    service: str,
    addresses: Sequence[str],
    namespace: str = "default",
    zone: str | None = None,
    hints: Sequence[str] = (),
    managed_by: str = "zoneward.example",
) -> Object:
    """Ready endpoints, all in the same zone and with the same hints."""
    endpoint: Object = {"conditions": {"ready": True, "serving": True, "terminating": False}}
    if zone is not None:
        endpoint["zone"] = zone
    if hints:
        endpoint["hints"] = {"forZones": [{"name": hint} for hint in hints]}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {SERVICE_NAME: service, MANAGED_BY: managed_by},
        },
        "addressType": "IPv4",
        "endpoints": [{**endpoint, "addresses": [address]} for address in addresses],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


def with_field(thing: Object, path: str, value: object) -> Object:
    """``thing`` itself, where the field at ``spec.ports[0].port`` now has that value; ABSENT takes it away.

    What is not there on the way is made, and an item that follows the last one is appended.
    """
    keys = [int(key) if key.isdigit() else key for key in re.findall(r"[^.\[\]]+", path)]
    place: Any = thing
    for key, following in pairwise(keys):
        if isinstance(place, dict):
            place.setdefault(key, [] if isinstance(following, int) else {})
        place = place[key]
    if value is ABSENT:
        del place[keys[-1]]
    elif isinstance(place, list) and keys[-1] == len(place):
        place.append(value)
    else:
        place[keys[-1]] = value
    return thing


def some_endpoints(name: str, *, namespace: str, address: str = "10.0.0.1") -> Object:
    subset = {"addresses": [{"ip": address}], "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]}


def a_bare_pod(name: str, *, namespace: str, labels: Mapping[str, str] | None = None) -> Object:
    """On no node yet, so that deleting it takes no time."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"containers": [{"name": "main", "image": "main"}]},
    }


def a_bare_node(name: str, *, labels: Mapping[str, str] | None = None) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": dict(labels or {})}}


def a_lease(name: str, *, namespace: str, holder: str = "me", labels: Mapping[str, str] | None = None) -> Object:
    """The smallest kind of all; tests that would do with any use it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"holderIdentity": holder},
    }


def a_core_event(name: str, *, namespace: str, about: str = "cart") -> Object:
    """As the older recorder writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Service", "name": about, "namespace": namespace},
        "reason": "Tested",
        "message": "it was tested",
        "type": "Normal",
        "source": {"component": "tests"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-02T00:00:00Z",
        "count": 3,
    }


def an_event(name: str, *, namespace: str, about: str = "cart") -> Object:
    """As the newer recorder writes it."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "zoneward.example/tests",
        "reportingInstance": "tests-1",
        "action": "Testing",
        "reason": "Tested",
        "regarding": {"apiVersion": "v1", "kind": "Service", "name": about, "namespace": namespace},
        "note": "it was tested",
        "type": "Normal",
    }


def _condition(*, ready: bool) -> Object:
    return {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
