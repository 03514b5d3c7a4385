"""A Node's addresses are parsed before they become a part of rules."""

from tests.builders.structs import a_node

from zoneward.proxy.proxy_configuration import (
    ProxyConfiguration,
    all_node_addresses,
    node_port_addresses,
    ruleset_options,
)


def test_an_invalid_node_address_is_reported_and_the_next_one_is_used() -> None:
    injected = "192.168.77.1 }\nadd table inet X"
    node = a_node(
        addresses=[("InternalIP", injected), ("InternalIP", "garbage"), ("ExternalIP", "192.0.2.1"), ("Hostname", "n1")]
    )
    left_out: list[str] = []
    assert all_node_addresses(node, left_out=left_out.append) == {"ip": ("192.0.2.1",)}
    assert left_out == [injected, "garbage"]
    options = ruleset_options(ProxyConfiguration(), node)
    assert (options.node_ips, options.node_port_cidrs) == ({"ip": "192.0.2.1"}, {"ip": ("192.0.2.1",)})


def test_addresses_of_node_ports_are_those_of_the_node_within_the_ranges() -> None:
    node = a_node(addresses=[("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1"), ("InternalIP", "fd00::1")])
    primary = node_port_addresses(ruleset_options(ProxyConfiguration(), node), node)
    assert primary == {"ip": frozenset({"10.0.0.1"}), "ip6": frozenset({"fd00::1"})}
    configuration = ProxyConfiguration(node_port_addresses=("0.0.0.0/0",))
    assert node_port_addresses(ruleset_options(configuration, node), node) == {
        "ip": frozenset({"10.0.0.1", "192.0.2.1"}),
        "ip6": frozenset({"fd00::1"}),
    }
