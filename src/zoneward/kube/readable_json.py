"""JSON that other programs read and msgspec does not: what is nested too deep, and halves of characters.

msgspec skips what nobody reads by recursion, and Python ends that after some hundred levels; Go's decoder takes 10,000.
An API server takes as many in ``metadata.managedFields[].fieldsV1``, from whoever may write any object. Decode first,
and come here only when that failed: then the usual case costs nothing.
"""

import re
from typing import Final, TypeVar

import msgspec

DEEPEST: Final = 32
"""Levels that are kept. The deepest field of any list that is read lies at the eighth."""
_TO_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
"""Strings may hold brackets, too. Never goes back: linear in the length, whatever the text."""
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_REPLACEMENT: Final = rb"\ufffd"
DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for what does not fit."""
_T = TypeVar("_T")


def decode_json(data: bytes | msgspec.Raw, type_: type[_T]) -> _T:
    """One document. Raises what is in `DECODE_ERRORS`."""
    try:
        return msgspec.json.decode(data, type=type_)
    except DECODE_ERRORS:
        return msgspec.json.decode(simplify_json(bytes(data)), type=type_)


def simplify_json(data: bytes | bytearray | memoryview) -> bytes:
    """The same JSON, of the same length: nested deeper than `DEEPEST`, lists and mappings are empty, and half a
    character (``\\ud800`` alone) is U+FFFD, as Go's decoder has it.

    What is no JSON stays what it is; decoding tells what is wrong, at the same byte.
    """
    kept = bytearray(data)
    depth = start = end = 0
    while (found := _TO_BRACKET.match(data, end)) is not None:
        end = found.end()
        if data[end - 1] in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                start = end
        else:
            if depth == DEEPEST + 1:
                kept[start : end - 1] = b" " * (end - 1 - start)
            depth -= 1
    if b"\\ud" in kept or b"\\uD" in kept:
        return _ESCAPE.sub(lambda escape: _REPLACEMENT if escape[1] else escape[0], bytes(kept))
    return bytes(kept)
