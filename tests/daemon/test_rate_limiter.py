"""The limiter allows a burst, and a rate in the long run."""

from zoneward.daemon.rate_limiter import RateLimiter


def test_after_a_burst_as_many_are_accepted_as_come_back() -> None:
    limiter = RateLimiter(per_second=2.0, burst=3.0, now=0.0)
    accepted = [limiter.try_accept(0.0) for _ in range(5)]
    assert accepted == [True, True, True, False, False]
    assert [limiter.try_accept(now) for now in (0.25, 0.5, 0.75, 100.0)] == [False, True, False, True]
    assert [limiter.try_accept(100.0) for _ in range(3)] == [True, True, False]


def test_what_is_reserved_waits_until_its_turn_comes() -> None:
    limiter = RateLimiter(per_second=2.0, burst=3.0, now=0.0)
    assert [limiter.reserve(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert limiter.reserve(10.0) == 0.0


def test_a_clock_that_goes_back_gives_and_takes_nothing() -> None:
    limiter = RateLimiter(per_second=1.0, burst=2.0, now=100.0)
    assert limiter.try_accept(100.0)
    assert limiter.try_accept(0.0)
    assert not limiter.try_accept(0.5)
    assert not limiter.is_full(1.5)
    assert limiter.is_full(3.0)
