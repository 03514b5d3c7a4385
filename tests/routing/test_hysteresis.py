"""Which overload threshold is in force (KEP-2433 § Overload)."""

from fractions import Fraction

from zoneward.routing.configuration import HintsSettings
from zoneward.routing.hysteresis import threshold_in_force


def test_what_is_on_is_kept_below_the_higher_threshold_and_what_is_off_starts_below_the_lower() -> None:
    settings = HintsSettings(start_threshold=Fraction(1, 10), keep_threshold=Fraction(1, 2))
    assert threshold_in_force(settings, kept=True) == Fraction(1, 2)
    assert threshold_in_force(settings, kept=False) == Fraction(1, 10)
