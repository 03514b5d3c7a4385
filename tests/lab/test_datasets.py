"""Inputs to score: which rows there are, in which order, and that it does not matter who asks for them, or how."""

import pickle
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, islice, permutations
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples

from zoneward.lab import COMPUTED_DATASETS, datasets
from zoneward.lab.datasets import (
    ROWS_PER_CHUNK,
    ComputedDataset,
    Dataset,
    Inputs,
    Integers,
    Range,
    RowSelection,
)

Triple = tuple[int, ...]
KEP_ROWS = 39_273_145
FIRST_PART = 38_907_000
PERMUTED = ComputedDataset("kep-permuted", seed=2004)
UNIFORM = ComputedDataset("uniform", seed=7, zones=Range(2, 5), nodes=Range(1, 4), endpoints=Range(0, 9), inputs=40_000)


def together(dataset: Dataset) -> Inputs:
    chunks = [chunk.inputs() for chunk in dataset.chunks()]
    return Inputs(
        np.concatenate([chunk.numbers for chunk in chunks]),
        np.concatenate([chunk.demand for chunk in chunks]),
        np.concatenate([chunk.supply for chunk in chunks]),
    )


def listed(dataset: Dataset) -> list[tuple[int, Triple, Triple]]:
    return [
        (value, tuple(demand), tuple(supply))
        for chunk in dataset.chunks()
        for inputs in (chunk.inputs(),)
        for value, demand, supply in zip(
            inputs.numbers.tolist(), inputs.demand.tolist(), inputs.supply.tolist(), strict=True
        )
    ]


@cache
def ascending(values: range) -> list[Triple]:
    """Every ascending triple, written out."""
    return [(a, b, c) for a in values for b in values if b >= a for c in values if c >= b]


@cache
def sampled(name: str, rows: int, seed: int = 2004) -> Inputs:
    return together(ComputedDataset(name, seed=seed, sample=rows))


@pytest.mark.parametrize(
    ("name", "most", "rows"), [("kep", 100, KEP_ROWS), ("small", 20, 389_400), ("medium", 50, 5_153_500)]
)
def test_any_row_of_a_grid_is_that_of_three_nested_loops(name: str, most: int, rows: int) -> None:
    """5,000 rows spread over all, and every node triple is among them."""
    nodes, endpoints = ascending(range(1, 11)), ascending(range(most + 1))[1:]
    large = ascending(range(100, 1001, 7)) if name == "kep" else []
    assert ComputedDataset(name).rows == len(nodes) * len(endpoints) + len(large) == rows
    inputs = sampled(name, 5_000)
    assert len(inputs.numbers) == 5_000
    for value, demand, supply in zip(
        inputs.numbers.tolist(), inputs.demand.tolist(), inputs.supply.tolist(), strict=True
    ):
        row, column = divmod(value, len(endpoints))
        wanted = (nodes[row], endpoints[column]) if row < 220 else ((30, 30, 30), large[value - FIRST_PART])
        assert (tuple(demand), tuple(supply)) == wanted, value
    assert {tuple(item) for item in inputs.demand.tolist()} == {*nodes, *([(30, 30, 30)] if large else [])}


def test_representative_holds_the_19_inputs_of_the_proposals_tool() -> None:
    rows = listed(ComputedDataset("representative"))
    assert len(rows) == ComputedDataset("representative").rows == 19
    assert rows[1] == (1, (30, 30, 30), (100, 100, 0))
    assert rows[-1] == (18, (50, 60, 70), (100, 120, 140))


def test_every_row_of_kep_permuted_is_one_of_kep_with_its_endpoints_in_some_order() -> None:
    plain, permuted = sampled("kep", 20_000), sampled("kep-permuted", 20_000)
    assert (plain.numbers == permuted.numbers).all()
    assert (plain.demand == permuted.demand).all()
    assert (plain.supply == np.sort(permuted.supply, axis=1)).all()


def orders(inputs: Inputs) -> Integers:
    result = np.argsort(inputs.supply, axis=1)[[len(set(row)) == 3 for row in inputs.supply.tolist()]]
    value = {order: index for index, order in enumerate(permutations(range(3)))}
    return np.array([value[tuple(row)] for row in result.tolist()])


def chi_square(counts: Sequence[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts)


def test_all_six_orders_are_equally_frequent() -> None:
    """And say nothing about the order in the row after it. 20.5 and 66.6 are passed once in a thousand seeds."""
    inputs = RowSelection(PERMUTED, 0, range(20_000_000, 20_100_000)).inputs()
    result = orders(inputs)
    assert len(result) > 90_000
    assert chi_square([int(count) for count in np.bincount(result, minlength=6)]) < 20.5
    pairs = np.bincount(result[:-1] * 6 + result[1:], minlength=36)
    assert chi_square([int(count) for count in pairs]) < 66.6


def test_uniform_divides_its_inputs_over_the_numbers_of_zones() -> None:
    dataset = replace(UNIFORM, inputs=10_003)
    zones = Counter(len(demand) for _, demand, _ in listed(dataset))
    assert zones == {2: 2500, 3: 2501, 4: 2501, 5: 2501}
    assert dataset.rows == 10_003


def test_uniform_draws_every_number_of_its_ranges_equally_often() -> None:
    """Each zone's for itself: what one has says nothing about another. Five standard deviations of 10,000 rows."""
    for chunk in UNIFORM.chunks():
        inputs = chunk.inputs()
        zones = inputs.demand.shape[1]
        for zone in range(zones):
            for numbers, low, high in ((inputs.demand[:, zone], 1, 4), (inputs.supply[:, zone], 0, 9)):
                counts = np.bincount(numbers - low, minlength=high - low + 1)
                assert numbers.min() == low
                assert numbers.max() == high
                assert chi_square([int(count) for count in counts]) < 40
        columns = np.concatenate([inputs.demand, inputs.supply], axis=1)
        for one, other in combinations(range(2 * zones), 2):
            assert abs(float(np.corrcoef(columns[:, one], columns[:, other])[0, 1])) < 0.05


@pytest.mark.parametrize(
    "dataset", [replace(UNIFORM, inputs=2000), replace(UNIFORM, inputs=3000, sample=2000), PERMUTED]
)
def test_the_seed_decides(dataset: ComputedDataset) -> None:
    """About the order of endpoints, numbers, and which rows are in a sample."""
    one, again, other = (
        listed(replace(item, sample=2000)) for item in (dataset, replace(dataset), replace(dataset, seed=8))
    )
    assert one == again
    same = sum(item == that for item, that in zip(one, other, strict=True))
    assert same < (20 if dataset.name == "uniform" else 1000)


@pytest.mark.parametrize("name", COMPUTED_DATASETS)
@pytest.mark.parametrize("sample", [None, 70_000])
def test_chunks_hold_every_row_once_in_order(name: str, sample: int | None) -> None:
    dataset = replace(UNIFORM, name=name, inputs=300_000, sample=sample)
    following = 0
    rows = 0
    for chunk in dataset.chunks():
        if isinstance(chunk, RowSelection) and isinstance(chunk.numbers, range):
            # Of whole datasets only the numbers: there are forty million.
            first = sum(part.rows for part in datasets._parts(dataset)[: chunk.part])
            assert first + chunk.numbers.start == following
            following = first + chunk.numbers.stop
            assert 0 < len(chunk.numbers) <= ROWS_PER_CHUNK
            rows += len(chunk.numbers)
        else:
            inputs = chunk.inputs()
            assert 0 < len(inputs.numbers) <= ROWS_PER_CHUNK
            assert inputs.numbers[0] >= following
            assert (np.diff(inputs.numbers) > 0).all()
            following = int(inputs.numbers[-1]) + 1
            rows += len(inputs.numbers)
    assert rows == dataset.rows
    assert rows == following or sample is not None


DATASETS = st.builds(
    ComputedDataset,
    name=st.just("uniform"),
    seed=st.integers(0, 2**32 - 1),
    zones=st.builds(lambda low, more: Range(low, low + more), st.integers(2, 6), st.integers(0, 5)),
    nodes=st.builds(lambda low, more: Range(low, low + more), st.integers(0, 5), st.integers(0, 1000)),
    endpoints=st.builds(lambda low, more: Range(low, low + more), st.integers(0, 5), st.integers(0, 1000)),
    inputs=st.integers(1, 300),
    sample=st.one_of(st.none(), st.integers(1, 400)),
)


@examples(30)
@given(DATASETS, st.integers(1, 50))
def test_rows_are_the_same_in_chunks_of_any_size(dataset: ComputedDataset, size: int) -> None:
    whole = listed(dataset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "ROWS_PER_CHUNK", size)
        assert listed(dataset) == whole
        sizes = [len(chunk.inputs().numbers) for chunk in dataset.chunks()]
    assert max(sizes) <= size
    assert len(sizes) >= ceil(dataset.rows / size)
    for value, demand, supply in whole:
        assert value < dataset.inputs
        assert all(dataset.nodes.low <= item <= dataset.nodes.high for item in demand)
        assert all(dataset.endpoints.low <= item <= dataset.endpoints.high for item in supply)


@examples(50)
@given(DATASETS)
def test_a_sample_has_one_row_from_each_of_equal_stretches(dataset: ComputedDataset) -> None:
    whole = listed(replace(dataset, sample=None))
    result = listed(dataset)
    if dataset.sample is None or dataset.sample >= dataset.inputs:
        assert result == whole
        return
    assert len(result) == dataset.sample == dataset.rows
    for stratum, row in enumerate(result):
        low, high = (item * dataset.inputs // dataset.sample for item in (stratum, stratum + 1))
        assert low <= row[0] < high
        assert row == whole[row[0]]


@pytest.mark.parametrize("sample", [None, 10**9])
def test_a_million_million_rows_take_no_more_memory_than_a_chunk(sample: int | None) -> None:
    dataset = replace(UNIFORM, inputs=10**12, endpoints=Range(0, 1000), sample=sample)
    assert dataset.rows == (sample or 10**12)
    tracemalloc.start()
    try:
        for chunk in islice(dataset.chunks(), 5):
            inputs = chunk.inputs()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(inputs.numbers) == ROWS_PER_CHUNK
    assert peak < 32 * 1024**2
    last = RowSelection(dataset, 3, range(25 * 10**10 - 2, 25 * 10**10)).inputs()
    assert last.numbers.tolist() == [10**12 - 2, 10**12 - 1]
    assert last.demand.shape == (2, 5)


@pytest.mark.parametrize("name", COMPUTED_DATASETS)
def test_a_chunk_that_is_sent_elsewhere_is_small_and_gives_the_same_rows(name: str) -> None:
    dataset = ComputedDataset(name, seed=3)
    chunk = next(iter(dataset.chunks()))
    inputs = chunk.inputs()
    assert dataset.rows > 0
    sent = pickle.dumps(chunk)
    assert len(sent) < 1000
    unpickled = pickle.loads(sent).inputs()
    assert (unpickled.supply == inputs.supply).all()
    assert (unpickled.demand == inputs.demand).all()
    assert (unpickled.numbers == inputs.numbers).all()
