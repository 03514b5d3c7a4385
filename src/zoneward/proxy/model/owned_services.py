"""Services as a node serves them, with only the addresses that they own.

`zoneward.routing.selection.address_ownership` has the rules; this module applies them to what the proxy programs.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from zoneward.proxy.model.node_service import NodeService, ServiceKey
from zoneward.routing.selection.address_ownership import AddressOwnership, AddressRequest


class OwnedServices:
    """All Services of one family. `set_service` records what a Service requests, and returns every Service that may
    change because of it."""

    def __init__(self) -> None:
        self.requested: Final[dict[ServiceKey, NodeService]] = {}
        """The Services as they were last recorded."""
        self.ownership: Final = AddressOwnership()

    def set_service(self, service: ServiceKey, requested: NodeService | None) -> dict[ServiceKey, NodeService | None]:
        """Record what a Service requests; None: it was deleted. Returns all Services that may have changed, as they are
        served now."""
        if requested is None:
            self.requested.pop(service, None)
        else:
            self.requested[service] = requested
        request = None if requested is None else address_request(requested)
        affected = self.ownership.set_service(service, request)
        return self._node_services(dict.fromkeys((service, *sorted(affected))))

    def set_node_addresses(self, addresses: frozenset[str]) -> dict[ServiceKey, NodeService | None]:
        """Record the node's addresses that serve node ports. Returns all Services that may have changed, as they are
        served now."""
        return self._node_services(sorted(self.ownership.set_node_addresses(addresses)))

    def _node_services(self, services: Iterable[ServiceKey]) -> dict[ServiceKey, NodeService | None]:
        return {service: self._node_service(service) for service in services}

    def _node_service(self, service: ServiceKey) -> NodeService | None:
        served = self.requested.get(service)
        if served is None:
            return None
        lost = self.ownership.owned_by_others(service)
        if lost.cluster_ip:
            return None
        own = served.cluster_ip
        if not lost and own not in served.external_ips and own not in served.load_balancer_ips:
            return served
        every = {(port.protocol, port.port) for port in served.ports}
        # An address at which the Service owns no port needs no rules.
        gone = {address for address, ports in lost.external.items() if len(ports) == len(every)} | {own}
        ports = served.ports
        if lost.node_ports:
            ports = tuple(
                replace(port, node_port=None) if (port.protocol, port.node_port) in lost.node_ports else port
                for port in ports
            )
        return replace(
            served,
            external_ips=tuple(address for address in served.external_ips if address not in gone),
            load_balancer_ips=tuple(address for address in served.load_balancer_ips if address not in gone),
            ports=ports,
            owned_by_others={address: lost.external[address] for address in lost.external.keys() - gone},
        )


def address_request(served: NodeService) -> AddressRequest:
    """The request of a Service, as the ownership rules need it."""
    return AddressRequest(
        cluster_ip=served.cluster_ip,
        external=frozenset((*served.external_ips, *served.load_balancer_ips)) - {served.cluster_ip},
        ports=frozenset((port.protocol, port.port) for port in served.ports),
        node_ports=frozenset((port.protocol, port.node_port) for port in served.ports if port.node_port is not None),
        creation_timestamp=served.creation_timestamp,
    )


def resolve_ownership(
    requested: Iterable[NodeService],
    *,
    node_addresses: frozenset[str] = frozenset(),
    on_conflict: Callable[[str], None],
) -> dict[ServiceKey, NodeService]:
    """All Services of one family as they are served. ``on_conflict`` gets a line for each request that is not
    granted."""
    owned = OwnedServices()
    owned.set_node_addresses(node_addresses)
    services: dict[ServiceKey, NodeService | None] = {}
    for service in requested:
        services |= owned.set_service((service.namespace, service.name), service)
    for key in services:
        for what in owned.ownership.conflicts(key):
            on_conflict(f"Service {'/'.join(key)}: it does not get {what}")
    return {key: served for key, served in services.items() if served is not None}
