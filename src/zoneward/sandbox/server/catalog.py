"""All kinds of the sandbox, and the discovery documents that describe them to clients."""

from collections.abc import Iterable, Sequence
from typing import Final

from zoneward.sandbox.server.cluster_kinds import LeaseKind, NamespaceKind, NodeKind, PodKind
from zoneward.sandbox.server.endpoint_kinds import EndpointsKind, EndpointSliceKind
from zoneward.sandbox.server.event_kinds import EventKind, NewerEventKind
from zoneward.sandbox.server.kinds import Kind, Object, ServerGates
from zoneward.sandbox.server.service_kind import ServiceKind

GATES: Final = {
    "TopologyAwareHints": "topology_aware_hints",
    "PreferSameTrafficDistribution": "prefer_same_traffic_distribution",
    "ServiceTrafficDistribution": "service_traffic_distribution",
}
"""From upstream's names to the fields of `ServerGates`."""


def parse_gates(texts: Iterable[str]) -> ServerGates:
    """Gates in the form of kube-apiserver: ``TopologyAwareHints=false,...``; the last one wins.

    Raises ValueError with what was expected.
    """
    gates = {}
    for gate in (part for text in texts for part in text.split(",")):
        name, _, value = gate.partition("=")
        if name not in GATES:
            raise ValueError(f"expected one of {', '.join(GATES)}, got {name!r}")
        if value not in ("true", "false"):
            raise ValueError(f"expected {name}=true or {name}=false, got {gate!r}")
        gates[GATES[name]] = value == "true"
    return ServerGates(**gates)


def kinds(gates: ServerGates | None = None) -> tuple[Kind, ...]:
    """New kinds on each call: that of Services has the state of allocated addresses and ports."""
    gates = gates or ServerGates()
    events = EventKind()
    return (
        NamespaceKind(),
        NodeKind(),
        PodKind(),
        ServiceKind(gates),
        EndpointSliceKind(gates),
        EndpointsKind(),
        LeaseKind(),
        events,
        NewerEventKind(events),
    )


# --- discovery --------------------------------------------------------------------------------------------------------

OPENAPI_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPENAPI_V2: Final = b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.37"
"""``/openapi/v2`` without any kind: kubectl reads it, in protobuf, for kinds that ``/openapi/v3`` does not have, and
fails without it.
"""
_UNDESCRIBED: Final = (
    "The sandbox does not support descriptions of fields (kubectl explain): use a real cluster, KWOK or kind."
)
_MAJOR, _MINOR, _PATCH = "1", "37", "2"
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def document(kinds: Sequence[Kind], path: str, *, address: str) -> Object | None:
    """The document of a path without its last slash; None for other paths. ``address`` is ``host:port``."""
    match path.strip("/").split("/"):
        case ["version"]:
            # The version of Kubernetes whose rules the sandbox has.
            own = dict.fromkeys(("gitCommit", "gitTreeState", "goVersion", "compiler", "platform"), "zoneward sandbox")
            version = {"major": _MAJOR, "minor": _MINOR, "gitVersion": f"v{_MAJOR}.{_MINOR}.{_PATCH}"}
            return version | own | {"buildDate": "1970-01-01T00:00:00Z"}
        case ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
        case ["apis"]:
            groups = [_group(api) for api in _apis(kinds) if "/" in api]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", name]:
            one = next((_group(api) for api in _apis(kinds) if api.startswith(f"{name}/")), None)
            return None if one is None else {"kind": "APIGroup", "apiVersion": "v1"} | one
        case ["api", name]:
            return _resources(kinds, name)
        case ["apis", group, name]:
            return _resources(kinds, f"{group}/{name}")
        case ["openapi", "v3"]:
            return {"paths": {_root(api): {"serverRelativeURL": f"/openapi/v3/{_root(api)}"} for api in _apis(kinds)}}
        case ["openapi", "v3", *rest]:
            return _openapi(kinds, "/".join(rest))
    return None


def _openapi(kinds: Sequence[Kind], root: str) -> Object | None:
    """The minimum for kubectl: PATCH has the parameter ``fieldValidation``, so that kubectl leaves validation to the
    server. ``root`` is ``api/v1`` or ``apis/GROUP/VERSION``. None for one without kinds.
    """
    paths, schemas = {}, {}
    answers = {"responses": {"200": {"description": "OK"}}}
    parameters = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
    for kind in (candidate for candidate in kinds if _root(candidate.api) == root):
        named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        patch = {"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": named, "parameters": parameters}
        get = {"x-kubernetes-action": "get", "x-kubernetes-group-version-kind": named}
        scope = "namespaces/{namespace}/" if kind.is_namespaced else ""
        paths[f"/{root}/{scope}{kind.plural}/{{name}}"] = {"get": get | answers, "patch": patch | answers}
        schema = {"type": "object", "description": _UNDESCRIBED, "x-kubernetes-group-version-kind": [named]}
        schemas[f"{root.replace('/', '.')}.{kind.kind}"] = schema
    info = {"title": "Zoneward sandbox", "version": f"v{_MAJOR}.{_MINOR}.{_PATCH}"}
    document = {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
    return document if paths else None


def _resources(kinds: Sequence[Kind], api: str) -> Object | None:
    """``/api/v1``, ``/apis/GROUP/VERSION``; ``api`` is ``v1`` or ``GROUP/VERSION``. None for one without kinds."""
    resources: list[Object] = []
    for kind in sorted((kind for kind in kinds if kind.api == api), key=lambda kind: kind.plural):
        own = {"namespaced": kind.is_namespaced, "kind": kind.kind}
        names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
        verbs = [verb for verb in _VERBS if verb != "deletecollection" or kind.kind != "Namespace"]
        whole = {"name": kind.plural, "singularName": kind.kind.lower()} | own | {"verbs": verbs}
        resources.append(whole | {key: value for key, value in names.items() if value})
        if kind.has_status:
            status = {"name": f"{kind.plural}/status", "singularName": ""}
            resources.append(status | own | {"verbs": ["get", "patch", "update"]})
    # Upstream's oldest document has no apiVersion.
    version = {"apiVersion": "v1"} if "/" in api else {}
    return {"kind": "APIResourceList"} | version | {"groupVersion": api, "resources": resources} if resources else None


def _root(api: str) -> str:
    return f"apis/{api}" if "/" in api else f"api/{api}"


def _apis(kinds: Iterable[Kind]) -> list[str]:
    """``v1``, ``discovery.k8s.io/v1``: each group has one version."""
    return list(dict.fromkeys(kind.api for kind in kinds))


def _group(api: str) -> Object:
    name, _, version = api.partition("/")
    entry = {"groupVersion": api, "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}
