"""Of Nodes."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from zoneward.sandbox.server.columns.ages import AGE, age
from zoneward.sandbox.server.durations import UNKNOWN
from zoneward.sandbox.server.kinds import NAME, Column, Object

COLUMNS: Final = (
    NAME,
    Column("Status", description="The status of the node"),
    Column("Roles", description="The roles of the node"),
    AGE,
    Column("Version", description="Kubelet Version reported by the node."),
    Column("Internal-IP", description="The first internal address of the node.", priority=1),
    Column("External-IP", description="The first external address of the node.", priority=1),
    Column("OS-Image", description="OS Image reported by the node.", priority=1),
    Column("Kernel-Version", description="Kernel Version reported by the node.", priority=1),
    Column("Container-Runtime", description="Container runtime and its version reported by the node.", priority=1),
)

_NONE: Final = "<none>"
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def cells(thing: Object, now: datetime) -> list[object]:
    metadata, spec, status = thing["metadata"], thing.get("spec") or {}, thing.get("status") or {}
    info = status.get("nodeInfo") or {}
    addresses = status.get("addresses") or ()
    return [
        metadata.get("name", ""),
        _readiness(status.get("conditions") or ()) + (",SchedulingDisabled" if spec.get("unschedulable") else ""),
        ",".join(sorted(set(_roles(metadata.get("labels") or {})))) or _NONE,
        age(thing, now),
        info.get("kubeletVersion", ""),
        _address(addresses, "InternalIP"),
        _address(addresses, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        _kernel(info),
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _kernel(info: Object) -> str:
    architecture = info.get("architecture")
    return (info.get("kernelVersion") or UNKNOWN) + (f" ({architecture})" if architecture else "")


def _readiness(conditions: Iterable[Object]) -> str:
    readiness = [condition.get("status") == "True" for condition in conditions if condition.get("type") == "Ready"]
    if not readiness:
        return "Unknown"
    return "Ready" if readiness[-1] else "NotReady"


def _roles(labels: Object) -> Iterable[str]:
    for label, value in labels.items():
        if role := label.removeprefix(_ROLE_PREFIX) if label.startswith(_ROLE_PREFIX) else "":
            yield role
        elif label == _ROLE_LABEL and value:
            yield value


def _address(addresses: Iterable[Object], address_type: str) -> str:
    return next((each["address"] for each in addresses if each.get("type") == address_type), _NONE)
