"""One value, JSON text or what YAML gave, to a struct; where it does not fit, which field it is and why."""

import re
from typing import Any, Final, NamedTuple

import msgspec

from zoneward.kube.input_error import Misfit, show
from zoneward.kube.objects import KINDS, Node, Object


class Head(NamedTuple):
    """What has to be known of a value before it can be decoded."""

    api_version: str | None
    kind: str | None
    items: Any
    """Of a ``List``, its undecoded items; ``msgspec.UNSET`` where there is no such field."""


class _Head(msgspec.Struct, gc=False, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


_HEAD: Final = msgspec.json.Decoder(_Head)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS: Final[dict[type[Object], msgspec.json.Decoder[Object]]] = {
    kind: msgspec.json.Decoder(kind) for kind in KINDS.values()
}


def head_of(value: object) -> Head:
    """Raises Misfit where the value is no mapping, or what its head holds is no text."""
    if isinstance(value, msgspec.Raw):
        try:
            head = _HEAD.decode(value)
            return Head(head.api_version, head.kind, head.items)
        except msgspec.ValidationError:
            value = _untyped(value)
        except UnicodeDecodeError as error:
            raise _not_utf8(error, "") from None
    if not isinstance(value, dict):
        raise Misfit("", "a mapping", show(value))
    for field in ("apiVersion", "kind"):
        text = value.get(field)
        if text is not None and not isinstance(text, str):
            raise Misfit(field, "a string", _got(text, "a string"))
    return Head(value.get("apiVersion"), value.get("kind"), value.get("items", msgspec.UNSET))


def items_of(array: msgspec.Raw) -> list[msgspec.Raw]:
    """The undecoded items of a JSON array."""
    return _ITEMS.decode(array)


def decode(value: object, kind: type[Object]) -> Object:
    """The value as a struct. Raises Misfit, with the field and the object's name, where it does not fit."""
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
    while True:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            if not _drop_null(str(error), value):
                raise _misfit(str(error), kind, value) from None


def title(thing: Object) -> str:
    """``Kind namespace/name``, or ``Kind name`` of what is in no namespace."""
    namespace = None if isinstance(thing, Node) else thing.metadata.namespace
    return _title(type(thing), namespace, thing.metadata.name)


def _title(kind: type[msgspec.Struct], namespace: object, name: object) -> str:
    if not isinstance(name, str) or not name:
        return f"{kind.__name__} without name"
    if kind is Node:
        return f"{kind.__name__} {name}"
    return f"{kind.__name__} {namespace if namespace and isinstance(namespace, str) else 'default'}/{name}"


# --- what msgspec says, in our words ----------------------------------------------------------------------------------

_MESSAGE: Final = re.compile(
    r"(?:Expected `(?P<expected>.*?)`)?.*?(?:, got `(?P<got>.*?)`)?(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?",
    re.DOTALL,
)
_STEP: Final = re.compile(r"\.(\w+)|\[([0-9]+|\.\.\.)\]", re.ASCII)
_WORDS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def misfit(error: msgspec.ValidationError, kind: type[msgspec.Struct]) -> Misfit:
    """What a struct's decoder found wrong with a value that is not at hand any more."""
    return _misfit(str(error), kind, msgspec.UNSET)


def _misfit(message: str, kind: type[msgspec.Struct], value: object) -> Misfit:
    """``value`` UNSET: it could not be read as plain values, and the message has to do."""
    told = _told(message)
    steps, held = _follow(told["path"] or "", value)
    field = "".join(steps).removeprefix(".")
    metadata = value.get("metadata") if isinstance(value, dict) else None
    names = metadata if isinstance(metadata, dict) else {}
    subject = _title(kind, names.get("namespace"), names.get("name")) if isinstance(value, dict) else kind.__name__
    if told["key"] and isinstance(held, dict):
        stray = next((key for key in held if not isinstance(key, str)), None)
        return Misfit(field, "keys that are strings", _got(stray, "a string"), subject=subject)
    words = [_WORDS.get(word, word) for word in (told["expected"] or "").split(" | ") if word not in ("", "null")]
    expected = _either(words) if words else "a number in range"
    got = _got(held, expected) if value is not msgspec.UNSET else _WORDS.get(told["got"] or "", "a very large number")
    return Misfit(field, expected, got, subject=subject)


def _drop_null(message: str, value: object) -> bool:
    """Remove a null from a field that cannot be null: to the API a null is the same as an absent field.

    False where the message is about something else. Each call removes one, so calling it again comes to an end.
    """
    told = _told(message)
    path, _, last = (told["path"] or "").rpartition(".")
    if told["got"] != "null" or told["key"] or not last.isalnum():
        return False
    _, holder = _follow(path, value)
    return isinstance(holder, dict) and holder.pop(last, msgspec.UNSET) is None


def _told(message: str) -> dict[str, str | None]:
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


def _not_utf8(error: UnicodeDecodeError, subject: str) -> Misfit:
    return Misfit("", "UTF-8 text", f"0x{error.object[error.start]:02x}", subject=subject)
