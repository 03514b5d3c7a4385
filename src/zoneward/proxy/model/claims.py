"""Which Service has an address, and on which ports, where several ask for it.

Cluster IPs and node ports are given out by the API server, so that no two Services have the same. External addresses
and load balancers' anybody may write into a Service. So:

- A cluster IP is its Service's alone: no other has it as an external address, on whatever port.
- On an address of this node, a node port is its Service's.
- Of Services that ask for the same otherwise, the oldest has it: by ``creationTimestamp``, then by namespace and name.

The order in which Services are heard of is of no matter, and what the winner lets go of is handed over. kube-proxy has
no such rules: there whoever comes last in a random order has it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Final, TypeVar

from zoneward.proxy.model.served import ObjectKey, Served, Spot

_LAST: Final = "~"
"""Comes after all times: who does not say how old it is, is taken for the youngest."""
_MOST_NAMED: Final = 5
_Port = tuple[str, int]
"""Protocol and number."""
T = TypeVar("T")


@dataclass(slots=True)
class _Users:
    """Who asks for an external address. ``by_port`` is filled once that may matter: two ask, or it is of the node."""

    services: dict[ObjectKey, None] = field(default_factory=dict)
    by_port: dict[_Port, tuple[ObjectKey, ...]] | None = None


class Claims:
    """Of one family. `put` each Service as it asks to be served: that gives all that are served otherwise from then on.

    A change costs as much as the Service has addresses, and where these are shared, addresses times ports.
    """

    def __init__(self) -> None:
        self._asked: dict[ObjectKey, Served] = {}
        self._cluster_ips: dict[str, tuple[ObjectKey, ...]] = {}
        self._outer: dict[str, _Users] = {}
        self._node_ports: dict[_Port, tuple[ObjectKey, ...]] = {}
        self._node_addresses: frozenset[str] = frozenset()
        self._lost: dict[ObjectKey, dict[Spot, ObjectKey]] = {}
        """What each Service does not get, and who has it; a whole address without protocol and port."""

    def put(self, service: ObjectKey, served: Served | None) -> dict[ObjectKey, Served | None]:
        """A Service as it asks to be served; None: it is gone. All that may be served otherwise now, and how."""
        old = self._asked.get(service)
        touched: dict[ObjectKey, None] = {service: None}
        if old is not None and (served is None or not _asks_the_same(old, served)):
            self._leave(service, old, touched)
            old = None
        if served is None:
            return self._served(touched)
        if old is None:
            self._enter(service, served, touched)
        self._asked[service] = served
        return self._served(touched)

    def set_node_addresses(self, addresses: frozenset[str]) -> dict[ObjectKey, Served | None]:
        """The addresses of the node that node ports are served on. All that may be served otherwise now, and how."""
        changed, self._node_addresses = addresses ^ self._node_addresses, addresses
        touched: dict[ObjectKey, None] = {}
        for address in changed & self._outer.keys():
            self._fill(self._outer[address], address)
            for port in self._outer[address].by_port or ():
                self._settle(address, port, touched)
        return self._served(touched)

    def asked(self, service: ObjectKey) -> Served | None:
        """A Service as it was last put."""
        return self._asked.get(service)

    def lost(self, service: ObjectKey) -> tuple[str, ...]:
        """What other Services have of all that one asks for, in words; the first few of it."""
        lost = self._lost.get(service)
        if lost is None:
            return ()
        some = {spot: owner for spot, owner in lost.items() if not spot[1] or (spot[0], "", 0) not in lost}
        first = nsmallest(_MOST_NAMED, some.items())
        found = [f"{' '.join(str(each) for each in spot if each)} of {'/'.join(owner)}" for spot, owner in first]
        return (*found, f"{len(some) - _MOST_NAMED} more") if len(some) > _MOST_NAMED else tuple(found)

    # --- who asks -----------------------------------------------------------------------------------------------------

    def _enter(self, service: ObjectKey, served: Served, touched: dict[ObjectKey, None]) -> None:
        self._asked[service] = served
        _add(self._cluster_ips, served.cluster_ip, service)
        for port in _node_ports(served):
            _add(self._node_ports, port, service)
        for address in _outer(served):
            users = self._outer.setdefault(address, _Users())
            users.services[service] = None
            if users.by_port is None:
                self._fill(users, address)
            else:
                for port in _ports(served):
                    _add(users.by_port, port, service)
        self._settle_all(served, touched)

    def _leave(self, service: ObjectKey, served: Served, touched: dict[ObjectKey, None]) -> None:
        del self._asked[service]
        self._lost.pop(service, None)
        _remove(self._cluster_ips, served.cluster_ip, service)
        for port in _node_ports(served):
            _remove(self._node_ports, port, service)
        for address in _outer(served):
            users = self._outer[address]
            del users.services[service]
            if not users.services:
                del self._outer[address]
            elif users.by_port is not None:
                for port in _ports(served):
                    _remove(users.by_port, port, service)
        self._settle_all(served, touched)

    def _fill(self, users: _Users, address: str) -> None:
        if users.by_port is None and (len(users.services) > 1 or address in self._node_addresses):
            users.by_port = {}
            for service in users.services:
                for port in _ports(self._asked[service]):
                    _add(users.by_port, port, service)

    # --- who has it ---------------------------------------------------------------------------------------------------

    def _rank(self, service: ObjectKey) -> tuple[str, ObjectKey]:
        return self._asked[service].created or _LAST, service

    def _first(self, services: Iterable[ObjectKey]) -> ObjectKey | None:
        return min(services, key=self._rank, default=None)

    def _settle_all(self, served: Served, touched: dict[ObjectKey, None]) -> None:
        """Whose everything is that a Service asks for, or asked for."""
        self._settle_address(served.cluster_ip, touched)
        for port in _node_ports(served):
            self._settle_node_port(port, touched)
        for address in _outer(served):
            self._settle_address(address, touched)
            users = self._outer.get(address)
            if users is not None and users.by_port is not None:
                for port in _ports(served):
                    self._settle(address, port, touched)

    def _settle_address(self, address: str, touched: dict[ObjectKey, None]) -> None:
        """Whose a whole address is, as a cluster IP."""
        asking = self._cluster_ips.get(address, ())
        users = self._outer.get(address)
        owner, whole = self._first(asking), (address, "", 0)
        for service in (*asking, *(users.services if users is not None else ())):
            self._note(service, whole, owner, touched)

    def _settle_node_port(self, port: _Port, touched: dict[ObjectKey, None]) -> None:
        asking = self._node_ports.get(port, ())
        owner = self._first(asking)
        for service in asking:
            self._note(service, ("", *port), owner, touched)
        for address in self._node_addresses:
            self._settle(address, port, touched)

    def _settle(self, address: str, port: _Port, touched: dict[ObjectKey, None]) -> None:
        """Whose a port of an external address is."""
        users = self._outer.get(address)
        asking = users.by_port.get(port, ()) if users is not None and users.by_port is not None else ()
        if not asking:
            return
        of_node = self._first(self._node_ports.get(port, ())) if address in self._node_addresses else None
        owner = of_node or (self._first(asking) if len(asking) > 1 else None)
        for service in asking:
            self._note(service, (address, *port), owner, touched)

    def _note(self, service: ObjectKey, spot: Spot, owner: ObjectKey | None, touched: dict[ObjectKey, None]) -> None:
        lost = self._lost.get(service, {})
        if lost.get(spot) == (None if owner == service else owner):
            return
        touched[service] = None
        if owner is None or owner == service:
            del lost[spot]
            if not lost:
                del self._lost[service]
        else:
            self._lost.setdefault(service, lost)[spot] = owner

    # --- what comes of it ---------------------------------------------------------------------------------------------

    def _served(self, services: Iterable[ObjectKey]) -> dict[ObjectKey, Served | None]:
        return {service: self._granted(service) for service in services}

    def _granted(self, service: ObjectKey) -> Served | None:
        served = self._asked.get(service)
        if served is None:
            return None
        lost = self._lost.get(service, {})
        own = served.cluster_ip
        if (own, "", 0) in lost:
            return None
        if not lost and own not in served.external and own not in served.balancers:
            return served
        ports = served.ports
        if any(("", port.protocol, port.node_port) in lost for port in ports if port.node_port is not None):
            ports = tuple(
                replace(port, node_port=None) if ("", port.protocol, port.node_port) in lost else port for port in ports
            )
        return replace(
            served,
            external=tuple(each for each in served.external if each != own and (each, "", 0) not in lost),
            balancers=tuple(each for each in served.balancers if each != own and (each, "", 0) not in lost),
            ports=ports,
            taken=frozenset(spot for spot in lost if spot[0] and spot[1]),
        )


def granted(
    every: Iterable[Served], *, node_addresses: frozenset[str] = frozenset(), lost: Callable[[str], None]
) -> dict[ObjectKey, Served]:
    """All Services of one family as they are served. ``lost`` is told what they do not get, a line each."""
    claims = Claims()
    claims.set_node_addresses(node_addresses)
    asked = {(each.namespace, each.name): each for each in every}
    found: dict[ObjectKey, Served | None] = {}
    for service, served in asked.items():
        found |= claims.put(service, served)
    for service in asked:
        for what in claims.lost(service):
            lost(f"Service {'/'.join(service)}: it does not get {what}")
    return {service: each for service in asked if (each := found[service]) is not None}


def _asks_the_same(one: Served, other: Served) -> bool:
    """Whether two ask for the same of all that others may have too, and are as old."""
    return (
        one.cluster_ip == other.cluster_ip
        and one.created == other.created
        and one.external == other.external
        and one.balancers == other.balancers
        and len(one.ports) == len(other.ports)
        and all(
            port.port == another.port and port.protocol == another.protocol and port.node_port == another.node_port
            for port, another in zip(one.ports, other.ports, strict=True)
        )
    )


def _outer(served: Served) -> Iterator[str]:
    return (each for each in dict.fromkeys((*served.external, *served.balancers)) if each != served.cluster_ip)


def _ports(served: Served) -> Iterator[_Port]:
    return iter({(port.protocol, port.port): None for port in served.ports})


def _node_ports(served: Served) -> Iterator[_Port]:
    return iter({(port.protocol, port.node_port): None for port in served.ports if port.node_port is not None})


def _add(asking: dict[T, tuple[ObjectKey, ...]], thing: T, service: ObjectKey) -> None:
    asking[thing] = (*asking.get(thing, ()), service)


def _remove(asking: dict[T, tuple[ObjectKey, ...]], thing: T, service: ObjectKey) -> None:
    some = tuple(each for each in asking[thing] if each != service)
    if some:
        asking[thing] = some
    else:
        del asking[thing]
