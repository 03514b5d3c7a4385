"""Sets of endpoints for two or three zones that may share endpoints: the best ones among all sizes within a window.

With sizes s of the sets, a request from zone z is sent to each endpoint of its set with p = d_z / s_z. The load of an
endpoint is the sum over the zones that use it. So only the counts of endpoints matter that are used by one zone, by
each pair of zones, and by all three: the kinds of endpoints. A kind is a number with a bit for each of its consumers;
it has the place of a group in the arrays of `Search`. What a request costs is then a transportation problem over the
zones where endpoints are located.

Most sizes and overlaps are skipped: the cost of a zone that has the nearest endpoints for itself, and the load of its
endpoints without sharing, bound the value from above.
"""

from math import inf
from typing import Final

from zoneward.routing.algorithms.local_search import clear_groups, fill_groups, improve_sets, start_by_wish
from zoneward.routing.algorithms.set_value import (
    Search,
    is_better,
    measure_set,
    request_cost,
    set_cost,
    write_value,
)
from zoneward.routing.algorithms.transport import cheapest_flow

MAX_CONSUMERS: Final = 3
"""The most zones with demand that this search takes."""
KINDS: Final = 8
"""The numbers of kinds end below this. No endpoint is of kind 0."""
_BY_USERS: Final = (0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111)
"""Those of one zone come first: they get the endpoints at home that several could have."""
_EXACT_ENDPOINTS: Final = 20
"""Up to this number of endpoints, the answer is the optimum."""
_MARGIN: Final = 2
"""With more, the sizes that are tried differ at most by this from those of good disjoint sets."""
_MAX_WINDOW: Final = 24
"""Sizes of one set that a search may try."""
_POOLED_MARGIN: Final = 1
_POOLED_REACH: Final = 3
"""How far from the sizes that make loads even others are tried, where zones pool their endpoints."""


def search_exactly(search: Search) -> bool:
    """Two or three zones with demand. Writes groups, and returns whether they are better than one for all."""
    consumers, total = search.consumer_count, search.total
    for cell in range(KINDS * len(search.supply)):
        search.best_kinds[cell] = 0
    for zone in range(len(search.supply)):
        search.set_of[zone] = zone
        search.share[zone] = search.shares[zone]
    # With two consumers, the set of the third stays empty.
    for consumer in range(MAX_CONSUMERS):
        search.low[consumer] = search.high[consumer] = 0
    if total >= consumers:
        for is_fair in (False, True):
            start_by_wish(search, is_fair)
            improve_sets(search)
            is_new = False
            for consumer in range(consumers):
                size = search.size[search.consumers[consumer]]
                low, high = max(1, size - _MARGIN), min(total, size + _MARGIN)
                is_new = is_new or search.low[consumer] != low or search.high[consumer] != high
                search.low[consumer], search.high[consumer] = low, high
            if is_new:
                _try_sizes(search)
    if total <= _EXACT_ENDPOINTS:
        for consumer in range(consumers):
            search.low[consumer], search.high[consumer] = 1, total
        _try_sizes(search)
    elif consumers == MAX_CONSUMERS:
        _try_pooled_sizes(search)
    return _write_best(search)


def _write_best(search: Search) -> bool:
    """Write a group for each kind of endpoints of the best sets; False where there are none."""
    zones = len(search.supply)
    clear_groups(search)
    is_better = False
    shared = zones
    for kind in range(1, 1 << search.consumer_count):
        users = _users(search, kind)
        group = shared
        for zone in range(zones):
            if users == 1 << zone:
                group = zone
        if group == shared:
            shared += 1
        search.users[group] = users
        for located in range(zones):
            count = search.best_kinds[kind * zones + located]
            search.composition[group * zones + located] = count
            is_better = is_better or count > 0
    return is_better


def _users(search: Search, kind: int) -> int:
    """The zones that use endpoints of a kind, as bits."""
    users = 0
    for consumer in range(search.consumer_count):
        if kind >> consumer & 1:
            users |= 1 << search.consumers[consumer]
    return users


# --- sizes ------------------------------------------------------------------------------------------------------------


def _try_sizes(search: Search) -> None:
    """Search for sets with sizes in the window that are better than the best so far."""
    total, low, high = search.total, search.low, search.high
    cost, overload, lack, best = search.cost, search.overload, search.lack, search.best
    cost[2 * _MAX_WINDOW] = overload[2 * _MAX_WINDOW] = lack[2 * _MAX_WINDOW] = 0.0
    for consumer in range(search.consumer_count):
        for size in range(low[consumer], high[consumer] + 1):
            measure_set(search, search.consumers[consumer], size, consumer * _MAX_WINDOW + size - low[consumer])
    for first in range(low[0], high[0] + 1):
        cell = first - low[0]
        cost0, worst0, lack0 = cost[cell], max(0.0, overload[cell]), lack[cell]
        # The other sets can only add to all three: what cannot win now never does.
        if not is_better(search, cost0, worst0, 2 * lack0, best):
            continue
        for second in range(low[1], high[1] + 1):
            cell = _MAX_WINDOW + second - low[1]
            cost1, worst1, lack1 = cost0 + cost[cell], max(worst0, overload[cell]), lack0 + lack[cell]
            if not is_better(search, cost1, worst1, 2 * lack1, best):
                continue
            for third in range(max(low[2], total - first - second), high[2] + 1):
                cell = 2 * _MAX_WINDOW + third - low[2]
                cost2 = cost1 + cost[cell]
                if is_better(search, cost2, max(worst1, overload[cell]), 2 * (lack1 + lack[cell]), best):
                    _try_overlaps(search, first, second, third, cost2)


def _share(search: Search, consumer: int) -> float:
    share: float = search.shares[search.consumers[consumer]]
    return share


def _try_pooled_sizes(search: Search) -> None:
    """Search for better sets among those in which one of three zones shares all its endpoints: two zones use one set,
    or one zone uses all endpoints and the others divide them.

    A zone with a small part of the demand has too few endpoints for a fair load on each, and with others it has more.
    """
    total, supply = search.total, search.supply
    for alone in range(MAX_CONSUMERS):
        first, second = (1 if alone == 0 else 0), (1 if alone == 2 else 2)
        # One set for two zones, and one for the third.
        pair_share = _share(search, first) + _share(search, second)
        least = int(total * pair_share / (1 + search.limit)) + 1
        most = total - int(total * _share(search, alone) / (1 + search.limit)) - 1
        near = total - supply[search.consumers[alone]]
        for start in (int(total * pair_share), min(max(near, least), most)):
            for size in range(max(least, start - _POOLED_MARGIN), min(most, start + _POOLED_MARGIN + 1) + 1):
                if 0 < size < total:
                    _try_pools(search, 1 << alone, total - size, 1 << first | 1 << second, size)
        # The third uses all endpoints, which the two divide.
        fair = int(total * _share(search, first) / pair_share)
        near = min(max(supply[search.consumers[first]], fair - _POOLED_REACH), fair + _POOLED_REACH)
        for start in (fair, near):
            for size in range(max(1, start - _POOLED_MARGIN), min(total - 1, start + _POOLED_MARGIN + 1) + 1):
                _try_pools(search, 1 << alone | 1 << first, size, 1 << alone | 1 << second, total - size)


# --- kinds ------------------------------------------------------------------------------------------------------------


def _try_pools(search: Search, one: int, one_count: int, other: int, other_count: int) -> None:
    """Try sets in which all endpoints are of two kinds."""
    for kind in range(KINDS):
        search.count[kind] = 0
    search.count[one], search.count[other] = one_count, other_count
    least = 0.0
    for consumer in range(MAX_CONSUMERS):
        size = one_count * (one >> consumer & 1) + other_count * (other >> consumer & 1)
        search.load[1 << consumer] = search.total * _share(search, consumer) / size
        least += _own_cost(search, search.consumers[consumer], size)
    _add_loads(search)
    _try_counts(search, least)


def _own_cost(search: Search, zone: int, size: int) -> float:
    """`set_cost` of the set of one zone, without a loop over zones where there is no table."""
    if search.is_plain:
        cost: float = search.shares[zone] * (1 - min(size, search.supply[zone]) / size)
        return cost
    return set_cost(search, zone, size)


def _try_overlaps(search: Search, first: int, second: int, third: int, least: float) -> None:
    """Try every way in which sets of these sizes can share endpoints. ``least`` bounds the cost of a request."""
    load, count, total = search.load, search.count, search.total
    load[0b001] = total * _share(search, 0) / first
    load[0b010] = total * _share(search, 1) / second
    # With two consumers, nothing shares endpoints with the third.
    load[0b100] = total * _share(search, 2) / third if third > 0 else inf
    _add_loads(search)
    shared = first + second + third - total
    most = 1 + search.limit
    for all_three in range(shared // 2 + 1 if load[0b111] <= most else 1):
        pairs = shared - 2 * all_three
        for pair01 in range(pairs + 1 if load[0b011] <= most else 1):
            for pair02 in range(pairs - pair01 + 1 if load[0b101] <= most else 1):
                pair12 = pairs - pair01 - pair02
                count[0b001] = first - pair01 - pair02 - all_three
                count[0b010] = second - pair01 - pair12 - all_three
                count[0b100] = third - pair02 - pair12 - all_three
                is_possible = count[0b001] >= 0 and count[0b010] >= 0 and count[0b100] >= 0
                if is_possible and (pair12 == 0 or load[0b110] <= most):
                    count[0b011], count[0b101], count[0b110], count[0b111] = pair01, pair02, pair12, all_three
                    _try_counts(search, least)


def _add_loads(search: Search) -> None:
    """Write the load of an endpoint that several zones use: the sum over these."""
    for kind in (0b011, 0b101, 0b110, 0b111):
        search.load[kind] = search.load[kind & (kind - 1)] + search.load[kind & -kind]


def _try_counts(search: Search, least: float) -> None:
    """Remember the sets to try where they are better than the best so far."""
    count, load = search.count, search.load
    worst = 0.0
    mean = 0.0
    for kind in range(1, KINDS):
        if count[kind] > 0:
            worst = max(worst, load[kind] - 1)
            mean += count[kind] * abs(load[kind] - 1)
    mean /= search.total
    if is_better(search, least, worst, mean, search.best):
        _place_kinds(search, worst, mean)


def _place_kinds(search: Search, worst: float, mean: float) -> None:
    """Find out how many endpoints of each kind to try are in each zone where requests cost least, and remember them
    where they are better than the best so far."""
    zones = len(search.supply)
    count, flow, price = search.count, search.composition, search.group_price
    for kind in range(KINDS):
        search.users[kind] = _users(search, kind)
        for zone in range(zones):
            flow[kind * zones + zone] = 0
            if count[kind] > 0:
                cost = 0.0
                for consumer in range(search.consumer_count):
                    if kind >> consumer & 1:
                        cost += search.load[1 << consumer] * request_cost(search, search.consumers[consumer], zone)
                price[kind * zones + zone] = cost
    fill_groups(search, _BY_USERS, range(zones))
    cheapest_flow(KINDS, zones, flow, price, search.flow_room)
    cost = 0.0
    for cell in range(KINDS * zones):
        if flow[cell] > 0:
            cost += flow[cell] * price[cell]
    cost /= search.total
    if is_better(search, cost, worst, mean, search.best):
        write_value(search, cost, worst, mean, search.best)
        for cell in range(KINDS * zones):
            search.best_kinds[cell] = flow[cell]
