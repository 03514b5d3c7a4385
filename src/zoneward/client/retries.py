"""What is tried again, and after how long. Values in, values out: no clock, no chance."""

from dataclasses import dataclass
from typing import Final

from zoneward.client.api_errors import ApiError, CallFailed, TooManyRequests, Unreachable
from zoneward.client.backoff import Backoff

_PASSING_FAULTS: Final = frozenset((500, 502, 503, 504))


BACKOFF: Final = Backoff(initial=0.25, cap=8.0, jitter=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """``attempts`` counts the first one too."""

    attempts: int = 5
    backoff: Backoff = BACKOFF

    def pause(self, error: CallFailed, *, failed: int, is_repeatable: bool, chance: float) -> float | None:
        """Seconds until the next attempt after ``failed`` ones; None: none, the error stands.

        ``is_repeatable``: done twice it is as if done once. What is not is only tried again when it was certainly not
        done: nothing was sent, or the server refused it for its load (429). ``chance``, from 0 to 1, spreads clients
        that failed together: over half of the pause, or behind the time that the server asked for.
        """
        if failed >= self.attempts or not _may_pass(error, is_repeatable=is_repeatable):
            return None
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return self.backoff.delay(failed, random=chance, retry_after=retry_after)


def _may_pass(error: CallFailed, *, is_repeatable: bool) -> bool:
    if isinstance(error, TooManyRequests):
        return True
    if isinstance(error, ApiError):
        return is_repeatable and error.status in _PASSING_FAULTS
    # TLS and credentials are as wrong the next time, and what took all the time it was given is not given more.
    return isinstance(error, Unreachable) and (is_repeatable or not error.sent)
