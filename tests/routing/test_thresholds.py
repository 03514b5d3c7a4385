"""Which overload threshold is in force (KEP-2433 § Overload)."""

from fractions import Fraction

from zoneward.routing.configuration import HintsSettings
from zoneward.routing.deciding import NO_PREVIOUS_DECISION
from zoneward.routing.thresholds import overload_threshold


def test_what_is_on_is_kept_below_the_higher_threshold_and_what_is_off_starts_below_the_lower() -> None:
    settings = HintsSettings(start_threshold=Fraction(1, 10), keep_threshold=Fraction(1, 2))
    assert overload_threshold(settings, kept=True) == Fraction(1, 2)
    assert overload_threshold(settings, kept=False) == Fraction(1, 10)


def test_before_the_first_decision_nothing_was_in_force_and_nobody_placed() -> None:
    assert (NO_PREVIOUS_DECISION.in_force, dict(NO_PREVIOUS_DECISION.placement)) == (None, {})
