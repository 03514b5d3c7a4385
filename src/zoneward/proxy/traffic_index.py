"""Answers the meter's lookups in a proxy: the Service of a flow, and the zones where it starts and ends."""

from ipaddress import ip_address

from zoneward.kube.objects import ObjectKey
from zoneward.meter.meter_cache import MeteredNode, packed
from zoneward.netlink.conntrack import PROTOCOLS
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.proxier import Proxier
from zoneward.routing.selection.address_ownership import AddressKind


class ProxyTrafficIndex:
    """A `zoneward.meter.flow_meter.TrafficIndex` of the Services that this proxy serves.

    Call `mark_changed` after a change of a Service or its slices, and `set_node` when the Node changes.
    """

    def __init__(self, cache: NodeCache, proxier: Proxier, node: MeteredNode) -> None:
        self._cache, self._proxier, self._node = cache, proxier, node
        self.changes = 0
        self._zones: dict[ObjectKey, dict[bytes, str]] = {}
        """By Service, the zone of each endpoint address as of the last lookup that missed. Slices for other zones are
        compressed, so this reads them only for Services with traffic."""
        self._gone: dict[ObjectKey, dict[bytes, str]] = {}
        """The zones of the previous dump: connections outlive their endpoint's slice."""
        self._stale: set[ObjectKey] = set()

    def mark_changed(self, service: ObjectKey) -> None:
        self.changes += 1
        if service in self._zones:
            self._stale.add(service)

    def set_node(self, node: MeteredNode) -> None:
        self.changes += 1
        self._node = node

    # --- a TrafficIndex -----------------------------------------------------------------------------------------------

    @property
    def node_name(self) -> str:
        return self._cache.node.name

    @property
    def node_zone(self) -> str | None:
        return self._cache.node.zone

    def __contains__(self, service: ObjectKey) -> bool:
        return self._cache.services.get(*service) is not None

    def find_service(self, destination: bytes, protocol: int, port: bytes) -> tuple[ObjectKey, AddressKind] | None:
        return self._proxier.find_service(
            str(ip_address(destination)), (PROTOCOLS.get(protocol, "").lower(), int.from_bytes(port))
        )

    def endpoint_zone(self, service: ObjectKey, endpoint: bytes) -> str | None:
        zones = self._zones.get(service)
        if zones is None or (endpoint not in zones and service in self._stale):
            zones = self._read_zones(service)
        zone = zones.get(endpoint)
        return self._gone.get(service, {}).get(endpoint) if zone is None else zone

    def is_local(self, source: bytes) -> bool:
        return self._node.is_local(source)

    def forget_gone(self) -> None:
        """Read the zones of changed Services again. Deleted endpoints stay known until the next call."""
        self._gone.clear()
        for service in tuple(self._stale):
            self._read_zones(service)

    def _read_zones(self, service: ObjectKey) -> dict[bytes, str]:
        self._stale.discard(service)
        self._gone[service] = self._gone.get(service, {}) | self._zones.pop(service, {})
        if service not in self:
            return {}
        zones = self._zones[service] = {}
        for endpoint in self._cache.endpoints(service):
            for address in filter(None, map(packed, endpoint.addresses or ())):
                # Of two slices with the same endpoint, one may not know its zone.
                zones[address] = zones.get(address) or endpoint.zone or ""
        return zones
