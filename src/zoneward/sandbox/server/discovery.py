"""What the server says it has: versions, groups and resources, for clients that ask before they do anything else."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from zoneward.sandbox.server.kinds import Kind, Object

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The content type of ``aggregated``. Its forerunner v2beta1 is refused, as Kubernetes 1.36 does: old clients take the
plain documents.
"""
OPENAPI_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPENAPI_V2: Final = b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.36"
"""``/openapi/v2`` without any kind: kubectl asks for it, in protobuf, about kinds that ``/openapi/v3`` does not have,
and gives up where it gets none at all.
"""
_UNDESCRIBED: Final = (
    "The sandbox does not support descriptions of fields (kubectl explain): use a real cluster, KWOK or kind."
)
PATHS: Final = ("/healthz", "/livez", "/openapi/v3", "/readyz", "/version")
"""What there is besides resources."""

_MAJOR, _MINOR, _PATCH = 1, 36, 3
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_NOT_FOR_ALL: Final = frozenset({"Namespace"})
"""Upstream has no deletecollection for them."""
_SUBRESOURCES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = MappingProxyType(
    {"Namespace": MappingProxyType({"finalize": ("update",)})}
)
"""Besides the status, and what may be done with them."""
_STORED_IN: Final[Mapping[str, str]] = MappingProxyType({"events.k8s.io": ""})
"""Groups whose objects are kept as those of another one."""


def document(kinds: Sequence[Kind], path: str, *, address: str) -> Object | None:
    """Of a path without its last slash; ``address`` is ``host:port``. None for a path without one."""
    match path.strip("/").split("/"):
        case [""]:
            return paths(kinds)
        case ["version"]:
            return version()
        case ["api"]:
            return core_versions(address=address)
        case ["apis"]:
            return groups(kinds)
        case ["apis", group_name]:
            return group(kinds, group_name)
        case ["api", version_name]:
            return resources(kinds, version_name)
        case ["apis", group_name, version_name]:
            return resources(kinds, f"{group_name}/{version_name}")
        case ["openapi", "v3"]:
            apis = dict.fromkeys(kind.api for kind in kinds)
            return {"paths": {_root(api): {"serverRelativeURL": f"/openapi/v3/{_root(api)}"} for api in apis}}
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


def core_versions(*, address: str) -> Object:
    """``/api``; ``address`` is ``host:port``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def groups(kinds: Sequence[Kind]) -> Object:
    """``/apis``: all groups but the core one, in their order in ``kinds``."""
    found = [_group(name, versions) for name, versions in _versions(kinds).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(kinds: Sequence[Kind], name: str) -> Object | None:
    """``/apis/GROUP``; None for a group that is not there."""
    versions = _versions(kinds).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, versions) if name and versions else None


def resources(kinds: Sequence[Kind], api: str) -> Object | None:
    """``/api/v1``, ``/apis/GROUP/VERSION``; ``api`` is ``v1`` or ``GROUP/VERSION``. None if nothing is of that."""
    found = [entry for kind in _sorted(kinds, api) for entry in _resource(kind)]
    if not found:
        return None
    # Upstream's oldest document has no version of its own.
    own = {"apiVersion": "v1"} if "/" in api else {}
    return {"kind": "APIResourceList"} | own | {"groupVersion": api, "resources": found}


def aggregated(kinds: Sequence[Kind], *, core: bool) -> Object:
    """``/api`` (``core``) and ``/apis`` for clients that accept ``AGGREGATED``: all resources at once."""
    items = []
    for name, versions in _versions(kinds).items():
        if core == (not name):
            told = [
                {
                    "version": each,
                    "resources": [_aggregated(kind) for kind in _sorted(kinds, f"{name}/{each}".removeprefix("/"))],
                    "freshness": "Current",
                }
                for each in versions
            ]
            items.append({"metadata": {"name": name} if name else {}, "versions": told})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def paths(kinds: Sequence[Kind]) -> Object:
    """``/``."""
    found = {"/api", "/apis", *PATHS}
    for name, versions in _versions(kinds).items():
        root = f"/apis/{name}" if name else "/api"
        found |= {root, *(f"{root}/{each}" for each in versions)}
    return {"paths": sorted(found)}


def _versions(kinds: Iterable[Kind]) -> dict[str, list[str]]:
    """Of each group, the preferred one first."""
    found: dict[str, list[str]] = {}
    for kind in kinds:
        versions = found.setdefault(kind.group, [])
        if kind.version not in versions:
            versions.append(kind.version)
    return found


def _group(name: str, versions: Sequence[str]) -> Object:
    told = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def _sorted(kinds: Iterable[Kind], api: str) -> list[Kind]:
    return sorted((kind for kind in kinds if kind.api == api), key=lambda kind: kind.plural)


def _resource(kind: Kind) -> Iterable[Object]:
    yield {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced,
        "kind": kind.kind,
        "verbs": _verbs(kind),
    } | (_names(kind) | {"storageVersionHash": _storage_hash(kind)})
    for name, of, verbs in _subresources(kind):
        yield {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.is_namespaced,
            "kind": of,
            "verbs": list(verbs),
        }


def _aggregated(kind: Kind) -> Object:
    # The group and version are those around it.
    response = {"group": "", "version": "", "kind": kind.kind}
    subresources = [
        {"subresource": name, "responseKind": response | {"kind": of}, "verbs": list(verbs)}
        for name, of, verbs in _subresources(kind)
    ]
    resource = {
        "resource": kind.plural,
        "responseKind": response,
        "scope": "Namespaced" if kind.is_namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    return resource | _names(kind) | ({"subresources": subresources} if subresources else {})


def _verbs(kind: Kind) -> list[str]:
    return [verb for verb in _VERBS if verb != "deletecollection" or kind.kind not in _NOT_FOR_ALL]


def _storage_hash(kind: Kind) -> str:
    stored = f"{_STORED_IN.get(kind.group, kind.group)}/{kind.version}/{kind.kind}"
    return b64encode(sha256(stored.encode()).digest()[:8]).decode()


def _names(kind: Kind) -> Object:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: value for key, value in names.items() if value}


def _subresources(kind: Kind) -> list[tuple[str, str, tuple[str, ...]]]:
    """Name, kind and verbs of each."""
    status = {"status": ("get", "patch", "update")} if kind.has_status else {}
    found = [(name, kind.kind, verbs) for name, verbs in {**_SUBRESOURCES.get(kind.kind, {}), **status}.items()]
    return sorted(found)
