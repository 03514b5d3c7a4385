"""Kubernetes objects from what the vectors say about them, and the ways into the code that the vectors take, each
deciding as current Kubernetes does.

The files agree on a few shapes, which the functions here take: a Node (``name``, ``zone``, ``cpu``, ``ready``,
``labels``), an endpoint (``id``, ``addresses``, ``zone``, ``node``, ``ready``, ``existing_hints``), an annotation
(``key``, ``value``). What is null in a shape is absent from the object.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec.structs import replace
from tests.builders import structs
from tests.clusters import with_conditions, with_reported
from tests.vectors.cases import Case

from zoneward.kube import names
from zoneward.kube.objects import (
    Container,
    ContainerPort,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Node,
    Pod,
    Service,
    ServiceEvent,
    identity,
    node_zone,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand, compute_demand
from zoneward.routing.endpoint_index import EndpointIndex, IndexedEndpoint
from zoneward.routing.service_events import ReportedState, conditions_of, last_reported, upstream_events_of
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.decide import decide
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.slices.reconcile import SliceChanges
from zoneward.slices.upstream import set_hints as set_hints_as_upstream

UID: Final = "uid-1"


def a_node(shape: Case) -> Node:
    return structs.a_node(
        shape["name"], shape.get("zone"), cpu=shape.get("cpu"), ready=shape.get("ready"), labels=shape.get("labels")
    )


def a_service(
    key: str = "ns/svc",
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
    **spec: Any,
) -> Service:
    """A Service with a selector, by ``namespace/name``; ``spec`` are fields of its spec."""
    namespace, name = key.split("/")
    service = structs.a_service(
        name=name, namespace=namespace, uid=UID, annotations=annotations, labels=labels, type_=None, deleting=deleting
    )
    return replace(service, spec=replace(service.spec, **spec))


def asking_service(shape: Case, **spec: Any) -> Service:
    return a_service(
        shape.get("key", "ns/svc"),
        annotations=annotations_of(shape),
        traffic_distribution=shape["traffic_distribution"],
        **spec,
    )


def annotations_of(shape: Case) -> dict[str, str]:
    annotation = shape.get("annotation")
    return {annotation["key"]: annotation["value"]} if annotation else {}


def a_pod(
    name: str,
    *,
    ips: Iterable[str],
    namespace: str = "ns",
    node: str | None = None,
    containers: Iterable[Case] = (),
    **fields: Any,
) -> Pod:
    """A Pod. ``containers`` have a ``type`` and ``ports``."""
    main = [a_container(container) for container in containers if container["type"] == "container"]
    init = [a_container(container) for container in containers if container["type"] != "container"]
    given = {field: value for field, value in fields.items() if value is not None}
    return structs.a_pod(
        name, node or "", namespace=namespace, ips=tuple(ips), containers=main, init_containers=init, **given
    )


def a_container(shape: Case) -> Container:
    restart_policy = {"container": None, "init": None, "init_restart_always": "Always"}[shape["type"]]
    ports = tuple(
        ContainerPort(name=port["name"], container_port=port["port"], protocol=port["protocol"])
        for port in shape["ports"]
    )
    return Container(ports=ports, restart_policy=restart_policy)


def pod_behind(shape: Case, *, namespace: str) -> Pod:
    return a_pod(
        shape["id"], ips=shape["addresses"], namespace=namespace, node=shape["node"], ready=shape["ready"] is True
    )


def an_endpoint(shape: Case, *, namespace: str = "ns") -> Endpoint:
    ready, hints = shape["ready"], shape["existing_hints"]
    endpoint = structs.an_endpoint(
        zone=shape["zone"],
        node=shape["node"],
        ready=ready,
        serving=ready,
        terminating=None if ready is None else False,
        hinted=hints and structs.hints(*hints["for_zones"], nodes=hints["for_nodes"]),
        pod=shape["id"],
        namespace=namespace,
    )
    return replace(endpoint, addresses=tuple(shape["addresses"]))


def an_existing_slice(
    name: str,
    endpoints: Sequence[Endpoint],
    *,
    service: Service,
    address_type: str = "IPv4",
    labels: Mapping[str, str] | None = None,
    owner_uid: str = UID,
    ports: tuple[EndpointPort, ...] | Literal["as-the-service"] | None = "as-the-service",
) -> EndpointSlice:
    slice_ = structs.a_slice(
        name,
        *endpoints,
        service=service.metadata.name,
        namespace=service.metadata.namespace,
        manager=names.BUILT_IN_MANAGER,
        owner=owner_uid,
        family=address_type,
    )
    mirrored = service.metadata.labels if labels is None else labels
    metadata = replace(slice_.metadata, labels={**(mirrored or {}), **(slice_.metadata.labels or {})})
    return replace(slice_, metadata=metadata, ports=endpoint_ports(service) if ports == "as-the-service" else ports)


def endpoint_ports(service: Service) -> tuple[EndpointPort, ...]:
    ports = []
    for port in service.spec.ports or ():
        assert isinstance(port.target_port, int)
        ports.append(EndpointPort(name=port.name, protocol=port.protocol, port=port.target_port))
    return tuple(ports)


UPSTREAM: Final = Configuration().as_upstream()


def upstream_demand(nodes: Iterable[Node]) -> Demand:
    return compute_demand(nodes, missing_cpu="disable")


def plan(
    service: Service,
    *,
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    slices: Iterable[EndpointSlice] = (),
    previous: ServicePlan | None = None,
    configuration: Configuration = UPSTREAM,
    trigger_time: str | None = None,
) -> ServicePlan:
    """``previous`` is the plan before this one: upstream remembers in memory that a Service has hints."""
    cluster_state = ClusterState(
        upstream_demand(nodes), {node.metadata.name: node_zone(node) for node in nodes}, configuration
    )
    return plan_service(
        service if previous is None else with_reported(service, previous),
        pods=pods,
        slices=slices,
        cluster_state=cluster_state,
        trigger_time=trigger_time,
    )


@dataclass(frozen=True, slots=True)
class Hinted:
    """What upstream's step that sets hints comes to: slices with hints, events, and what is remembered."""

    packed: SliceChanges
    decision: Decision
    events: tuple[ServiceEvent, ...]
    reported: ReportedState | None


def packed_from(slices: Mapping[str, list[Case]], service: Service) -> SliceChanges:
    create, update, unchanged = (
        tuple(
            an_existing_slice(shape["id"], [an_endpoint(endpoint) for endpoint in shape["endpoints"]], service=service)
            for shape in slices[key]
        )
        for key in ("to_create", "to_update", "unchanged")
    )
    return SliceChanges(create=create, update=update, unchanged=unchanged)


def set_hints(
    service: Service,
    packed: SliceChanges,
    *,
    nodes: Iterable[Node],
    address_type: str = "IPv4",
    last: ReportedState | None = None,
) -> Hinted:
    decision = decision_for(service, packed, nodes=nodes)
    decisions = {address_type: decision}
    return Hinted(
        packed=set_hints_as_upstream(packed, decision),
        decision=decision,
        events=upstream_events_of(decisions, last=last),
        reported=last_reported(with_conditions(service, conditions_of(decisions), requested=decision.asked_for)),
    )


def decision_for(service: Service, packed: SliceChanges, *, nodes: Iterable[Node]) -> Decision:
    slices = (*packed.create, *packed.update, *packed.unchanged)
    endpoint_index = EndpointIndex(merge_addresses=False)
    for slice_ in slices:
        for endpoint in slice_.endpoints or ():
            endpoint_index.add(IndexedEndpoint(_strict(endpoint), identity(endpoint)))
    return decide(service, endpoint_index, demand=upstream_demand(nodes), in_force=None, configuration=UPSTREAM)


def _strict(endpoint: Endpoint) -> Endpoint:
    """Upstream counts an endpoint as ready only where it says so, as those made from Pods always do."""
    conditions = endpoint.conditions or EndpointConditions()
    return replace(endpoint, conditions=replace(conditions, ready=False)) if conditions.ready is None else endpoint
