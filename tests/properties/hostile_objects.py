"""Objects as a hostile tenant, or a lying server, may have them: real ones, with any of their fields replaced."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from typing import Any, Final

from tests.builders.objects import a_node, a_pod, a_service, a_slice

from zoneward.client.resources import CACHED_RESOURCES, ENDPOINTS, LEASES
from zoneward.controller.handover.endpoints_object import OVER_CAPACITY_ANNOTATION
from zoneward.kube import names
from zoneward.kube.adoption_marks import ENDPOINTS_ANNOTATION, SELECTOR_ANNOTATION, SKIP_MIRROR_LABEL

Object = dict[str, Any]


class Raw(str):
    """JSON that Python does not write."""

    __slots__ = ()


def nested(levels: int) -> Raw:
    return Raw('{"f:a":[' * (levels // 2) + "1" + "]}" * (levels // 2))


VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 70_000, 2**31, 2**70, -(2**70), 1.5, 1e300, "", " ", "0", "-1", "true", "null", "None",
    [], {}, [None], [[]], [{}], {"": ""}, {"a": None}, {"a": 1}, {"a": "b"}, ["a"], ["a", "a"], [""], [1],
    "my zone", "a\nb", "\x1b[31mred", "\u0000", "\u009b", "\u202egnp", "\ufeff", "é", "\U0001f600", "a/b", "-", "..",
    "x" * 63, "x" * 300, "x" * 10_000, "{" * 5_000, "192.168.77.1 }\nadd table inet X", "garbage", "9" * 5_000,
    "10.0.0.1", "010.0.0.1", "10.0.0.1/24", "1.2.3", "127.0.0.1", "0.0.0.0", "169.254.169.254", "224.0.0.1",
    "255.255.255.255", "::", "::1", "fd00::0:1", "FD00::1", "::ffff:1.2.3.4", "fe80::1%eth0", "fd00::1/64", "[fd00::1]",
    "2026-11-22T20:00:00Z", "2026-11-22T20:00:00.123456789Z", "2026-11-22", "0001-01-01T00:00:00Z",
    "9999-99-99T99:99:99Z", "2026-11-22T20:00:00+99:00", "yesterday", "1e18", "1E999999999", "-4", "4 cores",
    "ExternalName", "LoadBalancer", "ClientIP", "Local", "SCTP", "UDP", "FQDN", "IPv6", "PreferSameNode", "PreferClose",
    "Auto", "Disabled", "Require", '{"a":"b"}', '{"a":{"b":1}}', "[" * 2_000,
    nested(40), nested(1_200), nested(9_000), Raw('"\\ud800"'), Raw('{"\\udfff":"\\ud800x"}'), Raw("1e400"),
    Raw("123456789" * 600), Raw("-0"), Raw('{"a":"b","a":"c"}'),
)  # fmt: skip
"""What takes the place of a field."""
ANNOTATIONS: Final = (
    SELECTOR_ANNOTATION,
    "service.kubernetes.io/topology-mode",
    "endpointslice.kubernetes.io/subsetting",
    "zoneward.dev/heuristic",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "zoneward.dev/demand",
    "zoneward.dev/zones",
    "zoneward.dev/zone-weights",
)


def written(document: Any) -> bytes:
    raw: list[str] = []

    def put(value: Any) -> Any:
        if isinstance(value, Raw):
            raw.append(value)
            return f"\0raw{len(raw) - 1}\0"
        if isinstance(value, dict):
            return {key: put(member) for key, member in value.items()}
        return [put(item) for item in value] if isinstance(value, list) else value

    text = json.dumps(put(document), ensure_ascii=False)
    for index, literal in enumerate(raw):
        text = text.replace(f'"\\u0000raw{index}\\u0000"', literal)
    return text.encode(errors="surrogateescape")


def _a_slice(name: str, *, service: str) -> Object:
    slice_ = a_slice(name, service=service, addresses=["10.1.0.9"], node="n1", zone="a", manager=names.BUILT_IN_MANAGER)
    slice_["metadata"] |= {"uid": f"uid-{name}", "annotations": {}}
    slice_["ports"] = [{"name": "", "port": 8080, "protocol": "TCP", "appProtocol": "http"}]
    target = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}
    hints = {"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]}
    slice_["endpoints"][0] |= {"hostname": "h", "targetRef": target, "hints": hints}
    return slice_


def an_endpoints(name: str) -> Object:
    """The Endpoints of a Service that was adopted."""
    target = {"kind": "Pod", "namespace": "default", "name": f"{name}-p", "uid": "u"}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {SKIP_MIRROR_LABEL: "true"},
            "annotations": {OVER_CAPACITY_ANNOTATION: "truncated"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": name, "uid": "u", "controller": True}],
            "finalizers": ["f"],
            "generation": 1,
            "creationTimestamp": "2026-11-22T20:00:00Z",
            "managedFields": [{"manager": "x", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}],
        },
        "subsets": [
            {
                "addresses": [{"ip": "10.1.0.8", "hostname": "h", "nodeName": "n1", "targetRef": target}],
                "notReadyAddresses": [{"ip": "10.1.0.9"}],
                "ports": [{"name": "", "port": 8080, "protocol": "TCP", "appProtocol": "http"}],
            }
        ],
    }


def a_lease(name: str) -> Object:
    """Of a node's proxy, on the node of the same name. The election has no other fields."""
    metadata = an_endpoints(name)["metadata"] | {
        "labels": {names.COMPONENT_LABEL: names.PROXY_COMPONENT},
        "annotations": {
            names.PROGRAMMED_SERVICES_ANNOTATION: "10",
            names.PROGRAMMED_SLICES_ANNOTATION: "20",
            names.NOT_PROGRAMMED_ANNOTATION: "default/x,default/y",
            names.PROXY_NAME_ANNOTATION: "",
        },
    }
    return {
        "metadata": metadata,
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-22T20:00:00.000000Z",
            "renewTime": "2026-11-22T20:00:00.000000Z",
            "leaseTransitions": 1,
        },
    }


def _a_service(name: str) -> Object:
    service = a_service(name, selector={"app": name}, annotations=dict.fromkeys(ANNOTATIONS, "Auto"))
    service["metadata"] |= {"uid": f"uid-{name}", "labels": {"l": "v"}, "finalizers": ["f"], "ownerReferences": []}
    service["metadata"]["creationTimestamp"] = "2026-11-22T20:00:00Z"
    service["metadata"]["managedFields"] = [{"manager": "x", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}]
    service["spec"] |= {
        "type": "LoadBalancer",
        "clusterIP": "10.96.0.9",
        "clusterIPs": ["10.96.0.9", "fd00::9"],
        "ipFamilies": ["IPv4", "IPv6"],
        "externalIPs": ["192.0.2.1"],
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
        "internalTrafficPolicy": "Cluster",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30_000,
        "publishNotReadyAddresses": False,
        "trafficDistribution": "PreferSameZone",
        "ports": [{"name": "", "protocol": "TCP", "port": 80, "targetPort": 8080, "nodePort": 30_001}],
    }
    service["status"] = {
        "loadBalancer": {"ingress": [{"ip": "192.0.2.2", "ipMode": "VIP"}]},
        "conditions": [{"type": "x", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": None}],
    }
    return service


def _a_node(name: str) -> Object:
    node = a_node(name, zone="a", address="192.0.2.9")
    node["metadata"]["uid"] = f"uid-{name}"
    node["spec"] = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    return node


def _a_pod(name: str) -> Object:
    pod = a_pod(f"{name}-p", node=name, ips=["10.1.0.8"], labels={"app": name})
    pod["metadata"]["uid"] = f"uid-{name}-p"
    pod["spec"] |= {"hostname": "h", "subdomain": name, "initContainers": [{"ports": [{"containerPort": 1}]}]}
    return pod


_MAKE: Final[dict[str, Callable[[str], Object]]] = {
    "services": _a_service,
    "nodes": _a_node,
    "pods": _a_pod,
    "endpointslices": lambda name: _a_slice(f"{name}-s", service=name),
    ENDPOINTS.plural: an_endpoints,
    LEASES.plural: a_lease,
}


def an_object(plural: str, name: str) -> Object:
    return _MAKE[plural](name)


def an_adopted_service(name: str) -> Object:
    """A Service whose Endpoints object Zoneward maintains."""
    marks = {SELECTOR_ANNOTATION: json.dumps({"app": name}), ENDPOINTS_ANNOTATION: "keep"}
    return a_service(name, selector=None, annotations=marks)


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


KINDS: Final = tuple(resource.plural for resource in CACHED_RESOURCES)
"""Those of which a cache is kept."""
_KEPT: Final = {("metadata", "name"), ("metadata", "namespace"), ("metadata",)}


def changed(document: Object, path: tuple[Any, ...], value: Any) -> Object:
    """A copy with another value there; all else is shared with the object."""
    result = copy(document)
    holder: Any = result
    for key in path[:-1]:
        holder[key] = copy(holder[key])
        holder = holder[key]
    holder[path[-1]] = value
    return result


def hostile(plural: str, *, numbers: random.Random | None = None, count: int = 0) -> Iterator[Object]:
    """Objects of a kind with one hostile field each, every field with every value; or ``count`` with two to four."""
    plain = an_object(plural, "bad")
    paths = [path for path in places(plain) if path not in _KEPT]
    if numbers is None:
        wishes = [[(path, value)] for path in paths for value in VALUES]
    else:
        wishes = [
            [(numbers.choice(paths), numbers.choice(VALUES)) for _ in range(numbers.randint(2, 4))]
            for _ in range(count)
        ]
    for index, wanted in enumerate(wishes):
        document = an_object(plural, f"bad-{index}")
        for path, value in wanted:
            with suppress(KeyError, IndexError, TypeError):
                # A field may be in what another one replaced.
                document = changed(document, path, value)
        yield document
