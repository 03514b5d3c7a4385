"""ProportionalZoneCPU on plain arrays: KEP-2433 § Heuristics and § Overload, in whole numbers."""

from fractions import Fraction
from typing import Final

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples
from tests.routing.algorithms.running import run as run_rule

from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu

START: Final = Fraction(1, 5)
KEEP: Final = Fraction(3, 10)


def run(
    demand: list[int],
    supply: list[int],
    previous: list[list[int]] | None = None,
    *,
    threshold: Fraction = START,
    start: Fraction = START,
) -> list[list[int]] | None:
    """Rows by located zone, columns by consumer; None where it is impossible.

    There are no groups but the zones' own, each with the weight 1; what scratch space holds before does not matter.
    """
    zones = len(demand)
    flat = transposed([cell for row in previous for cell in row], zones) if previous else [0] * zones**2
    parameters = [*threshold.as_integer_ratio(), *start.as_integer_ratio()]
    result = run_rule(proportional_zone_cpu, demand, supply, parameters=parameters, previous=flat)
    if result is None:
        return None
    composition, weights = result.composition, result.weights
    assert result.groups == zones
    assert not any(composition[zones**2 :])
    assert weights == [float(cell < zones**2 and cell % (zones + 1) == 0) for cell in range(len(weights))]
    cells = transposed(composition[: zones**2], zones)
    return [cells[zone * zones : (zone + 1) * zones] for zone in range(zones)]


def transposed(cells: list[int], zones: int) -> list[int]:
    """Rules have the consumer in front, these tests where an endpoint is."""
    return [cells[column * zones + row] for row in range(zones) for column in range(zones)]


def test_endpoints_of_the_own_zone_come_first_and_others_from_zones_with_more_than_they_need() -> None:
    assert run([1, 1], [3, 1]) == [[2, 1], [0, 1]]
    assert run([1, 1, 2], [6, 2, 0]) == [[2, 0, 4], [0, 2, 0], [0, 0, 0]]


def test_ties_go_to_the_first_zone() -> None:
    assert run([1, 1, 1, 0], [0, 0, 0, 20]) == [[0] * 4, [0] * 4, [0] * 4, [7, 7, 6, 0]]


def test_new_endpoints_serve_a_zone_that_has_become_overloaded_rather_than_that_anybody_moves() -> None:
    assert run([1, 1], [6, 2], [[2, 0], [0, 2]], threshold=KEEP) == [[4, 2], [0, 2]]


def test_what_is_kept_at_the_higher_threshold_is_balanced_for_the_lower_where_it_must_move() -> None:
    """Ten endpoints, 8 and 2 for equal zones: a rebalance gives 5 and 5, not the 4 that would do."""
    rows = run([1, 1], [10, 0], [[8, 2], [0, 0]], threshold=KEEP)
    assert rows == [[5, 5], [0, 0]]


def test_guests_go_home_before_others_move() -> None:
    """Zone c has no endpoint and zone a one guest too many: zone c gets its guest back, though zone b's is first."""
    assert run([2, 3, 3], [1, 1, 1], [[0, 1, 0], [1, 0, 0], [1, 0, 0]], threshold=KEEP) == [
        [0, 1, 0],
        [1, 0, 0],
        [0, 0, 1],
    ]


def test_a_zone_with_more_than_its_fair_part_keeps_it_while_new_endpoints_will_do() -> None:
    """Zone b is short, zone a has a new endpoint and zone c can spare one placed before: the new one is used."""
    assert run([1, 1, 1], [5, 3, 6], [[4, 0, 0], [0, 3, 0], [0, 0, 6]], threshold=KEEP) == [
        [4, 1, 0],
        [0, 3, 0],
        [0, 0, 6],
    ]


Inputs = tuple[list[int], list[int], list[list[int]], Fraction]
"""Demand, supply, a previous allocation that fits into both, and the threshold in force."""


@st.composite
def inputs(draw: st.DrawFn, *, all_placed: bool = False) -> Inputs:
    zones = draw(st.integers(1, 6))
    demand = draw(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 10**6)), min_size=zones, max_size=zones))
    supply = draw(st.lists(st.one_of(st.integers(0, 4), st.integers(0, 60)), min_size=zones, max_size=zones))
    previous = [[0] * zones for _ in range(zones)]
    consumers = [zone for zone in range(zones) if demand[zone]]
    if consumers and (all_placed or draw(st.booleans())):
        for located in range(zones):
            left = supply[located]
            for consumer in consumers:
                previous[located][consumer] = draw(st.integers(0, left))
                left -= previous[located][consumer]
            if all_placed:
                previous[located][located if demand[located] else consumers[0]] += left
    return demand, supply, previous, draw(st.sampled_from((START, KEEP, Fraction(1, 100), Fraction(5))))


PROPERTY: Final = examples(75)


@PROPERTY
@given(inputs())
def test_no_zone_is_at_the_threshold_and_it_is_impossible_only_where_minimums_do_not_fit(drawn: Inputs) -> None:
    demand, supply, previous, threshold = drawn
    rows = run(demand, supply, previous, threshold=threshold, start=min(threshold, START))
    total, endpoints = sum(demand), sum(supply)
    if rows is None:
        fair = [Fraction(endpoints * weight, total) for weight in demand if weight] if total else []
        least = [next(n for n in range(1, endpoints + 2) if expected / n - 1 < threshold) for expected in fair]
        assert not fair or not endpoints or sum(least) > endpoints
        return
    assert [sum(row) for row in rows] == supply
    assert all(count >= 0 for row in rows for count in row)
    assert all(row[zone] == 0 for row in rows for zone, weight in enumerate(demand) if weight == 0)
    for zone, weight in enumerate(demand):
        if weight:
            consumed = sum(row[zone] for row in rows)
            assert consumed > 0
            assert Fraction(endpoints * weight, total) / consumed - 1 < threshold


@PROPERTY
@given(inputs(all_placed=True))
def test_nobody_moves_where_nobody_has_to(drawn: Inputs) -> None:
    demand, supply, previous, threshold = drawn
    total, endpoints = sum(demand), sum(supply)
    assume(endpoints and total)
    consumed = [sum(column) for column in zip(*previous, strict=True)]
    below = all(
        count and Fraction(endpoints * weight, total) / count - 1 < threshold
        for count, weight in zip(consumed, demand, strict=True)
        if weight
    )
    if below:
        assert run(demand, supply, previous, threshold=threshold, start=min(threshold, START)) == previous


@PROPERTY
@given(inputs())
def test_an_allocation_is_its_own_next_one(drawn: Inputs) -> None:
    demand, supply, previous, threshold = drawn
    first = run(demand, supply, previous, threshold=threshold, start=min(threshold, START))
    if first is not None:
        assert run(demand, supply, first, threshold=max(threshold, KEEP), start=min(threshold, START)) == first


@PROPERTY
@given(inputs(), st.integers(2, 1000))
def test_only_the_proportions_of_demand_matter(drawn: Inputs, factor: int) -> None:
    demand, supply, previous, threshold = drawn
    start = min(threshold, START)
    assert run(demand, supply, previous, threshold=threshold, start=start) == run(
        [weight * factor for weight in demand], supply, previous, threshold=threshold, start=start
    )
