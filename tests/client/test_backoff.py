"""Delays grow up to a cap, and randomness and the server have their say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.client.backoff import Backoff


@pytest.mark.parametrize(
    ("backoff", "random", "delays"),
    [
        (Backoff(initial=1.0, cap=10.0), 1.0, [1, 2, 4, 8, 10, 10]),
        (Backoff(initial=1.0, cap=10.0, factor=3.0), 1.0, [1, 3, 9, 10, 10, 10]),
        (Backoff(initial=1.0, cap=10.0), 0.0, [1, 2, 4, 8, 10, 10]),
        (Backoff(initial=1.0, cap=10.0, jitter=0.5), 0.0, [0.5, 1, 2, 4, 5, 5]),
        (Backoff(initial=1.0, cap=10.0, jitter=0.5), 0.5, [0.75, 1.5, 3, 6, 7.5, 7.5]),
        (Backoff(initial=1.0, cap=10.0, jitter=1.0), 0.0, [0, 0, 0, 0, 0, 0]),
    ],
)
def test_delays_grow_by_the_factor_up_to_the_cap_and_jitter_shortens_them(
    backoff: Backoff, random: float, delays: list[float]
) -> None:
    assert [backoff.delay(failures, random=random) for failures in range(1, 7)] == delays


@given(st.integers(1, 10**9), st.floats(0, 1), st.none() | st.floats(0, 1000))
def test_a_delay_is_bounded_and_never_shorter_than_the_server_asked_for(
    failures: int, random: float, retry_after: float | None
) -> None:
    delay = Backoff(initial=0.25, cap=60.0, jitter=0.5).delay(failures, random=random, retry_after=retry_after)
    assert (0.125 if retry_after is None else retry_after) <= delay <= (retry_after or 0.0) + 60.0
