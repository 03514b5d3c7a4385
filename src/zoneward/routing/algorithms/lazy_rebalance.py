"""Lazy rebalance: make only the update itself, as long as it overloads no endpoint (KEP-2004 § Optimizations).

Endpoints stay in their groups, with any groups of any algorithm; leaving ones just leave; new ones are added, one after
the other, to the group in greatest need: its expected endpoints (total endpoints times the traffic
it gets) minus those it has. In a rollout that is the group that another endpoint is just leaving, so that one slice
changes and not two.
"""

from collections.abc import MutableSequence, Sequence

from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence


def rebalance_lazily(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    groups: int,
    composition: MutableSequence[int],
    weights: Sequence[float],
    count: MutableSequence[int],
    spread: MutableSequence[float],
    share: MutableSequence[float],
) -> int:
    """Add the endpoints of ``supply`` that are in no group yet to ``composition``, which holds those that stay.

    ``weights`` are those of the ``groups`` groups as they are in force. ``count`` has room for a number per group,
    ``spread`` (the endpoints, by weight, over which a zone spreads its traffic) and ``share`` (of all demand) per zone.
    Returns the number of groups, or `IMPOSSIBLE` where the overload of an endpoint would reach the threshold, or a zone
    with demand would have nothing: then a full rebalance is due.
    """
    zones = len(demand)
    limit = parameters[0] / parameters[1]
    total_demand = 0
    total = 0
    for zone in range(zones):
        total_demand += demand[zone]
        total += supply[zone]
    if total_demand == 0 or total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        spread[zone] = 0.0
        share[zone] = demand[zone] / total_demand
    for group in range(groups):
        count[group] = 0
        for located in range(zones):
            count[group] += composition[group * zones + located]
        for zone in range(zones):
            spread[zone] += count[group] * weights[group * zones + zone]

    for located in range(zones):
        unplaced = supply[located]
        for group in range(groups):
            unplaced -= composition[group * zones + located]
        for _ in range(unplaced):
            group = _neediest(located, zones, groups, total, weights, count, spread, share)
            composition[group * zones + located] += 1
            count[group] += 1
            for zone in range(zones):
                spread[zone] += weights[group * zones + zone]

    for zone in range(zones):
        if demand[zone] > 0 and spread[zone] == 0:
            return IMPOSSIBLE
    for group in range(groups):
        if count[group] > 0 and total * _load(group, zones, weights, spread, share) - 1 >= limit:
            return IMPOSSIBLE
    return groups


def _neediest(
    located: int,
    zones: int,
    groups: int,
    total: int,
    weights: Sequence[float],
    count: IntegerSequence,
    spread: Sequence[float],
    share: Sequence[float],
) -> int:
    """The group in greatest need; among equals the one at home, then the first.

    At home is the own group, or, where that is empty, any that the zone consumes.
    """
    best = -1
    most = 0.0
    at_home = False
    for group in range(groups):
        if count[group] > 0:
            need = total * _load(group, zones, weights, spread, share) * count[group] - count[group]
        elif group < zones and spread[group] == 0:
            # All of the zone's traffic needs this group.
            need = total * share[group]
        else:
            continue
        serves_home = weights[group * zones + located] > 0
        if best < 0 or need > most or (need == most and serves_home and not at_home):
            best, most, at_home = group, need, serves_home
    return best


def _load(group: int, zones: int, weights: Sequence[float], spread: Sequence[float], share: Sequence[float]) -> float:
    """The share of all traffic that one endpoint of a group gets."""
    load = 0.0
    for zone in range(zones):
        if weights[group * zones + zone] > 0 and spread[zone] > 0:
            load += share[zone] * weights[group * zones + zone] / spread[zone]
    return load
