"""What makes synthetic Nodes and Pods look and weigh like real ones: the fields that Zoneward never reads.

The shape is that of ``kubectl get -o json`` against Kubernetes v1.36, which leaves ``managedFields`` out: a pod of a
Deployment with an application and a mesh's proxy.
"""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

Object = dict[str, Any]

NOW: Final = datetime(2026, 10, 20, 9, 14, tzinfo=UTC)
"""When every synthetic cluster was looked at."""

_TOKEN_MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def uid(chance: Random) -> str:
    """A random UUID of version 4."""
    digits = f"{chance.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def written(*, days: int = 0, seconds: int = 0) -> str:
    """A time so long before `NOW`, as Kubernetes writes it."""
    return (NOW - timedelta(days=days, seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def decorate_node(node: Object, chance: Random, *, instance: str, cores: int) -> Object:
    """The same Node, changed in place, with what a kubelet and a cloud say about it (about 2 kB)."""
    status, zone = node["status"], node["metadata"]["labels"]["topology.kubernetes.io/zone"]
    memory = cores * 4 * 1024 * 1024 - chance.randrange(300_000)
    node["metadata"]["creationTimestamp"] = changed = written(seconds=chance.randrange(10**6, 10**7))
    node["metadata"]["uid"] = uid(chance)
    node["metadata"]["labels"] |= {
        "beta.kubernetes.io/instance-type": instance,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance,
    }
    node["spec"]["providerID"] = f"aws:///{zone}/i-{chance.getrandbits(68):017x}"
    status["allocatable"] |= {"ephemeral-storage": "95551679124", "memory": f"{memory - 1_602_560}Ki", "pods": "110"}
    status["capacity"] = {"cpu": str(cores), "ephemeral-storage": "104845292Ki", "memory": f"{memory}Ki", "pods": "110"}
    ready = status["conditions"][0]
    silent = ready["status"] == "Unknown"
    message = "Kubelet stopped posting node status." if silent else "kubelet is posting ready status"
    ready |= {
        "lastHeartbeatTime": written(seconds=900 if silent else chance.randrange(300)),
        "lastTransitionTime": written(seconds=860) if silent else changed,
        "message": message,
        "reason": "NodeStatusUnknown" if silent else "KubeletReady",
    }
    status["conditions"] = [
        {
            "lastHeartbeatTime": ready["lastHeartbeatTime"],
            "lastTransitionTime": ready["lastTransitionTime"],
            "message": message if silent else f"kubelet has {reason}",
            "reason": "NodeStatusUnknown" if silent else f"KubeletHas{reason}",
            "status": "Unknown" if silent else "False",
            "type": kind,
        }
        for kind, reason in (
            ("MemoryPressure", "SufficientMemory"),
            ("DiskPressure", "NoDiskPressure"),
            ("PIDPressure", "SufficientPID"),
        )
    ] + [ready]
    status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 10250}}
    status["nodeInfo"] = {
        "architecture": "amd64",
        "bootID": uid(chance),
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.14.0-1012-aws",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.37.2",
        "machineID": f"{chance.getrandbits(128):032x}",
        "operatingSystem": "linux",
        "osImage": "Ubuntu 24.04.3 LTS",
        "systemUUID": uid(chance),
    }
    return node


def decorate_pod(pod: Object, chance: Random, *, service: str) -> Object:
    """The same Pod, changed in place, with all that an API server hands out: about 5.8 kB of compact JSON."""
    age = chance.randrange(7_200, 2_000_000)
    created, begun, ready_since = written(seconds=age), written(seconds=age - 6), written(seconds=age - 31)
    _decorate_metadata(pod["metadata"], chance, service=service, created=created)
    _decorate_spec(pod["spec"], chance, service=service)
    _decorate_status(pod, chance, created=created, begun=begun, ready_since=ready_since)
    return pod


def _decorate_metadata(metadata: Object, chance: Random, *, service: str, created: str) -> None:
    template = metadata["labels"]["pod-template-hash"]
    metadata["annotations"] = {
        "checksum/config": f"{chance.getrandbits(256):064x}",
        "kubectl.kubernetes.io/default-container": "app",
        "prometheus.io/port": "9090",
        "prometheus.io/scrape": "true",
    }
    metadata["labels"] |= {
        "app.kubernetes.io/instance": service,
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/version": "4.12.1",
    }
    metadata["creationTimestamp"] = created
    metadata["generateName"] = f"{service}-{template}-"
    metadata["generation"] = 1
    metadata["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "blockOwnerDeletion": True,
            "controller": True,
            "kind": "ReplicaSet",
            "name": f"{service}-{template}",
            "uid": uid(chance),
        }
    ]
    metadata["resourceVersion"] = str(chance.randrange(10**8, 10**9))


def _decorate_spec(spec: Object, chance: Random, *, service: str) -> None:
    token = f"kube-api-access-{chance.getrandbits(20):05x}"
    token_mount = {"mountPath": _TOKEN_MOUNT, "name": token, "readOnly": True}
    mounts: list[Object] = [
        {"mountPath": "/etc/app", "name": "config", "readOnly": True},
        {"mountPath": "/tmp", "name": "scratch"},
        token_mount,
    ]
    spec["affinity"] = {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": service}},
                        "topologyKey": "kubernetes.io/hostname",
                    },
                    "weight": 100,
                }
            ]
        }
    }
    spec["containers"] = [
        {
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
                {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"key": "url", "name": f"{service}-database"}}},
                {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://log-agent.monitoring.svc:4317"},
            ],
            "imagePullPolicy": "IfNotPresent",
            "livenessProbe": _probe("/healthz", period=20),
            "readinessProbe": _probe("/readyz", period=5),
            "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}},
            "securityContext": _locked(),
            "volumeMounts": mounts,
            **spec["containers"][0],
            **_ENDING,
        },
        {
            "args": ["proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local"],
            "image": "registry.example.com/mesh/proxy:1.27.2",
            "imagePullPolicy": "IfNotPresent",
            "name": "mesh-proxy",
            "ports": [{"containerPort": 15090, "name": "http-envoy-prom", "protocol": "TCP"}],
            "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}},
            "securityContext": _locked(),
            "volumeMounts": [dict(token_mount)],
            **_ENDING,
        },
    ]
    spec |= {
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {"fsGroup": 65532, "runAsNonRoot": True, "runAsUser": 65532},
        "serviceAccount": service,
        "serviceAccountName": service,
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "volumes": [
            {"configMap": {"defaultMode": 420, "name": f"{service}-config"}, "name": "config"},
            {"emptyDir": {"sizeLimit": "256Mi"}, "name": "scratch"},
            {
                "name": token,
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                    ],
                },
            },
        ],
    }


_ENDING: Final = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}


def _locked() -> Object:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}


def _probe(path: str, *, period: int) -> Object:
    return {
        "failureThreshold": 3,
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "periodSeconds": period,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    }


def _decorate_status(pod: Object, chance: Random, *, created: str, begun: str, ready_since: str) -> None:
    status = pod["status"]
    ready = status["conditions"][0]
    is_ready = ready["status"] == "True"
    unready: Object = {}
    if not is_ready:
        unready = {"message": "containers with unready status: [app]", "reason": "ContainersNotReady"}
    status["conditions"] = [
        {"lastProbeTime": None, "lastTransitionTime": begun, "status": "True", "type": "PodReadyToStartContainers"},
        {"lastProbeTime": None, "lastTransitionTime": begun, "status": "True", "type": "Initialized"},
        {"lastProbeTime": None, "lastTransitionTime": ready_since, **ready, **unready},
        {"lastProbeTime": None, "lastTransitionTime": ready_since, **ready, **unready, "type": "ContainersReady"},
        {"lastProbeTime": None, "lastTransitionTime": created, "status": "True", "type": "PodScheduled"},
    ]
    status["containerStatuses"] = [
        _container_status(container, chance, is_ready=is_ready or container["name"] != "app")
        | {"started": True, "state": {"running": {"startedAt": begun}}}
        for container in pod["spec"]["containers"]
    ]
    status["hostIPs"] = [{"ip": status["hostIP"]}]
    status["qosClass"] = "Burstable"
    status["startTime"] = created


def _container_status(container: Object, chance: Random, *, is_ready: bool) -> Object:
    image = container["image"]
    return {
        "containerID": f"containerd://{chance.getrandbits(256):064x}",
        "image": image,
        "imageID": f"{image.rpartition(':')[0]}@sha256:{chance.getrandbits(256):064x}",
        "lastState": {},
        "name": container["name"],
        "ready": is_ready,
        "restartCount": 0,
    }
