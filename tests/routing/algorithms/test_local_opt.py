"""local-opt, case by case: KEP-2004 § Local-Opt."""

from fractions import Fraction

import pytest
from tests.routing.algorithms.running import run

from zoneward.routing.algorithms.local_opt import local_opt


def located(demand: list[int], supply: list[int]) -> list[list[int]]:
    """Where the endpoints of each zone's group are, then those of the group for all."""
    result = run(local_opt, demand, supply)
    assert result is not None
    return result.located


def test_every_endpoint_stays_where_zones_have_what_they_expect() -> None:
    assert located([20, 16, 14], [10, 8, 7]) == [[10, 0, 0], [0, 8, 0], [0, 0, 7], [0, 0, 0]]


def test_a_zone_keeps_whole_endpoints_and_offers_the_rest() -> None:
    """3.33 expected: zone A keeps three, zone C takes one, for it lacks 1.33, and the last one is for all."""
    assert located([1, 1, 1], [5, 3, 2]) == [[3, 0, 0], [0, 3, 0], [1, 0, 2], [1, 0, 0]]


def test_a_zone_that_lacks_less_than_one_takes_none() -> None:
    assert located([1, 1], [4, 3]) == [[3, 0], [0, 3], [1, 0]]


def test_zones_take_what_is_offered_first_in_the_order_of_zones() -> None:
    """2.25 expected by the first four, six by zone E: it takes from zone A what is offered there, then from zone B."""
    assert located([3, 3, 3, 3, 8], [5, 4, 2, 2, 2]) == [
        [2, 0, 0, 0, 0],
        [0, 2, 0, 0, 0],
        [0, 0, 2, 0, 0],
        [0, 0, 0, 2, 0],
        [3, 1, 0, 0, 2],
        [0, 1, 0, 0, 0],
    ]


@pytest.mark.parametrize("zones", [2, 3, 8])
def test_the_group_for_all_weighs_one_by_the_number_of_zones(zones: int) -> None:
    """An own group weighs 1 for its zone, so that this one gets less of the traffic: with 1 in place of 1/3 the
    proposal's table would say 49.35."""
    result = run(local_opt, [1] * zones, [3, *[2] * (zones - 1)])
    assert result is not None
    *own, (located, weights) = result.rows
    assert located == (1, *[0] * (zones - 1))
    assert weights == (1 / zones,) * zones
    assert [weights for _, weights in own] == [
        tuple(1.0 if zone == other else 0.0 for other in range(zones)) for zone in range(zones)
    ]


def test_all_endpoints_are_for_all_where_zones_expect_less_than_one() -> None:
    assert located([1, 1, 1], [1, 1, 0]) == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize("threshold", [Fraction(1, 100), Fraction(5)])
def test_there_is_no_threshold(threshold: Fraction) -> None:
    """Zone B has one endpoint for 1.9; what it lacks is less than one, however much is allowed."""
    result = run(local_opt, [11, 19], [2, 1], threshold)
    assert result is not None
    assert result.located == [[1, 0], [0, 1], [1, 0]]


def test_without_endpoints_or_demand_it_is_impossible() -> None:
    assert run(local_opt, [1, 1], [0, 0]) is None
    assert run(local_opt, [0, 0], [3, 3]) is None
