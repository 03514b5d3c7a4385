"""Values come back as they were serialized, from few bytes."""

import numpy as np

from zoneward.lab.dask_runner import deserialize, serialize
from zoneward.lab.datasets import Inputs
from zoneward.routing.algorithms.heuristics import one_group


def test_serialized_inputs_and_histograms_are_small_and_come_back_writable() -> None:
    rows = np.arange(65_536, dtype=np.int64)
    inputs = Inputs(rows + 10**9, np.tile(rows % 100, (3, 1)).T.copy(), np.tile(rows % 200, (3, 1)).T.copy())
    packed = serialize(inputs)
    assert len(packed) < 9 * 65_536
    assert np.array_equal(deserialize(packed).supply, inputs.supply)
    histogram = np.zeros(28_000, np.int64)
    histogram[:1000] = 65
    packed = serialize(histogram)
    assert len(packed) < 4_000
    restored = deserialize(packed)
    restored += 1
    assert np.array_equal(restored, histogram + 1)


def test_functions_of_zoneward_travel_by_name_and_others_with_their_code() -> None:
    def other(value: int) -> int:
        return value + 1

    assert deserialize(serialize(one_group, by_value=[one_group])) is one_group
    assert deserialize(serialize({"rule": other}, by_value=[other]))["rule"](1) == 2
