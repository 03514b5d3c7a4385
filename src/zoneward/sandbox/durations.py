"""Ranges of durations such as ``5s-15s``, and durations as the sandbox writes them."""

from random import Random
from typing import Final, NamedTuple

from zoneward.kube.settings import parse_duration

_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0}


class Span(NamedTuple):
    """A range in seconds."""

    least: float
    most: float

    def draw(self, chance: Random) -> float:
        return chance.uniform(self.least, self.most)


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
    for unit, length in _UNITS.items():
        count, rest = divmod(rest, length)
        text += f"{count:.0f}{unit}" if count else ""
    rest = round(rest, 2)
    return f"{text}{rest:g}s" if rest or not text else text
