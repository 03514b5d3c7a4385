"""What decoded JSON does not tell: duplicate fields, and in Go's words (``encoding/json``) why it cannot be read."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_AFTER_VALUE: Final = {"Expecting ':' delimiter": "after object key", "Extra data": "after top-level value"}
_BEFORE_VALUE: Final = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Expecting value": "looking for beginning of value",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}
_HALVES: Final = re.compile("[\ud800-\udfff]")
"""Of characters that UTF-16 writes as two; alone they are none."""


def read_json(body: bytes) -> Any:
    """Raises ValueError: ``invalid character 'a' looking for beginning of value``, or that the input ends early."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        # Go goes down to 10,000.
        raise ValueError(f"invalid character {body.lstrip()[:1].decode()!r} exceeded max depth") from None
    text = body.decode(errors="replace")
    try:
        # Rare bodies that only one of the two takes: invalid UTF-8, numbers without end, halves of characters.
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(_problem(text, error)) from None
    written = json.dumps(value, ensure_ascii=False)
    return value if _HALVES.search(written) is None else json.loads(_HALVES.sub("\ufffd", written))


def _no_constant(word: str) -> Any:
    raise ValueError(f"invalid character {word[0]!r} looking for beginning of value")


def _problem(text: str, error: json.JSONDecodeError) -> str:
    at = error.pos
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    if at >= len(text) or error.msg == "Unterminated string starting at":
        return "unexpected end of JSON input"
    if error.msg == "Expecting ',' delimiter":
        context = "after object key:value pair" if _is_in_object(text[:at]) else "after array element"
    else:
        told = next((words for start, words in _BEFORE_VALUE.items() if error.msg.startswith(start)), None)
        context = told or _AFTER_VALUE.get(error.msg, "looking for beginning of value")
    return f"invalid character {text[at]!r} {context}"


def _is_in_object(text: str) -> bool:
    opened, is_string, is_escaped = [], False, False
    for character in text:
        if is_string:
            is_string = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_string = True
        elif character in "{[":
            opened.append(character)
        elif character in "}]" and opened:
            opened.pop()
    return bool(opened) and opened[-1] == "{"


# --- duplicates -------------------------------------------------------------------------------------------------------


class _Pairs(list[tuple[str, Any]]):
    """A JSON object before its duplicate fields are lost."""


def duplicate_fields(body: bytes, value: Any) -> list[str]:
    """One ``duplicate field "..."`` for each field that JSON has more than once. ``value`` is what the body holds."""
    # Reading a body for them takes longer than all the rest. There are none where writing it anew loses no colon.
    if body.count(b'":') == msgspec.json.encode(value).count(b'":') and b'" :' not in body:
        return []
    try:
        return list(dict.fromkeys(_duplicates(json.loads(body, object_pairs_hook=_Pairs), "")))
    except ValueError:
        return []


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for name, each in value:
            inner = f"{path}.{name}" if path else name
            if name in seen:
                yield f'duplicate field "{inner}"'
            seen.add(name)
            yield from _duplicates(each, inner)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _duplicates(each, f"{path}[{index}]")
