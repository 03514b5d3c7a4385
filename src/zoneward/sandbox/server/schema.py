"""The fields of the sandbox's kinds (``schema.json``), and how JSON becomes an object that has them.

Values of a wrong type are refused, unknown fields are dropped and reported, and empty fields are written or left out as
Kubernetes' own types declare it. Fields of Pods and Nodes that nothing here reads have the type ``any``: they are
stored as they come.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, Literal

import msgspec

from zoneward.kube import quantity
from zoneward.kube.input_error import show
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.status_errors import bad_request

Validation = Literal["Strict", "Warn", "Ignore"]
"""The parameter ``fieldValidation``; the default is ``Warn``."""


class MisfitError(Exception):
    """The value of a field is none of its type."""


# --- types ------------------------------------------------------------------------------------------------------------


class ValueForm(Enum):
    """How a value is read."""

    STRUCT = "an object"
    MAP = "an object with any keys"
    LIST = "a list"
    STRING = "string"
    BOOLEAN = "boolean"
    INT32 = "int32"
    INT64 = "int64"
    QUANTITY = "quantity"
    TIME = "time"
    MICRO_TIME = "micro-time"
    INT_OR_STRING = "int-or-string"
    ANY = "any"


_PLAIN: Final[dict[ValueForm, type]] = {ValueForm.STRING: str, ValueForm.BOOLEAN: bool}
_LIMITS: Final = {ValueForm.INT32: 2**31, ValueForm.INT64: 2**63, ValueForm.INT_OR_STRING: 2**31}
_COLLECTIONS: Final = (ValueForm.MAP, ValueForm.LIST, ValueForm.ANY)


@dataclass(slots=True, eq=False)
class Type:
    """A value's type; not frozen only because types contain each other."""

    form: ValueForm
    fields: "dict[str, Field]" = field(default_factory=dict)
    """Of a struct, in Go's order."""
    always: "tuple[Field, ...]" = ()
    """Fields that are written even when they are not set."""
    items: "Type | None" = None
    """Of a list or map."""
    merge_key: str = ""
    """Of a list whose items strategic merge patches merge; empty for a list of plain values."""
    is_merged: bool = False
    """Whether strategic merge patches merge the list rather than replace it."""
    limit: int = 0
    """Integers are below it, and not below its opposite; 0 for all other types."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A struct's field. In the data its type is followed by ``always`` (written even when it is not set), ``keep`` (an
    empty value is written back) or ``pointer`` (absent and empty differ), and by ``merge`` or ``merge=KEY``.
    """

    name: str
    value: Type
    keeps_empty: bool
    is_pointer: bool
    is_always: bool
    drops_empty: bool
    """Whether an empty map or list counts as absent."""
    plain: type | None
    """The Python type that is right without a closer look."""


def type_of(kind: Kind) -> Type:
    return _types()[kind.struct or kind.kind]


@cache
def _types() -> Mapping[str, Type]:
    declared = msgspec.json.decode(files("zoneward.sandbox.server").joinpath("schema.json").read_bytes())
    structs = {name: Type(ValueForm.STRUCT) for name in declared}
    for name, fields in declared.items():
        structs[name].fields = {each: _field(each, text, structs) for each, text in fields.items()}
        structs[name].always = tuple(each for each in structs[name].fields.values() if each.is_always)
    return structs


def _field(name: str, text: str, structs: Mapping[str, Type]) -> Field:
    written, *words = text.split(" ")
    type_, is_pointer = _type(written, structs), "pointer" in words
    for word in words:
        if word.startswith("merge"):
            type_.is_merged, type_.merge_key = True, word.partition("=")[2]
    is_always = "always" in words
    keeps_empty = is_always or "keep" in words or is_pointer or type_.form is ValueForm.INT_OR_STRING
    drops_empty = not is_pointer and type_.form in _COLLECTIONS
    return Field(name, type_, keeps_empty, is_pointer, is_always, drops_empty, _PLAIN.get(type_.form))


def _type(written: str, structs: Mapping[str, Type]) -> Type:
    if written[:2] in ("[]", "{}"):
        return Type(ValueForm.LIST if written[0] == "[" else ValueForm.MAP, items=_type(written[2:], structs))
    if written in structs:
        return structs[written]
    form = ValueForm(written)
    return Type(form, limit=_LIMITS.get(form, 0))


# --- decoding ---------------------------------------------------------------------------------------------------------


def decode(body: object, kind: Kind, *, validation: Validation = "Warn") -> tuple[Object, list[str]]:
    """The object that a request's JSON is, and warnings about it. Raises StatusError (400).

    ``body`` is decoded JSON; null counts as an empty object.
    """
    try:
        thing, unknown = fitted(body, kind)
    except MisfitError as misfit:
        raise bad_request(f"the object cannot be handled as a {kind.kind}: {misfit}") from None
    if unknown and validation == "Strict":
        version = f'{kind.kind} in version "{kind.version}"'
        raise bad_request(f"{version} cannot be handled as a {kind.kind}: strict decoding error: {', '.join(unknown)}")
    return thing, unknown if validation == "Warn" else []


def fitted(value: object, kind: Kind, *, old: Object | None = None) -> tuple[Object, list[str]]:
    """What JSON is as an object of that kind, and one ``unknown field "..."`` for each field that the kind has not.

    ``old`` is an object that went through here: what ``value`` shares with it is not looked at again. Raises
    MisfitError.
    """
    value = {} if value is None else value
    if not isinstance(value, dict):
        raise MisfitError(f"expected an object, got {show(value)}")
    named = value.get("apiVersion") or kind.api, value.get("kind") or kind.kind
    if named != (kind.api, kind.kind):
        raise MisfitError(f"expected a {kind.kind} of {kind.api}, got {show(named[1])} of {show(named[0])}")
    walk = _Walk()
    thing = walk.struct(value, type_of(kind), old, None)
    if "managedFields" in (thing.get("metadata") or {}):
        metadata = {name: each for name, each in thing["metadata"].items() if name != "managedFields"}
        thing = thing | {"metadata": metadata}
    if thing.get("kind") != kind.kind or thing.get("apiVersion") != kind.api:
        thing = {**thing, "kind": kind.kind, "apiVersion": kind.api}
    return thing, walk.unknown


_Path = tuple[Any, str] | None
"""The path of a value: that of its container, and its name or index."""
_ABSENT: Final = object()
_CONTAINERS: Final = frozenset({dict, list})
# An enumeration's members cost more to reach, and to hash, than all else that is done with a value.
_STRUCT, _LIST, _MAP, _ANY = ValueForm.STRUCT, ValueForm.LIST, ValueForm.MAP, ValueForm.ANY
_STRING, _BOOLEAN, _INT_OR_STRING = ValueForm.STRING, ValueForm.BOOLEAN, ValueForm.INT_OR_STRING
_QUANTITY, _TIME, _MICRO_TIME = ValueForm.QUANTITY, ValueForm.TIME, ValueForm.MICRO_TIME


class _Walk:
    """Through one object. It never changes its input, shares what needs no change, and skips whatever is the same
    Python object as in ``old``.
    """

    __slots__ = ("unknown",)

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def struct(self, value: Object, type_: Type, old: Any, path: _Path) -> Object:
        is_known = value is old
        if is_known:
            return value
        fields = type_.fields
        changes: Object = {}
        olds = old if type(old) is dict else {}
        for name, each in value.items():
            found = fields.get(name)
            if found is None:
                self.unknown.append(f'unknown field "{_written((path, f".{name}"))}"')
                changes[name] = _ABSENT
            elif type(each) is found.plain:
                if not (each or found.keeps_empty):
                    changes[name] = _ABSENT
            elif each is None:
                zero = _zero(found) if found.is_always else _ABSENT
                if zero is not None:
                    changes[name] = zero
            elif type(each) in _CONTAINERS and olds.get(name) is each:
                continue
            else:
                new = self._value(each, found.value, olds.get(name), (path, f".{name}"))
                if not new and not (found.is_always and path is None and type(new) is list):
                    new = _emptied(new, found)
                if new is not each:
                    changes[name] = new
        for found in type_.always:
            if found.name not in value:
                changes[found.name] = _zero(found)
        if not changes:
            return value
        made: Object = {name: each for name, each in {**value, **changes}.items() if each is not _ABSENT}
        return made

    def _value(self, value: Any, type_: Type, old: Any, path: _Path) -> Any:
        """``value`` is not None. ``path`` is that of the value itself."""
        form, python_type = type_.form, type(value)
        if python_type is dict:
            if form is _STRUCT:
                return self.struct(value, type_, old, path)
            if form is _MAP:
                return self._map(value, type_, path)
        elif python_type is list:
            if form is _LIST:
                return self._list(value, type_, old, path)
        elif python_type is int:
            if type_.limit and -type_.limit <= value < type_.limit:
                return value
        elif python_type is str:
            if form is _STRING or form is _INT_OR_STRING:
                return value
            if form is _TIME or form is _MICRO_TIME:
                return _read(value, form, path)
        elif python_type is bool and form is _BOOLEAN:
            return value
        if form is _ANY:
            return value
        if form is _QUANTITY and python_type in (str, int, float):
            return _read(value, form, path)
        raise MisfitError(f"{_written(path)}: expected {form.value}, got {show(value)}")

    def _list(self, value: list[Any], type_: Type, old: Any, path: _Path) -> list[Any]:
        items = type_.items
        assert items is not None
        if value is old or (items.form is _STRING and all(type(each) is str for each in value)):
            return value
        olds = old if type(old) is list else ()
        known = {id(each) for each in olds}
        new, is_changed = [], False
        for index, each in enumerate(value):
            if id(each) in known and type(each) in _CONTAINERS:
                read = each
            elif each is None:
                read = _zero_of(items)
            else:
                read = self._value(each, items, olds[index] if index < len(olds) else None, (path, f"[{index}]"))
            new.append(read)
            is_changed = is_changed or read is not each
        return new if is_changed else value

    def _map(self, value: Object, type_: Type, path: _Path) -> Object:
        items = type_.items
        assert items is not None
        if items.form is _STRING and all(type(each) is str for each in value.values()):
            return value
        new = {
            name: _zero_of(items) if each is None else self._value(each, items, None, (path, f"[{name}]"))
            for name, each in value.items()
        }
        return value if all(new[name] is each for name, each in value.items()) else new


def _written(path: _Path) -> str:
    """``spec.ports[0].port``."""
    parts = []
    while path is not None:
        path, step = path
        parts.append(step)
    return "".join(reversed(parts)).removeprefix(".")


def _emptied(value: Any, of: Field) -> Any:
    """What is written for an empty value that is no plain one."""
    if value is None or (of.drops_empty and type(value) in _CONTAINERS):
        return None if of.is_always else _ABSENT
    return value if of.keeps_empty or type(value) in _CONTAINERS else _ABSENT


def _zero(of: Field) -> Any:
    """The value of a field that is not set."""
    return None if of.is_pointer or of.value.form in _COLLECTIONS else _zero_of(of.value)


def _zero_of(type_: Type) -> Any:
    match type_.form:
        case ValueForm.STRUCT:
            return {each.name: _zero(each) for each in type_.always}
        case ValueForm.STRING:
            return ""
        case ValueForm.BOOLEAN:
            return False
        case ValueForm.INT32 | ValueForm.INT64 | ValueForm.INT_OR_STRING:
            return 0
        case ValueForm.QUANTITY:
            return "0"
    return None


# --- times and quantities ---------------------------------------------------------------------------------------------

_TIME_FORM: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICRO_TIME_FORM: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)
_EXPECTED: Final = {
    ValueForm.TIME: "an RFC 3339 time such as 2026-01-02T03:04:05Z",
    ValueForm.MICRO_TIME: "an RFC 3339 time with six digits such as 2026-01-02T03:04:05.000000Z",
    ValueForm.QUANTITY: "a quantity such as 250m or 2Gi",
}


def as_time(moment: datetime) -> str:
    """As Kubernetes writes times: RFC 3339 in UTC, whole seconds."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def _read(value: Any, form: ValueForm, path: _Path) -> Any:
    """A time in UTC, in the form in which Kubernetes writes it; a quantity as text."""
    try:
        made = str(value) if form is _QUANTITY else _canonical_time(value, form is _MICRO_TIME)
        if form is _QUANTITY:
            quantity.parse(made)
    except (ValueError, OverflowError):
        raise MisfitError(f"{_written(path)}: expected {_EXPECTED[form]}, got {show(value)}") from None
    return value if made == value else made


@lru_cache(maxsize=4096)
def _canonical_time(text: str, with_micros: bool) -> str:
    if not (_MICRO_TIME_FORM if with_micros else _TIME_FORM).fullmatch(text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='microseconds' if with_micros else 'seconds')}Z"
