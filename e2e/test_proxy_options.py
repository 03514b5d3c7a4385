"""Options of a node's proxy: which clients count as its Pods, and where it serves node ports."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from e2e.node_rules import NodeRules
from e2e.nodes import Bed, Namespace
from tests.proxy.drawn_services import node_service, one_port

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.proxy.ruleset.base_rules import RulesetOptions

Addresses = dict[Family, str]
CLUSTER: Final[Addresses] = {"ip": "10.96.0.1", "ip6": "fd96::1"}
BALANCER: Final[Addresses] = {"ip": "203.0.113.1", "ip6": "2001:db8:b::1"}
HERE: Final[Addresses] = {"ip": "10.1.0.1", "ip6": "fd00:1::1"}
MORE: Final[Addresses] = {"ip": "192.0.2.201", "ip6": "2001:db8::c9"}
"""Another address of the node."""
NODE_PORT: Final = 30_000


class World:
    """A node with a Service whose endpoint is on the same node: answers to preserved client addresses return to it."""

    def __init__(self, bed: Bed, options: dict[str, Any]) -> None:
        self.node = bed.node("here", pods=("10.1.0.0/16", "fd00:1::/64"))
        self.node.ip("addr add 192.0.2.201/32 dev eth0", "addr add 2001:db8::c9/128 dev eth0 nodad preferred_lft 0")
        self.own: Addresses = dict(zip(FAMILIES, self.node.addresses, strict=True))
        self.pod = self.node.pod("10.1.200.1", "fd00:1::c8:1")
        self.outside = bed.outside()
        self.outside.route("10.96.0.0/16", "fd96::/64", via=self.node)
        with NodeRules(self.node, options=RulesetOptions(**options)) as rules:
            rules.serve(map(self._served, FAMILIES))

    def _served(self, family: Family) -> NodeService:
        targets = (Backend(HERE[family], 8080, is_local=True),)
        port = one_port(*targets, node_port=NODE_PORT, local_endpoints=targets)
        return node_service(
            port,
            family=family,
            cluster_ip=CLUSTER[family],
            load_balancer_ips=(BALANCER[family],),
            source_ranges=("192.0.2.0/24",) if family == "ip" else ("fd55::/64",),
        )

    def seen(self, client: Namespace, family: Family) -> str:
        """The client's address as the endpoint sees it: "own", "node", or any other address."""
        address = client.ask(CLUSTER[family], 80).client
        return {client.addresses[family == "ip6"]: "own", self.own[family]: "node"}.get(address, address)


@contextmanager
def a_world(**options: Any) -> Iterator[World]:
    with Bed() as bed:
        yield World(bed, options)


@pytest.mark.parametrize(
    ("options", "pod", "outside"),
    [
        ({}, "own", "own"),
        ({"pod_interfaces": "pods*"}, "own", "node"),
        ({"pod_cidrs": {"ip": "10.1.0.0/16", "ip6": "fd00:1::/64"}}, "own", "node"),
        ({"masquerade_all": True}, "node", "node"),
        ({"pod_interfaces": "pods*", "masquerade_mark": 1 << 20}, "own", "node"),
    ],
)
def test_address_that_an_endpoint_sees(options: dict[str, Any], pod: str, outside: str) -> None:
    with a_world(**options) as world:
        for family in FAMILIES:
            assert (world.seen(world.pod, family), world.seen(world.outside, family)) == (pod, outside), family


def test_node_ports_are_served_on_all_addresses_except_loopback() -> None:
    with a_world() as world:
        for family in FAMILIES:
            for address in (world.own[family], MORE[family]):
                for client in (world.outside, world.pod, world.node):
                    assert client.ask(address, NODE_PORT).address == HERE[family]
            with pytest.raises(ConnectionRefusedError):
                world.node.ask("127.0.0.1" if family == "ip" else "::1", NODE_PORT)


def test_node_ports_are_served_only_on_addresses_in_the_ranges() -> None:
    """A family without ranges is served on all addresses."""
    with a_world(node_port_cidrs={"ip": ("192.0.2.200/29", "192.0.2.200/30", "127.0.0.0/8")}) as world:
        assert world.outside.ask(world.own["ip6"], NODE_PORT).address == HERE["ip6"]
        for client in (world.outside, world.node):
            assert client.ask(MORE["ip"], NODE_PORT).address == HERE["ip"]
            with pytest.raises(ConnectionRefusedError):
                client.ask(world.own["ip"], NODE_PORT)
        with pytest.raises(ConnectionRefusedError):
            world.node.ask("127.0.0.1", NODE_PORT)


def test_node_with_a_load_balancers_address_reaches_it_if_the_ranges_include_the_node() -> None:
    """The node then connects from that address. The ranges include only its IPv4 address."""
    with a_world(node_ips={"ip": "192.0.2.1", "ip6": "2001:db8::1"}) as world:
        world.node.ip("addr add 203.0.113.1/32 dev lo", "addr add 2001:db8:b::1/128 dev lo nodad")
        assert world.node.ask(BALANCER["ip"], 80).address == HERE["ip"]
        with pytest.raises(TimeoutError):
            world.node.ask(BALANCER["ip6"], 80, limit=0.3)
