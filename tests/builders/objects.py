"""Objects of the API as JSON, as a kubelet, a user or a controller would have written them.

`tests.builders.structs` builds the same as structs; names of functions and arguments are the same where both have them.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

Object = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
BUILT_IN_MANAGER: Final = "endpointslice-controller.k8s.io"
ABSENT: Final = object()
_SERVICE_SPEC: Final = {
    *("allocateLoadBalancerNodePorts", "clusterIP", "clusterIPs", "externalIPs", "externalName"),
    *("externalTrafficPolicy", "healthCheckNodePort", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"),
    *("loadBalancerClass", "loadBalancerIP", "loadBalancerSourceRanges", "ports", "publishNotReadyAddresses"),
    *("sessionAffinity", "sessionAffinityConfig", "topologyKeys", "type"),
}


def a_namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def a_node(
    name: str,
    zone: str | None = "a",
    *,
    cpu: str = "4",
    address: str = "10.0.0.1",
    ready: bool = True,
    labels: Mapping[str, str] | None = None,
    version: int | None = None,
) -> Object:
    """The taint that admission adds to new nodes does no harm: nobody schedules here."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {HOSTNAME: name} | ({ZONE: zone} if zone is not None else {}) | dict(labels or {}),
            **_version(version),
        },
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
    ips: Sequence[str],
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    ready: bool = True,
    version: int | None = None,
) -> Object:
    """Running on ``node``, which must exist already: the pod takes over its zone."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {}), **_version(version)},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "main", "ports": [{"name": "http", "containerPort": 8080}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": ips[0] if ips else "",
            "podIPs": [{"ip": ip} for ip in ips],
            "conditions": [_condition(ready=ready)],
        },
    }


def a_service(
    name: str,
    *,
    namespace: str = "default",
    selector: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    distribution: str | None = None,
    version: int | None = None,
    **more: Any,
) -> Object:
    """A Service. ``more`` are other fields of its spec."""
    assert more.keys() <= _SERVICE_SPEC, f"no fields of a Service: {more.keys() - _SERVICE_SPEC}"
    spec: Object = {"ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]}
    if selector is not None:
        spec["selector"] = dict(selector)
    if distribution is not None:
        spec["trafficDistribution"] = distribution
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {}), **_version(version)},
        "spec": spec | more,
    }


def a_slice(
    name: str,
    *,
    service: str | None,
    addresses: Sequence[str] = (),
    namespace: str = "default",
    node: str | None = None,
    zone: str | None = None,
    hints: Sequence[str] = (),
    manager: str = "zoneward.example",
    labels: Mapping[str, str] | None = None,
    version: int | None = None,
    conditions: Mapping[str, bool] | None = None,
) -> Object:
    """Ready endpoints, unless ``conditions`` say otherwise, all in the same zone and with the same hints."""
    known = {MANAGED_BY: manager} | ({SERVICE_NAME: service} if service is not None else {})
    endpoint: Object = {"conditions": {"ready": True, "serving": True, "terminating": False} | dict(conditions or {})}
    if node is not None:
        endpoint["nodeName"] = node
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
            "labels": known | dict(labels or {}),
            **_version(version),
        },
        "addressType": "IPv4",
        "endpoints": [{**endpoint, "addresses": [address]} for address in addresses],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


def pods_with_slices(
    service: str, zones: Mapping[str, str | None], *, namespace: str = "shop", hinted: bool = False
) -> list[Object]:
    """A Pod of a Service on each Node, by their zones, and a slice of the built-in controller for each Pod."""
    objects = []
    for index, (node, zone) in enumerate(zones.items()):
        name, ip = f"{service}-{index}", f"10.1.0.{index + 1}"
        hints = [zone] if hinted and zone is not None else []
        objects += [
            a_pod(name, node=node, ips=[ip], namespace=namespace, labels={"app": service}),
            a_slice(
                name,
                service=service,
                addresses=[ip],
                namespace=namespace,
                node=node,
                zone=zone,
                hints=hints,
                manager=BUILT_IN_MANAGER,
            ),
        ]
    return objects


def a_volume_with_claim(claim: str, zone: str, *, namespace: str = "shop") -> list[Object]:
    """A claim, and the volume that it is bound to, which can be mounted in one zone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    volume = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{claim}"}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": namespace},
            "spec": {"volumeName": f"pv-{claim}"},
        },
    ]


def measured_traffic(node: str, zone: str | None, *services: Object, **more: Any) -> Object:
    """What the meter of a node measured in a day."""
    return {
        "apiVersion": "zoneward.dev/v1alpha1",
        "kind": "MeasuredTraffic",
        "node": node,
        "zone": zone,
        "since": "2026-03-01T10:00:00Z",
        "until": "2026-03-02T10:00:00Z",
        "services": list(services),
    } | more


def service_traffic(service: str, connections: Mapping[str, int], **more: Any) -> Object:
    """Connections of clients on one node, by the zone of the endpoint."""
    return {"namespace": "shop", "service": service, "addressType": "IPv4", "zones": dict(connections)} | more


def with_field(object_: Object, path: str, value: object) -> Object:
    """``object_`` itself, where the field at ``spec.ports[0].port`` now has that value; ABSENT takes it away.

    What is not there on the way is made, and an item that follows the last one is appended.
    """
    keys = [int(key) if key.isdigit() else key for key in re.findall(r"[^.\[\]]+", path)]
    parent: Any = object_
    for key, following in pairwise(keys):
        if isinstance(parent, dict):
            parent.setdefault(key, [] if isinstance(following, int) else {})
        parent = parent[key]
    if value is ABSENT:
        del parent[keys[-1]]
    elif isinstance(parent, list) and keys[-1] == len(parent):
        parent.append(value)
    else:
        parent[keys[-1]] = value
    return object_


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


def _version(version: int | None) -> Object:
    return {"resourceVersion": str(version)} if version is not None else {}


def _condition(*, ready: bool) -> Object:
    return {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
