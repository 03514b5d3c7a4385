"""Requests to the kernel's connection tracking and its messages about flows (``nfnetlink_conntrack.h``).

The proxy removes stale flows of UDP, and the meter counts flows that were translated: somebody else replies than the
client asked, which is what a proxy does to the traffic of Services. Flows of protocols with ports are read.
"""

import socket
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from zoneward.netlink.messages import (
    FAMILIES,
    GENERIC,
    HEADER,
    REQUEST,
    Family,
    attribute,
    encode_message,
    nested,
    request,
)

SocketAddress = tuple[bytes, int]
"""An address, as in a packet, and a port."""
DESTROYED_GROUP: Final = 1 << 2
"""The netlink group that receives a message for each flow that ends (``NF_NETLINK_CONNTRACK_DESTROY``)."""
PROTOCOLS: Final = {socket.IPPROTO_TCP: "TCP", socket.IPPROTO_UDP: "UDP", socket.IPPROTO_SCTP: "SCTP"}
"""Protocols with ports, by number."""
AT_ONCE: Final = 100
"""Flows that one request deletes: the kernel's answers about all of them fit into a socket's buffer."""
_SUBSYSTEM: Final = 1
_NEW, _GET, _DELETE = 0, 1, 2
_FLOW_KINDS: Final = (_SUBSYSTEM << 8 | _NEW, _SUBSYSTEM << 8 | _DELETE)
_FAMILIES: Final[dict[Family, int]] = {"ip": socket.AF_INET, "ip6": socket.AF_INET6}
_BY_NUMBER: Final[dict[int, Family]] = {code: family for family, code in _FAMILIES.items()}
_ORIGINAL, _REPLY, _REQUEST_COUNTERS, _RESPONSE_COUNTERS, _ID, _ZONE, _FILTER = 1, 2, 9, 10, 12, 18, 25
_IP, _PROTOCOL, _NUMBER, _SOURCE_PORT, _DESTINATION_PORT, _BYTES = 1, 2, 1, 2, 3, 2
_SOURCES: Final[dict[Family, int]] = {"ip": 1, "ip6": 3}
_DESTINATIONS: Final[dict[Family, int]] = {"ip": 2, "ip6": 4}
_ORIGINAL_FLAGS: Final = 1
_BY_DESTINATION, _BY_PROTOCOL, _BY_DESTINATION_PORT = 1 << 1, 1 << 3, 1 << 5
_PORT: Final = struct.Struct(">H")
_ATTRIBUTE: Final = struct.Struct("=HH")
_KIND: Final = 0x3FFF
_LENGTH_AND_KIND: Final = struct.Struct("=IH")
_START: Final = HEADER.size + GENERIC.size
_NO_COUNTERS: Final = -1
_NOWHERE: Final = slice(0, 0)


# --- flows ------------------------------------------------------------------------------------------------------------


class Flow(NamedTuple):
    """A flow whose client asked for ``destination`` and gets replies from ``endpoint``; addresses as in a packet.

    ``key`` is the same in all messages about a flow, and differs between flows. The bytes are those of IP packets from
    the client (``request``) and to it (``response``); both are -1 for a flow without counters, which began while
    accounting was off.
    """

    key: bytes
    family: Family
    request: int
    response: int
    message: bytes
    template: "_Template"

    # Computed on demand: the meter needs only the key of most flows.

    @property
    def protocol(self) -> int:
        return int.from_bytes(self.message[self.template.protocol])

    @property
    def source(self) -> bytes:
        return self.message[self.template.source]

    @property
    def destination(self) -> bytes:
        return self.message[self.template.destination]

    @property
    def destination_port(self) -> bytes:
        return self.message[self.template.destination_port]

    @property
    def endpoint(self) -> bytes:
        return self.message[self.template.endpoint]

    @property
    def endpoint_port(self) -> bytes:
        return self.message[self.template.endpoint_port]

    @property
    def route(self) -> bytes:
        """The same for all flows with the same destination, port, protocol and endpoint."""
        template, message = self.template, self.message
        return (
            message[template.destination]
            + message[template.destination_port]
            + message[template.protocol]
            + message[template.endpoint]
        )

    @property
    def identity(self) -> bytes:
        """The attributes by which the kernel finds a flow to delete. With its number, so that a newer flow with the
        same addresses is not deleted."""
        template, message = self.template, self.message
        identity = nested(_ORIGINAL, [message[template.original]]) + attribute(_ID, message[template.id])
        return identity + attribute(_ZONE, message[template.zone]) if template.zone.stop else identity


def read_flows(data: bytes, *, only_translated: bool = False) -> Iterator[Flow]:
    """The flows in a part of a dump, or in a message about a flow that ended. A flow is translated where another
    address or port replies than the client asked for."""
    offset, size = 0, len(data)
    while offset + _START <= size:
        length, kind = _LENGTH_AND_KIND.unpack_from(data, offset)
        if length < _START:
            return
        if kind in _FLOW_KINDS and (family := _BY_NUMBER.get(data[offset + HEADER.size])) is not None:
            flow = _read_flow(family, data[offset + _START : offset + length], only_translated=only_translated)
            if flow is not None:
                yield flow
        offset += (length + 3) & ~3


def _read_flow(family: Family, message: bytes, *, only_translated: bool) -> Flow | None:
    templates = _TEMPLATES[family]
    template = templates.get(len(message))
    if template is None or int.from_bytes(message) & template.fixed != template.headers:
        template = templates[len(message)] = _Template.of(family, message)
    if not template.has_ports or message[template.protocol.start] not in PROTOCOLS:
        return None
    if (
        only_translated
        and message[template.destination] == message[template.endpoint]
        and message[template.destination_port] == message[template.endpoint_port]
    ):
        return None
    key = message[template.original] + message[template.id]
    if not template.has_counters:
        return Flow(key, family, _NO_COUNTERS, _NO_COUNTERS, message, template)
    request_bytes, response_bytes = message[template.request], message[template.response]
    return Flow(key, family, int.from_bytes(request_bytes), int.from_bytes(response_bytes), message, template)


class _Template(NamedTuple):
    """Where messages of one length have their fields (`_NOWHERE`: they lack it).

    ``fixed`` are the bits of the headers of these attributes, and ``headers`` their values: messages that agree in them
    have their fields at the same places. Kernels write nearly all messages of one length alike. With a template,
    reading a flow takes a fifth of the time of reading its attributes one by one.
    """

    fixed: int
    headers: int
    has_ports: bool
    has_counters: bool
    original: slice = _NOWHERE
    source: slice = _NOWHERE
    destination: slice = _NOWHERE
    protocol: slice = _NOWHERE
    destination_port: slice = _NOWHERE
    endpoint: slice = _NOWHERE
    endpoint_port: slice = _NOWHERE
    request: slice = _NOWHERE
    response: slice = _NOWHERE
    id: slice = _NOWHERE
    zone: slice = _NOWHERE

    @classmethod
    def of(cls, family: Family, message: bytes) -> "_Template":
        fields, headers = _FIELDS[family], bytearray(len(message))
        slices: dict[str, slice] = {}
        for path, value in _attributes(message, 0, len(message)):
            if path in fields or path in _CONTAINERS:
                headers[value.start - _ATTRIBUTE.size : value.start] = b"\xff" * _ATTRIBUTE.size
            if path in fields:
                slices[fields[path]] = value
        fixed = int.from_bytes(headers)
        return cls(
            fixed=fixed,
            headers=int.from_bytes(message) & fixed,
            has_ports=slices.keys() >= _REQUIRED,
            has_counters=slices.keys() >= {"request", "response"},
            **slices,
        )


_REQUIRED: Final = {"original", "source", "destination", "protocol", "destination_port", "endpoint", "endpoint_port"}
"""The fields of a flow of a protocol with ports."""
_Path = tuple[int, ...]
"""The kinds of an attribute and of those that contain it, the outermost first."""
_CONTAINERS: Final[frozenset[_Path]] = frozenset(
    [
        *((kind,) for kind in (_ORIGINAL, _REPLY, _REQUEST_COUNTERS, _RESPONSE_COUNTERS)),
        *((direction, kind) for direction in (_ORIGINAL, _REPLY) for kind in (_IP, _PROTOCOL)),
    ]
)
_FIELDS: Final[dict[Family, dict[_Path, str]]] = {
    family: {
        (_ORIGINAL,): "original",
        (_ORIGINAL, _IP, _SOURCES[family]): "source",
        (_ORIGINAL, _IP, _DESTINATIONS[family]): "destination",
        (_ORIGINAL, _PROTOCOL, _NUMBER): "protocol",
        (_ORIGINAL, _PROTOCOL, _DESTINATION_PORT): "destination_port",
        (_REPLY, _IP, _SOURCES[family]): "endpoint",
        (_REPLY, _PROTOCOL, _SOURCE_PORT): "endpoint_port",
        (_REQUEST_COUNTERS, _BYTES): "request",
        (_RESPONSE_COUNTERS, _BYTES): "response",
        (_ID,): "id",
        (_ZONE,): "zone",
    }
    for family in FAMILIES
}
_TEMPLATES: Final[dict[Family, dict[int, _Template]]] = {family: {} for family in FAMILIES}
"""By the length of messages."""


def _attributes(data: bytes, offset: int, end: int, path: _Path = ()) -> Iterator[tuple[_Path, slice]]:
    """Each whole attribute between two places, with those inside of it, and where its data are."""
    while offset + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size or offset + length > end:
            return
        inner = (*path, kind & _KIND)
        yield inner, slice(offset + _ATTRIBUTE.size, offset + length)
        if inner in _CONTAINERS:
            yield from _attributes(data, offset + _ATTRIBUTE.size, offset + length, inner)
        offset += (length + 3) & ~3


# --- requests ---------------------------------------------------------------------------------------------------------


def flows_request() -> bytes:
    return request(_SUBSYSTEM, _GET, socket.AF_UNSPEC, dump=True)


def udp_flows_request(family: Family, *, address: bytes | None = None, port: int | None = None) -> bytes:
    """Asks for all flows of UDP of a family; with ``port`` only for those whose clients send there.

    Kernels before 5.8 return all flows, of every protocol, and ignore the filter. For IPv6, an address is not part of
    the request: kernel 6.18 returns all flows but those to the address.
    """
    flags, protocol = _BY_PROTOCOL, attribute(_NUMBER, bytes([socket.IPPROTO_UDP]))
    if port is not None:
        flags, protocol = flags | _BY_DESTINATION_PORT, protocol + attribute(_DESTINATION_PORT, _PORT.pack(port))
    parts = [nested(_PROTOCOL, [protocol])]
    if address is not None and family == "ip":
        flags |= _BY_DESTINATION
        parts.insert(0, nested(_IP, [attribute(_DESTINATIONS[family], address)]))
    chosen = nested(_FILTER, [attribute(_ORIGINAL_FLAGS, struct.pack("=I", flags))])
    return request(_SUBSYSTEM, _GET, _FAMILIES[family], nested(_ORIGINAL, parts) + chosen, dump=True)


def delete_requests(family: Family, identities: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Requests that delete flows by their `Flow.identity`, each with the number of flows that it deletes.

    The kernel does all of a request, and answers to the last message of it, or before that to one whose flow is gone.
    """
    remaining = iter(identities)
    while part := list(islice(remaining, AT_ONCE)):
        head = GENERIC.pack(_FAMILIES[family], 0, 0)
        # The kernel answers to these only if they fail.
        silent = [encode_message(_SUBSYSTEM << 8 | _DELETE, REQUEST, head + identity) for identity in part[:-1]]
        yield len(part), b"".join(silent) + request(_SUBSYSTEM, _DELETE, _FAMILIES[family], part[-1])


def pack_address(family: Family, address: str) -> bytes:
    """An address as in a packet. Raises OSError."""
    return socket.inet_pton(_FAMILIES[family], address)
