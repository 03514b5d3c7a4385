"""Parcels give back what was put in, and are small."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from zoneward.lab.datasets import InMemoryChunk, Inputs
from zoneward.lab.serialization import Integers, deserialize, serialize
from zoneward.routing.algorithms.one_group import one_group

_EXTREMES = (-(2**63), 2**63 - 1, -1, 0, 1, 255, 256, 2**32 - 1, 2**32)
NUMBERS = st.sampled_from(_EXTREMES) | st.integers(-(2**63), 2**63 - 1)


@given(arrays(np.int64, array_shapes(max_dims=3, max_side=40), elements=NUMBERS, fill=st.sampled_from(_EXTREMES)))
def test_whole_numbers_come_back_as_they_were(whole: Integers) -> None:
    back = deserialize(serialize(whole))
    assert back.dtype == whole.dtype
    assert back.shape == whole.shape
    assert np.array_equal(back, whole)


@pytest.mark.parametrize("value", [0, 7, -(2**63)])
def test_arrays_of_one_number_and_none_come_back_writable(value: int) -> None:
    for size in (0, 1, 1000):
        back = deserialize(serialize(np.full(size, value, np.int64)))
        assert back.tolist() == [value] * size
        back += 1


def test_other_arrays_are_left_alone() -> None:
    for other in (np.linspace(0, 1, 1000), np.arange(2000, dtype=np.int64).reshape(2, 1000).T, np.arange(1000) > 3):
        back = deserialize(serialize(other))
        assert back.dtype == other.dtype
        assert back.flags.c_contiguous == other.flags.c_contiguous
        assert np.array_equal(back, other)


def test_inputs_and_histograms_are_small_on_their_way() -> None:
    rows = np.arange(65_536, dtype=np.int64)
    inputs = Inputs(rows + 10**9, np.tile(rows % 100, (3, 1)).T.copy(), np.tile(rows % 200, (3, 1)).T.copy())
    assert len(serialize(InMemoryChunk(inputs))) < 9 * 65_536
    histogram = np.zeros(28_000, np.int64)
    histogram[:1000] = 65
    assert len(serialize(histogram)) < 4_000


def test_functions_of_zoneward_travel_by_name_and_others_with_their_code() -> None:
    def other(value: int) -> int:
        return value + 1

    assert deserialize(serialize(one_group, by_value=[one_group])) is one_group
    assert deserialize(serialize({"rule": other}, by_value=[other]))["rule"](1) == 2
