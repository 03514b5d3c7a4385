"""Delays between attempts, as client-go's ``wait.Backoff``. Values in, values out: no clock, no randomness."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Seconds to wait after a failure: ``initial``, multiplied by ``factor`` after each further one, ``cap`` at most.

    ``jitter``, from 0 to 1, is the share of each delay that randomness may take away, so that clients that failed
    together do not come back together.
    """

    initial: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, *, random: float = 1.0, retry_after: float | None = None) -> float:
        """Seconds until the next attempt after so many failures in a row, at least 1.

        ``random``, from 0 to 1, is the caller's; at 1 nothing is taken away. A time that the server asked for is
        waited out, and randomness adds up to one delay to it.
        """
        # A float holds no 2.0**1024.
        delay = min(self.cap, self.initial * self.factor ** min(failures - 1, 60))
        if retry_after is not None:
            return retry_after + delay * random
        return delay * (1 - self.jitter * (1 - random))
