"""Durations as Go writes them, which the configuration and flags take: ``500ms``, ``15s``, ``1m30s``."""

import re
from typing import Final

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
