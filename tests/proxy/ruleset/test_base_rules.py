"""Rules that all Services share follow the node's options, and a table tells by which it was made."""

from itertools import pairwise
from typing import Any

import pytest

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.ruleset.base_rules import LAYOUT_CHAIN, RulesetOptions, base_chains, base_sets, shared_chain

OTHERWISE: list[dict[str, Any]] = [
    {},
    {"pod_cidrs": {"ip": "10.0.0.0/8", "ip6": "fd00::/64"}},
    {"pod_interfaces": "veth*"},
    {"masquerade_all": True},
    {"masquerade_mark": 1 << 15},
    {"service_cidrs": {"ip": ["10.96.0.0/16"], "ip6": ["fd96::/64"]}},
    {"node_port_cidrs": {"ip": ["192.0.2.0/24"], "ip6": ["2001:db8::/64"]}},
    {"count_connections": False},
]


def node_rules(family: Family, options: RulesetOptions) -> list[str]:
    """Those that have to do with node ports."""
    chains = base_chains(family, options)
    return [
        rule
        for name in ("services-nat", "input")
        for rule in chains[name].rules
        if rule.endswith(("@node-ports", "@node-refused"))
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_tables_with_different_options_have_different_layout_chains(family: Family) -> None:
    names = [
        name
        for each in OTHERWISE
        for name in base_chains(family, RulesetOptions(**each))
        if name.startswith(f"{LAYOUT_CHAIN}-")
    ]
    assert len(set(names)) == len(names) == len(OTHERWISE)


@pytest.mark.parametrize("family", FAMILIES)
def test_rules_name_only_sets_and_chains_that_exist(family: Family) -> None:
    for each in OTHERWISE:
        options = RulesetOptions(**each)
        sets, chains = base_sets(family, options), base_chains(family, options)
        shared = {f"{kind}-3": shared_chain(f"{kind}-3", family) for kind in ("c", "l")}
        for chain in (*chains.values(), *shared.values()):
            for words in map(str.split, chain.rules):
                assert {word[1:] for word in words if word.startswith("@")} <= sets.keys()
                led = {after for word, after in pairwise(words) if word in ("goto", "jump")}
                assert led <= chains.keys() | shared.keys()


@pytest.mark.parametrize("ranges", [None, {"ip": []}, {"ip": ["10.0.0.0/8", "0.0.0.0/0"]}, {"ip6": ["fd00::/8"]}])
def test_node_ports_are_served_on_all_addresses_but_loopback(ranges: Any) -> None:
    for rule in node_rules("ip", RulesetOptions(node_port_cidrs=ranges)):
        assert "fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto" in rule


def test_node_ports_are_served_on_addresses_in_ranges() -> None:
    rules = node_rules("ip", RulesetOptions(node_port_cidrs={"ip": ["10.0.0.0/8", "192.0.2.0/24"]}))
    assert len(rules) == 2
    assert all(" ip daddr { 10.0.0.0/8, 192.0.2.0/24 } meta l4proto" in rule for rule in rules)


@pytest.mark.parametrize("name", ["c-3", "l-3"])
def test_a_slot_that_is_no_longer_there_is_drawn_again(name: str) -> None:
    """TCP comes first: nft adds it to the first rule that names the map, where that names no other."""
    rules = shared_chain(name, "ip").rules
    assert [rule.split()[2] for rule in rules] == ["tcp", "tcp", "udp", "udp", "sctp", "sctp"]
    assert [rule.split("mod ")[1].split()[0] for rule in rules] == ["3", "1"] * 3
    assert len(shared_chain(name.replace("3", "1"), "ip").rules) == 3
