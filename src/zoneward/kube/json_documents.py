"""JSON text to documents: one, several in a row, or one per line; found, not decoded."""

import re
from typing import Final

import msgspec

from zoneward.kube.malformed import Malformed

_AT: Final = re.compile(r"(?:JSON is malformed: )?(.*) \(byte ([0-9]+)\)", re.DOTALL)
_DOCUMENT: Final = msgspec.json.Decoder(msgspec.Raw)


def next_document(data: bytes | bytearray, start: int) -> tuple[msgspec.Raw, int]:
    """The document that starts at an offset, undecoded, and an offset from which nothing or the next one comes.

    The document refers to ``data`` and holds no copy. Raises Malformed, or RecursionError for what is nested too deep.
    """
    rest = memoryview(data)[start:]
    try:
        return _DOCUMENT.decode(rest), len(data)
    except msgspec.DecodeError as error:
        # msgspec says where in its message, and nothing where a document is cut short.
        match = _AT.fullmatch(str(error))
    if match is None:
        raise Malformed.at(data, len(data), "malformed JSON: the document is cut short")
    problem, offset = match[1], int(match[2])
    if problem == "trailing characters":
        # For this one problem msgspec counts past the character. The document ends right before it, or after a blank.
        return _DOCUMENT.decode(rest[: offset - 1]), start + offset - 1
    raise Malformed.at(data, start + offset, f"malformed JSON: {problem}")
