"""What a node's own options do to its rules: whom it takes for its Pods, and where it serves node ports."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from e2e.node_rules import NodeRules
from e2e.nodes import Bed, Namespace, Node
from tests.proxy.drawn_services import node_service, one_port

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.proxy.ruleset.base_rules import RulesetOptions

CLUSTER: Final[dict[Family, str]] = {"ip": "10.96.0.1", "ip6": "fd96::1"}
BALANCER: Final[dict[Family, str]] = {"ip": "203.0.113.1", "ip6": "2001:db8:b::1"}
HERE: Final[dict[Family, str]] = {"ip": "10.1.0.1", "ip6": "fd00:1::1"}
MORE: Final[dict[Family, str]] = {"ip": "192.0.2.201", "ip6": "2001:db8::c9"}
"""Another address of the node."""
NODE_PORT: Final = 30_000


class World:
    """One node with one Service that one of its own Pods serves, so that a kept address finds the way back."""

    def __init__(self, bed: Bed, options: RulesetOptions, **about: Any) -> None:
        self.node: Node = bed.node("here", pods=("10.1.0.0/16", "fd00:1::/64"))
        self.node.ip("addr add 192.0.2.201/32 dev eth0", "addr add 2001:db8::c9/128 dev eth0 nodad preferred_lft 0")
        self.pod = self.node.pod("10.1.200.1", "fd00:1::c8:1")
        self.outside = bed.outside()
        self.outside.route("10.96.0.0/16", "203.0.113.0/24", "fd96::/64", "2001:db8:b::/64", via=self.node)
        with NodeRules(self.node, options=options) as rules:
            rules.serve(self._served(family, **about) for family in FAMILIES)

    def _served(self, family: Family, **about: Any) -> NodeService:
        targets = (Backend(HERE[family], 8080, is_local=True),)
        port = one_port(*targets, node_port=NODE_PORT, local_endpoints=targets)
        fields = {name: value[family] for name, value in about.items()}
        return node_service(port, family=family, cluster_ip=CLUSTER[family], **fields)

    def seen(self, client: Namespace, address: str, family: Family, port: int = 80) -> str:
        """Whom the endpoint takes a client for: own, node, or the address where it is neither."""
        is_6 = family == "ip6"
        found = client.ask(address, port).client
        return {client.addresses[is_6]: "own", self.node.addresses[is_6]: "node"}.get(found, found)


@contextmanager
def a_world(options: RulesetOptions, **about: Any) -> Iterator[World]:
    with Bed() as bed:
        yield World(bed, options, **about)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, {"pod": "own", "outside": "own"}, id="nobody-is-known"),
        pytest.param({"pod_interfaces": "pods*"}, {"pod": "own", "outside": "node"}, id="by-interface"),
        pytest.param(
            {"pod_cidrs": {"ip": "10.1.0.0/16", "ip6": "fd00:1::/64"}}, {"pod": "own", "outside": "node"}, id="by-range"
        ),
        pytest.param({"masquerade_all": True}, {"pod": "node", "outside": "node"}, id="all"),
        pytest.param(
            {"pod_interfaces": "pods*", "masquerade_mark": 1 << 20},
            {"pod": "own", "outside": "node"},
            id="another-mark",
        ),
    ],
)
def test_whose_address_an_endpoint_sees(options: dict[str, Any], expected: dict[str, str]) -> None:
    with a_world(RulesetOptions(**options)) as world:
        for family in FAMILIES:
            found = {who: world.seen(getattr(world, who), CLUSTER[family], family) for who in expected}
            assert found == expected, family


def test_node_ports_are_served_on_all_addresses_of_the_node_but_loopback() -> None:
    with a_world(RulesetOptions()) as world:
        for family in FAMILIES:
            for address in (world.node.addresses[family == "ip6"], MORE[family]):
                for client in (world.outside, world.pod, world.node):
                    assert client.ask(address, NODE_PORT).address == HERE[family]
            with pytest.raises(ConnectionRefusedError):
                world.node.ask("127.0.0.1" if family == "ip" else "::1", NODE_PORT)


def test_node_ports_are_served_on_addresses_in_ranges_alone() -> None:
    ranges: dict[Family, tuple[str, ...]] = {
        "ip": ("192.0.2.200/29", "192.0.2.200/30", "127.0.0.0/8"),
        "ip6": ("2001:db8::c8/125",),
    }
    with a_world(RulesetOptions(node_port_cidrs=ranges)) as world:
        for family in FAMILIES:
            assert world.outside.ask(MORE[family], NODE_PORT).address == HERE[family]
            assert world.node.ask(MORE[family], NODE_PORT).address == HERE[family]
            for client in (world.outside, world.node):
                with pytest.raises(ConnectionRefusedError):
                    client.ask(world.node.addresses[family == "ip6"], NODE_PORT)
        with pytest.raises(ConnectionRefusedError):
            world.node.ask("127.0.0.1", NODE_PORT)


def test_a_family_without_ranges_is_served_on_all_addresses() -> None:
    with a_world(RulesetOptions(node_port_cidrs={"ip": ("192.0.2.200/29",)})) as world:
        assert world.outside.ask(world.node.addresses[1], NODE_PORT).address == HERE["ip6"]


@pytest.mark.parametrize("inside", [True, False])
def test_a_node_reaches_a_balancers_address_that_it_has_where_the_ranges_have_the_node(inside: bool) -> None:
    """It calls from that very address then."""
    ranges = (
        {"ip": ("192.0.2.0/24",), "ip6": ("2001:db8::/64",)}
        if inside
        else {"ip": ("198.51.100.0/24",), "ip6": ("fd55::/64",)}
    )
    own: dict[Family, str] = {"ip": "192.0.2.1", "ip6": "2001:db8::1"}
    balancers = {family: (BALANCER[family],) for family in FAMILIES}
    with a_world(RulesetOptions(node_ips=own), load_balancer_ips=balancers, source_ranges=ranges) as world:
        world.node.ip("addr add 203.0.113.1/32 dev lo", "addr add 2001:db8:b::1/128 dev lo nodad")
        for family in FAMILIES:
            if inside:
                assert world.node.ask(BALANCER[family], 80).address == HERE[family]
            else:
                with pytest.raises(TimeoutError):
                    world.node.ask(BALANCER[family], 80, limit=0.3)
