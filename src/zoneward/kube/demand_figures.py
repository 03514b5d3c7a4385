"""Figures of where the traffic of Services starts, as every source of them gives them."""

from collections.abc import Mapping
from dataclasses import dataclass

from zoneward.kube.objects import ObjectKey


@dataclass(frozen=True, slots=True)
class DemandFigures:
    """By Service and zone, how much traffic started there: connections, or any other unit; only ratios matter.

    Amounts are finite and not negative. Each note is a line about what was left out, and how many there were.
    """

    amounts: Mapping[ObjectKey, Mapping[str, float]]
    notes: tuple[str, ...] = ()
