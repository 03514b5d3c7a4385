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
from zoneward.routing.algorithms.set_value import Problem, is_better, nearest_cost, request_cost, write_value
from zoneward.routing.algorithms.signature import max_groups
from zoneward.routing.algorithms.transport import FlowRoom, cheapest_flow

NO_SET: Final = -1
_NONE: Final = -1
"""No zone, or no group."""
_MOST_STEPS: Final = 100_000
"""Only a bound that guarantees an end."""
_MERGING_ZONES: Final = 4
"""With fewer zones with demand, none share a set here: the exact search does better."""
_MAX_TRIALS: Final = 600
_FEW: Final = 16
"""Endpoints a zone from which rounding matters little."""
_NOW: Final = 0
_MORE: Final = 1
_FEWER: Final = 2
"""The sizes for which a set is measured: its own one, and one step above and below."""


class LocalRoom(NamedTuple):
    """Named arrays of the search.

    By zone: ``order``, most demand first; ``set_of``, the set of a zone, by the zone that gave it its name, or
    `NO_SET`. By set: ``size``, and ``share`` of all requests. By size measured and set: the ``cost`` of its requests,
    as a part of that of all, its ``overload``, and ``lack``, the part of traffic above a fair load. By zone, ``price``
    is that of a request, and ``unused`` counts endpoints.

    Shared sets are groups, as algorithms return them. By group: ``users`` has a bit for each of its zones, ``count``
    its endpoints, and ``load`` is that of each. By group and zone: ``composition``, and ``group_price`` of a request.
    By zone: how many endpoints it uses (``used``), what it sends to each (``part``), and what its requests to all cost
    (``zone_cost``). ``round_best`` is the value of the sets from which steps start.
    """

    order: Any
    set_of: Any
    size: Any
    share: Any
    cost: Any
    overload: Any
    lack: Any
    price: Any
    unused: Any
    users: Any
    composition: Any
    count: Any
    load: Any
    used: Any
    part: Any
    zone_cost: Any
    round_best: Any
    group_price: Any
    flow_room: FlowRoom


# --- disjoint sets to start with --------------------------------------------------------------------------------------


def sort_by_demand(problem: Problem, room: LocalRoom) -> None:
    """Write the order of zones."""
    for zone in range(len(problem.demand)):
        position = zone
        while position > 0 and problem.demand[room.order[position - 1]] < problem.demand[zone]:
            room.order[position] = room.order[position - 1]
            position -= 1
        room.order[position] = zone


def start_by_wish(problem: Problem, room: LocalRoom, is_fair: bool) -> None:
    """Sets to start with: one for each zone, or one for each endpoint where there are more zones. A zone wishes for its
    fair part of all endpoints, or for those that it has."""
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
            wanted = int(total * problem.shares[zone]) if is_fair else problem.supply[zone]
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


def start_at_home(problem: Problem, room: LocalRoom) -> None:
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


# --- steps between disjoint sets --------------------------------------------------------------------------------------


def improve_sets(problem: Problem, room: LocalRoom) -> float:
    """Change sizes and zones of disjoint sets by single steps, while one is better. Returns the value of the sets."""
    merges = problem.consumer_count >= _MERGING_ZONES
    for chosen in range(len(problem.supply)):
        if room.size[chosen] > 0:
            _measure_set(problem, room, chosen, _NOW, room.size[chosen])
    step = 1
    while 2 * step < problem.total:
        step *= 2
    for _ in range(_MOST_STEPS):
        _move_endpoints(problem, room, step)
        if step > 1:
            step //= 2
        elif not merges or not _move_zone(problem, room):
            break
    cost, worst, lack = _measure_all(problem, room)
    write_value(problem, cost, worst, 2 * lack, room.round_best)
    value: float = room.round_best[0]
    return value


def _measure_all(problem: Problem, room: LocalRoom) -> tuple[float, float, float]:
    """The mean cost of a request, the worst overload, and the part of traffic above a fair load."""
    size, set_cost, overload, set_lack = room.size, room.cost, room.overload, room.lack
    cost = worst = lack = 0.0
    for chosen in range(len(problem.supply)):
        if size[chosen] > 0:
            cost += set_cost[chosen]
            worst = max(worst, overload[chosen])
            lack += set_lack[chosen]
    return cost, worst, lack


def _measure_set(problem: Problem, room: LocalRoom, chosen: int, measured: int, size: int) -> None:
    """Measure a set as if it had ``size`` endpoints, the nearest ones. Its zones are those of its last measure by its
    own size."""
    zones = len(problem.supply)
    if measured == _NOW:
        share = 0.0
        for zone in range(zones):
            if room.set_of[zone] == chosen:
                share += problem.shares[zone]
        room.share[chosen] = share
    share = room.share[chosen]
    cell = measured * zones + chosen
    room.cost[cell] = (
        _plain_cost(problem, room, chosen, size) if problem.is_plain else _cost(problem, room, chosen, size)
    )
    room.overload[cell] = problem.total * share / size - 1
    room.lack[cell] = max(0.0, share - size / problem.total)


def _plain_cost(problem: Problem, room: LocalRoom, chosen: int, size: int) -> float:
    """`_cost` without a table: the zones with most demand have their own endpoints."""
    order, set_of, supply = room.order, room.set_of, problem.supply
    cost = 0.0
    left = size
    for position in range(len(supply)):
        zone = order[position]
        if set_of[zone] == chosen:
            taken = min(left, supply[zone])
            cost += problem.shares[zone] * (1 - taken / size)
            left -= taken
    return cost


def _cost(problem: Problem, room: LocalRoom, chosen: int, size: int) -> float:
    """The cost of the requests of a set with ``size`` endpoints, as a part of that of all."""
    zones = len(problem.supply)
    for located in range(zones):
        room.price[located] = 0.0
        for zone in range(zones):
            if room.set_of[zone] == chosen:
                room.price[located] += problem.shares[zone] * request_cost(problem, zone, located)
    return nearest_cost(problem.supply, room.price, size)


def _measure_steps(problem: Problem, room: LocalRoom, chosen: int, step: int) -> None:
    """Measure a set with ``step`` endpoints more and fewer."""
    size = room.size[chosen]
    if size > 0:
        _measure_set(problem, room, chosen, _MORE, size + step)
    if size > step:
        _measure_set(problem, room, chosen, _FEWER, size - step)


def _move_endpoints(problem: Problem, room: LocalRoom, step: int) -> None:
    """Give ``step`` endpoints of one set to another while that is better; each time the best of all such steps."""
    for chosen in range(len(problem.supply)):
        _measure_steps(problem, room, chosen, step)
    for _ in range(_MOST_STEPS):
        giver, taker = _best_move(problem, room, step)
        if giver == NO_SET:
            break
        _change_size(problem, room, giver, -step, _FEWER)
        _change_size(problem, room, taker, step, _MORE)
        _measure_steps(problem, room, giver, step)
        _measure_steps(problem, room, taker, step)


def _change_size(problem: Problem, room: LocalRoom, chosen: int, change: int, measured: int) -> None:
    """Give a set the size for which it is measured already."""
    cell = measured * len(problem.supply) + chosen
    room.size[chosen] += change
    room.cost[chosen], room.overload[chosen], room.lack[chosen] = room.cost[cell], room.overload[cell], room.lack[cell]


def _best_move(problem: Problem, room: LocalRoom, step: int) -> tuple[int, int]:
    """The sets that give and take in the best step, or `NO_SET` twice."""
    zones = len(problem.supply)
    cost_now, worst_now, lack_now = _measure_all(problem, room)
    write_value(problem, cost_now, worst_now, 2 * lack_now, room.round_best)
    best_giver = best_taker = NO_SET
    more, fewer = _MORE * zones, _FEWER * zones
    size, set_cost, overload, set_lack = room.size, room.cost, room.overload, room.lack
    for giver in range(zones):
        if size[giver] <= step:
            continue
        given_cost = cost_now - set_cost[giver] + set_cost[fewer + giver]
        given_lack = lack_now - set_lack[giver] + set_lack[fewer + giver]
        for taker in range(zones):
            if taker == giver or size[taker] == 0:
                continue
            cost = given_cost - set_cost[taker] + set_cost[more + taker]
            lack = given_lack - set_lack[taker] + set_lack[more + taker]
            worst = max(0.0, overload[fewer + giver], overload[more + taker])
            # The sets that do not change can only add to the worst overload: they are looked at where it matters.
            if (cost < cost_now or lack < lack_now or worst < worst_now) and is_better(
                problem, cost, worst, 2 * lack, room.round_best
            ):
                worst = max(worst, _worst_of_others(problem, room, giver, taker))
                if is_better(problem, cost, worst, 2 * lack, room.round_best):
                    write_value(problem, cost, worst, 2 * lack, room.round_best)
                    best_giver, best_taker = giver, taker
    return best_giver, best_taker


def _worst_of_others(problem: Problem, room: LocalRoom, one: int, other: int) -> float:
    size, overload = room.size, room.overload
    worst = 0.0
    for chosen in range(len(problem.supply)):
        if size[chosen] > 0 and chosen != one and chosen != other:
            worst = max(worst, overload[chosen])
    return worst


def _move_zone(problem: Problem, room: LocalRoom) -> bool:
    """Let a zone change to another set where that is better; the best of all such steps."""
    zones = len(problem.supply)
    cost, worst, lack = _measure_all(problem, room)
    write_value(problem, cost, worst, 2 * lack, room.round_best)
    best_zone = best_set = _NONE
    for zone in range(zones):
        old = room.set_of[zone]
        for new in range(zones):
            if old == NO_SET or new == old or room.size[new] == 0:
                continue
            moved = _change_set(problem, room, zone, new)
            cost, worst, lack = _measure_all(problem, room)
            if is_better(problem, cost, worst, 2 * lack, room.round_best):
                write_value(problem, cost, worst, 2 * lack, room.round_best)
                best_zone, best_set = zone, new
            room.size[old] += moved
            room.size[new] -= moved
            _change_set(problem, room, zone, old)
    if best_zone == _NONE:
        return False
    _change_set(problem, room, best_zone, best_set)
    return True


def _change_set(problem: Problem, room: LocalRoom, zone: int, new: int) -> int:
    """Move a zone to another set. A set that its last zone leaves gives its endpoints to that one; returns how many."""
    old = room.set_of[zone]
    room.set_of[zone] = new
    moved: int = room.size[old]
    for other in range(len(problem.supply)):
        if room.set_of[other] == old:
            moved = 0
    room.size[old] -= moved
    room.size[new] += moved
    for chosen in (old, new):
        if room.size[chosen] > 0:
            _measure_set(problem, room, chosen, _NOW, room.size[chosen])
    return moved


# --- from disjoint sets to groups -------------------------------------------------------------------------------------


def write_groups(problem: Problem, room: LocalRoom) -> None:
    """Write disjoint sets as groups: own ones, and shared ones where zones have one set."""
    zones = len(problem.supply)
    groups = max_groups(zones)
    for group in range(groups):
        room.users[group] = 1 << group if group < zones else 0
    for cell in range(groups * zones):
        room.composition[cell] = 0
    for zone in range(zones):
        room.unused[zone] = problem.supply[zone]
    # At home first, the zones with most demand before others; then anywhere.
    for at_home in (True, False):
        shared = zones
        for chosen in range(zones):
            if room.size[chosen] == 0:
                continue
            group = _NONE
            users = 0
            for zone in range(zones):
                if room.set_of[zone] == chosen:
                    group = zone
                    users |= 1 << zone
            if users != 1 << group:
                group = shared
                shared += 1
            room.users[group] = users
            _price_group(problem, room, group, room.size[chosen])
            _fill_group(problem, room, group, room.size[chosen], at_home)
    if not problem.is_plain:
        cheapest_flow(groups, zones, room.composition, room.group_price, room.flow_room)


def _price_group(problem: Problem, room: LocalRoom, group: int, size: int) -> None:
    zones = len(problem.supply)
    for located in range(zones):
        price = 0.0
        for position in range(zones):
            zone = room.order[position]
            if room.users[group] >> zone & 1:
                price += problem.shares[zone] * request_cost(problem, zone, located) / size
        room.group_price[group * zones + located] = price


def _fill_group(problem: Problem, room: LocalRoom, group: int, size: int, at_home: bool) -> None:
    zones = len(problem.supply)
    needed = size
    for zone in range(zones):
        needed -= room.composition[group * zones + zone]
    for position in range(zones):
        zone = room.order[position]
        if not at_home or room.users[group] >> zone & 1:
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
    cost, worst, mean = _measures_after(problem, room, _NONE, 0, _NONE, _NONE)
    best = room.round_best
    write_value(problem, cost, worst, mean, best)
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
                if room.users[group] >> zone & 1 and problem.demand[zone] > 0:
                    room.used[zone] += count
                    room.zone_cost[zone] += count * request_cost(problem, zone, located)
    for zone in range(zones):
        room.part[zone] = problem.shares[zone] / room.used[zone] if room.used[zone] > 0 else 0.0
    for group in range(max_groups(zones)):
        load = 0.0
        for zone in range(zones):
            if room.users[group] >> zone & 1:
                load += room.part[zone]
        room.load[group] = load


def _change_endpoint(problem: Problem, room: LocalRoom, group: int, located: int) -> tuple[int, bool]:
    """Make the first step that is better with an endpoint of a group. Returns the number of trials, and whether one
    was."""
    zones = len(problem.supply)
    trials = 0
    if room.composition[group * zones + located] == 0:
        return trials, False
    users = room.users[group]
    members = 0
    for zone in range(zones):
        members += users >> zone & 1
    for join in range(_NONE, zones):
        if join >= 0 and (problem.demand[join] == 0 or users >> join & 1):
            continue
        for leave in range(_NONE, zones):
            if leave >= 0 and (not users >> leave & 1 or room.used[leave] <= 1):
                continue
            members_after = members + (join >= 0) - (leave >= 0)
            if (join < 0 and leave < 0) or not 0 < members_after <= MAX_ZONE_HINTS:
                continue
            trials += 1
            cost, worst, mean = _measures_after(problem, room, group, located, join, leave)
            if is_better(problem, cost, worst, mean, room.round_best):
                joined, left = (1 << join if join >= 0 else 0), (1 << leave if leave >= 0 else 0)
                target = _group_of(problem, room, users + joined - left)
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
        if join >= 0 and room.users[other] >> join & 1:
            load += joined - room.part[join]
        if leave >= 0 and room.users[other] >> leave & 1:
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


def _group_of(problem: Problem, room: LocalRoom, users: int) -> int:
    """The group of these zones, an empty one if there is none yet, or -1 where no group is left."""
    zones = len(problem.supply)
    empty = _NONE
    for group in range(max_groups(zones)):
        if room.users[group] == users:
            return group
        count = 0
        for zone in range(zones):
            count += room.composition[group * zones + zone]
        if count == 0 and group >= zones:
            empty = group
    if empty != _NONE:
        room.users[empty] = users
    return empty
