"""Kubernetes objects as `zoneward.kube.objects` has them, with a default for all that a test does not care about.

`tests.builders.objects` builds the same as JSON; names of functions and arguments are the same where both have them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import (
    Allocatable,
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
    NodeAddress,
    NodeCondition,
    NodeInfo,
    NodeMeta,
    NodeStatus,
    Number,
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
    ServiceStatus,
)

NAMESPACE: Final = "shop"
SERVICE: Final = "cart"
UID: Final = "uid-of-cart"
PORT: Final = 8080
SOME_TIME: Final = "2026-11-21T08:00:00Z"
IPV4: Final = ("IPv4",)
IPV6: Final = ("IPv6",)
DUAL_STACK: Final = ("IPv4", "IPv6")


def a_node(
    name: str = "node-a",
    zone: str | None = "a",
    *,
    cpu: Number | None = 4,
    ready: bool | None = True,
    labels: Mapping[str, str] | None = None,
    addresses: Sequence[tuple[str, str]] = (),
    kubelet: str | None = None,
) -> Node:
    """A Node with a version of its ``kubelet``. ``addresses`` are types and addresses; without ``ready`` it has no
    conditions.
    """
    zones = {names.ZONE_LABEL: zone} if zone is not None else {}
    conditions = (NodeCondition(type="MemoryPressure", status="False"), _ready(ready))
    return Node(
        metadata=NodeMeta(name=name, labels={**zones, **(labels or {})}),
        status=NodeStatus(
            allocatable=Allocatable(cpu=cpu) if cpu is not None else None,
            conditions=conditions if ready is not None else (),
            addresses=tuple(NodeAddress(type=kind, address=address) for kind, address in addresses) or None,
            node_info=NodeInfo(kubelet_version=kubelet) if kubelet is not None else None,
        ),
    )


def nodes_in(cpu: Mapping[str, Number]) -> tuple[Node, ...]:
    """A ready Node for each zone, ``node-<zone>``, of so much CPU."""
    return tuple(a_node(f"node-{zone}", zone, cpu=amount) for zone, amount in cpu.items())


def a_pod(
    name: str,
    node: str = "node-a",
    *,
    namespace: str = NAMESPACE,
    labels: Mapping[str, str] | None = None,
    ips: Sequence[str] = ("10.0.0.1",),
    ready: bool = True,
    terminating: bool = False,
    phase: str = "Running",
    hostname: str = "",
    subdomain: str = "",
    ports: Sequence[ContainerPort] = (),
    containers: Sequence[Container] | None = None,
    init_containers: Sequence[Container] | None = None,
) -> Pod:
    """A Pod. ``ports`` are those of its only container, unless ``containers`` are given."""
    return Pod(
        metadata=PodMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-of-{name}",
            labels=dict(labels) if labels is not None else {"app": SERVICE},
            deletion_timestamp=SOME_TIME if terminating else None,
        ),
        spec=PodSpec(
            node_name=node,
            hostname=hostname,
            subdomain=subdomain,
            containers=tuple(containers) if containers is not None else (Container(ports=tuple(ports)),),
            init_containers=tuple(init_containers) if init_containers is not None else None,
        ),
        status=PodStatus(
            phase=phase,
            conditions=(_ready(ready),),
            pod_ip=ips[0] if ips else "",
            pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        ),
    )


def pods_in(numbers: Mapping[str, int], *, dual_stack: bool = False) -> tuple[Pod, ...]:
    """Ready Pods in each zone, on ``node-<zone>`` and named ``<zone>-0000`` and so on, each with its own address.

    A Pod's name and address depend on nothing but its zone and index, so that a larger cluster holds the same Pods.
    """
    return tuple(
        a_pod(f"{zone}-{index:04}", f"node-{zone}", ips=_ips(ord(zone[-1]), index, dual_stack=dual_stack))
        for zone, count in numbers.items()
        for index in range(count)
    )


def not_ready(pods: Iterable[Pod], *pod_names: str) -> tuple[Pod, ...]:
    """The Pods, of which those with these names are not ready."""
    conditions = (_ready(False),)
    return tuple(
        replace(pod, status=replace(pod.status, conditions=conditions)) if pod.metadata.name in pod_names else pod
        for pod in pods
    )


def with_port(pods: Iterable[Pod], name: str, port: int = PORT) -> tuple[Pod, ...]:
    """The Pods, whose only container has this port."""
    containers = (Container(ports=(ContainerPort(name=name, container_port=port),)),)
    return tuple(replace(pod, spec=replace(pod.spec, containers=containers)) for pod in pods)


def a_service(
    mode: str | None = None,
    *,
    name: str = SERVICE,
    namespace: str = NAMESPACE,
    uid: str = UID,
    version: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
    old: str | None = None,
    distribution: str | None = None,
    keys: Sequence[str] | None = None,
    subsetting: str | None = None,
    algorithm: str | None = None,
    starting: str | None = None,
    threshold: str | None = None,
    max_overload: str | None = None,
    selector: Mapping[str, str] | None = None,
    selects: bool = True,
    families: Sequence[str] | None = IPV4,
    type_: str | None = "ClusterIP",
    internal: str | None = None,
    external: str | None = None,
    publish_not_ready: bool | None = None,
    node_port: int | None = None,
    ports: Sequence[ServicePort] | None = None,
    status: ServiceStatus | None = None,
    **spec: Any,
) -> Service:
    """A Service. ``mode`` is the new topology annotation's value, ``old`` the old one's; ``selects`` off takes the
    selector. ``subsetting``, ``algorithm`` and ``starting`` are the annotations of KEP-2004, ``threshold`` and
    ``max_overload`` are those for hints. ``spec`` are other fields of its spec, by their own names.
    """
    given = {
        names.TOPOLOGY_MODE_ANNOTATION: mode,
        names.TOPOLOGY_AWARE_HINTS_ANNOTATION: old,
        names.SUBSETTING_ANNOTATION: subsetting,
        names.SUBSETTING_ALGORITHM_ANNOTATION: algorithm,
        names.STARTING_THRESHOLD_ANNOTATION: starting,
        names.HINTS_THRESHOLD_ANNOTATION: threshold,
        names.MAX_OVERLOAD_ANNOTATION: max_overload,
    }
    marks = {key: value for key, value in given.items() if value is not None} | dict(annotations or {})
    if ports is None:
        ports = (ServicePort(name="http", port=80, target_port=PORT, node_port=node_port),)
    return Service(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid,
            labels=dict(labels) if labels is not None else None,
            annotations=marks or None,
            resource_version=version,
            deletion_timestamp=SOME_TIME if deleting else None,
        ),
        spec=ServiceSpec(
            selector=(dict(selector) if selector else {"app": name}) if selects else None,
            ip_families=tuple(families) if families is not None else None,
            ports=tuple(ports),
            type=type_,
            internal_traffic_policy=internal,
            external_traffic_policy=external,
            publish_not_ready_addresses=publish_not_ready,
            topology_keys=tuple(keys) if keys is not None else None,
            **{"cluster_ip": "10.96.0.1", "traffic_distribution": distribution} | spec,
        ),
        status=status,
    )


def hints(*zones: str, nodes: Sequence[str] = ()) -> Hints:
    return Hints(
        for_zones=tuple(ForZone(name=zone) for zone in zones) or None,
        for_nodes=tuple(ForNode(name=node) for node in nodes) or None,
    )


def an_endpoint(
    address: str = "10.0.0.1",
    zone: str | None = "a",
    *,
    node: str | None = None,
    ready: bool | None = True,
    serving: bool | None = None,
    terminating: bool | None = None,
    hinted: Hints | None = None,
    pod: str | None = None,
    namespace: str = NAMESPACE,
) -> Endpoint:
    return Endpoint(
        addresses=(address,),
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        target_ref=ObjectReference(kind="Pod", namespace=namespace, name=pod, uid=f"uid-of-{pod}") if pod else None,
        node_name=node,
        zone=zone,
        hints=hinted,
    )


def a_slice(
    name: str,
    *endpoints: Endpoint,
    service: str | None = SERVICE,
    namespace: str = NAMESPACE,
    uid: str = "",
    version: str | None = None,
    generation: int | None = None,
    manager: str | None = names.MANAGER,
    owner: str | None = UID,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
    in_force: str | None = None,
    family: str = "IPv4",
    ports: Sequence[EndpointPort] = (EndpointPort(name="http", protocol="TCP", port=PORT),),
) -> EndpointSlice:
    """A slice of a Service. ``in_force`` is what it says it was written for, ``owner`` the UID of its Service."""
    known = {names.SERVICE_NAME_LABEL: service, names.MANAGED_BY_LABEL: manager}
    marks = {names.APPROACH_ANNOTATION: in_force} if in_force is not None else {}
    owners = (
        OwnerReference(kind="Service", name=service or "", uid=owner or "", controller=True, block_owner_deletion=True),
    )
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid,
            labels={key: value for key, value in known.items() if value is not None} | dict(labels or {}),
            annotations=marks | dict(annotations or {}) or None,
            owner_references=owners if owner is not None and service is not None else None,
            generation=generation,
            resource_version=version,
            deletion_timestamp=SOME_TIME if deleting else None,
        ),
        address_type=family,
        endpoints=endpoints,
        ports=tuple(ports),
    )


def _ips(block: int, index: int, *, dual_stack: bool) -> tuple[str, ...]:
    high, low = divmod(index, 250)
    ips = (f"10.{block}.{high}.{low + 1}", f"fd00::{block:x}:{high:x}:{low + 1:x}")
    return ips if dual_stack else ips[:1]


def _ready(ready: bool | None) -> NodeCondition:
    return NodeCondition(type="Ready", status=str(bool(ready)))
