"""How long something has been so, as kubectl's tables say it: ``5s``, ``2m30s``, ``4d2h``."""

from datetime import datetime, timedelta
from typing import Final

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
_SECOND: Final = timedelta(seconds=1)
_GRACE: Final = timedelta(seconds=-2)
"""Clocks differ: what is less than this in the future is now."""

_STEPS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Shorter than so many seconds: the unit and its letter, the smaller unit (0: none is told) and its letter."""


def human(duration: timedelta) -> str:
    """At most two units, the second only while it says much: upstream's ``duration.HumanDuration``."""
    if duration <= _GRACE:
        return INVALID
    seconds = max(duration // _SECOND, 0)
    for limit, unit, letter, smaller, smaller_letter in _STEPS:
        if seconds < limit:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{smaller_letter}" if rest else "")
    return f"{seconds // _YEAR}y"


def since(timestamp: str | None, now: datetime) -> str:
    """``timestamp`` as objects have it: RFC 3339, with or without fractions of a second."""
    return human(now - datetime.fromisoformat(timestamp)) if timestamp else UNKNOWN
