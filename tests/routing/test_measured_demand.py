"""Figures become parts that add up to 1, none below its floor; what says nothing is named, and a trend is followed."""

from fractions import Fraction
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clusters import demand_in

from zoneward.routing.configuration import AdoptionSettings
from zoneward.routing.measured_demand import DemandTrend, FigureProblem, floored_parts, measured_shares

DEMAND = demand_in(a=2, b=1, c=1)
SETTINGS = AdoptionSettings()


@given(
    st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1e6), min_size=1).filter(
        lambda by_zone: sum(by_zone.values()) > 0
    ),
    st.fractions(0, 1, max_denominator=100),
)
def test_parts_add_up_to_one_and_keep_to_the_floor(amounts: dict[str, float], floor: Fraction) -> None:
    shares = measured_shares(amounts, DEMAND, AdoptionSettings(min_traffic=Fraction(0)))
    if isinstance(shares, FigureProblem):
        assert shares is FigureProblem.ABSURD
        assert amounts.get("d", 0.0) > 0
        return
    parts = floored_parts(shares, DEMAND, AdoptionSettings(floor=floor))
    assert sum(parts.values()) == 1
    for zone in "abc":
        assert parts.get(zone, 0) >= float(floor) * DEMAND.share(zone) - 2e-4


def test_what_a_floor_adds_comes_from_the_others_in_proportion() -> None:
    shares = measured_shares({"a": 900.0, "b": 100.0}, DEMAND, SETTINGS)
    assert not isinstance(shares, FigureProblem)
    assert shares == {"a": 0.9, "b": 0.1, "c": 0.0}
    assert floored_parts(shares, DEMAND, SETTINGS) == {
        "a": Fraction(3, 4),
        "b": Fraction(1, 8),
        "c": Fraction(1, 8),
    }
    assert floored_parts({"a": 1.0}, DEMAND, AdoptionSettings(floor=Fraction(0))) == {"a": 1}


@pytest.mark.parametrize(
    ("amounts", "problem"),
    [
        (None, FigureProblem.MISSING),
        ({}, FigureProblem.MISSING),
        ({"a": 99.0}, FigureProblem.TOO_LITTLE),
        ({"a": 0.0}, FigureProblem.TOO_LITTLE),
        ({"a": nan, "b": 1000.0}, FigureProblem.ABSURD),
        ({"a": inf}, FigureProblem.ABSURD),
        ({"a": -1.0, "b": 1000.0}, FigureProblem.ABSURD),
        ({"a": 1e300}, FigureProblem.ABSURD),
        ({"a": 400.0, "elsewhere": 600.0}, FigureProblem.ABSURD),
    ],
)
def test_figures_that_say_nothing_are_not_used(amounts: dict[str, float] | None, problem: FigureProblem) -> None:
    assert measured_shares(amounts, DEMAND, SETTINGS) is problem


def test_a_trend_is_followed_and_what_jumps_is_not_taken_for_one() -> None:
    trend = DemandTrend.begin({"a": 0.5, "b": 0.5}, now=0.0)
    for step in range(1, 49):
        # Three points an hour.
        rise = 0.03 * step / 12
        trend = trend.updated({"a": 0.5 + rise, "b": 0.5 - rise}, now=300.0 * step)
    assert trend.shares_in(0)["a"] == pytest.approx(0.62, abs=0.01)
    assert trend.shares_in(3600)["a"] == pytest.approx(0.65, abs=0.01)
    peaks = trend.peaks(0, 3600)
    assert peaks["a"] == pytest.approx(0.65, abs=0.01)
    assert peaks["b"] == pytest.approx(0.38, abs=0.01)
    jumped = trend.updated({"a": 1.0, "b": 0.0}, now=300.0 * 49)
    assert jumped.shares_in(3600)["a"] - jumped.level["a"] <= 0.04 + 1e-9


def test_a_trend_begins_anew_after_a_gap_or_with_other_zones() -> None:
    trend = DemandTrend.begin({"a": 1.0}, now=0.0).updated({"a": 0.5}, now=300.0)
    assert trend.slope["a"] < 0
    assert trend.updated({"a": 0.2}, now=10_000.0) == DemandTrend.begin({"a": 0.2}, now=10_000.0)
    assert trend.updated({"a": 0.5, "b": 0.5}, now=600.0).slope == {"a": 0.0, "b": 0.0}
    assert trend.updated({"a": 0.2}, now=300.0) is trend
