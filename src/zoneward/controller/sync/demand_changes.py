"""Which Services have to be decided again because demand changed: those whose decision comes out differently.

KEP-2433 § Overload asks for it: a Node that comes or goes must not rewrite the slices of every Service. A Service is
counted once, when it is decided; whether another demand would change that decision then follows from a few whole
numbers, by the rules that the decision itself asks. Where it does not follow (the algorithms of KEP-2004 with other
shares), the answer is that it may: the Service is planned again, and nothing is written where nothing differs.

What a decision comes to is its hints or groups, whether it is active, and the reason. Percentages and numbers of Nodes
in messages are told when the Service is decided the next time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zoneward.client.resources import Key
from zoneward.routing.algorithms.heuristics import HEURISTICS
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
class Counted:
    """What has to be known of one decision, for one Service and address family.

    ``endpoints`` are the ready ones that count, each address once. Where hints balance, ``allocation`` says who serves
    whom, ``consumed`` how many endpoints each zone has, and ``hints_settings`` what was decided by. ``homeless``: some
    endpoint has no zone, or one where no traffic starts.
    """

    approach: Approach
    heuristic: str | None
    active: bool
    reason: Reason
    endpoints: int
    consumed: Mapping[str, int] = field(default_factory=dict)
    allocation: Allocation | None = None
    hints_settings: HintsSettings | None = None
    homeless: bool = False


def counted(decision: Decision, *, twins: int = 0, homeless: bool = False) -> Counted:
    """The numbers of a decision; ``twins`` are the ready endpoints that share their address with another one.

    A decision as upstream takes it has no allocation: whoever has its slices puts in what their hints say.
    """
    allocation = decision.allocation
    consumed = {} if allocation is None else {str(g): allocation.size(n) for n, g in enumerate(allocation.groups)}
    return Counted(
        approach=decision.approach,
        heuristic=decision.heuristic,
        active=decision.active,
        reason=decision.reason,
        endpoints=decision.endpoints - twins,
        consumed=consumed,
        allocation=allocation,
        hints_settings=decision.hints_settings,
        homeless=homeless,
    )


def services_to_requeue(
    services: Iterable[tuple[Key, Iterable[Counted]]], *, old: Demand, new: Demand, configuration: Configuration
) -> list[Key]:
    """The Services of which some address family may be decided differently."""
    if _shared(old) == _shared(new):
        return []
    return [
        key
        for key, families in services
        if any(may_differ(each, old=old, new=new, configuration=configuration) for each in families)
    ]


def may_differ(state: Counted, *, old: Demand, new: Demand, configuration: Configuration) -> bool:
    """Whether a decision that was taken under ``old`` may come out differently under ``new``; False is certain."""
    heuristic = HEURISTICS.get(state.heuristic or "")
    if heuristic is None or state.reason is Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL:
        return False
    if not heuristic.subsets:
        if not heuristic.balances:
            # Every endpoint to its own zone: no Node is asked. What is told names zones that have none.
            return old.zones != new.zones
        if configuration.upstream:
            return _upstream_hints_differ(state, new)
        return _hints_differ(state, old, new, configuration)
    if heuristic.balances:
        return _subsets_differ(state, old, new)
    return old.zones != new.zones or (state.homeless and old.reduced != new.reduced)


def _shared(demand: Demand) -> object:
    """All that decisions read of demand."""
    return _facts(demand), demand.reduced, demand.by_count.reduced


def _facts(demand: Demand) -> tuple[bool, bool, bool, bool]:
    """What refuses every Service that balances: no Node, one without a zone, one without CPU, one zone."""
    without_cpu = bool(demand.without_cpu) and demand.unit != "nodes"
    return not demand.nodes, bool(demand.without_zone), without_cpu, len(demand.zones) < 2


def _hints_differ(state: Counted, old: Demand, new: Demand, configuration: Configuration) -> bool:
    if _facts(old) != _facts(new):
        return True
    if any(_facts(new)):
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
        # It is off, and stays off while the minimums do not fit.
        return sum(needed.values()) <= number
    # It is on, and stays as it is while nobody lacks its minimum, nobody serves a zone without demand, and enough
    # traffic stays in its zone.
    if any(state.consumed.get(zone, 0) < least for zone, least in needed.items()) or any(
        consumed and zone not in needed for zone, consumed in state.consumed.items()
    ):
        return True
    if state.allocation is None:
        return False
    demand = [new.reduced.get(zone, 0) for zone in state.allocation.zones]
    heuristic = HEURISTICS[state.heuristic or ""]
    lost = allocate_anew(state.allocation, heuristic, demand, threshold=threshold, settings=settings)[1]
    return lost > settings.in_zone_tolerance


def _upstream_hints_differ(state: Counted, new: Demand) -> bool:
    """Upstream asks for the minimum of each zone. It looks at Services that have hints alone; here also at others."""
    ranges = zone_ranges(new, state.endpoints)
    if isinstance(ranges, UpstreamRefusal):
        return state.active or state.reason is not ranges.reason
    if not state.active:
        return state.reason is not Reason.ENDPOINT_WITHOUT_ZONE
    return any(state.consumed.get(zone, 0) < each.minimum for zone, each in ranges.items())


def _subsets_differ(state: Counted, old: Demand, new: Demand) -> bool:
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
