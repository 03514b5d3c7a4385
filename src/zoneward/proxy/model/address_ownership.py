"""Which Service owns an address, and on which ports, where several ask for it.

The API server gives cluster IPs and node ports to one Service each. External IPs and load balancer IPs anybody may
write into a Service. So a cluster IP is its Service's alone: no other Service gets it as an external IP, on whatever
port. On an address of this node, a node port is its Service's. Of Services that ask for the same otherwise, the oldest
owns it: by ``creationTimestamp``, then by namespace and name.

The order in which Services are received does not matter, and what the owner releases is handed over. kube-proxy has no
such rules: there whoever comes last in a random order wins.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Final, TypeVar

from zoneward.proxy.model.node_service import NodeService, ServiceAddress, ServiceKey

_LAST: Final = "~"
"""Comes after all times: who does not say how old it is, is taken for the youngest."""
_MOST_NAMED: Final = 5
_Port = tuple[str, int]
"""Protocol and number."""
T = TypeVar("T")


@dataclass(slots=True)
class _AddressUsers:
    """Services that ask for an external IP. ``by_port`` is filled once it matters: two ask, or it is an address of the
    node."""

    services: dict[ServiceKey, None] = field(default_factory=dict)
    by_port: dict[_Port, tuple[ServiceKey, ...]] | None = None


class AddressOwnership:
    """Owners in one family. `set_service` records what a Service requests, and returns all that are served otherwise
    from then on.

    A change costs as much as the Service has addresses, and where these are shared, addresses times ports.
    """

    def __init__(self) -> None:
        self._requests: dict[ServiceKey, NodeService] = {}
        self._cluster_ips: dict[str, tuple[ServiceKey, ...]] = {}
        self._external_addresses: dict[str, _AddressUsers] = {}
        self._node_ports: dict[_Port, tuple[ServiceKey, ...]] = {}
        self._node_addresses: frozenset[str] = frozenset()
        self._conflicts: dict[ServiceKey, dict[ServiceAddress, ServiceKey]] = {}
        """What each Service does not get, and who has it; a whole address without protocol and port."""

    def set_service(self, service: ServiceKey, served: NodeService | None) -> dict[ServiceKey, NodeService | None]:
        """Record what a Service requests; None: it is gone. Returns all Services that may be served otherwise now, and
        how."""
        old = self._requests.get(service)
        affected: dict[ServiceKey, None] = {service: None}
        if old is not None and (served is None or not _requests_the_same(old, served)):
            self._remove_requests(service, old, affected)
            old = None
        if served is None:
            return self._node_services(affected)
        if old is None:
            self._add_requests(service, served, affected)
        self._requests[service] = served
        return self._node_services(affected)

    def set_node_addresses(self, addresses: frozenset[str]) -> dict[ServiceKey, NodeService | None]:
        """Record the node's addresses that node ports are served on. Returns all Services that may be served otherwise
        now, and how."""
        changed, self._node_addresses = addresses ^ self._node_addresses, addresses
        affected: dict[ServiceKey, None] = {}
        for address in changed & self._external_addresses.keys():
            self._index_ports(self._external_addresses[address], address)
            for port in self._external_addresses[address].by_port or ():
                self._assign_port(address, port, affected)
        return self._node_services(affected)

    def requested(self, service: ServiceKey) -> NodeService | None:
        """A Service as it was last recorded."""
        return self._requests.get(service)

    def conflicts(self, service: ServiceKey) -> tuple[str, ...]:
        """What a Service requests and other Services own, in words; the first few of it."""
        conflicts = self._conflicts.get(service)
        if conflicts is None:
            return ()
        some = {spot: owner for spot, owner in conflicts.items() if not spot[1] or (spot[0], "", 0) not in conflicts}
        first = nsmallest(_MOST_NAMED, some.items())
        found = [f"{' '.join(str(each) for each in spot if each)} of {'/'.join(owner)}" for spot, owner in first]
        return (*found, f"{len(some) - _MOST_NAMED} more") if len(some) > _MOST_NAMED else tuple(found)

    # --- who asks -----------------------------------------------------------------------------------------------------

    def _add_requests(self, service: ServiceKey, served: NodeService, affected: dict[ServiceKey, None]) -> None:
        self._requests[service] = served
        _add(self._cluster_ips, served.cluster_ip, service)
        for port in _node_ports(served):
            _add(self._node_ports, port, service)
        for address in _external_addresses(served):
            users = self._external_addresses.setdefault(address, _AddressUsers())
            users.services[service] = None
            if users.by_port is None:
                self._index_ports(users, address)
            else:
                for port in _ports(served):
                    _add(users.by_port, port, service)
        self._assign_all(served, affected)

    def _remove_requests(self, service: ServiceKey, served: NodeService, affected: dict[ServiceKey, None]) -> None:
        del self._requests[service]
        self._conflicts.pop(service, None)
        _remove(self._cluster_ips, served.cluster_ip, service)
        for port in _node_ports(served):
            _remove(self._node_ports, port, service)
        for address in _external_addresses(served):
            users = self._external_addresses[address]
            del users.services[service]
            if not users.services:
                del self._external_addresses[address]
            elif users.by_port is not None:
                for port in _ports(served):
                    _remove(users.by_port, port, service)
        self._assign_all(served, affected)

    def _index_ports(self, users: _AddressUsers, address: str) -> None:
        if users.by_port is None and (len(users.services) > 1 or address in self._node_addresses):
            users.by_port = {}
            for service in users.services:
                for port in _ports(self._requests[service]):
                    _add(users.by_port, port, service)

    # --- who has it ---------------------------------------------------------------------------------------------------

    def _age_and_name(self, service: ServiceKey) -> tuple[str, ServiceKey]:
        return self._requests[service].creation_timestamp or _LAST, service

    def _oldest(self, services: Iterable[ServiceKey]) -> ServiceKey | None:
        return min(services, key=self._age_and_name, default=None)

    def _assign_all(self, served: NodeService, affected: dict[ServiceKey, None]) -> None:
        """Whose everything is that a Service asks for, or asked for."""
        self._assign_address(served.cluster_ip, affected)
        for port in _node_ports(served):
            self._assign_node_port(port, affected)
        for address in _external_addresses(served):
            self._assign_address(address, affected)
            users = self._external_addresses.get(address)
            if users is not None and users.by_port is not None:
                for port in _ports(served):
                    self._assign_port(address, port, affected)

    def _assign_address(self, address: str, affected: dict[ServiceKey, None]) -> None:
        """Whose a whole address is, as a cluster IP."""
        claimants = self._cluster_ips.get(address, ())
        users = self._external_addresses.get(address)
        owner, whole = self._oldest(claimants), (address, "", 0)
        for service in (*claimants, *(users.services if users is not None else ())):
            self._record_owner(service, whole, owner, affected)

    def _assign_node_port(self, port: _Port, affected: dict[ServiceKey, None]) -> None:
        claimants = self._node_ports.get(port, ())
        owner = self._oldest(claimants)
        for service in claimants:
            self._record_owner(service, ("", *port), owner, affected)
        for address in self._node_addresses:
            self._assign_port(address, port, affected)

    def _assign_port(self, address: str, port: _Port, affected: dict[ServiceKey, None]) -> None:
        """Whose a port of an external address is."""
        users = self._external_addresses.get(address)
        claimants = users.by_port.get(port, ()) if users is not None and users.by_port is not None else ()
        if not claimants:
            return
        of_node = self._oldest(self._node_ports.get(port, ())) if address in self._node_addresses else None
        owner = of_node or (self._oldest(claimants) if len(claimants) > 1 else None)
        for service in claimants:
            self._record_owner(service, (address, *port), owner, affected)

    def _record_owner(
        self, service: ServiceKey, spot: ServiceAddress, owner: ServiceKey | None, affected: dict[ServiceKey, None]
    ) -> None:
        conflicts = self._conflicts.get(service, {})
        if conflicts.get(spot) == (None if owner == service else owner):
            return
        affected[service] = None
        if owner is None or owner == service:
            del conflicts[spot]
            if not conflicts:
                del self._conflicts[service]
        else:
            self._conflicts.setdefault(service, conflicts)[spot] = owner

    # --- what comes of it ---------------------------------------------------------------------------------------------

    def _node_services(self, services: Iterable[ServiceKey]) -> dict[ServiceKey, NodeService | None]:
        return {service: self._node_service(service) for service in services}

    def _node_service(self, service: ServiceKey) -> NodeService | None:
        served = self._requests.get(service)
        if served is None:
            return None
        conflicts = self._conflicts.get(service, {})
        own = served.cluster_ip
        if (own, "", 0) in conflicts:
            return None
        if not conflicts and own not in served.external_ips and own not in served.load_balancer_ips:
            return served
        ports = served.ports
        if any(("", port.protocol, port.node_port) in conflicts for port in ports if port.node_port is not None):
            ports = tuple(
                replace(port, node_port=None) if ("", port.protocol, port.node_port) in conflicts else port
                for port in ports
            )
        return replace(
            served,
            external_ips=tuple(each for each in served.external_ips if each != own and (each, "", 0) not in conflicts),
            load_balancer_ips=tuple(
                each for each in served.load_balancer_ips if each != own and (each, "", 0) not in conflicts
            ),
            ports=ports,
            owned_by_others=frozenset(spot for spot in conflicts if spot[0] and spot[1]),
        )


def resolve_ownership(
    every: Iterable[NodeService], *, node_addresses: frozenset[str] = frozenset(), on_conflict: Callable[[str], None]
) -> dict[ServiceKey, NodeService]:
    """All Services of one family as they are served. ``on_conflict`` gets what they do not own, a line each."""
    claims = AddressOwnership()
    claims.set_node_addresses(node_addresses)
    asked = {(each.namespace, each.name): each for each in every}
    found: dict[ServiceKey, NodeService | None] = {}
    for service, served in asked.items():
        found |= claims.set_service(service, served)
    for service in asked:
        for what in claims.conflicts(service):
            on_conflict(f"Service {'/'.join(service)}: it does not get {what}")
    return {service: each for service in asked if (each := found[service]) is not None}


def _requests_the_same(one: NodeService, other: NodeService) -> bool:
    """Whether two ask for the same of all that others may have too, and are as old."""
    return (
        one.cluster_ip == other.cluster_ip
        and one.creation_timestamp == other.creation_timestamp
        and one.external_ips == other.external_ips
        and one.load_balancer_ips == other.load_balancer_ips
        and len(one.ports) == len(other.ports)
        and all(
            port.port == another.port and port.protocol == another.protocol and port.node_port == another.node_port
            for port, another in zip(one.ports, other.ports, strict=True)
        )
    )


def _external_addresses(served: NodeService) -> Iterator[str]:
    return (
        each for each in dict.fromkeys((*served.external_ips, *served.load_balancer_ips)) if each != served.cluster_ip
    )


def _ports(served: NodeService) -> Iterator[_Port]:
    return iter({(port.protocol, port.port): None for port in served.ports})


def _node_ports(served: NodeService) -> Iterator[_Port]:
    return iter({(port.protocol, port.node_port): None for port in served.ports if port.node_port is not None})


def _add(claimants: dict[T, tuple[ServiceKey, ...]], obj: T, service: ServiceKey) -> None:
    claimants[obj] = (*claimants.get(obj, ()), service)


def _remove(claimants: dict[T, tuple[ServiceKey, ...]], obj: T, service: ServiceKey) -> None:
    some = tuple(each for each in claimants[obj] if each != service)
    if some:
        claimants[obj] = some
    else:
        del claimants[obj]
