"""Pods as the controller of a Deployment makes them, and the status that a kubelet gives them."""

from typing import Any, Final

from zoneward.kube.names import ZONE_LABEL
from zoneward.sandbox.play.play_model import Workload

Object = dict[str, Any]

LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes makes names of."""
HASH_LABEL: Final = "pod-template-hash"
GRACE: Final = 30
_NOT_READY: Final = ("ContainersNotReady", "containers with unready status: [app]")


def pod_object(
    workload: Workload, *, name: str, template: str, node: str | None, zone: str = "", region: str = ""
) -> Object:
    labels = {**workload.labels, HASH_LABEL: template}
    if node is not None:
        labels |= zone_labels(zone, region)
    spec: Object = {
        "containers": [
            {
                "name": "app",
                "image": _image(workload, template),
                "ports": [{"containerPort": workload.port, "name": "http", "protocol": "TCP"}],
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
                "resources": {"requests": {"cpu": cpu_text(workload.cpu)}},
            }
        ],
        "terminationGracePeriodSeconds": GRACE,
        "tolerations": [
            {"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
    }
    if node is not None:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{workload.name}-{template}-",
            "labels": labels,
            "name": name,
            "namespace": workload.namespace,
        },
        "spec": spec,
    }


def zone_labels(zone: str, region: str) -> dict[str, str]:
    """What admission adds to a pod that gets a node (gate ``PodTopologyLabelsAdmission``)."""
    return {REGION_LABEL: region, ZONE_LABEL: zone}


def unschedulable(*, problem: str, now: str) -> Object:
    condition = _condition("PodScheduled", False, now) | {"reason": "Unschedulable", "message": problem}
    return {"status": {"phase": "Pending", "conditions": [condition]}}


def creating(workload: Workload, *, template: str, host: str, now: str) -> Object:
    """The kubelet has it, containers are on their way."""
    conditions = [
        _condition("PodReadyToStartContainers", False, now),
        _condition("Initialized", True, now),
        _condition("PodScheduled", True, now),
        *ready_conditions(is_ready=False, now=now),
    ]
    container = _container(workload, template) | {"state": {"waiting": {"reason": "ContainerCreating"}}}
    return {
        "status": {
            "conditions": conditions,
            "containerStatuses": [container],
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "phase": "Pending",
            "startTime": now,
        }
    }


def running(workload: Workload, *, template: str, address: str, now: str) -> Object:
    """It has an address, and is not ready yet."""
    container = _container(workload, template) | {
        "containerID": f"containerd://{template}",
        "started": True,
        "state": {"waiting": None, "running": {"startedAt": now}},
    }
    return {
        "status": {
            "conditions": [_condition("PodReadyToStartContainers", True, now)],
            "containerStatuses": [container],
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
        }
    }


def readiness(*, is_ready: bool, now: str) -> Object:
    return {
        "status": {
            "conditions": ready_conditions(is_ready=is_ready, now=now),
            "containerStatuses": [{"name": "app", "ready": is_ready}],
        }
    }


def ended(workload: Workload, *, template: str, begun: str, now: str) -> Object:
    """Its containers have stopped: the last status of a deleted pod."""
    patch = readiness(is_ready=False, now=now)
    over = {"exitCode": 0, "reason": "Completed", "startedAt": begun, "finishedAt": now}
    container = _container(workload, template) | {
        "started": False,
        "state": {"waiting": None, "running": None, "terminated": over},
    }
    patch["status"]["containerStatuses"] = [container]
    patch["status"]["phase"] = "Succeeded"
    return patch


def on_silent_node(*, now: str) -> Object:
    """What the node lifecycle controller writes; the status of containers stays."""
    condition: Object = {"type": "Ready", "status": "False", "lastTransitionTime": now}
    return {"status": {"conditions": [condition]}}


def ready_conditions(*, is_ready: bool, now: str) -> list[Object]:
    reason, message = (None, None) if is_ready else _NOT_READY
    because = {"reason": reason, "message": message}
    return [_condition(kind, is_ready, now) | because for kind in ("Ready", "ContainersReady")]


def _condition(kind: str, is_true: bool, now: str) -> Object:
    return {
        "type": kind,
        "status": "True" if is_true else "False",
        "lastTransitionTime": now,
    }


def _container(workload: Workload, template: str) -> Object:
    image = _image(workload, template)
    return {"name": "app", "image": image, "imageID": "", "ready": False, "restartCount": 0}


def _image(workload: Workload, template: str) -> str:
    return f"{workload.name}:{template}"


# --- Nodes ------------------------------------------------------------------------------------------------------------

REGION_LABEL: Final = "topology.kubernetes.io/region"
HOST_LABEL: Final = "kubernetes.io/hostname"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_PRESSURES: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def cpu_text(milli: int) -> str:
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def node_object(
    *, name: str, zone: str, region: str, labels: dict[str, str], cpu: int, pods: int, cidr: str, address: str, now: str
) -> Object:
    """``cpu`` in thousandths; ``now`` as Kubernetes writes times."""
    room = {"cpu": cpu_text(cpu), "ephemeral-storage": "100Gi", "memory": "16Gi", "pods": str(pods)}
    own = {
        "kubernetes.io/arch": "amd64",
        HOST_LABEL: name,
        "kubernetes.io/os": "linux",
        REGION_LABEL: region,
        ZONE_LABEL: zone,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **labels}},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "allocatable": room,
            "capacity": dict(room),
            "conditions": node_ready_conditions(now=now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.14.0",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.3",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "Zoneward sandbox",
                "systemUUID": "",
            },
        },
    }


def node_ready_conditions(*, now: str) -> list[Object]:
    conditions = [_node_condition(kind, "False", reason, message, now) for kind, reason, message in _PRESSURES]
    return [*conditions, _node_condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)]


def node_unknown_conditions(*, now: str) -> list[Object]:
    """What the node lifecycle controller writes of a kubelet that fell silent; heartbeats stay what they were."""
    message = "Kubelet stopped posting node status."
    kinds = [*(kind for kind, _, _ in _PRESSURES), "Ready"]
    conditions = [_node_condition(kind, "Unknown", "NodeStatusUnknown", message, now) for kind in kinds]
    for condition in conditions:
        del condition["lastHeartbeatTime"]
    return conditions


def unreachable_taints(*, now: str) -> list[Object]:
    return [{"key": UNREACHABLE, "effect": effect, "timeAdded": now} for effect in ("NoSchedule", "NoExecute")]


def unreachable_no_more() -> list[Object]:
    return [{"key": UNREACHABLE, "effect": effect, "$patch": "delete"} for effect in ("NoSchedule", "NoExecute")]


def cordon(*, is_cordoned: bool, now: str) -> Object:
    """A patch of the Node."""
    taint: Object = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}
    taint |= {"timeAdded": now} if is_cordoned else {"$patch": "delete"}
    return {"spec": {"unschedulable": True if is_cordoned else None, "taints": [taint]}}


def _node_condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
