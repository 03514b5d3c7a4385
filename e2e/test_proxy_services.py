"""Services of every type, policy and family in a real kernel: which endpoints answer, and which client they see.

`e2e.test_proxy_sctp` tests SCTP, for which a kernel may have no sockets.
"""

import fcntl
import socket
import struct
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

import pytest
from e2e.chances import check_spread
from e2e.node_rules import NodeRules
from e2e.nodes import Bed, Namespace
from e2e.proxy_cases import CASES, REFUSED, At, Probe, ProxyCase
from tests.builders import structs

from zoneward.kube import names
from zoneward.kube.objects import (
    Endpoint,
    EndpointPort,
    EndpointSlice,
    LoadBalancerIngress,
    LoadBalancerStatus,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from zoneward.netlink.messages import ADDRESS_TYPES, FAMILIES, Family
from zoneward.proxy.model.node_service import NodeService, ProxyNode, node_services
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD

PORTS: Final = {"tcp": (80, 8080), "udp": (53, 8081)}
RANGES: Final[dict[Family, tuple[str, str]]] = {
    "ip": ("10.1.0.0/16", "10.2.0.0/16"),
    "ip6": ("fd00:1::/64", "fd00:2::/64"),
}
"""Ranges of the Pods of both nodes."""
SERVICES: Final[dict[Family, tuple[str, str, str]]] = {
    "ip": ("10.96.0", "198.51.100", "203.0.113"),
    "ip6": ("fd96:", "2001:db8:e:", "2001:db8:b:"),
}
"""Prefixes of cluster, external and load balancer addresses."""
NODE: Final = ProxyNode(name="here", zone="a")
_ETHTOOL, _SET_TX_CHECKSUM = 0x8946, 0x17


def numbered(beginning: str, index: int) -> str:
    return f"{beginning}:{index:x}" if ":" in beginning else f"{beginning}.{index}"


def address_of(endpoint: str, family: Family) -> str:
    side, index = endpoint.split("-")
    first = RANGES[family][side == "there"].split("/")[0]
    return first.replace(".0.0", f".0.{index}") if family == "ip" else f"{first}{int(index):x}"


def service_of(case: ProxyCase, index: int, *, outside: Namespace) -> Service:
    inner, outer, balancer = ([numbered(SERVICES[family][kind], index) for family in FAMILIES] for kind in range(3))
    ports = tuple(
        ServicePort(
            name=protocol,
            protocol=protocol.upper(),
            port=port,
            node_port=30_000 + index * 2 + port_index if case.node_ports else None,
        )
        for port_index, (protocol, (port, _)) in enumerate(PORTS.items())
    )
    spec: dict[str, Any] = {"type": "ClusterIP"} | dict(case.spec)
    if "load_balancer_source_ranges" in spec:
        spec["load_balancer_source_ranges"] = tuple(
            range_.replace("OUTSIDE", f"{address}/{128 if ':' in address else 32}")
            for range_ in spec["load_balancer_source_ranges"]
            for address in outside.addresses
        )
    external = tuple(outer) if case.external else None
    ingress = tuple(LoadBalancerIngress(ip=address, ip_mode=case.balancer) for address in balancer)
    return Service(
        metadata=ObjectMeta(namespace="ns", name=f"case-{index}"),
        spec=ServiceSpec(cluster_ip=inner[0], cluster_ips=tuple(inner), ports=ports, external_ips=external, **spec),
        status=ServiceStatus(load_balancer=LoadBalancerStatus(ingress=ingress if case.balancer else None)),
    )


def slices_of(endpoints: Sequence[At], family: Family) -> list[EndpointSlice]:
    """One slice for each zone label and annotation of the endpoints."""
    by_label: dict[tuple[str | None, str | None], list[Endpoint]] = {}
    for at in endpoints:
        endpoint = structs.an_endpoint(
            address_of(at.name, family),
            zone=None,
            node="here" if at.here else "there",
            ready=at.ready,
            serving=at.serving,
            terminating=at.terminating,
            hinted=structs.hints(*at.hints, nodes=at.nodes),
        )
        by_label.setdefault((at.zone, at.zones), []).append(endpoint)
    ports = tuple(
        EndpointPort(name=protocol, protocol=protocol.upper(), port=target) for protocol, (_, target) in PORTS.items()
    )
    return [
        structs.a_slice(
            f"slice-{zone}-{zones}",
            *slice_endpoints,
            family=ADDRESS_TYPES[family],
            ports=ports,
            labels={names.ZONE_LABEL: zone} if zone else {},
            annotations={names.ZONES_ANNOTATION: zones} if zones else {},
        )
        for (zone, zones), slice_endpoints in by_label.items()
    ]


def served_of(service: Service, endpoints: Sequence[At]) -> list[NodeService]:
    slices = list(chain.from_iterable(slices_of(endpoints, family) for family in FAMILIES))
    return list(node_services(service, slices, node=NODE, consumer=ZONEWARD, gates=FeatureGates()))


class World:
    """A node with the rules, its Pod, another node, and two clients outside of the cluster."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.node = bed.node("here", pods=(RANGES["ip"][0], RANGES["ip6"][0]))
        bed.node("there", pods=(RANGES["ip"][1], RANGES["ip6"][1]))
        self.outside, self.stranger = bed.outside(), bed.outside()
        for client in (self.outside, self.stranger):
            client.route("10.96.0.0/16", "198.51.100.0/24", "203.0.113.0/24", via=self.node)
            client.route("fd96::/64", "2001:db8:e::/64", "2001:db8:b::/64", via=self.node)
        self.clients: dict[str, Namespace] = {
            "pod": self.node.pod("10.1.200.1", "fd00:1::c8:1"),
            "node": self.node,
            "outside": self.outside,
            "stranger": self.stranger,
            "itself": self.node.pods,
        }

    def options(self) -> RulesetOptions:
        return RulesetOptions(
            pod_cidrs={family: RANGES[family][0] for family in FAMILIES},
            service_cidrs={"ip": ["10.96.0.0/16"], "ip6": ["fd96::/64"]},
            node_ips=dict(zip(FAMILIES, self.node.addresses, strict=True)),
        )


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Bed() as bed:
        world = World(bed)
        with NodeRules(world.node, options=world.options()) as rules:
            for index, case in enumerate(CASES, start=1):
                rules.serve(served_of(service_of(case, index, outside=world.outside), case.endpoints))
        yield world


def check(world: World, index: int, probe: Probe, family: Family, protocol: str) -> None:
    client, is_6 = world.clients[probe.who], family == "ip6"
    node_port = 30_000 + index * 2 + list(PORTS).index(protocol)
    inner, outer, balancer = (numbered(service, index) for service in SERVICES[family])
    address, port = {
        "cluster": (inner, PORTS[protocol][0]),
        "other-port": (inner, 7),
        "external": (outer, PORTS[protocol][0]),
        "balancer": (balancer, PORTS[protocol][0]),
        "node-port": (world.node.addresses[is_6], node_port),
        "loopback-node-port": ("::1" if is_6 else "127.0.0.1", node_port),
    }[probe.to]
    reaches = {} if isinstance(probe.reaches, str) else probe.reaches
    source = address_of(next(iter(reaches)), family) if probe.who == "itself" else None
    check_spread(
        client,
        address,
        port,
        protocol=protocol,
        source=source,
        refused=probe.reaches == REFUSED,
        # Datagrams from a port that was used before reach the same endpoint again.
        draws=CASES[index - 1].connections if protocol == "tcp" else 0,
        shares={address_of(name, family): share for name, share in reaches.items()},
    )
    if probe.seen is not None:
        own = source or client.addresses[is_6]
        answer = client.ask(address, port, protocol=protocol, source=source)
        assert answer.client == (own if probe.seen == "own" else world.node.addresses[is_6]), (probe, family, protocol)
        assert answer.port == PORTS[protocol][1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("index", range(1, len(CASES) + 1), ids=[case.about.replace(" ", "-") for case in CASES])
def test_address_reaches_the_expected_endpoints(world: World, index: int, family: Family) -> None:
    for probe in CASES[index - 1].probes:
        for protocol in PORTS:
            check(world, index, probe, family, protocol)


@contextmanager
def full_checksums(client: Namespace) -> Iterator[None]:
    """Let the client compute checksums, as on real hardware; otherwise nothing verifies them."""
    client.call(_offload, False)
    try:
        yield
    finally:
        client.call(_offload, True)


def _offload(is_on: bool) -> None:
    """Switch checksum offload on all interfaces (linux/ethtool.h)."""
    value = array("I", [_SET_TX_CHECKSUM, is_on])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            if name != "lo":
                request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
                fcntl.ioctl(asking, _ETHTOOL, request)


def outer_probes() -> Iterator[tuple[int, Probe]]:
    """Answered probes from outside to addresses that the rules rewrite to the cluster address."""
    for index, case in enumerate(CASES, start=1):
        for probe in case.probes:
            is_answered = not isinstance(probe.reaches, str)
            if probe.who == "outside" and probe.to in ("external", "balancer", "node-port") and is_answered:
                yield index, probe


@pytest.mark.parametrize("family", FAMILIES)
def test_checksums_are_right_after_rewriting_to_the_cluster_address(world: World, family: Family) -> None:
    with full_checksums(world.outside):
        for index, probe in outer_probes():
            for protocol in PORTS:
                check(world, index, probe, family, protocol)
