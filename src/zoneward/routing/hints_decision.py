"""Decisions that take effect by hints: KEP-2433's heuristics, KEP-4444's and KEP-3015's distributions, and `Auto` as
current Kubernetes decides it.

`zoneward.slices` writes the hints into EndpointSlices.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

from zoneward.routing.algorithms.heuristics import Heuristic
from zoneward.routing.algorithms.proportional_zone_cpu import least_endpoints
from zoneward.routing.allocation import Allocation, Supply, Zones, allocate, threshold_parameters
from zoneward.routing.configuration import UPSTREAM_THRESHOLD
from zoneward.routing.decision import Decision, DecisionContext, ZoneRange
from zoneward.routing.demand import Demand
from zoneward.routing.endpoint_index import Bucket
from zoneward.routing.phrases import counted, describe_without, format_percent, listed
from zoneward.routing.placement import Pool, place, with_guests_kept
from zoneward.routing.request import Approach
from zoneward.routing.rules import Reason
from zoneward.routing.thresholds import lost_in_zone, overload_threshold


def decide_balanced(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Decide by KEP-2433's heuristic, which balances load, with the guarantees of this project."""
    refusal = (
        context.check_external_policy()
        or context.check_ready_nodes()
        or context.check_nodes()
        or context.check_zones(context.demand)
        or _count_refusal(context)
        or context.check_endpoint_zones()
    )
    if refusal is not None:
        return refusal
    suspended = context.was_suspended(heuristic)
    in_force = context.is_in_force(heuristic) or suspended
    threshold = overload_threshold(context.hints, in_force=in_force)
    state = (
        "in force until something was unknown" if suspended else "in force already" if in_force else "not in force yet"
    )
    detail = f"{state}: {'kept' if in_force else 'starts'} below {format_percent(threshold)}"
    context.rules.record("threshold-in-force", True, detail)
    decision = _allocate_and_place(context, heuristic, threshold)
    if decision is not None:
        return decision
    # The message leaves out the threshold: it is lower the next time, when nothing is in force, and the message would
    # change.
    ready, zones = context.ready_count, len(context.demand.zones)
    return context.build_inactive(
        Reason.OVERLOAD,
        f"{counted(ready, 'endpoint')} for {counted(zones, 'zone')}: any split would put too much on some zone",
    )


def decide_own_zone(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Every endpoint serves its own zone (and node), regardless of demand and load."""
    no_endpoints = context.check_ready_endpoints()
    if no_endpoints is not None:
        return no_endpoints
    refusal = context.check_endpoint_zones()
    if refusal is not None and context.request.approach is Approach.HINTS:
        return refusal
    decision = _allocate_and_place(context, heuristic, context.hints.start_threshold)
    if decision is None:
        raise AssertionError(f"{heuristic.name} refused, though it has no threshold")
    if refusal is None:
        return decision
    without_node = sum(bucket.without_node for bucket in context.endpoint_index.ready_buckets())
    if heuristic.node_hints and context.rules.record(
        "endpoint-nodes", not without_node, f"{counted(without_node, 'ready endpoint')} without a node"
    ):
        message = f"every endpoint serves its own node, all serve the other nodes: {refusal.message} voids zone hints"
        return dataclasses.replace(decision, reason=refusal.reason, message=message, rules=context.rules.as_tuple())
    # The other endpoints keep their hints: proxies ignore all of them while one is missing, and an endpoint that comes
    # and leaves rewrites no other slice.
    return context.build_inactive(refusal.reason, refusal.message, targets=decision.targets, deciding=refusal.deciding)


# --- rules ------------------------------------------------------------------------------------------------------------


def _count_refusal(context: DecisionContext) -> Decision | None:
    ready, zones = context.ready_count, len(context.demand.zones)
    detail = f"{counted(ready, 'endpoint')} for {counted(zones, 'zone')}"
    if context.rules.require("enough-endpoints", ready >= zones, detail):
        return None
    return context.build_inactive(Reason.TOO_FEW_ENDPOINTS, f"{detail}: fewer than one each")


# --- the allocation ---------------------------------------------------------------------------------------------------


def _allocate_and_place(context: DecisionContext, heuristic: Heuristic, threshold: Fraction) -> Decision | None:
    """Allocation and placement, or None where the heuristic finds none."""
    demand = context.demand.reduced
    buckets = [bucket for bucket in context.endpoint_index.ready_buckets() if bucket.zone]
    zones = demand.keys() | {bucket.zone for bucket in buckets}
    pools = [Pool(bucket, bucket.zone, _previous_zone(bucket, zones)) for bucket in buckets]
    ready: Counter[str] = Counter()
    previous: Counter[tuple[Zones, str]] = Counter()
    for pool in pools:
        ready[pool.home] += len(pool)
        # Release endpoints held for zones that no longer send traffic.
        if pool.previous is not None and not (heuristic.balances and pool.previous[0] not in demand):
            previous[pool.previous, pool.home] += len(pool)
    settings = context.hints
    parameters = threshold_parameters(threshold, settings.start_threshold)
    allocation = allocate(heuristic, demand, Supply(ready, previous), parameters=parameters)
    if heuristic.balances:
        detail = _describe_minimums(context, threshold)
        if not context.rules.decide("overload-threshold", allocation is not None, detail):
            return None
    if allocation is None:
        return None
    if heuristic.balances and previous:
        fresh = _allocate_fresh(heuristic, allocation, demand, parameters)
        lost = lost_in_zone(allocation, fresh, demand)
        most = settings.in_zone_tolerance
        detail = (
            f"{lost * 100:.3g} % less traffic in its zone than with a new allocation, {format_percent(most)} at most"
        )
        if not context.rules.record("in-zone-tolerance", lost <= most, detail):
            allocation = with_guests_kept(fresh, previous)
    placed = place(pools, allocation.counts)
    moved = placed.count_moved(allocation.zones, starts=not context.is_in_force(heuristic))
    at_home = sum(count for (consumers, home), count in allocation.counts.items() if consumers == (home,))
    away = ready.total() - at_home
    record = context.rules.record if heuristic.balances else context.rules.decide
    record("placement", True, f"{counted(at_home, 'endpoint')} serve their own zone, {away} another; {moved} moved")
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message=_describe_allocation(context, heuristic, allocation),
        allocation=allocation,
        targets=context.hint_targets(allocation, placed.consumers, node_hints=heuristic.node_hints),
        moved=moved,
    )


def _allocate_fresh(
    heuristic: Heuristic, current: Allocation, demand: Mapping[str, int], parameters: Sequence[int]
) -> Allocation:
    """The allocation of the same endpoints if none had been placed before."""
    ready: Counter[str] = Counter()
    for (_, located), count in current.counts.items():
        ready[located] += count
    zones = {zone: demand.get(zone, 0) for zone in current.zones}
    fresh = allocate(heuristic, zones, Supply(ready), parameters=parameters)
    if fresh is None:
        raise AssertionError("expected an allocation wherever another keeps to the same threshold, got none")
    return fresh


def _previous_zone(bucket: Bucket, zones: Collection[str]) -> Zones | None:
    """The zone that the endpoints of a bucket served; None for none, or for several at once."""
    group = bucket.previous_group
    return group.zones if group is not None and len(group.zones) == 1 and group.zones[0] in zones else None


def _describe_minimums(context: DecisionContext, threshold: Fraction) -> str:
    """How many endpoints each zone needs to stay below the threshold, and how many there are."""
    total, ready = context.demand.total, context.ready_count
    needed = [
        least_endpoints(ready, weight, total, threshold.numerator, threshold.denominator)
        for weight in context.demand.weights
    ]
    return _describe_needed(needed, ready, threshold)


def _describe_needed(needed: Sequence[int], ready: int, threshold: Fraction) -> str:
    parts = " + ".join(str(count) for count in needed)
    return f"below {format_percent(threshold)} the zones need at least {parts} = {sum(needed)} of {ready} endpoints"


def _describe_allocation(context: DecisionContext, heuristic: Heuristic, allocation: Allocation) -> str:
    if not heuristic.balances:
        empty = tuple(
            zone for zone in allocation.zones if zone in context.demand.weight_of and not allocation.size((zone,))
        )
        where = "node, then its own zone" if heuristic.node_hints else "zone"
        text = f"every endpoint serves its own {where}"
        return f"{text}; {listed(empty)} without endpoints: all serve there" if empty else text
    ready = context.ready_count
    worst, zone = max(
        (Fraction(ready * weight, context.demand.total * allocation.size((zone,))) - 1, zone)
        for zone, weight in context.demand.weight_of.items()
    )
    numbers = f"{counted(ready, 'endpoint')} for {counted(len(context.demand.zones), 'zone')}"
    if not worst:
        return f"every zone has its fair share; {numbers}"
    return f"no zone is more than {format_percent(worst)} above fair ({zone} is); {numbers}"


# --- as current Kubernetes --------------------------------------------------------------------------------------------

_OVERLOAD_THRESHOLD: Final = float(UPSTREAM_THRESHOLD)


@dataclass(frozen=True, slots=True)
class UpstreamRefusal:
    """Why upstream gives no hints. ``minimums``: the endpoints that the zones need, where there are too few."""

    reason: Reason
    detail: str
    minimums: tuple[int, ...] = ()


def has_node_information(demand: Demand) -> bool:
    """Upstream gives up on all Nodes when one ready Node lacks a zone or CPU, or when there is only one zone."""
    return _missing_node_information(demand) is None


def _missing_node_information(demand: Demand) -> UpstreamRefusal | None:
    """Upstream has one message for all of them."""
    if demand.without_zone:
        return UpstreamRefusal(Reason.NODE_WITHOUT_ZONE, describe_without(demand.without_zone, "node", "zone label"))
    if demand.without_cpu:
        return UpstreamRefusal(Reason.NODE_WITHOUT_CPU, describe_without(demand.without_cpu, "node", "allocatable CPU"))
    if len(demand.zones) < 2:
        return UpstreamRefusal(Reason.ONE_ZONE, f"nodes are only ready in {counted(len(demand.zones), 'zone')}")
    return None


def zone_ranges(demand: Demand, endpoints: int) -> Mapping[str, ZoneRange] | UpstreamRefusal:
    """The endpoints that upstream wants hinted to each zone for ``Auto``: the range for a number of ready endpoints, or
    why there is none. Which endpoints it hints depends on how they lie in slices (`zoneward.slices.upstream`).

    Double arithmetic as upstream's: with five equal zones and 12 endpoints the minimum comes out as 3, not 2.
    """
    zones = len(demand.zones)
    missing = _missing_node_information(demand)
    if missing is not None:
        return missing
    if zones > endpoints:
        return UpstreamRefusal(Reason.TOO_FEW_ENDPOINTS, f"{endpoints} endpoints, {zones} zones")
    minimums = {}
    desired = {}
    for zone, weight in demand.weight_of.items():
        wanted = weight / demand.total * endpoints
        minimums[zone] = ceil(wanted * (1 / (1 + _OVERLOAD_THRESHOLD)))
        desired[zone] = max(wanted, float(minimums[zone]))
    spare = endpoints - sum(minimums.values())
    if spare < 0:
        return UpstreamRefusal(Reason.OVERLOAD, f"{endpoints} endpoints, {zones} zones", tuple(minimums.values()))
    return {zone: ZoneRange(minimum, minimum + spare, desired[zone]) for zone, minimum in minimums.items()}


def decide_as_upstream(context: DecisionContext) -> Decision:
    """Decide as upstream does. Its hints depend on how endpoints lie in slices, so `zoneward.slices` sets them."""
    ready = context.ready_count
    ranges = zone_ranges(context.demand, ready)
    if isinstance(ranges, UpstreamRefusal):
        needed = _describe_needed(ranges.minimums, ready, UPSTREAM_THRESHOLD) if ranges.minimums else ranges.detail
        context.rules.require("upstream-allocation", False, needed)
        return context.build_inactive(ranges.reason, ranges.detail)
    context.rules.decide(
        "upstream-allocation",
        True,
        "; ".join(f"{zone} {bounds.minimum} to {bounds.maximum}" for zone, bounds in ranges.items()),
    )
    refusal = context.check_endpoint_zones()
    if refusal is not None:
        return refusal
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message="hints as upstream sets them",
        ranges=dict(ranges),
    )
