"""Makes text from a cluster safe for terminals and spreadsheets.

Names, zones and messages may contain terminal control sequences, newlines, and characters that are invisible or reverse
the text direction.
"""

import re
from base64 import b64encode
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0]")
"""Invisible characters that Python calls printable: fillers, joiners and variation selectors."""

_ABOVE_ASCII: Final = re.compile("[\x7f-\U0010ffff]")


def printable(text: str) -> str:
    """The text as one line, with a question mark for each invisible character."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "?" for character in text)
    return text if text.isascii() else _UNSEEN.sub("?", text)


def escape_json(document: bytes) -> bytes:
    """The same JSON with escapes for characters above ASCII that are invisible or control a terminal."""
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
"""The start of text that a spreadsheet reads as a formula, as a group: spreadsheets may skip blanks and invisible
characters, and accept other widths of ``=+-@``. A pattern for Python and for polars.
"""
_FORMULA: Final = re.compile(CSV_FORMULA)
_Value = TypeVar("_Value")


def safe_csv_cell(value: _Value) -> "_Value | str":
    """Printable text, with an apostrophe before a formula, as OWASP advises (§ CSV Injection); numbers unchanged."""
    return printable(_FORMULA.sub(r"'\1", value)) if isinstance(value, str) else value


def without_password(address: str) -> str:
    """A URL without its user name and password; any other text unchanged."""
    if "@" not in address or "://" not in address:
        return address
    try:
        parts = urlsplit(address)
    except ValueError:
        scheme, _, rest = address.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def basic_authorization(address: str) -> str | None:
    """The header ``Authorization`` for the user name and password of a URL; None without a user name.

    Raises ValueError for text that is no URL.
    """
    parts = urlsplit(address)
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"
