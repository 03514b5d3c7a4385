"""What was decided before, and which overload threshold that puts in force (KEP-2433 § Overload)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from zoneward.kube.objects import Identity
from zoneward.routing.configuration import HintsSettings


@dataclass(frozen=True, slots=True)
class Previous:
    """The decision that the existing slices hold.

    ``in_force`` is the approach and heuristic they were written for (``Hints/ProportionalZoneCPU``), or None where they
    were written for none, or by somebody else. ``placement`` is the zone that each endpoint was hinted to; whoever
    wrote the hints, it keeps endpoints where they are.
    """

    in_force: str | None = None
    placement: Mapping[Identity, str] = field(default_factory=dict)


NOTHING_BEFORE = Previous()


def threshold_in_force(settings: HintsSettings, *, kept: bool) -> Fraction:
    """The higher threshold where the same heuristic is in force already: what is on does not go off at once."""
    return settings.keep_threshold if kept else settings.start_threshold
