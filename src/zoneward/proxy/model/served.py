"""What one node serves of a Service: the addresses that it takes traffic for, and the endpoints that it sends to.

`zoneward.routing.selection.endpoint_selection` selects the endpoints; here are the addresses and the policies beside
them, in the families of addresses. KEP-2004 § Kube-Proxy; upstream's ``BaseServicePortInfo``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from zoneward.kube.input_error import show
from zoneward.kube.names import HEADLESS
from zoneward.kube.objects import Endpoint, EndpointSlice, Service, ServicePort, is_ready, is_serving
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.addresses import address_of, is_within, range_of, special
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import (
    LOCAL,
    Consumer,
    SelectionRule,
    endpoints_of_port,
    honored_hints,
    is_proxied,
    load_balancer_addresses,
    policies_of,
    select_endpoints,
    slice_groups,
    slices_by_port,
)

Key = tuple[str, str]
"""A Service: its namespace and name."""
ADDRESS_TYPES: Final[dict[Family, str]] = {"ip": "IPv4", "ip6": "IPv6"}
DEFAULT_AFFINITY: Final = 10_800
"""Seconds for which a client keeps its endpoint where a Service does not say."""
PROTOCOLS: Final = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}
Spot = tuple[str, str, int]
"""What traffic is for: address, protocol and port."""
LeftOut = Callable[[str], None]
"""Is told of a value that is not programmed, and why, in a few words without a line break."""
_EVERYBODY: Final[Mapping[Family, tuple[str, ...]]] = dict.fromkeys(FAMILIES, ())
_LONGEST_AFFINITY: Final = 86_400
_LAST_PORT: Final = 65_535


class Target(msgspec.Struct, frozen=True, gc=False):
    """Where a connection may be sent. ``here``: the endpoint is on this very node."""

    address: str
    port: int
    here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPort:
    """One port of a Service in one family.

    ``cluster`` serves traffic under the policy Cluster, ``local`` under Local; empty where there is nobody, or where no
    policy asks for them. ``weights`` are those of ``cluster``, one by one, where they differ. ``has_any``: endpoints
    exist somewhere. ``affinity``: seconds for which a client keeps its endpoint; None: it does not. ``serving``, of UDP
    alone, are all endpoints that serve, selected or not: clients that have one keep it.
    """

    name: str
    protocol: str
    port: int
    node_port: int | None = None
    cluster: tuple[Target, ...] = ()
    local: tuple[Target, ...] = ()
    weights: tuple[float, ...] | None = None
    has_any: bool = False
    rule: SelectionRule = SelectionRule.ALL
    affinity: int | None = None
    serving: tuple[Target, ...] = ()

    @property
    def reachable(self) -> tuple[Target, ...]:
        return tuple(dict.fromkeys((*self.cluster, *self.local)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A Service in one family, as one node serves it.

    ``external`` are external and ``balancers`` load balancers' addresses, ``sources`` who may use the latter (empty:
    everybody); ``taken`` is what of these addresses other Services have (`zoneward.proxy.model.claims`). ``created`` is
    the ``creationTimestamp``, empty where it is not known. ``healthy`` is the number of addresses with ready endpoints
    on this node, over all ports, for ``health_check_port``.
    """

    namespace: str
    name: str
    family: Family
    cluster_ip: str
    external: tuple[str, ...] = ()
    balancers: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    internal_local: bool = False
    external_local: bool = False
    health_check_port: int | None = None
    healthy: int = 0
    ports: tuple[ServedPort, ...] = field(default=())
    created: str = ""
    taken: frozenset[Spot] = frozenset()

    def outer(self, port: ServedPort) -> tuple[str, ...]:
        """The external and load balancers' addresses at which a port is served."""
        every = tuple(dict.fromkeys((*self.external, *self.balancers)))
        if not self.taken:
            return every
        return tuple(each for each in every if (each, port.protocol, port.port) not in self.taken)

    def addresses(self, port: ServedPort) -> tuple[str, ...]:
        """All addresses at which a port is served."""
        return (self.cluster_ip, *self.outer(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node whose proxy this is. ``zone`` None: it has none, and uses all endpoints."""

    name: str
    zone: str | None


def _nobody(_what: str) -> None:
    pass


def served(
    service: Service,
    slices: Sequence[EndpointSlice],
    *,
    node: Node,
    consumer: Consumer,
    gates: FeatureGates,
    service_ranges: Sequence[str] = (),
    left_out: LeftOut = _nobody,
) -> Iterator[Served]:
    """A Service in each of its families; nothing for one that proxies leave alone. ``slices`` are all that name it.

    External addresses within ``service_ranges`` are left out: they are for cluster IPs, be they of Services that this
    proxy does not serve.

    Each text and number is parsed here, and what is not what it should be is left out: what is served is safe to write
    into commands of nft, but for names (`zoneward.proxy.ruleset.quoting`).
    """
    if not is_proxied(service) or not service.spec.cluster_ip:
        return
    spec = service.spec
    policies, honored = policies_of(service, gates), honored_hints(service, consumer, gates)
    is_external = spec.type in ("NodePort", "LoadBalancer") or bool(spec.external_ips)
    external_local = is_external and spec.external_traffic_policy == LOCAL
    affinity = _affinity(service, left_out)
    cluster_ips = _cluster_ips(spec.cluster_ips or (spec.cluster_ip or "",), left_out)
    if not cluster_ips:
        return
    spec_ports = tuple(each for each in spec.ports or () if _is_usable(each, left_out))
    external = _outer("external IP", spec.external_ips or (), service_ranges, left_out)
    balancers = _outer("load balancer IP", load_balancer_addresses(service), service_ranges, left_out)
    sources = _sources(spec.load_balancer_source_ranges or (), left_out)
    for family, cluster_ip in cluster_ips.items():
        own = [each for each in slices if each.address_type == ADDRESS_TYPES[family]]
        ports: list[ServedPort] = []
        healthy: set[str] = set()
        groups, by_port = slice_groups(own, consumer, gates), slices_by_port(own)
        for port in spec_ports:
            targets: dict[int, Target] = {}
            found: list[Endpoint] = []
            some = by_port.get((port.name, port.protocol), ())
            for address, endpoint in endpoints_of_port(some, port.name, protocol=port.protocol, node=node.name).items():
                target = _target(address, endpoint, family, node.name)
                if target is None:
                    left_out(f"endpoint {show(address)} is no {ADDRESS_TYPES[family]} address with a port")
                else:
                    targets[id(endpoint)] = target
                    found.append(endpoint)
            chosen = select_endpoints(
                found, policies=policies, honored=honored, node=node.name, zone=node.zone, groups=groups
            )
            healthy |= {targets[id(each)].address for each in found if targets[id(each)].here and is_ready(each)}
            ports.append(
                ServedPort(
                    name=port.name,
                    protocol=PROTOCOLS[port.protocol],
                    port=port.port,
                    node_port=_node_port(port, left_out),
                    cluster=tuple(targets[id(each)] for each in chosen.cluster or ()),
                    local=tuple(targets[id(each)] for each in chosen.local or ()),
                    weights=chosen.weights,
                    has_any=chosen.has_any,
                    rule=chosen.rule,
                    affinity=affinity,
                    serving=_serving(port.protocol, found, targets),
                )
            )
        yield Served(
            namespace=service.metadata.namespace,
            name=service.metadata.name,
            family=family,
            cluster_ip=cluster_ip,
            external=_of(family, external),
            # Nobody may come from a range that cannot be read: where no other is left, nobody may come.
            balancers=_of(family, balancers) if sources[family] is not None else (),
            sources=sources[family] or (),
            internal_local=policies.internal_local,
            external_local=external_local,
            health_check_port=_health_check_port(service, left_out) if external_local else None,
            healthy=len(healthy),
            ports=tuple(ports),
            created=service.metadata.creation_timestamp or "",
        )


# --- values -----------------------------------------------------------------------------------------------------------


def family_of(address: str) -> Family:
    return "ip6" if ":" in address else "ip"


def _is_port(number: int) -> bool:
    return 0 < number <= _LAST_PORT


def _is_usable(port: ServicePort, left_out: LeftOut) -> bool:
    if port.protocol not in PROTOCOLS:
        left_out(f"port {show(port.name)}: protocol {show(port.protocol)} is none of {', '.join(PROTOCOLS)}")
    elif not _is_port(port.port):
        left_out(f"port {show(port.name)}: {show(port.port)} is no number of a port")
    else:
        return True
    return False


def _node_port(port: ServicePort, left_out: LeftOut) -> int | None:
    if port.node_port and not _is_port(port.node_port):
        left_out(f"port {show(port.name)}: node port {show(port.node_port)} is no number of a port")
        return None
    return port.node_port or None


def _health_check_port(service: Service, left_out: LeftOut) -> int | None:
    spec = service.spec
    port = (spec.health_check_node_port or None) if spec.type == "LoadBalancer" else None
    if port is not None and not _is_port(port):
        left_out(f"health check node port {show(port)} is no number of a port")
        return None
    return port


def _cluster_ips(addresses: Iterable[str], left_out: LeftOut) -> dict[Family, str]:
    """The first of each family."""
    found: dict[Family, str] = {}
    for each in addresses:
        if each and each != HEADLESS:
            address = address_of(each)
            if address is None:
                left_out(f"cluster IP {show(each)} is no IP address")
            else:
                found.setdefault(family_of(address), address)
    return {family: found[family] for family in FAMILIES if family in found}


def _outer(kind: str, addresses: Iterable[str], service_ranges: Sequence[str], left_out: LeftOut) -> tuple[str, ...]:
    """External addresses of all families, each once."""
    found: dict[str, None] = {}
    for each in filter(None, addresses):
        address = address_of(each)
        if address is None:
            left_out(f"{kind} {show(each)} is no IP address")
        elif (why := special(address)) is not None:
            left_out(f"{kind} {address} is {why}")
        elif any(is_within(address, some) for some in service_ranges):
            left_out(f"{kind} {address} is in the range of cluster IPs")
        else:
            found[address] = None
    return tuple(found)


def _of(family: Family, addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in addresses if family_of(each) == family)


def _sources(ranges: Sequence[str], left_out: LeftOut) -> Mapping[Family, tuple[str, ...] | None]:
    """By family, who may come: empty, everybody; None, nobody.

    Blanks around a range were allowed by mistake, and have to be, and so were empty ones; a range of everything says
    nothing.
    """
    if not ranges:
        return _EVERYBODY
    found: dict[Family, dict[str, None]] = {family: {} for family in FAMILIES}
    is_whole = True
    for each in filter(None, map(str.strip, ranges)):
        some = range_of(each)
        if some is None:
            left_out(f"source range {show(each)} is no range of IP addresses")
            is_whole = False
        else:
            found[family_of(some)][some] = None
    return {
        family: () if any(each.endswith("/0") for each in some) else tuple(some) if some or is_whole else None
        for family, some in found.items()
    }


def _target(text: str, endpoint: Endpoint, family: Family, node: str) -> Target | None:
    address, _, port = text.rpartition(":")
    found = address_of(address[1:-1] if address.startswith("[") else address)
    if found is None or family_of(found) != family or not _is_port(number := int(port)):
        return None
    return Target(found, number, endpoint.node_name == node)


def _serving(protocol: str, found: Iterable[Endpoint], targets: Mapping[int, Target]) -> tuple[Target, ...]:
    if protocol != "UDP":
        return ()
    return tuple(targets[id(each)] for each in found if is_ready(each) or is_serving(each))


def _affinity(service: Service, left_out: LeftOut) -> int | None:
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    seconds = (config.client_ip.timeout_seconds if config and config.client_ip else None) or DEFAULT_AFFINITY
    if not 0 < seconds <= _LONGEST_AFFINITY:
        left_out(f"session affinity of {show(seconds)} s is none from 1 to {_LONGEST_AFFINITY}")
        return DEFAULT_AFFINITY
    return seconds
