"""Objects as a ``Table`` with the columns that ``kubectl get`` prints, or as ``PartialObjectMetadata``."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, cast, get_args

from zoneward.kube.formats import quoted
from zoneward.sandbox.server.kinds import Cell, Column, Kind, Object
from zoneward.sandbox.server.status_errors import bad_request

Inclusion = Literal["None", "Metadata", "Object"]
"""How much of an object comes with its row."""


def inclusion(text: str) -> Inclusion:
    """The parameter ``includeObject``. Raises StatusError."""
    if not text:
        return "Metadata"
    if text not in get_args(Inclusion):
        problem = f"includeObject: Invalid value: {quoted(text)}: must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {problem}")
    return cast(Inclusion, text)


def table(
    kind: Kind, things: Iterable[Object], *, metadata: Object, include: Inclusion, with_columns: bool, now: datetime
) -> Object:
    """A row for each object; ``metadata`` is that of the list. The objects are not copied."""
    definitions = [
        {
            "name": column.name,
            "type": "string",
            "format": "name" if column.name == "Name" else "",
            "description": column.name,
            "priority": int(column.is_wide),
        }
        for column in kind.columns
    ]
    rows = []
    for thing in things:
        stored = kind.to_stored(thing)
        row: Object = {"cells": [column.cell(stored, now) for column in kind.columns]}
        if kind.kind == "Pod" and (phase := _phase(thing, now)) in _FINISHED:
            message = _FINISHED[phase]
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
        row["object"] = {"None": None, "Metadata": partial(thing), "Object": thing}[include]
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions if with_columns else None,
        "rows": rows,
    }


def table_of_one(kind: Kind, thing: Object, *, include: Inclusion, with_columns: bool = True, now: datetime) -> Object:
    """The table of a single object, or of a watch event: in a stream only the first table has columns. The object of a
    bookmark has nothing but metadata.
    """
    metadata = {"resourceVersion": thing["metadata"].get("resourceVersion", "")}
    return table(kind, [thing], metadata=metadata, include=include, with_columns=with_columns, now=now)


def partial(thing: Object) -> Object:
    """A ``PartialObjectMetadata``. The metadata is not copied."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": thing["metadata"]}


# --- cells that several kinds have ------------------------------------------------------------------------------------

UNKNOWN: Final = "<unknown>"
_NONE: Final = "<none>"
_SHOWN: Final = 3
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
_STEPS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Below so many seconds: the unit and its letter, the smaller unit (0: not shown) and its letter."""


def human(duration: timedelta) -> str:
    """At most two units, as upstream's ``duration.HumanDuration``. Clocks differ: two seconds ahead count as now."""
    if duration <= timedelta(seconds=-2):
        return "<invalid>"
    seconds = max(duration // timedelta(seconds=1), 0)
    for limit, unit, letter, smaller, smaller_letter in _STEPS:
        if seconds < limit:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{smaller_letter}" if rest else "")
    return f"{seconds // _YEAR}y"


def since(timestamp: str | None, now: datetime) -> str:
    """``timestamp``: RFC 3339, with or without fractions of a second."""
    return human(now - datetime.fromisoformat(timestamp)) if timestamp else UNKNOWN


def field(path: str, default: str = "") -> Cell:
    """The cell of a field such as ``status.phase``; ``default`` where it is absent or empty."""
    names = path.split(".")

    def cell(thing: Object, _now: datetime) -> Any:
        value: Any = thing
        for name in names:
            value = (value or {}).get(name)
        return value or default

    return cell


def _spec(thing: Object) -> Object:
    return thing.get("spec") or {}


def _status(thing: Object) -> Object:
    return thing.get("status") or {}


def _age(thing: Object, now: datetime) -> str:
    return since(thing["metadata"].get("creationTimestamp"), now)


def _first(words: Sequence[str], default: str) -> str:
    """The first three."""
    more = f" + {len(words) - _SHOWN} more..." if len(words) > _SHOWN else ""
    return (",".join(words[:_SHOWN]) + more) or default


_phase: Final = field("status.phase")
_NAME: Final = Column("Name", field("metadata.name"))
_AGE: Final = Column("Age", _age)
NAMESPACE_COLUMNS: Final = (_NAME, Column("Status", _phase), _AGE)
LEASE_COLUMNS: Final = (_NAME, Column("Holder", field("spec.holderIdentity")), _AGE)

# --- Endpoints and EndpointSlices -------------------------------------------------------------------------------------


def _endpoints(thing: Object, _now: datetime) -> str:
    pairs = [
        (f"[{ip}]" if ":" in ip else ip) + f":{port['port']}" if port else str(ip)
        for subset in thing.get("subsets") or ()
        for port in subset.get("ports") or (None,)
        for ip in (address["ip"] for address in subset.get("addresses") or ())
    ]
    return _first(pairs, _NONE)


def _slice_ports(thing: Object, _now: datetime) -> str:
    ports = thing.get("ports") or ()
    return _first(
        [str(port["port"] if port.get("port") is not None else port.get("name") or "") for port in ports], _UNSET
    )


def _slice_addresses(thing: Object, _now: datetime) -> str:
    endpoints = thing.get("endpoints") or ()
    return _first([address for endpoint in endpoints for address in endpoint.get("addresses") or ()], _UNSET)


_UNSET: Final = "<unset>"
ENDPOINTS_COLUMNS: Final = (_NAME, Column("Endpoints", _endpoints), _AGE)
ENDPOINT_SLICE_COLUMNS: Final = (
    _NAME,
    Column("AddressType", field("addressType")),
    Column("Ports", _slice_ports),
    Column("Endpoints", _slice_addresses),
    _AGE,
)

# --- Services ---------------------------------------------------------------------------------------------------------


def _cluster_ip(thing: Object, _now: datetime) -> str:
    spec = _spec(thing)
    return str((spec.get("clusterIPs") or [spec.get("clusterIP") or _NONE])[0])


def _external_ip(thing: Object, _now: datetime) -> str:
    spec = _spec(thing)
    own = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "LoadBalancer":
            ingress = (_status(thing).get("loadBalancer") or {}).get("ingress") or ()
            balanced = {each.get("ip") or each.get("hostname") for each in ingress} - {None, ""}
            return ",".join([*sorted(balanced), *own]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return ",".join(own) or _NONE


def _service_ports(thing: Object, _now: datetime) -> str:
    ports = (
        f"{port['port']}{f':{number}' if (number := port.get('nodePort')) else ''}/{port.get('protocol', 'TCP')}"
        for port in _spec(thing).get("ports") or ()
    )
    return ",".join(ports) or _NONE


def _selector(thing: Object, _now: datetime) -> str:
    selector = _spec(thing).get("selector") or {}
    return ",".join(f"{key}={selector[key]}" for key in sorted(selector)) or _NONE


SERVICE_COLUMNS: Final = (
    _NAME,
    Column("Type", field("spec.type")),
    Column("Cluster-IP", _cluster_ip),
    Column("External-IP", _external_ip),
    Column("Port(s)", _service_ports),
    _AGE,
    Column("Selector", _selector, is_wide=True),
)

# --- Nodes ------------------------------------------------------------------------------------------------------------

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def _node_status(thing: Object, _now: datetime) -> str:
    ready = [each.get("status") for each in _status(thing).get("conditions") or () if each.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[-1] == "True" else "NotReady"
    return word + (",SchedulingDisabled" if _spec(thing).get("unschedulable") else "")


def _roles(thing: Object, _now: datetime) -> str:
    labels = thing["metadata"].get("labels") or {}
    roles = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    return ",".join(sorted(roles | {labels.get("kubernetes.io/role", "")} - {""})) or _NONE


def _node_address(type_: str) -> Cell:
    def cell(thing: Object, _now: datetime) -> str:
        addresses = _status(thing).get("addresses") or ()
        return next((each["address"] for each in addresses if each.get("type") == type_), _NONE)

    return cell


def _kernel(thing: Object, _now: datetime) -> str:
    info = _status(thing).get("nodeInfo") or {}
    architecture = info.get("architecture")
    return (info.get("kernelVersion") or UNKNOWN) + (f" ({architecture})" if architecture else "")


NODE_COLUMNS: Final = (
    _NAME,
    Column("Status", _node_status),
    Column("Roles", _roles),
    _AGE,
    Column("Version", field("status.nodeInfo.kubeletVersion")),
    Column("Internal-IP", _node_address("InternalIP"), is_wide=True),
    Column("External-IP", _node_address("ExternalIP"), is_wide=True),
    Column("OS-Image", field("status.nodeInfo.osImage", UNKNOWN), is_wide=True),
    Column("Kernel-Version", _kernel, is_wide=True),
    Column("Container-Runtime", field("status.nodeInfo.containerRuntimeVersion", UNKNOWN), is_wide=True),
)

# --- Pods -------------------------------------------------------------------------------------------------------------

_FINISHED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _containers(thing: Object) -> list[Object]:
    return _status(thing).get("containerStatuses") or []


def _running(thing: Object) -> int:
    return sum(
        bool(each.get("ready")) and (each.get("state") or {}).get("running") is not None for each in _containers(thing)
    )


def _pod_status(thing: Object, _now: datetime) -> str:
    """The reason of the first container that is not well, else that of the pod."""
    status = _status(thing)
    phase = str(status.get("phase", ""))
    if "deletionTimestamp" in thing["metadata"] and phase not in _FINISHED:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    reason = str(status.get("reason") or phase)
    for container in reversed(_containers(thing)):
        state = container.get("state") or {}
        if waiting := (state.get("waiting") or {}).get("reason"):
            reason = waiting
        elif (ended := state.get("terminated")) is not None:
            signal = ended.get("signal")
            reason = ended.get("reason") or (f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}")
    if reason == "Completed" and _running(thing):
        ready = [each.get("status") for each in status.get("conditions") or () if each.get("type") == "Ready"]
        return "Running" if "True" in ready else "NotReady"
    return reason


def _restarts(thing: Object, now: datetime) -> str:
    containers = _containers(thing)
    count = sum(container.get("restartCount", 0) for container in containers)
    ended = [((each.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for each in containers]
    # RFC 3339 in UTC with whole seconds: the order of texts is that of times.
    last = max(filter(None, ended), default="")
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def _pod_ip(thing: Object, _now: datetime) -> str:
    status = _status(thing)
    return (status.get("podIPs") or [{"ip": status.get("podIP")}])[0].get("ip") or _NONE


def _gates(thing: Object, _now: datetime) -> str:
    gates = _spec(thing).get("readinessGates") or ()
    true = {each.get("type") for each in _status(thing).get("conditions") or () if each.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}" if gates else _NONE


POD_COLUMNS: Final = (
    _NAME,
    Column("Ready", lambda thing, _now: f"{_running(thing)}/{len(_spec(thing).get('containers') or ())}"),
    Column("Status", _pod_status),
    Column("Restarts", _restarts),
    _AGE,
    Column("IP", _pod_ip, is_wide=True),
    Column("Node", field("spec.nodeName", _NONE), is_wide=True),
    Column("Nominated Node", field("status.nominatedNodeName", _NONE), is_wide=True),
    Column("Readiness Gates", _gates, is_wide=True),
)

# --- Events, as ``v1`` has them ---------------------------------------------------------------------------------------


def _involved(thing: Object, _now: datetime) -> str:
    about = thing.get("involvedObject") or {}
    kind, name = str(about.get("kind", "")).lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def _first_seen(thing: Object, now: datetime) -> str:
    return since(thing.get("firstTimestamp") or thing.get("eventTime"), now)


def _last_seen(thing: Object, now: datetime) -> str:
    if series := thing.get("series"):
        return since(series.get("lastObservedTime"), now)
    return since(thing["lastTimestamp"], now) if thing.get("lastTimestamp") else _first_seen(thing, now)


def _source(thing: Object, _now: datetime) -> str:
    source = thing.get("source") or {}
    component = source.get("component") or thing.get("reportingComponent") or ""
    instance = source.get("host") or thing.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


def _count(thing: Object, _now: datetime) -> int:
    # Newer recorders leave the count out: the event happened once.
    series: Object | None = thing.get("series")
    count: int = series.get("count", 0) if series else thing.get("count") or 1
    return count


EVENT_COLUMNS: Final = (
    Column("Last Seen", _last_seen),
    Column("Type", field("type")),
    Column("Reason", field("reason")),
    Column("Object", _involved),
    Column("Subobject", field("involvedObject.fieldPath"), is_wide=True),
    Column("Source", _source, is_wide=True),
    Column("Message", lambda thing, _now: str(thing.get("message") or "").strip()),
    Column("First Seen", _first_seen, is_wide=True),
    Column("Count", _count, is_wide=True),
    Column("Name", field("metadata.name"), is_wide=True),
)
