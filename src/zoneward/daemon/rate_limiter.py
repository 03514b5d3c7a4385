"""A limit on how often something is done: client-go's ``flowcontrol`` token bucket, with the time passed in."""


class RateLimiter:
    """``burst`` at once, and ``per_second`` in the long run. ``now`` is in seconds, on any clock."""

    __slots__ = ("_burst", "_per_second", "_tokens", "_updated")

    def __init__(self, *, per_second: float, burst: float, now: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens, self._updated = burst, now

    def try_accept(self, now: float) -> bool:
        """Take a token. False: there is none."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float, *, tokens: float = 1) -> float:
        """Take tokens, even some that are still to come; seconds until they are there."""
        self._refill(now)
        self._tokens -= tokens
        return max(0.0, -self._tokens / self._per_second)

    def is_full(self, now: float) -> bool:
        """Nothing was done for so long that this one says no more than a new one."""
        self._refill(now)
        return self._tokens >= self._burst

    def _refill(self, now: float) -> None:
        # The time of day may go back.
        gained = max(0.0, now - self._updated) * self._per_second
        self._tokens, self._updated = min(self._burst, self._tokens + gained), now
