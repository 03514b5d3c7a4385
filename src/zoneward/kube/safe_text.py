"""Text from a cluster that is safe to show: in a terminal, and in a spreadsheet.

Names, zones and messages may hold anything: sequences that control a terminal, ends of lines, characters that reverse
the direction of what follows or that nobody sees.
"""

import re
from typing import Final, TypeVar
from urllib.parse import urlsplit

_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0]")
"""Characters that Python calls printable and nobody sees: fillers, joiners and variation selectors."""

_ABOVE_ASCII: Final = re.compile("[\x7f-\U0010ffff]")


def printable(text: str) -> str:
    """Return the text as one line, with a question mark for each character that cannot be seen."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else "?" for each in text)
    return text if text.isascii() else _UNSEEN.sub("?", text)


def escape_json(document: bytes) -> bytes:
    """Return the same JSON with an escape for each character above ASCII that nobody sees or that steers a terminal."""
    if document.isascii() and b"\x7f" not in document:
        return document
    return _ABOVE_ASCII.sub(_json_escape, document.decode()).encode()


def _json_escape(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable() and not _UNSEEN.match(character):
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


CSV_FORMULA: Final = (
    r"\A([\s\u00ad\u200b-\u200f\u2060\ufeff]*"
    r"[=+\-@\t\r\n\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20])"
)
"""The start of text that a spreadsheet takes for a formula, as a group: it may skip blanks and what nobody sees, and
take other widths of these characters for the same. Both Python and polars read the pattern.
"""
_FORMULA: Final = re.compile(CSV_FORMULA)
_Value = TypeVar("_Value")


def safe_csv_cell(value: _Value) -> "_Value | str":
    """Put an apostrophe before text that a spreadsheet would take for a formula; numbers stay as they are.

    As OWASP advises (§ CSV Injection). The text is also made printable, so that it cannot end a row.
    """
    return printable(_FORMULA.sub(r"'\1", value)) if isinstance(value, str) else value


def without_password(place: str) -> str:
    """Return an address without the name and the password that may stand in it; anything else as it is."""
    if "@" not in place or "://" not in place:
        return place
    try:
        parts = urlsplit(place)
    except ValueError:
        scheme, _, rest = place.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
