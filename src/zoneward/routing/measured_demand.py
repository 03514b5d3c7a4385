"""Measured demand of a Service: from what was counted to parts of zones that a decision may use.

Figures are noisy and late, and may be wrong. What is measured over a window is half a window old on average, and
traffic that follows the sun moves on: `DemandTrend` smooths the figures and says what they will be. A zone's part never
falls below a floor, so that traffic that starts there all of a sudden finds endpoints. Figures that say too little, or
do not fit the cluster, are not used at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import exp, isfinite
from typing import Final

from zoneward.routing.configuration import AdoptionSettings
from zoneward.routing.demand import Demand

_UNIT: Final = 10_000
"""Parts are in hundredths of a percent: what is written about them is all that there is to know."""
_HIGHEST_AMOUNT: Final = 1e18
"""No cluster has as many connections, or bytes, in a window."""
_KNOWN_PART: Final = 0.5
"""Of all traffic, at least so much must start in zones with ready Nodes."""
_LEVEL_TIME: Final = 800.0
_SLOPE_TIME: Final = 2_000.0
"""Seconds in which shares, and how fast they change, are forgotten to 37 %."""
_HIGHEST_SLOPE: Final = 0.04 / 3_600
"""The most that a share keeps changing, of all traffic by the second. A day's wave is hardly steeper, and a single jump
looks like a slope while it enters the window."""
_LONGEST_GAP: Final = 3_600.0
"""Seconds without figures after which nothing is known of how fast they change."""
_PEAK_STEPS: Final = 4


class FigureProblem(StrEnum):
    """Why the figures of a Service are not used."""

    MISSING = "FiguresMissing"
    """The source has none of this Service."""
    TOO_LITTLE = "TooLittleTraffic"
    """They are too few to be a share of anything."""
    ABSURD = "FiguresAbsurd"
    """They are no numbers, or most of the traffic starts where no ready Node is."""
    OLD = "FiguresOld"
    """The source has not answered for too long."""


def measured_shares(
    amounts: Mapping[str, float] | None, demand: Demand, settings: AdoptionSettings
) -> dict[str, float] | FigureProblem:
    """The share of each zone in the traffic of a Service, adding up to 1, or what is wrong with its figures.

    ``amounts`` by zone are of any unit. Zones without a ready Node send nothing; ``demand`` is the cluster's.
    """
    if not amounts:
        return FigureProblem.MISSING
    if not all(isfinite(amount) and 0 <= amount <= _HIGHEST_AMOUNT for amount in amounts.values()):
        return FigureProblem.ABSURD
    everything = sum(amounts.values())
    if everything < settings.min_traffic or not everything:
        return FigureProblem.TOO_LITTLE
    known = {zone: amounts.get(zone, 0.0) for zone in demand.ready_zones}
    total = sum(known.values())
    if total < everything * _KNOWN_PART:
        return FigureProblem.ABSURD
    return {zone: amount / total for zone, amount in known.items()}


def floored_parts(shares: Mapping[str, float], demand: Demand, settings: AdoptionSettings) -> dict[str, Fraction]:
    """The part of each zone, adding up to 1, none below the floor: a part of its share of ``demand``, the cluster's.

    What the floor adds to some zones comes from the others, in proportion to what they have above it. Only ratios
    of ``shares`` matter; one of them is above 0.
    """
    total = sum(shares.values())
    floor = {zone: float(settings.floor) * demand.share(zone) for zone in demand.ready_zones}
    above = {zone: max(0.0, shares.get(zone, 0.0) / total - least) for zone, least in floor.items()}
    whole = sum(above.values())
    if not whole:
        return _rounded(floor)
    spread = (1 - sum(floor.values())) / whole
    return _rounded({zone: least + above[zone] * spread for zone, least in floor.items()})


def _rounded(shares: Mapping[str, float]) -> dict[str, Fraction]:
    """In whole units that add up to 1. The largest gets what rounding leaves; a zone without traffic has no part."""
    units = {zone: round(share * _UNIT) for zone, share in shares.items()}
    largest = max(units, key=lambda zone: (units[zone], zone))
    units[largest] += _UNIT - sum(units.values())
    return {zone: Fraction(count, _UNIT) for zone, count in units.items() if count}


@dataclass(frozen=True, slots=True)
class DemandTrend:
    """The shares of zones, smoothed, and how fast they change, by the second (Holt's linear exponential smoothing).

    ``at``: when the last figures came, in seconds of any clock.
    """

    at: float
    level: Mapping[str, float]
    slope: Mapping[str, float]

    @classmethod
    def begin(cls, shares: Mapping[str, float], *, now: float) -> "DemandTrend":
        return cls(now, dict(shares), dict.fromkeys(shares, 0.0))

    def updated(self, shares: Mapping[str, float], *, now: float) -> "DemandTrend":
        """With the figures of a later time. After a long gap, or with other zones, the trend starts again."""
        passed = now - self.at
        if passed <= 0:
            return self
        if passed > _LONGEST_GAP or shares.keys() != self.level.keys():
            return self.begin(shares, now=now)
        new, newer = 1 - exp(-passed / _LEVEL_TIME), 1 - exp(-passed / _SLOPE_TIME)
        level, slope = {}, {}
        for zone, share in shares.items():
            expected = self.level[zone] + self.slope[zone] * passed
            level[zone] = expected + new * (share - expected)
            slope[zone] = self.slope[zone] + newer * ((level[zone] - self.level[zone]) / passed - self.slope[zone])
        return DemandTrend(now, level, slope)

    def shares_in(self, seconds: float) -> dict[str, float]:
        """What the shares will be this many seconds after the last figures, if they keep changing like that."""
        return {
            zone: max(0.0, level + min(max(self.slope[zone], -_HIGHEST_SLOPE), _HIGHEST_SLOPE) * seconds)
            for zone, level in self.level.items()
        }

    def peaks(self, first: float, last: float) -> dict[str, float]:
        """The largest share of each zone between two such times; they add up to more than 1 where they change."""
        steps = [self.shares_in(first + (last - first) * step / _PEAK_STEPS) for step in range(_PEAK_STEPS + 1)]
        return {zone: max(step[zone] for step in steps) for zone in self.level}
