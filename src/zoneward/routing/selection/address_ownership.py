"""Which Service owns an address, and on which ports, where several request it.

The API server allocates cluster IPs and node ports to one Service each. Anyone who may write a Service can request any
external IP or load balancer IP. So a cluster IP belongs to its Service alone: no other Service gets it as an external
IP, on any port. On an address of the node, a node port belongs to its Service. Otherwise the oldest Service that
requests a port of an address owns it: by ``creationTimestamp``, then by namespace and name.

The result does not depend on the order in which Services are received, and the next one gets what the owner releases
one. kube-proxy has no such rules: there the last Service in a random order wins.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal, TypeVar

from zoneward.kube.addresses import parse_address, special_use
from zoneward.kube.names import HEADLESS
from zoneward.kube.objects import ObjectKey, Service
from zoneward.routing.selection.endpoint_selection import is_proxied, load_balancer_addresses

AddressKind = Literal["cluster IP", "external address", "node port"]
Port = tuple[str, int]
"""Protocol and number."""
Age = tuple[str, ObjectKey]
"""Sorts Services: the oldest first, then by namespace and name."""
_UNKNOWN_AGE: Final = "~"
"""Sorts after all times: a Service without a ``creationTimestamp`` counts as the youngest."""
_MOST_NAMED: Final = 5
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_LAST_PORT: Final = 65_535
_NOTHING: Final[frozenset[Port]] = frozenset()
T = TypeVar("T")


def age_of(service: ObjectKey, creation_timestamp: str | None) -> Age:
    """What the oldest Service is chosen by."""
    return creation_timestamp or _UNKNOWN_AGE, service


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRequest:
    """What one Service requests in one family. ``external`` are external and load balancer IPs, without its own cluster
    IP. Every address is requested with all ``ports``."""

    cluster_ip: str
    external: frozenset[str] = frozenset()
    ports: frozenset[Port] = _NOTHING
    node_ports: frozenset[Port] = _NOTHING
    creation_timestamp: str = ""

    @property
    def entries(self) -> int:
        """The pairs of an address and a port, with the node ports."""
        return len(self.ports) * (1 + len(self.external)) + len(self.node_ports)


def address_requests(service: Service) -> tuple[AddressRequest, ...]:
    """What proxies translate for a Service: a request for each family in which it has a cluster IP. Leaves out values
    that no proxy programs."""
    if not is_proxied(service):
        return ()
    spec, cluster_ips = service.spec, dict[bool, str]()
    for text in spec.cluster_ips or (spec.cluster_ip or "",):
        address = parse_address(text) if text and text != HEADLESS else None
        if address is not None:
            cluster_ips.setdefault(":" in address, address)
    requested = (*(spec.external_ips or ()), *load_balancer_addresses(service))
    external = {address for text in requested if (address := parse_address(text)) and special_use(address) is None}
    ports = [port for port in spec.ports or () if port.protocol in _PROTOCOLS]
    return tuple(
        AddressRequest(
            cluster_ip=cluster_ip,
            external=frozenset(address for address in external if (":" in address) == is_ipv6) - {cluster_ip},
            ports=frozenset((port.protocol, port.port) for port in ports if 0 < port.port <= _LAST_PORT),
            node_ports=frozenset(
                (port.protocol, port.node_port) for port in ports if port.node_port and 0 < port.node_port <= _LAST_PORT
            ),
            creation_timestamp=service.metadata.creation_timestamp or "",
        )
        for is_ipv6, cluster_ip in cluster_ips.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedByOthers:
    """What a Service requests and does not get: its cluster IP, ports of external addresses (where it gets none, all of
    its ports), and node ports."""

    cluster_ip: bool = False
    external: Mapping[str, frozenset[Port]] = field(default_factory=dict)
    node_ports: frozenset[Port] = _NOTHING

    def __bool__(self) -> bool:
        return self.cluster_ip or bool(self.external) or bool(self.node_ports)


@dataclass(slots=True)
class _ExternalAddress:
    """The Services that request an external address, the oldest first. ``owners`` by port; None while one Service is
    alone, and owns all of its ports."""

    services: list[Age] = field(default_factory=list)
    owners: dict[Port, ObjectKey] | None = None


class AddressOwnership:
    """The owners of one family. A change costs as much as the Service has addresses times ports, however many other
    Services request the same; what it releases also costs as much as others request that address."""

    def __init__(self) -> None:
        self._requests: dict[ObjectKey, AddressRequest] = {}
        self._cluster_ips: dict[str, list[Age]] = {}
        self._node_ports: dict[Port, list[Age]] = {}
        self._external: dict[str, _ExternalAddress] = {}
        self._node_addresses: frozenset[str] = frozenset()

    def set_service(self, service: ObjectKey, request: AddressRequest | None) -> set[ObjectKey]:
        """Record what a Service requests; None: it is gone. Returns all Services that may own something else now."""
        before = self._requests.get(service)
        if before == request:
            return set()
        affected = {service}
        if before is not None:
            self._change(service, before, affected, is_new=False)
        if request is not None:
            self._change(service, request, affected, is_new=True)
        return affected

    def set_node_addresses(self, addresses: frozenset[str]) -> set[ObjectKey]:
        """Record the node's addresses that node ports are served on. Returns all Services that may own something else
        now."""
        changed, self._node_addresses = addresses ^ self._node_addresses, addresses
        affected: set[ObjectKey] = set()
        for address in changed & self._external.keys():
            # A Service that owns none of the ports by age may own one as its node port.
            affected.update(service for _, service in self._external[address].services)
        return affected

    def find(self, address: str, port: Port) -> tuple[ObjectKey, AddressKind] | None:
        """The Service that owns a port of an address, and what the address is of it. A node port is owned on every
        address that no Service requests."""
        owner = _owner(self._cluster_ips, address)
        if owner is not None:
            return (owner, "cluster IP") if port in self._requests[owner].ports else None
        node_port_owner, requested = _owner(self._node_ports, port), self._external.get(address)
        if requested is not None and (node_port_owner is None or address not in self._node_addresses):
            owner = requested.services[0][1] if requested.owners is None else requested.owners.get(port)
            if owner is not None and port in self._requests[owner].ports:
                return owner, "external address"
        return None if node_port_owner is None else (node_port_owner, "node port")

    def owned_by_others(self, service: ObjectKey) -> OwnedByOthers:
        """What a recorded Service does not get."""
        request = self._requests[service]
        shared = {request.ports: request.ports}
        external: dict[str, frozenset[Port]] = {}
        for address in request.external:
            lost = self._lost_ports(service, request, address)
            if lost:
                external[address] = shared.setdefault(lost, lost)
        return OwnedByOthers(
            cluster_ip=_owner(self._cluster_ips, request.cluster_ip) != service,
            external=external,
            node_ports=frozenset(port for port in request.node_ports if _owner(self._node_ports, port) != service),
        )

    def conflicts(self, service: ObjectKey) -> tuple[str, ...]:
        """What a Service does not get and which Service owns it, in words; the first few of it."""
        if service not in self._requests or not (lost := self.owned_by_others(service)):
            return ()
        count = lost.cluster_ip + len(lost.node_ports)
        count += sum(1 if address in self._cluster_ips else len(ports) for address, ports in lost.external.items())
        named = islice(self._conflicts(service, lost), _MOST_NAMED)
        first = tuple(f"{what} of {'/'.join(owner)}" for what, owner in named)
        return (*first, f"{count - _MOST_NAMED} more") if count > _MOST_NAMED else first

    # --- requests -----------------------------------------------------------------------------------------------------

    def _change(self, service: ObjectKey, request: AddressRequest, affected: set[ObjectKey], *, is_new: bool) -> None:
        """Record a request, or forget it."""
        if is_new:
            self._requests[service] = request
        else:
            del self._requests[service]
        change, change_external = (_insert, self._add_external) if is_new else (_remove, self._remove_external)
        age = age_of(service, request.creation_timestamp)
        before = _owner(self._cluster_ips, request.cluster_ip)
        change(self._cluster_ips, request.cluster_ip, age)
        self._cluster_ip_changed(request.cluster_ip, before, affected)
        for port in request.node_ports:
            before = _owner(self._node_ports, port)
            change(self._node_ports, port, age)
            self._node_port_changed(port, before, affected)
        for address in request.external:
            change_external(address, age, request.ports, affected)

    def _add_external(self, address: str, age: Age, ports: frozenset[Port], affected: set[ObjectKey]) -> None:
        requested = self._external.setdefault(address, _ExternalAddress())
        insort(requested.services, age)
        if len(requested.services) == 1:
            return
        owners = requested.owners
        if owners is None:
            (other,) = (other for _, other in requested.services if other != age[1])
            owners = requested.owners = dict.fromkeys(self._requests[other].ports, other)
        if self._oldest_has_all(requested, age[1], ports):
            return
        is_older: dict[ObjectKey, bool] = {}
        for port in ports:
            owner = owners.get(port)
            if owner is not None:
                if owner not in is_older:
                    is_older[owner] = self._age(owner) < age
                if is_older[owner]:
                    continue
                affected.add(owner)
            owners[port] = age[1]

    def _remove_external(self, address: str, age: Age, ports: frozenset[Port], affected: set[ObjectKey]) -> None:
        requested, service = self._external[address], age[1]
        owners, released = requested.owners, set[Port]()
        if owners is not None and not self._oldest_has_all(requested, service, ports):
            released = _of_owner(owners, service, ports)
            for port in released:
                del owners[port]
        del requested.services[bisect_left(requested.services, age)]
        if not requested.services:
            del self._external[address]
        if owners is None:
            return
        for _, other in requested.services:
            if not released:
                break
            gained = released & self._requests[other].ports
            if gained:
                owners.update(dict.fromkeys(gained, other))
                affected.add(other)
                released -= gained
        if len(requested.services) == 1:
            requested.owners = None

    # --- owners -------------------------------------------------------------------------------------------------------

    def _age(self, service: ObjectKey) -> Age:
        return age_of(service, self._requests[service].creation_timestamp)

    def _cluster_ip_changed(self, address: str, before: ObjectKey | None, affected: set[ObjectKey]) -> None:
        after = _owner(self._cluster_ips, address)
        affected.update(service for service in (before, after) if service is not None and before != after)
        if (before is None) != (after is None) and (requested := self._external.get(address)) is not None:
            owners = requested.owners
            if owners is None or address in self._node_addresses:
                affected.update(service for _, service in requested.services)
            else:
                # The others own nothing there, before as after.
                affected.update(owners.values())

    def _node_port_changed(self, port: Port, before: ObjectKey | None, affected: set[ObjectKey]) -> None:
        after = _owner(self._node_ports, port)
        if before == after:
            return
        affected.update(service for service in (before, after) if service is not None)
        for address in self._node_addresses & self._external.keys():
            requested = self._external[address]
            owner = requested.services[0][1] if requested.owners is None else requested.owners.get(port)
            if owner is not None:
                affected.add(owner)

    def _lost_ports(self, service: ObjectKey, request: AddressRequest, address: str) -> frozenset[Port]:
        if address in self._cluster_ips:
            return request.ports
        owners = self._external[address].owners
        if address in self._node_addresses:
            return frozenset(port for port in request.ports if self._port_owner(address, port) not in (service, None))
        if owners is None:
            return _NOTHING
        if self._oldest_has_all(self._external[address], service, request.ports):
            return request.ports
        return request.ports - _of_owner(owners, service, request.ports)

    def _oldest_has_all(self, requested: _ExternalAddress, service: ObjectKey, ports: frozenset[Port]) -> bool:
        """Whether one other Service, the oldest, owns all of these ports: so it is where many request the same."""
        _, oldest = requested.services[0]
        return oldest != service and ports <= self._requests[oldest].ports

    def _port_owner(self, address: str, port: Port) -> ObjectKey | None:
        """The owner of a port of an external address; None where only one Service requests the address."""
        if address in self._node_addresses and (owner := _owner(self._node_ports, port)) is not None:
            return owner
        owners = self._external[address].owners
        return None if owners is None else owners[port]

    def _conflicts(self, service: ObjectKey, lost: OwnedByOthers) -> Iterator[tuple[str, ObjectKey]]:
        """What a Service does not get, sorted, each with its owner."""
        for port in sorted(lost.node_ports):
            yield " ".join(map(str, port)), self._node_ports[port][0][1]
        own = {self._requests[service].cluster_ip} if lost.cluster_ip else set[str]()
        for address in sorted(own | lost.external.keys()):
            owner = _owner(self._cluster_ips, address)
            if owner is not None:
                yield address, owner
                continue
            for protocol, port_number in sorted(lost.external[address]):
                owner = self._port_owner(address, (protocol, port_number))
                assert owner is not None
                yield f"{address} {protocol} {port_number}", owner


def _of_owner(owners: Mapping[Port, ObjectKey], service: ObjectKey, ports: frozenset[Port]) -> set[Port]:
    return {port for port in ports if owners[port] == service}


def _owner(services: Mapping[T, list[Age]], obj: T) -> ObjectKey | None:
    ages = services.get(obj)
    return ages[0][1] if ages else None


def _insert(services: dict[T, list[Age]], obj: T, age: Age) -> None:
    insort(services.setdefault(obj, []), age)


def _remove(services: dict[T, list[Age]], obj: T, age: Age) -> None:
    ages = services[obj]
    del ages[bisect_left(ages, age)]
    if not ages:
        del services[obj]
