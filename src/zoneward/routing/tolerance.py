"""How much traffic an allocation may lose to other zones so that endpoints stay where they are.

One rule for hints and for slice groups. The proposals keep endpoints in place while a threshold holds, and look at
nothing else. Every rollout replaces all endpoints, and what each new one takes over is what an old one left behind just
then: nobody is overloaded, and in the end little traffic stays in its zone.
"""

from collections.abc import Sequence

from zoneward.routing.allocation import Allocation
from zoneward.routing.score import IN_ZONE, MEASURES, measure


def measures_of(allocation: Allocation, demand: Sequence[int]) -> list[float]:
    """What the proposal measures (`zoneward.routing.score`), but for slices. ``demand`` is by zone, in their order."""
    weights = [group.weight(zone) for group in allocation.groups for zone in allocation.zones]
    measures = [0.0] * MEASURES
    measure(demand, len(allocation.groups), allocation.counts, weights, 1, measures, [0.0] * len(allocation.zones))
    return measures


def lost_in_zone(kept: Allocation, anew: Allocation, demand: Sequence[int]) -> float:
    """The share of all traffic that stays in its zone with ``anew`` and not with ``kept``; never below 0."""
    return max(measures_of(anew, demand)[IN_ZONE] - measures_of(kept, demand)[IN_ZONE], 0.0)
