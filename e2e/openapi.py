"""What the sandbox knows of its kinds' fields: the API description that a real server publishes, reduced to them.

``python -m e2e.openapi`` starts a control plane and writes one file for each group and version, and ``go_fields.json``:
how the fields are declared in Go, which the description does not tell and which decides what JSON looks like.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
from e2e.control_plane import ControlPlane
from e2e.programs import MODULES
from tests.contract.api import Api

Object = dict[str, Any]

FOLDER: Final = Path(__file__).parent.parent / "src/zoneward/sandbox/server/openapi"
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "api/v1": ("Service", "Node", "Pod", "Event", "Namespace", "Binding"),
    "apis/discovery.k8s.io/v1": ("EndpointSlice",),
    "apis/events.k8s.io/v1": ("Event",),
    "apis/coordination.k8s.io/v1": ("Lease",),
}
GO_FIELDS: Final = "go_fields.json"
_SUBRESOURCES: Final = frozenset({"status", "finalize", "binding"})
_NOT_SERVED: Final = "/api/v1/namespaces/{namespace}/bindings"
"""An older way to bind pods."""
_METHODS: Final = ("get", "put", "post", "delete", "patch")
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_ALWAYS: Final = (f"{_META}Status", f"{_META}DeleteOptions", f"{_META}WatchEvent", f"{_META}Patch")
_REFERENCE: Final = "#/components/schemas/"


def file_of(path: str) -> str:
    """``discovery.k8s.io_v1.json`` for ``apis/discovery.k8s.io/v1``."""
    return f"{path.removeprefix('apis/').replace('/', '_')}.json"


def reduced(document: Object, kinds: Iterable[str]) -> Object:
    """The part of a group's description that is about these kinds, without prose."""
    wanted = set(kinds)
    paths = {path: kept for path, item in document["paths"].items() if (kept := _path_item(path, item, wanted))}
    schemas = document["components"]["schemas"]
    group, version = next(
        (gvk["group"], gvk["version"])
        for item in paths.values()
        for operation in item.values()
        if isinstance(operation, dict)
        for gvk in [operation["x-kubernetes-group-version-kind"]]
    )
    roots = [
        name
        for name, schema in schemas.items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
        if (gvk["group"], gvk["version"]) == (group, version) and gvk["kind"].removesuffix("List") in wanted
    ]
    names = _closure([*roots, *(name for name in _ALWAYS if name in schemas)], schemas)
    info = {"title": document["info"]["title"], "version": document["info"]["version"]}
    kept = {name: _without_prose(schemas[name]) for name in names}
    return {"openapi": document["openapi"], "info": info, "paths": paths, "components": {"schemas": kept}}


def _path_item(path: str, item: Object, kinds: set[str]) -> Object:
    """Nothing for paths that the sandbox does not have."""
    if "/watch/" in path or path == _NOT_SERVED:
        return {}
    last, name = path.rsplit("/", 1)[-1], path.rfind("{name}")
    if name != -1 and last != "{name}" and last not in _SUBRESOURCES:
        return {}
    kept: Object = {
        method: _operation(item[method])
        for method in _METHODS
        if item.get(method, {}).get("x-kubernetes-group-version-kind", {}).get("kind") in kinds
    }
    if kept and "parameters" in item:
        kept["parameters"] = _without_prose(item["parameters"])
    return kept


def _operation(operation: Object) -> Object:
    kept = {key: value for key, value in operation.items() if key == "operationId" or key.startswith("x-kubernetes-")}
    if "parameters" in operation:
        kept["parameters"] = _without_prose(operation["parameters"])
    kept["responses"] = {
        code: {"description": answer["description"]} for code, answer in operation["responses"].items()
    }
    return kept


def _without_prose(value: Any) -> Any:
    """A field may itself be called ``description``: only text under that key is prose."""
    if isinstance(value, dict):
        return {
            key: _without_prose(each)
            for key, each in value.items()
            if not (key == "description" and isinstance(each, str))
        }
    return [_without_prose(each) for each in value] if isinstance(value, list) else value


def _closure(roots: Iterable[str], schemas: Mapping[str, Object]) -> list[str]:
    found: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(_references(schemas[name]))
    return sorted(found)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_REFERENCE)
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def asked(api: Api) -> dict[str, Object]:
    """What to write by file name, as a server that runs has it."""
    return {file_of(path): reduced(api.get(f"/openapi/v3/{path}"), kinds) for path, kinds in GROUPS.items()}


# --- Go ---------------------------------------------------------------------------------------------------------------

_PACKAGES: Final = {
    "io.k8s.api.core.v1.": ("k8s.io/api", "core/v1"),
    "io.k8s.api.discovery.v1.": ("k8s.io/api", "discovery/v1"),
    "io.k8s.api.events.v1.": ("k8s.io/api", "events/v1"),
    "io.k8s.api.coordination.v1.": ("k8s.io/api", "coordination/v1"),
    _META: ("k8s.io/apimachinery", "pkg/apis/meta/v1"),
}
_STRUCT: Final = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r'^\t(?:(\w+)[ \t]+)?([*\[\]\w.]+)[ \t]+`[^`]*\bjson:"([^"]*)"', re.MULTILINE)
_BUILT_IN: Final = frozenset({"string", "bool", "int", "int32", "int64", "uint8", "byte", "float64"})


def go_fields(schemas: Iterable[str], *, environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """By the schema's name, in Go's order: ``*v1.Protocol,omitempty`` by the field's name.

    Fields of an embedded struct have its name at the end: ``*v1.EmptyDirVolumeSource,omitempty,VolumeSource``.
    """
    structs = {
        prefix: _structs(_module(module, environment) / folder) for prefix, (module, folder) in _PACKAGES.items()
    }
    found: dict[str, dict[str, str]] = {}
    for name in sorted(set(schemas)):
        prefix, _, struct = name.rpartition(".")
        if struct in structs.get(f"{prefix}.", {}) and (fields := dict(_fields(struct, structs[f"{prefix}."]))):
            found[name] = fields
    return found


def _fields(struct: str, structs: Mapping[str, str], *, embedded: str = "") -> Iterator[tuple[str, str]]:
    for _, type_, tag in _FIELD.findall(structs[struct]):
        name, _, options = tag.partition(",")
        if options == "inline" and type_ == "metav1.TypeMeta":
            yield "kind", "string,omitempty,TypeMeta"
            yield "apiVersion", "string,omitempty,TypeMeta"
        elif options == "inline":
            yield from _fields(type_, structs, embedded=type_)
        elif name not in {"", "-"}:
            yield name, ",".join(part for part in (_qualified(type_), options, embedded) if part)


def _qualified(type_: str) -> str:
    """As messages have it: ``[]v1.ServicePort``."""
    named = re.sub(r"(?<![\w.])(?!map\b)[A-Za-z]\w*(?![\w.])", _with_package, type_)
    return re.sub(r"\w+v1\.", "v1.", named)


def _with_package(found: re.Match[str]) -> str:
    return found[0] if found[0] in _BUILT_IN else f"v1.{found[0]}"


def _structs(folder: Path) -> dict[str, str]:
    files = [file for file in sorted(folder.glob("*.go")) if not file.name.endswith("_test.go")]
    return {struct: body for file in files for struct, body in _STRUCT.findall(file.read_text(encoding="utf-8"))}


def _module(module: str, environment: Mapping[str, str]) -> Path:
    go = shutil.which("go", path=environment.get("PATH", ""))
    if go is None:
        raise click.ClickException("the fields as Go has them need Go, got none on PATH")
    told = subprocess.run(
        [go, "list", "-m", "-f", "{{.Dir}}", module],
        cwd=MODULES / "kube-apiserver",
        env={**environment, "GOFLAGS": "-mod=mod", "GOWORK": "off", "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(told.stdout.strip())


# --- files ------------------------------------------------------------------------------------------------------------


def as_text(document: Object) -> str:
    """JSON with a schema, or a path, on each line, sorted: changes show."""
    components = document.get("components")
    if components is None:
        return "{\n" + _lines(document, sort=False) + "\n}\n"
    return (
        f'{{"openapi":{json.dumps(document["openapi"])},"info":{json.dumps(document["info"], sort_keys=True)},\n'
        f'"paths":{{\n{_lines(document["paths"])}\n}},\n"components":{{"schemas":{{\n{_lines(components["schemas"])}\n}}}}}}\n'
    )


def _lines(things: Mapping[str, Any], *, sort: bool = True) -> str:
    return ",\n".join(
        f"{json.dumps(name)}:{json.dumps(things[name], separators=(',', ':'), sort_keys=sort)}"
        for name in sorted(things)
    )


def main(*, environment: Mapping[str, str]) -> None:
    """Raises ProgramsError where no control plane has been built."""
    with ControlPlane() as plane:
        documents = asked(plane.api())
    schemas = {name for document in documents.values() for name in document["components"]["schemas"]}
    documents[GO_FIELDS] = go_fields(schemas, environment=environment)
    FOLDER.mkdir(exist_ok=True)
    for name, document in documents.items():
        (FOLDER / name).write_text(as_text(document), encoding="utf-8")
        click.echo(f"{FOLDER / name}")


if __name__ == "__main__":
    import os

    main(environment=os.environ)
