"""Which lines of a log are the same again: a few of them are written, the rest is counted."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class _LineCount:
    since: float
    written: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class RepeatDecision:
    """``is_written`` False: leave the line out. ``left_out``: how many before it were, since one was last written."""

    is_written: bool
    left_out: int = 0


_WRITTEN: Final = RepeatDecision(True)
_LEFT_OUT: Final = RepeatDecision(False)


class RepeatFilter:
    """``burst`` lines with the same key in each ``period`` of seconds. ``most`` keys are remembered: of others, that
    were seen longest ago, what was left out is forgotten."""

    def __init__(self, *, burst: int = 5, period: float = 60.0, most: int = 5_000) -> None:
        self._burst, self._period, self._most = burst, period, most
        self._seen: dict[Hashable, _LineCount] = {}

    def ask(self, key: Hashable, *, now: float) -> RepeatDecision:
        """Whether a line with this key is written at ``now`` (s, on a clock that never goes back)."""
        seen = self._seen.pop(key, None)
        if seen is None:
            if len(self._seen) >= self._most:
                del self._seen[next(iter(self._seen))]
            seen = _LineCount(now)
        # Last in, so that the first is the one seen longest ago.
        self._seen[key] = seen
        if now - seen.since >= self._period:
            seen.since, seen.written = now, 0
        if seen.written >= self._burst:
            seen.left_out += 1
            return _LEFT_OUT
        seen.written += 1
        if not seen.left_out:
            return _WRITTEN
        verdict, seen.left_out = RepeatDecision(True, seen.left_out), 0
        return verdict
