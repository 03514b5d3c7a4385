"""What holds for every input of KEP-2004's algorithms: zones with demand, as decisions have them."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor, isfinite
from random import Random
from typing import Final

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples
from tests.reference.kep_2004 import ALGORITHMS
from tests.routing.algorithms.running import HALF, Result, Row, rule_of, run

from zoneward.routing.score import MAX_OVERLOAD, MEAN_OVERLOAD

Input = tuple[list[int], list[int]]
"""Demand and supply of each zone."""

PROPERTY: Final = examples(75)


@st.composite
def inputs(draw: st.DrawFn) -> Input:
    zones = draw(st.integers(2, 8))
    # One kind for all zones of an input: mixed, small ones would be lost beside large ones.
    weight = draw(st.sampled_from((st.integers(1, 3), st.integers(1, 10), st.integers(1, 10**5))))
    count = draw(st.sampled_from((st.integers(0, 2), st.integers(0, 9), st.integers(0, 100))))
    demand = draw(st.lists(weight, min_size=zones, max_size=zones))
    supply = draw(st.lists(st.one_of(count, st.just(0)), min_size=zones, max_size=zones))
    if draw(st.booleans()) or not any(supply):
        supply[draw(st.integers(0, zones - 1))] += draw(st.integers(1, 40))
    return demand, supply


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@PROPERTY
@given(inputs())
def test_every_endpoint_is_in_exactly_one_group_and_every_zone_has_one_that_serves_it(
    algorithm: str, drawn: Input
) -> None:
    demand, supply = drawn
    result = run(rule_of(algorithm), demand, supply)
    if result is None:
        assert algorithm in ("local", "local-kep-tool", "local-shared")
        return
    assert all(count >= 0 for count in result.composition)
    assert [sum(column) for column in zip(*result.located, strict=True)] == supply
    assert all(weight >= 0 and isfinite(weight) for weight in result.weights)
    assert all(any(weights[zone] > 0 for _, weights in result.used) for zone in range(len(demand)))


@PROPERTY
@given(inputs())
def test_local_weighted_overloads_nobody_and_leaves_nobody_below_a_fair_part(drawn: Input) -> None:
    result = run(rule_of("local-weighted"), *drawn)
    assert result is not None
    assert result.measures()[MAX_OVERLOAD] == pytest.approx(0, abs=1e-9)
    assert result.measures()[MEAN_OVERLOAD] == pytest.approx(0, abs=1e-9)


def exact_overloads(result: Result) -> list[Fraction]:
    """How much more than a fair part each group's endpoints get, where all weights are 0 or 1; -1 for an empty group.

    In fractions: every zone has one group.
    """
    total, everybody = sum(result.composition), sum(result.demand)
    overloads = []
    for located, weights in result.rows:
        consumers = sum(weight for weight, mark in zip(result.demand, weights, strict=True) if mark)
        overloads.append(Fraction(total * consumers, everybody * sum(located)) - 1 if any(located) else Fraction(-1))
    return overloads


def check_below(result: Result, overloads: list[Fraction], threshold: Fraction) -> None:
    """No group is above the threshold, and one that is at it is below it in the doubles of the exact rules."""
    worst = max(overloads)
    assert worst <= threshold
    if worst < threshold:
        assert result.measures()[MAX_OVERLOAD] < threshold


@pytest.mark.parametrize("algorithm", ["local", "local-kep-tool"])
@PROPERTY
@given(inputs(), st.sampled_from((Fraction(1, 4), HALF, Fraction(1))))
def test_local_is_below_the_threshold_or_impossible(algorithm: str, drawn: Input, threshold: Fraction) -> None:
    result = run(rule_of(algorithm), *drawn, threshold)
    event("impossible" if result is None else "possible")
    if result is not None:
        check_below(result, exact_overloads(result), threshold)


@PROPERTY
@given(inputs(), st.sampled_from((Fraction(1, 4), HALF, Fraction(1))))
@example(([1, 1, 1], [0, 5, 8]), HALF)
@example(([18, 1, 8], [3, 2, 1]), HALF)
def test_local_ends_with_the_floor_everywhere_or_with_nobody_who_can_give(drawn: Input, threshold: Fraction) -> None:
    """KEP-2004 § Distribution of EndpointSlices, step 5. Who gives has more than it expects, and is below the threshold
    with one less."""
    demand, _ = drawn
    result = run(rule_of("local"), *drawn, threshold)
    if result is None:
        return
    expected = [Fraction(sum(result.sizes) * weight, sum(demand)) for weight in demand]
    lacking = [count < floor(fair) for count, fair in zip(result.sizes, expected, strict=True)]
    giving = [
        # As doubles have it, somebody may be just at the threshold who is not.
        count > 1 and count > fair and fair / (count - 1) - 1 < threshold - Fraction(1, 10**9)
        for count, fair in zip(result.sizes, expected, strict=True)
    ]
    event("a zone lacks one" if any(lacking) else "no zone lacks one")
    assert not any(lacking) or not any(giving)


@PROPERTY
@given(inputs(), st.sampled_from((HALF, Fraction(3, 4), Fraction(1))))
def test_local_shared_is_below_a_threshold_of_a_half_or_more_or_impossible(drawn: Input, threshold: Fraction) -> None:
    result = run(rule_of("local-shared"), *drawn, threshold)
    event("impossible" if result is None else "possible")
    if result is not None:
        check_below(result, exact_overloads(result), threshold)


@PROPERTY
@given(inputs())
@example(([2, 1], [0, 2]))
def test_local_shared_below_a_half_only_rounds_what_zones_without_endpoints_get(drawn: Input) -> None:
    """The group that they share gets what it expects, rounded, at any threshold: at a quarter, one endpoint for 1.25 to
    1.49 is too much. Every other group is below."""
    threshold = Fraction(1, 4)
    result = run(rule_of("local-shared"), *drawn, threshold)
    if result is None:
        return
    merged = len(drawn[0])
    overloads = exact_overloads(result)
    if overloads[merged] >= threshold:
        event("the merged group is not below")
        assert result.sizes[merged] == 1
        assert overloads[merged] < HALF
        assert max(overload for group, overload in enumerate(overloads) if group != merged) <= threshold
    else:
        check_below(result, overloads, threshold)


@pytest.mark.parametrize("algorithm", ["local", "local-kep-tool", "local-shared"])
def test_which_side_of_the_threshold_is_decided_by_doubles(algorithm: str) -> None:
    """1.5 expected on one endpoint is exactly 50 %, but 47 * (3 / 94) / 1 - 1 is a little less, and nobody moves."""
    result = run(rule_of(algorithm), [3, 91], [1, 46])
    assert result is not None
    assert result.used == [((0, 46), (0.0, 1.0)), ((1, 0), (1.0, 0.0))]
    assert max(exact_overloads(result)) == HALF


UNEQUAL: Final = (1009, 1013, 1201, 1511, 2003, 2999, 5003, 7919, 9973, 20011)
"""Primes: with fewer than 1,000 endpoints, no two zones are ever equally loaded."""

Ordered = tuple[list[int], list[int], list[int]]
"""Demand, supply, and another order of zones."""


@st.composite
def ordered(draw: st.DrawFn, most_zones: int, *, most_empty: int) -> Ordered:
    zones = draw(st.integers(2, most_zones))
    demand = draw(st.permutations(UNEQUAL))[:zones]
    count = st.integers(1, draw(st.sampled_from((3, 10, 99))))
    supply = draw(st.lists(count, min_size=zones, max_size=zones))
    for zone in draw(st.lists(st.integers(0, zones - 1), max_size=min(most_empty, zones - 1))):
        supply[zone] = 0
    return demand, supply, draw(st.permutations(range(zones)))


def in_both_orders(algorithm: str, drawn: Ordered) -> tuple[list[Row] | None, list[Row] | None]:
    """The groups with endpoints, in the other order of zones: of a run before and of one after reordering."""
    demand, supply, order = drawn
    first = run(rule_of(algorithm), demand, supply)
    other = run(rule_of(algorithm), [demand[zone] for zone in order], [supply[zone] for zone in order])
    return _reordered(first, order), _reordered(other, range(len(demand)))


def _reordered(result: Result | None, order: Sequence[int]) -> list[Row] | None:
    if result is None:
        return None
    return sorted(
        (tuple(located[zone] for zone in order), tuple(weights[zone] for zone in order))
        for located, weights in result.used
    )


@pytest.mark.parametrize("algorithm", ["local", "local-kep-tool"])
@PROPERTY
@given(ordered(8, most_empty=1))
def test_the_order_of_zones_decides_only_ties_of_local(algorithm: str, drawn: Ordered) -> None:
    first, other = in_both_orders(algorithm, drawn)
    assert first == other


@PROPERTY
@given(ordered(3, most_empty=2))
def test_the_order_of_three_zones_decides_only_ties_of_local_shared(drawn: Ordered) -> None:
    """From four zones on it decides more: zones that lack whole endpoints get them in the order of names."""
    first, other = in_both_orders("local-shared", drawn)
    assert first == other


@PROPERTY
@given(inputs(), st.randoms(use_true_random=False))
def test_the_order_of_zones_decides_at_most_where_endpoints_come_from(drawn: Input, random: Random) -> None:
    order = random.sample(range(len(drawn[0])), len(drawn[0]))
    first, other = in_both_orders("random", (*drawn, order))
    assert first == other
    first, other = in_both_orders("local-opt", (*drawn, order))
    assert first is not None
    assert other is not None
    sizes, other_sizes = (sorted((weights, sum(located)) for located, weights in groups) for groups in (first, other))
    assert sizes == other_sizes
