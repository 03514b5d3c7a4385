"""Objects that have nearly all of their fields, and some that have hardly any."""

from typing import Any, Final

from e2e.protobuf_pods import POD_SPEC, TIME

Object = dict[str, Any]

NAMESPACE: Final = "protobuf-fields"


def _metadata(name: str, *, namespace: str | None = NAMESPACE, **more: Any) -> Object:
    metadata = {"name": name, "labels": {"app": "cart", "empty": ""}, "annotations": {"note": "Zoë ☃ \n\t" * 30}}
    return metadata | ({"namespace": namespace} if namespace else {}) | more


_OWNER: Final = {"apiVersion": "example.org/v1", "kind": "Cart", "name": "cart", "uid": "1-2", "controller": True}
_REFERENCE: Final = {"kind": "Node", "name": "protobuf-fields", "apiVersion": "v1", "fieldPath": "spec.taints[0]"}
NODE: Final = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": _metadata("protobuf-fields", namespace=None, finalizers=["example.org/keep"]),
    "spec": {
        "podCIDR": "10.1.0.0/24",
        "podCIDRs": ["10.1.0.0/24", "fd00::/64"],
        "providerID": "p://1",
        "unschedulable": True,
        "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": TIME}, {"key": "b", "effect": "NoSchedule"}],
    },
    "status": {
        "capacity": {"cpu": "4", "memory": "16384Mi", "pods": "110", "hugepages-2Mi": "0"},
        "allocatable": {"cpu": "3920m", "memory": "16G"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": TIME, "lastTransitionTime": TIME},
            {"type": "Odd", "status": "Unknown"},
        ],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "m",
            "systemUUID": "u",
            "bootID": "b",
            "kernelVersion": "6",
            "osImage": "Debian",
            "containerRuntimeVersion": "containerd://2",
            "kubeletVersion": "v1.36.3",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
            "swap": {"capacity": 5_000_000_000},
        },
        "images": [{"names": ["a", "b"], "sizeBytes": 9_000_000_000}, {"names": []}],
        "volumesInUse": ["v"],
        "volumesAttached": [{"name": "v", "devicePath": ""}],
        "runtimeHandlers": [{"name": "", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": False}}],
        "features": {"supplementalGroupsPolicy": True},
    },
}
_SERVICE_PORTS: Final = [
    {"name": "http", "port": 80, "targetPort": "http", "nodePort": 30_123, "appProtocol": "kubernetes.io/h2c"},
    {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"},
]
OBJECTS: Final[list[Object]] = [
    NODE,
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "protobuf-fields-plain"},
    },
    {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata("whole", ownerReferences=[_OWNER]), "spec": POD_SPEC},
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain", "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "plain", "image": "plain"}], "nodeName": "protobuf-fields"},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata("whole"),
        "spec": {
            "type": "LoadBalancer",
            "ports": _SERVICE_PORTS,
            "selector": {"app": "cart"},
            "externalIPs": ["10.9.9.9"],
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 50}},
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 30_124,
            "publishNotReadyAddresses": True,
            "allocateLoadBalancerNodePorts": False,
            "loadBalancerClass": "example.org/lb",
            "ipFamilyPolicy": "PreferDualStack",
            "trafficDistribution": "PreferSameZone",
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata("headless"),
        "spec": {"clusterIP": "None", "ports": [{"port": 80}], "internalTrafficPolicy": "Local"},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata("external"),
        "spec": {"type": "ExternalName", "externalName": "example.org"},
    },
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _metadata("whole", generateName="whole-"),
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.1.0.1"],
                "conditions": {"ready": True, "serving": False, "terminating": False},
                "hostname": "cart-0",
                "targetRef": {"kind": "Pod", "name": "whole", "namespace": NAMESPACE, "uid": "1"},
                "nodeName": "n",
                "zone": "a",
                "hints": {"forZones": [{"name": "a"}, {"name": "b"}], "forNodes": [{"name": "n"}]},
                "deprecatedTopology": {"a": "b"},
            },
            {"addresses": ["10.1.0.2"]},
        ],
        "ports": [
            {"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "http"},
            {"name": "", "port": 1},
            {"name": "any"},
        ],
    },
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _metadata("plain"),
        "addressType": "IPv6",
        "endpoints": [],
        "ports": None,
    },
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": _metadata("whole"),
        "spec": {
            "holderIdentity": "",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.000006Z",
            "renewTime": "2026-01-02T03:04:05.999999Z",
            "leaseTransitions": 0,
        },
    },
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": _metadata("plain")},
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": _metadata("whole"),
        "involvedObject": {**_REFERENCE, "kind": "Pod", "namespace": NAMESPACE, "resourceVersion": "5", "uid": "u"},
        "reason": "Started",
        "message": "ß",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": TIME,
        "lastTimestamp": TIME,
        "count": 5,
        "type": "Normal",
    },
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": _metadata("plain"),
        "involvedObject": {"namespace": NAMESPACE},
    },
    {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": _metadata("series"),
        "eventTime": "2026-01-02T03:04:05.123456Z",
        "series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.100000Z"},
        "reportingController": "example.org/c",
        "reportingInstance": "c-0",
        "action": "Starting",
        "reason": "Started",
        "regarding": {"kind": "Pod", "namespace": NAMESPACE, "name": "whole"},
        "related": _REFERENCE,
        "note": "n",
        "type": "Warning",
    },
]
