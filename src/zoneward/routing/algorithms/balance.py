"""What KEP-2004's algorithms have in common: every endpoint starts at home, and single endpoints move.

``share`` are doubles, demand over its sum, and an expected number of endpoints is always total * share: the proposal's
table depends on the last bit. ``count`` holds how many endpoints each group has.
"""

from collections.abc import MutableSequence, Sequence

from zoneward.routing.algorithms.results import Integers


def all_at_home(
    demand: Integers,
    supply: Integers,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    count: MutableSequence[int],
    share: MutableSequence[float],
) -> int:
    """Every endpoint into its own zone's group, and nothing else; returns how many there are, 0 without demand."""
    zones = len(demand)
    total_demand = 0
    total = 0
    for zone in range(zones):
        total_demand += demand[zone]
        total += supply[zone]
    if total_demand == 0:
        return 0
    for zone in range(zones):
        share[zone] = demand[zone] / total_demand
        count[zone] = supply[zone]
        composition[zone * zones + zone] = supply[zone]
        weights[zone * zones + zone] = 1.0
    return total


def is_above(zone: int, total: int, limit: float, share: Sequence[float], count: Integers) -> bool:
    """Whether a zone's own group is overloaded by the threshold or more; one without endpoints is."""
    return count[zone] == 0 or total * share[zone] / count[zone] - 1 >= limit


def can_give(zone: int, total: int, limit: float, share: Sequence[float], count: Integers) -> bool:
    """Whether a zone would not be overloaded with one endpoint less."""
    return count[zone] > 1 and not total * share[zone] / (count[zone] - 1) - 1 >= limit


def surplus(zone: int, total: int, share: Sequence[float], count: Integers) -> float:
    """Endpoints that a zone's own group has above what is expected; negative where it lacks some."""
    return count[zone] - total * share[zone]


def move_one(
    giver: int, receiver: int, zones: int, composition: MutableSequence[int], count: MutableSequence[int]
) -> None:
    """Move one endpoint between groups: of the giving zone's own ones, or, when none is left, of the last zone's."""
    located = giver
    if composition[giver * zones + giver] == 0:
        for zone in range(zones):
            if composition[giver * zones + zone] > 0:
                located = zone
    composition[giver * zones + located] -= 1
    composition[receiver * zones + located] += 1
    count[giver] -= 1
    count[receiver] += 1
