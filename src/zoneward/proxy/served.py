"""What one node serves of a Service: the addresses that it takes traffic for, and the endpoints that it sends to.

What is selected is what `zoneward.routing.selection` selects; here are the addresses and the policies beside it, in the
families of addresses. KEP-2004 § Kube-Proxy; upstream's ``BaseServicePortInfo``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final, Literal

import msgspec

from zoneward.kube.names import HEADLESS
from zoneward.kube.objects import Endpoint, EndpointSlice, Service, is_ready, is_serving
from zoneward.routing.configuration import Gates
from zoneward.routing.selection import (
    LOCAL,
    Consumer,
    SelectionRule,
    endpoints_of_port,
    hints_heeded,
    is_proxied,
    load_balancer_addresses,
    policies_of,
    select,
    slice_groups,
    slices_by_port,
)

Key = tuple[str, str]
"""A Service: its namespace and name."""
Family = Literal["ip", "ip6"]
FAMILIES: Final[tuple[Family, ...]] = ("ip", "ip6")
ADDRESS_TYPES: Final[dict[Family, str]] = {"ip": "IPv4", "ip6": "IPv6"}
DEFAULT_AFFINITY: Final = 10_800
"""Seconds for which a client keeps its endpoint where a Service does not say."""
_USUAL: Final = re.compile(r"(?:0|[1-9]\d{0,2})(?:\.(?:0|[1-9]\d{0,2})){3}", re.ASCII)
"""An address of IPv4 as everybody writes it."""


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
    everybody). ``healthy`` is the number of addresses with ready endpoints on this node, over all ports, for
    ``health_check_port``.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node whose proxy this is. ``zone`` None: it has none, and uses all endpoints."""

    name: str
    zone: str | None


def served(
    service: Service, slices: Sequence[EndpointSlice], *, node: Node, consumer: Consumer, gates: Gates
) -> Iterator[Served]:
    """A Service in each of its families; nothing for one that proxies leave alone. ``slices`` are all that name it."""
    if not is_proxied(service) or not service.spec.cluster_ip:
        return
    spec = service.spec
    policies, heeded, affinity = policies_of(service, gates), hints_heeded(service, consumer, gates), _affinity(service)
    is_external = spec.type in ("NodePort", "LoadBalancer") or bool(spec.external_ips)
    external_local = is_external and spec.external_traffic_policy == LOCAL
    for family in FAMILIES:
        cluster_ip = _one(family, spec.cluster_ips or (spec.cluster_ip or "",))
        if cluster_ip is None:
            continue
        own = [each for each in slices if each.address_type == ADDRESS_TYPES[family]]
        ports: list[ServedPort] = []
        healthy: set[str] = set()
        groups, by_port = slice_groups(own, consumer, gates), slices_by_port(own)
        for port in spec.ports or ():
            some = by_port.get((port.name, port.protocol), ())
            found = endpoints_of_port(some, port.name, protocol=port.protocol, node=node.name)
            targets = {id(endpoint): _target(address, endpoint, node.name) for address, endpoint in found.items()}
            chosen = select(
                tuple(found.values()), policies=policies, heeded=heeded, node=node.name, zone=node.zone, groups=groups
            )
            healthy |= {
                targets[id(each)].address for each in found.values() if targets[id(each)].here and is_ready(each)
            }
            ports.append(
                ServedPort(
                    name=port.name,
                    protocol=port.protocol.lower(),
                    port=port.port,
                    node_port=port.node_port or None,
                    cluster=tuple(targets[id(each)] for each in chosen.cluster or ()),
                    local=tuple(targets[id(each)] for each in chosen.local or ()),
                    weights=chosen.weights,
                    has_any=chosen.has_any,
                    rule=chosen.rule,
                    affinity=affinity,
                    serving=_serving(port.protocol, found.values(), targets),
                )
            )
        yield Served(
            namespace=service.metadata.namespace,
            name=service.metadata.name,
            family=family,
            cluster_ip=cluster_ip,
            external=_of(family, spec.external_ips or ()),
            balancers=_of(family, load_balancer_addresses(service)),
            sources=_sources(family, spec.load_balancer_source_ranges or ()),
            internal_local=policies.internal_local,
            external_local=external_local,
            health_check_port=_health_check_port(service) if external_local else None,
            healthy=len(healthy),
            ports=tuple(ports),
        )


def _health_check_port(service: Service) -> int | None:
    spec = service.spec
    return (spec.health_check_node_port or None) if spec.type == "LoadBalancer" else None


def family_of(address: str) -> Family:
    return "ip6" if ":" in address else "ip"


def plain(address: str) -> str:
    """An address as the kernel writes it, so that both compare; what is none stays as it is."""
    return address if _USUAL.fullmatch(address) else _rewritten(address)


@lru_cache(maxsize=1 << 16)
def _rewritten(address: str) -> str:
    if ":" not in address:
        # Zeros before a number were allowed once, and mean nothing; others take them for octal numbers.
        address = ".".join(each.lstrip("0") or "0" for each in address.split("."))
    with suppress(ValueError):
        return str(ip_address(address))
    return address


def _one(family: Family, addresses: Iterable[str]) -> str | None:
    return next((plain(each) for each in addresses if each and each != HEADLESS and family_of(each) == family), None)


def _of(family: Family, addresses: Iterable[str]) -> tuple[str, ...]:
    """Those of a family, each once."""
    return tuple(dict.fromkeys(plain(each) for each in addresses if family_of(each) == family))


def _sources(family: Family, ranges: Iterable[str]) -> tuple[str, ...]:
    """Blanks around a range were allowed by mistake, and have to be; a range of everything says nothing."""
    found = [_range(each.strip()) for each in ranges if family_of(each) == family]
    return () if any(each.endswith("/0") for each in found) else tuple(dict.fromkeys(found))


def _range(text: str) -> str:
    """What is none is for the kernel to refuse: left out it would let everybody in."""
    address, _, length = text.partition("/")
    with suppress(ValueError):
        return str(ip_network(f"{plain(address)}/{length}", strict=False))
    return text


def _target(text: str, endpoint: Endpoint, node: str) -> Target:
    address, _, port = text.rpartition(":")
    return Target(plain(address.strip("[]")), int(port), endpoint.node_name == node)


def _serving(protocol: str, found: Iterable[Endpoint], targets: Mapping[int, Target]) -> tuple[Target, ...]:
    if protocol != "UDP":
        return ()
    return tuple(targets[id(each)] for each in found if is_ready(each) or is_serving(each))


def _affinity(service: Service) -> int | None:
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    seconds = config.client_ip.timeout_seconds if config and config.client_ip else None
    return seconds or DEFAULT_AFFINITY
