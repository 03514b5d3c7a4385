"""Discovery: the versions, groups and resources that clients ask for before they do anything else."""

from collections.abc import Iterable, Sequence
from typing import Final

from zoneward.sandbox.server.kinds import Kind, Object

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The content type of `aggregated`."""
OPENAPI_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPENAPI_V2: Final = b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.36"
"""``/openapi/v2`` without any kind: kubectl reads it, in protobuf, for kinds that ``/openapi/v3`` does not have, and
fails without it.
"""
_UNDESCRIBED: Final = (
    "The sandbox does not support descriptions of fields (kubectl explain): use a real cluster, KWOK or kind."
)
_MAJOR, _MINOR, _PATCH = 1, 36, 3
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")


def document(kinds: Sequence[Kind], path: str, *, address: str) -> Object | None:
    """Of a path without its last slash; ``address`` is ``host:port``. None for a path without one."""
    match path.strip("/").split("/"):
        case ["version"]:
            return version()
        case ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
        case ["apis"]:
            found = [_group(api) for api in _apis(kinds) if "/" in api]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
        case ["apis", name]:
            one = next((_group(api) for api in _apis(kinds) if api.startswith(f"{name}/")), None)
            return None if one is None else {"kind": "APIGroup", "apiVersion": "v1"} | one
        case ["api", name]:
            return resources(kinds, name)
        case ["apis", group, name]:
            return resources(kinds, f"{group}/{name}")
        case ["openapi", "v3"]:
            return {"paths": {_root(api): {"serverRelativeURL": f"/openapi/v3/{_root(api)}"} for api in _apis(kinds)}}
        case ["openapi", "v3", *rest]:
            return openapi(kinds, "/".join(rest))
    return None


def openapi(kinds: Sequence[Kind], root: str) -> Object | None:
    """The least that kubectl has to find: that a patch takes ``fieldValidation``, so that it leaves the validation to
    the server. ``root`` is ``api/v1`` or ``apis/GROUP/VERSION``. None for one without kinds.
    """
    found = [kind for kind in kinds if _root(kind.api) == root]
    if not found:
        return None
    items, schemas = {}, {}
    for kind in found:
        named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        scope = "namespaces/{namespace}/" if kind.is_namespaced else ""
        parameters = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
        patch = {"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": named, "parameters": parameters}
        get = {"x-kubernetes-action": "get", "x-kubernetes-group-version-kind": named}
        answers = {"responses": {"200": {"description": "OK"}}}
        items[f"/{root}/{scope}{kind.plural}/{{name}}"] = {"get": get | answers, "patch": patch | answers}
        schema = {"type": "object", "description": _UNDESCRIBED, "x-kubernetes-group-version-kind": [named]}
        schemas[f"{root.replace('/', '.')}.{kind.kind}"] = schema
    info = {"title": "Zoneward sandbox", "version": f"v{_MAJOR}.{_MINOR}.{_PATCH}"}
    return {"openapi": "3.0.0", "info": info, "paths": items, "components": {"schemas": schemas}}


def _root(api: str) -> str:
    return f"apis/{api}" if "/" in api else f"api/{api}"


def version() -> Object:
    """``/version``: that of the Kubernetes whose rules these are."""
    return {
        "major": str(_MAJOR),
        "minor": str(_MINOR),
        "emulationMajor": str(_MAJOR),
        "emulationMinor": str(_MINOR),
        "minCompatibilityMajor": str(_MAJOR),
        "minCompatibilityMinor": str(_MINOR - 1),
        "gitVersion": f"v{_MAJOR}.{_MINOR}.{_PATCH}",
        "gitCommit": "zoneward sandbox",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "any",
    }


def resources(kinds: Sequence[Kind], api: str) -> Object | None:
    """``/api/v1``, ``/apis/GROUP/VERSION``; ``api`` is ``v1`` or ``GROUP/VERSION``. None for one without kinds."""
    found: list[Object] = []
    for kind in _of_api(kinds, api):
        own = {"namespaced": kind.is_namespaced, "kind": kind.kind}
        whole = {"name": kind.plural, "singularName": kind.singular} | own | {"verbs": _verbs(kind)}
        found.append(whole | _names(kind))
        for name, verbs in _subresources(kind):
            found.append({"name": f"{kind.plural}/{name}", "singularName": ""} | own | {"verbs": verbs})
    if not found:
        return None
    # Upstream's oldest document has no version of its own.
    version = {"apiVersion": "v1"} if "/" in api else {}
    return {"kind": "APIResourceList"} | version | {"groupVersion": api, "resources": found}


def aggregated(kinds: Sequence[Kind], *, core: bool) -> Object:
    """``/api`` (``core``) and ``/apis`` for clients that accept ``AGGREGATED``: all resources in one document."""
    items = []
    for api in _apis(kinds):
        group, _, version = api.rpartition("/")
        if core == (not group):
            entry = {
                "version": version,
                "resources": [_aggregated(kind) for kind in _of_api(kinds, api)],
                "freshness": "Current",
            }
            items.append({"metadata": {"name": group} if group else {}, "versions": [entry]})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated(kind: Kind) -> Object:
    # The group and version are those around it.
    response = {"group": "", "version": "", "kind": kind.kind}
    subresources = [
        {"subresource": name, "responseKind": response, "verbs": verbs} for name, verbs in _subresources(kind)
    ]
    resource = {
        "resource": kind.plural,
        "responseKind": response,
        "scope": "Namespaced" if kind.is_namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    return resource | _names(kind) | ({"subresources": subresources} if subresources else {})


def _apis(kinds: Iterable[Kind]) -> list[str]:
    """``v1``, ``discovery.k8s.io/v1``: each group has one version."""
    return list(dict.fromkeys(kind.api for kind in kinds))


def _group(api: str) -> Object:
    name, _, version = api.partition("/")
    entry = {"groupVersion": api, "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def _of_api(kinds: Iterable[Kind], api: str) -> list[Kind]:
    return sorted((kind for kind in kinds if kind.api == api), key=lambda kind: kind.plural)


def _verbs(kind: Kind) -> list[str]:
    # Upstream cannot delete many Namespaces at once.
    return [verb for verb in _VERBS if verb != "deletecollection" or kind.kind != "Namespace"]


def _names(kind: Kind) -> Object:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: value for key, value in names.items() if value}


def _subresources(kind: Kind) -> list[tuple[str, list[str]]]:
    """Name and verbs of each."""
    return [(name, ["update"] if name == "finalize" else list(_STATUS_VERBS)) for name in sorted(kind.subresources)]
