"""JSON as other programs write it: several documents in a row, too many levels, halves of characters.

msgspec skips what nobody reads by recursion, and Python ends that after some hundred levels; Go's decoder takes 10,000.
An API server takes as many in ``metadata.managedFields[].fieldsV1``, from whoever may write any object. Decode first,
and simplify only when that failed: then the usual case costs nothing.
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
"""A backslash, a pair of surrogates, or, as a group, one that has no other half."""
_DOCUMENT: Final = msgspec.json.Decoder(msgspec.Raw)


def next_document(data: bytes | bytearray, start: int) -> tuple[msgspec.Raw, int]:
    """Return the document that starts at an offset, undecoded, and the offset after which the next one may start.

    The document refers to ``data`` and holds no copy. Raises MalformedText, or RecursionError where it nests too deep.
    """
    rest = memoryview(data)[start:]
    try:
        return _DOCUMENT.decode(rest), len(data)
    except msgspec.DecodeError as error:
        # msgspec says where in its message, and nothing where a document is cut short.
        match = _AT.fullmatch(str(error))
    if match is None or match[1] in _SURROGATES:
        # Where one ends the text, msgspec takes the document for cut short.
        half = next((each for each in _LONE_SURROGATE.finditer(data, start) if each[1]), None)
        if half is not None:
            raise MalformedText.at(data, half.start(), "malformed JSON: half of a surrogate pair")
    if match is None:
        raise MalformedText.at(data, len(data), "malformed JSON: the document is cut short")
    problem, offset = match[1], int(match[2])
    if problem == "trailing characters":
        # For this one problem msgspec counts past the character. The document ends right before it, or after a blank.
        return _DOCUMENT.decode(rest[: offset - 1]), start + offset - 1
    raise MalformedText.at(data, start + offset, f"malformed JSON: {problem}")


# --- what msgspec does not decode and other programs do ---------------------------------------------------------------

MAX_DEPTH: Final = 32
"""Levels that `simplify_json` keeps. The deepest field of any list that is read lies at the eighth."""
_TO_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
"""Strings may hold brackets, too. Never goes back: linear in the length, whatever the text."""
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_REPLACEMENT: Final = rb"\ufffd"
DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a document that is not JSON or does not fit its type."""
_T = TypeVar("_T")


def decode_json(data: bytes | msgspec.Raw, type_: type[_T]) -> _T:
    """Decode one document, simplified where it has to be. Raises what is in `DECODE_ERRORS`."""
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError:
        # JSON so far, with a value of another type than expected: simplified it is the same value.
        raise
    except DECODE_ERRORS:
        return msgspec.json.decode(simplify_json(bytes(data)), type=type_)


def simplify_json(data: bytes | bytearray | memoryview) -> bytes:
    """Return the same JSON, of the same length: what nests deeper than `MAX_DEPTH` is empty, and half a character
    (``\\ud800`` alone) is U+FFFD, as Go's decoder has it.

    Text that is not JSON stays as it is: decoding it reports the mistake at the same byte.
    """
    kept = bytearray(data)
    depth = start = end = 0
    while (found := _TO_BRACKET.match(data, end)) is not None:
        end = found.end()
        if data[end - 1] in b"[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                start = end
        else:
            if depth == MAX_DEPTH + 1:
                kept[start : end - 1] = b" " * (end - 1 - start)
            depth -= 1
    if b"\\ud" in kept or b"\\uD" in kept:
        return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape[1] else escape[0], bytes(kept))
    return bytes(kept)
