"""Messages about tracked flows as a kernel writes them: ``FlowMessage(counts=(100, 2000)).message()``."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from zoneward.netlink.messages import GENERIC, HEADER, Family, attribute, nested

_ENDS = {"ip": (1, 2), "ip6": (3, 4)}
_FAMILIES = {"ip": socket.AF_INET, "ip6": socket.AF_INET6}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowMessage:
    """A message of a dump, or of the end of a flow. ``reverses``: attributes in each direction are in reverse order."""

    family: Family = "ip"
    protocol: int = socket.IPPROTO_TCP
    source: bytes = b"\n\1\0\5"
    destination: bytes = b"\n\x60\0\1"
    ports: tuple[bytes, bytes] = (b"\x9c\x40", b"\0\x50")
    endpoint: bytes = b"\n\2\0\1"
    endpoint_port: bytes = b"\x1f\x90"
    counts: tuple[int, int] | None = (100, 1000)
    identity: bytes = b"this"
    order: Sequence[str] = ("identity", "status", "counters", "protocol info")
    ended: bool = False
    reverses: bool = False

    @classmethod
    def of(cls, family: Family) -> Self:
        if family == "ip":
            return cls()
        return cls(family=family, source=b"s" * 16, destination=b"d" * 16, endpoint=b"e" * 16)

    def but(self, **fields: Any) -> Self:
        return replace(self, **fields)

    @property
    def is_translated(self) -> bool:
        return (self.destination, self.ports[1]) != (self.endpoint, self.endpoint_port)

    def message(self) -> bytes:
        parts = {
            "identity": attribute(12, self.identity),
            "status": attribute(3, b"\0\0\1\xae"),
            "counters": b"" if self.counts is None else b"".join(map(self._counters, (9, 10), self.counts)),
            "protocol info": nested(4, [nested(1, [attribute(1, b"\3")])]),
        }
        body = GENERIC.pack(_FAMILIES[self.family], 0, 0)
        body += self._direction(1, self.source, self.destination, *self.ports)
        body += self._direction(2, self.endpoint, self.source, self.endpoint_port, self.ports[0])
        body += b"".join(parts[name] for name in self.order)
        return HEADER.pack(HEADER.size + len(body), 1 << 8 | 2 * self.ended, 2, 1, 0) + body

    def _direction(self, kind: int, source: bytes, destination: bytes, *ports: bytes) -> bytes:
        ends = [
            attribute(attribute_type, address)
            for attribute_type, address in zip(_ENDS[self.family], (source, destination), strict=True)
        ]
        protocol = [attribute(1, bytes([self.protocol]))]
        if self.protocol != socket.IPPROTO_ICMP:
            protocol += [attribute(attribute_type, port) for attribute_type, port in zip((2, 3), ports, strict=True)]
        if self.reverses:
            ends.reverse()
            protocol.reverse()
        return nested(kind, [nested(1, ends), nested(2, protocol)])

    @staticmethod
    def _counters(kind: int, count: int) -> bytes:
        return nested(kind, [attribute(1, bytes(8)), attribute(2, count.to_bytes(8))])
