"""Decodes one value, JSON or from YAML, to a struct; where it does not fit, the error names the field."""

import json
import re
from typing import Any, Final, NamedTuple, get_args

import msgspec
from msgspec.structs import fields

from zoneward.kube.input_error import FieldMismatch, show
from zoneward.kube.mirrors import written_again
from zoneward.kube.objects import KINDS, Node, Object
from zoneward.kube.text_encoding import is_half_a_pair
from zoneward.kube.workload_objects import AnyObject, PersistentVolume

FieldTree = dict[str, "FieldTree | None"]
"""The fields that are read of a mapping, or of each mapping in a list, and what is read of them; None: all of it."""


def field_tree(annotation: object) -> FieldTree | None:
    """The fields of the struct that a type is or holds, by their names on the wire."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return {field.encode_name: field_tree(field.type) for field in fields(annotation)}
    return next((shape for part in get_args(annotation) if (shape := field_tree(part)) is not None), None)


def merge_trees(one: FieldTree | None, other: FieldTree | None) -> FieldTree | None:
    """What is read where a mapping may be of either shape."""
    if one is None or other is None:
        return None
    return one | {name: merge_trees(one[name], shape) if name in one else shape for name, shape in other.items()}


class ObjectHead(NamedTuple):
    """What has to be known of a value before it can be decoded."""

    api_version: str | None
    kind: str | None
    items: Any
    """Of a ``List``, its undecoded items; ``msgspec.UNSET`` where there is no such field."""


class _KindAndItems(msgspec.Struct, gc=False, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


_HEAD: Final = msgspec.json.Decoder(_KindAndItems)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS: Final[dict[type[Object], msgspec.json.Decoder[Object]]] = {
    kind: msgspec.json.Decoder(kind) for kind in KINDS.values()
}
_HEADS: Final = {
    kind: (msgspec.Raw(msgspec.json.encode(version)), msgspec.Raw(msgspec.json.encode(name)))
    for (version, name), kind in KINDS.items()
}
_SHAPES: Final = {kind: field_tree(kind) for kind in KINDS.values()}
_TOP: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_COLON: Final = re.compile(rb"\\u003[aA]")
_BETWEEN: Final = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_LARGE_BLOCK: Final = 1 << 20
_MOST_BESIDE_ITEMS: Final = 1 << 12
_ENDS: Final = 64
_DIGITS_OF_64_BITS: Final = 19


def object_head(value: object) -> ObjectHead:
    """Raises FieldMismatch where the value is no mapping, or what its head holds is no text."""
    if isinstance(value, msgspec.Raw):
        try:
            head = _HEAD.decode(value)
            if head.items and not _is_around(head.items, value) and _loses_a_field(value):
                raise FieldMismatch("", "each field once", "one twice", subject=head.kind or "")
            return ObjectHead(head.api_version, head.kind, head.items)
        except msgspec.ValidationError:
            value = _untyped(value)
        except UnicodeDecodeError as error:
            raise _not_utf8(error, "") from None
    if not isinstance(value, dict):
        raise FieldMismatch("", "a mapping", show(value))
    for field in ("apiVersion", "kind"):
        text = value.get(field)
        if text is not None and not isinstance(text, str):
            raise FieldMismatch(field, "a string", _got(text, "a string"))
    return ObjectHead(value.get("apiVersion"), value.get("kind"), value.get("items", msgspec.UNSET))


def array_items(array: msgspec.Raw) -> list[msgspec.Raw]:
    """The undecoded items of a JSON array."""
    return _ITEMS.decode(array)


def decode_object(value: object, kind: type[Object]) -> Object:
    """The value as a struct. Raises FieldMismatch, with the field and the object's name, where it does not fit."""
    obj = _decoded(value, kind)
    if isinstance(value, msgspec.Raw):
        _check_keys(value, obj)
    return obj


def decode_probable(value: msgspec.Raw, kind: type[Object]) -> Object | None:
    """The value as a struct, where it is of a kind that it probably has; None where it is not, or where anything is not
    as it mostly is. What is one in a row of its kind needs no look at its head first."""
    try:
        again = written_again(value, kind, _HEADS[kind])
        if again is not None and len(again) == memoryview(value).nbytes:
            return _OBJECTS[kind].decode(value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    return None


def _decoded(value: object, kind: type[Object]) -> Object:
    if isinstance(value, msgspec.Raw):
        try:
            return _OBJECTS[kind].decode(value)
        except msgspec.ValidationError as error:
            # What is wrong is looked up in the plain values; or it is a null, which is read on the way through them.
            value = _untyped(value)
            if value is msgspec.UNSET:
                raise _misfit(str(error), kind, value) from None
        except UnicodeDecodeError as error:
            raise _not_utf8(error, kind.__name__) from None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        _drop_nulls(value, _SHAPES[kind])
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), kind, value) from None


def object_title(obj: AnyObject) -> str:
    """``Kind namespace/name``, or ``Kind name`` of what is in no namespace."""
    namespace = None if isinstance(obj, Node) else obj.metadata.namespace
    return _title(type(obj), namespace, obj.metadata.name)


def _title(kind: type[msgspec.Struct], namespace: object, name: object) -> str:
    if not isinstance(name, str) or not name:
        return f"{kind.__name__} without name"
    if kind in (Node, PersistentVolume):
        return f"{kind.__name__} {name}"
    return f"{kind.__name__} {namespace if namespace and isinstance(namespace, str) else 'default'}/{name}"


# --- keys that stand twice --------------------------------------------------------------------------------------------


class _KeyValuePairs(list[tuple[str, object]]):
    """A JSON object with all that it says."""


def _check_keys(raw: msgspec.Raw, obj: Object) -> None:
    """Refuse JSON that says a field twice, of which a decoder keeps the last. Raises FieldMismatch.

    A decoder that keeps one of two loses a colon at least, so it is asked first whether what it keeps says as much as
    the text: that takes a small part of the time that looking at all keys does.
    """
    try:
        if _keeps_all_that_is_read(raw, type(obj)) or _keeps_all(text := bytes(raw)):
            return
        pairs = json.loads(
            text.decode("utf-8", "replace"), object_pairs_hook=_KeyValuePairs, parse_int=str, parse_float=str
        )
        field = _repeated(pairs, _SHAPES[type(obj)])
    except RecursionError:
        # What nobody reads may be nested deeper than is looked at.
        return
    if field is not None:
        raise FieldMismatch(field, "each key once", "it twice", subject=object_title(obj))


def _keeps_all_that_is_read(raw: msgspec.Raw, kind: type[Object]) -> bool:
    again = written_again(raw, kind)
    if again is None:
        return False
    # What was written without blanks is as long again.
    return len(again) == memoryview(raw).nbytes or _has_as_many_colons(again, bytes(raw))


def _keeps_all(text: bytes) -> bool:
    """The same for an object with fields that no mirror knows."""
    try:
        return _has_as_many_colons(msgspec.json.encode(msgspec.json.decode(text)), text)
    except (ValueError, OverflowError):
        # A number that is longer than those that are read.
        return False


def _has_as_many_colons(again: bytes | bytearray, text: bytes) -> bool:
    return again.count(b":") == text.count(b":") and not _COLON.search(text)


def _repeated(value: object, shape: FieldTree | None) -> str | None:
    """The path of the first key that stands twice, of those that are read."""
    if isinstance(value, _KeyValuePairs):
        seen: set[str] = set()
        for key, held in value:
            if shape is not None and key not in shape:
                continue
            if key in seen:
                return key
            seen.add(key)
            inner = _repeated(held, None if shape is None else shape[key])
            if inner is not None:
                return f"{key}{inner}" if inner.startswith("[") else f"{key}.{inner}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            inner = _repeated(item, shape)
            if inner is not None:
                return f"[{index}].{inner}"
    return None


def _loses_a_field(document: msgspec.Raw) -> bool:
    """The same question about the top of a list, which may be large: its items are not looked into."""
    fields = {key: memoryview(value) for key, value in _TOP.decode(document).items()}
    kept = sum(1 + key.count(":") for key in fields)
    largest = max(fields.values(), key=len)
    whole = memoryview(document)
    place = _only_place(largest, whole)
    if place is None:
        return _colons(whole) > kept + sum(map(_colons, fields.values()))
    kept += sum(_colons(value) for value in fields.values() if value is not largest)
    return _colons(whole[:place]) + _colons(whole[place + len(largest) :]) > kept


def _is_around(items: list[msgspec.Raw], document: msgspec.Raw) -> bool:
    """Whether a list says each field once, by what stands around its items: without another way through all of these.

    False also where that is not known: where blanks between items differ, or much stands beside them.
    """
    around = _around(items, memoryview(document))
    try:
        return around is not None and not _loses_a_field(msgspec.Raw(around))
    except ValueError:
        # It was another place.
        return False


def _around(items: list[msgspec.Raw], whole: memoryview) -> bytes | None:
    """What stands before and after the items, if they fit one place alone: with the same blanks between all of them."""
    first, last = memoryview(items[0]), memoryview(items[-1])
    start, end = bytes(first[:_ENDS]), bytes(last[-_ENDS:])
    size = sum(memoryview(each).nbytes for each in items)
    head = bytes(whole[: _MOST_BESIDE_ITEMS + len(start)])
    found = []
    place = head.find(start)
    while place >= 0:
        after = place + first.nbytes
        between = _BETWEEN.match(bytes(whole[after : after + _ENDS])) if len(items) > 1 else None
        to = place + size + (len(between[0]) * (len(items) - 1) if between else 0)
        rest = len(whole) - to
        if 0 <= rest <= _MOST_BESIDE_ITEMS - place and whole[to - len(end) : to] == end:
            found.append(bytes(whole[:place]) + bytes(whole[to:]))
        place = head.find(start, place + 1)
    return found[0] if len(found) == 1 else None


def _only_place(value: memoryview, whole: memoryview) -> int | None:
    """Where a field's value stands, if it is nearly the whole document: by its ends, if they fit one place alone."""
    rest = len(whole) - len(value)
    if rest > _MOST_BESIDE_ITEMS:
        return None
    start, end = bytes(value[:_ENDS]), bytes(value[-_ENDS:])
    head, tail = bytes(whole[: rest + len(start)]), bytes(whole[len(value) - len(end) :])
    places = [place for place in range(rest + 1) if head.startswith(start, place) and tail.startswith(end, place)]
    return places[0] if len(places) == 1 else None


def _colons(text: memoryview) -> int:
    return sum(bytes(text[at : at + _LARGE_BLOCK]).count(b":") for at in range(0, len(text), _LARGE_BLOCK))


# --- what msgspec says, in our words ----------------------------------------------------------------------------------

_EXPECTED: Final = r"(?:Expected `(?P<expected>.*?)`(?: [<>]= (?P<bound>-?[0-9]+))?)?"
_GOT: Final = r"(?:, got `(?P<got>.*?)`)?(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?"
_MESSAGE: Final = re.compile(f"{_EXPECTED}.*?{_GOT}", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[([0-9]+|\.\.\.)\]", re.ASCII)
_WORDS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def field_mismatch(error: msgspec.ValidationError, kind: type[msgspec.Struct]) -> FieldMismatch:
    """What a struct's decoder found wrong with a value that is not at hand any more."""
    return _misfit(str(error), kind, msgspec.UNSET)


def _misfit(message: str, kind: type[msgspec.Struct], value: object) -> FieldMismatch:
    """``value`` UNSET: it could not be read as plain values, and the message has to do."""
    parts = _split_message(message)
    steps, held = _follow(parts["path"] or "", value)
    field = "".join(steps).removeprefix(".")
    metadata = value.get("metadata") if isinstance(value, dict) else None
    names = metadata if isinstance(metadata, dict) else {}
    subject = _title(kind, names.get("namespace"), names.get("name")) if isinstance(value, dict) else kind.__name__
    if parts["key"] and isinstance(held, dict):
        stray = next((key for key in held if not isinstance(key, str)), None)
        return FieldMismatch(field, "keys that are strings", _got(stray, "a string"), subject=subject)
    words = [_WORDS.get(word, word) for word in (parts["expected"] or "").split(" | ") if word not in ("", "null")]
    expected = _either(words) if words else "a number in range"
    if parts["bound"]:
        expected = f"an integer of {32 if len(parts['bound']) < _DIGITS_OF_64_BITS else 64} bits"
    got = _got(held, expected) if value is not msgspec.UNSET else _WORDS.get(parts["got"] or "", "a very large number")
    return FieldMismatch(field, expected, got, subject=subject)


def _drop_nulls(value: object, shape: FieldTree | None) -> None:
    """Remove the nulls from all fields: to the API a null is the same as an absent field. Those in maps and lists stay,
    where they are mistakes.
    """
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


def _split_message(message: str) -> dict[str, str | None]:
    match = _MESSAGE.fullmatch(message)
    assert match is not None, message
    return match.groupdict()


def _follow(path: str, value: object) -> tuple[list[str], object]:
    """What a path as msgspec writes it leads to, and the path with the keys that msgspec leaves out."""
    steps = []
    for field, index in _STEP.findall(path):
        key: object = field
        if index == "...":
            # All maps here are from text to text, so the first value that is no text is the one that is meant.
            pairs = value.items() if isinstance(value, dict) else ()
            key = next((key for key, held in pairs if not isinstance(held, str)), index)
        elif index:
            key = int(index)
        steps.append(f".{field}" if field else f"[{key}]")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key]
    return steps, value


def _got(value: object, expected: str) -> str:
    # Who writes `true` or `1` for a label means the text.
    is_bare = expected == "a string" and isinstance(value, bool | int | float)
    return f"{show(value)} without quotes" if is_bare else show(value)


def _either(words: list[str]) -> str:
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]


def _untyped(raw: msgspec.Raw) -> object:
    """UNSET for what fits no plain value either: text that is no UTF-8, a number of thousands of digits."""
    try:
        return msgspec.json.decode(raw)
    except ValueError:
        return msgspec.UNSET


def _not_utf8(error: UnicodeDecodeError, subject: str) -> FieldMismatch:
    got = "half of a surrogate pair" if is_half_a_pair(error) else f"0x{error.object[error.start]:02x}"
    return FieldMismatch("", "UTF-8 text", got, subject=subject)
