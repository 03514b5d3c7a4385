"""What was decided before, and what that changes: thresholds that differ for starting and for staying."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from zoneward.kube.objects import EndpointIdentity
from zoneward.routing.configuration import HintsSettings
from zoneward.routing.placement.groups import Group


@dataclass(frozen=True, slots=True)
class Previous:
    """The decision that the existing slices hold.

    ``in_force`` is the approach and heuristic they were written for (``Hints/ProportionalZoneCPU``), or None where they
    were written for none, or by somebody else. ``placement`` is the group that each endpoint was in, by hints or by
    the labels of its slice; whoever wrote them, it keeps endpoints where they are.
    """

    in_force: str | None = None
    placement: Mapping[EndpointIdentity, Group] = field(default_factory=dict)


NOTHING_BEFORE = Previous()


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
