"""Decisions that take effect by hints: KEP-2433's heuristics, KEP-4444's and KEP-3015's distributions, and `Auto` as
current Kubernetes decides it.

`zoneward.slices` writes the hints into EndpointSlices.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction

from zoneward.routing.algorithms.heuristics import Heuristic
from zoneward.routing.algorithms.proportional_zone_cpu import least_endpoints
from zoneward.routing.allocation import Allocation, allocate, threshold_parameters
from zoneward.routing.configuration import HintsSettings
from zoneward.routing.decision import Decision
from zoneward.routing.decision_context import DecisionContext
from zoneward.routing.demand import Demand
from zoneward.routing.placement.endpoint_index import Bucket, count_and_first_names
from zoneward.routing.placement.placement import PlacementUnit, place, with_guests_kept
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason, counted, describe_without, format_percent, listed
from zoneward.routing.thresholds import lost_in_zone, overload_threshold
from zoneward.routing.upstream_ranges import UpstreamRefusal, zone_ranges


def decide_balanced(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Decide by KEP-2433's heuristic, which balances load, with the guarantees of this project."""
    refusal = (
        context.check_external_policy()
        or context.check_ready_nodes()
        or check_nodes(context)
        or context.check_zones(context.demand)
        or _count_refusal(context)
        or check_endpoint_zones(context)
    )
    if refusal is not None:
        return refusal
    suspended = context.was_suspended(heuristic)
    kept = context.is_in_force(heuristic) or suspended
    threshold = overload_threshold(context.hints, kept=kept)
    state = "in force until something was unknown" if suspended else "in force already" if kept else "not in force yet"
    detail = f"{state}: {'kept' if kept else 'starts'} below {format_percent(threshold)}"
    context.rules.record("threshold-in-force", True, detail)
    decision = _allocate_and_place(context, heuristic, threshold)
    if decision is not None:
        return decision
    # The message leaves out the threshold: it is lower the next time, when nothing is in force, and the message would
    # change.
    number, zones = context.ready_count, len(context.demand.zones)
    return context.build_inactive(
        Reason.OVERLOAD,
        f"{counted(number, 'endpoint')} for {counted(zones, 'zone')}: any split would put too much on some zone",
    )


def decide_own_zone(context: DecisionContext, heuristic: Heuristic) -> Decision:
    """Every endpoint serves its own zone (and node), whatever the demand and the load."""
    no_endpoints = context.check_ready_endpoints()
    if no_endpoints is not None:
        return no_endpoints
    refusal = check_endpoint_zones(context)
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
    # and goes rewrites no other slice.
    return context.build_inactive(
        refusal.reason, refusal.message, assignment=decision.assignment, deciding=refusal.deciding
    )


def decide_as_upstream(context: DecisionContext) -> Decision:
    """Decide as upstream does. Its hints depend on how endpoints lie in slices, so `zoneward.slices` sets them."""
    number = context.ready_count
    ranges = zone_ranges(context.demand, number)
    if isinstance(ranges, UpstreamRefusal):
        context.rules.require("upstream-allocation", False, ranges.detail)
        return context.build_inactive(ranges.reason, ranges.detail)
    context.rules.decide(
        "upstream-allocation",
        True,
        "; ".join(f"{zone} {each.minimum} to {each.maximum}" for zone, each in ranges.items()),
    )
    refusal = check_endpoint_zones(context)
    if refusal is not None:
        return refusal
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message="hints as upstream sets them",
        ranges=dict(ranges),
    )


# --- rules ------------------------------------------------------------------------------------------------------------


def check_nodes(context: DecisionContext) -> Decision | None:
    """The refusal where a Node has no zone, or no CPU and the settings ask for that; else None."""
    demand = context.demand
    without_zone, without_cpu = demand.without_zone, demand.without_cpu
    if not context.rules.require(
        "node-zones",
        not without_zone,
        describe_without(without_zone, "node", "zone label") or describe_new(demand) or "every ready node has a zone",
    ):
        return context.build_inactive(Reason.NODE_WITHOUT_ZONE, describe_without(without_zone, "node", "zone label"))
    detail = describe_without(without_cpu, "node", "allocatable CPU")
    if without_cpu and demand.unit == "nodes":
        context.rules.record("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
    elif not context.rules.require("node-cpu", not without_cpu, detail or "every ready node has allocatable CPU"):
        return context.build_inactive(Reason.NODE_WITHOUT_CPU, detail)
    return None


def describe_new(demand: Demand) -> str:
    """The Nodes that are too new to void hints; empty where there are none."""
    detail = describe_without(demand.new_without_zone, "new node", "zone label")
    return f"{detail}: it may get one, and its proxy uses all endpoints until then" if detail else ""


def _count_refusal(context: DecisionContext) -> Decision | None:
    number, zones = context.ready_count, len(context.demand.zones)
    detail = f"{counted(number, 'endpoint')} for {counted(zones, 'zone')}"
    if context.rules.require("enough-endpoints", number >= zones, detail):
        return None
    return context.build_inactive(Reason.TOO_FEW_ENDPOINTS, f"{detail}: fewer than one each")


def check_endpoint_zones(context: DecisionContext) -> Decision | None:
    """The refusal where a ready endpoint has no zone; else None."""
    number, without = count_and_first_names(
        bucket for bucket in context.endpoint_index.ready_buckets() if not bucket.zone
    )
    detail = describe_without(without, "endpoint", "zone", number=number)
    if context.rules.require("endpoint-zones", not without, detail or "every ready endpoint has a zone"):
        return None
    return context.build_inactive(Reason.ENDPOINT_WITHOUT_ZONE, detail)


# --- the allocation ---------------------------------------------------------------------------------------------------


def _allocate_and_place(context: DecisionContext, heuristic: Heuristic, threshold: Fraction) -> Decision | None:
    """Allocation and placement, or None where the heuristic finds none."""
    weights = context.demand.reduced
    buckets = [bucket for bucket in context.endpoint_index.ready_buckets() if bucket.zone]
    zones = tuple(sorted(weights.keys() | {bucket.zone for bucket in buckets}))
    index = {zone: position for position, zone in enumerate(zones)}
    size = len(zones)
    units = [PlacementUnit(bucket, index[bucket.zone], _previous_zone(bucket, index)) for bucket in buckets]
    supply = [0] * size
    counts = [0] * (size * size)
    for unit in units:
        here, there = unit.home, unit.previous_group
        supply[here] += len(unit)
        # No endpoint stays for a zone where no traffic starts any more.
        if there >= 0 and not (heuristic.balances and zones[there] not in weights):
            counts[there * size + here] += len(unit)
    demand = [weights.get(zone, 0) for zone in zones]
    settings = context.hints
    allocation = allocate(
        heuristic,
        zones=zones,
        demand=demand,
        supply=supply,
        previous=counts,
        parameters=threshold_parameters(threshold, settings.start_threshold),
    )
    if heuristic.balances:
        detail = _describe_minimums(context, threshold)
        if not context.rules.decide("overload-threshold", allocation is not None, detail):
            return None
    if allocation is None:
        return None
    if heuristic.balances and any(counts):
        anew, lost = allocate_anew(allocation, heuristic, demand, threshold=threshold, settings=settings)
        most = settings.in_zone_tolerance
        detail = f"{lost * 100:.3g} % less traffic in its zone than allocated anew, {format_percent(most)} at most"
        if not context.rules.record("in-zone-tolerance", lost <= most, detail):
            allocation = dataclasses.replace(anew, counts=with_guests_kept(anew.counts, counts, size))
    placed = place(units, allocation.counts, size)
    moved = placed.count_moved(allocation.groups, zones, starts=not context.is_in_force(heuristic))
    at_home = sum(allocation.counts[zone * size + zone] for zone in range(size))
    away = sum(supply) - at_home
    note = context.rules.record if heuristic.balances else context.rules.decide
    note(
        "placement",
        True,
        f"{counted(at_home, 'endpoint')} serve their own zone, {away} another; {moved} moved",
    )
    groups = allocation.groups
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message=_describe_allocation(context, heuristic, allocation),
        allocation=allocation,
        assignment=context.assign_hints(
            allocation,
            bucket_groups={
                unit.members: groups[zone]
                for unit, zone in placed.unit_groups.items()
                if isinstance(unit.members, Bucket)
            },
            endpoint_groups={member: groups[zone] for member, zone in placed.endpoint_groups.items()},
            node_hints=heuristic.node_hints,
        ),
        moved=moved,
    )


def allocate_anew(
    kept: Allocation, heuristic: Heuristic, demand: Sequence[int], *, threshold: Fraction, settings: HintsSettings
) -> tuple[Allocation, float]:
    """The allocation of the same endpoints if none had been placed before, and the share of all traffic that stays in
    its zone with that one and not with ``kept``.
    """
    size = len(kept.zones)
    anew = allocate(
        heuristic,
        zones=kept.zones,
        demand=demand,
        supply=[sum(kept.counts[zone::size]) for zone in range(size)],
        previous=[0] * (size * size),
        parameters=threshold_parameters(threshold, settings.start_threshold),
    )
    if anew is None:
        raise AssertionError("expected an allocation wherever another keeps to the same threshold, got none")
    return anew, lost_in_zone(kept, anew, demand)


def _previous_zone(bucket: Bucket, index: Mapping[str, int]) -> int:
    """The zone that the endpoints of a bucket served, as an index; -1 for none, or for several at once."""
    group = bucket.previous_group
    return index.get(group.zones[0], -1) if group is not None and len(group.zones) == 1 else -1


def _describe_minimums(context: DecisionContext, threshold: Fraction) -> str:
    """How many endpoints each zone needs to stay below the threshold, and how many there are."""
    total, number = context.demand.total, context.ready_count
    needed = [
        least_endpoints(number, weight, total, threshold.numerator, threshold.denominator)
        for weight in context.demand.weights
    ]
    parts = " + ".join(str(each) for each in needed)
    return f"below {format_percent(threshold)} the zones need at least {parts} = {sum(needed)} of {number} endpoints"


def _describe_allocation(context: DecisionContext, heuristic: Heuristic, allocation: Allocation) -> str:
    if not heuristic.balances:
        empty = tuple(
            zone
            for position, zone in enumerate(allocation.zones)
            if zone in context.demand.weight_of and not allocation.size(position)
        )
        where = "node, then its own zone" if heuristic.node_hints else "zone"
        text = f"every endpoint serves its own {where}"
        return f"{text}; {listed(empty)} without endpoints: all serve there" if empty else text
    number = context.ready_count
    worst, zone = max(
        (Fraction(number * weight, context.demand.total * allocation.size(allocation.zones.index(zone))) - 1, zone)
        for zone, weight in context.demand.weight_of.items()
    )
    numbers = f"{counted(number, 'endpoint')} for {counted(len(context.demand.zones), 'zone')}"
    if not worst:
        return f"every zone has its fair share; {numbers}"
    return f"no zone is more than {format_percent(worst)} above fair ({zone} is); {numbers}"
