"""local: every zone its own group, filled from zones that have more than they need (KEP-2004 § Local).

It follows the prose to its end; `zoneward.routing.algorithms.local_kep_tool` ends as the proposal's tool does. Where
the prose is silent, the tool decides (``docs/subsetting.md`` § The algorithms). The starting threshold is checked
before.
"""

from collections.abc import MutableSequence
from typing import Final

from zoneward.routing.algorithms.endpoint_moves import lift_to_minimum, min_endpoints_below, place_all_at_home
from zoneward.routing.algorithms.signature import IMPOSSIBLE, IntegerSequence

FEWEST_AT: Final = 1
GIVERS_AT: Final = 2
RECEIVERS_AT: Final = 3
"""Where stretches of the scratch space begin, in zones: after the counts what each zone must have, then two queues."""


def local(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    previous: IntegerSequence,  # noqa: ARG001 -- placement decides who stays in which group
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """First lift every zone below the threshold, then every zone to the floor of what it expects.

    Impossible where some zone cannot be lifted below the threshold: the proposal then downgrades to one group for all.
    Zones that cannot be lifted to the floor stay where they are.
    """
    zones = len(demand)
    if lift_below_threshold(demand, supply, parameters, composition, weights, scratch, reals) < 0:
        return IMPOSSIBLE
    total = 0
    total_demand = 0
    for zone in range(zones):
        total += supply[zone]
        total_demand += demand[zone]
    for zone in range(zones):
        # A zone that has more than it expects has more than its floor, and keeps that.
        floor = total * demand[zone] // total_demand
        scratch[FEWEST_AT * zones + zone] = max(scratch[FEWEST_AT * zones + zone], floor)
    lift_to_minimum(GIVERS_AT * zones, RECEIVERS_AT * zones, FEWEST_AT * zones, zones, composition, scratch, reals)
    return zones


def lift_below_threshold(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
) -> int:
    """Put every endpoint into its own zone's group, then lift every zone below the threshold; returns how many queued
    zones can still give more, or `IMPOSSIBLE`.

    It leaves counts at the beginning of ``scratch``, `FEWEST_AT`, `GIVERS_AT` and `RECEIVERS_AT` behind them, shares at
    the beginning of ``reals``.
    """
    zones = len(demand)
    limit = parameters[0] / parameters[1]
    total = place_all_at_home(demand, supply, composition, weights, scratch, reals)
    if total == 0:
        return IMPOSSIBLE
    for zone in range(zones):
        scratch[FEWEST_AT * zones + zone] = min_endpoints_below(limit, total * reals[zone])
    return lift_to_minimum(
        GIVERS_AT * zones, RECEIVERS_AT * zones, FEWEST_AT * zones, zones, composition, scratch, reals
    )
