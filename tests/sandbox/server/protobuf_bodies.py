"""Protobuf that clients of v1.36.3 sent, and what it is in JSON: kubectl's, and the controller manager's, with
``--kube-api-content-type=application/vnd.kubernetes.protobuf``.
"""

from collections.abc import Mapping
from typing import Any, Final

Object = dict[str, Any]

RECORDED: Final[Mapping[str, tuple[str, Object]]] = {
    "kubectl create namespace": (
        "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEh0KFQoFb3RoZXISABoAIgAqADIAOABCABIAGgIKABoAIgA=",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}, "spec": {}, "status": {}},
    ),
    "kubectl create service clusterip": (
        (
            "azhzAAoNCgJ2MRIHU2VydmljZRJ0CiYKBGNhcnQSABoFb3RoZXIiACoAMgA4AEIAWgsKA2FwcBIEY2FydBJGCh4KBzgwLWh0dHASA1RD"
            "UBhQIgoIARAAGgRodHRwKAASCwoDYXBwEgRjYXJ0GgAiCUNsdXN0ZXJJUDoAQgBSAFoAYABoABoCCgAaACIA"
        ),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "cart", "namespace": "other", "labels": {"app": "cart"}},
            "spec": {
                "ports": [{"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
                "selector": {"app": "cart"},
                "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        },
    ),
    "kubectl drain --disable-eviction": (
        "azhzAAoTCgJ2MRINRGVsZXRlT3B0aW9ucxIAGgAiAA==",
        {"apiVersion": "v1", "kind": "DeleteOptions"},
    ),
    "leader election, first": (
        (
            "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRJ/CjIKF2t1YmUtY29udHJvbGxlci1tYW5hZ2VyEgAaC2t1YmUtc3lz"
            "dGVtIgAqADIAOABCABJJCidrY19iN2U3MjZiMS1hMzdkLTRjMDItOTc2ZS03NGYzY2U1YTQ2ZDAQDxoMCPXGh9gGEMjD8rkCIgwI9caH"
            "2AYQyMPyuQIoABoAIgA="
        ),
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {
                "holderIdentity": "kc_b7e726b1-a37d-4c02-976e-74f3ce5a46d0",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-11-21T18:31:17.658285Z",
                "renewTime": "2026-11-21T18:31:17.658285Z",
                "leaseTransitions": 0,
            },
        },
    ),
    "leader election, renewed": (
        (
            "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRKAAwqyAgoXa3ViZS1jb250cm9sbGVyLW1hbmFnZXISABoLa3ViZS1z"
            "eXN0ZW0iACokYjY0ODNmMTMtOGZmNi00MDMxLWE2NTEtMDRkNGJmNjE3YWUzMgMyMTc4AEIICPXGh9gGEACKAc0BChdrdWJlLWNvbnRy"
            "b2xsZXItbWFuYWdlchIGVXBkYXRlGhZjb29yZGluYXRpb24uazhzLmlvL3YxIggI9caH2AYQADIIRmllbGRzVjE6fAp6eyJmOnNwZWMi"
            "OnsiZjphY3F1aXJlVGltZSI6e30sImY6aG9sZGVySWRlbnRpdHkiOnt9LCJmOmxlYXNlRHVyYXRpb25TZWNvbmRzIjp7fSwiZjpsZWFz"
            "ZVRyYW5zaXRpb25zIjp7fSwiZjpyZW5ld1RpbWUiOnt9fX1CABJJCidrY19iN2U3MjZiMS1hMzdkLTRjMDItOTc2ZS03NGYzY2U1YTQ2"
            "ZDAQDxoMCPXGh9gGEMjD8rkCIgwI9caH2AYQmN+U1wIoABoAIgA="
        ),
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "kube-controller-manager",
                "namespace": "kube-system",
                "uid": "b6483f13-8ff6-4031-a651-04d4bf617ae3",
                "resourceVersion": "217",
                "creationTimestamp": "2026-11-21T18:31:17Z",
                "managedFields": [
                    {
                        "manager": "kube-controller-manager",
                        "operation": "Update",
                        "apiVersion": "coordination.k8s.io/v1",
                        "time": "2026-11-21T18:31:17Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {
                            "f:spec": {
                                "f:acquireTime": {},
                                "f:holderIdentity": {},
                                "f:leaseDurationSeconds": {},
                                "f:leaseTransitions": {},
                                "f:renewTime": {},
                            }
                        },
                    }
                ],
            },
            "spec": {
                "holderIdentity": "kc_b7e726b1-a37d-4c02-976e-74f3ce5a46d0",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-11-21T18:31:17.658285Z",
                "renewTime": "2026-11-21T18:31:17.719663Z",
                "leaseTransitions": 0,
            },
        },
    ),
    "an event": (
        (
            "azhzAAoLCgJ2MRIFRXZlbnQS2gIKQwooa3ViZS1jb250cm9sbGVyLW1hbmFnZXIuMThlYTIyZmU3M2MwYWE1MhIAGgtrdWJlLXN5c3Rl"
            "bSIAKgAyADgAQgAScgoFTGVhc2USC2t1YmUtc3lzdGVtGhdrdWJlLWNvbnRyb2xsZXItbWFuYWdlciIkYjY0ODNmMTMtOGZmNi00MDMx"
            "LWE2NTEtMDRkNGJmNjE3YWUzKhZjb29yZGluYXRpb24uazhzLmlvL3YxMgMyMTc6ABoOTGVhZGVyRWxlY3Rpb24iNWtjX2I3ZTcyNmIx"
            "LWEzN2QtNGMwMi05NzZlLTc0ZjNjZTVhNDZkMCBiZWNhbWUgbGVhZGVyKhsKF2t1YmUtY29udHJvbGxlci1tYW5hZ2VyEgAyCAj1xofY"
            "BhAAOggI9caH2AYQAEABSgZOb3JtYWxSAGIAchdrdWJlLWNvbnRyb2xsZXItbWFuYWdlcnoAGgAiAA=="
        ),
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "kube-controller-manager.18ea22fe73c0aa52", "namespace": "kube-system"},
            "involvedObject": {
                "kind": "Lease",
                "namespace": "kube-system",
                "name": "kube-controller-manager",
                "uid": "b6483f13-8ff6-4031-a651-04d4bf617ae3",
                "apiVersion": "coordination.k8s.io/v1",
                "resourceVersion": "217",
            },
            "reason": "LeaderElection",
            "message": "kc_b7e726b1-a37d-4c02-976e-74f3ce5a46d0 became leader",
            "source": {"component": "kube-controller-manager"},
            "firstTimestamp": "2026-11-21T18:31:17Z",
            "lastTimestamp": "2026-11-21T18:31:17Z",
            "count": 1,
            "type": "Normal",
            "eventTime": None,
            "reportingComponent": "kube-controller-manager",
            "reportingInstance": "",
        },
    ),
    "the endpoint slice controller": (
        (
            "azhzAAokChNkaXNjb3ZlcnkuazhzLmlvL3YxEg1FbmRwb2ludFNsaWNlEpgFCpECCgASBWNhcnQtGgRzaG9wIgAqADIAOABCAFpJCiZl"
            "bmRwb2ludHNsaWNlLmt1YmVybmV0ZXMuaW8vbWFuYWdlZC1ieRIfZW5kcG9pbnRzbGljZS1jb250cm9sbGVyLms4cy5pb1oiChprdWJl"
            "cm5ldGVzLmlvL3NlcnZpY2UtbmFtZRIEY2FydGJICjBlbmRwb2ludHMua3ViZXJuZXRlcy5pby9sYXN0LWNoYW5nZS10cmlnZ2VyLXRp"
            "bWUSFDIwMjYtMTEtMjFUMTg6MzE6MTdaaj0KB1NlcnZpY2UaBGNhcnQiJDlkZjQ2MDVhLTYxMTQtNDA4Zi1iZTU5LTUyMTVlMjM5YjE3"
            "ZioCdjEwATgBElgKCDEwLjEuMC45EgYIARABGAAiPQoDUG9kEgRzaG9wGgRsb3N0IiQ2ZWU0ZjI4Mi1jMjM4LTQ0OGUtOGU3Ni1hZjc3"
            "OTJiNTY3MzMqADIAOgAyAm4yOgFiEloKCDEwLjEuMC4xEgYIARABGAAiPwoDUG9kEgRzaG9wGgZjYXJ0LTEiJGEzYWM5NzQxLTExMWYt"
            "NDMyNi04NGJlLThjMzM3NDJkZWUzMCoAMgA6ADICbjE6AWESWgoIMTAuMS4wLjISBggBEAEYACI/CgNQb2QSBHNob3AaBmNhcnQtMiIk"
            "NmZlNDNhYWMtZTJiZC00N2VmLTkwYTItOGJkMTE0MjJjNDc1KgAyADoAMgJuMToBYRJaCggxMC4xLjAuMxIGCAEQARgAIj8KA1BvZBIE"
            "c2hvcBoGY2FydC0zIiQ5NTIxNDJiOS05MDEzLTRjYjQtYWYzNC0xNTdlZTg0Njc1MzkqADIAOgAyAm4xOgFhGg4KBGh0dHASA1RDUBiQ"
            "PyIESVB2NBoAIgA="
        ),
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": "cart-",
                "namespace": "shop",
                "labels": {
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                    "kubernetes.io/service-name": "cart",
                },
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-11-21T18:31:17Z"},
                "ownerReferences": [
                    {
                        "kind": "Service",
                        "name": "cart",
                        "uid": "9df4605a-6114-408f-be59-5215e239b17f",
                        "apiVersion": "v1",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "endpoints": [
                {
                    "addresses": ["10.1.0.9"],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    "targetRef": {
                        "kind": "Pod",
                        "namespace": "shop",
                        "name": "lost",
                        "uid": "6ee4f282-c238-448e-8e76-af7792b56733",
                    },
                    "nodeName": "n2",
                    "zone": "b",
                },
                {
                    "addresses": ["10.1.0.1"],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    "targetRef": {
                        "kind": "Pod",
                        "namespace": "shop",
                        "name": "cart-1",
                        "uid": "a3ac9741-111f-4326-84be-8c33742dee30",
                    },
                    "nodeName": "n1",
                    "zone": "a",
                },
                {
                    "addresses": ["10.1.0.2"],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    "targetRef": {
                        "kind": "Pod",
                        "namespace": "shop",
                        "name": "cart-2",
                        "uid": "6fe43aac-e2bd-47ef-90a2-8bd11422c475",
                    },
                    "nodeName": "n1",
                    "zone": "a",
                },
                {
                    "addresses": ["10.1.0.3"],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    "targetRef": {
                        "kind": "Pod",
                        "namespace": "shop",
                        "name": "cart-3",
                        "uid": "952142b9-9013-4cb4-af34-157ee8467539",
                    },
                    "nodeName": "n1",
                    "zone": "a",
                },
            ],
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
            "addressType": "IPv4",
        },
    ),
    "the node life cycle controller": (
        (
            "azhzAAoKCgJ2MRIETm9kZRK/BgqBAQoCbjISABoAIgAqJDljMGJiN2UwLTE2NWYtNDAxOS1iZmVmLTA0ZTEzYzI2NDExOTIDMjI3OABC"
            "CAj1xofYBhAAWhwKFmt1YmVybmV0ZXMuaW8vaG9zdG5hbWUSAm4yWiAKG3RvcG9sb2d5Lmt1YmVybmV0ZXMuaW8vem9uZRIBYhKFAQoL"
            "MTAuMS4wLjAvMjQSABoAIAAqLAocbm9kZS5rdWJlcm5ldGVzLmlvL25vdC1yZWFkeRIAGgpOb1NjaGVkdWxlKjUKHG5vZGUua3ViZXJu"
            "ZXRlcy5pby9ub3QtcmVhZHkSABoJTm9FeGVjdXRlIggI9saH2AYQADoLMTAuMS4wLjAvMjQasAQKCgoDY3B1EgMKATQKEAoGbWVtb3J5"
            "EgYKBDE2R2kKDQoEcG9kcxIFCgMxMTASCgoDY3B1EgMKATQSEAoGbWVtb3J5EgYKBDE2R2kSDQoEcG9kcxIFCgMxMTAaACJVCgVSZWFk"
            "eRIHVW5rbm93bhoAIggI+8aH2AYQACoRTm9kZVN0YXR1c1Vua25vd24yJEt1YmVsZXQgc3RvcHBlZCBwb3N0aW5nIG5vZGUgc3RhdHVz"
            "LiJoCg5NZW1vcnlQcmVzc3VyZRIHVW5rbm93bhoICPXGh9gGEAAiCAj7xofYBhAAKhZOb2RlU3RhdHVzTmV2ZXJVcGRhdGVkMiFLdWJl"
            "bGV0IG5ldmVyIHBvc3RlZCBub2RlIHN0YXR1cy4iZgoMRGlza1ByZXNzdXJlEgdVbmtub3duGggI9caH2AYQACIICPvGh9gGEAAqFk5v"
            "ZGVTdGF0dXNOZXZlclVwZGF0ZWQyIUt1YmVsZXQgbmV2ZXIgcG9zdGVkIG5vZGUgc3RhdHVzLiJlCgtQSURQcmVzc3VyZRIHVW5rbm93"
            "bhoICPXGh9gGEAAiCAj7xofYBhAAKhZOb2RlU3RhdHVzTmV2ZXJVcGRhdGVkMiFLdWJlbGV0IG5ldmVyIHBvc3RlZCBub2RlIHN0YXR1"
            "cy4qFgoKSW50ZXJuYWxJUBIIMTAuMC4wLjEqDgoISG9zdG5hbWUSAm4yMgQKAggAOhQKABIAGgAiACoAMgA6AEIASgBSABoAIgA="
        ),
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "n2",
                "uid": "9c0bb7e0-165f-4019-bfef-04e13c264119",
                "resourceVersion": "227",
                "creationTimestamp": "2026-11-21T18:31:17Z",
                "labels": {"kubernetes.io/hostname": "n2", "topology.kubernetes.io/zone": "b"},
            },
            "spec": {
                "podCIDR": "10.1.0.0/24",
                "taints": [
                    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-11-21T18:31:18Z"},
                ],
                "podCIDRs": ["10.1.0.0/24"],
            },
            "status": {
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
                "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "Unknown",
                        "lastHeartbeatTime": None,
                        "lastTransitionTime": "2026-11-21T18:31:23Z",
                        "reason": "NodeStatusUnknown",
                        "message": "Kubelet stopped posting node status.",
                    },
                    {
                        "type": "MemoryPressure",
                        "status": "Unknown",
                        "lastHeartbeatTime": "2026-11-21T18:31:17Z",
                        "lastTransitionTime": "2026-11-21T18:31:23Z",
                        "reason": "NodeStatusNeverUpdated",
                        "message": "Kubelet never posted node status.",
                    },
                    {
                        "type": "DiskPressure",
                        "status": "Unknown",
                        "lastHeartbeatTime": "2026-11-21T18:31:17Z",
                        "lastTransitionTime": "2026-11-21T18:31:23Z",
                        "reason": "NodeStatusNeverUpdated",
                        "message": "Kubelet never posted node status.",
                    },
                    {
                        "type": "PIDPressure",
                        "status": "Unknown",
                        "lastHeartbeatTime": "2026-11-21T18:31:17Z",
                        "lastTransitionTime": "2026-11-21T18:31:23Z",
                        "reason": "NodeStatusNeverUpdated",
                        "message": "Kubelet never posted node status.",
                    },
                ],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n2"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {
                    "machineID": "",
                    "systemUUID": "",
                    "bootID": "",
                    "kernelVersion": "",
                    "osImage": "",
                    "containerRuntimeVersion": "",
                    "kubeletVersion": "",
                    "kubeProxyVersion": "",
                    "operatingSystem": "",
                    "architecture": "",
                },
            },
        },
    ),
    "the node life cycle controller, of a pod": (
        (
            "azhzAAoJCgJ2MRIDUG9kEoMECngKBmNhcnQtMRIAGgRzaG9wIgAqJGEzYWM5NzQxLTExMWYtNDMyNi04NGJlLThjMzM3NDJkZWUzMDID"
            "MjEzOAFCCAj1xofYBhAAWgsKA2FwcBIEY2FydFogCht0b3BvbG9neS5rdWJlcm5ldGVzLmlvL3pvbmUSAWESqgISUgoEbWFpbhIEbWFp"
            "bioAMhIKBGh0dHAQABiQPyIDVENQKgBCAGoUL2Rldi90ZXJtaW5hdGlvbi1sb2dyBkFsd2F5c4ABAIgBAJABAKIBBEZpbGUaBkFsd2F5"
            "cyAAMgxDbHVzdGVyRmlyc3RCAEoAUgJuMVgAYABoAHIAggEAigEAmgERZGVmYXVsdC1zY2hlZHVsZXKyATYKHG5vZGUua3ViZXJuZXRl"
            "cy5pby9ub3QtcmVhZHkSBkV4aXN0cxoAIglOb0V4ZWN1dGUorAKyATgKHm5vZGUua3ViZXJuZXRlcy5pby91bnJlYWNoYWJsZRIGRXhp"
            "c3RzGgAiCU5vRXhlY3V0ZSisAsIBAMgBAPABAfoBFFByZWVtcHRMb3dlclByaW9yaXR5GloKB1J1bm5pbmcSIAoFUmVhZHkSBUZhbHNl"
            "GgAiCAj7xofYBhAAKgAyADgAGgAiACoAMggxMC4xLjAuMUoKQmVzdEVmZm9ydFoAYgoKCDEwLjEuMC4xcgCIAQAaACIA"
        ),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "cart-1",
                "namespace": "shop",
                "uid": "a3ac9741-111f-4326-84be-8c33742dee30",
                "resourceVersion": "213",
                "generation": 1,
                "creationTimestamp": "2026-11-21T18:31:17Z",
                "labels": {"app": "cart", "topology.kubernetes.io/zone": "a"},
            },
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "main",
                        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "imagePullPolicy": "Always",
                        "terminationMessagePolicy": "File",
                    }
                ],
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 0,
                "dnsPolicy": "ClusterFirst",
                "nodeName": "n1",
                "securityContext": {},
                "schedulerName": "default-scheduler",
                "tolerations": [
                    {
                        "key": "node.kubernetes.io/not-ready",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 300,
                    },
                    {
                        "key": "node.kubernetes.io/unreachable",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 300,
                    },
                ],
                "priority": 0,
                "enableServiceLinks": True,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "False",
                        "lastProbeTime": None,
                        "lastTransitionTime": "2026-11-21T18:31:23Z",
                    }
                ],
                "podIP": "10.1.0.1",
                "qosClass": "BestEffort",
                "podIPs": [{"ip": "10.1.0.1"}],
            },
        },
    ),
}
"""Base64 and JSON, by who sent it."""
