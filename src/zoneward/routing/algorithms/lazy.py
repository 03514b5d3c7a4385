"""Lazy rebalance: only the update itself, as long as nobody is overloaded by it (KEP-2004 § Optimizations).

Endpoints stay in their groups, whatever the groups are and whichever algorithm made them; leaving ones have just left;
new ones go, one after the other, to the group that needs them most. Needed is what a group is expected to have, total
endpoints times the traffic it gets, minus what it has.
"""

from collections.abc import MutableSequence, Sequence

from zoneward.routing.algorithms.results import IMPOSSIBLE, Integers


def only_the_update(
    demand: Integers,
    supply: Integers,
    parameters: Integers,
    groups: int,
    composition: MutableSequence[int],
    weights: Sequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """Add to ``composition``, which holds who stays where, the endpoints of ``supply`` that are in no group yet.

    ``weights`` are those of the ``groups`` groups as they are in force; ``scratch`` and ``reals`` have room for a
    number a group and one a zone. Returns the number of groups, or `IMPOSSIBLE` where an endpoint would be overloaded
    by the threshold or more, or a zone with demand would have nothing: a full rebalance is due then.
    """
    zones = len(demand)
    limit = parameters[0] / parameters[1]
    count = scratch
    # What each zone spreads its traffic over: endpoints by their weights.
    spread, share = 0, zones
    total_demand = 0
    total = 0
    for zone in range(zones):
        total_demand += demand[zone]
        total += supply[zone]
    if total_demand == 0 or total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        reals[spread + zone] = 0.0
        reals[share + zone] = demand[zone] / total_demand
    for group in range(groups):
        count[group] = 0
        for located in range(zones):
            count[group] += composition[group * zones + located]
        for zone in range(zones):
            reals[spread + zone] += count[group] * weights[group * zones + zone]

    for located in range(zones):
        unplaced = supply[located]
        for group in range(groups):
            unplaced -= composition[group * zones + located]
        for _ in range(unplaced):
            group = _neediest(located, zones, groups, total, weights, count, reals)
            composition[group * zones + located] += 1
            count[group] += 1
            for zone in range(zones):
                reals[spread + zone] += weights[group * zones + zone]

    for zone in range(zones):
        if demand[zone] > 0 and reals[spread + zone] == 0:
            return IMPOSSIBLE
    for group in range(groups):
        if count[group] > 0 and total * _load(group, zones, weights, reals) - 1 >= limit:
            return IMPOSSIBLE
    return groups


def _neediest(
    located: int,
    zones: int,
    groups: int,
    total: int,
    weights: Sequence[float],
    count: Integers,
    reals: Sequence[float],
) -> int:
    """The group with the greatest need; among equals the own group of where the endpoint is, then the first."""
    best = -1
    most = 0.0
    for group in range(groups):
        if group >= zones and count[group] == 0:
            continue
        if count[group] > 0:
            need = (total * _load(group, zones, weights, reals) - 1) * count[group]
        elif reals[group] == 0:
            # An empty own group of a zone that has nothing: it is to take all of the zone's traffic.
            need = total * reals[zones + group]
        else:
            need = 0.0
        if best < 0 or need > most or (need == most and group == located):
            best, most = group, need
    return best


def _load(group: int, zones: int, weights: Sequence[float], reals: Sequence[float]) -> float:
    """The share of all traffic that one endpoint of a group gets."""
    load = 0.0
    for zone in range(zones):
        weight = weights[group * zones + zone]
        if weight > 0 and reals[zone] > 0:
            load += reals[zones + zone] * weight / reals[zone]
    return load
