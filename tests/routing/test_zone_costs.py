"""What a request costs that leaves its zone: by pairs of zones, else by regions, in ratios."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.settings import read_settings
from zoneward.routing.zone_costs import COST_UNIT, ZoneCosts, cost_table

ZONES = ("a", "b", "c", "d")
REGIONS = {"a": "north", "b": "north", "c": "south"}
HALF = COST_UNIT // 2


def rows(costs: ZoneCosts) -> list[tuple[int, ...]]:
    """A row for each zone where requests start."""
    table = cost_table(costs, ZONES, REGIONS)
    return [table[start : start + len(ZONES)] for start in range(0, len(table), len(ZONES))]


def test_zones_of_one_region_are_near_and_an_unknown_region_is_another_one() -> None:
    assert rows(ZoneCosts(same_region=Fraction(1, 2))) == [
        (0, HALF, COST_UNIT, COST_UNIT),
        (HALF, 0, COST_UNIT, COST_UNIT),
        (COST_UNIT, COST_UNIT, 0, COST_UNIT),
        (COST_UNIT, COST_UNIT, COST_UNIT, 0),
    ]
    assert cost_table(ZoneCosts(same_region=Fraction(0)), ("d", "e"), {}) == (0, COST_UNIT, COST_UNIT, 0)


def test_a_cost_between_two_zones_wins_over_their_regions_in_its_direction() -> None:
    costs = ZoneCosts(same_region=Fraction(1, 2), pairs=(("a", "b", Fraction(0)), ("c", "a", Fraction(1, 4))))
    assert [row[:3] for row in rows(costs)[:3]] == [
        (0, 0, COST_UNIT),
        (HALF, 0, COST_UNIT),
        (COST_UNIT // 4, COST_UNIT, 0),
    ]


def test_the_largest_cost_of_the_settings_is_the_unit_wherever_it_holds() -> None:
    """Zones that are not in the cluster count, too: the costs of the others do not change when such a zone appears."""
    elsewhere = ZoneCosts(Fraction(1), Fraction(2), (("x", "y", Fraction(4)),))
    assert rows(elsewhere)[0] == (0, COST_UNIT // 4, HALF, HALF)
    assert rows(ZoneCosts(Fraction(0), Fraction(0))) == [(0, 0, 0, 0)] * 4


@given(st.integers(1, 10**9), st.integers(0, 50), st.integers(1, 50), st.integers(0, 50))
def test_only_the_ratios_of_costs_matter(factor: int, near: int, far: int, pair: int) -> None:
    one, other = (
        ZoneCosts(Fraction(near) * scale, Fraction(far) * scale, (("a", "c", Fraction(pair) * scale),))
        for scale in (1, Fraction(factor, 100))
    )
    assert rows(one) == rows(other)


@pytest.mark.parametrize(
    ("zones", "there", "back"),
    [
        ({"a": {"b": 0.5}}, HALF, HALF),
        ({"b": {"a": 0.5}}, HALF, HALF),
        ({"a": {"b": 0.5}, "b": {"a": 1}}, HALF, COST_UNIT),
        ({"a": {"b": 0.5}, "b": {"a": 0}}, HALF, 0),
    ],
)
def test_a_configured_pair_holds_in_both_directions_unless_the_other_has_its_own(
    zones: dict[str, dict[str, float]], there: int, back: int
) -> None:
    table = rows(read_settings({"zones": zones}, ZoneCosts))
    assert (table[0][1], table[1][0]) == (there, back)
