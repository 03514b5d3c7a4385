"""Tracked flows with their byte counters, as connection tracking dumps and announces them: for a meter.

Only flows that were translated are returned: somebody else replies than who was asked. That is what a proxy does to
the traffic of Services, and few of a busy node's flows are anything else. All protocols with ports are read: TCP, UDP,
SCTP. ``linux/netfilter/nfnetlink_conntrack.h``.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from zoneward.netlink.messages import (
    FAMILIES,
    GENERIC,
    HEADER,
    Family,
    attribute,
    attributes,
    nested,
    request,
)

DESTROYED_GROUP: Final = 1 << 2
"""The group of a netlink socket's address that is told about flows that end (``NF_NETLINK_CONNTRACK_DESTROY``)."""
PROTOCOLS: Final = {socket.IPPROTO_TCP: "TCP", socket.IPPROTO_UDP: "UDP", socket.IPPROTO_SCTP: "SCTP"}
"""Those with ports, by number."""
_SUBSYSTEM: Final = 1
_GET: Final = 1
_NEW_FLOW, _DESTROYED_FLOW = _SUBSYSTEM << 8, _SUBSYSTEM << 8 | 2
_ORIGINAL, _REPLY, _REQUEST_COUNTERS, _RESPONSE_COUNTERS, _ID = 1, 2, 9, 10, 12
_IP, _PROTOCOL, _NUMBER, _SOURCE_PORT, _DESTINATION_PORT, _BYTES = 1, 2, 1, 2, 3, 2
_FLOW_KINDS: Final = (_NEW_FLOW, _DESTROYED_FLOW)
_ATTRIBUTE: Final = struct.Struct("=HH")
_KIND: Final = 0x3FFF
_LENGTH_AND_KIND: Final = struct.Struct("=IH")
_START: Final = HEADER.size + GENERIC.size
_NO_COUNTERS: Final = -1


class TranslatedFlow(NamedTuple):
    """A flow whose client asked for ``destination`` and gets replies from ``endpoint``; addresses as in a packet.

    ``key`` is the same in all messages about a flow, and in none about another. The bytes are those of IP packets from
    the client (``request``) and to it (``response``); both are -1 for a flow without counters, which began while
    accounting was off. ``tuples`` are both directions, as the kernel writes them.
    """

    key: bytes
    family: Family
    tuples: bytes
    request: int
    response: int

    # Few flows are asked for more than their key.

    @property
    def protocol(self) -> int:
        return self.tuples[_FORMS[self.family].protocol]

    @property
    def source(self) -> bytes:
        return self.tuples[_FORMS[self.family].source]

    @property
    def destination(self) -> bytes:
        return self.tuples[_FORMS[self.family].destination]

    @property
    def destination_port(self) -> bytes:
        return self.tuples[_FORMS[self.family].destination_port]

    @property
    def endpoint(self) -> bytes:
        return self.tuples[_FORMS[self.family].endpoint]

    @property
    def route(self) -> bytes:
        """The same for all flows that asked for the same destination, port and protocol and get replies from the same
        endpoint."""
        form, tuples = _FORMS[self.family], self.tuples
        return (
            tuples[form.destination]
            + tuples[form.destination_port]
            + tuples[form.protocol : form.protocol + 1]
            + tuples[form.endpoint]
        )


def flows_request() -> bytes:
    """Asks for all flows of all families."""
    return request(_SUBSYSTEM, _GET, socket.AF_UNSPEC, dump=True)


def translated_flows(data: bytes) -> Iterator[TranslatedFlow]:
    """The translated flows in a part of a dump, or in an announcement of flows that ended."""
    place, end = 0, len(data)
    while place + _START <= end:
        length, kind = _LENGTH_AND_KIND.unpack_from(data, place)
        if length < _START:
            return
        if kind in _FLOW_KINDS and (form := _BY_NUMBER.get(data[place + HEADER.size])) is not None:
            found = form.read(data, place + _START, place + length)
            if found is not None:
                yield found
        place += (length + 3) & ~3


class _Form:
    """How kernels write flows of one family: both directions first, with addresses and ports at fixed places.

    A message is compared with all of that form at once, and taken apart attribute by attribute only where it differs.
    Where identity and counters stand behind that differs by protocol, kernel and kind of message, but is the same in
    messages of the same length as a rule. Read so, a flow takes a fifth of the time.
    """

    def __init__(self, family: Family) -> None:
        self._family: Family = family
        size, self._ends = (4, (1, 2)) if family == "ip" else (16, (3, 4))
        usual, free = (
            self._direction(_ORIGINAL, *[each * size] * 2, each, *[each * 2] * 2)
            + self._direction(_REPLY, *[each * size] * 2, each, *[each * 2] * 2)
            for each in (b"\0", b"\xff")
        )
        self._length, self._usual = len(usual), int.from_bytes(usual)
        self._fixed = (self._usual ^ int.from_bytes(free)) ^ ((1 << 8 * len(usual)) - 1)
        half, source = len(usual) // 2, 12
        destination = source + size + 4
        number = destination + size + 8
        self.source, self.destination = slice(source, source + size), slice(destination, destination + size)
        self.endpoint = slice(half + source, half + source + size)
        self.protocol = number
        self.destination_port = slice(number + 16, number + 18)
        self._endpoint_port = slice(half + number + 8, half + number + 10)
        self._original = slice(4, half)
        self._rest: dict[int, _Rest] = {}

    def read(self, data: bytes, start: int, end: int) -> TranslatedFlow | None:
        """The flow whose attributes stand there; None for one that is not translated, or has no ports."""
        rest_at = start + self._length
        tuples, rest = data[start:rest_at], data[rest_at:end]
        if int.from_bytes(tuples) & self._fixed != self._usual:
            tuples, rest = self._in_usual_form(data[start:end])
            if int.from_bytes(tuples) & self._fixed != self._usual:
                return None
        if (
            tuples[self.destination] == tuples[self.endpoint]
            and tuples[self.destination_port] == tuples[self._endpoint_port]
        ) or tuples[self.protocol] not in PROTOCOLS:
            return None
        found = self._rest.get(len(rest))
        if found is None or not found.fits(rest):
            found = self._rest[len(rest)] = _Rest.of(rest)
        key = tuples[self._original] + rest[found.identity]
        if found.request is None or found.response is None:
            return TranslatedFlow(key, self._family, tuples, _NO_COUNTERS, _NO_COUNTERS)
        request, response = int.from_bytes(rest[found.request]), int.from_bytes(rest[found.response])
        return TranslatedFlow(key, self._family, tuples, request, response)

    def _in_usual_form(self, data: bytes) -> tuple[bytes, bytes]:
        """Both directions, and the other attributes; nothing for a protocol without ports."""
        parts = dict(attributes(data))
        try:
            tuples = b"".join(self._rewritten(kind, dict(attributes(parts.pop(kind)))) for kind in (_ORIGINAL, _REPLY))
        except KeyError:
            return b"", b""
        return tuples, b"".join(attribute(kind, each) for kind, each in parts.items())

    def _rewritten(self, kind: int, direction: dict[int, bytes]) -> bytes:
        ends, protocol = dict(attributes(direction[_IP])), dict(attributes(direction[_PROTOCOL]))
        addresses = (ends[each] for each in self._ends)
        return self._direction(
            kind, *addresses, *(protocol[each] for each in (_NUMBER, _SOURCE_PORT, _DESTINATION_PORT))
        )

    def _direction(self, kind: int, *values: bytes) -> bytes:
        """``values``: both addresses, the protocol, both ports."""
        source, destination, *rest = values
        ends = map(attribute, self._ends, (source, destination))
        protocol = map(attribute, (_NUMBER, _SOURCE_PORT, _DESTINATION_PORT), rest)
        return nested(kind, [nested(_IP, ends), nested(_PROTOCOL, protocol)])


@dataclass(frozen=True, slots=True)
class _Rest:
    """Where messages of one length have the identity of a flow, and its counters; None: there are none.

    ``fixed`` are the bits of what precedes each of them, and ``usual`` their values.
    """

    identity: slice
    request: slice | None
    response: slice | None
    fixed: int
    usual: int

    @classmethod
    def of(cls, rest: bytes) -> "_Rest":
        found = dict(_places(rest, 0, len(rest)))
        request, response = (_bytes_place(rest, found.get(kind)) for kind in (_REQUEST_COUNTERS, _RESPONSE_COUNTERS))
        identity = found.get(_ID, slice(0, 0))
        heads = bytearray(len(rest))
        for each in (identity, request, response):
            if each is not None and each.start:
                heads[each.start - _ATTRIBUTE.size : each.start] = b"\xff" * _ATTRIBUTE.size
        fixed = int.from_bytes(heads)
        return cls(identity, request, response, fixed, int.from_bytes(rest) & fixed)

    def fits(self, rest: bytes) -> bool:
        return int.from_bytes(rest) & self.fixed == self.usual


def _bytes_place(rest: bytes, counters: slice | None) -> slice | None:
    return None if counters is None else dict(_places(rest, counters.start, counters.stop)).get(_BYTES)


def _places(data: bytes, place: int, end: int) -> Iterator[tuple[int, slice]]:
    """The kind of each attribute between two places, and where its data are."""
    end = min(end, len(data))
    while place + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, place)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _KIND, slice(place + _ATTRIBUTE.size, place + length)
        place += (length + 3) & ~3


_FORMS: Final[dict[Family, _Form]] = {family: _Form(family) for family in FAMILIES}
_BY_NUMBER: Final[dict[int, _Form]] = {socket.AF_INET: _FORMS["ip"], socket.AF_INET6: _FORMS["ip6"]}
