"""Finds the Service of an address that clients asked for, and the zone of an endpoint that replied.

All addresses and ports are as in a packet, so that a flow is looked up as the kernel shows it.
"""

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import islice
from sys import intern
from typing import Final

from zoneward.client.resources import LiveNode
from zoneward.kube.addresses import parse_address, parse_cidr
from zoneward.kube.objects import ObjectKey, Service, node_zone
from zoneward.netlink.conntrack import PROTOCOLS
from zoneward.routing.selection.address_ownership import (
    AddressKind,
    AddressOwnership,
    AddressRequest,
    address_requests,
)
from zoneward.routing.selection.entry_budget import EntryBudget

GONE_ENDPOINT_AGE: Final = 600.0
"""Seconds for which the zone of a deleted endpoint is remembered: connections outlive it, and are read late."""
MAX_GONE_ENDPOINTS: Final = 50_000
"""Deleted endpoints that are remembered; beyond that, the oldest are forgotten."""


def packed(address: str) -> bytes | None:
    """An address as in a packet; None if it is invalid."""
    canonical = parse_address(address)
    if canonical is None:
        return None
    return socket.inet_pton(socket.AF_INET6 if ":" in canonical else socket.AF_INET, canonical)


class ServiceIndex:
    """The Services of the cluster, by all addresses that a proxy translates. Where several Services request the same,
    it belongs to the one that a proxy serves: `zoneward.routing.selection.address_ownership` has the rules.

    Services that exceed ``budget`` are not found: `zoneward.routing.selection.entry_budget`. ``on_set_aside`` gets
    each, once, and why.
    """

    def __init__(
        self,
        budget: EntryBudget | None = None,
        *,
        on_set_aside: Callable[[ObjectKey, str], None] = lambda _service, _why: None,
    ) -> None:
        self.budget: Final = budget or EntryBudget()
        self._on_set_aside = on_set_aside
        self._requests: dict[ObjectKey, tuple[AddressRequest, ...]] = {}
        self._by_family = {is_ipv6: AddressOwnership() for is_ipv6 in (False, True)}

    def __contains__(self, service: ObjectKey) -> bool:
        return service in self._requests

    def set_service(self, key: ObjectKey, service: Service | None) -> None:
        """Record the current version of a Service; None: it was deleted."""
        requests = () if service is None else address_requests(service)
        if service is None:
            self._requests.pop(key, None)
        else:
            self._requests[key] = requests
        created = service.metadata.creation_timestamp if service is not None else None
        changed = self.budget.set_entries(
            key,
            None if service is None else sum(request.entries for request in requests),
            creation_timestamp=created or "",
        )
        for one in (key, *sorted(changed - {key})):
            self._own(one)
            if one in changed and self.budget.set_aside(one) is not None:
                self._on_set_aside(one, self.budget.reason(one))

    def set_node_addresses(self, addresses: Iterable[str]) -> None:
        """Record the node's own addresses, where node ports win over external addresses."""
        canonical = {address for text in addresses if (address := parse_address(text)) is not None}
        for is_ipv6, ownership in self._by_family.items():
            ownership.set_node_addresses(frozenset(address for address in canonical if (":" in address) == is_ipv6))

    def find(self, address: bytes, protocol: int, port: bytes) -> tuple[ObjectKey, AddressKind] | None:
        """The Service, and what of it the address is; None: no Service has it."""
        text = str(ip_address(address))
        return self._by_family[":" in text].find(text, (PROTOCOLS.get(protocol, ""), int.from_bytes(port)))

    def _own(self, key: ObjectKey) -> None:
        requests = self._requests.get(key, ()) if self.budget.set_aside(key) is None else ()
        by_family = {":" in request.cluster_ip: request for request in requests}
        for is_ipv6, ownership in self._by_family.items():
            ownership.set_service(key, by_family.get(is_ipv6))


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
            address: intern(zone or "") for text, zone in endpoints if (address := packed(text)) is not None
        }
        for address in zones:
            self._gone.pop((service, address), None)

    def remove_slice(self, key: ObjectKey, *, now: float) -> None:
        service = self._service_of.pop(key, None)
        if service is None:
            return
        slices = self._slices[service]
        self._gone |= {(service, address): (zone, now) for address, zone in slices.pop(key).items()}
        for oldest in tuple(islice(self._gone, max(0, len(self._gone) - MAX_GONE_ENDPOINTS))):
            del self._gone[oldest]
        if not slices:
            del self._slices[service]

    def forget_gone(self, *, now: float) -> None:
        """Forget endpoints that have been gone for `GONE_ENDPOINT_AGE`."""
        expired = [key for key, (_, since) in self._gone.items() if now - since >= GONE_ENDPOINT_AGE]
        for key in expired:
            del self._gone[key]

    def zone(self, service: ObjectKey, address: bytes) -> str | None:
        """The zone of an endpoint, ``""`` if it has none; None if it is not, and was not lately, one of the Service."""
        known: str | None = None
        for zones in self._slices.get(service, {}).values():
            zone = zones.get(address)
            if zone:
                return zone
            # Of two slices with the same endpoint, one may not know its zone.
            known = zone if known is None else known
        if known is None:
            known, _ = self._gone.get((service, address), (None, 0.0))
        return known


@dataclass(frozen=True, slots=True)
class MeteredNode:
    """The node of a meter. ``addresses`` are its own, ``pod_ranges`` those of its Pods, from the Node."""

    zone: str | None = None
    addresses: frozenset[bytes] = frozenset()
    pod_ranges: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def of_node(cls, node: LiveNode | None) -> "MeteredNode":
        """Ignores invalid addresses and ranges."""
        if node is None:
            return cls()
        addresses = (node.status.addresses or ()) if node.status is not None else ()
        ranges = map(parse_cidr, (node.spec.pod_cidrs or ()) if node.spec is not None else ())
        return cls(
            node_zone(node),
            frozenset(in_packet for address in addresses if (in_packet := packed(address.address)) is not None),
            tuple(ip_network(range_) for range_ in ranges if range_ is not None),
        )

    def is_local(self, source: bytes) -> bool:
        """Whether traffic from an address starts on this node."""
        if source in self.addresses:
            return True
        address = ip_address(source)
        return address.is_loopback or any(address in range_ for range_ in self.pod_ranges)
