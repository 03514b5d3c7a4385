"""Requests to connection tracking and its answers, about flows of UDP: ``linux/netfilter/nfnetlink_conntrack.h``."""

import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from zoneward.netlink.messages import (
    FAMILIES,
    GENERIC,
    HEADER,
    Family,
    attribute,
    attributes,
    messages,
    nested,
    request,
)

SocketAddress = tuple[bytes, int]
"""An address, as in a packet, and a port."""
_SUBSYSTEM: Final = 1
_NEW, _GET, _DELETE = 0, 1, 2
_FAMILIES: Final[dict[Family, int]] = {"ip": socket.AF_INET, "ip6": socket.AF_INET6}
_ORIGINAL, _REPLY, _ID, _ZONE, _FILTER = 1, 2, 12, 18, 25
_IP, _PROTOCOL = 1, 2
_SOURCE: Final[dict[Family, int]] = {"ip": 1, "ip6": 3}
_DESTINATION: Final[dict[Family, int]] = {"ip": 2, "ip6": 4}
_NUMBER, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3
_ORIGINAL_FLAGS: Final = 1
_BY_DESTINATION, _BY_PROTOCOL, _BY_DESTINATION_PORT = 1 << 1, 1 << 3, 1 << 5
_PORT: Final = struct.Struct(">H")
_NOT_TOLD: Final = 0x1
"""The flag of a request that is answered only where it fails."""
AT_ONCE: Final = 100
"""Flows that one request deletes: what is said about each of them has room in a socket."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One tracked flow: where its client sends to, who replies, and the kernel's whole message about it."""

    destination: SocketAddress
    reply_source: SocketAddress
    message: bytes


def pack_address(family: Family, address: str) -> bytes:
    """An address as it stands in a packet. Raises OSError."""
    return socket.inet_pton(_FAMILIES[family], address)


def dump_request(family: Family, *, address: bytes | None = None, port: int | None = None) -> bytes:
    """Asks for all flows of a family; with ``port`` only for those whose clients send there.

    Kernels before 5.8 return all flows, of every protocol, whatever is asked for. For IPv6, an address is not part of
    the request: kernel 6.18 returns all flows but those to the address.
    """
    flags, protocol = _BY_PROTOCOL, attribute(_NUMBER, bytes([socket.IPPROTO_UDP]))
    if port is not None:
        flags, protocol = flags | _BY_DESTINATION_PORT, protocol + attribute(_DESTINATION_PORT, _PORT.pack(port))
    parts = [nested(_PROTOCOL, [protocol])]
    if address is not None and family == "ip":
        flags |= _BY_DESTINATION
        parts.insert(0, nested(_IP, [attribute(_DESTINATION[family], address)]))
    chosen = nested(_FILTER, [attribute(_ORIGINAL_FLAGS, struct.pack("=I", flags))])
    return request(_SUBSYSTEM, _GET, _FAMILIES[family], nested(_ORIGINAL, parts) + chosen, dump=True)


def parse_flows(family: Family, answer: bytes) -> Iterator[Flow]:
    """The flows of UDP in a whole answer."""
    for kind, body in messages(answer):
        if kind == _SUBSYSTEM << 8 | _NEW and (found := _flow(family, body)) is not None:
            yield found


def flow_identity(flow: Flow) -> bytes:
    """The attributes by which the kernel identifies a flow."""
    parts = dict(attributes(flow.message, GENERIC.size))
    # With its number, another flow that has taken the same place meanwhile stays.
    found = nested(_ORIGINAL, [parts[_ORIGINAL]]) + attribute(_ID, parts[_ID])
    return found + attribute(_ZONE, parts[_ZONE]) if _ZONE in parts else found


def delete_requests(family: Family, some: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Requests that delete flows by their `flow_identity`, each with the number of flows that it deletes.

    The kernel does all of a request, and answers to the last message of it, or before that to one whose flow is gone.
    """
    left = iter(some)
    while part := list(islice(left, AT_ONCE)):
        silent = b"".join(_quiet(_DELETE, family, each) for each in part[:-1])
        yield len(part), silent + request(_SUBSYSTEM, _DELETE, _FAMILIES[family], part[-1])


def _usual(family: Family) -> tuple[struct.Struct, tuple[bytes, ...]]:
    """Both tuples of a flow of UDP as kernels write them: its form, and what precedes each field.

    Read so, flows take a tenth of the time that their attributes would take one by one.
    """
    size, zero = (4, b"\0" * 4) if family == "ip" else (16, b"\0" * 16)
    fields = f"{size}s4s{size}s16s2s6s2s2x"
    heads: list[bytes] = []
    for kind in (_ORIGINAL, _REPLY):
        ends = [attribute(_SOURCE[family], zero), attribute(_DESTINATION[family], zero)]
        ports = [attribute(each, b"\0\0") for each in (_SOURCE_PORT, _DESTINATION_PORT)]
        udp = attribute(_NUMBER, bytes([socket.IPPROTO_UDP]))
        whole = nested(kind, [nested(_IP, ends), nested(_PROTOCOL, [udp, *ports])])
        heads += struct.Struct(f"=12s{fields}").unpack(whole)[::2]
    return struct.Struct(f"=12s{fields}12s{fields}"), tuple(heads)


_USUAL: Final[dict[Family, tuple[struct.Struct, tuple[bytes, ...]]]] = {each: _usual(each) for each in FAMILIES}


def _quiet(message: int, family: Family, body: bytes) -> bytes:
    length = HEADER.size + GENERIC.size + len(body)
    head = HEADER.pack(length, _SUBSYSTEM << 8 | message, _NOT_TOLD, 0, 0)
    return head + GENERIC.pack(_FAMILIES[family], 0, 0) + body


def _flow(family: Family, said: bytes) -> Flow | None:
    form, heads = _USUAL[family]
    if len(said) >= GENERIC.size + form.size:
        found = form.unpack_from(said, GENERIC.size)
        if found[::2] == heads:
            _, _, _, to, _, _, _, to_port, _, by, _, _, _, by_port, _, _ = found
            return Flow((to, int.from_bytes(to_port)), (by, int.from_bytes(by_port)), said)
    parts = dict(attributes(said, GENERIC.size))
    original, reply = dict(attributes(parts[_ORIGINAL])), dict(attributes(parts[_REPLY]))
    protocol = dict(attributes(original[_PROTOCOL]))
    if protocol[_NUMBER][0] != socket.IPPROTO_UDP:
        return None
    answering = dict(attributes(reply[_PROTOCOL]))
    to = dict(attributes(original[_IP]))[_DESTINATION[family]], _PORT.unpack(protocol[_DESTINATION_PORT])[0]
    by = dict(attributes(reply[_IP]))[_SOURCE[family]], _PORT.unpack(answering[_SOURCE_PORT])[0]
    return Flow(to, by, said)
