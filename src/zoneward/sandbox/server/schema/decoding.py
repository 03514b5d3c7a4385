"""JSON as Kubernetes' decoders leave it: types judged, unknown fields dropped, empty ones written back or not.

There are two decoders upstream, with words of their own: `decoded_as` is that of request bodies and of what JSON and
merge patches make, `restored_as` that of what strategic merge patches and server-side apply make. Both share one walk,
which never changes its input, shares what needs no change, and skips whatever is the same Python object as in ``old``.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.refusals import bad_request
from zoneward.sandbox.server.schema.scalars import canonical_micro_time, canonical_quantity, canonical_time
from zoneward.sandbox.server.schema.types import Field, Form, Type, type_of

Object = dict[str, Any]
"""JSON as a dictionary."""

Validation = Literal["Strict", "Warn", "Ignore"]
"""What ``fieldValidation`` asks for; clients that ask for nothing get ``Warn``."""

_Path = tuple[Any, str, Any] | None
"""Where a value is: its container's path, and the Go struct it is a field of and the field, or "" and its index."""


class MisfitError(Exception):
    """The value of a field is none of its type; the text is the decoder's."""


class UnrecognizedError(MisfitError):
    """The value has no readable kind at all."""


def decode(
    body: object, kind: Kind, *, validation: Validation = "Warn", duplicates: Iterable[str] = ()
) -> tuple[Object, list[str]]:
    """The object that a request's JSON is, and warnings about it. Raises Refusal (400).

    ``body`` is decoded JSON; null counts as an empty object. ``duplicates`` are those that
    `zoneward.sandbox.server.schema.duplicate_fields` has found.
    """
    try:
        thing, unknown = decoded_as(body, kind)
    except UnrecognizedError as misfit:
        shown = msgspec.json.encode(body)
        # Go's hexadecimal digits for a body that is no object: the reader of the message is to find it in a dump.
        seen = shown.hex() if not isinstance(body, dict) else _beginning(body)
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): {misfit} ({seen})"
        ) from None
    except MisfitError as misfit:
        raise bad_request(f"{_told_kind(body, kind)} cannot be handled as a {kind.kind}: {misfit}") from None
    problems = [*duplicates, *unknown]
    if problems and validation == "Strict":
        problem = f"strict decoding error: {', '.join(problems)}"
        raise bad_request(f"{_told_kind(body, kind)} cannot be handled as a {kind.kind}: {problem}")
    return thing, problems if validation == "Warn" else []


def _beginning(body: Object) -> str:
    text = json.dumps(body, ensure_ascii=False)
    return text if len(text) <= 30 else f"{text[:30]} ..."


def _told_kind(body: object, kind: Kind) -> str:
    told = body if isinstance(body, dict) else {}
    version = told.get("apiVersion") or kind.api
    return f'{told.get("kind") or kind.kind} in version "{version.rpartition("/")[2]}"'


def decoded_as(value: object, kind: Kind, *, old: Object | None = None) -> tuple[Object, list[str]]:
    """What JSON is as an object of that kind, and one ``unknown field "..."`` for each field that it has not.

    ``old`` is an object that went through here: what ``value`` shares with it is not looked at again. Raises
    MisfitError.
    """
    value = {} if value is None else value
    _judge_kind(value, kind)
    assert isinstance(value, dict)
    walk = _Walk(_decoding_misfit)
    thing = walk.struct(value, type_of(kind), old, None)
    return _with_kind(thing, kind), walk.unknown


def restored_as(value: Object, kind: Kind, *, old: Object | None = None) -> tuple[Object, list[str]]:
    """As `decoded_as`, with the other decoder's words; its ``kind`` and ``apiVersion`` do not count."""
    walk = _Walk(_restoring_misfit)
    thing = walk.struct(value, type_of(kind), old, None)
    return _with_kind(thing, kind), sorted(walk.unknown)


_KIND_STRUCT: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def _judge_kind(value: object, kind: Kind) -> None:
    parse_error = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    if not isinstance(value, dict):
        shape = (
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise UnrecognizedError(f"{parse_error} {_json_name(value)} into Go value of type {shape}")
    for field in ("kind", "apiVersion"):
        told = value.get(field)
        if told is not None and not isinstance(told, str):
            raise UnrecognizedError(f"{parse_error} {_json_name(told)} into Go struct field .{field} of type string")
    told_kind, version = value.get("kind") or kind.kind, value.get("apiVersion") or kind.api
    if (told_kind, version) == (kind.kind, kind.api):
        return
    served = _known_kinds()
    if (version, told_kind) not in served:
        registry = 'in scheme "pkg/runtime/scheme.go:111"'
        raise MisfitError(f'no kind "{told_kind}" is registered for version "{version}" {registry}')
    package = kind.group.partition(".")[0] or "core"
    raise MisfitError(f"converting (v1.{told_kind}) to ({package}.{kind.kind}): unknown conversion")


def _known_kinds() -> frozenset[tuple[str, str]]:
    core = ("Service", "Node", "Pod", "Event", "Namespace", "ConfigMap", "Secret", "Endpoints", "ServiceAccount")
    others = (
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("events.k8s.io/v1", "Event"),
        ("coordination.k8s.io/v1", "Lease"),
    )
    return frozenset(("v1", each) for each in core) | frozenset(others)


def _with_kind(thing: Object, kind: Kind) -> Object:
    if thing.get("kind") == kind.kind and thing.get("apiVersion") == kind.api:
        return thing
    return {**thing, "kind": kind.kind, "apiVersion": kind.api}


# --- the walk ---------------------------------------------------------------------------------------------------------

_ABSENT: Final = object()
_CONTAINERS: Final = frozenset({dict, list})
# An enumeration's members cost more to reach, and to hash, than all else that is done with a value.
_STRUCT, _LIST, _MAP, _STRING, _BOOLEAN = Form.STRUCT, Form.LIST, Form.MAP, Form.STRING, Form.BOOLEAN
_QUANTITY, _TIME, _MICRO_TIME, _INT_OR_STRING = Form.QUANTITY, Form.TIME, Form.MICRO_TIME, Form.INT_OR_STRING


class _Walk:
    """Through one object. ``misfit`` makes the error for a value, its type, and the path to it."""

    __slots__ = ("_misfit", "unknown")

    def __init__(self, misfit: "Callable[[Any, Type, _Path], Any]") -> None:
        self._misfit = misfit
        self.unknown: list[str] = []

    def struct(self, value: Object, type_: Type, old: Any, path: _Path) -> Object:
        is_known = value is old
        if is_known:
            return value
        fields = type_.fields
        changes: Object = {}
        olds = old if type(old) is dict else {}
        for name, each in value.items():
            field = fields.get(name)
            if field is None:
                self.unknown.append(f'unknown field "{_told(path, indices=True, last=name)}"')
                changes[name] = _ABSENT
            elif type(each) is field.plain:
                if not (each or field.keeps_empty):
                    changes[name] = _ABSENT
            elif each is None:
                zero = _zero(field) if field.is_always else _ABSENT
                if zero is not None:
                    changes[name] = zero
            elif type(each) in _CONTAINERS and olds.get(name) is each:
                continue
            else:
                new = self._value(each, field.value, olds.get(name), (path, type_.go, field))
                if not new and not (field.is_always and path is None and type(new) is list):
                    new = _emptied(new, field)
                if new is not each:
                    changes[name] = new
        for field in type_.always:
            if field.name not in value:
                changes[field.name] = _zero(field)
        if not changes:
            return value
        merged = {**value, **changes}
        made: Object = {name: each for name, each in merged.items() if each is not _ABSENT}
        return made

    def _value(self, value: Any, type_: Type, old: Any, path: Any) -> Any:
        """``value`` is not None. ``path`` is that of the value itself."""
        form, given = type_.form, type(value)
        if given is dict:
            if form is _STRUCT:
                return self.struct(value, type_, old, path)
            if form is _MAP:
                return self._map(value, type_, path)
        elif given is list:
            if form is _LIST:
                return self._list(value, type_, old, path)
        elif given is int:
            if type_.limit and -type_.limit <= value < type_.limit:
                return value
        elif given is str:
            if form is _STRING or form is _INT_OR_STRING:
                return value
            if form is _TIME or form is _MICRO_TIME:
                return self._time(value, canonical_time if form is _TIME else canonical_micro_time)
        elif given is bool and form is _BOOLEAN:
            return value
        if form is Form.RAW:
            return value
        return self._quantity(value) if form is _QUANTITY else self._misfit(value, type_, path)

    def _time(self, value: str, canonical: Callable[[str], str]) -> str | None:
        try:
            made = canonical(value)
        except ValueError as error:
            raise MisfitError(str(error)) from None
        return value if made == value else made or None

    def _quantity(self, value: Any) -> Any:
        try:
            made = canonical_quantity(value if type(value) in {str, int, float} else "")
        except ValueError as error:
            raise MisfitError(str(error)) from None
        return value if made == value else made

    def _list(self, value: list[Any], type_: Type, old: Any, path: Any) -> list[Any]:
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
                read = self._value(each, items, olds[index] if index < len(olds) else None, (path, "", index))
            new.append(read)
            is_changed = is_changed or read is not each
        return new if is_changed else value

    def _map(self, value: Object, type_: Type, path: Any) -> Object:
        items = type_.items
        assert items is not None
        if items.form is _STRING and all(type(each) is str for each in value.values()):
            return value
        new = {
            name: _zero_of(items) if each is None else self._value(each, items, None, (path, "", ""))
            for name, each in value.items()
        }
        return value if all(new[name] is each for name, each in value.items()) else new


def _emptied(value: Any, field: Field) -> Any:
    """What is written for an empty value that is no plain one."""
    if value is None or (field.drops_empty and type(value) in _CONTAINERS):
        return None if field.is_always else _ABSENT
    return value if field.keeps_empty or type(value) in _CONTAINERS else _ABSENT


def empty_of(kind: Kind) -> Object:
    """What an object of that kind is before anybody has set a field of it."""
    made: Object = _zero_of(type_of(kind))
    return made


def _zero(field: Field) -> Any:
    """What is written for a field that nobody set."""
    return None if field.is_pointer else _zero_of(field.value, in_list=False)


def _zero_of(type_: Type, *, in_list: bool = True) -> Any:
    match type_.form:
        case Form.STRUCT:
            return {each.name: _zero(each) for each in type_.always}
        case Form.STRING:
            return ""
        case Form.BOOLEAN:
            return False
        case Form.INT32 | Form.INT64 | Form.INT_OR_STRING:
            return 0
        case Form.QUANTITY:
            return "0"
        case Form.LIST | Form.MAP | Form.RAW if in_list:
            return None
    return None


# --- words ------------------------------------------------------------------------------------------------------------


def _told(path: Any, *, indices: bool, last: str = "") -> str:
    """``spec.ports[0].port``, or ``spec.ports.port`` with the names of embedded structs."""
    parts = [f".{last}"] if last else []
    while path is not None:
        path, struct, step = path
        if struct:
            embedded = f".{step.embedded}" if step.embedded and not indices else ""
            parts.append(f"{embedded}.{step.name}")
        elif indices and step != "":
            parts.append(f"[{step}]")
    return "".join(reversed(parts)).removeprefix(".")


def _decoding_misfit(value: Any, type_: Type, path: Any) -> Any:
    name, go = _json_name(value), _go_of(value, type_)
    if name == "number" and go in {"int32", "int64"}:
        name = f"number {value!r}"
    struct, above = "", path
    while above is not None and not struct:
        above, struct, _ = above
    field = f"{struct.rpartition('.')[2]}.{_told(path, indices=False)}"
    raise MisfitError(f"json: cannot unmarshal {name} into Go struct field {field} of type {go}")


def _go_of(value: Any, type_: Type) -> str:
    del value
    if type_.form in {Form.TIME, Form.MICRO_TIME}:
        return "string"
    return "int32" if type_.form is Form.INT_OR_STRING else type_.go


def _json_name(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case None:
            return "null"
    return "object"


_GO_KINDS: Final = {"string": "string", "bool": "bool", "array": "slice", "object": "map"}


def _restoring_misfit(value: Any, type_: Type, path: Any) -> Any:
    """Whole floats are integers here, and integers that are too large lose their upper bits; all else is an error."""
    form, name = type_.form, _json_name(value)
    kind = _GO_KINDS.get(name) or ("float64" if type(value) is float else "int64")
    if type_.limit and form is not Form.INT_OR_STRING and name == "number":
        if type(value) is float and not value.is_integer():
            raise MisfitError(f"cannot convert float64 to {type_.go}")
        limit = type_.limit
        return (int(value) + limit) % (2 * limit) - limit
    match form:
        case Form.STRUCT:
            raise MisfitError(f"cannot restore struct from: {kind}")
        case Form.LIST | Form.MAP:
            raise MisfitError(f"cannot restore {'slice' if form is Form.LIST else 'map'} from {kind}")
        case Form.STRING if kind == "int64":
            raise MisfitError(f"cannot convert int64 to {type_.go}")
        case Form.TIME | Form.MICRO_TIME | Form.INT_OR_STRING:
            raise MisfitError(f"json: cannot unmarshal {name} into Go value of type {_go_of(value, type_)}")
    del path
    raise MisfitError(f"unrecognized type: {form.value}")
