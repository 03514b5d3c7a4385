"""Nodes as a kubelet registers them, and what is written on them later."""

from typing import Any, Final

from zoneward.kube.names import ZONE_LABEL

Object = dict[str, Any]

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
            "conditions": ready_conditions(now=now),
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


def ready_conditions(*, now: str) -> list[Object]:
    conditions = [_condition(kind, "False", reason, message, now) for kind, reason, message in _PRESSURES]
    return [*conditions, _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)]


def unknown_conditions(*, now: str) -> list[Object]:
    """What the node lifecycle controller writes of a kubelet that fell silent; heartbeats stay what they were."""
    message = "Kubelet stopped posting node status."
    kinds = [*(kind for kind, _, _ in _PRESSURES), "Ready"]
    conditions = [_condition(kind, "Unknown", "NodeStatusUnknown", message, now) for kind in kinds]
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


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
