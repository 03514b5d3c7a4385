"""The one way to a decision: what is asked for, then the approach's own rules."""

from collections.abc import Sequence

from zoneward.kube.objects import Endpoint, Service
from zoneward.routing import hinting, subsetting
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.decision_context import DecisionContext
from zoneward.routing.demand.demand import Demand
from zoneward.routing.hysteresis import Previous
from zoneward.routing.placement.endpoint_index import EndpointIndex, index_endpoints
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
    endpoint_index = index_endpoints(endpoints, previous.placement.get, apart=configuration.upstream)
    return decide_for(service, endpoint_index, demand=demand, in_force=previous.in_force, configuration=configuration)


def decide_for(
    service: Service,
    endpoint_index: EndpointIndex,
    *,
    demand: Demand,
    in_force: str | None,
    configuration: Configuration,
) -> Decision:
    """Decide for the endpoints of one Service in one address family.

    ``in_force`` is what the existing slices were written for. Nothing is raised for what people may write: an unknown
    value is a rule that did not pass.
    """
    context = DecisionContext(service, endpoint_index, demand, in_force, configuration)
    heuristic, refusal = context.request.heuristic, context.request.refusal
    if heuristic is None:
        if refusal is None:
            return context.inactive(Reason.NOT_ASKED_FOR, "nothing is asked for: all endpoints serve all zones")
        return context.inactive(refusal, context.request.refusal_detail)
    if heuristic.subsets:
        return (
            subsetting.balanced(context, heuristic) if heuristic.balances else subsetting.required(context, heuristic)
        )
    if heuristic.balances:
        return hinting.as_upstream(context) if configuration.upstream else hinting.balanced(context, heuristic)
    return hinting.own_zone(context, heuristic)
