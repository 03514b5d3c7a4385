"""Bodies in Kubernetes' form of protobuf, which typed Go clients send: ``k8s\\0`` and a ``runtime.Unknown``.

Messages tell nothing but numbers of fields. What these are called, and what JSON has for them, is in
``protobuf_fields.json`` (made by ``e2e/protobuf_fields.py``).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from zoneward.sandbox.server.protobuf_wire import (
    BOOLEAN,
    END,
    INLINE,
    INT32,
    INT64,
    LEAF,
    LEAF_MAP,
    NUMBERS,
    PACKED,
    STRING,
    STRING_MAP,
    STRINGS,
    STRUCT,
    STRUCTS,
    Message,
    as_it_is,
    read,
)

Object = dict[str, Any]
"""JSON as a dictionary."""

PREFIX: Final = b"k8s\0"

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  (a time zone would be written)
_NEVER: Final = -62135596800
"""Seconds of Go's zero time: the year 1."""


class ProtobufError(ValueError):
    """One line: why bytes are no object. ``told``: what they say they are (``Pod in version "v1"``), where they do."""

    def __init__(self, problem: str, *, told: str = "") -> None:
        super().__init__(problem)
        self.told = told


def decoded(body: bytes, *, api: str = "", kind: str = "") -> Object:
    """What the body has in JSON: what a Go client that speaks JSON would have sent, except for the order of fields.

    ``api`` (``v1``, ``discovery.k8s.io/v1``) and ``kind`` are those of a body that does not say what it is. Raises
    ProtobufError.
    """
    if not body.startswith(PREFIX):
        expected = " ".join(map(str, PREFIX))
        problem = f"provided data does not appear to be a protobuf message, expected prefix [{expected}]"
        raise ProtobufError(problem if body else "empty data")
    if len(body) == len(PREFIX):
        raise ProtobufError("empty body")
    envelope: Object = {"typeMeta": {}, "raw": b""}
    told = ""
    try:
        read(envelope, _UNKNOWN, body, len(PREFIX), len(body))
        types, raw = envelope["typeMeta"], envelope["raw"]
        api, kind = types.get("apiVersion") or api, types.get("kind") or kind
        version = api.rpartition("/")[2]
        told = f'{kind} in version "{version}"' if kind else ""
        found = _kinds().get("meta.k8s.io/v1 DeleteOptions" if kind == "DeleteOptions" else f"{api} {kind}")
        if found is None:
            scheme = 'in scheme "pkg/runtime/scheme.go:111"'
            raise ProtobufError(f'no kind "{kind}" is registered for version "{api}" {scheme}')
        thing: Object = {"apiVersion": api, "kind": kind}
        read(thing, found, raw, 0, len(raw))
    except IndexError:
        raise ProtobufError(END, told=told) from None
    except ValueError as error:
        raise ProtobufError(str(error).partition("\n")[0], told=told) from None
    return thing


# --- messages that JSON has in a form of their own --------------------------------------------------------------------

_Leaf = Callable[[bytes], Any]
"""From a message to what JSON has for it."""


def _fields_of(message: Message, value: bytes) -> Object:
    found: Object = {}
    read(found, message, value, 0, len(value))
    return found


@lru_cache(maxsize=4096)
def _quantity(value: bytes) -> str:
    text: str = _fields_of(_QUANTITY, value).get("string", "0")
    return text


@lru_cache(maxsize=4096)
def _time(value: bytes) -> str | None:
    return _moment(value, "seconds")


@lru_cache(maxsize=4096)
def _micro_time(value: bytes) -> str | None:
    return _moment(value, "microseconds")


def _moment(value: bytes, precision: str) -> str | None:
    """What is finer is cut. None for Go's zero time, which is none to Kubernetes."""
    found = _fields_of(_TIMESTAMP, value)
    seconds = found.get("seconds", 0)
    if not value or seconds == _NEVER:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=found.get("nanos", 0) // 1000)
    except OverflowError:
        raise ValueError(f"years of times are 1 to 9999, got {seconds} seconds since 1970") from None
    return f"{moment.isoformat(timespec=precision)}Z"


@lru_cache(maxsize=4096)
def _int_or_string(value: bytes) -> int | str:
    found = _fields_of(_INT_OR_STRING, value)
    match found.get("type", 0):
        case 0:
            number: int = found.get("intVal", 0)
            return number
        case 1:
            text: str = found.get("strVal", "")
            return text
    raise ValueError("impossible IntOrString.Type")


def _json(value: bytes) -> Any:
    """``fieldsV1``: JSON, as bytes."""
    raw: bytes = _fields_of(_FIELDS, value).get("Raw", b"")
    return msgspec.json.decode(raw) if raw else None


_TYPE_META: Final = Message("TypeMeta", {0x0A: (STRING, "apiVersion", True, None), 0x12: (STRING, "kind", True, None)})
_UNKNOWN: Final = Message(
    "Unknown",
    {
        0x0A: (STRUCT, "typeMeta", True, _TYPE_META),
        0x12: (LEAF, "raw", True, as_it_is),
        0x1A: (STRING, "contentEncoding", True, None),
        0x22: (STRING, "contentType", True, None),
    },
)
_QUANTITY: Final = Message("Quantity", {0x0A: (STRING, "string", True, None)})
_TIMESTAMP: Final = Message("Timestamp", {0x08: (INT64, "seconds", True, None), 0x10: (INT32, "nanos", True, None)})
_FIELDS: Final = Message("FieldsV1", {0x0A: (LEAF, "Raw", True, as_it_is)})
_INT_OR_STRING: Final = Message(
    "IntOrString",
    {
        0x08: (INT64, "type", True, None),
        0x10: (INT32, "intVal", True, None),
        0x1A: (STRING, "strVal", True, None),
    },
)
_LEAVES: Final[dict[str, tuple[_Leaf, Any]]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": (_quantity, "0"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": (_int_or_string, 0),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": (_time, None),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": (_micro_time, None),
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": (_json, None),
}
"""By a type's name: how it is read, and what JSON has for one that is absent."""


# --- the data ---------------------------------------------------------------------------------------------------------

_SCALARS: Final[dict[str, tuple[int, Any]]] = {
    "string": (STRING, ""),
    "bool": (BOOLEAN, False),
    "int32": (INT32, 0),
    "int64": (INT64, 0),
}
"""By a type's name: its form, and its zero."""


@cache
def _kinds() -> dict[str, Message]:
    """By version and kind: ``discovery.k8s.io/v1 EndpointSlice``."""
    data = msgspec.json.decode(files("zoneward.sandbox.server").joinpath("protobuf_fields.json").read_bytes())
    messages = {name: Message(name.rpartition(".")[2]) for name in data["messages"]}
    for name, fields in data["messages"].items():
        for number, told in fields.items():
            _add(messages[name], int(number), *told, messages=messages)
    # Fields of an embedded struct are its parent's, also where protobuf has nothing of it.
    for name, fields in data["messages"].items():
        for _, type_, form in fields.values():
            if form == "inline":
                messages[name].always.extend(messages[type_].always)
    return {kind: messages[name] for kind, name in data["kinds"].items()}


def _add(message: Message, number: int, name: str, type_: str, form: str, *, messages: dict[str, Message]) -> None:
    numeric, sized = number << 3, number << 3 | 2
    if type_.startswith("map[string]"):
        empty: Any = None
        value = type_.removeprefix("map[string]")
        if value == "string":
            message.fields[sized] = (STRING_MAP, name, True, None)
        else:
            message.fields[sized] = (LEAF_MAP, name, True, _LEAVES[value][0])
    elif type_.startswith("[]"):
        empty = None
        if (item := type_.removeprefix("[]")) == "string":
            message.fields[sized] = (STRINGS, name, True, None)
        elif item in _SCALARS:
            message.fields[numeric] = (NUMBERS, name, True, _SCALARS[item][0])
            message.fields[sized] = (PACKED, name, True, _SCALARS[item][0])
        else:
            message.fields[sized] = (STRUCTS, name, True, messages[item])
    elif type_ in _SCALARS:
        scalar, empty = _SCALARS[type_]
        message.fields[sized if scalar == STRING else numeric] = (scalar, name, form != "omitempty", None)
    elif type_ in _LEAVES:
        leaf, empty = _LEAVES[type_]
        message.fields[sized] = (LEAF, name, form != "omitempty", leaf)
    else:
        empty = messages[type_]
        if form == "inline":
            # The parent sees to what is absent, when all of it has been read.
            message.fields[sized] = (INLINE, name, True, Message(empty.name, empty.fields))
        else:
            message.fields[sized] = (STRUCT, name, True, empty)
    if form in ("always", "null"):
        message.always.append((name, None if form == "null" else empty))
