"""Chunks of rows as tallies, and tallies put together: nothing is lost, and nothing depends on who counted what."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples

from zoneward.lab.contenders import parse_contenders
from zoneward.lab.datasets import Inputs
from zoneward.lab.scoring import score_columns, totals
from zoneward.lab.tally import (
    QUANTILE_BINS,
    SimulationSpec,
    Tally,
    WorstInputs,
    _histogram,
    bin_credit,
    merge_tallies,
    tally_chunk,
)
from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu
from zoneward.routing.simulation_results import ENCODINGS

(BALANCED,) = parse_contenders(["Balanced"])
QUICK_BALANCED = replace(BALANCED, rule=proportional_zone_cpu, key="proportional_zone_cpu")
"""With another rule: its own takes half a minute to compile."""
CONTENDERS = (
    *parse_contenders(["random,local,PreferSameZone,local-weighted:maxEndpointsPerSlice=10"]),
    QUICK_BALANCED,
)
EVERYTHING = SimulationSpec(
    contenders=CONTENDERS, encodings=ENCODINGS, by="endpoints", quantiles=True, plots=True, worst=7
)


def drawn(rows: int, *, zones: int = 3, seed: object = 0, first: int = 0) -> Inputs:
    """Random inputs, with many alike, some without endpoints and some without nodes."""
    rng = random.Random(f"tally_chunk {zones} {seed}")
    demand = [[rng.randint(1, 3) for _ in range(zones)] for _ in range(rows)]
    supply = []
    for _ in range(rows):
        most = rng.choice((0, 1, 2, 2, 10, 30, 100, 500))
        supply.append([rng.randint(0, most) for _ in range(zones)])
    for row in range(0, rows, 17):
        demand[row] = [0] * zones
    numbers = np.arange(first, first + rows)
    return Inputs(numbers, np.array(demand), np.array(supply), [f"input {index}" for index in numbers])


def cut(inputs: Inputs, *edges: int) -> list[Inputs]:
    return [
        Inputs(inputs.numbers[a:b], inputs.demand[a:b], inputs.supply[a:b], inputs.names[a:b])
        for a, b in pairwise((0, *edges, len(inputs.numbers)))
    ]


def tallies(wanted: SimulationSpec, pieces: Sequence[Inputs]) -> list[Tally]:
    return [tally_chunk(wanted, piece)[0] for piece in pieces]


def same(one: Tally, other: Tally) -> bool:
    return (
        {name: counts.tolist() for name, counts in one.counts.items()}
        == {name: counts.tolist() for name, counts in other.counts.items()}
        and [{name: values.tolist() for name, values in sums.items()} for sums in one.sums]
        == [{name: values.tolist() for name, values in sums.items()} for sums in other.sums]
        and {key: as_rows(worst) for key, worst in one.worst.items()}
        == {key: as_rows(worst) for key, worst in other.worst.items()}
    )


def as_rows(worst: WorstInputs) -> list[tuple[float, int, str, tuple[int, ...], tuple[int, ...]]]:
    return list(
        zip(worst.totals.tolist(), worst.numbers.tolist(), worst.names, worst.demand, worst.supply, strict=True)
    )


def test_sums_kept_apart_and_added_up_later_are_those_added_up_at_once() -> None:
    item = tallies(EVERYTHING, cut(drawn(1000), 100, 101, 350, 800))
    at_once = merge_tallies(EVERYTHING, item)
    assert len(at_once.sums) == 1
    apart = merge_tallies(EVERYTHING, item, fold=False)
    assert len(apart.sums) == 5
    assert same(merge_tallies(EVERYTHING, [apart]), at_once)
    halves = [merge_tallies(EVERYTHING, item[:2], fold=False), merge_tallies(EVERYTHING, item[2:], fold=False)]
    assert same(merge_tallies(EVERYTHING, halves), at_once)
    nested = merge_tallies(EVERYTHING, halves, fold=False)
    assert same(merge_tallies(EVERYTHING, [nested]), at_once)
    one_by_one = Tally()
    for one in item:
        one_by_one = merge_tallies(EVERYTHING, [one_by_one, one])
    assert same(one_by_one, at_once)


@pytest.mark.parametrize("by", ["", "endpoints", "zones"])
def test_pieces_add_up_to_the_whole(by: str) -> None:
    wanted = replace(EVERYTHING, by=by)
    inputs = drawn(1000)
    (whole,) = tallies(wanted, [inputs])
    result = merge_tallies(wanted, tallies(wanted, cut(inputs, 1, 2, 17, 18, 400, 999)))
    assert {name: counts.tolist() for name, counts in result.counts.items()} == {
        name: counts.tolist() for name, counts in whole.counts.items()
    }
    assert {*result.sums[0]} == {*whole.sums[0]}
    for name, values in whole.sums[0].items():
        assert result.sums[0][name] == pytest.approx(values, rel=1e-11, abs=1e-9), name
    for key, worst in whole.worst.items():
        assert [row[1:] for row in as_rows(result.worst[key])] == [row[1:] for row in as_rows(worst)]


def test_a_piece_without_a_row_that_can_be_scored_adds_nothing_but_their_number() -> None:
    empty = Inputs(np.arange(2), np.array([[1, 1, 1], [0, 0, 0]]), np.array([[0, 0, 0], [1, 2, 3]]), ["a", "b"])
    item = tallies(EVERYTHING, [drawn(100, first=10), empty])
    both = merge_tallies(EVERYTHING, item)
    assert both.counts.pop("unscored").tolist() == [item[0].counts["unscored"].item() + 2]
    item[0].counts.pop("unscored")
    assert same(both, merge_tallies(EVERYTHING, item[:1]))


def bin_of(credit: float) -> int:
    (result,) = np.flatnonzero(_histogram(np.array([credit]))).tolist()
    return int(result)


@examples(75)
@given(st.floats(-99.99, 100), st.floats(-500_000, -99.99))
def test_a_credit_is_in_the_bin_of_its_hundredth_and_a_low_one_of_its_thousandth(credit: float, low: float) -> None:
    assert bin_credit(bin_of(credit)) == pytest.approx(credit, abs=0.005 + 1e-9, rel=0)
    assert bin_credit(bin_of(low)) == pytest.approx(low, abs=0.001 * (100 - low), rel=0)


@examples(50)
@given(st.lists(st.floats(-500_000, 100), min_size=1))
def test_no_credit_is_left_out_and_bins_go_down(credits_: list[float]) -> None:
    counts = _histogram(np.array(credits_))
    assert len(counts) == QUANTILE_BINS
    assert counts.sum() == len(credits_)
    bins = [bin_of(credit) for credit in sorted(credits_, reverse=True)]
    assert bins == sorted(bins)


def test_the_lowest_total_that_there_may_be_is_in_a_bin_of_its_size() -> None:
    """All nodes but one in a zone with one endpoint of a million and one."""
    (contender,) = parse_contenders(["PreferSameZone"])
    columns = score_columns(contender, np.array([[1, 1_000_000]]), np.array([[1_000_000, 1]]))
    (total,) = totals(columns, 1.0).tolist()
    assert total < -19_000_000
    assert bin_credit(bin_of(total)) == pytest.approx(total, rel=0.001)
