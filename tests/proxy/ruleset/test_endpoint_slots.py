"""Slots change as little as possible, and weights are correct within 1 %."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.proxy.ruleset.endpoint_slots import place_in_slots, slots_per_endpoint

_ENDPOINTS = st.lists(st.integers(0, 20), max_size=30)


@given(_ENDPOINTS, _ENDPOINTS)
def test_slots_hold_what_is_wanted(wanted: list[int], before: list[int]) -> None:
    assert Counter(place_in_slots(wanted, before)) == Counter(wanted)


@given(st.lists(st.integers(0, 1000), unique=True, min_size=1, max_size=60), st.data())
def test_a_deleted_endpoint_changes_at_most_one_other_slot(before: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(before))
    after = place_in_slots([endpoint for endpoint in before if endpoint != gone], before)
    assert sum(one != other for one, other in zip(before, after, strict=False)) <= 1


@given(st.lists(st.integers(0, 1000), unique=True, max_size=60))
def test_an_added_endpoint_changes_no_slot(before: list[int]) -> None:
    assert place_in_slots([*before, -1], before) == (*before, -1)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((), ()), ((2.0,), (1,)), ((1.0, 1.0, 1.0), (1, 1, 1)), ((0.5, 1.0), (1, 2)), ((0.75, 0.25), (3, 1))],
)
def test_as_few_slots_as_will_do(weights: tuple[float, ...], expected: tuple[int, ...]) -> None:
    assert slots_per_endpoint(weights) == expected


@given(st.lists(st.floats(0.2, 5), min_size=1, max_size=8))
def test_shares_are_within_one_percent(weights: list[float]) -> None:
    slots = slots_per_endpoint(tuple(weights))
    for count, weight in zip(slots, weights, strict=True):
        assert abs(count / sum(slots) / (weight / sum(weights)) - 1) <= 0.010001
