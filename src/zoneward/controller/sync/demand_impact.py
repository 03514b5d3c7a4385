"""Which Services a change of demand affects: those whose decision would come out differently.

KEP-2433 § Overload requires it: a Node that comes or goes must not rewrite the slices of every Service. Each decision
is summarized in a few whole numbers. Whether another demand would change the decision follows from them, by the rules
of the decision itself. Where it does not follow (the algorithms of KEP-2004 with other shares, and ``Balanced``), the
answer is that it may: the Service is planned again, and nothing is written where nothing differs.

A decision differs in its hints or groups, whether it is active, and the reason. Percentages and numbers of Nodes in
messages are updated when the Service is decided the next time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zoneward.kube.objects import ObjectKey
from zoneward.routing.algorithms.heuristics import BALANCED, HEURISTICS
from zoneward.routing.algorithms.proportional_zone_cpu import least_endpoints
from zoneward.routing.allocation import Allocation
from zoneward.routing.configuration import Configuration, HintsSettings
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.hints_decision import allocate_anew
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason
from zoneward.routing.thresholds import overload_threshold
from zoneward.routing.upstream_ranges import UpstreamRefusal, zone_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSummary:
    """A decision for one Service and address family, as far as a change of demand matters for it.

    ``endpoints`` is the number of ready endpoints, each address once. Where hints balance load, ``allocation`` is the
    decision's, ``consumed`` the number of endpoints that each zone consumes, and ``hints_settings`` the decision's
    settings. ``has_zoneless``: some endpoint has no zone, or a zone without demand. ``has_own_demand``: the Service
    says where its traffic starts, and only the zones of Nodes matter.
    """

    approach: Approach
    heuristic: str | None
    active: bool
    reason: Reason
    endpoints: int
    consumed: Mapping[str, int] = field(default_factory=dict)
    allocation: Allocation | None = None
    hints_settings: HintsSettings | None = None
    has_zoneless: bool = False
    has_own_demand: bool = False


def summarize(
    decision: Decision, *, shared_addresses: int = 0, has_zoneless: bool = False, has_own_demand: bool = False
) -> DecisionSummary:
    """Summarize a decision; ``shared_addresses`` is the number of ready endpoints whose address another one has too.

    A decision as upstream takes it has no allocation: the caller adds what the hints of its slices say.
    """
    allocation = decision.allocation
    consumed: Counter[str] = Counter()
    for (zones, _), count in allocation.counts.items() if allocation is not None else ():
        consumed[",".join(zones)] += count
    return DecisionSummary(
        approach=decision.approach,
        heuristic=decision.heuristic,
        active=decision.active,
        reason=decision.reason,
        endpoints=decision.endpoints - shared_addresses,
        consumed=consumed,
        allocation=allocation,
        hints_settings=decision.hints_settings,
        has_zoneless=has_zoneless,
        # Where hints stay because subsetting is not active, any change may start it.
        has_own_demand=has_own_demand or decision.beside_subsetting,
    )


def services_to_requeue(
    services: Iterable[tuple[ObjectKey, Iterable[DecisionSummary]]],
    *,
    old: Demand,
    new: Demand,
    configuration: Configuration,
) -> list[ObjectKey]:
    """The Services for which the decision of some address family may differ."""
    if _inputs(old) == _inputs(new):
        return []
    return [
        key
        for key, families in services
        if any(may_differ(each, old=old, new=new, configuration=configuration) for each in families)
    ]


def may_differ(state: DecisionSummary, *, old: Demand, new: Demand, configuration: Configuration) -> bool:
    """Whether a decision under the demand ``old`` may differ under ``new``. False is certain."""
    heuristic = HEURISTICS.get(state.heuristic or "")
    if heuristic is None or state.reason is Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL:
        return False
    if heuristic is BALANCED or state.has_own_demand:
        return _inputs(old) != _inputs(new)
    if not heuristic.subsets:
        if not heuristic.balances:
            # Every endpoint serves its own zone, whatever the demand. The message names zones without endpoints.
            return old.zones != new.zones
        if configuration.upstream:
            return _upstream_hints_differ(state, new)
        return _hints_differ(state, old, new, configuration)
    if heuristic.balances:
        return _subsets_differ(state, old, new)
    return old.zones != new.zones or (state.has_zoneless and old.reduced != new.reduced)


def _inputs(demand: Demand) -> object:
    """All that decisions read from demand."""
    return _refusals(demand), demand.reduced, demand.by_count.reduced, demand.regions, demand.idle_zones


def _refusals(demand: Demand) -> tuple[bool, ...]:
    """What refuses every Service that balances load: no Node, one without a zone, one without CPU, one zone."""
    without_cpu = bool(demand.without_cpu) and demand.unit != "nodes"
    no_node = not demand.nodes, bool(demand.control_planes)
    return *no_node, bool(demand.without_zone), without_cpu, len(demand.zones) < 2


def _hints_differ(state: DecisionSummary, old: Demand, new: Demand, configuration: Configuration) -> bool:
    if _refusals(old) != _refusals(new):
        return True
    if any(_refusals(new)):
        return False
    number = state.endpoints
    if (number < len(old.zones)) != (number < len(new.zones)):
        return True
    if number < len(new.zones) or state.reason is Reason.ENDPOINT_WITHOUT_ZONE:
        return False
    settings = state.hints_settings or configuration.hints
    threshold = overload_threshold(settings, kept=state.active)
    needed = {
        zone: least_endpoints(number, weight, new.total, threshold.numerator, threshold.denominator)
        for zone, weight in new.weight_of.items()
    }
    if not state.active:
        # It is inactive, and stays so while the minimums do not fit.
        return sum(needed.values()) <= number
    # It is active, and stays as it is while no zone lacks its minimum, no endpoint serves a zone without demand, and
    # enough traffic stays in its zone.
    if any(state.consumed.get(zone, 0) < least for zone, least in needed.items()) or any(
        consumed and zone not in needed for zone, consumed in state.consumed.items()
    ):
        return True
    if state.allocation is None:
        return False
    heuristic = HEURISTICS[state.heuristic or ""]
    lost = allocate_anew(state.allocation, heuristic, new.reduced, threshold=threshold, settings=settings)[1]
    return lost > settings.in_zone_tolerance


def _upstream_hints_differ(state: DecisionSummary, new: Demand) -> bool:
    """Upstream compares the minimum of each zone, for Services with hints only; this does so for all."""
    ranges = zone_ranges(new, state.endpoints)
    if isinstance(ranges, UpstreamRefusal):
        return state.active or state.reason is not ranges.reason
    if not state.active:
        return state.reason is not Reason.ENDPOINT_WITHOUT_ZONE
    return any(state.consumed.get(zone, 0) < each.minimum for zone, each in ranges.items())


def _subsets_differ(state: DecisionSummary, old: Demand, new: Demand) -> bool:
    old, new = (each.by_count if each.without_cpu else each for each in (old, new))
    if (not old.nodes, len(old.zones) < 2) != (not new.nodes, len(new.zones) < 2):
        return True
    if not new.nodes or len(new.zones) < 2:
        return False
    if state.reason in (Reason.NO_READY_ENDPOINTS, Reason.HINTS_WITHOUT_WEIGHTS):
        return False
    if state.reason is Reason.BELOW_STARTING_THRESHOLD:
        return len(old.zones) != len(new.zones)
    return old.reduced != new.reduced
