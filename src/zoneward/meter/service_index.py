"""Finds the Service of an address that clients asked for, and the zone of an endpoint that replied.

All addresses and ports are as in a packet, so that a flow is looked up as the kernel shows it.
"""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import islice
from sys import intern
from typing import Final, Literal

from zoneward.kube.addresses import parse_address, parse_cidr
from zoneward.kube.objects import ObjectKey, Service
from zoneward.netlink.flow_counters import PROTOCOLS
from zoneward.routing.selection.endpoint_selection import is_proxied, load_balancer_addresses

GONE_ENDPOINT_AGE: Final = 600.0
"""Seconds for which the zone of an endpoint that is gone is known: connections outlive it, and are seen late."""
MAX_GONE_ENDPOINTS: Final = 50_000
"""Endpoints that are gone and still known: the oldest make room."""
_NUMBERS: Final = {name: number for number, name in PROTOCOLS.items()}
_LAST_PORT: Final = 65_535
AskedFor = Literal["cluster IP", "external address", "node port"]
_Asked = tuple[bytes, int, bytes]
"""Address, protocol and port; a port of the node is an address that is empty."""
_NODE_PORT: Final = b""


def packed(address: str) -> bytes | None:
    """An address as in a packet; None for what is no address."""
    found = parse_address(address)
    if found is None:
        return None
    return socket.inet_pton(socket.AF_INET6 if ":" in found else socket.AF_INET, found)


class ServiceIndex:
    """The Services of the cluster, by all addresses that a proxy translates."""

    def __init__(self) -> None:
        self._owners: dict[_Asked, list[ObjectKey]] = {}
        """Several for an external address that several ask for: the first has it."""
        self._asked: dict[ObjectKey, dict[_Asked, AskedFor]] = {}

    def __contains__(self, service: ObjectKey) -> bool:
        return service in self._asked

    def set_service(self, key: ObjectKey, service: Service | None) -> None:
        """Record a Service as it is now; None: it is gone."""
        before = self._asked.pop(key, {})
        after = {} if service is None else _asked_of(service)
        for each in before:
            if each not in after:
                owners = self._owners[each]
                owners.remove(key)
                if not owners:
                    del self._owners[each]
        for each in after:
            owners = self._owners.setdefault(each, [])
            if key not in owners:
                owners.append(key)
        if service is not None:
            self._asked[key] = after

    def find(self, address: bytes, protocol: int, port: bytes) -> tuple[ObjectKey, AskedFor] | None:
        """The Service, and what of it the address is; None: no Service has it."""
        asked = address, protocol, port
        owners = self._owners.get(asked)
        if owners is None:
            asked = _NODE_PORT, protocol, port
            owners = self._owners.get(asked)
            if owners is None:
                return None
        return owners[0], self._asked[owners[0]][asked]


def _asked_of(service: Service) -> dict[_Asked, AskedFor]:
    if not is_proxied(service):
        return {}
    spec = service.spec
    internal = spec.cluster_ips or (spec.cluster_ip or "",)
    external = (*(spec.external_ips or ()), *load_balancer_addresses(service))
    found: dict[_Asked, AskedFor] = {}
    for port in spec.ports or ():
        protocol = _NUMBERS.get(port.protocol)
        if protocol is None:
            continue
        if 0 < (port.node_port or 0) <= _LAST_PORT:
            found[_NODE_PORT, protocol, (port.node_port or 0).to_bytes(2)] = "node port"
        if not 0 < port.port <= _LAST_PORT:
            continue
        asked_for: AskedFor
        for asked_for, addresses in (("external address", external), ("cluster IP", internal)):
            for address in map(packed, addresses):
                if address is not None:
                    found[address, protocol, port.port.to_bytes(2)] = asked_for
    return found


class EndpointZones:
    """The zones of the endpoints of each Service, by address, with those that are gone for a while."""

    def __init__(self) -> None:
        self._slices: dict[ObjectKey, dict[ObjectKey, dict[bytes, str]]] = {}
        """By Service and slice, the zone of each address; ``""`` where an endpoint has none."""
        self._service_of: dict[ObjectKey, ObjectKey] = {}
        """By slice."""
        self._gone: dict[tuple[ObjectKey, bytes], tuple[str, float]] = {}

    def set_slice(
        self, key: ObjectKey, service: ObjectKey, endpoints: Iterable[tuple[str, str | None]], *, now: float
    ) -> None:
        """Record addresses and zones of a slice as it is now. ``now`` in seconds, of any clock."""
        self.remove_slice(key, now=now)
        self._service_of[key] = service
        zones = self._slices.setdefault(service, {})[key] = {
            address: intern(zone or "") for each, zone in endpoints if (address := packed(each)) is not None
        }
        for address in zones:
            self._gone.pop((service, address), None)

    def remove_slice(self, key: ObjectKey, *, now: float) -> None:
        service = self._service_of.pop(key, None)
        if service is None:
            return
        slices = self._slices[service]
        self._gone |= {(service, address): (zone, now) for address, zone in slices.pop(key).items()}
        for each in tuple(islice(self._gone, max(0, len(self._gone) - MAX_GONE_ENDPOINTS))):
            del self._gone[each]
        if not slices:
            del self._slices[service]

    def forget_gone(self, *, now: float) -> None:
        """Forget endpoints that have been gone for `GONE_ENDPOINT_AGE`."""
        late = [key for key, (_, since) in self._gone.items() if now - since >= GONE_ENDPOINT_AGE]
        for each in late:
            del self._gone[each]

    def zone(self, service: ObjectKey, address: bytes) -> str | None:
        """``""`` for an endpoint without a zone; None for what is no endpoint of the Service, and was none lately."""
        found: str | None = None
        for zones in self._slices.get(service, {}).values():
            zone = zones.get(address)
            if zone:
                return zone
            # Of two slices with the same endpoint, one may not know its zone.
            found = zone if found is None else found
        if found is None:
            found, _ = self._gone.get((service, address), (None, 0.0))
        return found


@dataclass(frozen=True, slots=True)
class MeteredNode:
    """The node of a meter. ``addresses`` are its own, ``pod_ranges`` those of its Pods as far as the Node says."""

    zone: str | None = None
    addresses: frozenset[bytes] = frozenset()
    pod_ranges: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def of(cls, *, zone: str | None, addresses: Iterable[str], pod_ranges: Iterable[str]) -> "MeteredNode":
        """From what a Node says; what is no address or range is left out."""
        ranges = (parse_cidr(each) for each in pod_ranges)
        return cls(
            zone,
            frozenset(each for address in addresses if (each := packed(address)) is not None),
            tuple(ip_network(each) for each in ranges if each is not None),
        )

    def is_local(self, source: bytes) -> bool:
        """Whether traffic from an address starts on this node."""
        if source in self.addresses:
            return True
        address = ip_address(source)
        return address.is_loopback or any(address in each for each in self.pod_ranges)
