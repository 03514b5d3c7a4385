"""A Service as one node serves it: the addresses that it accepts traffic for, and the endpoints that it sends to.

`zoneward.routing.selection.endpoint_selection` selects the endpoints. This module adds the addresses and policies of
each family. KEP-2004 § Kube-Proxy; kube-proxy's ``BaseServicePortInfo``. `OwnedServices` leaves out the addresses that
other Services own; `zoneward.routing.selection.address_ownership` has the rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from zoneward.kube.addresses import is_in_cidr, parse_address, parse_cidr, special_use
from zoneward.kube.input_error import show
from zoneward.kube.names import HEADLESS
from zoneward.kube.objects import Endpoint, EndpointSlice, Service, ServicePort, is_ready, is_serving
from zoneward.netlink.messages import ADDRESS_TYPES, FAMILIES, Family
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.address_ownership import AddressOwnership, AddressRequest, Port
from zoneward.routing.selection.endpoint_selection import (
    LOCAL,
    Consumer,
    EndpointSelection,
    SelectionRule,
    endpoints_of_port,
    honored_hints,
    is_proxied,
    load_balancer_addresses,
    policies_of,
    select_endpoints,
    slice_groups,
    slices_by_port,
    usable_zone_weights,
)

ServiceKey = tuple[str, str]
"""A Service: its namespace and name."""
DEFAULT_AFFINITY: Final = 10_800
"""The default for the seconds for which a client keeps its endpoint."""
PROTOCOLS: Final = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}
OnLeftOut = Callable[[str], None]
"""Gets a value that is not programmed, and why, in a few words without a line break."""
_EVERYBODY: Final[Mapping[Family, tuple[str, ...]]] = dict.fromkeys(FAMILIES, ())
_LONGEST_AFFINITY: Final = 86_400
_LAST_PORT: Final = 65_535


class Backend(msgspec.Struct, frozen=True, gc=False):
    """An endpoint that a connection may be sent to. ``is_local``: it is on this node."""

    address: str
    port: int
    is_local: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServicePort:
    """One port of a Service in one family.

    ``cluster_endpoints`` serve traffic under the policy Cluster, ``local_endpoints`` under Local; empty where there are
    none, or where no policy uses them. ``weights`` has the weight of each of ``cluster_endpoints``, where they differ.
    ``has_any_endpoints``: endpoints exist on some node. ``affinity_seconds``: a client keeps its endpoint for this
    time; None: no affinity. ``serving_endpoints``, only for UDP, are all endpoints that serve, selected or not: clients
    that use one keep it.
    """

    name: str
    protocol: str
    port: int
    node_port: int | None = None
    cluster_endpoints: tuple[Backend, ...] = ()
    local_endpoints: tuple[Backend, ...] = ()
    weights: tuple[float, ...] | None = None
    has_any_endpoints: bool = False
    selection_rule: SelectionRule = SelectionRule.ALL
    affinity_seconds: int | None = None
    serving_endpoints: tuple[Backend, ...] = ()

    @property
    def all_reachable_endpoints(self) -> tuple[Backend, ...]:
        return tuple(dict.fromkeys((*self.cluster_endpoints, *self.local_endpoints)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeService:
    """A Service in one family, as one node serves it.

    ``source_ranges``: the clients that may use ``load_balancer_ips`` (empty: all). ``owned_by_others``: by external
    address, the ports that other Services own (`zoneward.routing.selection.address_ownership`). ``creation_timestamp``
    is empty where it is not known. ``ready_local_endpoints`` is the number of addresses with ready endpoints on this
    node, over all ports, for ``health_check_port``.
    """

    namespace: str
    name: str
    family: Family
    cluster_ip: str
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    source_ranges: tuple[str, ...] = ()
    internal_policy_local: bool = False
    external_policy_local: bool = False
    health_check_port: int | None = None
    ready_local_endpoints: int = 0
    ports: tuple[NodeServicePort, ...] = field(default=())
    creation_timestamp: str = ""
    owned_by_others: Mapping[str, frozenset[Port]] = field(default_factory=dict)

    def external_addresses(self, port: NodeServicePort) -> tuple[str, ...]:
        """The external and load balancer IPs at which a port is served."""
        every = tuple(dict.fromkeys((*self.external_ips, *self.load_balancer_ips)))
        return tuple(address for address in every if self.owns(address, port)) if self.owned_by_others else every

    def owns(self, address: str, port: NodeServicePort) -> bool:
        """Whether no other Service owns this port of one of its external addresses."""
        return (port.protocol, port.port) not in self.owned_by_others.get(address, ())

    def addresses(self, port: NodeServicePort) -> tuple[str, ...]:
        """All addresses at which a port is served."""
        return (self.cluster_ip, *self.external_addresses(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyNode:
    """The node of this proxy. ``zone`` None: the Node has no zone, and uses all endpoints."""

    name: str
    zone: str | None


def node_services(
    service: Service,
    slices: Sequence[EndpointSlice],
    *,
    node: ProxyNode,
    consumer: Consumer,
    gates: FeatureGates,
    service_ranges: Sequence[str] = (),
    left_out: OnLeftOut = lambda _what: None,
) -> Iterator[NodeService]:
    """The Service in each of its families; empty for one that proxies ignore. ``slices`` are all EndpointSlices of the
    Service.

    External IPs within ``service_ranges`` are left out: those are for cluster IPs, also of Services that this proxy
    does not serve.

    This parses every text and number, and passes each invalid one to ``left_out`` instead of returning it: all returned
    values except names are safe in nft commands (`zoneward.proxy.ruleset.ruleset`).
    """
    if not is_proxied(service) or not service.spec.cluster_ip:
        return
    spec = service.spec
    policies, hints = policies_of(service, gates), honored_hints(service, consumer, gates)
    is_external = spec.type in ("NodePort", "LoadBalancer") or bool(spec.external_ips)
    external_local = is_external and spec.external_traffic_policy == LOCAL
    affinity = _affinity(service, left_out)
    cluster_ips = _cluster_ips(spec.cluster_ips or (spec.cluster_ip or "",), left_out)
    if not cluster_ips:
        return
    spec_ports = tuple(port for port in spec.ports or () if _is_usable(port, left_out))
    external = _outer("external IP", spec.external_ips or (), service_ranges, left_out)
    balancers = _outer("load balancer IP", load_balancer_addresses(service), service_ranges, left_out)
    sources = _sources(spec.load_balancer_source_ranges or (), left_out)
    for family, cluster_ip in cluster_ips.items():
        own = [slice_ for slice_ in slices if slice_.address_type == ADDRESS_TYPES[family]]
        ports: list[NodeServicePort] = []
        healthy: set[str] = set()
        groups, by_port = slice_groups(own, consumer, gates), slices_by_port(own)
        weights = usable_zone_weights(
            own, hints, on_invalid=lambda name: left_out(f"weights of zones on EndpointSlice {show(name)} are invalid")
        )

        selections: dict[_PortShape, _Selection] = {}
        served: dict[tuple[_PortShape, tuple[int, ...], bool], NodeServicePort] = {}
        for port in spec_ports:
            port_slices = by_port.get((port.name, port.protocol), ())
            shape, numbers = _port_shape(port_slices)
            is_udp = port.protocol == "UDP"
            selection = selections.get(shape)
            if selection is None:
                targets, usable = _targets(port, port_slices, numbers, family, node.name, left_out)
                chosen = select_endpoints(
                    usable,
                    policies=policies,
                    honored=hints,
                    node=node.name,
                    zone=node.zone,
                    groups=groups,
                    zone_weights=weights,
                )
                selection = selections[shape] = _Selection(usable, targets, chosen)
                healthy |= {
                    address for address, _, is_local in map(selection.target, filter(is_ready, usable)) if is_local
                }
            if (shape, numbers, is_udp) not in served:
                served[shape, numbers, is_udp] = selection.port(numbers, is_udp=is_udp)
            ports.append(
                replace(
                    served[shape, numbers, is_udp],
                    name=port.name,
                    protocol=PROTOCOLS[port.protocol],
                    port=port.port,
                    node_port=_node_port(port, left_out),
                    affinity_seconds=affinity,
                )
            )
        yield NodeService(
            namespace=service.metadata.namespace,
            name=service.metadata.name,
            family=family,
            cluster_ip=cluster_ip,
            external_ips=_of(family, external),
            # An invalid range allows no client: without a valid one, no client may connect.
            load_balancer_ips=_of(family, balancers) if sources[family] is not None else (),
            source_ranges=sources[family] or (),
            internal_policy_local=policies.internal_local,
            external_policy_local=external_local,
            health_check_port=_health_check_port(service, left_out) if external_local else None,
            ready_local_endpoints=len(healthy),
            ports=tuple(ports),
            creation_timestamp=service.metadata.creation_timestamp or "",
        )


# --- values -----------------------------------------------------------------------------------------------------------


def family_of_address(address: str) -> Family:
    return "ip6" if ":" in address else "ip"


def _is_port(port: int) -> bool:
    return 0 < port <= _LAST_PORT


def _is_usable(port: ServicePort, left_out: OnLeftOut) -> bool:
    if port.protocol not in PROTOCOLS:
        left_out(f"port {show(port.name)}: protocol {show(port.protocol)} is none of {', '.join(PROTOCOLS)}")
    elif not _is_port(port.port):
        left_out(f"port {show(port.name)}: {show(port.port)} is no number of a port")
    else:
        return True
    return False


def _node_port(port: ServicePort, left_out: OnLeftOut) -> int | None:
    if port.node_port and not _is_port(port.node_port):
        left_out(f"port {show(port.name)}: node port {show(port.node_port)} is no number of a port")
        return None
    return port.node_port or None


def _health_check_port(service: Service, left_out: OnLeftOut) -> int | None:
    spec = service.spec
    port = (spec.health_check_node_port or None) if spec.type == "LoadBalancer" else None
    if port is not None and not _is_port(port):
        left_out(f"health check node port {show(port)} is no number of a port")
        return None
    return port


def _cluster_ips(addresses: Iterable[str], left_out: OnLeftOut) -> dict[Family, str]:
    """The first address of each family."""
    cluster_ips: dict[Family, str] = {}
    for text in addresses:
        if text and text != HEADLESS:
            address = parse_address(text)
            if address is None:
                left_out(f"cluster IP {show(text)} is no IP address")
            else:
                cluster_ips.setdefault(family_of_address(address), address)
    return {family: cluster_ips[family] for family in FAMILIES if family in cluster_ips}


def _outer(kind: str, addresses: Iterable[str], service_ranges: Sequence[str], left_out: OnLeftOut) -> tuple[str, ...]:
    """The valid external addresses of all families, deduplicated."""
    external_ips: dict[str, None] = {}
    for text in filter(None, addresses):
        address = parse_address(text)
        if address is None:
            left_out(f"{kind} {show(text)} is no IP address")
        elif (why := special_use(address)) is not None:
            left_out(f"{kind} {address} is {why}")
        elif any(is_in_cidr(address, range_) for range_ in service_ranges):
            left_out(f"{kind} {address} is in the range of cluster IPs")
        else:
            external_ips[address] = None
    return tuple(external_ips)


def _of(family: Family, addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(address for address in addresses if family_of_address(address) == family)


def _sources(ranges: Sequence[str], left_out: OnLeftOut) -> Mapping[Family, tuple[str, ...] | None]:
    """By family, the source ranges; empty: all clients are allowed; None: none is.

    The API accepts blanks around a range, and empty ranges, for compatibility. A range of all addresses is the same as
    no range.
    """
    if not ranges:
        return _EVERYBODY
    ranges_by_family: dict[Family, dict[str, None]] = {family: {} for family in FAMILIES}
    is_whole = True
    for text in filter(None, map(str.strip, ranges)):
        range_ = parse_cidr(text)
        if range_ is None:
            left_out(f"source range {show(text)} is no range of IP addresses")
            is_whole = False
        else:
            ranges_by_family[family_of_address(range_)][range_] = None
    return {
        family: () if any(cidr.endswith("/0") for cidr in allowed) else tuple(allowed) if allowed or is_whole else None
        for family, allowed in ranges_by_family.items()
    }


_PortShape = tuple[tuple[int, int | None], ...]
"""For each slice of a port: the identity of its endpoints, and the index of its port number; None: the number is
invalid. Ports of one shape use the same endpoints."""


def _port_shape(slices: Iterable[EndpointSlice]) -> tuple[_PortShape, tuple[int, ...]]:
    """The shape of a port with these slices (`slices_by_port`), and its distinct port numbers."""
    indexes: dict[int, int] = {}
    shape: list[tuple[int, int | None]] = []
    for slice_ in slices:
        (port,) = slice_.ports or ()
        is_valid = port.port is not None and _is_port(port.port)
        shape.append((id(slice_.endpoints), indexes.setdefault(port.port or 0, len(indexes)) if is_valid else None))
    return tuple(shape), tuple(indexes)


@dataclass(frozen=True, slots=True)
class _Selection:
    """The selection for ports of one shape. ``targets``: by the identity of an endpoint, its address, the index of its
    port number, and whether it is on this node."""

    endpoints: Sequence[Endpoint]
    targets: Mapping[int, tuple[str, int, bool]]
    chosen: EndpointSelection

    def target(self, endpoint: Endpoint) -> tuple[str, int, bool]:
        return self.targets[id(endpoint)]

    def port(self, numbers: Sequence[int], *, is_udp: bool) -> NodeServicePort:
        """A port with these port numbers of endpoints, without its own name, protocol and number."""
        backends = {
            key: Backend(address, numbers[index], is_local) for key, (address, index, is_local) in self.targets.items()
        }
        serving = [endpoint for endpoint in self.endpoints if is_udp and (is_ready(endpoint) or is_serving(endpoint))]
        return NodeServicePort(
            name="",
            protocol="",
            port=0,
            cluster_endpoints=tuple(backends[id(endpoint)] for endpoint in self.chosen.cluster or ()),
            local_endpoints=tuple(backends[id(endpoint)] for endpoint in self.chosen.local or ()),
            weights=self.chosen.weights,
            has_any_endpoints=self.chosen.has_any,
            selection_rule=self.chosen.rule,
            serving_endpoints=tuple(backends[id(endpoint)] for endpoint in serving),
        )


def _targets(
    port: ServicePort,
    slices: Iterable[EndpointSlice],
    numbers: Sequence[int],
    family: Family,
    node: str,
    left_out: OnLeftOut,
) -> tuple[dict[int, tuple[str, int, bool]], list[Endpoint]]:
    """The targets of a port as in `_Selection`, and its endpoints, without those with an invalid address."""
    targets: dict[int, tuple[str, int, bool]] = {}
    usable: list[Endpoint] = []
    for text, endpoint in endpoints_of_port(slices, port.name, protocol=port.protocol, node=node).items():
        written, _, port_text = text.rpartition(":")
        address = parse_address(written[1:-1] if written.startswith("[") else written)
        if address is None or family_of_address(address) != family:
            left_out(f"endpoint {show(text)} is no {ADDRESS_TYPES[family]} address with a port")
        else:
            targets[id(endpoint)] = address, numbers.index(int(port_text)), endpoint.node_name == node
            usable.append(endpoint)
    return targets, usable


def _affinity(service: Service, left_out: OnLeftOut) -> int | None:
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    seconds = (config.client_ip.timeout_seconds if config and config.client_ip else None) or DEFAULT_AFFINITY
    if not 0 < seconds <= _LONGEST_AFFINITY:
        left_out(f"session affinity of {show(seconds)} s is none from 1 to {_LONGEST_AFFINITY}")
        return DEFAULT_AFFINITY
    return seconds


def selection_document(node: ProxyNode, served: Iterable[NodeService]) -> dict[str, Any]:
    """The Services of a node as JSON values, in the shape of ``zoneward route -o json``."""
    return {
        "node": node.name,
        "zone": node.zone,
        "ports": [_port(service, port) for service in served for port in service.ports],
    }


def _port(served: NodeService, port: NodeServicePort) -> dict[str, Any]:
    document: dict[str, Any] = {
        "namespace": served.namespace,
        "service": served.name,
        "addressType": ADDRESS_TYPES[served.family],
        "port": port.name,
        "portNumber": port.port,
        "protocol": port.protocol.upper(),
        "cluster": _named(port.cluster_endpoints) if _uses_cluster(served) else None,
        "local": _named(port.local_endpoints) if served.internal_policy_local or served.external_policy_local else None,
        "allReachable": _named(port.all_reachable_endpoints),
        "rule": port.selection_rule.value,
        "hasEndpoints": port.has_any_endpoints,
        "healthyLocal": served.ready_local_endpoints,
    }
    if port.weights is not None:
        document["weights"] = list(port.weights)
    return document


def _uses_cluster(served: NodeService) -> bool:
    is_external = bool(served.external_ips or served.load_balancer_ips) or any(port.node_port for port in served.ports)
    return not served.internal_policy_local or is_external


def _named(targets: Iterable[Backend]) -> list[str]:
    return [
        f"[{target.address}]:{target.port}" if ":" in target.address else f"{target.address}:{target.port}"
        for target in targets
    ]


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
