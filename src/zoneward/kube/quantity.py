"""Kubernetes quantities, exact: ``3920m``, ``4``, ``3.92``, ``1e3``, ``2k``, ``1Ki``.

The grammar is the API's own: a signed decimal number and either a decimal exponent, a decimal suffix (``n u m k M G T P
E``) or a binary one (``Ki Mi Gi Ti Pi Ei``). Values are fractions, so that adding them never loses anything.
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final

_NUMBER: Final = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([a-zA-Z]{0,2}))", re.ASCII)
_LARGEST_EXPONENT: Final = 1000
"""An API server takes any. Beyond this one, what is added and compared is the same as at it."""
_MOST_DIGITS: Final = 4000
"""Digits behind the point that are read, and digits before it, beyond which a number counts as that large."""
_SUFFIXES: Final = {"": Fraction(1)}
for _power, _suffix in enumerate("num", start=-3):
    _SUFFIXES[_suffix] = Fraction(1000) ** _power
for _power, _suffix in enumerate("kMGTPE", start=1):
    _SUFFIXES[_suffix] = Fraction(1000) ** _power
    _SUFFIXES[f"{_suffix.upper()}i"] = Fraction(1024) ** _power


@lru_cache(maxsize=4096)
def parse(text: str | int | float) -> Fraction:
    """The exact value of a quantity. Raises ValueError, with what was expected, where it is none.

    A number without quotes in YAML or JSON arrives as int or float; the shortest text that reads back as the same float
    is what its author wrote.
    """
    written = repr(text) if isinstance(text, float) else str(text)
    match = _NUMBER.fullmatch(written)
    if match is None or (match[4] is not None and match[4] not in _SUFFIXES):
        raise ValueError(f"expected a quantity such as 4, 3920m, 3.92 or 1e3, got {written!r}")
    sign, digits, exponent, suffix = match.groups()
    scale = _SUFFIXES[suffix] if exponent is None else Fraction(10) ** _bounded(exponent)
    whole, _, part = digits.partition(".")
    whole = whole.lstrip("0") or "0"
    if len(whole) > _MOST_DIGITS:
        whole, part = "9" * _MOST_DIGITS, ""
    value = Fraction(f"{whole}.{part[:_MOST_DIGITS]}" if part else whole) * scale
    return -value if sign == "-" else value


def _bounded(exponent: str) -> int:
    sign, digits = exponent[:1].strip("+0123456789"), exponent.lstrip("+-").lstrip("0") or "0"
    value = int(digits) if len(digits) <= len(str(_LARGEST_EXPONENT)) else _LARGEST_EXPONENT
    return min(value, _LARGEST_EXPONENT) * (-1 if sign else 1)


def in_milli(value: Fraction) -> int:
    """A quantity in thousandths, rounded up as Kubernetes does (``Quantity.MilliValue``)."""
    return ceil(value * 1000)
