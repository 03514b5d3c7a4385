"""Delays between attempts, as in client-go's ``wait.Backoff``. Pure: no clock, no random numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Seconds to wait after a failure: ``initial``, multiplied by ``factor`` after each further one, at most ``cap``.

    ``jitter``, from 0 to 1, is the share of each delay that is random, so that clients that failed together do not
    retry together.
    """

    initial: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int, *, random: float = 1.0, retry_after: float | None = None) -> float:
        """Seconds until the next attempt after this number of consecutive failures, at least 1.

        The caller draws ``random``, from 0 to 1; 1 gives the whole delay. If the server asked for a time
        (``retry_after``), it is waited out, and the random share adds up to one delay to it.
        """
        # 2.0**1024 overflows a float.
        delay = min(self.cap, self.initial * self.factor ** min(failures - 1, 60))
        if retry_after is not None:
            return retry_after + delay * random
        return delay * (1 - self.jitter * (1 - random))
