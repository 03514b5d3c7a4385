"""Step 1 of a plan, *endpoints*: the Pods of a Service to its endpoints, as current Kubernetes builds them.

`collect_endpoints` is the step, `endpoint_of` builds one endpoint from one Pod, and `ports_of` finds the ports that a
Pod serves: Pods with the same ones may share an EndpointSlice.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from zoneward.kube import names
from zoneward.kube.formats import endpoint_address
from zoneward.kube.objects import (
    Container,
    Endpoint,
    EndpointConditions,
    EndpointIdentity,
    EndpointPort,
    EndpointSlice,
    ObjectReference,
    Pod,
    PodIP,
    Service,
    ServicePort,
    has_ready_condition,
    identity,
)
from zoneward.routing.configuration import compatibility_of
from zoneward.routing.endpoint_index import EndpointIndex, IndexedEndpoint
from zoneward.routing.zone_groups import ZoneGroup
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.existing import ExistingSlices

# --- ports ------------------------------------------------------------------------------------------------------------


PortKey = tuple[tuple[str, int, str, str], ...]


def port_key(ports: Iterable[EndpointPort] | None) -> PortKey:
    """A key that is the same for equal lists of ports, in any order; ``null`` and empty are equal."""
    keys = [(port.name or "", port.port or 0, port.protocol or "TCP", port.app_protocol or "") for port in ports or ()]
    return tuple(sorted(keys))


def has_named_targets(service: Service) -> bool:
    """Whether the number of a port depends on the Pod."""
    return any(isinstance(port.target_port, str) for port in service.spec.ports or ())


def ports_of(service: Service, pod: Pod | None) -> tuple[EndpointPort, ...]:
    """The ports of a Service on one Pod, as upstream resolves them: without a container port of the target's name, the
    port is left out.

    ``pod`` may be None where no target is a name. A headless Service may have no ports at all.
    """
    ports = []
    for port in service.spec.ports or ():
        target = target_of(port, pod)
        if target is not None:
            ports.append(
                EndpointPort(name=port.name, protocol=port.protocol, port=target, app_protocol=port.app_protocol)
            )
    return tuple(ports)


def target_of(port: ServicePort, pod: Pod | None) -> int | None:
    """The number of a Service port on a Pod: the target, the port itself where there is no target, or the container
    port of the target's name and protocol, in containers first, then in sidecars (init containers that always restart).
    """
    target = port.target_port
    if target is None or target == 0 or target == "":
        return port.port
    if isinstance(target, int):
        return target
    spec = pod.spec if pod is not None else None
    sidecars = (init for init in (spec.init_containers or ()) if init.restart_policy == "Always") if spec else ()
    for container in (*((spec.containers or ()) if spec else ()), *sidecars):
        port_number = _named(container, target, port.protocol)
        if port_number is not None:
            return port_number
    return None


def _named(container: Container, name: str, protocol: str) -> int | None:
    for port in container.ports or ():
        if port.name == name and port.protocol == protocol:
            return port.container_port
    return None


# --- endpoints of Pods ------------------------------------------------------------------------------------------------


IPV4: Final = "IPv4"
IPV6: Final = "IPv6"
PreviousGroups = Callable[[EndpointIdentity], ZoneGroup | None]
"""Returns the group that an endpoint was in."""

FINISHED_PHASES: Final = ("Failed", "Succeeded")
# Shared by all endpoints: there are only eight.
_CONDITIONS: Final = {
    (ready, serving, terminating): EndpointConditions(ready=ready, serving=serving, terminating=terminating)
    for ready in (True, False)
    for serving in (True, False)
    for terminating in (True, False)
}


def address_types(service: Service, pods: Iterable[Pod] | None = None) -> tuple[str, ...]:
    """The address families of a Service, IPv4 first.

    Without ``ipFamilies`` the cluster IP decides. A headless Service without ``ipFamilies`` gets both families, because
    it may be older than dual stack. A Service without any cluster IP, as people write it, gets the family of its
    ``pods``; without ``pods`` it gets both, as upstream.
    """
    families = set(service.spec.ip_families or ())
    ip = service.spec.cluster_ip
    if not families and ip and ip != names.HEADLESS:
        families = {IPV6 if ":" in ip else IPV4}
    if not families and not ip and pods is not None:
        addresses = [
            pod.status.pod_ip or pod_ip.ip for pod in pods for pod_ip in (pod.status.pod_ips or ())[:1] or (PodIP(),)
        ]
        families = {IPV6 if addresses and all(":" in address for address in addresses) else IPV4}
    return tuple(family for family in (IPV4, IPV6) if not families or family in families)


def has_endpoint(pod: Pod) -> bool:
    """Whether a Pod has an endpoint: it is not finished, and has an address. A terminating Pod still has one."""
    return pod.status.phase not in FINISHED_PHASES and bool(pod.status.pod_ips or pod.status.pod_ip)


def endpoint_of(pod: Pod, service: Service, *, zone: str | None, address_type: str) -> Endpoint | None:
    """The endpoint of a Pod in one address family, without hints. None where the Pod has no address of the family that
    an EndpointSlice may have.
    """
    addresses = tuple(filter(None, map(endpoint_address, _addresses(pod, address_type))))
    if not addresses:
        return None
    meta, spec = pod.metadata, pod.spec
    serving = has_ready_condition(pod.status.conditions)
    terminating = meta.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses is True or (serving and not terminating)
    named = spec.hostname and spec.subdomain == service.metadata.name
    return Endpoint(
        addresses=addresses,
        conditions=_CONDITIONS[ready, serving, terminating],
        hostname=spec.hostname if named else None,
        target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
        node_name=spec.node_name or None,
        zone=zone,
    )


def has_refused_address(pod: Pod, address_type: str) -> bool:
    """Whether a Pod has addresses of a family, but none that an API server accepts in an EndpointSlice."""
    addresses = _addresses(pod, address_type)
    return bool(addresses) and not any(map(endpoint_address, addresses))


def _addresses(pod: Pod, address_type: str) -> list[str]:
    ips = [pod_ip.ip for pod_ip in pod.status.pod_ips or ()] or [pod.status.pod_ip]
    is_ipv6 = address_type == IPV6
    return [ip for ip in ips if ip and (":" in ip) is is_ipv6]


class EndpointBuilder:
    """Builds the endpoints of one Service from Pods.

    ``node_zones`` has every Node that exists, with its zone or None. A Pod on any other Node is left out, unless the
    Service publishes addresses that are not ready, or ``keep_without_node`` says that no Nodes are known at all.
    """

    def __init__(
        self, service: Service, *, node_zones: Mapping[str, str | None], keep_without_node: bool = False
    ) -> None:
        self._service = service
        self._node_zones = node_zones
        self._keep = keep_without_node or service.spec.publish_not_ready_addresses is True
        common = None if has_named_targets(service) else ports_of(service, None)
        self._common = None if common is None else (port_key(common), common)

    def ports(self, pod: Pod) -> tuple[PortKey, tuple[EndpointPort, ...]]:
        """The ports that a Pod serves, and their key."""
        if self._common is not None:
            return self._common
        ports = ports_of(self._service, pod)
        return port_key(ports), ports

    def is_node_gone(self, pod: Pod) -> bool:
        """Whether a Pod is left out because its Node is gone."""
        return not self._keep and pod.spec.node_name not in self._node_zones

    def endpoint(self, pod: Pod, address_type: str) -> Endpoint | None:
        """The endpoint of a Pod that is not left out; None where it has no address of the family."""
        zone = self._node_zones.get(pod.spec.node_name)
        return endpoint_of(pod, self._service, zone=zone, address_type=address_type)


# --- the endpoints of a Service ---------------------------------------------------------------------------------------


class PodEndpoint(IndexedEndpoint):
    """An endpoint without hints, as its Pod has it, and the ports that it serves."""

    __slots__ = ("ports",)

    def __init__(
        self, endpoint: Endpoint, key: EndpointIdentity, previous_group: ZoneGroup | None, ports: PortKey
    ) -> None:
        # Without a call of the other `__init__`: there are tens of thousands of endpoints.
        self.endpoint = endpoint
        self.identity = key
        self.previous_group = previous_group
        self.bucket = None
        self.ports = ports


class PortGroup:
    """Endpoints that serve the same ports and may therefore share slices.

    ``pods`` counts the Pods that serve these ports, ``size`` those of them that have an endpoint here. Where it is not
    ``counted``, decisions do not see the endpoints: they have no ports, and no proxy ever picks them.
    """

    __slots__ = ("counted", "pods", "ports", "size")

    def __init__(self, ports: tuple[EndpointPort, ...], *, counted: bool) -> None:
        self.ports = ports
        self.counted = counted
        self.pods = 0
        self.size = 0


class ServiceEndpoints:
    """The endpoints of one Service in one address family: what the first step of a plan comes to.

    ``count_without_ports``: decisions also count endpoints without ports (upstream; a Service without ports).
    """

    def __init__(
        self, address_type: str, builder: EndpointBuilder, *, merge_addresses: bool, count_without_ports: bool
    ) -> None:
        self.address_type: Final = address_type
        self.builder = builder
        self.index: Final = EndpointIndex(merge_addresses=merge_addresses)
        self.by_identity: Final[dict[EndpointIdentity, PodEndpoint]] = {}
        self.port_groups: Final[dict[PortKey, PortGroup]] = {}
        self.node_gone: Final[set[str]] = set()
        """The names of Pods that are left out because their Node is gone."""
        self.address_refused: Final[set[str]] = set()
        """The names of Pods that are left out because no EndpointSlice may have their address."""
        self._count_without_ports = count_without_ports

    def endpoint_of(self, pod: Pod) -> Endpoint | None:
        """The endpoint that a Pod has here as it is now, or None."""
        if not has_endpoint(pod) or self.builder.is_node_gone(pod):
            return None
        return self.builder.endpoint(pod, self.address_type)

    def find(self, pod: Pod) -> PodEndpoint | None:
        """The endpoint of a Pod that was added as it is."""
        endpoint = self.endpoint_of(pod)
        return self.by_identity[identity(endpoint)] if endpoint is not None else None

    def add_pod(self, pod: Pod, previous_groups: PreviousGroups) -> PodEndpoint | None:
        """Add a Pod; its endpoint, or None where it has none. ``previous_groups`` says which group it was in."""
        if not has_endpoint(pod):
            return None
        builder = self.builder
        ports, numbered = builder.ports(pod)
        group = self._port_group(ports, numbered)
        group.pods += 1
        if builder.is_node_gone(pod):
            self.node_gone.add(pod.metadata.name)
            return None
        endpoint = builder.endpoint(pod, self.address_type)
        if endpoint is None:
            if has_refused_address(pod, self.address_type):
                self.address_refused.add(pod.metadata.name)
            return None
        key = identity(endpoint)
        return self._add(PodEndpoint(endpoint, key, previous_groups(key), ports), group)

    def add_from_slices(self, slices: Iterable[EndpointSlice], previous_groups: PreviousGroups) -> None:
        """Add the endpoints that slices list, for snapshots without Pods: each once, without its hints."""
        for slice_ in sorted(slices, key=lambda slice_: slice_.metadata.name):
            for endpoint in slice_.endpoints or ():
                key = identity(endpoint)
                if key in self.by_identity:
                    continue
                ports = port_key(slice_.ports)
                group = self._port_group(ports, slice_.ports or ())
                group.pods += 1
                self._add(PodEndpoint(without_hints(endpoint), key, previous_groups(key), ports), group)

    def remove_pod(self, pod: Pod, member: PodEndpoint | None) -> None:
        """Remove a Pod as it was added; ``member`` is its endpoint, if it has one."""
        if not has_endpoint(pod):
            return
        self.node_gone.discard(pod.metadata.name)
        self.address_refused.discard(pod.metadata.name)
        ports = self.builder.ports(pod)[0]
        group = self.port_groups[ports]
        if member is not None:
            del self.by_identity[member.identity]
            group.size -= 1
            if group.counted:
                self.index.remove(member)
        group.pods -= 1
        if not group.pods:
            del self.port_groups[ports]

    def update(self, member: PodEndpoint, endpoint: Endpoint, previous_group: ZoneGroup | None) -> None:
        """Replace an endpoint, or the group that it was in. Its identity and its ports stay the same."""
        counted = self.port_groups[member.ports].counted
        if counted:
            self.index.remove(member)
        member.endpoint, member.previous_group = endpoint, previous_group
        if counted:
            self.index.add(member)

    def _port_group(self, ports: PortKey, numbered: tuple[EndpointPort, ...]) -> PortGroup:
        group = self.port_groups.get(ports)
        if group is None:
            counted = self._count_without_ports or bool(numbered)
            group = self.port_groups[ports] = PortGroup(numbered, counted=counted)
        return group

    def _add(self, member: PodEndpoint, group: PortGroup) -> PodEndpoint:
        self.by_identity[member.identity] = member
        group.size += 1
        if group.counted:
            self.index.add(member)
        return member


def collect_endpoints(
    address_type: str,
    service: Service,
    pods: Iterable[Pod],
    existing: ExistingSlices,
    cluster_state: ClusterState,
) -> ServiceEndpoints:
    """Collect the endpoints of one address family from Pods, or from the slices where no Pods are known."""
    compatibility = compatibility_of(cluster_state.configuration)
    endpoints = ServiceEndpoints(
        address_type,
        endpoint_builder(service, cluster_state),
        merge_addresses=compatibility.merges_addresses,
        # A Pod that has none of the ports serves nobody: slices list it, and no proxy ever picks it.
        count_without_ports=compatibility.counts_without_ports or not service.spec.ports,
    )
    previous_group = existing.previous_groups().get
    if cluster_state.pods_known:
        for pod in pods:
            endpoints.add_pod(pod, previous_group)
    else:
        endpoints.add_from_slices(existing.placed_slices(), previous_group)
    return endpoints


def endpoint_builder(service: Service, cluster_state: ClusterState) -> EndpointBuilder:
    """Without any Node in a snapshot, nothing says that the Node of a Pod is gone."""
    zones = cluster_state.node_zones
    keep = not zones and not compatibility_of(cluster_state.configuration).needs_nodes
    return EndpointBuilder(service, node_zones=zones, keep_without_node=keep)


def planned_address_types(service: Service, pods: Iterable[Pod], cluster_state: ClusterState) -> tuple[str, ...]:
    """The address families to plan."""
    spec = service.spec
    if spec.ip_families or spec.cluster_ip or compatibility_of(cluster_state.configuration).needs_families:
        return address_types(service)
    return address_types(service, pods)


def without_hints(endpoint: Endpoint) -> Endpoint:
    """The same endpoint without its hints."""
    if endpoint.hints is None:
        return endpoint
    return Endpoint(
        addresses=endpoint.addresses,
        conditions=endpoint.conditions,
        hostname=endpoint.hostname,
        target_ref=endpoint.target_ref,
        node_name=endpoint.node_name,
        zone=endpoint.zone,
    )
