"""Text for a person's terminal.

Names, zones and messages may hold anything: sequences that steer a terminal, ends of lines, characters that turn the
direction of what follows or can't be seen at all.
"""

import re
from typing import Final

_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0]")
"""What Python takes for visible, and nobody sees: fillers, joiners and selectors of a form."""


def printable(text: str) -> str:
    """The text in one line, with a question mark for each character that is none to be seen."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else "?" for each in text)
    return text if text.isascii() else _UNSEEN.sub("?", text)
