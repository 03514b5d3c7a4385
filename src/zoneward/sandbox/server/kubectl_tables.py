"""The tables that ``kubectl get`` prints, which the server makes (``meta.k8s.io/v1``): columns and their cells."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from zoneward.sandbox.server.kinds import Kind, Object, get_field

_NONE: Final = "<none>"
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def table(kind: Kind, objects: Iterable[Object], *, metadata: Object, include: str, now: datetime) -> Object:
    """A row for each object; ``metadata`` is that of the list, ``include`` the parameter ``includeObject``. The objects
    are not copied.
    """
    columns, rows = _COLUMNS[kind.kind], []
    for obj in objects:
        stored = kind.to_stored(obj)
        row: Object = {"cells": [column.cell(stored, now) for column in columns]}
        row["object"] = None if include == "None" else obj if include == "Object" else partial(obj)
        rows.append(row)
    definitions = [
        {
            "name": column.name,
            "type": "string",
            "format": "name" if column.name == "Name" else "",
            "description": column.name,
            "priority": int(column.is_wide),
        }
        for column in columns
    ]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return head | {"columnDefinitions": definitions, "rows": rows}


def partial(obj: Object) -> Object:
    """A ``PartialObjectMetadata``. The metadata is not copied."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


# --- ages -------------------------------------------------------------------------------------------------------------

_UNITS: Final = ((120, 1, "s"), (3 * 3600, 60, "m"), (48 * 3600, 3600, "h"), (730 * 86400, 86400, "d"))
"""Limit in seconds, unit in seconds, and letter."""


def human(duration: timedelta) -> str:
    """One unit; upstream's ``duration.HumanDuration`` sometimes has two. Clocks differ: two seconds ahead are now."""
    if duration <= timedelta(seconds=-2):
        return "<invalid>"
    seconds = max(duration // timedelta(seconds=1), 0)
    ages = (f"{seconds // unit}{letter}" for limit, unit, letter in _UNITS if seconds < limit)
    return next(ages, f"{seconds // (365 * 86400)}y")


def since(timestamp: str | None, now: datetime) -> str:
    """``timestamp``: RFC 3339, with or without fractions of a second."""
    return human(now - datetime.fromisoformat(timestamp)) if timestamp else "<unknown>"


# --- cells ------------------------------------------------------------------------------------------------------------


def _items(obj: Object, path: str) -> list[Any]:
    return get_field(obj, path) or []


def _first_three(words: list[str], default: str) -> str:
    more = len(words) - 3
    return (",".join(words[:3]) + (f" + {more} more..." if more > 0 else "")) or default


def _endpoints(obj: Object, _now: datetime) -> str:
    columns = [
        (f"[{ip}]" if ":" in ip else ip) + (f":{port['port']}" if port else "")
        for subset in _items(obj, "subsets")
        for port in subset.get("ports") or (None,)
        for ip in (address["ip"] for address in subset.get("addresses") or ())
    ]
    return _first_three(columns, _NONE)


def _slice_ports(obj: Object, _now: datetime) -> str:
    ports = [port.get("name") or "" if port.get("port") is None else port["port"] for port in _items(obj, "ports")]
    return _first_three([str(port) for port in ports], "<unset>")


def _slice_endpoints(obj: Object, _now: datetime) -> str:
    endpoints = _items(obj, "endpoints")
    return _first_three([ip for endpoint in endpoints for ip in endpoint.get("addresses") or ()], "<unset>")


def _external_ip(obj: Object, _now: datetime) -> str:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or "")
    ingress = _items(obj, "status.loadBalancer.ingress") if spec.get("type") == "LoadBalancer" else []
    shown = sorted({address.get("ip") or address.get("hostname") for address in ingress} - {None, ""})
    shown += spec.get("externalIPs") or ()
    return ",".join(shown) or ("<pending>" if spec.get("type") == "LoadBalancer" else _NONE)


def _service_ports(obj: Object, _now: datetime) -> str:
    ports = []
    for port in _items(obj, "spec.ports"):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or _NONE


def _node_status(obj: Object, _now: datetime) -> str:
    conditions = _items(obj, "status.conditions")
    ready = next((condition.get("status") for condition in conditions if condition["type"] == "Ready"), "")
    word = {"True": "Ready", "": "Unknown"}.get(ready, "NotReady")
    return word + (",SchedulingDisabled" if get_field(obj, "spec.unschedulable") else "")


def _roles(obj: Object, _now: datetime) -> str:
    labels = sorted(obj["metadata"].get("labels") or ())
    return ",".join(label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)) or _NONE


def _pod_ready(obj: Object, _now: datetime) -> str:
    containers = _items(obj, "status.containerStatuses")
    ready = sum(
        bool(container.get("ready")) and get_field(container, "state.running") is not None for container in containers
    )
    return f"{ready}/{len(_items(obj, 'spec.containers'))}"


def _pod_status(obj: Object, _now: datetime) -> str:
    """The reason of the first container that does not run, else that of the pod."""
    phase = get_field(obj, "status.phase") or ""
    if "deletionTimestamp" in obj["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    for container in _items(obj, "status.containerStatuses"):
        if reason := get_field(container, "state.waiting.reason") or get_field(container, "state.terminated.reason"):
            return str(reason)
    return str(get_field(obj, "status.reason") or phase)


def _restarts(obj: Object, _now: datetime) -> str:
    return str(sum(container.get("restartCount", 0) for container in _items(obj, "status.containerStatuses")))


def _about(obj: Object, _now: datetime) -> str:
    about = obj["involvedObject"]
    return "/".join(filter(None, (about.get("kind", "").lower(), about.get("name"))))


def _last_seen(obj: Object, now: datetime) -> str:
    fields = ("series.lastObservedTime", "lastTimestamp", "firstTimestamp", "eventTime")
    return since(next((time for path in fields if (time := get_field(obj, path))), None), now)


# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """Cells are computed from objects in their stored version."""

    name: str
    cell: Callable[[Object, datetime], str]
    is_wide: bool = False
    """Shown only with ``-o wide``."""


def _field(name: str, path: str, default: str = "", *, is_wide: bool = False) -> _Column:
    return _Column(name, lambda obj, _now: str(get_field(obj, path) or default).strip(), is_wide)


_NAME: Final = _field("Name", "metadata.name")
_AGE: Final = _Column("Age", lambda obj, now: since(get_field(obj, "metadata.creationTimestamp"), now))
_COLUMNS: Final = {
    "Namespace": (_NAME, _field("Status", "status.phase"), _AGE),
    "Lease": (_NAME, _field("Holder", "spec.holderIdentity"), _AGE),
    "Endpoints": (_NAME, _Column("Endpoints", _endpoints), _AGE),
    "EndpointSlice": (
        *(_NAME, _field("AddressType", "addressType")),
        *(_Column("Ports", _slice_ports), _Column("Endpoints", _slice_endpoints), _AGE),
    ),
    "Service": (
        *(_NAME, _field("Type", "spec.type"), _field("Cluster-IP", "spec.clusterIP", _NONE)),
        *(_Column("External-IP", _external_ip), _Column("Port(s)", _service_ports), _AGE),
    ),
    "Node": (
        *(_NAME, _Column("Status", _node_status), _Column("Roles", _roles), _AGE),
        _field("Version", "status.nodeInfo.kubeletVersion"),
    ),
    "Pod": (
        *(_NAME, _Column("Ready", _pod_ready), _Column("Status", _pod_status), _Column("Restarts", _restarts), _AGE),
        _field("IP", "status.podIP", _NONE, is_wide=True),
        _field("Node", "spec.nodeName", _NONE, is_wide=True),
    ),
    "Event": (
        *(_Column("Last Seen", _last_seen), _field("Type", "type"), _field("Reason", "reason")),
        *(_Column("Object", _about), _field("Message", "message"), _field("Name", "metadata.name", is_wide=True)),
    ),
}
