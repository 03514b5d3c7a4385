"""What is tried again, and after how long. Values in, values out: no clock, no chance."""

from dataclasses import dataclass
from typing import Final

from zoneward.client.api_errors import ApiError, CallFailed, TooManyRequests, Unreachable

_PASSING_FAULTS: Final = frozenset((500, 502, 503, 504))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """``attempts`` counts the first one too. Pauses start at ``first`` seconds, double, and end at ``longest``."""

    attempts: int = 5
    first: float = 0.25
    longest: float = 8.0

    def pause(self, error: CallFailed, *, failed: int, is_repeatable: bool, chance: float) -> float | None:
        """Seconds until the next attempt after ``failed`` ones; None: none, the error stands.

        ``is_repeatable``: done twice it is as if done once. What is not is only tried again when it was certainly not
        done: nothing was sent, or the server refused it for its load (429). ``chance``, from 0 to 1, spreads clients
        that failed together: over half of the pause, or behind the time that the server asked for.
        """
        if failed >= self.attempts or not _may_pass(error, is_repeatable=is_repeatable):
            return None
        pause = min(self.longest, self.first * 2.0 ** (failed - 1))
        if isinstance(error, ApiError) and error.retry_after is not None:
            return error.retry_after + pause * chance
        return pause * (1 + chance) / 2


def _may_pass(error: CallFailed, *, is_repeatable: bool) -> bool:
    if isinstance(error, TooManyRequests):
        return True
    if isinstance(error, ApiError):
        return is_repeatable and error.status in _PASSING_FAULTS
    # TLS and credentials are as wrong the next time, and what took all the time it was given is not given more.
    return isinstance(error, Unreachable) and (is_repeatable or not error.sent)
