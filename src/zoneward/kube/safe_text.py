"""Text from a cluster that is safe to show: in a terminal, and in a spreadsheet.

Names, zones and messages may hold anything: sequences that control a terminal, ends of lines, characters that reverse
the direction of what follows or that nobody sees.
"""

import re
from typing import Final, TypeVar
from urllib.parse import urlsplit

_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0]")
"""Characters that Python calls printable and nobody sees: fillers, joiners and variation selectors."""


def printable(text: str) -> str:
    """Return the text as one line, with a question mark for each character that cannot be seen."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else "?" for each in text)
    return text if text.isascii() else _UNSEEN.sub("?", text)


CSV_FORMULA: Final = r"\A([=+\-@\t\r\n])"
"""The first character of text that a spreadsheet takes for a formula, as a group."""
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
