"""JSON that Go reads and msgspec does not: concatenated documents, deep nesting, lone surrogates.

msgspec skips unread fields by recursion, which Python limits to some hundred levels. Go's decoder accepts 10,000, and
so does an API server in ``metadata.managedFields[].fieldsV1``, from any client that may write objects. `decode_json`
simplifies a document only after decoding failed, so that usual documents cost nothing.
"""

import re
from typing import Final, TypeVar

import msgspec

from zoneward.kube.input_error import MalformedText

_AT: Final = re.compile(r"(?:JSON is malformed: )?(.*) \(byte ([0-9]+)\)", re.DOTALL)
_SURROGATES: Final = ("invalid utf-16 surrogate pair", "unexpected end of hex escape")
_LONE_SURROGATE: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""A backslash, a surrogate pair, or, as a group, a lone surrogate."""
_DOCUMENT: Final = msgspec.json.Decoder(msgspec.Raw)


def next_document(data: bytes | bytearray, start: int) -> tuple[msgspec.Raw, int]:
    """The undecoded document that starts at an offset, and the offset of its end.

    The document is a view of ``data``. Raises MalformedText, or RecursionError for a document that nests too deep.
    """
    rest = memoryview(data)[start:]
    try:
        return _DOCUMENT.decode(rest), len(data)
    except msgspec.DecodeError as error:
        # The message of msgspec has the offset, except for a truncated document.
        match = _AT.fullmatch(str(error))
    if match is None or match[1] in _SURROGATES:
        # msgspec reports a surrogate at the end of the text as a truncated document.
        surrogate = next((match for match in _LONE_SURROGATE.finditer(data, start) if match[1]), None)
        if surrogate is not None:
            raise MalformedText.at(data, surrogate.start(), "malformed JSON: half of a surrogate pair")
    if match is None:
        raise MalformedText.at(data, len(data), "malformed JSON: the document is cut short")
    problem, offset = match[1], int(match[2])
    if problem == "trailing characters":
        # msgspec reports the offset after the first trailing character.
        return _DOCUMENT.decode(rest[: offset - 1]), start + offset - 1
    raise MalformedText.at(data, start + offset, f"malformed JSON: {problem}")


# --- documents that msgspec does not decode ---------------------------------------------------------------------------

MAX_DEPTH: Final = 32
"""Levels that `simplify_json` keeps. The deepest field that is read is at level 8 of a list."""
_TO_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
"""The next bracket outside of strings. Without backtracking: linear in the length of any text."""
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_REPLACEMENT: Final = rb"\ufffd"
DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Raised by decoding a document that is not JSON or does not fit its type."""
_T = TypeVar("_T")


def decode_json(data: bytes | msgspec.Raw, type_: type[_T]) -> _T:
    """Decode one document; simplify it first if necessary. Raises `DECODE_ERRORS`."""
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError:
        # The document is valid JSON of another type: simplifying does not help.
        raise
    except DECODE_ERRORS:
        return msgspec.json.decode(simplify_json(bytes(data)), type=type_)


def simplify_json(data: bytes | bytearray | memoryview) -> bytes:
    """The same JSON, of the same length, with everything deeper than `MAX_DEPTH` emptied and each lone surrogate
    (``\\ud800``) replaced by U+FFFD, as in Go.

    Text that is not JSON is returned unchanged, so that decoding it reports the same offset.
    """
    simple = bytearray(data)
    depth = start = end = 0
    while (bracket := _TO_BRACKET.match(data, end)) is not None:
        end = bracket.end()
        if data[end - 1] in b"[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                start = end
        else:
            if depth == MAX_DEPTH + 1:
                simple[start : end - 1] = b" " * (end - 1 - start)
            depth -= 1
    if b"\\ud" in simple or b"\\uD" in simple:
        return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape[1] else escape[0], bytes(simple))
    return bytes(simple)
