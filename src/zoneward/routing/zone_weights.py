"""Weights of zones: how much of a zone's traffic goes to the endpoints of each zone, for proxies that can weigh.

They are written for a moment, and endpoints come and go: `is_stale` says when proxies ignore them, `have_moved` when
they are written anew.
"""

from collections.abc import Mapping
from typing import Final

from zoneward.kube.zone_weights import ZoneWeights

__all__ = ["ZoneWeights", "have_moved", "is_stale"]

_MAX_MOVE: Final = 0.02
"""Of a zone's traffic: a share that moves no farther is not worth a write."""
_NOISE: Final = 1e-9
_ALWAYS_TOLERATED: Final = 1
"""Endpoints by which a zone may differ, however few it has."""
_TOLERATED_PART: Final = 10
"""And a tenth of them."""


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
