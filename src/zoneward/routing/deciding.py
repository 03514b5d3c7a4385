"""The one way to a decision: what is asked for, then the approach's own rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zoneward.kube.objects import Endpoint, Identity, Service
from zoneward.routing import hints_decision, subsetting_decision
from zoneward.routing.case import Case
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.placement.crowd import Crowd, crowd_of
from zoneward.routing.placement.groups import Group
from zoneward.routing.rules import Reason


@dataclass(frozen=True, slots=True)
class PreviousDecision:
    """The decision that the existing slices hold.

    ``in_force`` is the approach and heuristic they were written for (``Hints/ProportionalZoneCPU``), or None where they
    were written for none, or by somebody else. ``placement`` is the group that each endpoint was in, by hints or by
    the labels of its slice; whoever wrote them, it keeps endpoints where they are.
    """

    in_force: str | None = None
    placement: Mapping[Identity, Group] = field(default_factory=dict)


NO_PREVIOUS_DECISION = PreviousDecision()


def decide(
    service: Service,
    endpoints: Sequence[Endpoint],
    *,
    demand: Demand,
    previous: PreviousDecision,
    configuration: Configuration,
) -> Decision:
    """Decide for a list of endpoints of one Service in one address family.

    ``endpoints`` come without hints, in any order.
    """
    crowd = crowd_of(endpoints, previous.placement.get, apart=configuration.upstream)
    return decide_for(service, crowd, demand=demand, in_force=previous.in_force, configuration=configuration)


def decide_for(
    service: Service, crowd: Crowd, *, demand: Demand, in_force: str | None, configuration: Configuration
) -> Decision:
    """Decide for the endpoints of one Service in one address family.

    ``in_force`` is what the existing slices were written for. Nothing is raised for what people may write: an unknown
    value is a rule that did not pass.
    """
    case = Case(service, crowd, demand, in_force, configuration)
    heuristic, refusal = case.asked.heuristic, case.asked.refusal
    if heuristic is None:
        if refusal is None:
            return case.inactive(Reason.NOT_ASKED_FOR, "nothing is asked for: all endpoints serve all zones")
        return case.inactive(refusal, case.asked.refusal_detail)
    if heuristic.subsets:
        if heuristic.balances:
            return subsetting_decision.decide_balanced(case, heuristic)
        return subsetting_decision.decide_require_zone(case, heuristic)
    if heuristic.balances:
        if configuration.upstream:
            return hints_decision.decide_as_upstream(case)
        return hints_decision.decide_balanced(case, heuristic)
    return hints_decision.decide_own_zone(case, heuristic)
