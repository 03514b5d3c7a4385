"""Rules that all Services share follow the node's options, and the layout chain of a table identifies them."""

from itertools import pairwise
from typing import Any

import pytest

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.ruleset.base_rules import RulesetOptions, base_chains, base_sets, shared_chain
from zoneward.proxy.ruleset.ruleset import LAYOUT_CHAIN

OTHERWISE: list[dict[str, Any]] = [
    {},
    {"pod_cidrs": {"ip": "10.0.0.0/8", "ip6": "fd00::/64"}},
    {"pod_interfaces": "veth*"},
    {"masquerade_all": True},
    {"masquerade_mark": 1 << 15},
    {"service_cidrs": {"ip": ["10.96.0.0/16"], "ip6": ["fd96::/64"]}},
    {"node_port_cidrs": {"ip": ["192.0.2.0/24"], "ip6": ["2001:db8::/64"]}},
]


@pytest.mark.parametrize("family", FAMILIES)
def test_tables_with_different_options_have_different_layout_chains(family: Family) -> None:
    names = [
        name
        for fields in OTHERWISE
        for name in base_chains(family, RulesetOptions(**fields))
        if name.startswith(f"{LAYOUT_CHAIN}-")
    ]
    assert len(set(names)) == len(names) == len(OTHERWISE)


@pytest.mark.parametrize("family", FAMILIES)
def test_rules_name_only_sets_and_chains_that_exist(family: Family) -> None:
    for fields in OTHERWISE:
        options = RulesetOptions(**fields)
        sets, chains = base_sets(family), base_chains(family, options)
        shared = {f"{kind}-3": shared_chain(f"{kind}-3", family) for kind in ("c", "l")}
        for chain in (*chains.values(), *shared.values()):
            for words in map(str.split, chain.rules):
                assert {word[1:] for word in words if word.startswith("@")} <= sets.keys()
                led = {after for word, after in pairwise(words) if word in ("goto", "jump")}
                assert led <= chains.keys() | shared.keys()
