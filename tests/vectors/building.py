"""Kubernetes objects from what the vectors say about them.

The files agree on a few shapes, which the functions here take: a Node (``name``, ``zone``, ``cpu``, ``ready``,
``labels``), an endpoint (``id``, ``addresses``, ``zone``, ``node``, ``ready``, ``existing_hints``), an annotation
(``key``, ``value``). What is null in a shape is absent from the object.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from tests.builders import structs
from tests.vectors.cases import Case

from zoneward.kube import names
from zoneward.kube.objects import (
    Container,
    ContainerPort,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
    Hints,
    Node,
    NodeCondition,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodIP,
    PodMeta,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
)

UID: Final = "uid-1"
SOME_TIME: Final = "2026-01-02T03:04:05Z"
PORTS: Final = (ServicePort(name="http", port=80, target_port=8080),)
"""The ports of a Service where a case says nothing about them."""


def a_node(shape: Case) -> Node:
    return structs.a_node(
        shape["name"], shape.get("zone"), cpu=shape.get("cpu"), ready=shape.get("ready"), labels=shape.get("labels")
    )


def a_service(
    key: str = "ns/svc",
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    deletion_timestamp: str | None = None,
    **spec: Any,
) -> Service:
    """A Service with a selector, by ``namespace/name``; ``spec`` are fields of its spec."""
    namespace, name = key.split("/")
    metadata = ObjectMeta(
        namespace=namespace,
        name=name,
        uid=UID,
        annotations=dict(annotations or {}),
        labels=dict(labels or {}),
        deletion_timestamp=deletion_timestamp,
    )
    defaults = {"selector": {"app": name}, "cluster_ip": "10.96.0.1", "ip_families": ("IPv4",), "ports": PORTS}
    return Service(metadata=metadata, spec=ServiceSpec(**(defaults | spec)))


def asking_service(shape: Case, **spec: Any) -> Service:
    """The Service of a case about hints: ``key``, ``annotation`` and ``traffic_distribution``."""
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
    ready: bool = True,
    terminating: bool = False,
    phase: str = "Running",
    hostname: str | None = None,
    subdomain: str | None = None,
    containers: Iterable[Case] = (),
) -> Pod:
    """A Pod. ``containers`` have a ``type`` and ``ports``."""
    main = [each for each in containers if each["type"] == "container"]
    init = [each for each in containers if each["type"] != "container"]
    spec = PodSpec(
        node_name=node or "",
        hostname=hostname or "",
        subdomain=subdomain or "",
        containers=tuple(map(a_container, main)),
        init_containers=tuple(map(a_container, init)),
    )
    status = PodStatus(
        phase=phase,
        conditions=(NodeCondition(type="Ready", status=str(ready)),),
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
    )
    metadata = PodMeta(name=name, namespace=namespace, deletion_timestamp=SOME_TIME if terminating else None)
    return Pod(metadata=metadata, spec=spec, status=status)


def a_container(shape: Case) -> Container:
    restart_policy = {"container": None, "init": None, "init_restart_always": "Always"}[shape["type"]]
    ports = tuple(
        ContainerPort(name=each["name"], container_port=each["port"], protocol=each["protocol"])
        for each in shape["ports"]
    )
    return Container(ports=ports, restart_policy=restart_policy)


def pod_behind(shape: Case, *, namespace: str) -> Pod:
    """The Pod that an endpoint stands for."""
    return a_pod(
        shape["id"], ips=shape["addresses"], namespace=namespace, node=shape["node"], ready=shape["ready"] is True
    )


def an_endpoint(shape: Case, *, namespace: str = "ns") -> Endpoint:
    """An endpoint that is not terminating; its id is the name of its Pod."""
    ready = shape["ready"]
    conditions = EndpointConditions() if ready is None else endpoint_conditions(ready=ready)
    hints = shape["existing_hints"]
    return Endpoint(
        addresses=tuple(shape["addresses"]),
        conditions=conditions,
        target_ref=ObjectReference(kind="Pod", namespace=namespace, name=shape["id"]),
        node_name=shape["node"],
        zone=shape["zone"],
        hints=hints and some_hints(zones=hints["for_zones"], nodes=hints["for_nodes"]),
    )


def endpoint_conditions(*, ready: bool) -> EndpointConditions:
    """The conditions of a Pod's endpoint that is not terminating."""
    return EndpointConditions(ready=ready, serving=ready, terminating=False)


def some_hints(*, zones: Iterable[str], nodes: Iterable[str] = ()) -> Hints:
    return Hints(
        for_zones=tuple(ForZone(name=zone) for zone in zones), for_nodes=tuple(ForNode(name=node) for node in nodes)
    )


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
    """A slice that the built-in controller wrote for a Service; ``labels`` instead of those that it would mirror."""
    mirrored = service.metadata.labels if labels is None else labels
    own = {names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER, names.SERVICE_NAME_LABEL: service.metadata.name}
    owner = OwnerReference(kind="Service", name=service.metadata.name, uid=owner_uid, controller=True)
    return EndpointSlice(
        metadata=ObjectMeta(
            namespace=service.metadata.namespace,
            name=name,
            labels={**(mirrored or {}), **own},
            owner_references=(owner,),
        ),
        address_type=address_type,
        endpoints=tuple(endpoints),
        ports=endpoint_ports(service) if ports == "as-the-service" else ports,
    )


def endpoint_ports(service: Service) -> tuple[EndpointPort, ...]:
    """The ports in the slices of a Service whose targets are all numbers."""
    ports = []
    for each in service.spec.ports or ():
        assert isinstance(each.target_port, int)
        ports.append(EndpointPort(name=each.name, protocol=each.protocol, port=each.target_port))
    return tuple(ports)
