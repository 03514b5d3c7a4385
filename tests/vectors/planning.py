"""The ways into the code that the vectors take, each deciding as current Kubernetes does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace
from tests.vectors.building import an_endpoint, an_existing_slice
from tests.vectors.cases import Case

from zoneward.kube.objects import (
    Condition,
    Endpoint,
    EndpointConditions,
    EndpointSlice,
    Node,
    Pod,
    Service,
    ServiceStatus,
    zone_of,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.deciding import NO_PREVIOUS_DECISION, decide
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand, compute_demand
from zoneward.routing.service_conditions import conditions_of
from zoneward.routing.service_events import ServiceEvent, upstream_events_of
from zoneward.slices import upstream
from zoneward.slices.packing import Packed
from zoneward.slices.plan import ServicePlan, Surroundings, plan_service

UPSTREAM: Final = Configuration().as_upstream()


def upstream_demand(nodes: Iterable[Node]) -> Demand:
    return compute_demand(nodes, missing_cpu="disable")


def plan(
    service: Service,
    *,
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    slices: Iterable[EndpointSlice] = (),
    told: tuple[Condition, ...] = (),
    configuration: Configuration = UPSTREAM,
    trigger_time: str | None = None,
) -> ServicePlan:
    """Plan a Service. ``told`` are the conditions that the plan before left.

    Upstream remembers in memory that a Service has hints; here its conditions do.
    """
    surroundings = Surroundings(
        upstream_demand(nodes), {node.metadata.name: zone_of(node) for node in nodes}, configuration
    )
    return plan_service(
        replace(service, status=ServiceStatus(conditions=told)),
        pods=pods,
        slices=slices,
        surroundings=surroundings,
        trigger_time=trigger_time,
    )


# --- hints for slices that are packed already -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hinted:
    """What upstream's step that sets hints comes to: slices with hints, events, and what is remembered."""

    packed: Packed
    decision: Decision
    events: tuple[ServiceEvent, ...]
    told: tuple[Condition, ...]


def packed_from(slices: Mapping[str, list[Case]], service: Service) -> Packed:
    """Slices of a case (``id``, ``endpoints``) by what happens to them."""
    create, update, unchanged = (
        [
            an_existing_slice(shape["id"], [an_endpoint(each) for each in shape["endpoints"]], service=service)
            for shape in slices[key]
        ]
        for key in ("to_create", "to_update", "unchanged")
    )
    return Packed(create=create, update=update, unchanged=unchanged)


def set_hints(
    service: Service,
    packed: Packed,
    *,
    nodes: Iterable[Node],
    address_type: str = "IPv4",
    told: tuple[Condition, ...] = (),
) -> Hinted:
    """Decide for endpoints that lie in slices already, and set their hints."""
    decision = decision_for(service, packed, nodes=nodes)
    decisions = {address_type: decision}
    return Hinted(
        packed=upstream.set_hints(packed, decision),
        decision=decision,
        events=upstream_events_of(decisions, conditions=told),
        told=conditions_of(decisions),
    )


def decision_for(service: Service, packed: Packed, *, nodes: Iterable[Node]) -> Decision:
    slices = (*packed.create, *packed.update, *packed.unchanged)
    return decide(
        service,
        [_strict(endpoint) for each in slices for endpoint in each.endpoints or ()],
        demand=upstream_demand(nodes),
        previous=NO_PREVIOUS_DECISION,
        configuration=UPSTREAM,
    )


def _strict(endpoint: Endpoint) -> Endpoint:
    """Upstream's controller counts an endpoint as ready only where it says so; a decision here follows the API.

    Endpoints that are made from Pods always say so: the difference shows only in these cases.
    """
    conditions = endpoint.conditions or EndpointConditions()
    return replace(endpoint, conditions=replace(conditions, ready=False)) if conditions.ready is None else endpoint
