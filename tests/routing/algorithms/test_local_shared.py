"""local-shared, case by case: KEP-2004 § Local-Shared, in the order of the proposal's tool."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from tests.routing.algorithms.running import HALF, Row, run

from zoneward.routing.algorithms.local_shared import local_shared


def located(demand: Sequence[int], supply: Sequence[int], threshold: Fraction = HALF) -> list[list[int]] | None:
    """Where the endpoints of each group are: the zones' own, the merged one, the pool. None where it is impossible."""
    result = run(local_shared, demand, supply, threshold)
    return None if result is None else result.located


def shared(demand: Sequence[int], supply: Sequence[int]) -> list[Row]:
    """The groups that are nobody's own and have endpoints: where those are, and the weights."""
    result = run(local_shared, demand, supply)
    assert result is not None
    return [row for row in result.rows[len(demand) :] if any(row[0])]


def test_every_endpoint_stays_where_zones_have_what_they_expect() -> None:
    assert located([20, 16, 14], [10, 8, 7]) == [[10, 0, 0], [0, 8, 0], [0, 0, 7], [0, 0, 0], [0, 0, 0]]


def test_fewer_endpoints_than_zones_are_too_few() -> None:
    assert located([1, 1, 1], [1, 1, 0]) is None
    assert located([1, 1, 1], [1, 1, 1]) == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]


# --- zones without endpoints: the merged group ------------------------------------------------------------------------


def test_zones_without_endpoints_share_one_group() -> None:
    """Two each are expected: four, in one group, from the only zone that has any."""
    assert shared([1, 1, 1], [6, 0, 0]) == [((4, 0, 0), (0.0, 1.0, 1.0))]


def test_a_zone_that_shares_has_no_weight_in_its_own_group() -> None:
    result = run(local_shared, [1, 1, 1], [6, 0, 0])
    assert result is not None
    assert [weights for _, weights in result.rows[:3]] == [(1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)]


def test_the_merged_group_gets_one_endpoint_though_it_expects_less() -> None:
    """Local gives each of the two one: together they expect 0.4 of an endpoint."""
    assert shared([1, 1, 48], [0, 0, 10]) == [((0, 0, 1), (1.0, 1.0, 0.0))]


@pytest.mark.parametrize(
    ("thousandths", "number"), [(1000, 1), (1490, 1), (1499, 1), (1500, 2), (2499, 2), (2500, 3), (3400, 3)]
)
def test_the_merged_group_gets_what_it_expects_rounded(thousandths: int, number: int) -> None:
    """One endpoint for 1.499 is 49.9 % above, one for 1.5 would be too much."""
    assert shared([thousandths, 10_000 - thousandths], [0, 10]) == [((0, number), (1.0, 0.0))]


def test_a_part_of_a_thousandth_is_rounded_up_first() -> None:
    """1.4991 is taken as 1.5, and 2 endpoints."""
    assert shared([14_990, 85_010], [0, 10]) == [((0, 1), (1.0, 0.0))]
    assert shared([14_991, 85_009], [0, 10]) == [((0, 2), (1.0, 0.0))]


def test_without_enough_to_give_it_is_impossible() -> None:
    """Zone A expects 4.5 of six and can give two; together the others expect 1.5, and one endpoint each makes three
    for local."""
    assert located([9, 1, 1, 1], [6, 0, 0, 0]) == [[4, 0, 0, 0], *[[0] * 4] * 3, [2, 0, 0, 0], [0] * 4]
    assert located([1, 2, 2], [3, 1, 0]) is None


# --- zones that lack whole endpoints ----------------------------------------------------------------------------------


def test_zones_get_the_whole_endpoints_that_they_lack() -> None:
    """Ten expected; two and three are lacking."""
    assert located([1, 1, 1], [15, 8, 7]) == [[10, 0, 0], [2, 8, 0], [3, 0, 7], [0, 0, 0], [0, 0, 0]]


def test_a_zone_that_gave_to_the_merged_group_gets_nothing_back() -> None:
    """22 of 36 go to zone C. That leaves zone A with 11 of the twelve that it expects, and it lacked none before."""
    assert located([5, 1, 9], [27, 9, 0]) == [[11, 0, 0], [0, 3, 0], [0, 0, 0], [16, 6, 0], [0, 0, 0]]


# --- zones that are above nevertheless --------------------------------------------------------------------------------


def test_a_zone_above_gets_one_endpoint_where_a_giver_can_spare_it() -> None:
    """1.6, 5.9 and 2.5 expected: zone A is 60 % above with one, and zone C has 1.5 to spare."""
    assert located([16, 59, 25], [1, 5, 4]) == [[1, 0, 1], [0, 5, 0], [0, 0, 3], [0, 0, 0], [0, 0, 0]]


def test_a_zone_above_pools_where_nobody_can_spare_one() -> None:
    """1.6 and 6.4 expected: zone A is 60 % above with one, and zone B has 0.6 to spare. It gives all the same."""
    assert located([2, 8], [1, 7]) == [[0, 0], [0, 6], [0, 0], [1, 1]]
    assert shared([2, 8], [1, 7]) == [((1, 1), (1.0, 0.0))]


def test_zones_above_share_one_pool_and_draw_only_until_it_is_below() -> None:
    """Three zones with one endpoint for 1.61 each: one more makes four for 4.83, 21 % above. Local would give three."""
    assert shared([16, 16, 16, 71], [1, 1, 1, 9]) == [((1, 1, 1, 1), (1.0, 1.0, 1.0, 0.0))]


def test_a_pool_that_nobody_can_help_makes_it_impossible() -> None:
    """1.67 expected by each zone: whoever gave one would be above itself."""
    assert located([1, 1, 1], [2, 2, 1]) is None


# --- what is left to spare --------------------------------------------------------------------------------------------


def test_a_whole_endpoint_to_spare_goes_to_the_most_loaded_zone() -> None:
    """3.5, 3.7 and 2.8 expected on 3, 3 and 4: nobody lacks a whole one, but zone C has 1.2 to spare."""
    assert located([35, 37, 28], [3, 3, 4]) == [[3, 0, 0], [0, 3, 1], [0, 0, 3], [0, 0, 0], [0, 0, 0]]


def test_what_zones_spare_goes_to_the_pool_where_it_does_not_suffice_for_each() -> None:
    """1.92 expected by each of three zones with one endpoint; zone B has 2.8 to spare. Two go, and are too few."""
    assert shared([3, 30, 3, 3], [1, 22, 1, 1]) == [((1, 2, 1, 1), (1.0, 0.0, 1.0, 1.0))]
