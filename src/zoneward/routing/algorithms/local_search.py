"""Sets of endpoints for any number of zones, improved by single steps: first disjoint sets, then shared ones.

With few endpoints a zone, some zones have to share a set, as one zone with the demand of all of them. A step between
disjoint sets gives endpoints of one set to another (many at first, then fewer), or lets a zone change to another set;
the best step is made while there is one. The cost of a set depends on its zones and its size alone, so that steps are
compared by the sets that they change.

Afterwards a step changes which zones use one endpoint: one zone more, one fewer, or one in place of another. The first
step that improves the sets is made, until there is none or `_MAX_TRIALS` were tried. With many endpoints a zone,
disjoint sets are near the optimum already, and no such step is tried.
"""

from typing import Any, Final, NamedTuple

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.set_value import Problem, is_better, request_cost, write_value
from zoneward.routing.algorithms.signature import max_groups
from zoneward.routing.algorithms.transport import FlowRoom, cheapest_flow
from zoneward.routing.zone_costs import COST_UNIT

NEAR: Final = 0
"""Start with the endpoints of each zone in its own set."""
FAIR: Final = 1
"""Start with endpoints in proportion to demand."""
GIVEN: Final = 2
"""Start with the sizes in the room, one for each zone with demand."""
NO_SET: Final = -1
NO_ZONE: Final = -1
_MOST_STEPS: Final = 100_000
"""Only a bound that guarantees an end."""
_MERGING_ZONES: Final = 4
"""With fewer zones with demand, none share a set here: the exact search does better."""
_MAX_TRIALS: Final = 600
_FEW: Final = 16
"""Endpoints a zone from which rounding matters little."""


class LocalRoom(NamedTuple):
    """Named arrays of the search.

    By zone: ``order``, most demand first; ``set_of``, the set of a zone, by the zone that gave it its name, or
    `NO_SET`. By set: ``size``, and ``share`` and ``cost`` of its requests, as parts of all; what a step changes with
    more and with fewer endpoints, ``more_cost`` and ``fewer_cost``, ``more_overload`` and ``fewer_overload``, and
    ``more_lack`` and ``fewer_lack``, of the traffic above a fair load. ``top`` are the three most overloaded sets.
    ``price`` is that of a request to each zone, or negative where its endpoints are used up; ``unused`` endpoints.

    Shared sets are groups, as algorithms return them: ``composition`` and ``weights``, with ``count`` endpoints and
    the ``load`` of each. By zone: how many endpoints it uses (``used``), what it sends to each (``part``), and what
    its requests to all cost (``zone_cost``). ``round_best`` is the value of the sets from which steps start.
    """

    order: Any
    set_of: Any
    size: Any
    share: Any
    cost: Any
    overload: Any
    more_cost: Any
    more_overload: Any
    more_lack: Any
    fewer_cost: Any
    fewer_overload: Any
    fewer_lack: Any
    top: Any
    price: Any
    unused: Any
    composition: Any
    weights: Any
    count: Any
    load: Any
    used: Any
    part: Any
    zone_cost: Any
    round_best: Any
    group_price: Any
    flow_room: FlowRoom


# --- disjoint sets to start with --------------------------------------------------------------------------------------


def find_disjoint_sets(problem: Problem, room: LocalRoom, start: int) -> float:
    """Write sizes and zones of good sets into ``room.size`` and ``room.set_of``. Returns their value."""
    zones = len(problem.demand)
    merges = problem.consumer_count >= _MERGING_ZONES
    _sort_by_demand(problem, room)
    if start == NEAR and merges:
        _start_at_home(problem, room)
    elif start == GIVEN:
        for zone in range(zones):
            room.set_of[zone] = zone if room.size[zone] > 0 else NO_SET
    else:
        _start_by_wish(problem, room, start)
    for zone in range(zones):
        if room.size[zone] > 0:
            _measure_set(problem, room, zone)
    step = 1
    while 2 * step < problem.total:
        step *= 2
    for _ in range(_MOST_STEPS):
        _move_endpoints(problem, room, step)
        if step > 1:
            step //= 2
        elif not merges or not _move_zone(problem, room):
            break
    _write_disjoint_value(problem, room)
    value: float = room.round_best[0]
    return value


def _sort_by_demand(problem: Problem, room: LocalRoom) -> None:
    for zone in range(len(problem.demand)):
        position = zone
        while position > 0 and problem.demand[room.order[position - 1]] < problem.demand[zone]:
            room.order[position] = room.order[position - 1]
            position -= 1
        room.order[position] = zone


def _start_by_wish(problem: Problem, room: LocalRoom, start: int) -> None:
    """Sets to start with: one for each zone, or one for each endpoint where there are more zones."""
    zones, total = len(problem.demand), problem.total
    size, order, share = room.size, room.order, room.share
    for zone in range(zones):
        size[zone] = 0
        room.set_of[zone] = NO_SET
        share[zone] = 0.0
    sets = min(problem.consumer_count, total)
    left = total
    for position in range(problem.consumer_count):
        zone = order[position]
        chosen = zone
        if position >= sets:
            chosen = order[0]
            for other in range(1, sets):
                if share[order[other]] < share[chosen]:
                    chosen = order[other]
        else:
            wanted = problem.supply[zone] if start == NEAR else int(total * problem.shares[zone])
            size[zone] = max(1, min(wanted, left - (sets - position - 1)))
            left -= size[zone]
        room.set_of[zone] = chosen
        share[chosen] += problem.shares[zone]
    while left > 0:
        chosen = order[0]
        for position in range(sets):
            zone = order[position]
            if total * share[zone] - size[zone] > total * share[chosen] - size[chosen]:
                chosen = zone
        more = max(1, left // 2)
        size[chosen] += more
        left -= more


def _start_at_home(problem: Problem, room: LocalRoom) -> None:
    """Sets to start with: one for each zone with endpoints. A zone without any joins the nearest of these, of several
    the one with the least demand for each endpoint; the most loaded set gets endpoints where no traffic starts."""
    demand, supply = problem.demand, problem.supply
    zones = len(supply)
    size, set_of, share = room.size, room.set_of, room.share
    idle = 0
    for zone in range(zones):
        has_set = demand[zone] > 0 and supply[zone] > 0
        size[zone] = supply[zone] if has_set else 0
        set_of[zone] = zone if has_set else NO_SET
        share[zone] = problem.shares[zone] if has_set else 0.0
        idle += 0 if has_set else supply[zone]
    if idle == problem.total:
        # No zone with traffic has endpoints: all share them.
        size[room.order[0]] = idle
        set_of[room.order[0]] = room.order[0]
        idle = 0
    for position in range(zones):
        zone = room.order[position]
        if demand[zone] == 0 or set_of[zone] != NO_SET:
            continue
        nearest = NO_SET
        for other in range(zones):
            if size[other] == 0:
                continue
            if nearest == NO_SET:
                nearest = other
                continue
            row = zone * zones
            farther = problem.costs[row + other] - problem.costs[row + nearest]
            if farther < 0 or (farther == 0 and share[other] * size[nearest] < share[nearest] * size[other]):
                nearest = other
        set_of[zone] = nearest
        share[nearest] += problem.shares[zone]
    if idle > 0:
        neediest = NO_SET
        for zone in range(zones):
            if size[zone] > 0 and (neediest == NO_SET or share[zone] * size[neediest] > share[neediest] * size[zone]):
                neediest = zone
        size[neediest] += idle


# --- the value of disjoint sets ---------------------------------------------------------------------------------------


def _set_cost(problem: Problem, room: LocalRoom, chosen: int, size: int) -> float:
    """The cost of the requests of a set with ``size`` endpoints, the nearest ones, as a part of all requests."""
    supply, price = problem.supply, room.price
    zones = len(supply)
    left = size
    if problem.is_plain:
        stays = 0.0
        for position in range(zones):
            zone = room.order[position]
            if room.set_of[zone] == chosen:
                taken = min(left, supply[zone])
                stays += taken * problem.shares[zone]
                left -= taken
        remote: float = room.share[chosen] - stays / size
        return remote
    for located in range(zones):
        price[located] = 0.0
        for zone in range(zones):
            if room.set_of[zone] == chosen:
                price[located] += problem.shares[zone] * problem.costs[zone * zones + located] / COST_UNIT
    cost = 0.0
    while left > 0:
        nearest = NO_ZONE
        for located in range(zones):
            if supply[located] > 0 and price[located] >= 0 and (nearest < 0 or price[located] < price[nearest]):
                nearest = located
        if nearest < 0:
            break
        taken = min(left, supply[nearest])
        cost += taken * price[nearest]
        left -= taken
        price[nearest] = -1.0
    return cost / size


def _measure_set(problem: Problem, room: LocalRoom, chosen: int) -> None:
    share = 0.0
    for zone in range(len(problem.supply)):
        if room.set_of[zone] == chosen:
            share += problem.shares[zone]
    room.share[chosen] = share
    room.cost[chosen] = _set_cost(problem, room, chosen, room.size[chosen])


def _disjoint_measures(problem: Problem, room: LocalRoom) -> tuple[float, float, float]:
    """The mean cost of a request, the worst overload, and the part of traffic above a fair load."""
    total = problem.total
    cost = worst = lack = 0.0
    for chosen in range(len(problem.supply)):
        size, share = room.size[chosen], room.share[chosen]
        if size > 0:
            cost += room.cost[chosen]
            worst = max(worst, total * share / size - 1)
            lack += max(0.0, share - size / total)
    return cost, worst, lack


def _write_disjoint_value(problem: Problem, room: LocalRoom) -> None:
    cost, worst, lack = _disjoint_measures(problem, room)
    write_value(problem, cost, worst, 2 * lack, room.round_best)


# --- steps between disjoint sets --------------------------------------------------------------------------------------


def _move_endpoints(problem: Problem, room: LocalRoom, step: int) -> None:
    """Give ``step`` endpoints of one set to another while that is better; each time the best of all such steps."""
    for chosen in range(len(problem.supply)):
        _price_steps(problem, room, chosen, step)
    for _ in range(_MOST_STEPS):
        giver, taker = _best_move(problem, room, step)
        if giver == NO_SET:
            break
        room.size[giver] -= step
        room.size[taker] += step
        room.cost[giver] = room.fewer_cost[giver]
        room.cost[taker] = room.more_cost[taker]
        _price_steps(problem, room, giver, step)
        _price_steps(problem, room, taker, step)


def _price_steps(problem: Problem, room: LocalRoom, chosen: int, step: int) -> None:
    """Measure a set with ``step`` endpoints more and fewer."""
    total, size, share = problem.total, room.size[chosen], room.share[chosen]
    lack = max(0.0, share - size / total)
    if size > 0:
        room.overload[chosen] = total * share / size - 1
        room.more_cost[chosen] = _set_cost(problem, room, chosen, size + step)
        room.more_lack[chosen] = max(0.0, share - (size + step) / total) - lack
        room.more_overload[chosen] = total * share / (size + step) - 1
    if size > step:
        room.fewer_cost[chosen] = _set_cost(problem, room, chosen, size - step)
        room.fewer_lack[chosen] = max(0.0, share - (size - step) / total) - lack
        room.fewer_overload[chosen] = total * share / (size - step) - 1


def _best_move(problem: Problem, room: LocalRoom, step: int) -> tuple[int, int]:
    """The sets that give and take in the best step, or `NO_SET` twice."""
    zones = len(problem.supply)
    cost, worst_now, lack = _disjoint_measures(problem, room)
    write_value(problem, cost, worst_now, 2 * lack, room.round_best)
    _find_top(problem, room)
    top = room.top
    best_giver = best_taker = NO_SET
    for giver in range(zones):
        if room.size[giver] <= step:
            continue
        given_cost = cost - room.cost[giver] + room.fewer_cost[giver]
        given_lack = lack + room.fewer_lack[giver]
        for taker in range(zones):
            if taker == giver or room.size[taker] == 0:
                continue
            worst = max(0.0, room.fewer_overload[giver], room.more_overload[taker])
            # The most overloaded set that does not change.
            rank = 0
            while rank < 2 and (top[rank] == giver or top[rank] == taker):
                rank += 1
            if top[rank] != NO_SET:
                worst = max(worst, room.overload[top[rank]])
            new_cost = given_cost - room.cost[taker] + room.more_cost[taker]
            new_lack = given_lack + room.more_lack[taker]
            if new_cost >= cost and new_lack >= lack and worst >= worst_now:
                # Better in nothing.
                continue
            if is_better(problem, new_cost, worst, 2 * new_lack, room.round_best):
                write_value(problem, new_cost, worst, 2 * new_lack, room.round_best)
                best_giver, best_taker = giver, taker
    return best_giver, best_taker


def _find_top(problem: Problem, room: LocalRoom) -> None:
    """The three most overloaded sets, in order: a step changes two."""
    top = room.top
    top[0] = top[1] = top[2] = NO_SET
    for chosen in range(len(problem.supply)):
        if room.size[chosen] == 0:
            continue
        rank = 3
        while rank > 0 and (top[rank - 1] == NO_SET or room.overload[chosen] > room.overload[top[rank - 1]]):
            rank -= 1
            if rank < 2:
                top[rank + 1] = top[rank]
        if rank < 3:
            top[rank] = chosen


def _move_zone(problem: Problem, room: LocalRoom) -> bool:
    """Let a zone change to another set where that is better; the best of all such steps."""
    zones = len(problem.supply)
    set_of, size, share, cost = room.set_of, room.size, room.share, room.cost
    _write_disjoint_value(problem, room)
    best_zone = best_set = NO_ZONE
    for zone in range(zones):
        old = set_of[zone]
        if old == NO_SET:
            continue
        for new in range(zones):
            if new == old or size[new] == 0:
                continue
            before = size[old], share[old], cost[old], size[new], share[new], cost[new]
            _change_set(problem, room, zone, new)
            new_cost, worst, lack = _disjoint_measures(problem, room)
            if is_better(problem, new_cost, worst, 2 * lack, room.round_best):
                write_value(problem, new_cost, worst, 2 * lack, room.round_best)
                best_zone, best_set = zone, new
            set_of[zone] = old
            size[old], share[old], cost[old], size[new], share[new], cost[new] = before
    if best_zone == NO_ZONE:
        return False
    _change_set(problem, room, best_zone, best_set)
    return True


def _change_set(problem: Problem, room: LocalRoom, zone: int, new: int) -> None:
    """Move a zone to another set. A set that its last zone leaves gives its endpoints to that one."""
    old = room.set_of[zone]
    room.set_of[zone] = new
    is_empty = True
    for other in range(len(problem.supply)):
        if room.set_of[other] == old:
            is_empty = False
    if is_empty:
        room.size[new] += room.size[old]
        room.size[old] = 0
    else:
        _measure_set(problem, room, old)
    _measure_set(problem, room, new)


# --- from disjoint sets to groups -------------------------------------------------------------------------------------


def write_groups(problem: Problem, room: LocalRoom) -> None:
    """Write disjoint sets as groups, which are empty so far: own ones, and shared ones where zones have one set."""
    zones = len(problem.supply)
    groups = max_groups(zones)
    for zone in range(zones):
        room.weights[zone * zones + zone] = 1.0
        room.unused[zone] = problem.supply[zone]
    for cell in range(groups * zones):
        room.group_price[cell] = 0.0
    # At home first, the zones with most demand before others; then anywhere.
    for at_home in (True, False):
        shared = zones
        for chosen in range(zones):
            if room.size[chosen] == 0:
                continue
            group = NO_ZONE
            members = 0
            for zone in range(zones):
                if room.set_of[zone] == chosen:
                    group = zone
                    members += 1
            if members > 1:
                group = shared
                shared += 1
            if at_home:
                _price_group(problem, room, group, chosen)
            _fill_group(problem, room, group, chosen, at_home)
    if not problem.is_plain:
        cheapest_flow(groups, zones, room.composition, room.group_price, room.flow_room)


def _price_group(problem: Problem, room: LocalRoom, group: int, chosen: int) -> None:
    zones = len(problem.supply)
    for position in range(zones):
        zone = room.order[position]
        if room.set_of[zone] == chosen:
            room.weights[group * zones + zone] = 1.0
            for located in range(zones):
                price = problem.shares[zone] * request_cost(problem, zone, located) / room.size[chosen]
                room.group_price[group * zones + located] += price


def _fill_group(problem: Problem, room: LocalRoom, group: int, chosen: int, at_home: bool) -> None:
    zones = len(problem.supply)
    needed = room.size[chosen]
    for zone in range(zones):
        needed -= room.composition[group * zones + zone]
    for position in range(zones):
        zone = room.order[position]
        if not at_home or room.set_of[zone] == chosen:
            count = min(needed, room.unused[zone])
            room.composition[group * zones + zone] += count
            room.unused[zone] -= count
            needed -= count


# --- steps of single endpoints ----------------------------------------------------------------------------------------


def improve_groups(problem: Problem, room: LocalRoom) -> bool:
    """Make steps that improve the groups. Returns whether they are better than one group for all zones, in the end."""
    zones = len(problem.supply)
    cells = max_groups(zones) * zones
    _measure_groups(problem, room)
    cost, worst, mean = _measures_after(problem, room, NO_ZONE, 0, NO_ZONE, NO_ZONE)
    write_value(problem, cost, worst, mean, room.round_best)
    trials = 0 if problem.total < _FEW * problem.consumer_count else _MAX_TRIALS
    cell = 0
    unchanged = 0
    while trials < _MAX_TRIALS and unchanged < cells:
        tried, is_changed = _change_endpoint(problem, room, cell // zones, cell % zones)
        trials += tried
        if is_changed:
            _measure_groups(problem, room)
            unchanged = 0
        else:
            unchanged += 1
            cell = (cell + 1) % cells
    best = room.round_best
    return is_better(problem, best[3], best[1], best[2], problem.best)


def _measure_groups(problem: Problem, room: LocalRoom) -> None:
    zones = len(problem.supply)
    for zone in range(zones):
        room.used[zone] = 0
        room.zone_cost[zone] = 0.0
    for group in range(max_groups(zones)):
        room.count[group] = 0
        for located in range(zones):
            count = room.composition[group * zones + located]
            if count == 0:
                continue
            room.count[group] += count
            for zone in range(zones):
                if room.weights[group * zones + zone] > 0 and problem.demand[zone] > 0:
                    room.used[zone] += count
                    room.zone_cost[zone] += count * request_cost(problem, zone, located)
    for zone in range(zones):
        room.part[zone] = problem.shares[zone] / room.used[zone] if room.used[zone] > 0 else 0.0
    for group in range(max_groups(zones)):
        load = 0.0
        for zone in range(zones):
            if room.weights[group * zones + zone] > 0:
                load += room.part[zone]
        room.load[group] = load


def _change_endpoint(problem: Problem, room: LocalRoom, group: int, located: int) -> tuple[int, bool]:
    """Make the first step that is better with an endpoint of a group. Returns the number of trials, and whether one
    was."""
    zones = len(problem.supply)
    trials = 0
    if room.composition[group * zones + located] == 0:
        return trials, False
    members = 0
    for zone in range(zones):
        members += 1 if room.weights[group * zones + zone] > 0 else 0
    for join in range(NO_ZONE, zones):
        if join >= 0 and (problem.demand[join] == 0 or room.weights[group * zones + join] > 0):
            continue
        for leave in range(NO_ZONE, zones):
            if leave >= 0 and (room.weights[group * zones + leave] == 0 or room.used[leave] <= 1):
                continue
            users = members + (join >= 0) - (leave >= 0)
            if (join < 0 and leave < 0) or not 0 < users <= MAX_ZONE_HINTS:
                continue
            trials += 1
            cost, worst, mean = _measures_after(problem, room, group, located, join, leave)
            if is_better(problem, cost, worst, mean, room.round_best):
                target = _group_after(problem, room, group, join, leave)
                if target >= 0:
                    write_value(problem, cost, worst, mean, room.round_best)
                    room.composition[group * zones + located] -= 1
                    room.composition[target * zones + located] += 1
                    return trials, True
    return trials, False


def _measures_after(
    problem: Problem, room: LocalRoom, group: int, located: int, join: int, leave: int
) -> tuple[float, float, float]:
    """The cost, worst and mean overload if one zone more uses an endpoint of a group, one fewer, or both."""
    zones, total = len(problem.supply), problem.total
    joined = left = 0.0
    cost = 0.0
    for zone in range(zones):
        if zone == join:
            joined = problem.shares[zone] / (room.used[zone] + 1)
            cost += joined * (room.zone_cost[zone] + request_cost(problem, zone, located))
        elif zone == leave:
            left = problem.shares[zone] / (room.used[zone] - 1)
            cost += left * (room.zone_cost[zone] - request_cost(problem, zone, located))
        else:
            cost += room.part[zone] * room.zone_cost[zone]
    worst = 0.0
    mean = 0.0
    for other in range(max_groups(zones)):
        count = room.count[other]
        if count == 0:
            continue
        load = room.load[other]
        if join >= 0 and room.weights[other * zones + join] > 0:
            load += joined - room.part[join]
        if leave >= 0 and room.weights[other * zones + leave] > 0:
            load += left - room.part[leave]
        if other == group:
            count -= 1
            overload = total * (load + joined - left) - 1
            worst = max(worst, overload)
            mean += abs(overload)
        if count > 0:
            overload = total * load - 1
            worst = max(worst, overload)
            mean += count * abs(overload)
    return cost, worst, mean / total


def _group_after(problem: Problem, room: LocalRoom, group: int, join: int, leave: int) -> int:
    """The group of the zones that use an endpoint after a step, or -1 where no group is left."""
    zones = len(problem.supply)
    empty = -1
    for other in range(max_groups(zones)):
        count = 0
        is_same = True
        for zone in range(zones):
            count += room.composition[other * zones + zone]
            is_user = zone == join or (zone != leave and room.weights[group * zones + zone] > 0)
            if is_user != (room.weights[other * zones + zone] > 0):
                is_same = False
        if is_same:
            return other
        if count == 0 and other >= zones:
            empty = other
    if empty >= 0:
        for zone in range(zones):
            is_user = zone == join or (zone != leave and room.weights[group * zones + zone] > 0)
            room.weights[empty * zones + zone] = 1.0 if is_user else 0.0
    return empty
