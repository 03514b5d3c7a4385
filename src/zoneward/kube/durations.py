"""Durations as Go writes them, which the configuration and flags take: ``500ms``, ``15s``, ``1m30s``."""

import re
from collections.abc import Callable
from typing import Final

from zoneward.kube.input_error import show

DURATION_EXPECTED: Final = "a duration (500ms, 15s, 1m30s)"
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST: Final = 200
"""Characters. Go's own parser takes any number of parts."""


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it, and as kube-controller-manager's flags take it.

    Raises ValueError for anything else, and for a negative one.
    """
    if text == "0":
        return 0.0
    parts = list(_PART.finditer(text)) if len(text) <= _LONGEST else []
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError(f"expected {DURATION_EXPECTED}, got {text!r}")
    return sum(float(part[1]) * _SECONDS[part[2]] for part in parts)


def duration_between(least: float, most: float, span: str) -> Callable[[object], float]:
    """What reads a value as a duration, in seconds. ``span`` words the bounds: "from 1m to 1h".

    It raises ValueError.
    """

    def read(value: object) -> float:
        # Programs disagree on what a number without a unit means.
        seconds = parse_duration(value if isinstance(value, str) else show(value))
        if not least <= seconds <= most:
            raise ValueError(f"expected a duration {span}, got {show(value)}")
        return seconds

    return read
