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
    ServiceEvent,
    ServiceStatus,
    identity,
    node_zone,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand, compute_demand
from zoneward.routing.placement.endpoint_index import EndpointIndex, IndexedEndpoint
from zoneward.routing.service_conditions import conditions_of
from zoneward.routing.service_events import upstream_events_of
from zoneward.slices import upstream_hints
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.decide import decide
from zoneward.slices.pack import PackedSlices
from zoneward.slices.plan import ServicePlan, plan_service

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
    cluster_state = ClusterState(
        upstream_demand(nodes), {node.metadata.name: node_zone(node) for node in nodes}, configuration
    )
    return plan_service(
        replace(service, status=ServiceStatus(conditions=told)),
        pods=pods,
        slices=slices,
        cluster_state=cluster_state,
        trigger_time=trigger_time,
    )


@dataclass(frozen=True, slots=True)
class Hinted:
    """What upstream's step that sets hints comes to: slices with hints, events, and what is remembered."""

    packed: PackedSlices
    decision: Decision
    events: tuple[ServiceEvent, ...]
    told: tuple[Condition, ...]


def packed_from(slices: Mapping[str, list[Case]], service: Service) -> PackedSlices:
    """Slices of a case (``id``, ``endpoints``) by what happens to them."""
    create, update, unchanged = (
        [
            an_existing_slice(shape["id"], [an_endpoint(each) for each in shape["endpoints"]], service=service)
            for shape in slices[key]
        ]
        for key in ("to_create", "to_update", "unchanged")
    )
    return PackedSlices(create=create, update=update, unchanged=unchanged)


def set_hints(
    service: Service,
    packed: PackedSlices,
    *,
    nodes: Iterable[Node],
    address_type: str = "IPv4",
    told: tuple[Condition, ...] = (),
) -> Hinted:
    decision = decision_for(service, packed, nodes=nodes)
    decisions = {address_type: decision}
    return Hinted(
        packed=upstream_hints.set_hints(packed, decision),
        decision=decision,
        events=upstream_events_of(decisions, conditions=told),
        told=conditions_of(decisions),
    )


def decision_for(service: Service, packed: PackedSlices, *, nodes: Iterable[Node]) -> Decision:
    slices = (*packed.create, *packed.update, *packed.unchanged)
    endpoint_index = EndpointIndex(merge_addresses=False)
    for each in slices:
        for endpoint in each.endpoints or ():
            endpoint_index.add(IndexedEndpoint(_strict(endpoint), identity(endpoint)))
    return decide(service, endpoint_index, demand=upstream_demand(nodes), in_force=None, configuration=UPSTREAM)


def _strict(endpoint: Endpoint) -> Endpoint:
    """Upstream's controller counts an endpoint as ready only where it says so; a decision here follows the API.

    Endpoints that are made from Pods always say so: the difference shows only in these cases.
    """
    conditions = endpoint.conditions or EndpointConditions()
    return replace(endpoint, conditions=replace(conditions, ready=False)) if conditions.ready is None else endpoint
