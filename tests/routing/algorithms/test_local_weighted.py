"""local-weighted, case by case: KEP-2004 § Local-Weighted. Nobody is ever overloaded."""

import random

import pytest
from tests.reference import kep_2004
from tests.routing.algorithms.running import Row, run

from zoneward.routing.algorithms.local_weighted import local_weighted
from zoneward.routing.score import MAX_OVERLOAD, MEAN_OVERLOAD


def used(demand: list[int], supply: list[int]) -> list[Row]:
    """The groups that have endpoints, in order."""
    result = run(local_weighted, demand, supply)
    assert result is not None
    return [row for row in result.rows if any(row[0])]


def test_whole_endpoints_need_no_weights() -> None:
    """Ten, eight and seven expected: two of zone A serve zone B."""
    assert used([20, 16, 14], [12, 6, 7]) == [
        ((10, 0, 0), (1.0, 0.0, 0.0)),
        ((2, 6, 0), (0.0, 1.0, 0.0)),
        ((0, 0, 7), (0.0, 0.0, 1.0)),
    ]


def test_a_fraction_to_spare_makes_a_group_of_one_endpoint() -> None:
    """3.5 expected in each zone: one of zone A's four serves both by halves."""
    assert used([1, 1], [4, 3]) == [((3, 0), (1.0, 0.0)), ((0, 3), (0.0, 1.0)), ((1, 0), (0.5, 0.5))]


def test_a_fraction_is_shared_out_to_those_in_need_in_the_order_of_zones() -> None:
    """Zone C has a quarter to spare, and zone A takes it. Of the three quarters of zone D, zone A takes the one that it
    still lacks, and zone B the two that it needs."""
    *_, of_c, of_d = used([10, 10, 11, 9], [2, 2, 3, 3])
    assert of_c == ((0, 0, 1, 0), (0.25, 0.0, 0.75, 0.0))
    assert of_d == ((0, 0, 0, 1), (0.25, 0.5, 0.0, 0.25))


def test_whole_endpoints_go_before_fractions() -> None:
    """3.33 expected: zone A spares one whole and two thirds, zone C lacks one whole and a third."""
    *own, single = used([1, 1, 1], [5, 3, 2])
    assert [located for located, _ in own] == [(3, 0, 0), (0, 3, 0), (1, 0, 2)]
    assert single[0] == (1, 0, 0)
    assert single[1] == pytest.approx((1 / 3, 1 / 3, 1 / 3))


def test_fractions_make_up_a_whole_endpoint_that_nobody_spares_whole() -> None:
    """Zone C lacks one whole, zones A and B have half of one to spare each."""
    assert used([3, 3, 2], [2, 2, 0]) == [
        ((1, 0, 0), (1.0, 0.0, 0.0)),
        ((0, 1, 0), (0.0, 1.0, 0.0)),
        ((1, 0, 0), (0.5, 0.0, 0.5)),
        ((0, 1, 0), (0.0, 0.5, 0.5)),
    ]


def test_a_whole_endpoint_that_is_only_needed_in_fractions_makes_a_group_for_them() -> None:
    """Zone A has one to spare, zones B and C lack half of one each."""
    assert used([2, 3, 3], [2, 1, 1]) == [
        ((1, 0, 0), (1.0, 0.0, 0.0)),
        ((0, 1, 0), (0.0, 1.0, 0.0)),
        ((0, 0, 1), (0.0, 0.0, 1.0)),
        ((1, 0, 0), (0.0, 0.5, 0.5)),
    ]


def test_the_weight_of_a_left_over_group_is_divided_by_its_endpoints() -> None:
    """Two are to spare, four zones lack half of one each: each endpoint serves each zone by a quarter."""
    assert used([4, 3, 3, 3, 3], [4, 1, 1, 1, 1])[-1] == ((2, 0, 0, 0, 0), (0.0, 0.25, 0.25, 0.25, 0.25))


def test_each_zone_with_whole_endpoints_left_over_has_a_group_for_them() -> None:
    """Zones A and D have 1.03 to spare each: two single endpoints for fractions, and one whole endpoint each, which
    zones in need are served by one after the other."""
    *_, of_a, of_d = used([8, 8, 5, 8, 4], [2, 0, 0, 2, 0])
    assert of_a[0] == (1, 0, 0, 0, 0)
    assert of_a[1] == pytest.approx((0, 0.909, 0.091, 0, 0), abs=0.001)
    assert of_d[0] == (0, 0, 0, 1, 0)
    assert of_d[1] == pytest.approx((0, 0, 0.515, 0, 0.485), abs=0.001)


def test_one_endpoint_serves_all_where_there_is_no_other() -> None:
    """Zone A gets a half, zones B and C a quarter each."""
    assert used([2, 1, 1], [1, 0, 0]) == [((1, 0, 0), (0.5, 0.25, 0.25))]


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


def test_without_endpoints_or_demand_it_is_impossible() -> None:
    assert run(local_weighted, [1, 1], [0, 0]) is None
    assert run(local_weighted, [0, 0], [3, 3]) is None


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
