"""random: one group that all zones consume alike."""

import pytest
from tests.routing.algorithms.running import run

from zoneward.routing.algorithms.one_group import one_group
from zoneward.routing.score import MAX_OVERLOAD, MEAN_OVERLOAD, SLICES


@pytest.mark.parametrize("demand", [(1, 1, 1), (16, 8, 1), (0, 1, 0)])
@pytest.mark.parametrize("supply", [(5, 3, 2), (0, 0, 1), (400, 0, 0)])
def test_all_endpoints_are_in_one_group_for_all(demand: tuple[int, ...], supply: tuple[int, ...]) -> None:
    result = run(one_group, demand, supply)
    assert result is not None
    assert result.used == [(supply, (1.0, 1.0, 1.0))]
    assert result.sizes == [0, 0, 0, sum(supply)]


def test_nobody_is_overloaded_and_no_slice_is_wasted() -> None:
    """Every endpoint gets the same share of everybody's traffic."""
    result = run(one_group, (16, 8, 1), (150, 0, 3))
    assert result is not None
    measures = result.measures()
    assert measures[MAX_OVERLOAD] == pytest.approx(0, abs=1e-12)
    assert measures[MEAN_OVERLOAD] == pytest.approx(0, abs=1e-12)
    assert measures[SLICES] == 2


def test_without_endpoints_it_is_impossible() -> None:
    assert run(one_group, (1, 1), (0, 0)) is None
