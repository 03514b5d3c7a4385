"""Decisions of ``Balanced``: sets of endpoints that zones may share, written as hints for several zones, and weights of
zones for Zoneward's own proxy (``docs/balanced.md``).

What is in force stays while it is good enough, and then as few endpoints as possible change
(`zoneward.routing.endpoint_sets`).
"""

from collections import Counter
from fractions import Fraction
from typing import Final

from zoneward.routing.algorithms.heuristics import BALANCED
from zoneward.routing.algorithms.set_value import LOCALITY, SCORE
from zoneward.routing.allocation import Counts, Zones, allocation_of
from zoneward.routing.configuration import BalancedSettings
from zoneward.routing.decision import Decision
from zoneward.routing.decision_context import DecisionContext
from zoneward.routing.endpoint_sets import (
    SetMeasures,
    SetsRequest,
    best_allocation,
    best_weights,
    cluster_wide,
    keep_sets,
    measure_sets,
)
from zoneward.routing.hints_decision import check_endpoint_zones, check_nodes
from zoneward.routing.phrases import counted, format_percent
from zoneward.routing.placement.endpoint_index import Bucket
from zoneward.routing.placement.groups import ZoneGroup, restrict_to_zones
from zoneward.routing.placement.placement import Pool, place
from zoneward.routing.rules import Reason
from zoneward.routing.zone_costs import cost_table
from zoneward.routing.zone_weights import ZoneWeights

MAX_ZONES: Final = 32
"""With more zones, a decision would take seconds."""
_IDLE: Final = 1_000_000
"""All demand, beside that of a zone without any: its proxies need endpoints, and add no load."""


def decide_sets(context: DecisionContext) -> Decision:
    """Decide by the best sets within the settings, or by those in force."""
    refusal = (
        context.check_external_policy()
        or context.check_ready_nodes()
        or check_nodes(context)
        or _check_zones(context)
        or context.check_ready_endpoints()
        or check_endpoint_zones(context)
    )
    if refusal is not None:
        return refusal
    settings = context.request.balanced or context.configuration.balanced
    request = _request(context, settings)
    best = best_allocation(request)
    best_counts = cluster_wide(request) if best is None else best.counts
    _record_best(context, settings, request, measure_sets(request, best_counts), None if best is None else best_counts)
    counts = _keep(context, request)
    if counts is None:
        counts = None if best is None else best_counts
    weights = _weights(request)
    if counts is None:
        zones = counted(len(context.demand.zones), "zone")
        return context.build_inactive(
            Reason.CLUSTER_WIDE_IS_BEST,
            f"{counted(context.ready_count, 'endpoint')} for {zones}: no sets are better than all endpoints for all",
            weights=weights,
        )
    return _place(context, request, counts, weights)


# --- rules ------------------------------------------------------------------------------------------------------------


def _check_zones(context: DecisionContext) -> Decision | None:
    refusal = context.check_zones(context.demand)
    if refusal is not None:
        return refusal
    zones = len({*context.demand.ready_zones, *context.endpoint_index.zones()})
    if context.rules.require("zones-at-most", zones <= MAX_ZONES, f"{counted(zones, 'zone')}, {MAX_ZONES} at most"):
        return None
    return context.build_inactive(Reason.TOO_MANY_ZONES, f"{zones} zones, {MAX_ZONES} at most")


def _request(context: DecisionContext, settings: BalancedSettings) -> SetsRequest:
    demand = context.demand
    supply = context.endpoint_index.ready_by_zone()
    weights = demand.reduced
    if demand.idle_zones:
        weights = {zone: max(1, weight * _IDLE // demand.total) for zone, weight in demand.weight_of.items()}
        weights |= dict.fromkeys(demand.idle_zones, 1)
    zones = tuple(sorted(weights.keys() | supply.keys()))
    return SetsRequest(
        zones,
        tuple(weights.get(zone, 0) for zone in zones),
        tuple(supply.get(zone, 0) for zone in zones),
        (settings.max_overload.numerator, settings.max_overload.denominator),
        LOCALITY if settings.objective == "locality" else SCORE,
        cost_table(settings.costs, zones, dict(demand.regions)),
    )


def _record_best(
    context: DecisionContext,
    settings: BalancedSettings,
    request: SetsRequest,
    measures: SetMeasures,
    counts: Counts | None,
) -> None:
    limit = format_percent(settings.max_overload)
    sets = "all endpoints for all zones" if counts is None else _describe_sets(request, counts)
    context.rules.decide(
        "best-sets",
        counts is not None,
        f"by {settings.objective}, at most {limit} above fair: {sets}; {_describe_measures(measures)}",
    )


def _keep(context: DecisionContext, request: SetsRequest) -> Counts | None:
    """What is in force, with as few changes as needed; None where nothing is, or where the best sets are less work."""
    if not context.is_in_force(BALANCED):
        return None
    counts: Counter[tuple[Zones, str]] = Counter()
    new: Counter[str] = Counter()
    for bucket in context.endpoint_index.ready_buckets():
        group = _remaining_group(bucket, request.consumers)
        if group is None:
            new[bucket.zone] += len(bucket)
        else:
            counts[group.zones, bucket.zone] += len(bucket)
    if not counts:
        return None
    repaired = keep_sets(request, counts, new)
    if repaired is None:
        context.rules.record("sets-in-force", False, "too far from optimal to repair: recomputed")
        return None
    detail = _describe_measures(measure_sets(request, repaired))
    note = context.rules.decide if best_allocation(request) is None else context.rules.record
    note("sets-in-force", True, f"kept, with minimal changes: {detail}")
    return repaired


def _remaining_group(bucket: Bucket, consumers: Zones) -> ZoneGroup | None:
    """The zones that used the endpoints of a bucket and still need any."""
    group = bucket.previous_group
    return restrict_to_zones(group, consumers) if group is not None else None


# --- the decision -----------------------------------------------------------------------------------------------------


def _weights(request: SetsRequest) -> ZoneWeights:
    zones = request.zones
    return ZoneWeights(
        {
            zone: {end: share for end, share in zip(zones, row, strict=True) if share}
            for zone, row, weight in zip(zones, best_weights(request), request.demand, strict=True)
            if weight
        },
        dict(zip(zones, request.supply, strict=True)),
    )


def _place(context: DecisionContext, request: SetsRequest, counts: Counts, weights: ZoneWeights) -> Decision:
    """Decide which endpoint is in which set, moving as few as possible."""
    allocation = allocation_of(request.zones, counts)
    pools = []
    for bucket in context.endpoint_index.ready_buckets():
        group = _remaining_group(bucket, request.consumers)
        pools.append(Pool(bucket, bucket.zone, group.zones or None if group is not None else None))
    placed = place(pools, allocation.counts)
    own = sum(count for (consumers, zone), count in allocation.counts.items() if consumers == (zone,))
    moved = placed.count_moved(request.zones, starts=not context.is_in_force(BALANCED))
    context.rules.record(
        "placement",
        True,
        f"{counted(own, 'endpoint')} serve their own zone alone, {context.ready_count - own} others; {moved} moved",
    )
    return context.build_decision(
        active=True,
        reason=Reason.ENABLED,
        message=_describe_decision(context, measure_sets(request, counts)),
        allocation=allocation,
        targets=context.hint_targets(allocation, placed.consumers),
        moved=moved,
        weights=weights,
    )


def _describe_decision(context: DecisionContext, measures: SetMeasures) -> str:
    numbers = f"{counted(context.ready_count, 'endpoint')} for {counted(len(context.demand.zones), 'zone')}"
    return f"{_describe_measures(measures)}; {numbers}"


def _describe_measures(measures: SetMeasures) -> str:
    worst = format_percent(Fraction(round(measures.worst, 4)).limit_denominator(10_000))
    overload = f"no endpoint is more than {worst} above fair" if measures.worst > 1e-4 else "no endpoint is above fair"
    return f"a request costs {measures.cost:.3g} on average (1: in another zone), {overload}"


def _describe_sets(request: SetsRequest, counts: Counts) -> str:
    used: Counter[str] = Counter()
    for (consumers, _), count in counts.items():
        used.update(dict.fromkeys(consumers, count))
    parts = [f"{zone} {used[zone]}" for zone in request.zones if used[zone]]
    return f"endpoints of zones: {', '.join(parts)}"
