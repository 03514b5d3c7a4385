"""Every threshold of a decision: overload (KEP-2433 § Overload), the start of subsetting (KEP-2004 § Starting
Threshold), and the in-zone tolerance. Their values are `zoneward.routing.configuration`'s.

Starting and staying have different thresholds, so that a decision does not flap.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from zoneward.routing.algorithms.heuristics import BALANCED
from zoneward.routing.allocation import Allocation, measures_of
from zoneward.routing.configuration import Configuration, HintsSettings
from zoneward.routing.request import RequestedApproach
from zoneward.routing.score import IN_ZONE

KEPT_OVERLOAD: Final = 0.1
"""Sets of ``Balanced`` in force stay while their overload is at most so far above the limit (0.1 = 10 points)."""


def overload_threshold(settings: HintsSettings, *, in_force: bool) -> Fraction:
    """The overload that hints must stay below: the higher threshold where the same heuristic is in force already.

    KEP-2433 § Overload.
    """
    return settings.keep_threshold if in_force else settings.start_threshold


def kept_overload(request: RequestedApproach, configuration: Configuration) -> float:
    """The overload at which a decision in force that balances load does not stay, for any approach."""
    if request.heuristic is BALANCED:
        return float((request.balanced or configuration.balanced).max_overload) + KEPT_OVERLOAD
    if request.heuristic is not None and request.heuristic.subsets:
        return float(configuration.subsetting.overload_threshold)
    return float(overload_threshold(request.hints or configuration.hints, in_force=True))


@lru_cache(maxsize=256)
def endpoints_needed(threshold: Fraction, padding: int, zones: int, *, in_force: bool) -> Fraction:
    """The number of endpoints from which subsetting starts, or at which it stops where it is ``in_force``.

    ``threshold`` is per zone. KEP-2004 § Starting Threshold: subsetting with 9 and a padding of 3 starts at 12 and
    stops at 6.
    """
    return threshold * zones - padding if in_force else threshold * zones + padding


def has_enough_endpoints(endpoints: int, needed: Fraction, padding: int, *, in_force: bool) -> bool:
    """Whether these endpoints are enough for `endpoints_needed`.

    Without padding both bounds are one, and what starts there must not stop there at once.
    """
    return endpoints > needed if in_force and padding else endpoints >= needed


def lost_in_zone(current: Allocation, new: Allocation, demand: Mapping[str, int]) -> float:
    """The share of all traffic that stays in its zone with ``new`` and not with ``current``; never below 0.

    The in-zone tolerance limits it, for hints and for slice groups alike. The proposals keep endpoints in place while a
    threshold holds, and look at nothing else. Every rollout replaces all endpoints, and each new one takes over what an
    old one just left: nobody is overloaded, and in the end little traffic stays in its zone.
    """
    return max(measures_of(new, demand)[IN_ZONE] - measures_of(current, demand)[IN_ZONE], 0.0)
