"""Sets of endpoints for any number of zones, improved by single steps: first disjoint sets, then shared ones.

With few endpoints a zone, some zones have to share a set, as one zone with the demand of all of them. A step between
disjoint sets gives endpoints of one set to another (many at first, then fewer), or lets a zone change to another set;
the best step is made while there is one. The cost of a set depends on its zones and its size alone, so that steps are
compared by the sets that they change.

Afterwards a step changes which zones use one endpoint: one zone more, one fewer, or one in place of another. The first
step that improves the sets is made, until there is none or `_MAX_TRIALS` were tried. With many endpoints a zone,
disjoint sets are near the optimum already, and no such step is tried.
"""

from collections.abc import Iterable, MutableSequence
from typing import Final

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu
from zoneward.routing.algorithms.set_value import Search, is_better, measure_set, request_cost, write_value
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence, max_groups
from zoneward.routing.algorithms.transport import cheapest_flow

_NO_SET: Final = -1
_NONE: Final = -1
"""No zone, or no group."""
_MOST_STEPS: Final = 100_000
"""Only a bound that guarantees an end."""
_MERGING_ZONES: Final = 4
"""With fewer zones with demand, none share a set here: the exact search does better."""
_MAX_TRIALS: Final = 600
_FEW: Final = 16
"""Endpoints a zone from which rounding matters little."""
_MORE: Final = 1
_FEWER: Final = 2
"""Sets are measured as they are, then with one step more, then with one step fewer endpoints."""


def search_locally(
    search: Search,
    parameters: IntegerSequence,
    previous: IntegerSequence,
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> bool:
    """Any number of zones: disjoint sets, then steps of single endpoints. Writes groups, and returns whether they are
    better than one for all."""
    zones = len(search.supply)
    for cell in range(zones * zones):
        search.composition[cell] = 0
    groups = proportional_zone_cpu(
        search.demand, search.supply, parameters, previous, search.composition, weights, scratch, reals
    )
    if groups == IMPOSSIBLE:
        start_by_wish(search, True)
    else:
        for zone in range(zones):
            search.size[zone] = 0
            for located in range(zones):
                search.size[zone] += search.composition[zone * zones + located]
            search.set_of[zone] = zone if search.size[zone] > 0 else _NO_SET
    first_cost, first_worst, first_lack = improve_sets(search)
    # The sizes and zones of these sets, in case that the next are no better.
    for zone in range(zones):
        search.count[zone] = search.size[zone]
        search.used[zone] = search.set_of[zone]
    _start_at_home(search)
    cost, worst, lack = improve_sets(search)
    best = search.round_best
    value = best[0]
    write_value(search, first_cost, first_worst, 2 * first_lack, best)
    # Sets of the same value may differ in their overload, which the objective locality compares next.
    if value <= best[0] and not is_better(search, cost, worst, 2 * lack, best):
        for zone in range(zones):
            search.size[zone] = search.count[zone]
            search.set_of[zone] = search.used[zone]
    return _improve_groups(search)


# --- disjoint sets to start with --------------------------------------------------------------------------------------


def start_by_wish(search: Search, is_fair: bool) -> None:
    """Sets to start with: one for each zone, or one for each endpoint where there are more zones. A zone wishes for its
    fair part of all endpoints, or for those that it has."""
    zones, total = len(search.demand), search.total
    size, order, share = search.size, search.order, search.share
    for zone in range(zones):
        size[zone] = 0
        search.set_of[zone] = _NO_SET
        share[zone] = 0.0
    sets = min(search.consumer_count, total)
    left = total
    for position in range(search.consumer_count):
        zone = order[position]
        chosen = zone
        if position >= sets:
            chosen = order[0]
            for other in range(1, sets):
                if share[order[other]] < share[chosen]:
                    chosen = order[other]
        else:
            wanted = int(total * search.shares[zone]) if is_fair else search.supply[zone]
            size[zone] = max(1, min(wanted, left - (sets - position - 1)))
            left -= size[zone]
        search.set_of[zone] = chosen
        share[chosen] += search.shares[zone]
    while left > 0:
        chosen = order[0]
        for position in range(sets):
            zone = order[position]
            if total * share[zone] - size[zone] > total * share[chosen] - size[chosen]:
                chosen = zone
        more = max(1, left // 2)
        size[chosen] += more
        left -= more


def _start_at_home(search: Search) -> None:
    """Sets to start with: one for each zone with endpoints. A zone without any joins the nearest of these, of several
    the one with the least demand for each endpoint; the most loaded set gets endpoints where no traffic starts."""
    demand, supply, costs = search.demand, search.supply, search.costs
    zones = len(supply)
    size, set_of, share = search.size, search.set_of, search.share
    idle = 0
    for zone in range(zones):
        has_set = demand[zone] > 0 and supply[zone] > 0
        size[zone] = supply[zone] if has_set else 0
        set_of[zone] = zone if has_set else _NO_SET
        share[zone] = search.shares[zone] if has_set else 0.0
        idle += 0 if has_set else supply[zone]
    if idle == search.total:
        # No zone with traffic has endpoints: all share them.
        size[search.order[0]] = idle
        set_of[search.order[0]] = search.order[0]
        idle = 0
    for position in range(search.consumer_count):
        zone = search.order[position]
        if set_of[zone] != _NO_SET:
            continue
        nearest = _NO_SET
        for other in range(zones):
            if size[other] == 0:
                continue
            farther = 0 if nearest == _NO_SET else costs[zone * zones + other] - costs[zone * zones + nearest]
            if (
                nearest == _NO_SET
                or farther < 0
                or (farther == 0 and share[other] * size[nearest] < share[nearest] * size[other])
            ):
                nearest = other
        set_of[zone] = nearest
        share[nearest] += search.shares[zone]
    if idle > 0:
        neediest = _NO_SET
        for zone in range(zones):
            if size[zone] > 0 and (neediest == _NO_SET or share[zone] * size[neediest] > share[neediest] * size[zone]):
                neediest = zone
        size[neediest] += idle


# --- steps between disjoint sets --------------------------------------------------------------------------------------


def improve_sets(search: Search) -> tuple[float, float, float]:
    """Change sizes and zones of disjoint sets by single steps, while one is better. Writes their value as `round_best`,
    and returns what it depends on."""
    merges = search.consumer_count >= _MERGING_ZONES
    for chosen in range(len(search.supply)):
        _measure_now(search, chosen)
    step = 1
    while 2 * step < search.total:
        step *= 2
    for _ in range(_MOST_STEPS):
        _move_endpoints(search, step)
        if step > 1:
            step //= 2
        elif not merges or not _move_zone(search):
            break
    return _write_value_now(search)


def _write_value_now(search: Search) -> tuple[float, float, float]:
    """Write the value of all sets as `round_best`; returns what it depends on."""
    cost, worst, lack = _measure_all(search)
    write_value(search, cost, worst, 2 * lack, search.round_best)
    return cost, worst, lack


def _measure_all(search: Search) -> tuple[float, float, float]:
    """The mean cost of a request, the worst overload, and the part of traffic above a fair load."""
    size, set_cost, overload, set_lack = search.size, search.cost, search.overload, search.lack
    cost = worst = lack = 0.0
    for chosen in range(len(search.supply)):
        if size[chosen] > 0:
            cost += set_cost[chosen]
            worst = max(worst, overload[chosen])
            lack += set_lack[chosen]
    return cost, worst, lack


def _measure_now(search: Search, chosen: int) -> None:
    """Measure a set as it is, after it got other zones or another size."""
    share = 0.0
    for zone in range(len(search.supply)):
        if search.set_of[zone] == chosen:
            share += search.shares[zone]
    search.share[chosen] = share
    if search.size[chosen] > 0:
        measure_set(search, chosen, search.size[chosen], chosen)


def _measure_steps(search: Search, chosen: int, step: int) -> None:
    """Measure a set with ``step`` endpoints more and fewer."""
    zones, size = len(search.supply), search.size[chosen]
    if size > 0:
        measure_set(search, chosen, size + step, _MORE * zones + chosen)
    if size > step:
        measure_set(search, chosen, size - step, _FEWER * zones + chosen)


def _move_endpoints(search: Search, step: int) -> None:
    """Give ``step`` endpoints of one set to another while that is better; each time the best of all such steps."""
    for chosen in range(len(search.supply)):
        _measure_steps(search, chosen, step)
    for _ in range(_MOST_STEPS):
        giver, taker = _best_move(search, step)
        if giver == _NO_SET:
            break
        search.size[giver] -= step
        search.size[taker] += step
        for chosen in (giver, taker):
            _measure_now(search, chosen)
            _measure_steps(search, chosen, step)


def _best_move(search: Search, step: int) -> tuple[int, int]:
    """The sets that give and take in the best step, or `_NO_SET` twice."""
    zones = len(search.supply)
    cost_now, worst_now, lack_now = _write_value_now(search)
    best_giver = best_taker = _NO_SET
    more, fewer = _MORE * zones, _FEWER * zones
    size, set_cost, overload, set_lack = search.size, search.cost, search.overload, search.lack
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
                search, cost, worst, 2 * lack, search.round_best
            ):
                for chosen in range(zones):
                    if size[chosen] > 0 and chosen != giver and chosen != taker:
                        worst = max(worst, overload[chosen])
                if is_better(search, cost, worst, 2 * lack, search.round_best):
                    write_value(search, cost, worst, 2 * lack, search.round_best)
                    best_giver, best_taker = giver, taker
    return best_giver, best_taker


def _move_zone(search: Search) -> bool:
    """Let a zone change to another set where that is better; the best of all such steps."""
    zones = len(search.supply)
    _write_value_now(search)
    best_zone = best_set = _NONE
    for zone in range(zones):
        old = search.set_of[zone]
        for new in range(zones):
            if old == _NO_SET or new == old or search.size[new] == 0:
                continue
            moved = _change_set(search, zone, new)
            cost, worst, lack = _measure_all(search)
            if is_better(search, cost, worst, 2 * lack, search.round_best):
                write_value(search, cost, worst, 2 * lack, search.round_best)
                best_zone, best_set = zone, new
            search.size[old] += moved
            search.size[new] -= moved
            _change_set(search, zone, old)
    if best_zone != _NONE:
        _change_set(search, best_zone, best_set)
    return best_zone != _NONE


def _change_set(search: Search, zone: int, new: int) -> int:
    """Move a zone to another set. A set that its last zone leaves gives its endpoints to that one; returns how many."""
    old = search.set_of[zone]
    search.set_of[zone] = new
    moved: int = search.size[old]
    for other in range(len(search.supply)):
        if search.set_of[other] == old:
            moved = 0
    search.size[old] -= moved
    search.size[new] += moved
    for chosen in (old, new):
        _measure_now(search, chosen)
    return moved


# --- groups -----------------------------------------------------------------------------------------------------------


def clear_groups(search: Search) -> None:
    """Write the users of own groups, and no endpoint."""
    zones = len(search.supply)
    for group in range(max_groups(zones)):
        search.users[group] = 1 << group if group < zones else 0
        for zone in range(zones):
            search.composition[group * zones + zone] = 0


def fill_groups(search: Search, groups: Iterable[int], zone_order: Iterable[int]) -> None:
    """Give each group its ``count`` of endpoints: those of its zones first, then any. Earlier groups and zones come
    first."""
    zones = len(search.supply)
    composition, unused = search.composition, search.unused
    for zone in range(zones):
        unused[zone] = search.supply[zone]
    for at_home in (True, False):
        for group in groups:
            needed = search.count[group]
            for zone in range(zones):
                needed -= composition[group * zones + zone]
            for zone in zone_order:
                if not at_home or search.users[group] >> zone & 1:
                    taken = min(needed, unused[zone])
                    composition[group * zones + zone] += taken
                    unused[zone] -= taken
                    needed -= taken


def _write_groups(search: Search) -> None:
    """Write disjoint sets as groups: own ones, and shared ones where zones have one set."""
    zones = len(search.supply)
    clear_groups(search)
    filled = 0
    shared = zones
    for chosen in range(zones):
        size = search.size[chosen]
        if size == 0:
            continue
        group = _NONE
        users = 0
        for zone in range(zones):
            if search.set_of[zone] == chosen:
                group = zone
                users |= 1 << zone
        if users != 1 << group:
            group = shared
            shared += 1
        search.users[group] = users
        search.count[group] = size
        search.groups[filled] = group
        filled += 1
        for located in range(zones):
            price = 0.0
            for position in range(zones):
                zone = search.order[position]
                if users >> zone & 1:
                    price += search.shares[zone] * request_cost(search, zone, located) / size
            search.group_price[group * zones + located] = price
    # The zones with most demand before others.
    fill_groups(search, search.groups[:filled], search.order)
    if not search.is_plain:
        cheapest_flow(max_groups(zones), zones, search.composition, search.group_price, search.flow_room)


# --- steps of single endpoints ----------------------------------------------------------------------------------------


def _improve_groups(search: Search) -> bool:
    """Write disjoint sets as groups, and make steps that improve these. Returns whether they are better than one group
    for all zones, in the end."""
    zones = len(search.supply)
    cells = max_groups(zones) * zones
    _write_groups(search)
    _measure_groups(search)
    cost, worst, mean = _measures_after(search, _NONE, 0, _NONE, _NONE)
    best = search.round_best
    write_value(search, cost, worst, mean, best)
    trials = 0 if search.total < _FEW * search.consumer_count else _MAX_TRIALS
    cell = 0
    unchanged = 0
    while trials < _MAX_TRIALS and unchanged < cells:
        tried, is_changed = _change_endpoint(search, cell // zones, cell % zones)
        trials += tried
        if is_changed:
            _measure_groups(search)
            unchanged = 0
        else:
            unchanged += 1
            cell = (cell + 1) % cells
    return is_better(search, best[3], best[1], best[2], search.best)


def _measure_groups(search: Search) -> None:
    zones = len(search.supply)
    for zone in range(zones):
        search.used[zone] = 0
        search.zone_cost[zone] = 0.0
    for group in range(max_groups(zones)):
        search.count[group] = 0
        for located in range(zones):
            count = search.composition[group * zones + located]
            if count == 0:
                continue
            search.count[group] += count
            for zone in range(zones):
                if search.users[group] >> zone & 1 and search.demand[zone] > 0:
                    search.used[zone] += count
                    search.zone_cost[zone] += count * request_cost(search, zone, located)
    for zone in range(zones):
        search.part[zone] = search.shares[zone] / search.used[zone] if search.used[zone] > 0 else 0.0
    for group in range(max_groups(zones)):
        load = 0.0
        for zone in range(zones):
            if search.users[group] >> zone & 1:
                load += search.part[zone]
        search.load[group] = load


def _change_endpoint(search: Search, group: int, located: int) -> tuple[int, bool]:
    """Make the first step that is better with an endpoint of a group. Returns the number of trials, and whether one
    was."""
    zones = len(search.supply)
    trials = 0
    if search.composition[group * zones + located] == 0:
        return trials, False
    users = search.users[group]
    members = 0
    for zone in range(zones):
        members += users >> zone & 1
    for join in range(_NONE, zones):
        if join >= 0 and (search.demand[join] == 0 or users >> join & 1):
            continue
        for leave in range(_NONE, zones):
            if leave >= 0 and (not users >> leave & 1 or search.used[leave] <= 1):
                continue
            members_after = members + (join >= 0) - (leave >= 0)
            if (join < 0 and leave < 0) or not 0 < members_after <= MAX_ZONE_HINTS:
                continue
            trials += 1
            cost, worst, mean = _measures_after(search, group, located, join, leave)
            if is_better(search, cost, worst, mean, search.round_best):
                joined, left = (1 << join if join >= 0 else 0), (1 << leave if leave >= 0 else 0)
                target = _group_of(search, users + joined - left)
                if target >= 0:
                    write_value(search, cost, worst, mean, search.round_best)
                    search.composition[group * zones + located] -= 1
                    search.composition[target * zones + located] += 1
                    return trials, True
    return trials, False


def _measures_after(search: Search, group: int, located: int, join: int, leave: int) -> tuple[float, float, float]:
    """The cost, worst and mean overload if one zone more uses an endpoint of a group, one fewer, or both."""
    zones, total = len(search.supply), search.total
    joined = left = 0.0
    cost = 0.0
    for zone in range(zones):
        if zone == join:
            joined = search.shares[zone] / (search.used[zone] + 1)
            cost += joined * (search.zone_cost[zone] + request_cost(search, zone, located))
        elif zone == leave:
            left = search.shares[zone] / (search.used[zone] - 1)
            cost += left * (search.zone_cost[zone] - request_cost(search, zone, located))
        else:
            cost += search.part[zone] * search.zone_cost[zone]
    worst = 0.0
    mean = 0.0
    for other in range(max_groups(zones)):
        count = search.count[other]
        if count == 0:
            continue
        load = search.load[other]
        if join >= 0 and search.users[other] >> join & 1:
            load += joined - search.part[join]
        if leave >= 0 and search.users[other] >> leave & 1:
            load += left - search.part[leave]
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


def _group_of(search: Search, users: int) -> int:
    """The group of these zones, an empty one if there is none yet, or -1 where no group is left."""
    zones = len(search.supply)
    empty = _NONE
    for group in range(max_groups(zones)):
        if search.users[group] == users:
            return group
        if group >= zones and search.count[group] == 0:
            empty = group
    if empty != _NONE:
        search.users[empty] = users
    return empty
