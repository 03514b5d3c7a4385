"""The tables that ``kubectl get`` prints, which the server makes (``meta.k8s.io/v1``): columns and their cells."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from zoneward.sandbox.server.kinds import Cell, Column, Kind, Object, get_field

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_UNSET: Final = "<unset>"


def table(kind: Kind, things: Iterable[Object], *, metadata: Object, include: str, now: datetime) -> Object:
    """A row for each object; ``metadata`` is that of the list, ``include`` the parameter ``includeObject``. The objects
    are not copied.
    """
    rows = []
    for thing in things:
        stored = kind.to_stored(thing)
        row: Object = {"cells": [column.cell(stored, now) for column in kind.columns]}
        row["object"] = None if include == "None" else thing if include == "Object" else partial(thing)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": column.name,
                "type": "string",
                "format": "name" if column.name == "Name" else "",
                "description": column.name,
                "priority": int(column.is_wide),
            }
            for column in kind.columns
        ],
        "rows": rows,
    }


def partial(thing: Object) -> Object:
    """A ``PartialObjectMetadata``. The metadata is not copied."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": thing["metadata"]}


# --- cells that several kinds have ------------------------------------------------------------------------------------

_UNITS: Final = ((120, 1, "s"), (3 * 3600, 60, "m"), (48 * 3600, 3600, "h"), (730 * 86400, 86400, "d"))
"""Below so many seconds: the unit and its letter."""


def human(duration: timedelta) -> str:
    """One unit; upstream's ``duration.HumanDuration`` sometimes has two. Clocks differ: two seconds ahead are now."""
    if duration <= timedelta(seconds=-2):
        return "<invalid>"
    seconds = max(duration // timedelta(seconds=1), 0)
    found = (f"{seconds // unit}{letter}" for limit, unit, letter in _UNITS if seconds < limit)
    return next(found, f"{seconds // (365 * 86400)}y")


def since(timestamp: str | None, now: datetime) -> str:
    """``timestamp``: RFC 3339, with or without fractions of a second."""
    return human(now - datetime.fromisoformat(timestamp)) if timestamp else _UNKNOWN


def _field(path: str, default: str = "") -> Cell:
    return lambda thing, _now: get_field(thing, path) or default


def _text(make: Callable[[Object], Iterable[str]], default: str) -> Cell:
    """A cell of words: ``default`` where there are none."""
    return lambda thing, _now: ",".join(make(thing)) or default


def _first(make: Callable[[Object], list[str]], default: str) -> Cell:
    """A cell of the first three words."""

    def words(thing: Object) -> list[str]:
        found = make(thing)
        more = len(found) - 3
        return found if more <= 0 else [*found[:2], f"{found[2]} + {more} more..."]

    return _text(words, default)


def _condition(thing: Object, type_: str) -> str:
    """The status of a condition; empty for one that is not there."""
    conditions = get_field(thing, "status.conditions") or ()
    return next((str(each.get("status")) for each in reversed(conditions) if each.get("type") == type_), "")


_NAME: Final = Column("Name", _field("metadata.name"))
_AGE: Final = Column("Age", lambda thing, now: since(get_field(thing, "metadata.creationTimestamp"), now))
NAMESPACE_COLUMNS: Final = (_NAME, Column("Status", _field("status.phase")), _AGE)
LEASE_COLUMNS: Final = (_NAME, Column("Holder", _field("spec.holderIdentity")), _AGE)

# --- Endpoints and EndpointSlices -------------------------------------------------------------------------------------


def _endpoints(thing: Object) -> list[str]:
    return [
        (f"[{ip}]" if ":" in ip else ip) + f":{port['port']}" if port else str(ip)
        for subset in thing.get("subsets") or ()
        for port in subset.get("ports") or (None,)
        for ip in (address["ip"] for address in subset.get("addresses") or ())
    ]


def _slice_ports(thing: Object) -> list[str]:
    ports = thing.get("ports") or ()
    return [str(port.get("name") or "" if port.get("port") is None else port["port"]) for port in ports]


def _slice_addresses(thing: Object) -> list[str]:
    return [address for endpoint in thing.get("endpoints") or () for address in endpoint.get("addresses") or ()]


ENDPOINTS_COLUMNS: Final = (_NAME, Column("Endpoints", _first(_endpoints, _NONE)), _AGE)
ENDPOINT_SLICE_COLUMNS: Final = (
    _NAME,
    Column("AddressType", _field("addressType")),
    Column("Ports", _first(_slice_ports, _UNSET)),
    Column("Endpoints", _first(_slice_addresses, _UNSET)),
    _AGE,
)

# --- Services ---------------------------------------------------------------------------------------------------------


def _external_ip(thing: Object, _now: datetime) -> str:
    if get_field(thing, "spec.type") == "ExternalName":
        return str(get_field(thing, "spec.externalName") or "")
    ingress = get_field(thing, "status.loadBalancer.ingress") or ()
    balanced = sorted({each.get("ip") or each.get("hostname") for each in ingress} - {None, ""})
    is_balanced = get_field(thing, "spec.type") == "LoadBalancer"
    shown = [*(balanced if is_balanced else ()), *(get_field(thing, "spec.externalIPs") or ())]
    return ",".join(shown) or ("<pending>" if is_balanced else _NONE)


def _service_ports(thing: Object) -> Iterable[str]:
    for port in get_field(thing, "spec.ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        yield f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


SERVICE_COLUMNS: Final = (
    _NAME,
    Column("Type", _field("spec.type")),
    Column("Cluster-IP", _field("spec.clusterIP", _NONE)),
    Column("External-IP", _external_ip),
    Column("Port(s)", _text(_service_ports, _NONE)),
    _AGE,
    Column(
        "Selector",
        _text(
            lambda thing: [
                f"{key}={value}" for key, value in sorted((get_field(thing, "spec.selector") or {}).items())
            ],
            _NONE,
        ),
        is_wide=True,
    ),
)

# --- Nodes ------------------------------------------------------------------------------------------------------------

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def _node_status(thing: Object, _now: datetime) -> str:
    ready = _condition(thing, "Ready")
    word = "Unknown" if not ready else "Ready" if ready == "True" else "NotReady"
    return word + (",SchedulingDisabled" if get_field(thing, "spec.unschedulable") else "")


def _roles(thing: Object) -> Iterable[str]:
    labels = get_field(thing, "metadata.labels") or {}
    return sorted(label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX))


def _internal_ip(thing: Object) -> Iterable[str]:
    addresses = get_field(thing, "status.addresses") or ()
    return [each["address"] for each in addresses if each.get("type") == "InternalIP"][:1]


NODE_COLUMNS: Final = (
    _NAME,
    Column("Status", _node_status),
    Column("Roles", _text(_roles, _NONE)),
    _AGE,
    Column("Version", _field("status.nodeInfo.kubeletVersion")),
    Column("Internal-IP", _text(_internal_ip, _NONE), is_wide=True),
)

# --- Pods -------------------------------------------------------------------------------------------------------------


def _pod_ready(thing: Object, _now: datetime) -> str:
    containers = get_field(thing, "status.containerStatuses") or ()
    ready = sum(bool(each.get("ready")) and get_field(each, "state.running") is not None for each in containers)
    return f"{ready}/{len(get_field(thing, 'spec.containers') or ())}"


def _pod_status(thing: Object, _now: datetime) -> str:
    """The reason of the first container that is not well, else that of the pod."""
    phase = get_field(thing, "status.phase") or ""
    if "deletionTimestamp" in thing["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    for container in get_field(thing, "status.containerStatuses") or ():
        if reason := get_field(container, "state.waiting.reason") or get_field(container, "state.terminated.reason"):
            return str(reason)
        if (ended := get_field(container, "state.terminated")) is not None:
            return f"ExitCode:{ended.get('exitCode', 0)}"
    return str(get_field(thing, "status.reason") or phase)


def _restarts(thing: Object, now: datetime) -> str:
    containers = get_field(thing, "status.containerStatuses") or ()
    count = sum(each.get("restartCount", 0) for each in containers)
    # RFC 3339 in UTC with whole seconds: the order of texts is that of times.
    last = max((get_field(each, "lastState.terminated.finishedAt") or "" for each in containers), default="")
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


POD_COLUMNS: Final = (
    _NAME,
    Column("Ready", _pod_ready),
    Column("Status", _pod_status),
    Column("Restarts", _restarts),
    _AGE,
    Column("IP", _field("status.podIP", _NONE), is_wide=True),
    Column("Node", _field("spec.nodeName", _NONE), is_wide=True),
)

# --- Events, as ``v1`` has them ---------------------------------------------------------------------------------------


def _about(thing: Object, _now: datetime) -> str:
    kind, name = str(get_field(thing, "involvedObject.kind") or "").lower(), get_field(thing, "involvedObject.name")
    return f"{kind}/{name}" if name else kind


def _last_seen(thing: Object, now: datetime) -> str:
    fields = ("series.lastObservedTime", "lastTimestamp", "firstTimestamp", "eventTime")
    return since(next((found for each in fields if (found := get_field(thing, each))), None), now)


EVENT_COLUMNS: Final = (
    Column("Last Seen", _last_seen),
    Column("Type", _field("type")),
    Column("Reason", _field("reason")),
    Column("Object", _about),
    Column("Message", lambda thing, _now: str(thing.get("message") or "").strip()),
    Column("Name", _field("metadata.name"), is_wide=True),
)
