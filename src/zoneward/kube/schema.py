"""What a type of msgspec expects, and one function that words what does not fit it."""

import re
import types
from enum import Enum
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct
from msgspec.structs import fields

from zoneward.kube.input_error import FieldMismatch, did_you_mean, show

_UNIONS: Final = (Union, types.UnionType)
_MESSAGE: Final = re.compile(r"(?P<problem>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[([0-9]+|\.\.\.)\]", re.ASCII)
_WRONG_FIELD: Final = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_FROM_HOOK: Final = re.compile(r"(?:(.*?): )?expected (.*?)(?:, got (.*))?", re.DOTALL)
_GOT: Final = re.compile(r"Expected .*, got `(\w+)`", re.DOTALL)
_WORDS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Struct)


def struct_of(annotation: object) -> type[Struct] | None:
    """The struct that a type is, or that is in it; None where there is none."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return next((struct for part in get_args(annotation) if (struct := struct_of(part)) is not None), None)


def field_types(type_: type[Struct]) -> dict[str, Any]:
    """The types of a struct's fields by their names in a document."""
    return {field.encode_name: field.type for field in fields(type_)}


def bare_type(type_: Any) -> tuple[Any, Meta]:
    """A type without its annotation and without None, and its annotation."""
    meta = Meta()
    if get_origin(type_) in _UNIONS:
        type_ = next(option for option in get_args(type_) if option is not types.NoneType)
    if get_origin(type_) is Annotated:
        type_, meta = get_args(type_)[:2]
    return type_, meta


def integer_of_bits(bits: int) -> Meta:
    """The bounds of an integer of the API."""
    most = 2 ** (bits - 1) - 1
    return Meta(ge=-most - 1, le=most, description="an integer", extra={"range": f"an integer of {bits} bits"})


def expected_of(type_: Any) -> str:
    """What a message says is expected for a type: its description, its choices or its bounds."""
    if get_origin(type_) in _UNIONS:
        return " or ".join(expected_of(option) for option in get_args(type_) if option is not types.NoneType)
    type_, meta = bare_type(type_)
    if meta.description:
        return meta.description
    if get_origin(type_) is Literal:
        return " or ".join(get_args(type_))
    if isinstance(type_, type) and issubclass(type_, Enum):
        return " or ".join(choice.value for choice in type_)
    if type_ is int and meta.ge is not None:
        return f"a whole number {f'from {meta.ge} to {meta.le}' if meta.le is not None else f'of at least {meta.ge}'}"
    if get_origin(type_) is tuple:
        return f"a list of {'mappings' if is_struct(get_args(type_)[0]) else 'strings'}"
    return _WORDS.get(getattr(type_, "__name__", ""), "a mapping")


def field_mismatch(error: msgspec.ValidationError, type_: Any, value: Any = UNSET) -> FieldMismatch:
    """An error of msgspec, or of one of our hooks, in our words.

    ``value`` is what was converted to the type; UNSET if it cannot be decoded as plain values.
    """
    parts = _MESSAGE.fullmatch(str(error))
    assert parts is not None, error
    problem, path = parts["problem"], parts["path"] or ""
    try:
        field, type_, value = _follow(path, type_, value)
    except LookupError:
        # The end of the message is the end of an unknown key.
        problem, field = str(error), ""
    if parts["key"]:
        stray = next((key for key in value if not isinstance(key, str)), None) if isinstance(value, dict) else None
        return FieldMismatch(field, "keys that are strings", got_words(stray, "a string"))
    if match := _WRONG_FIELD.fullmatch(problem):
        known = field_types(bare_type(type_)[0])
        field = _joined(field, match[2])
        if match[1] == "missing required":
            return FieldMismatch(field, expected_of(known[match[2]]), "none")
        return FieldMismatch(field, f"one of {', '.join(known)}", f"an unknown key{did_you_mean(match[2], known)}")
    if match := _FROM_HOOK.fullmatch(problem):
        return FieldMismatch(_joined(field, match[1]), match[2], match[3] or "")
    expected, extra = expected_of(type_), bare_type(type_)[1].extra or {}
    got = _GOT.fullmatch(problem)
    if got is None:
        # The value has the right type.
        expected = extra.get("range", expected)
    if extra.get("is_secret"):
        return FieldMismatch(field, expected, "something else")
    if value is not UNSET:
        return FieldMismatch(field, expected, got_words(value, expected))
    return FieldMismatch(field, expected, _WORDS.get(got[1], got[1]) if got else "a very large number")


def _joined(*names: str | None) -> str:
    return ".".join(filter(None, names))


def _follow(path: str, type_: Any, value: Any) -> tuple[str, Any, Any]:
    """The path with the keys that msgspec omits, and the type and the value there. Raises LookupError."""
    steps = []
    for name, index in _STEP.findall(path):
        inner = bare_type(type_)[0]
        key: Any = name
        if name:
            type_ = field_types(inner)[name]
        else:
            type_ = get_args(inner)[-1 if index == "..." else 0]
            # All maps are from strings to strings, so that the error is about the first other value.
            pairs = value.items() if isinstance(value, dict) else ()
            strays = (key for key, held in pairs if not isinstance(held, str))
            key = next(strays, index) if index == "..." else int(index)
        steps.append(f".{name}" if name else f"[{key}]")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key]
    return "".join(steps).removeprefix("."), type_, value


def got_words(value: object, expected: str) -> str:
    # A bare `true` or `1` in YAML needs quotes.
    is_bare = expected == "a string" and isinstance(value, bool | int | float)
    return f"{show(value)} without quotes" if is_bare else show(value)
