"""JSON text to documents: one, several in a row, or one per line; found, not decoded."""

import re
from typing import Final

import msgspec

from zoneward.kube.malformed import MalformedText

_AT: Final = re.compile(r"(?:JSON is malformed: )?(.*) \(byte ([0-9]+)\)", re.DOTALL)
_SURROGATES: Final = ("invalid utf-16 surrogate pair", "unexpected end of hex escape")
_ESCAPE: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""A backslash, a pair of surrogates, or, as a group, one that has no other half."""
_DOCUMENT: Final = msgspec.json.Decoder(msgspec.Raw)


def next_document(data: bytes | bytearray, start: int) -> tuple[msgspec.Raw, int]:
    """The document that starts at an offset, undecoded, and an offset from which nothing or the next one comes.

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
        half = next((each for each in _ESCAPE.finditer(data, start) if each[1]), None)
        if half is not None:
            raise MalformedText.at(data, half.start(), "malformed JSON: half of a surrogate pair")
    if match is None:
        raise MalformedText.at(data, len(data), "malformed JSON: the document is cut short")
    problem, offset = match[1], int(match[2])
    if problem == "trailing characters":
        # For this one problem msgspec counts past the character. The document ends right before it, or after a blank.
        return _DOCUMENT.decode(rest[: offset - 1]), start + offset - 1
    raise MalformedText.at(data, start + offset, f"malformed JSON: {problem}")
