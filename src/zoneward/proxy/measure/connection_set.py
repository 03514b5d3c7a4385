"""Connections as the kernel counts them: a set that it fills by itself, by endpoint and by the address that was asked.

The first packet of a connection, and no other, passes the nat chains that follow the choice of an endpoint; there an
element is made for it, or one that is there counts one more. So the count stands beside the map of endpoints: loading
this takes no longer, and an endpoint that goes takes no count along. Where the set is full, the packet goes on
uncounted.
"""

from typing import Final

from zoneward.netlink.messages import Family
from zoneward.proxy.ruleset.ruleset import ADDRESS, Chain, Declared

CONNECTIONS: Final = "connections"
"""The set."""
COUNTING: Final = "count-connections"
"""The chain."""
MOST: Final = 1 << 16
"""Elements: pairs of a Service's port and an endpoint that clients behind this node used within `KEPT`."""
KEPT: Final = 3600
"""Seconds for which an element stays after its last connection."""


def connections_set(family: Family) -> Declared:
    address = ADDRESS[family]
    key = f"{address} . {address} . inet_service . inet_proto"
    return Declared("set", f"type {key}; flags dynamic,timeout; timeout {KEPT}s; size {MOST}; counter")


def counting_chain(family: Family) -> Chain:
    """To be jumped to by what was sent to an endpoint.

    A rule for each protocol: nft (1.0.6) takes the port that was asked for a port only where it knows the protocol.
    """
    key = f"{family} daddr . ct original {family} daddr . ct original proto-dst . meta l4proto"
    return Chain(
        tuple(f"meta l4proto {each} update @{CONNECTIONS} {{ {key} }} return" for each in ("tcp", "udp", "sctp"))
    )
