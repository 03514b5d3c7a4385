"""A custom algorithm for ``zoneward simulate --algorithm-file examples/largest_load.py:largest_load``.

``docs/your-own-algorithm.md`` explains the arguments and the result.
"""


def largest_load(demand, supply, parameters, previous, composition, weights, scratch, reals):
    """Give every zone its expected endpoints, rounded down, but at least one; the rest go to the largest load."""
    zones = len(demand)
    endpoints = sum(supply)
    nodes = sum(demand)
    if endpoints < zones:
        return -1  # no allocation: all zones use all endpoints
    wanted = 0  # scratch[wanted + zone]: how many endpoints the zone is to get
    left = zones  # scratch[left + zone]: how many endpoints located in the zone are not assigned yet
    rest = endpoints
    for zone in range(zones):
        scratch[wanted + zone] = max(1, endpoints * demand[zone] // nodes)
        scratch[left + zone] = supply[zone]
        rest -= scratch[wanted + zone]
    while rest > 0:
        busiest = 0
        for zone in range(1, zones):
            if demand[zone] * scratch[wanted + busiest] > demand[busiest] * scratch[wanted + zone]:
                busiest = zone
        scratch[wanted + busiest] += 1
        rest -= 1
    while rest < 0:  # endpoints of the zones that got their minimum of one come from the zone with the least load
        idlest = -1
        for zone in range(zones):
            after, lowest = scratch[wanted + zone] - 1, scratch[wanted + idlest] - 1
            if after > 0 and (idlest < 0 or demand[zone] * lowest < demand[idlest] * after):
                idlest = zone
        scratch[wanted + idlest] -= 1
        rest += 1
    for turn in range(2):  # first each zone's own endpoints, then those of other zones
        for zone in range(zones):
            for located in range(zones):
                if (located == zone) == (turn == 0):
                    taken = min(scratch[wanted + zone], scratch[left + located])
                    composition[zone * zones + located] += taken
                    scratch[wanted + zone] -= taken
                    scratch[left + located] -= taken
    for zone in range(zones):
        weights[zone * zones + zone] = 1.0
    return zones
