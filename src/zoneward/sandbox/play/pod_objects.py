"""Pods as the controller of a Deployment makes them, and the status that a kubelet gives them."""

from typing import Any, Final

from zoneward.kube.names import ZONE_LABEL
from zoneward.sandbox.play.node_objects import REGION_LABEL, cpu_text
from zoneward.sandbox.play.plays import Workload

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
    """Its containers have stopped; the last that is heard of a pod that is deleted."""
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
    """What the node lifecycle controller writes: containers are as last heard of."""
    condition: Object = {"type": "Ready", "status": "False", "lastTransitionTime": now}
    return {"status": {"conditions": [condition]}}


def ready_conditions(*, is_ready: bool, now: str) -> list[Object]:
    reason, message = (None, None) if is_ready else _NOT_READY
    told = {"reason": reason, "message": message}
    return [_condition(kind, is_ready, now) | told for kind in ("Ready", "ContainersReady")]


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
