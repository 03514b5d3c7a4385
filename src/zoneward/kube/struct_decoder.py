"""Decodes JSON or YAML values to structs, with errors that name the field."""

import json
from typing import Any, Final

import msgspec

from zoneward.kube.input_error import FieldMismatch, show
from zoneward.kube.input_files import is_half_a_pair
from zoneward.kube.objects import KINDS, Node, Object
from zoneward.kube.schema import field_mismatch, field_types, got_words, struct_of
from zoneward.kube.workload_objects import AnyObject, PersistentVolume

FieldTree = dict[str, "FieldTree | None"]
"""The fields that are read of a mapping, or of each mapping in a list, with their own trees; None for all fields."""


def field_tree(annotation: object) -> FieldTree | None:
    """The fields of the struct that a type is or contains, by their names in JSON."""
    struct = struct_of(annotation)
    return None if struct is None else {name: field_tree(type_) for name, type_ in field_types(struct).items()}


def merge_trees(one: FieldTree | None, other: FieldTree | None) -> FieldTree | None:
    """The fields of both trees."""
    if one is None or other is None:
        return None
    return one | {name: merge_trees(one[name], shape) if name in one else shape for name, shape in other.items()}


class ObjectHead(msgspec.Struct, gc=False, rename="camel"):
    """The fields that decide how a value is decoded."""

    api_version: str | None = None
    kind: str | None = None
    items: Any = msgspec.UNSET
    """The undecoded items of a ``List``; ``msgspec.UNSET`` without such a field."""


class _UndecodedHead(ObjectHead, gc=False, rename="camel"):
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


_HEAD: Final = msgspec.json.Decoder(_UndecodedHead)
_OBJECTS: Final[dict[type[Object], msgspec.json.Decoder[Object]]] = {
    kind: msgspec.json.Decoder(kind) for kind in KINDS.values()
}
_SHAPES: Final = {kind: field_tree(kind) for kind in KINDS.values()}


def object_head(value: object) -> ObjectHead:
    """Raises FieldMismatch if the value is not a mapping, or its kind or apiVersion is not a string."""
    if isinstance(value, msgspec.Raw):
        try:
            return _HEAD.decode(value)
        except msgspec.ValidationError:
            value = _untyped(value)
        except UnicodeDecodeError as error:
            raise _not_utf8(error, "") from None
    if not isinstance(value, dict):
        raise FieldMismatch("", "a mapping", show(value))
    for field in ("apiVersion", "kind"):
        text = value.get(field)
        if text is not None and not isinstance(text, str):
            raise FieldMismatch(field, "a string", got_words(text, "a string"))
    return ObjectHead(value.get("apiVersion"), value.get("kind"), value.get("items", msgspec.UNSET))


def decode_object(value: object, kind: type[Object]) -> Object:
    """The value as a struct. Raises FieldMismatch, with the field and the name of the object."""
    if isinstance(value, msgspec.Raw):
        try:
            return _OBJECTS[kind].decode(value)
        except msgspec.ValidationError as error:
            # A null counts as an absent field; otherwise the error needs the plain values.
            value = _untyped(value)
            if value is msgspec.UNSET:
                raise _mismatch(error, kind) from None
        except UnicodeDecodeError as error:
            raise _not_utf8(error, kind.__name__) from None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        _drop_nulls(value, _SHAPES[kind])
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _mismatch(error, kind, value) from None


def object_title(obj: AnyObject) -> str:
    """``Kind namespace/name``, or ``Kind name`` for a kind without namespaces."""
    namespace = None if isinstance(obj, Node) else obj.metadata.namespace
    return _title(type(obj), namespace, obj.metadata.name)


def _title_of(kind: type[Object], fields: dict[str, Any]) -> str:
    """The title of an object that is not decoded."""
    metadata = fields.get("metadata")
    names = dict(metadata) if isinstance(metadata, _Pairs | dict) else {}
    return _title(kind, names.get("namespace"), names.get("name"))


def _title(kind: type[msgspec.Struct], namespace: object, name: object) -> str:
    if not isinstance(name, str) or not name:
        return f"{kind.__name__} without name"
    if kind in (Node, PersistentVolume):
        return f"{kind.__name__} {name}"
    return f"{kind.__name__} {namespace if namespace and isinstance(namespace, str) else 'default'}/{name}"


# --- duplicate keys ---------------------------------------------------------------------------------------------------


class _Pairs(list[tuple[str, Any]]):
    """All keys of a JSON object with their values, duplicates included."""


def refuse_duplicate_keys(document: msgspec.Raw) -> None:
    """Refuse an object, or a list of objects, that sets a field twice: a decoder silently keeps the last value.

    Only fields that are read count. Raises FieldMismatch. It takes longer than decoding does: meant for files that a
    person may have written.
    """
    try:
        # As strings, numbers may have any length.
        value = json.loads(
            bytes(document).decode("utf-8", "replace"), object_pairs_hook=_Pairs, parse_int=str, parse_float=str
        )
        _refuse_duplicates(value)
    except (RecursionError, ValueError):
        # Unread fields may nest deeper. What is malformed is reported by the decoder.
        return


def _refuse_duplicates(value: object, path: str = "", kind: str = "", version: str = "") -> None:
    """``kind`` and ``version`` are for items of lists that do not state their own."""
    if not isinstance(value, _Pairs):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            _refuse_duplicates(item, f"{path}[{index}]", kind, version)
        return
    fields = dict(value)
    kind, version = fields.get("kind") or kind, fields.get("apiVersion") or version
    items = fields.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        if len(fields) < len(value):
            raise FieldMismatch("", "each field once", "one twice", subject=kind, path=path)
        item_kind = kind.removesuffix("List")
        _refuse_duplicates(items, f"{path}.items".removeprefix("."), item_kind, version if item_kind else "")
        return
    if field := _first_duplicate(value, {"apiVersion": None, "kind": None}):
        raise FieldMismatch(field, "each key once", "it twice", path=path)
    struct = KINDS.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if struct is not None and (field := _first_duplicate(value, _SHAPES[struct])):
        title = _title_of(struct, fields)
        raise FieldMismatch(field, "each key once", "it twice", subject=title, path=path)


def _first_duplicate(value: object, shape: FieldTree | None) -> str | None:
    """The path of the first duplicate key among the fields that are read."""
    if isinstance(value, _Pairs):
        keys: set[str] = set()
        for key, inner_value in value:
            if shape is not None and key not in shape:
                continue
            if key in keys:
                return key
            keys.add(key)
            inner = _first_duplicate(inner_value, None if shape is None else shape[key])
            if inner is not None:
                return f"{key}{inner}" if inner.startswith("[") else f"{key}.{inner}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            inner = _first_duplicate(item, shape)
            if inner is not None:
                return f"[{index}].{inner}"
    return None


# --- values that do not fit -------------------------------------------------------------------------------------------


def _mismatch(error: msgspec.ValidationError, kind: type[Object], value: object = msgspec.UNSET) -> FieldMismatch:
    mismatch = field_mismatch(error, kind, value)
    mismatch.subject = _title_of(kind, value) if isinstance(value, dict) else kind.__name__
    return mismatch


def _drop_nulls(value: object, shape: FieldTree | None) -> None:
    """Remove nulls from fields: to the API a null is an absent field. Nulls in maps and lists remain errors."""
    if shape is None:
        return
    if isinstance(value, list):
        for item in value:
            _drop_nulls(item, shape)
    elif isinstance(value, dict):
        for name, inner in shape.items():
            if name in value:
                if value[name] is None:
                    del value[name]
                else:
                    _drop_nulls(value[name], inner)


def _untyped(raw: msgspec.Raw) -> object:
    """The plain values; UNSET for invalid UTF-8 and for numbers of thousands of digits."""
    try:
        return msgspec.json.decode(raw)
    except ValueError:
        return msgspec.UNSET


def _not_utf8(error: UnicodeDecodeError, subject: str) -> FieldMismatch:
    got = "half of a surrogate pair" if is_half_a_pair(error) else f"0x{error.object[error.start]:02x}"
    return FieldMismatch("", "UTF-8 text", got, subject=subject)
