"""Values that Kubernetes reads and writes anew: quantities and times, in their one form."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final, Literal

from zoneward.kube import quantity
from zoneward.kube.formats import quoted

_DECIMAL: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LIMIT: Final = 2**63 - 1
_QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=4096, typed=True)
def canonical_quantity(text: str | int | float) -> str:
    """``1500m`` for 1.5, ``1Gi`` for 1024Mi (upstream's ``Quantity.CanonicalizeBytes``). Raises ValueError."""
    written = str(text).strip()
    found = re.fullmatch("([+-]?)([0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)", written)
    if not found:
        raise ValueError(_QUANTITY_RULE)
    sign, digits, suffix = found.groups()
    try:
        value = abs(quantity.parse(written))
    except ValueError:
        raise ValueError("unable to parse quantity's suffix") from None
    is_binary = suffix.endswith("i")
    if not value:
        return "0"
    if _is_kept(digits, suffix, is_binary=is_binary):
        return written
    sign = "-" if sign == "-" else ""
    # Finer than nano is rounded up; binary ones are cut at an int64.
    value = Fraction(ceil(value * 10**9), 10**9)
    value = min(value, Fraction(_LIMIT)) if is_binary else value
    if is_binary and value >= 1024 and value.denominator == 1:
        return f"{sign}{_in_binary(value.numerator)}"
    has_exponent = suffix[:1] in {"e", "E"} and suffix != "E"
    number, exponent = _in_thousands(value, most=999 if has_exponent else 18)
    if has_exponent:
        return f"{sign}{number}{f'e{exponent}' if exponent else ''}"
    return f"{sign}{number}{_DECIMAL[exponent]}"


def _is_kept(digits: str, suffix: str, *, is_binary: bool) -> bool:
    """Whether upstream takes a small quantity for canonical at sight, and writes it back as it came."""
    whole, _, fine = digits.partition(".")
    whole = whole.lstrip("0") or whole[:1]
    if is_binary:
        power = _BINARY.index(suffix)
        return not fine and len(whole) <= 14 - 3 * power and int(whole or "0") % 8 != 0
    powers = {name: power for power, name in _DECIMAL.items()}
    scale = (powers[suffix] if suffix in powers else int(suffix[1:])) - len(fine)
    shifted = whole + fine
    is_small = len(shifted) <= 18 and scale >= -9
    return is_small and scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


def _in_binary(size: int) -> str:
    power = 0
    while size % 1024 == 0 and power + 1 < len(_BINARY):
        size, power = size // 1024, power + 1
    return f"{size}{_BINARY[power]}"


def _in_thousands(value: Fraction, *, most: int) -> tuple[int, int]:
    """The mantissa and the largest exponent, a multiple of 3 up to ``most``, that leaves it whole."""
    number, exponent = int(value * 10**9), -9
    while number % 1000 == 0 and exponent < most:
        number, exponent = number // 1000, exponent + 3
    return number, exponent


# --- times ------------------------------------------------------------------------------------------------------------

_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICROSECONDS: Final = "2006-01-02T15:04:05.000000Z07:00"
_ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)
_STEPS: Final = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"),
    ("15", r"\d\d?"), (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d"),
)  # fmt: skip
_ZONE: Final = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_CANONICAL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@lru_cache(maxsize=4096)
def canonical_time(text: str) -> str:
    """RFC 3339 in UTC and whole seconds, fractions cut. Raises ValueError in Go's words."""
    if _CANONICAL.fullmatch(text) and text[:4] > "0001":
        with suppress(ValueError):
            datetime.fromisoformat(text)
            return text
    moment = _parsed(text, _SECONDS, r"([.,]\d+)?").replace(microsecond=0)
    return _written(moment)


@lru_cache(maxsize=4096)
def canonical_micro_time(text: str) -> str:
    """RFC 3339 in UTC with exactly six digits after the point. Raises ValueError in Go's words."""
    return _written(_parsed(text, _MICROSECONDS, r"[.]\d{6}"), fine="microseconds")


def _written(moment: datetime, *, fine: Literal["seconds", "microseconds"] = "seconds") -> str:
    """Empty for Go's zero time, which stands for none."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec=fine)}Z" if moment != _ZERO else ""


def _parsed(text: str, layout: str, fraction: str) -> datetime:
    rest, parts = text, []
    for wanted, pattern in (*_STEPS, (".000000", fraction), _ZONE):
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            problem = f"cannot parse {quoted(rest)} as {quoted(wanted)}"
            raise ValueError(f"parsing time {quoted(text)} as {quoted(layout)}: {problem}")
        parts.append(found[0])
        rest = rest[found.end() :]
    if rest:
        raise ValueError(f"parsing time {quoted(text)}: extra text: {quoted(rest)}")
    year, _, month, _, day, _, hour, _, minute, _, second, fine, zone = parts
    ranges = (("month", month, 12, 1), ("day", day, 31, 1), ("hour", hour, 23, 0), ("minute", minute, 59, 0))
    for name, part, most, least in (*ranges, ("second", second, 59, 0)):
        if not least <= int(part) <= most:
            raise ValueError(f"parsing time {quoted(text)}: {name} out of range")
    try:
        moment = datetime(
            max(1, int(year)), int(month), int(day), int(hour), int(minute), int(second),
            int((fine[1:] + "000000")[:6]) if fine else 0, UTC,
        )  # fmt: skip
    except ValueError:
        raise ValueError(f"parsing time {quoted(text)}: day out of range") from None
    if zone == "Z":
        return moment
    for name, part, most in (("hour", zone[1:3], 24), ("minute", zone[4:6], 60)):
        if int(part) > most:
            raise ValueError(f"parsing time {quoted(text)}: time zone offset {name} out of range")
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    try:
        return moment - offset if zone[0] == "+" else moment + offset
    except OverflowError:
        raise ValueError(f"parsing time {quoted(text)}: year out of range") from None
