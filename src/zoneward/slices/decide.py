"""The one way to a decision: what is asked for, then the approach's own rules."""

from collections.abc import Sequence

from zoneward.kube.objects import Endpoint, Service
from zoneward.routing import hinting, subsetting
from zoneward.routing.decision_context import Case
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand.demand import Demand
from zoneward.routing.hysteresis import Previous
from zoneward.routing.placement.endpoint_index import Crowd, crowd_of
from zoneward.routing.reasons import Reason


def decide(
    service: Service,
    endpoints: Sequence[Endpoint],
    *,
    demand: Demand,
    previous: Previous,
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
        return subsetting.balanced(case, heuristic) if heuristic.balances else subsetting.required(case, heuristic)
    if heuristic.balances:
        return hinting.as_upstream(case) if configuration.upstream else hinting.balanced(case, heuristic)
    return hinting.own_zone(case, heuristic)
