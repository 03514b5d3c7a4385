"""What tables and screens are made of. Nothing in it steers the terminal on which it is shown."""

from collections.abc import Iterable
from typing import Any, Final

import rich.text

from zoneward.kube.safe_text import printable

AnyText = rich.text.Text
"""Also what comes of a `Text` that is cut, split or joined."""
_LINE_END: Final = rich.text.Text("\n", no_wrap=True)


class Text(rich.text.Text):
    """Text in one line, of which every character can be seen, whatever it is made of."""

    def __init__(self, text: str = "", style: str = "", **options: Any) -> None:
        super().__init__(printable(text), style, **options)

    def append(self, text: "rich.text.Text | str", style: Any = None) -> "Text":
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


def lines(texts: Iterable[str | AnyText], style: str = "") -> AnyText:
    """Each in a line of its own."""
    return _LINE_END.join(each if isinstance(each, AnyText) else Text(each, style) for each in texts)


def as_they_come(texts: Iterable[str], style: str = "") -> AnyText:
    """The same, in lines that go on below where they are too long."""
    joined = lines(texts, style)
    joined.no_wrap = None
    return joined
