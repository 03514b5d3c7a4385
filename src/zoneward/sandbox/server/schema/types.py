"""What a field holds, how it is written, and who owns what of it: from the API description and Go's declarations.

Neither alone is enough. The description tells merge keys, list types and defaults; only Go's declarations tell whether
an empty value is written back, and the names that messages use.
"""

from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from zoneward.sandbox.server.kinds import Kind

Object = dict[str, Any]
"""JSON as a dictionary."""

_REFERENCE: Final = "#/components/schemas/"


class Form(Enum):
    """How a value is read."""

    STRUCT = "struct"
    MAP = "map"
    LIST = "list"
    STRING = "string"
    BOOLEAN = "bool"
    INT32 = "int32"
    INT64 = "int64"
    QUANTITY = "quantity"
    TIME = "time"
    MICRO_TIME = "micro time"
    INT_OR_STRING = "int or string"
    RAW = "raw"
    """Any JSON, kept as it is: ``fieldsV1``."""


_SPECIAL: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Form.QUANTITY,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": Form.TIME,
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": Form.MICRO_TIME,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Form.INT_OR_STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": Form.RAW,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Form.RAW,
}
_PLAIN: Final[dict[Form, type]] = {Form.STRING: str, Form.BOOLEAN: bool}
_COLLECTIONS: Final = (Form.MAP, Form.LIST, Form.RAW)


@dataclass(slots=True, eq=False)
class Type:
    """A value's type; not frozen only because types contain each other. Nobody changes one that is loaded."""

    form: Form
    go: str
    """As messages have it: ``v1.ServiceSpec``, ``[]v1.ServicePort``."""
    fields: "dict[str, Field]" = field(default_factory=dict)
    """Of a struct, in Go's order."""
    always: "tuple[Field, ...]" = ()
    """Fields that are written even when nobody set them."""
    items: "Type | None" = None
    """Of a list or map."""
    ownership: Literal["atomic", "map", "set", "granular"] = "granular"
    """Whether managers own the whole, or its parts; ``map`` and ``set`` are lists."""
    keys: tuple[str, ...] = ()
    """Of a list that is owned as a map."""
    merge_key: str = ""
    """Of a list that strategic patches merge; empty when they replace it, or when its items are no structs."""
    is_merged: bool = False
    """Whether strategic patches merge the list."""
    limit: int = 0
    """Integers are below it, and not below its opposite; 0 for all other types."""

    @property
    def name(self) -> str:
        """``ServiceSpec``."""
        return self.go.rpartition(".")[2]


@dataclass(slots=True, eq=False)
class Field:
    """A struct's field."""

    name: str
    value: Type
    default: Any
    """What the key of a list item is where it is absent; None without a default."""
    keeps_empty: bool
    """Whether an empty value is written back: Go has a pointer, or no ``omitempty``."""
    is_pointer: bool
    is_always: bool
    embedded: str
    """The Go struct it was embedded with, which messages have in its path."""
    drops_empty: bool
    """Whether an empty map or list counts as absent."""
    plain: type | None
    """The Python type that is right without a closer look."""


def type_of(kind: Kind) -> Type:
    """Raises KeyError for a kind that is not in the data."""
    return _schemas().kinds[kind.group, kind.version, kind.kind]


@cache
def _schemas() -> "_Schemas":
    return _Schemas()


class _Schemas:
    """All types. ``kinds`` has those of whole objects, by group, version and kind."""

    def __init__(self) -> None:
        self._schemas: Object = {}
        self._types: dict[str, Type] = {}
        folder = files("zoneward.sandbox.server").joinpath("openapi")
        for file in folder.iterdir():
            if file.name.endswith("_v1.json"):
                self._schemas |= msgspec.json.decode(file.read_bytes())["components"]["schemas"]
        self._go: dict[str, dict[str, str]] = msgspec.json.decode(folder.joinpath("go_fields.json").read_bytes())
        self.kinds = {
            (each["group"], each["version"], each["kind"]): self._named(name)
            for name, schema in self._schemas.items()
            if len(schema.get("x-kubernetes-group-version-kind", ())) == 1
            for each in schema["x-kubernetes-group-version-kind"]
        }

    def _named(self, name: str) -> Type:
        found = self._types.get(name)
        if found is None:
            go = f"v1.{name.rpartition('.')[2]}"
            found = self._types[name] = Type(_SPECIAL.get(name, Form.STRUCT), go)
            schema = self._schemas[name]
            if found.form is Form.INT_OR_STRING:
                found.limit = 2**31
            if found.form is Form.STRUCT:
                found.ownership = schema.get("x-kubernetes-map-type", "granular")
                found.fields = self._fields(name, schema.get("properties", {}))
                found.always = tuple(each for each in found.fields.values() if each.is_always)
        return found

    def _fields(self, name: str, properties: Object) -> dict[str, Field]:
        told = self._go.get(name, {})
        return {each: self._field(each, properties[each], told[each]) for each in told if each in properties}

    def _field(self, name: str, schema: Object, told: str) -> Field:
        go, *options = told.split(",")
        embedded = options.pop() if options and options[-1] not in {"omitempty", "omitzero"} else ""
        is_pointer = go.startswith("*")
        type_ = self._type(schema, go.removeprefix("*"))
        # Go's omitempty never omits a struct; times, quantities and the like are structs too.
        is_struct = type_.form in {Form.STRUCT, Form.QUANTITY, Form.TIME, Form.MICRO_TIME}
        is_kept = "omitempty" not in options or (is_struct and not is_pointer)
        return Field(
            name=name,
            value=type_,
            default=schema.get("default"),
            keeps_empty=is_kept or is_pointer or type_.form is Form.INT_OR_STRING,
            is_pointer=is_pointer,
            # An absent number or name of a port is 0 in Go, and stands for "none": there is nothing to write.
            is_always=is_kept and "omitzero" not in options and type_.form is not Form.INT_OR_STRING,
            embedded="" if embedded == "TypeMeta" else embedded,
            drops_empty=not is_pointer and type_.form in _COLLECTIONS,
            plain=_PLAIN.get(type_.form),
        )

    def _type(self, schema: Object, go: str) -> Type:
        """``schema`` is that of a field or of items: a reference, or the type itself."""
        reference = schema.get("$ref") or next(
            (each["$ref"] for each in schema.get("allOf", ()) if "$ref" in each), None
        )
        if reference is not None:
            return self._named(reference.removeprefix(_REFERENCE))
        match schema["type"]:
            case "array":
                items = self._type(schema["items"], go.removeprefix("[]"))
                return _list(schema, go, items)
            case "object" if "additionalProperties" in schema:
                items = self._type(schema["additionalProperties"], go.partition("]")[2])
                if not items.go:
                    items = self._type(schema["additionalProperties"], "string")
                return Type(Form.MAP, go, items=items, ownership=schema.get("x-kubernetes-map-type", "granular"))
            case "object":
                return Type(Form.RAW, go)
            case "integer":
                is_large = schema.get("format") == "int64"
                return Type(Form.INT64 if is_large else Form.INT32, go, limit=2**63 if is_large else 2**31)
            case "boolean":
                return Type(Form.BOOLEAN, go)
        return Type(Form.STRING, go)


def _list(schema: Object, go: str, items: Type) -> Type:
    strategy = schema.get("x-kubernetes-patch-strategy", "").split(",")
    merge_key = schema.get("x-kubernetes-patch-merge-key", "")
    ownership = schema.get("x-kubernetes-list-type", "atomic")
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return Type(
        Form.LIST,
        go,
        items=items,
        ownership=ownership,
        keys=tuple(sorted(keys)),
        merge_key=merge_key,
        is_merged="merge" in strategy,
    )
