"""local, case by case: KEP-2004 § Recommended Algorithm, with the examples that it draws."""

from fractions import Fraction
from itertools import product

import pytest
from tests.routing.algorithms.running import HALF, run

from zoneward.routing.algorithms.local import local


@pytest.mark.parametrize(
    ("demand", "supply", "located"),
    [
        pytest.param([1, 1, 1], [5, 3, 2], [[4, 0, 0], [0, 3, 0], [1, 0, 2]], id="each zone expects 3.3"),
        pytest.param([1, 1], [4, 3], [[4, 0], [0, 3]], id="nobody moves for less than a whole endpoint"),
        pytest.param([1, 1], [2, 1], None, id="exactly at the threshold is too much"),
        pytest.param(
            # Zone C has one for 2.1, but zone D has none for 1.2: it gets what zone A gives first.
            [28, 29, 21, 12],
            [4, 4, 1, 0],
            [[3, 0, 0, 0], [0, 3, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]],
            id="zones without endpoints are lifted first",
        ),
        pytest.param([1, 1], [14, 9], [[12, 0], [2, 9]], id="filling stops where less than one is lacking"),
        pytest.param([1, 1], [0, 0], None, id="no endpoints"),
        pytest.param([0, 0], [3, 3], None, id="no demand"),
    ],
)
def test_where_the_endpoints_of_each_group_are(
    demand: list[int], supply: list[int], located: list[list[int]] | None
) -> None:
    result = run(local, demand, supply, HALF)
    assert (result and result.located) == located


def test_above_what_is_expected_the_threshold_leaves_it() -> None:
    result = run(local, [1, 1], [2, 1], Fraction(51, 100))
    assert result is not None
    assert result.located == [[2, 0], [0, 1]]


@pytest.mark.parametrize("demand", [[1, 1, 1], [16, 8, 1]], ids=["1.67 each", "3.2, 1.6 and 0.2"])
def test_five_endpoints_in_three_zones_are_a_downgrade_wherever_they_are(demand: list[int]) -> None:
    """The second drawing ends with two, two and one, and says that zone A stays below the threshold. It does not: 3.2
    on two is 60 % above. Three, two and one would do, and are six."""
    for supply in product(range(6), repeat=3):
        assert sum(supply) != 5 or run(local, demand, supply) is None, supply
