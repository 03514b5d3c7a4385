"""How the sandbox's kinds look as protobuf: the messages that Kubernetes publishes in its Go modules, reduced to them.

``python -m e2e.protobuf_fields`` writes the file. A message's field tells too what JSON has in its place: protobuf says
nothing about what is left out there.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import click
from e2e.openapi import go_fields
from e2e.programs import MODULES

FILE: Final = Path(__file__).parent.parent / "src/zoneward/sandbox/server/protobuf_fields.json"

_CORE: Final = "io.k8s.api.core.v1"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
KINDS: Final[Mapping[str, str]] = {
    "v1 Service": f"{_CORE}.Service",
    "v1 Node": f"{_CORE}.Node",
    "v1 Pod": f"{_CORE}.Pod",
    "v1 Event": f"{_CORE}.Event",
    "v1 Namespace": f"{_CORE}.Namespace",
    "v1 Binding": f"{_CORE}.Binding",
    "discovery.k8s.io/v1 EndpointSlice": "io.k8s.api.discovery.v1.EndpointSlice",
    "events.k8s.io/v1 Event": "io.k8s.api.events.v1.Event",
    "coordination.k8s.io/v1 Lease": "io.k8s.api.coordination.v1.Lease",
    "meta.k8s.io/v1 DeleteOptions": f"{_META}.DeleteOptions",
}
_PROTO: Final = {
    "k8s.io/api": ("core/v1", "discovery/v1", "events/v1", "coordination/v1"),
    "k8s.io/apimachinery": ("pkg/apis/meta/v1",),
}
SPECIAL: Final = frozenset(
    {
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        f"{_META}.Time",
        f"{_META}.MicroTime",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        f"{_META}.FieldsV1",
    }
)
"""Messages that JSON has in a form of their own; the decoder knows them by name."""
_SCALARS: Final = frozenset({"string", "bool", "int32", "int64"})
_PACKAGE: Final = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(
    r"^  (?:(?P<label>optional|repeated) (?P<type>[\w.]+)|map<string, (?P<value>[\w.]+)>)"
    r" (?P<name>\w+) = (?P<number>\d+);",
    re.MULTILINE,
)
_FIELD_OR_OTHER: Final = re.compile(r"^  (?!//)\S", re.MULTILINE)

Messages = dict[str, dict[str, list[str]]]
"""By name, then number: a field's name, type and form. Types are ``string``, ``[]string``, ``map[string]string``.

Forms are how JSON has the field: ``omitempty`` (not if it is zero), ``pointer`` (whenever protobuf has it), ``always``
(zero where protobuf has nothing), ``null`` (null there) and ``inline`` (no field: what it holds is the parent's).
"""


def protobuf_fields(*, environment: Mapping[str, str]) -> dict[str, Any]:
    """What the file holds. Raises click.ClickException where Go or its modules are missing."""
    declared = dict(_declared(environment))
    names = _closure(KINDS.values(), declared)
    shape = _Shape(go_fields(names, environment=environment))
    messages: Messages = {
        name: {str(field.number): shape.told(name, field) for field in declared[name]} for name in names
    }
    return {"kinds": dict(KINDS), "messages": messages}


@dataclass(frozen=True, slots=True)
class _Declared:
    """A field as a ``.proto`` file has it."""

    name: str
    number: int
    type: str
    """Of one value: a scalar or a message by its whole name."""
    prefix: str
    """``[]`` and ``map[string]``, before the type."""


def _declared(environment: Mapping[str, str]) -> Iterator[tuple[str, list[_Declared]]]:
    for module, folders in _PROTO.items():
        root = module_folder(module, environment=environment)
        for folder in folders:
            text = (root / folder / "generated.proto").read_text(encoding="utf-8")
            package = _PACKAGE.search(text)
            assert package is not None, folder
            for name, body in _MESSAGE.findall(text):
                found = [_field(match, package[1]) for match in _FIELD.finditer(body)]
                # A form of declaration that is not known here must not get lost.
                assert len(found) == len(_FIELD_OR_OTHER.findall(body)), name
                yield f"{_as_published(package[1])}.{name}", sorted(found, key=lambda each: each.number)


def _field(match: re.Match[str], package: str) -> _Declared:
    type_ = match["type"] or match["value"]
    if type_.startswith("."):
        type_ = _as_published(type_[1:])
    elif type_ not in _SCALARS | {"bytes"}:
        type_ = f"{_as_published(package)}.{type_}"
    prefix = "map[string]" if match["value"] else "[]" if match["label"] == "repeated" else ""
    return _Declared(match["name"], int(match["number"]), type_, prefix)


def _as_published(name: str) -> str:
    """``io.k8s.api.core.v1``, as the API description has it, for ``k8s.io.api.core.v1``."""
    return name.replace("k8s.io.", "io.k8s.", 1)


def _closure(roots: Iterable[str], declared: Mapping[str, Iterable[_Declared]]) -> list[str]:
    found: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in found | SPECIAL:
            found.add(name)
            pending.extend(each.type for each in declared[name] if each.type not in _SCALARS)
    return sorted(found)


@dataclass(frozen=True)
class _Shape:
    """How JSON has fields."""

    go: Mapping[str, Mapping[str, str]]

    def told(self, message: str, field: _Declared) -> list[str]:
        type_ = f"{field.prefix}{field.type}"
        struct = field.type.rpartition(".")[2]
        go = self.go[message].get(field.name)
        if go is not None:
            return [field.name, type_, self._form(go, field)]
        # What Go embeds, protobuf has as a field of its own.
        assert struct in self._embedded[message], f"JSON has no field {field.name} of {message}"
        return [field.name, type_, "inline"]

    @cached_property
    def _embedded(self) -> dict[str, set[str]]:
        return {
            name: {told.rpartition(",")[2] for told in fields.values() if "," in told}
            for name, fields in self.go.items()
        }

    @staticmethod
    def _form(go: str, field: _Declared) -> str:
        type_, *options = go.split(",")
        if type_.startswith("*"):
            return "pointer" if "omitempty" in options else "null"
        if "omitzero" in options:
            return "omitempty"
        # Go's omitempty never omits a struct.
        is_struct = not field.prefix and "." in field.type
        return "omitempty" if "omitempty" in options and not is_struct else "always"


def module_folder(module: str, *, environment: Mapping[str, str]) -> Path:
    """Where Go keeps a module of the control plane's. Nothing is fetched. Raises click.ClickException without it."""
    go = shutil.which("go", path=environment.get("PATH", ""))
    if go is None:
        raise click.ClickException("protobuf's messages are read from Go's modules: they need Go, got none on PATH")
    told = subprocess.run(
        [go, "list", "-m", "-f", "{{.Dir}}", module],
        cwd=MODULES,
        env={**environment, "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local", "GOPROXY": "off"},
        capture_output=True,
        text=True,
    )
    folder = told.stdout.strip()
    if told.returncode or not folder:
        raise click.ClickException(
            f"Go's cache has no {module}, got {(told.stderr.strip() or 'nothing').splitlines()[0]}: "
            "`go mod download` in e2e/control-plane fills it"
        )
    return Path(folder)


def as_text(found: Mapping[str, Any]) -> str:
    """JSON with a message on each line, sorted: changes show."""
    messages = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}"
        for name, fields in sorted(found["messages"].items())
    )
    return f'{{"kinds":{json.dumps(found["kinds"], indent=0)},\n"messages":{{\n{messages}\n}}}}\n'


def main(*, environment: Mapping[str, str]) -> None:
    FILE.write_text(as_text(protobuf_fields(environment=environment)), encoding="utf-8")
    click.echo(f"{FILE}")


if __name__ == "__main__":
    import os
    import sys

    try:
        main(environment=os.environ)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
