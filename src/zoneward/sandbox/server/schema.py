"""Validates JSON against the fields of the sandbox's kinds (``schema.json``).

Values of a wrong type are refused, unknown fields are dropped and reported, and empty fields are written or omitted as
Kubernetes' types declare. Unused fields of Pods and Nodes have the type ``any`` and are stored unchanged.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from zoneward.kube.formats import parse_quantity
from zoneward.kube.input_error import show
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.status_errors import bad_request

Validation = Literal["Strict", "Warn", "Ignore"]
"""The parameter ``fieldValidation``; the default is ``Warn``."""


class MisfitError(Exception):
    """The value of a field has a wrong type."""


# --- types ------------------------------------------------------------------------------------------------------------

_STRUCT, _MAP, _LIST = "an object", "an object with any keys", "a list"
_PLAIN: Final[dict[str, type]] = {"string": str, "boolean": bool}
_ZEROS: Final = {"string": "", "boolean": False, "int32": 0, "int64": 0, "int-or-string": 0, "quantity": "0"}
_LIMITS: Final = {"int32": 2**31, "int64": 2**63, "int-or-string": 2**31}
"""Integers are below it, and not below its opposite."""
_EXPECTED: Final = {
    "time": "an RFC 3339 time such as 2026-01-02T03:04:05Z",
    "micro-time": "an RFC 3339 time with six digits such as 2026-01-02T03:04:05.000000Z",
    "quantity": "a quantity such as 250m or 2Gi",
}


@dataclass(slots=True, eq=False)
class Type:
    """The type of a value; not frozen, because types can be recursive."""

    form: str
    """As in the data; for a struct, a map or a list its name in messages."""
    fields: "dict[str, Field]" = field(default_factory=dict)
    """Of a struct, in Go's order."""
    items: "Type | None" = None
    """Of a list or map."""
    merge_key: str = ""
    """The key by which strategic merge patches merge the items of a list; empty for a list of plain values."""
    is_merged: bool = False
    """Whether strategic merge patches merge the list rather than replace it."""

    def zero(self) -> Any:
        if self.form == _STRUCT:
            return {member.name: member.zero() for member in self.fields.values() if member.is_always}
        return _ZEROS.get(self.form)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A struct's field. In the data its type is followed by ``always`` (written even when it is not set), ``keep`` (an
    empty value is written back) or ``pointer`` (absent and empty differ), and by ``merge`` or ``merge=KEY``.
    """

    name: str
    value: Type
    is_always: bool
    is_pointer: bool
    keeps_empty: bool

    def zero(self) -> Any:
        """The value where the field is not set."""
        return None if self.is_pointer else self.value.zero()


def type_of(kind: Kind) -> Type:
    return _types()[kind.struct or kind.kind]


@cache
def _types() -> Mapping[str, Type]:
    declared = msgspec.json.decode(files("zoneward.sandbox.server").joinpath("schema.json").read_bytes())
    structs = {name: Type(_STRUCT) for name in declared}
    for name, fields in declared.items():
        structs[name].fields = {field_name: _field(field_name, text, structs) for field_name, text in fields.items()}
    return structs


def _field(name: str, text: str, structs: Mapping[str, Type]) -> Field:
    written, *words = text.split(" ")
    type_, is_always, is_pointer = _type(written, structs), "always" in words, "pointer" in words
    for word in words:
        if word.startswith("merge"):
            type_.is_merged, type_.merge_key = True, word.partition("=")[2]
    # Empty maps and lists count as absent, except behind pointers.
    is_open = type_.form in (_STRUCT, "int-or-string") or "keep" in words
    keeps_empty = is_pointer or (type_.form not in (_MAP, _LIST, "any") and (is_always or is_open))
    return Field(name, type_, is_always, is_pointer, keeps_empty)


def _type(written: str, structs: Mapping[str, Type]) -> Type:
    if written[:2] in ("[]", "{}"):
        return Type(_LIST if written[0] == "[" else _MAP, items=_type(written[2:], structs))
    return structs[written] if written in structs else Type(written)


# --- decoding ---------------------------------------------------------------------------------------------------------


def decode(body: object, kind: Kind, *, validation: Validation = "Warn") -> tuple[Object, list[str]]:
    """The object in the JSON of a request, and warnings. Raises StatusError (400).

    ``body`` is decoded JSON; null counts as an empty object.
    """
    try:
        obj, unknown = fitted(body, kind)
    except MisfitError as misfit:
        raise bad_request(f"the object cannot be handled as a {kind.kind}: {misfit}") from None
    if unknown and validation == "Strict":
        version = f'{kind.kind} in version "{kind.version}"'
        raise bad_request(f"{version} cannot be handled as a {kind.kind}: strict decoding error: {', '.join(unknown)}")
    return obj, unknown if validation == "Warn" else []


def fitted(value: object, kind: Kind) -> tuple[Object, list[str]]:
    """The value as an object of the kind, and ``unknown field "..."`` for each unknown field.

    Raises MisfitError.
    """
    value = {} if value is None else value
    if not isinstance(value, dict):
        raise MisfitError(f"expected an object, got {show(value)}")
    named = value.get("apiVersion") or kind.api, value.get("kind") or kind.kind
    if named != (kind.api, kind.kind):
        raise MisfitError(f"expected a {kind.kind} of {kind.api}, got {show(named[1])} of {show(named[0])}")
    unknown: list[str] = []
    obj = _read_struct(value, type_of(kind), None, unknown)
    obj["metadata"].pop("managedFields", None)
    return obj | {"kind": kind.kind, "apiVersion": kind.api}, unknown


_Path = tuple[Any, str] | None
"""The path of a value: the path of its container, and its name or index."""


def _read_struct(value: Object, type_: Type, path: _Path, unknown: list[str]) -> Object:
    """A new dictionary; ``value`` is not changed."""
    fields, made = type_.fields, {}
    for name, field_value in value.items():
        known = fields.get(name)
        if known is None:
            unknown.append(f'unknown field "{_written((path, f".{name}"))}"')
        elif field_value is not None:
            new = _read(field_value, known.value, (path, f".{name}"), unknown)
            # Keep an empty list at the top of an object.
            if new or known.keeps_empty or (known.is_always and path is None and type(new) is list):
                made[name] = new
    for known in fields.values():
        if known.is_always and known.name not in made:
            made[known.name] = known.zero()
    return made


def _read(value: Any, type_: Type, path: _Path, unknown: list[str]) -> Any:
    """``value`` is not None. ``path`` is that of the value itself."""
    form, items, python_type = type_.form, type_.items, type(value)
    if form == _STRUCT and python_type is dict:
        return _read_struct(value, type_, path, unknown)
    if form == "any" or python_type is _PLAIN.get(form) or (form == "int-or-string" and python_type is str):
        return value
    if python_type is int and form in _LIMITS and -_LIMITS[form] <= value < _LIMITS[form]:
        return value
    if form == _LIST and python_type is list and items is not None:
        return [_read_item(item, items, (path, f"[{index}]"), unknown) for index, item in enumerate(value)]
    if form == _MAP and python_type is dict and items is not None:
        return {name: _read_item(item, items, (path, f"[{name}]"), unknown) for name, item in value.items()}
    try:
        if form == "quantity" and python_type in (str, int, float):
            parse_quantity(str(value))
            return str(value)
        if form in ("time", "micro-time") and python_type is str:
            return _canonical_time(value, form == "micro-time")
    except (ValueError, OverflowError):
        pass
    raise MisfitError(f"{_written(path)}: expected {_EXPECTED.get(form, form)}, got {show(value)}")


def _read_item(value: Any, type_: Type, path: _Path, unknown: list[str]) -> Any:
    return type_.zero() if value is None else _read(value, type_, path, unknown)


def _written(path: _Path) -> str:
    """``spec.ports[0].port``."""
    parts = []
    while path is not None:
        path, step = path
        parts.append(step)
    return "".join(reversed(parts)).removeprefix(".")


# --- times ------------------------------------------------------------------------------------------------------------

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)


def as_time(moment: datetime) -> str:
    """A time as Kubernetes writes it: RFC 3339 in UTC, whole seconds."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


@lru_cache(maxsize=4096)
def _canonical_time(text: str, with_micros: bool) -> str:
    """A time in UTC, as Kubernetes writes it. Raises ValueError."""
    if not (_MICRO_TIME if with_micros else _TIME).fullmatch(text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='microseconds' if with_micros else 'seconds')}Z"
