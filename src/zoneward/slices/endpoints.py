"""Pods to endpoints, as current Kubernetes does it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zoneward.kube import names
from zoneward.kube.formats import endpoint_address
from zoneward.kube.objects import (
    Endpoint,
    EndpointConditions,
    EndpointIdentity,
    EndpointPort,
    EndpointSlice,
    ObjectReference,
    Pod,
    PodIP,
    Service,
    has_ready_condition,
    identity,
)
from zoneward.routing.placement.groups import Group
from zoneward.slices.ports import PortKey, has_named_targets, port_key, ports_of

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"
_FINISHED: Final = ("Failed", "Succeeded")
# Shared by all endpoints: there are only eight.
_CONDITIONS: Final = {
    (ready, serving, terminating): EndpointConditions(ready=ready, serving=serving, terminating=terminating)
    for ready in (True, False)
    for serving in (True, False)
    for terminating in (True, False)
}


@dataclass(frozen=True, slots=True)
class PortGroup:
    """Endpoints that serve the same ports and so may share slices, by identity.

    ``slice_groups`` says for each which zones consume it, where that differs; None stands for all zones.
    """

    ports: tuple[EndpointPort, ...]
    endpoints: dict[EndpointIdentity, Endpoint]
    slice_groups: dict[EndpointIdentity, Group | None] = field(default_factory=dict)


def address_types(service: Service, pods: Iterable[Pod] | None = None) -> tuple[str, ...]:
    """The address families of a Service, IPv4 first.

    Without ``ipFamilies`` the cluster IP tells; a headless Service without them gets both, because it may be older than
    dual stack. A Service without any cluster IP, as people write it, has the one family that its ``pods`` have; where
    these are not given, both, as upstream.
    """
    families = set(service.spec.ip_families or ())
    ip = service.spec.cluster_ip
    if not families and ip and ip != names.HEADLESS:
        families = {IPV6 if ":" in ip else IPV4}
    if not families and not ip and pods is not None:
        addresses = [
            pod.status.pod_ip or each.ip for pod in pods for each in (pod.status.pod_ips or ())[:1] or (PodIP(),)
        ]
        families = {IPV6 if addresses and all(":" in address for address in addresses) else IPV4}
    return tuple(family for family in (IPV4, IPV6) if not families or family in families)


def has_endpoint(pod: Pod) -> bool:
    """Whether a Pod counts at all: not finished, and with an address. One that is terminating still counts."""
    return pod.status.phase not in _FINISHED and bool(pod.status.pod_ips or pod.status.pod_ip)


def endpoint_of(pod: Pod, service: Service, *, zone: str | None, address_type: str) -> Endpoint | None:
    """The endpoint of a Pod in one address family, without hints; None where it has no address there that an
    EndpointSlice may have.
    """
    addresses = tuple(address for each in _addresses(pod, address_type) if (address := endpoint_address(each)))
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
    """Whether a Pod has addresses of a family, and an API server takes none of them in an EndpointSlice."""
    addresses = _addresses(pod, address_type)
    return bool(addresses) and not any(map(endpoint_address, addresses))


def _addresses(pod: Pod, address_type: str) -> list[str]:
    ips = [each.ip for each in pod.status.pod_ips or ()] or [pod.status.pod_ip]
    return [ip for ip in ips if ip and (":" in ip) == (address_type == IPV6)]


class Recipe:
    """How Pods become endpoints of one Service.

    ``node_zones`` has every Node that exists, with its zone or None. A Pod on a Node that does not is left out, unless
    the Service publishes addresses that are not ready, or ``keep_without_node`` says that no Nodes are known at all.
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
        """The ports that a Pod serves, and what makes them the same as another's."""
        if self._common is not None:
            return self._common
        ports = ports_of(self._service, pod)
        return port_key(ports), ports

    def is_gone(self, pod: Pod) -> bool:
        """Whether a Pod is left out because its Node is gone."""
        return not self._keep and pod.spec.node_name not in self._node_zones

    def endpoint(self, pod: Pod, address_type: str) -> Endpoint | None:
        """The endpoint of a Pod that is not left out; None where it has no address of the family."""
        zone = self._node_zones.get(pod.spec.node_name)
        return endpoint_of(pod, self._service, zone=zone, address_type=address_type)


def endpoints_of_slices(slices: Iterable[EndpointSlice]) -> dict[PortKey, PortGroup]:
    """The endpoints that slices hold already, for snapshots without Pods: each once, without its hints."""
    groups: dict[PortKey, PortGroup] = {}
    seen: set[EndpointIdentity] = set()
    for each in sorted(slices, key=lambda each: each.metadata.name):
        for endpoint in each.endpoints or ():
            key = identity(endpoint)
            if key in seen:
                continue
            seen.add(key)
            group = groups.setdefault(port_key(each.ports), PortGroup(each.ports or (), {}))
            group.endpoints[key] = without_hints(endpoint)
    return groups


def without_hints(endpoint: Endpoint) -> Endpoint:
    """The same endpoint with nothing said about who should consume it."""
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
