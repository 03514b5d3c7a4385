"""Whole numbers in texts of requests, as Go's ``strconv`` reads them and in its words."""

import re
from typing import Final

from zoneward.kube.formats import quoted

_SIGNED: Final = re.compile(r"[+-]?[0-9]+")
_UNSIGNED: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 20
"""More than these, leading zeros aside, are out of any range; Python itself refuses thousands of them."""


def parse_int(text: str) -> int:
    """64 bits. Raises ValueError."""
    return _parsed(text, _SIGNED, "ParseInt", range(-(1 << 63), 1 << 63))


def parse_uint(text: str) -> int:
    """64 bits, without a sign. Raises ValueError."""
    return _parsed(text, _UNSIGNED, "ParseUint", range(1 << 64))


def _parsed(text: str, form: re.Pattern[str], function: str, known: range) -> int:
    if form.fullmatch(text) is None:
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")
    if len(text.lstrip("+-0")) > _DIGITS or (number := int(text)) not in known:
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: value out of range")
    return number
