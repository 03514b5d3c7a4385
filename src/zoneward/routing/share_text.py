"""Shares that people write as text: ``0.2``, or ``20%`` for the same."""

import re
from fractions import Fraction
from typing import Final, NamedTuple

MAX_OVERLOAD_EXPECTED: Final = "a share from 0 to 10 (0.2), or a percentage from 0% to 1000% (20%)"
_MOST_OVERLOAD: Final = 10
_SHARE: Final = re.compile(r"(?P<number>[0-9]{1,5}(\.[0-9]{1,6})?)(?P<percent>%?)")


class WrittenShare(NamedTuple):
    """A share, and whether it was written with a percent sign."""

    share: Fraction
    is_percentage: bool


def read_share(text: str) -> WrittenShare | None:
    """A share with at most six decimals; None for anything else, such as a sign or blanks."""
    match = _SHARE.fullmatch(text)
    if match is None:
        return None
    return WrittenShare(Fraction(match["number"]) / (100 if match["percent"] else 1), bool(match["percent"]))


def parse_max_overload(text: str) -> Fraction | None:
    """The highest overload that ``Balanced`` may cause; None for anything that is not `MAX_OVERLOAD_EXPECTED`."""
    written = read_share(text)
    return written.share if written is not None and is_max_overload(written.share) else None


def is_max_overload(share: Fraction) -> bool:
    return 0 <= share <= _MOST_OVERLOAD
