"""Weights of zones: how much of a zone's traffic each zone's endpoints get, for proxies that can weigh.

They are written for a moment, and endpoints come and go: `is_stale` says when proxies ignore them, `have_moved` when
they are written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing.demand import Demand

__all__ = ["OutcomeMeasures", "ZoneWeights", "have_moved", "is_stale", "measure_weights"]

_MAX_MOVE: Final = 0.02
"""Of a zone's traffic: a share that moves no farther is not worth a write."""
_NOISE: Final = 1e-9
_ALWAYS_TOLERATED: Final = 1
"""Endpoints by which a zone may differ, however few it has."""
_TOLERATED_PART: Final = 10
"""And a tenth of them."""


@dataclass(frozen=True, slots=True)
class OutcomeMeasures:
    """What proxies make of a decision: the share of traffic that stays in its zone, and the worst overload."""

    in_zone: float
    max_overload: float


def measure_weights(weights: ZoneWeights, demand: Demand) -> OutcomeMeasures:
    """What weights do with another demand than the one that they were computed for."""
    total = sum(weights.counts.values())
    load: dict[str, float] = {}
    in_zone = 0.0
    for zone in demand.zones:
        share = demand.share(zone)
        # A zone without weights sends its traffic to all.
        row = weights.shares.get(zone) or {end: count / total for end, count in weights.counts.items() if total}
        in_zone += share * row.get(zone, 0.0)
        for end, part in row.items():
            load[end] = load.get(end, 0.0) + share * part
    worst = max((load[end] * total / weights.counts[end] - 1 for end in load if weights.counts.get(end)), default=0.0)
    return OutcomeMeasures(in_zone, max(0.0, worst))


def is_stale(weights: ZoneWeights, counts: Mapping[str, int]) -> bool:
    """Whether the ready endpoints of some zone are too far from those that the weights were computed for."""
    for zone in weights.counts.keys() | counts.keys():
        counted = weights.counts.get(zone, 0)
        difference = abs(counts.get(zone, 0) - counted)
        if difference > _ALWAYS_TOLERATED and difference * _TOLERATED_PART > counted:
            return True
    return False


def have_moved(old: ZoneWeights, new: ZoneWeights) -> bool:
    """Whether a share differs by more than 2 points."""
    for start in old.shares.keys() | new.shares.keys():
        before, after = old.shares.get(start, {}), new.shares.get(start, {})
        for end in before.keys() | after.keys():
            if abs(before.get(end, 0.0) - after.get(end, 0.0)) > _MAX_MOVE + _NOISE:
                return True
    return False
