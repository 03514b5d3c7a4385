"""Objects as a ``Table``, with the columns that ``kubectl get`` prints, or their metadata alone: what clients get that
ask for ``as=Table``, ``as=PartialObjectMetadata`` or ``as=PartialObjectMetadataList``.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, cast, get_args

from zoneward.kube.formats import quoted
from zoneward.sandbox.server.kinds import NAME, Column, Kind, Object
from zoneward.sandbox.server.status_errors import bad_request

Inclusion = Literal["None", "Metadata", "Object"]
"""How much of an object comes with its row."""
Version = Literal["v1", "v1beta1"]
"""Of ``meta.k8s.io``."""


def inclusion(text: str) -> Inclusion:
    """What the parameter ``includeObject`` says. Raises StatusError."""
    if not text:
        return "Metadata"
    if text not in get_args(Inclusion):
        problem = f"includeObject: Invalid value: {quoted(text)}: must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {problem}")
    return cast(Inclusion, text)


def table(
    kind: Kind,
    things: Iterable[Object],
    *,
    metadata: Object,
    include: Inclusion = "Metadata",
    with_columns: bool = True,
    now: datetime,
    version: Version = "v1",
) -> Object:
    """A row for each of ``things``, which are not copied.

    ``metadata`` is that of the list: resourceVersion, continue, remainingItemCount. ``table_of_one`` is for anything
    but a list.
    """
    has_conditions = kind.kind == "Pod"
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": list(map(_definition, kind.columns)) if with_columns else None,
        "rows": [
            {"cells": kind.cells(thing, now)}
            | ({"conditions": told} if has_conditions and (told := pod_row_conditions(thing)) else {})
            | {"object": _included(thing, include, version)}
            for thing in things
        ],
    }


def table_of_one(
    kind: Kind,
    thing: Object,
    *,
    include: Inclusion = "Metadata",
    with_columns: bool = True,
    now: datetime,
    version: Version = "v1",
) -> Object:
    """Of a single object, or of a watch event's: in a stream only the first event's table has columns. A bookmark's
    object may have nothing but its metadata.
    """
    metadata = {"resourceVersion": thing["metadata"].get("resourceVersion", "")}
    return table(kind, [thing], metadata=metadata, include=include, with_columns=with_columns, now=now, version=version)


def partial(thing: Object, *, version: Version = "v1") -> Object:
    """A ``PartialObjectMetadata``. The metadata is not copied."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": thing["metadata"]}


def partial_list(things: Iterable[Object], *, metadata: Object, version: Version = "v1") -> Object:
    """A ``PartialObjectMetadataList``; ``metadata`` is that of the list."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "items": [partial(thing, version=version) for thing in things],
    }


def _included(thing: Object, include: Inclusion, version: Version) -> Object | None:
    match include:
        case "None":
            return None
        case "Metadata":
            return partial(thing, version=version)
        case "Object":
            return thing


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


# --- ages -------------------------------------------------------------------------------------------------------------

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
_SECOND: Final = timedelta(seconds=1)
_GRACE: Final = timedelta(seconds=-2)
"""Clocks differ: what is less than this in the future is now."""

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
"""Shorter than so many seconds: the unit and its letter, the smaller unit (0: none is told) and its letter."""


def human(duration: timedelta) -> str:
    """At most two units, the second only while it says much: upstream's ``duration.HumanDuration``."""
    if duration <= _GRACE:
        return INVALID
    seconds = max(duration // _SECOND, 0)
    for limit, unit, letter, smaller, smaller_letter in _STEPS:
        if seconds < limit:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{smaller_letter}" if rest else "")
    return f"{seconds // _YEAR}y"


def since(timestamp: str | None, now: datetime) -> str:
    """``timestamp`` as objects have it: RFC 3339, with or without fractions of a second."""
    return human(now - datetime.fromisoformat(timestamp)) if timestamp else UNKNOWN


AGE: Final = Column("Age", description="How long ago the object was created.")


def age(thing: Object, now: datetime) -> str:
    return since(thing["metadata"].get("creationTimestamp"), now)


# --- Namespaces, Leases, Endpoints, EndpointSlices --------------------------------------------------------------------

_NONE: Final = "<none>"
NAMESPACE_COLUMNS: Final = (NAME, Column("Status", description="The status of the namespace"), AGE)


def namespace_cells(thing: Object, now: datetime) -> list[object]:
    status = thing.get("status") or {}
    return [thing["metadata"].get("name", ""), status.get("phase", ""), age(thing, now)]


LEASE_COLUMNS: Final = (NAME, Column("Holder", description="Who holds the lease."), AGE)


def lease_cells(thing: Object, now: datetime) -> list[object]:
    spec = thing.get("spec") or {}
    return [thing["metadata"].get("name", ""), spec.get("holderIdentity") or "", age(thing, now)]


ENDPOINTS_COLUMNS: Final = (NAME, Column("Endpoints", description="The addresses that serve, with their ports."), AGE)


def endpoints_cells(thing: Object, now: datetime) -> list[object]:
    pairs = [
        f"{_bracketed(address['ip'])}:{port['port']}" if port else str(address["ip"])
        for subset in thing.get("subsets") or ()
        for port in subset.get("ports") or (None,)
        for address in subset.get("addresses") or ()
    ]
    shown = ",".join(pairs[:_SHOWN]) or _NONE
    more = f" + {len(pairs) - _SHOWN} more..." if len(pairs) > _SHOWN else ""
    return [thing["metadata"].get("name", ""), shown + more, age(thing, now)]


def _bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


ENDPOINT_SLICE_COLUMNS: Final = (
    NAME,
    Column("AddressType", description="The type of all its addresses."),
    Column("Ports", description="The ports of each of its endpoints."),
    Column("Endpoints", description="The addresses of its endpoints."),
    AGE,
)

_SHOWN: Final = 3


def endpoint_slice_cells(thing: Object, now: datetime) -> list[object]:
    endpoints = thing.get("endpoints") or ()
    return [
        thing["metadata"].get("name", ""),
        thing.get("addressType", ""),
        _shortened([_slice_port(port) for port in thing.get("ports") or ()]),
        _shortened([address for endpoint in endpoints for address in endpoint.get("addresses") or ()]),
        age(thing, now),
    ]


def _slice_port(port: Object) -> str:
    number = port.get("port")
    return str(port.get("name") or "") if number is None else str(number)


def _shortened(words: Sequence[str]) -> str:
    shown = ",".join(words[:_SHOWN])
    if len(words) > _SHOWN:
        return f"{shown} + {len(words) - _SHOWN} more..."
    return shown or "<unset>"


# --- Services ---------------------------------------------------------------------------------------------------------

SERVICE_COLUMNS: Final = (
    NAME,
    Column("Type", description="How the Service is exposed."),
    Column("Cluster-IP", description="The first of its virtual addresses."),
    Column("External-IP", description="Its addresses outside of the cluster."),
    Column("Port(s)", description="The ports it exposes, with their node ports."),
    AGE,
    Column("Selector", description="The labels of the pods it sends traffic to.", priority=1),
)


def service_cells(thing: Object, now: datetime) -> list[object]:
    spec = thing.get("spec") or {}
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or _NONE]
    selector = spec.get("selector") or {}
    return [
        thing["metadata"].get("name", ""),
        spec.get("type", ""),
        addresses[0],
        _external(spec, thing.get("status") or {}),
        ",".join(map(_service_port, spec.get("ports") or ())) or _NONE,
        age(thing, now),
        ",".join(f"{key}={selector[key]}" for key in sorted(selector)) or _NONE,
    ]


def _external(spec: Object, status: Object) -> str:
    own = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or _NONE
        case "LoadBalancer":
            ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
            return ",".join(sorted(set(_entrances(ingress))) + own) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


def _entrances(ingress: Iterable[Object]) -> Iterable[str]:
    for entrance in ingress:
        if address := entrance.get("ip") or entrance.get("hostname"):
            yield address


def _service_port(port: Object) -> str:
    node_port = port.get("nodePort")
    return f"{port['port']}{f':{node_port}' if node_port else ''}/{port.get('protocol', 'TCP')}"


# --- Nodes ------------------------------------------------------------------------------------------------------------

NODE_COLUMNS: Final = (
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

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def node_cells(thing: Object, now: datetime) -> list[object]:
    metadata, spec, status = thing["metadata"], thing.get("spec") or {}, thing.get("status") or {}
    info = status.get("nodeInfo") or {}
    addresses = status.get("addresses") or ()
    return [
        metadata.get("name", ""),
        _readiness(status.get("conditions") or ()) + (",SchedulingDisabled" if spec.get("unschedulable") else ""),
        ",".join(sorted(set(_roles(metadata.get("labels") or {})))) or _NONE,
        age(thing, now),
        info.get("kubeletVersion", ""),
        _node_address(addresses, "InternalIP"),
        _node_address(addresses, "ExternalIP"),
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


def _node_address(addresses: Iterable[Object], address_type: str) -> str:
    return next((each["address"] for each in addresses if each.get("type") == address_type), _NONE)


# --- Pods -------------------------------------------------------------------------------------------------------------

POD_COLUMNS: Final = (
    NAME,
    Column("Ready", description="The aggregate readiness state of this pod for accepting traffic."),
    Column("Status", description="The aggregate status of the containers in this pod."),
    Column("Restarts", description="How often its containers have been restarted, and when the last time."),
    AGE,
    Column("IP", description="The first address of the pod.", priority=1),
    Column("Node", description="The node this pod is on.", priority=1),
    Column("Nominated Node", description="The node it may get when others have left.", priority=1),
    Column("Readiness Gates", description="How many of them are open.", priority=1),
)

_FINISHED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_cells(thing: Object, now: datetime) -> list[object]:
    metadata, spec, status = thing["metadata"], thing.get("spec") or {}, thing.get("status") or {}
    containers = status.get("containerStatuses") or ()
    running = [
        each for each in containers if each.get("ready") and (each.get("state") or {}).get("running") is not None
    ]
    return [
        metadata.get("name", ""),
        f"{len(running)}/{len(spec.get('containers') or ())}",
        _ending(metadata, status) or _reason(status, containers, is_running=bool(running)),
        _restarts(containers, now),
        age(thing, now),
        _pod_address(status) or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _gates(spec.get("readinessGates") or (), status.get("conditions") or ()),
    ]


def pod_row_conditions(thing: Object) -> list[Object]:
    """Of its row: that there is nothing to be expected any more. Empty while there is."""
    phase = (thing.get("status") or {}).get("phase", "")
    if phase not in _FINISHED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED[phase]}]


def _reason(status: Object, containers: Sequence[Object], *, is_running: bool) -> str:
    """What is wrong with the first container that is not well, else what the pod itself says."""
    reason = str(status.get("reason") or status.get("phase", ""))
    for container in reversed(containers):
        state = container.get("state") or {}
        if waiting := (state.get("waiting") or {}).get("reason"):
            reason = waiting
        elif (ended := state.get("terminated")) is not None:
            reason = _end(ended)
    if reason == "Completed" and is_running:
        conditions = status.get("conditions") or ()
        is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
        return "Running" if is_ready else "NotReady"
    return reason


def _restarts(containers: Sequence[Object], now: datetime) -> str:
    """How many, and when the last one was."""
    count = sum(container.get("restartCount", 0) for container in containers)
    ended = (((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for container in containers)
    # RFC 3339 in UTC with whole seconds: the order of texts is that of times.
    last = max((each for each in ended if each), default="")
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def _ending(metadata: Object, status: Object) -> str:
    """What a pod that is being deleted is, whatever its containers are; empty if nothing but that."""
    if "deletionTimestamp" not in metadata:
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in _FINISHED else "Terminating"


def _end(ended: Object) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    signal = ended.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"


def _pod_address(status: Object) -> str:
    addresses: Sequence[Object] = status.get("podIPs") or [{"ip": status.get("podIP")}]
    return addresses[0].get("ip") or ""


def _gates(gates: Sequence[Object], pod_row_conditions: Iterable[Object]) -> str:
    if not gates:
        return _NONE
    fulfilled = {condition.get("type") for condition in pod_row_conditions if condition.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in fulfilled for gate in gates)}/{len(gates)}"


# --- Events of both versions ------------------------------------------------------------------------------------------

EVENT_COLUMNS: Final = (
    Column("Last Seen", description="When this was last so."),
    Column("Type", description="Type of this event (Normal, Warning)"),
    Column("Reason", description="Why, as machines read it."),
    Column("Object", description="The object that this event is about."),
    Column("Subobject", description="The part of the object that this event is about.", priority=1),
    Column("Source", description="The component reporting this event.", priority=1),
    Column("Message", description="What happened, as humans read it."),
    Column("First Seen", description="When this was first so.", priority=1),
    Column("Count", description="The number of times this event has occurred.", priority=1),
    Column("Name", format="name", description="Name must be unique within a namespace.", priority=1),
)


def event_cells(thing: Object, now: datetime) -> list[object]:
    about = _either(thing, "involvedObject", "regarding") or {}
    kind, name = str(about.get("kind", "")).lower(), about.get("name")
    first = since(_either(thing, "firstTimestamp", "deprecatedFirstTimestamp") or thing.get("eventTime"), now)
    if series := thing.get("series"):
        last, count = since(series.get("lastObservedTime"), now), series.get("count", 0)
    else:
        latest = _either(thing, "lastTimestamp", "deprecatedLastTimestamp")
        last = since(latest, now) if latest else first
        # Upstream's new recorders leave it out: it happened once.
        count = _either(thing, "count", "deprecatedCount") or 1
    return [
        last,
        thing.get("type", ""),
        thing.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        _source(thing),
        str(_either(thing, "message", "note") or "").strip(),
        first,
        count,
        thing["metadata"].get("name", ""),
    ]


def _source(thing: Object) -> str:
    source = _either(thing, "source", "deprecatedSource") or {}
    component = source.get("component") or _either(thing, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or thing.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


def _either(thing: Object, core: str, newer: str) -> Any:
    return thing.get(core) or thing.get(newer)
