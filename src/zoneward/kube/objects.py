"""Kubernetes objects as frozen structs of the fields that Zoneward reads.

Decoding skips all other fields. Names are the API's, in snake case. An API server or a person may write ``null`` for
any list or map, so that these are optional: use ``pod.status.conditions or ()``. ``gc=False`` is safe because no object
can refer to itself.
"""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec

from zoneward.kube.names import NODE_TYPE_LABEL, REGION_LABEL, VIRTUAL_KUBELET, ZONE_LABEL
from zoneward.kube.schema import integer_of_bits

Int32 = Annotated[int, integer_of_bits(32)]
Int64 = Annotated[int, integer_of_bits(64)]
"""Integers of the API. Larger ones are refused."""
Number = str | int | float
"""A quantity as it is written in a document; `zoneward.kube.formats` reads it exactly."""
ObjectKey = tuple[str, str]
"""Namespace (empty for a kind that has none) and name: client-go's ``types.NamespacedName``."""
_MAX_VERSION_DIGITS: Final = 64
"""More than the 39 digits of 128 bits. Python refuses to parse thousands of digits."""


class _Object(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Base of all structs: immutable, untracked by the garbage collector, camel case in JSON."""


# --- metadata ---------------------------------------------------------------------------------------------------------


class OwnerReference(_Object, frozen=True, gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(_Object, frozen=True, gc=False):
    """Metadata of a Service or an EndpointSlice."""

    name: str = ""
    generate_name: str | None = None
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    """Kubernetes keeps a deleted object until these are removed; an update without them would remove them."""
    generation: Int64 | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class NodeMeta(_Object, frozen=True, gc=False):
    name: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None


class PodMeta(_Object, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    deletion_timestamp: str | None = None


# --- Service ----------------------------------------------------------------------------------------------------------


class ServicePort(_Object, frozen=True, gc=False):
    name: str = ""
    protocol: str = "TCP"
    port: Int32 = 0
    target_port: Int32 | str | None = None
    """A number or the name of a container's port; defaults to ``port``."""
    node_port: Int32 | None = None
    app_protocol: str | None = None


class ClientIPConfig(_Object, frozen=True, gc=False):
    timeout_seconds: Int32 | None = None


class SessionAffinityConfig(_Object, frozen=True, gc=False):
    client_ip: ClientIPConfig | None = msgspec.field(name="clientIP", default=None)


class ServiceSpec(_Object, frozen=True, gc=False):
    type: str | None = None
    selector: dict[str, str] | None = None
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    cluster_ips: tuple[str, ...] | None = msgspec.field(name="clusterIPs", default=None)
    ip_families: tuple[str, ...] | None = None
    ports: tuple[ServicePort, ...] | None = None
    external_ips: tuple[str, ...] | None = msgspec.field(name="externalIPs", default=None)
    publish_not_ready_addresses: bool | None = None
    internal_traffic_policy: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: Int32 | None = None
    load_balancer_source_ranges: tuple[str, ...] | None = None
    session_affinity: str | None = None
    session_affinity_config: SessionAffinityConfig | None = None
    traffic_distribution: str | None = None
    topology_keys: tuple[str, ...] | None = None


class Condition(_Object, frozen=True, gc=False):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    """When ``status`` last changed, in the API's format; None if not written yet."""
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None


class LoadBalancerIngress(_Object, frozen=True, gc=False):
    ip: str | None = None
    ip_mode: str | None = None
    """``VIP``, the default, or ``Proxy``: then traffic arrives with another destination address."""


class LoadBalancerStatus(_Object, frozen=True, gc=False):
    ingress: tuple[LoadBalancerIngress, ...] | None = None


class ServiceStatus(_Object, frozen=True, gc=False):
    conditions: tuple[Condition, ...] | None = None
    load_balancer: LoadBalancerStatus | None = None


class Service(_Object, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus | None = None


# --- Node -------------------------------------------------------------------------------------------------------------


class NodeCondition(_Object, frozen=True, gc=False):
    type: str = ""
    status: str = ""


class Allocatable(_Object, frozen=True, gc=False):
    cpu: Number | None = None


class Taint(_Object, frozen=True, gc=False):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(_Object, frozen=True, gc=False):
    taints: tuple[Taint, ...] | None = None


class NodeAddress(_Object, frozen=True, gc=False):
    """``type`` is ``InternalIP``, ``ExternalIP``, ``Hostname`` and so on; ``address`` is a name with some of them."""

    type: str = ""
    address: str = ""


class NodeInfo(_Object, frozen=True, gc=False):
    kubelet_version: str = ""


class NodeStatus(_Object, frozen=True, gc=False):
    allocatable: Allocatable | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    addresses: tuple[NodeAddress, ...] | None = None
    node_info: NodeInfo | None = None


class Node(_Object, frozen=True, gc=False):
    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


def node_zone(node: Node) -> str | None:
    """The zone of a Node; None if its label is missing or empty."""
    return (node.metadata.labels or {}).get(ZONE_LABEL) or None


def node_region(node: Node) -> str | None:
    """The region of a Node; None if its label is missing or empty."""
    return (node.metadata.labels or {}).get(REGION_LABEL) or None


def is_virtual_node(node: Node) -> bool:
    """Whether a Node represents a service that runs Pods elsewhere: no proxy runs on it, and its CPU is no measure."""
    return (node.metadata.labels or {}).get(NODE_TYPE_LABEL) == VIRTUAL_KUBELET


def has_ready_condition(conditions: tuple[NodeCondition, ...] | None) -> bool:
    """Whether the conditions of a Node or a Pod include ``Ready`` with status ``True``."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions or ())


# --- Pod --------------------------------------------------------------------------------------------------------------


class ContainerPort(_Object, frozen=True, gc=False):
    name: str = ""
    container_port: Int32 = 0
    protocol: str = "TCP"


class Container(_Object, frozen=True, gc=False):
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    """Of an init container: ``Always`` makes it a sidecar, whose ports count."""


class PodSpec(_Object, frozen=True, gc=False):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None


class PodIP(_Object, frozen=True, gc=False):
    ip: str = ""


class PodStatus(_Object, frozen=True, gc=False):
    phase: str = ""
    conditions: tuple[NodeCondition, ...] | None = None
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] | None = msgspec.field(name="podIPs", default=None)


class Pod(_Object, frozen=True, gc=False):
    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def has_address(pod: Pod) -> bool:
    """Whether a Pod has an address of any family. Slices list only such Pods."""
    return bool(pod.status.pod_ips or pod.status.pod_ip)


# --- the proxies of nodes ---------------------------------------------------------------------------------------------


class ProgramContainer(Container, frozen=True, gc=False):
    """A container with the program that runs in it: `zoneward.kube.proxy_programs`."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None


class ProxyPodSpec(PodSpec, frozen=True, gc=False):
    containers: tuple[ProgramContainer, ...] | None = None
    host_network: bool | None = None


class ProxyPod(Pod, frozen=True, gc=False):
    """A Pod in which a node's proxy runs, with its containers' programs; no code reads those of other Pods."""

    spec: ProxyPodSpec = ProxyPodSpec()


class NodeSelectorRequirement(_Object, frozen=True, gc=False):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(_Object, frozen=True, gc=False):
    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(_Object, frozen=True, gc=False):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeAffinity(_Object, frozen=True, gc=False):
    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Affinity(_Object, frozen=True, gc=False):
    node_affinity: NodeAffinity | None = None


class DaemonPodSpec(_Object, frozen=True, gc=False):
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    containers: tuple[ProgramContainer, ...] | None = None
    host_network: bool | None = None


class DaemonPodTemplate(_Object, frozen=True, gc=False):
    spec: DaemonPodSpec = DaemonPodSpec()


class MatchLabels(_Object, frozen=True, gc=False):
    match_labels: dict[str, str] | None = None


class DaemonSetSpec(_Object, frozen=True, gc=False):
    template: DaemonPodTemplate = DaemonPodTemplate()
    selector: MatchLabels | None = None


class DaemonSetStatus(_Object, frozen=True, gc=False):
    number_ready: Int32 | None = None


class PlainMeta(_Object, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class DaemonSet(_Object, frozen=True, gc=False):
    metadata: PlainMeta = PlainMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus | None = None


class ConfigMap(_Object, frozen=True, gc=False):
    metadata: PlainMeta = PlainMeta()
    data: dict[str, str] | None = None


ProxyObject = DaemonSet | ConfigMap
"""Objects that show which proxies run on the nodes, in addition to Nodes and Pods."""
PROXY_OBJECT_KINDS: Final[dict[tuple[str, str], type[ProxyObject]]] = {
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("v1", "ConfigMap"): ConfigMap,
}
"""Only those of node proxies are read (`zoneward.kube.proxy_programs`); all others are skipped and counted."""


# --- EndpointSlice ----------------------------------------------------------------------------------------------------


class EndpointConditions(_Object, frozen=True, gc=False):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


_NO_CONDITIONS = EndpointConditions()


class ForZone(_Object, frozen=True, gc=False):
    name: str = ""


class ForNode(_Object, frozen=True, gc=False):
    name: str = ""


class Hints(_Object, frozen=True, gc=False):
    """The zones and nodes that should consume an endpoint.

    KEP-2433 § EndpointSlice, KEP-3015 § Addition of PreferSameNode.
    """

    for_zones: tuple[ForZone, ...] | None = None
    for_nodes: tuple[ForNode, ...] | None = None


class ObjectReference(_Object, frozen=True, gc=False):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Endpoint(_Object, frozen=True, gc=False):
    """``conditions`` without any value become None: an API server writes ``{}`` for absent conditions."""

    addresses: tuple[str, ...] | None = None
    conditions: EndpointConditions | None = None
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: Hints | None = None

    def __post_init__(self) -> None:
        if self.conditions == _NO_CONDITIONS:
            msgspec.structs.force_setattr(self, "conditions", None)


EndpointIdentity = tuple[tuple[str, ...], str, str]


def identity(endpoint: Endpoint) -> EndpointIdentity:
    """Identifies an endpoint across slices and over time: its addresses and its Pod."""
    addresses, target = endpoint.addresses or (), endpoint.target_ref
    if len(addresses) > 1:
        addresses = tuple(sorted(addresses))
    return (addresses, target.namespace, target.name) if target else (addresses, "", "")


def is_ready(endpoint: Endpoint) -> bool:
    """An absent condition counts as ready, as the API defines."""
    return endpoint.conditions is None or endpoint.conditions.ready is not False


def is_serving(endpoint: Endpoint) -> bool:
    """An absent condition counts as serving, as in upstream's proxy (the API's documentation says: like readiness)."""
    return endpoint.conditions is None or endpoint.conditions.serving is not False


def is_terminating(endpoint: Endpoint) -> bool:
    return endpoint.conditions is not None and endpoint.conditions.terminating is True


class EndpointPort(_Object, frozen=True, gc=False):
    name: str | None = None
    protocol: str | None = None
    port: Int32 | None = None
    app_protocol: str | None = None


class EndpointSlice(_Object, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


# --- objects that the controller and the proxy write ------------------------------------------------------------------


class LeaseSpec(_Object, frozen=True, gc=False):
    """Times are text, as `format_micro_time` writes them, for people: replicas never compare them with a clock."""

    holder_identity: str | None = None
    """Empty if the holder released it."""
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class Lease(_Object, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class EventRegarding(_Object, frozen=True, gc=False):
    """The object of an Event, by which ``kubectl describe`` finds the Event."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSeries(_Object, frozen=True, gc=False):
    count: int = 0
    last_observed_time: str | None = None


class Event(_Object, frozen=True, gc=False):
    """``events.k8s.io/v1``. Only the series of an existing Event may change."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    """As `format_micro_time` writes it."""
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: EventRegarding = EventRegarding()
    note: str = ""
    """At most 1,024 bytes."""
    type: str = ""
    """``Normal`` or ``Warning``."""


class NamespaceStatus(_Object, frozen=True, gc=False):
    phase: str = ""
    """``Terminating``: no more objects can be created in it."""


class Namespace(_Object, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class EndpointAddress(_Object, frozen=True, gc=False):
    ip: str = ""
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointSubset(_Object, frozen=True, gc=False):
    """Addresses that serve all of these ports."""

    addresses: tuple[EndpointAddress, ...] | None = None
    not_ready_addresses: tuple[EndpointAddress, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


class Endpoints(_Object, frozen=True, gc=False):
    """``v1`` Endpoints: the predecessor of EndpointSlices, one object per Service, of its first address family."""

    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[EndpointSubset, ...] | None = None


Object = Service | Node | Pod | EndpointSlice
KINDS: dict[tuple[str, str], type[Object]] = {
    ("v1", "Service"): Service,
    ("v1", "Node"): Node,
    ("v1", "Pod"): Pod,
    ("discovery.k8s.io/v1", "EndpointSlice"): EndpointSlice,
}
"""By apiVersion and kind. All other kinds are skipped and counted."""


def parse_resource_version(text: str | None) -> int | None:
    """A resourceVersion as a number, which compares (KEP-5504); None if it is not a number."""
    if text is None or len(text) > _MAX_VERSION_DIGITS or not text.isascii() or not text.isdigit():
        return None
    return int(text)


def format_micro_time(moment: datetime) -> str:
    """A time as the API's MicroTime: UTC with exactly six digits, as the API requires."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_text(seconds: float) -> str:
    """Seconds since the epoch as API servers write times: ``2019-01-01T00:00:00Z``, which compares as text."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ServiceEvent(msgspec.Struct, frozen=True, gc=False):
    """An Event about a Service, before it becomes an object of the API."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
