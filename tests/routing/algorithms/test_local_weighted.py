"""local-weighted, case by case: KEP-2004 § Local-Weighted. Nobody is ever overloaded."""

import random

import pytest
from tests.reference import kep_2004
from tests.routing.algorithms.running import run

from zoneward.routing.algorithms.local_weighted import local_weighted
from zoneward.routing.score import MAX_OVERLOAD, MEAN_OVERLOAD


def test_a_fraction_that_is_nothing_but_rounding_makes_a_group_all_the_same() -> None:
    """Comparisons with 0 are exact: 49 * (1 / 49) is a little less than 1, and zone A's only endpoint a little more
    than it needs. Nobody is in two groups for that."""
    demand, supply = [1, 48], [1, 48]
    assert 0 < 1 - 49 * (1 / 49) < 1e-9
    groups = kep_2004.allocate("local-weighted", demand, supply)
    assert groups is not None
    result = run(local_weighted, demand, supply)
    assert result is not None
    assert result.used == sorted((group.located, group.weights) for group in groups)
    ((located, weights),) = [row for row in result.rows if row[0][0]]
    assert located == (1, 0)
    assert weights == pytest.approx((1, 0))
    assert sum(result.sizes) == 49


def test_nobody_is_overloaded() -> None:
    """Nor does anybody get less than a fair part, on 3,000 random inputs, also with zones where no traffic starts."""
    rng = random.Random(2004)
    for _ in range(3000):
        zones = rng.randint(1, 8)
        demand = [rng.choice((0, 1, 1, 3, rng.randint(1, 9000))) for _ in range(zones)]
        supply = [rng.choice((0, 1, rng.randint(0, 9), rng.randint(0, 300))) for _ in range(zones)]
        result = run(local_weighted, demand, supply)
        case = f"demand {demand}, supply {supply}"
        assert (result is None) == (not any(demand) or not any(supply)), case
        if result is not None:
            measures = result.measures()
            assert measures[MAX_OVERLOAD] == pytest.approx(0, abs=1e-9), case
            assert measures[MEAN_OVERLOAD] == pytest.approx(0, abs=1e-9), case
