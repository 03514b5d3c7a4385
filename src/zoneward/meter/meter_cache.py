"""What a node's meter watches: all Services and EndpointSlices, and its own Node; indexed as flows are looked up.

The indexes find the Service of an address that clients asked for, and the zone of an endpoint that replied. All
addresses and ports are as in a packet, so that a flow is looked up as the kernel shows it.
"""

import socket
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import islice
from sys import intern
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from zoneward.client.informers import NodeWatchedStores
from zoneward.client.list_watch_decoder import UnreadableHandler, unreadable_endpoints
from zoneward.client.resources import (
    NODES,
    RAW_SLICES,
    SERVICES,
    LiveNode,
    RawEndpointSlice,
    service_key_of,
)
from zoneward.kube.addresses import parse_address, parse_cidr
from zoneward.kube.json_documents import DECODE_ERRORS
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
        zones = {address: intern(zone or "") for text, zone in endpoints if (address := packed(text)) is not None}
        self._remove(key, zones if self._service_of.get(key) == service else (), now=now)
        self._service_of[key] = service
        self._slices.setdefault(service, {})[key] = zones
        for address in zones:
            self._gone.pop((service, address), None)

    def remove_slice(self, key: ObjectKey, *, now: float) -> None:
        self._remove(key, (), now=now)

    def _remove(self, key: ObjectKey, stay: Container[bytes], *, now: float) -> None:
        """Remove a slice. All of its endpoints but those that ``stay`` are gone."""
        service = self._service_of.pop(key, None)
        if service is None:
            return
        slices = self._slices[service]
        before = slices.pop(key)
        self._gone |= {(service, address): (zone, now) for address, zone in before.items() if address not in stay}
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


_NOTHING: Final = msgspec.Raw(b"null")


class _Endpoint(msgspec.Struct, frozen=True, gc=False):
    """What a meter reads of an endpoint."""

    addresses: tuple[str, ...] | None = None
    zone: str | None = None


_ENDPOINTS: Final = msgspec.json.Decoder(tuple[_Endpoint, ...] | None)


class MeterCache(NodeWatchedStores):
    """Pass it to `zoneward.client.informers.run_informers`, with `list_options`.

    ``budget`` limits the addresses and ports of Services; ``on_set_aside`` gets each Service that exceeds it, and why.
    ``on_unreadable`` gets objects that cannot be decoded; their last valid version stays. ``clock`` counts seconds.
    """

    def __init__(
        self,
        node: str,
        *,
        budget: EntryBudget | None = None,
        on_unreadable: UnreadableHandler = lambda _found: None,
        on_set_aside: Callable[[ObjectKey, str], None] = lambda _service, _why: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(node, on_unreadable=on_unreadable)
        self.node_name: Final = node
        self.node = MeteredNode()
        """Unchanged after the Node was deleted."""
        self.services: Final = ServiceIndex(budget, on_set_aside=on_set_aside)
        self.endpoints: Final = EndpointZones()
        self.find_service, self.endpoint_zone = self.services.find, self.endpoints.zone
        self.changes = 0
        """Incremented with each change of the index."""
        self._clock = clock
        self._service_store = self.add_store(SERVICES, self._index_service)
        self._slice_store = self.add_store(RAW_SLICES, self._index_slice)
        self.add_store(NODES, self._index_node)

    @property
    def counts(self) -> tuple[int, int]:
        return len(self._service_store), len(self._slice_store)

    # --- lookups of flows (`zoneward.meter.flow_meter.TrafficIndex`) --------------------------------------------------

    @property
    def node_zone(self) -> str | None:
        return self.node.zone

    def __contains__(self, service: ObjectKey) -> bool:
        return service in self.services

    def is_local(self, source: bytes) -> bool:
        return self.node.is_local(source)

    def forget_gone(self) -> None:
        self.endpoints.forget_gone(now=self._clock())

    # --- what changes -------------------------------------------------------------------------------------------------

    def _index_service(self, key: ObjectKey, _old: Service | None, new: Service | None) -> None:
        self.changes += 1
        self.services.set_service(key, new)

    def _index_slice(self, key: ObjectKey, _old: RawEndpointSlice | None, new: RawEndpointSlice | None) -> None:
        self.changes += 1
        if new is None:
            self.endpoints.remove_slice(key, now=self._clock())
            return
        raw = new.endpoints
        # They would keep the whole message in memory.
        force_setattr(new, "endpoints", _NOTHING)
        force_setattr(new.metadata, "annotations", None)
        try:
            endpoints = _ENDPOINTS.decode(raw) or ()
        except DECODE_ERRORS as error:
            self._slice_store.mark_unreadable(unreadable_endpoints(new, error))
            return
        addresses = ((address, endpoint.zone) for endpoint in endpoints for address in endpoint.addresses or ())
        self.endpoints.set_slice(key, service_key_of(new), addresses, now=self._clock())

    def _index_node(self, _key: ObjectKey, _old: LiveNode | None, new: LiveNode | None) -> None:
        if new is None or new.metadata.name != self.node_name:
            return
        self.changes += 1
        addresses = [address.address for address in (new.status.addresses or ())] if new.status is not None else []
        self.services.set_node_addresses(addresses)
        self.node = MeteredNode.of_node(new)
