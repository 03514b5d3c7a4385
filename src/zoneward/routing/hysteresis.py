"""Thresholds that differ for starting and for staying, so that what is in force does not flap."""

from fractions import Fraction

from zoneward.routing.configuration import HintsSettings


def threshold_in_force(settings: HintsSettings, *, kept: bool) -> Fraction:
    """The higher threshold where the same heuristic is in force already: what is on does not go off at once.

    KEP-2433 § Overload.
    """
    return settings.keep_threshold if kept else settings.start_threshold


def endpoints_needed(threshold: Fraction, padding: int, zones: int, *, kept: bool) -> Fraction:
    """The number of endpoints from which subsetting starts, or at which it stops where it is ``kept``.

    ``threshold`` is per zone. KEP-2004 § Starting Threshold: subsetting with 9 and a padding of 3 starts at 12 and
    stops at 6.
    """
    return threshold * zones - padding if kept else threshold * zones + padding


def are_enough(number: int, needed: Fraction, padding: int, *, kept: bool) -> bool:
    """Whether so many endpoints are enough for `endpoints_needed`.

    Without padding both bounds are one, and what starts there must not stop there at once.
    """
    return number > needed if kept and padding else number >= needed
