"""ProportionalZoneCPU: each zone gets endpoints in proportion to its CPU, its own ones where possible.

KEP-2433 § Heuristics sets the goal (endpoints in proportion to CPU, those of the own zone first, others from zones with
more than they need) and § Overload the limit: no zone may expect its endpoints to get a threshold or more above a fair
share. With T endpoints, a zone with share r that consumes n of them is overloaded by T r / n - 1. Strictly below the
threshold t = a/b means

    n > T r / (1 + t),    so at least    floor(T r b / (b + a)) + 1    endpoints,

in whole numbers: twelve endpoints in five equal zones are exactly at 20 %, so not below it. An allocation exists
exactly when these minimums add up to no more than T, because any endpoint may serve any zone. This is where upstream's
rule falls short: it gives and takes by rounded differences, and may stop with a zone below its own minimum.

Two ways lead to an allocation:

- **keep**: endpoints stay where they were placed; new ones serve their own zone, or a zone that has become overloaded.
  If every zone has its minimum then, that is the answer, and nothing moved.
- **balance**: every zone gets between floor and ceiling of T r, starting from what it has, so that few endpoints
  move; then single endpoints are added or taken until the sum fits.
"""

from collections.abc import MutableSequence

from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence, part


def proportional_zone_cpu(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    previous: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],  # noqa: ARG001 -- integers suffice
) -> int:
    """Allocate in proportion to demand, or refuse.

    ``parameters``: numerator and denominator of the threshold in force, then of the threshold to start with, which a
    new balance aims for where possible. ``previous`` holds no endpoint for a zone without demand.
    """
    zones = len(demand)
    total_demand = 0
    total_supply = 0
    placed = 0
    for zone in range(zones):
        total_demand += demand[zone]
        total_supply += supply[zone]
        weights[zone * zones + zone] = 1.0
    for cell in range(zones * zones):
        placed += previous[cell]
        composition[cell] = previous[cell]
    if total_demand == 0 or total_supply == 0:
        return IMPOSSIBLE

    # What each zone consumes, its minimums, its bounds, its new endpoints.
    consumed, required, aimed = scratch[part(0, zones)], scratch[part(1, zones)], scratch[part(2, zones)]
    lower, upper, fresh = scratch[part(3, zones)], scratch[part(4, zones)], scratch[part(5, zones)]
    sum_required = 0
    sum_aimed = 0
    for zone in range(zones):
        consumed[zone] = 0
        required[zone] = 0
        aimed[zone] = 0
        if demand[zone] > 0:
            required[zone] = least_endpoints(total_supply, demand[zone], total_demand, parameters[0], parameters[1])
            aimed[zone] = least_endpoints(total_supply, demand[zone], total_demand, parameters[2], parameters[3])
        sum_required += required[zone]
        sum_aimed += aimed[zone]
    if sum_required > total_supply:
        return IMPOSSIBLE
    if sum_aimed > total_supply:
        for zone in range(zones):
            aimed[zone] = required[zone]

    # Endpoints that were not placed before: to their own zone, or, where that has no demand, to the zone most in need.
    for located in range(zones):
        unplaced = supply[located]
        for zone in range(zones):
            unplaced -= previous[zone * zones + located]
            consumed[zone] += previous[zone * zones + located]
        fresh[located] = unplaced
        if demand[located] > 0:
            composition[located * zones + located] += unplaced
            consumed[located] += unplaced
    for located in range(zones):
        if demand[located] == 0:
            for _ in range(fresh[located]):
                needy = _neediest(demand, consumed, zones)
                composition[needy * zones + located] += 1
                consumed[needy] += 1
            fresh[located] = 0

    if placed > 0:
        _lend_fresh(demand, composition, consumed, aimed, fresh, zones)
        enough = True
        for zone in range(zones):
            if consumed[zone] < required[zone]:
                enough = False
        if enough:
            return zones

    _bound(demand, total_demand, total_supply, aimed, lower, upper, zones)
    target = fresh
    _balance(demand, total_supply, consumed, lower, upper, target)
    _move(composition, consumed, target, zones)
    return zones


def least_endpoints(total_supply: int, demand: int, total_demand: int, numerator: int, denominator: int) -> int:
    """The least endpoints with which a zone's overload is strictly below ``numerator / denominator``."""
    return total_supply * demand * denominator // (total_demand * (denominator + numerator)) + 1


def _neediest(demand: IntegerSequence, consumed: IntegerSequence, zones: int) -> int:
    """The zone with the largest demand per endpoint; the first by name where two are alike."""
    best = -1
    for zone in range(zones):
        if demand[zone] > 0 and (best < 0 or demand[zone] * consumed[best] > demand[best] * consumed[zone]):
            best = zone
    return best


def _lend_fresh(
    demand: IntegerSequence,
    composition: MutableSequence[int],
    consumed: MutableSequence[int],
    aimed: MutableSequence[int],
    fresh: MutableSequence[int],
    zones: int,
) -> None:
    """Let new endpoints serve zones below the aim: that moves no endpoint, since they served no zone before."""
    for needy in range(zones):
        while consumed[needy] < aimed[needy]:
            giver = -1
            for zone in range(zones):
                if (
                    fresh[zone] > 0
                    and consumed[zone] > aimed[zone]
                    and (giver < 0 or demand[zone] * (consumed[giver] - 1) < demand[giver] * (consumed[zone] - 1))
                ):
                    giver = zone
            if giver < 0:
                break
            composition[giver * zones + giver] -= 1
            composition[needy * zones + giver] += 1
            fresh[giver] -= 1
            consumed[giver] -= 1
            consumed[needy] += 1


def _bound(
    demand: IntegerSequence,
    total_demand: int,
    total_supply: int,
    aimed: MutableSequence[int],
    lower: MutableSequence[int],
    upper: MutableSequence[int],
    zones: int,
) -> None:
    """Bounds of each zone: floor and ceiling of its fair part, and never below the aim."""
    sum_lower = 0
    for zone in range(zones):
        fair = total_supply * demand[zone]
        floor = fair // total_demand
        lower[zone] = max(floor, aimed[zone])
        upper[zone] = max(-(-fair // total_demand), aimed[zone])
        sum_lower += lower[zone]
    if sum_lower > total_supply:
        # The minimums of small zones leave less than the floor to large ones.
        for zone in range(zones):
            lower[zone] = aimed[zone]


def _balance(
    demand: IntegerSequence,
    total_supply: int,
    consumed: IntegerSequence,
    lower: MutableSequence[int],
    upper: MutableSequence[int],
    target: MutableSequence[int],
) -> None:
    """Write how many endpoints each zone is to consume: what it has, within its bounds, adding up to all.

    The sum fits because the lower bounds add up to at most, and the upper ones to at least, all endpoints.
    """
    zones = len(demand)
    total = 0
    for zone in range(zones):
        target[zone] = min(max(consumed[zone], lower[zone]), upper[zone])
        total += target[zone]
    step = -1 if total > total_supply else 1
    bound = lower if step < 0 else upper
    while total != total_supply:
        best = -1
        for zone in range(zones):
            if demand[zone] == 0 or target[zone] == bound[zone]:
                continue
            if best < 0:
                best = zone
            elif step < 0:
                # Take where the rest is least loaded afterwards.
                if demand[zone] * (target[best] - 1) < demand[best] * (target[zone] - 1):
                    best = zone
            elif demand[zone] * target[best] > demand[best] * target[zone]:
                best = zone
        target[best] += step
        total += step


def _move(
    composition: MutableSequence[int], consumed: MutableSequence[int], target: IntegerSequence, zones: int
) -> None:
    """Move endpoints from zones above their target to zones below it: home first, then other guests, then own ones."""
    for turn in range(3):
        for giver in range(zones):
            for located in range(zones):
                if (turn < 2) == (located == giver):
                    continue
                for needy in range(zones):
                    if turn == 0 and needy != located:
                        continue
                    moved = min(
                        consumed[giver] - target[giver],
                        target[needy] - consumed[needy],
                        composition[giver * zones + located],
                    )
                    if moved > 0:
                        composition[giver * zones + located] -= moved
                        composition[needy * zones + located] += moved
                        consumed[giver] -= moved
                        consumed[needy] += moved
