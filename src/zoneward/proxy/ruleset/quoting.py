"""Text of others made safe for a command of nft. All else in a command is a value that was parsed, or our own words.

nft knows no escape within quotes, so that what it would take for the end of a word or a line is replaced or refused.
"""

import re
from typing import Final

from zoneward.kube.safe_text import printable

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9/_.-]")
_STRING: Final = re.compile(r"[!#-\[\]-~]+")
"""Printable ASCII without blanks, quotes and backslashes."""


def name_part(text: str) -> str:
    """A part of the name of a chain or a set, after a letter: what no name can have becomes a dot.

    Two texts may become the same one: who needs a name of its own adds a digest.
    """
    return _NO_NAME.sub(".", text)


def quoted(text: str) -> str:
    """A text within quotes. Raises ValueError for one that cannot be."""
    if not _STRING.fullmatch(text):
        raise ValueError(f"expected printable characters without blanks, quotes and backslashes, got {text!r}")
    return f'"{text}"'


def comment(text: str) -> str:
    """A line that nft skips."""
    return f"# {printable(text)}"
