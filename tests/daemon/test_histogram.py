"""Values are counted below the bounds that Prometheus counts them below."""

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from zoneward.daemon.histogram import PER_SYNC, SECONDS, SLICES_PER_SYNC, Histogram


@given(st.lists(st.sampled_from([0, 0.001, 1, 2, 3, 4, 32_768, 40_000])))
def test_a_bucket_has_every_value_up_to_its_bound(values: list[float]) -> None:
    histogram = Histogram(PER_SYNC)
    for value in values:
        histogram.observe(value)
    assert list(histogram.buckets()) == [
        (bound, bisect_right(sorted(values), bound)) for bound in (*PER_SYNC, float("inf"))
    ]
    assert (histogram.count, histogram.total) == (len(values), sum(values))


def test_bounds_are_upstreams() -> None:
    assert (PER_SYNC[0], PER_SYNC[-1], len(PER_SYNC)) == (2, 32_768, 15)
    assert SLICES_PER_SYNC[:11] == (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
    assert all(list(bounds) == sorted(set(bounds)) for bounds in (PER_SYNC, SLICES_PER_SYNC, SECONDS))
