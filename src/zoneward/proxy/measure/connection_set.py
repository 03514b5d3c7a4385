"""The set in which the kernel counts connections by itself: by endpoint, and by the address that the client asked for.

The first packet of a connection, and no other, passes the nat chains that follow the choice of an endpoint; there an
element is made for it, or the counter of one that is there grows. So the counters stand beside the map of endpoints:
loading that takes no longer, and an endpoint that goes takes no counter along. Where the set is full, the packet goes
on uncounted.
"""

import struct
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from zoneward.netlink.messages import GENERIC, Family, attributes, messages
from zoneward.netlink.nftables import ELEMENTS, KEY, NEW_ELEMENTS, PROTOCOLS, SUBSYSTEM, VALUE
from zoneward.proxy.ruleset.ruleset import ADDRESS, Chain, SetDeclaration

CONNECTIONS_SET: Final = "connections"
"""The set."""
COUNTING_CHAIN: Final = "count-connections"
"""The chain."""
MAX_ELEMENTS: Final = 1 << 16
"""Elements: pairs of a Service's port and an endpoint that clients behind this node used within `ELEMENT_TIMEOUT`."""
ELEMENT_TIMEOUT: Final = 3600
"""Seconds for which an element stays after its last connection."""


def connections_set(family: Family) -> SetDeclaration:
    address = ADDRESS[family]
    key = f"{address} . {address} . inet_service . inet_proto"
    return SetDeclaration(
        "set", f"type {key}; flags dynamic,timeout; timeout {ELEMENT_TIMEOUT}s; size {MAX_ELEMENTS}; counter"
    )


def counting_chain(family: Family) -> Chain:
    """The chain that counts; what was sent to an endpoint jumps there.

    It has a rule for each protocol: nft (1.0.6) takes the original port for a port only where it knows the protocol.
    """
    key = f"{family} daddr . ct original {family} daddr . ct original proto-dst . meta l4proto"
    return Chain(
        tuple(f"meta l4proto {each} update @{CONNECTIONS_SET} {{ {key} }} return" for each in ("tcp", "udp", "sctp"))
    )


EXPRESSION, EXPRESSIONS = 7, 11
EXPRESSION_DATA: Final = 2
PACKETS: Final = 2
_ADDRESS: Final[dict[Family, int]] = {"ip": 4, "ip6": 16}


@dataclass(frozen=True, slots=True)
class CountedConnection:
    """The address, port and protocol that clients asked for, and the endpoint that they were sent to.

    ``protocol`` is a number where it has no known name.
    """

    endpoint: str
    address: str
    port: int
    protocol: str


def parse_counts(answer: bytes) -> dict[bytes, int]:
    """The number of connections by element, with keys as the kernel writes them (`parse_connection`).

    An element that came or went while the kernel dumped the set may be missing.
    """
    found: dict[bytes, int] = {}
    form: _Form | None = None
    for kind, body in messages(answer):
        if kind != SUBSYSTEM << 8 | NEW_ELEMENTS:
            continue
        lists = (some for number, some in attributes(body, GENERIC.size) if number == ELEMENTS)
        for some in lists:
            for _, element in attributes(some):
                if form is None or not form.fits(element):
                    form = _Form.of(element)
                if form is not None:
                    key, number = form.read(element)
                    found[key] = number
    return found


@dataclass(frozen=True, slots=True)
class _Form:
    """Where an element has its key and its count. All of a set look alike: one is taken apart for thousands."""

    length: int
    key: slice
    before_key: bytes
    packets: slice
    before_packets: bytes

    @classmethod
    def of(cls, element: bytes) -> "_Form | None":
        """None for an element without a counter."""
        parts = dict(attributes(element))
        expression = parts.get(EXPRESSION)
        if expression is None:
            # Where there may be several, there is a list.
            expression = next((each for _, each in attributes(parts.get(EXPRESSIONS, b""))), None)
        if expression is None:
            return None
        counter = dict(attributes(expression))[EXPRESSION_DATA]
        key = _place(element.index(parts[KEY]), parts[KEY], VALUE)
        packets = _place(element.index(counter), counter, PACKETS)
        heads = element[key.start - 8 : key.start], element[packets.start - 4 : packets.start]
        return cls(len(element), key, heads[0], packets, heads[1])

    def fits(self, element: bytes) -> bool:
        key, packets = self.key.start, self.packets.start
        return (
            len(element) == self.length
            and element[key - 8 : key] == self.before_key
            and element[packets - 4 : packets] == self.before_packets
        )

    def read(self, element: bytes) -> tuple[bytes, int]:
        return element[self.key], int.from_bytes(element[self.packets], "big")


def _place(start: int, inside: bytes, wanted: int) -> slice:
    """Where an attribute of what begins at ``start`` has its data."""
    place = start
    for kind, data in attributes(inside):
        place += 4
        if kind == wanted:
            return slice(place, place + len(data))
        place += (len(data) + 3) & ~3
    raise ValueError(f"no attribute {wanted}: {inside.hex()}")


def parse_connection(family: Family, key: bytes) -> CountedConnection:
    """What a key of `parse_counts` says."""
    size = _ADDRESS[family]
    endpoint, address, port, protocol = struct.unpack(f"!{size}s{size}sHxxBxxx", key)
    return CountedConnection(
        endpoint=str(ip_address(endpoint)),
        address=str(ip_address(address)),
        port=port,
        protocol=PROTOCOLS.get(protocol, str(protocol)),
    )
