"""Parses durations such as ``90s``, ``1m30s`` and ``250ms``, and ranges such as ``5s-15s``."""

import re
from random import Random
from typing import Final, NamedTuple

_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|[dhms])", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


class Span(NamedTuple):
    """A range in seconds."""

    least: float
    most: float

    def draw(self, chance: Random) -> float:
        return chance.uniform(self.least, self.most)


def parse_duration(text: str) -> float:
    """Seconds; ``0`` needs no unit. Raises ValueError with what was expected."""
    if text == "0":
        return 0.0
    if not _WHOLE.fullmatch(text):
        raise ValueError("a time such as 90s, 1m30s or 250ms")
    return sum(float(part[1]) * _UNITS[part[2]] for part in _PART.finditer(text))


def parse_span(text: str) -> Span:
    """A duration or a range. Raises ValueError with what was expected."""
    least, dash, most = text.partition("-")
    try:
        span = Span(parse_duration(least), parse_duration(most if dash else least))
    except ValueError:
        raise ValueError("a time such as 10s, or two such as 5s-15s") from None
    if span.least > span.most:
        raise ValueError("the shorter time first, such as 5s-15s")
    return span


def written(seconds: float) -> str:
    """``1m30s``, ``2h``, ``0.25s``: the shortest form, to hundredths of a second."""
    rest, text = round(seconds, 2), ""
    for unit in "dhm":
        count, rest = divmod(rest, _UNITS[unit])
        text += f"{count:.0f}{unit}" if count else ""
    rest = round(rest, 2)
    return f"{text}{rest:g}s" if rest or not text else text
