"""KEP-2004's lazy rebalance of any groups; what local makes of numbers is in `test_against_reference`."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples
from tests.routing.algorithms.running import HALF, PER_SLICE, run

from zoneward.routing.algorithms.local import local, rebalance_lazily
from zoneward.routing.algorithms.signature import IMPOSSIBLE
from zoneward.routing.score import MAX_OVERLOAD, MEASURES, measure


def test_local_needs_endpoints_and_demand_and_stays_below_the_threshold() -> None:
    for demand, supply in (([1, 1], [0, 0]), ([0, 0], [3, 3]), ([1, 1], [2, 1])):
        assert run(local, demand, supply, HALF) is None
    result = run(local, [1, 1], [2, 1], Fraction(51, 100))
    assert result is not None
    assert result.located == [[2, 0], [0, 1]]


Rows = list[list[int]]
"""Where the endpoints of each group are located."""


@dataclass(frozen=True)
class Updated:
    allowed: bool
    located: Rows


def updated(
    demand: Sequence[int],
    supply: Sequence[int],
    staying: Sequence[Sequence[int]],
    *,
    shared: Sequence[Sequence[float]] = (),
    threshold: Fraction = HALF,
) -> Updated:
    """What becomes of the groups ``staying``: the zones' own, then those with the weights ``shared``. The room is full
    of sevens: nothing may be read that was not written."""
    zones, groups = len(demand), len(staying)
    assert groups == zones + len(shared)
    composition = [count for row in staying for count in row]
    result = rebalance_lazily(
        demand,
        supply,
        threshold.as_integer_ratio(),
        groups,
        composition,
        flat_weights(zones, shared),
        [7] * groups,
        [7.0] * zones,
        [7.0] * zones,
    )
    assert result in (groups, IMPOSSIBLE)
    return Updated(result == groups, [composition[at : at + zones] for at in range(0, groups * zones, zones)])


def flat_weights(zones: int, shared: Sequence[Sequence[float]]) -> list[float]:
    own = [1.0 if group == zone else 0.0 for group in range(zones) for zone in range(zones)]
    return own + [weight for row in shared for weight in row]


@pytest.mark.parametrize(
    ("demand", "supply", "staying", "located"),
    [
        pytest.param([1, 1], [6, 3], [[5, 0], [0, 3]], [[5, 0], [1, 3]], id="to the group in greatest need"),
        pytest.param([1, 1], [6, 0], [[3, 0], [0, 0]], [[3, 0], [3, 0]], id="to a zone that has lost everything"),
        pytest.param(
            [1, 1, 1],
            [4, 5, 4],
            [[4, 0, 0], [0, 4, 0], [0, 0, 4]],
            [[4, 0, 0], [0, 5, 0], [0, 0, 4]],
            id="among equals to the own zone",
        ),
        pytest.param(
            [1, 1, 2],
            [3, 3, 9],
            [[3, 0, 0], [0, 3, 0], [0, 0, 8]],
            [[3, 0, 1], [0, 3, 0], [0, 0, 8]],
            id="among other zones that are equal to the first",
        ),
    ],
)
def test_where_a_new_endpoint_goes(demand: list[int], supply: list[int], staying: Rows, located: Rows) -> None:
    assert updated(demand, supply, staying) == Updated(True, located)


BOTH_LAST: Final = ((0.0, 1.0, 1.0),)
"""One group that zones B and C share."""


@pytest.mark.parametrize(
    ("demand", "supply", "staying", "last"),
    [
        # Zone A has two for 2.33, the others share four for 4.67. Their own groups are empty, and need nothing.
        pytest.param([1, 1, 1], [3, 3, 1], [[2, 0, 0], [1, 2, 1]], [[2, 0, 0], [1, 3, 1]], id="in greatest need"),
        # 3.5 expected by zone A, and as many by the two that share three.
        pytest.param([2, 1, 1], [4, 2, 1], [[3, 0, 0], [0, 2, 1]], [[4, 0, 0], [0, 2, 1]], id="equal, own group"),
        pytest.param([2, 1, 1], [3, 3, 1], [[3, 0, 0], [0, 2, 1]], [[3, 0, 0], [0, 3, 1]], id="equal, its zone shares"),
    ],
)
def test_where_a_new_endpoint_goes_among_shared_groups(
    demand: list[int], supply: list[int], staying: Rows, last: Rows
) -> None:
    """Of zone A, and of zones B and C together, whose own groups are empty."""
    none = [[0, 0, 0], [0, 0, 0]]
    groups, wanted = [staying[0], *none, staying[1]], [last[0], *none, last[1]]
    assert updated(demand, supply, groups, shared=BOTH_LAST) == Updated(True, wanted)


def test_an_empty_shared_group_gets_nothing() -> None:
    """The zones that shared it have lost all endpoints: their own groups take new ones."""
    assert updated([1, 1, 1], [4, 1, 1], [[2, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], shared=BOTH_LAST) == Updated(
        True, [[2, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0]]
    )


def test_weights_divide_what_a_zone_sends() -> None:
    """3.5 expected in each zone: the seventh endpoint serves both by halves, and everybody gets a fair part. An eighth
    is needed by the own groups, three for 3.43, more than by the single one."""
    halves = ((0.5, 0.5),)
    staying = [[3, 0], [0, 3], [1, 0]]
    assert updated([1, 1], [4, 3], staying, shared=halves, threshold=Fraction(1, 1000)) == Updated(True, staying)
    assert updated([1, 1], [4, 4], staying, shared=halves) == Updated(True, [[3, 0], [0, 4], [1, 0]])


Update = tuple[list[int], list[int], Rows, list[list[float]], Fraction]
"""Demand, supply, who stays where, the weights of shared groups, and the threshold."""


@st.composite
def updates(draw: st.DrawFn) -> Update:
    zones = draw(st.integers(2, 5))
    weight = st.one_of(st.integers(0, 3), st.integers(1, 10**5))
    demand = draw(st.lists(weight, min_size=zones, max_size=zones))
    if not any(demand):
        demand[0] = 1
    part = st.sampled_from((0.0, 0.0, 1.0, 1.0, 0.5, 0.25, 1 / 3))
    shared = draw(st.lists(st.lists(part, min_size=zones, max_size=zones), max_size=3))
    count = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 40))
    row = st.lists(count, min_size=zones, max_size=zones)
    staying = draw(st.lists(row, min_size=zones + len(shared), max_size=zones + len(shared)))
    new = draw(st.lists(st.integers(0, 6), min_size=zones, max_size=zones))
    supply = [sum(column) + more for column, more in zip(zip(*staying, strict=True), new, strict=True)]
    if not any(supply):
        supply[0] = 1
    return demand, supply, staying, shared, draw(st.sampled_from((Fraction(1, 4), HALF, Fraction(1), Fraction(3))))


PROPERTY: Final = examples(75)


@PROPERTY
@given(updates())
def test_only_the_unplaced_endpoints_of_each_zone_are_added(drawn: Update) -> None:
    demand, supply, staying, shared, threshold = drawn
    after = updated(demand, supply, staying, shared=shared, threshold=threshold).located
    assert all(
        now >= before for row, was in zip(after, staying, strict=True) for now, before in zip(row, was, strict=True)
    )
    assert [sum(column) for column in zip(*after, strict=True)] == supply


@PROPERTY
@given(updates())
def test_it_is_refused_exactly_where_somebody_reaches_the_threshold_or_a_zone_has_nothing(drawn: Update) -> None:
    demand, supply, staying, shared, threshold = drawn
    result = updated(demand, supply, staying, shared=shared, threshold=threshold)
    composition = [count for row in result.located for count in row]
    weights = flat_weights(len(demand), shared)
    measures = [0.0] * MEASURES
    measure(demand, len(staying), composition, weights, PER_SLICE, measures, [0.0] * len(demand))
    rows = list(enumerate(result.located))
    empty = any(
        demand[zone] > 0 and not any(sum(row) * weights[group * len(demand) + zone] for group, row in rows)
        for zone in range(len(demand))
    )
    event(f"allowed: {result.allowed}, a zone has nothing: {empty}")
    if result.allowed:
        assert not empty
        assert measures[MAX_OVERLOAD] < threshold + 1e-9
    else:
        assert empty or measures[MAX_OVERLOAD] > threshold - 1e-9
