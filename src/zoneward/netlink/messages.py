"""Netlink messages to netfilter and the kernel's answers, as bytes: what all subsystems share.

A request has to be a dump, or to ask for an acknowledgement (`request` sees to that), so that it is known where its
answer ends.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, Literal

Family = Literal["ip", "ip6"]
"""A family of addresses, in the words of nft."""
FAMILIES: Final[tuple[Family, ...]] = ("ip", "ip6")
ADDRESS_TYPES: Final[dict[Family, Literal["IPv4", "IPv6"]]] = {"ip": "IPv4", "ip6": "IPv6"}
"""The same in the words of EndpointSlices."""
HEADER: Final = struct.Struct("=IHHII")
"""Length, kind, flags, number of the request, port."""
GENERIC: Final = struct.Struct("=BBH")
"""Family, version, resource: what begins each message of netfilter."""
ERROR: Final = 2
DONE: Final = 3
INTERRUPTED: Final = 0x10
_ATTRIBUTE: Final = struct.Struct("=HH")
REQUEST, ACKNOWLEDGE, _DUMP = 0x1, 0x4, 0x300
_NESTED: Final = 0x8000
_KIND: Final = 0x3FFF
_STATUS: Final = struct.Struct("=i")


def request(subsystem: int, message: int, family: int, attributes: bytes = b"", *, dump: bool = False) -> bytes:
    """One message to netfilter. ``subsystem`` is 10 for nf_tables, 1 for conntrack."""
    flags = REQUEST | (_DUMP if dump else ACKNOWLEDGE)
    return encode_message(subsystem << 8 | message, flags, GENERIC.pack(family, 0, 0) + attributes)


def encode_message(kind: int, flags: int, body: bytes) -> bytes:
    """One message, padded to four bytes."""
    return HEADER.pack(HEADER.size + len(body), kind, flags, 1, 0) + body + b"\0" * (-len(body) % 4)


def attribute(kind: int, data: bytes) -> bytes:
    """One attribute, padded to four bytes."""
    length = _ATTRIBUTE.size + len(data)
    return _ATTRIBUTE.pack(length, kind) + data + b"\0" * (-length % 4)


def nested(kind: int, attributes: Iterable[bytes]) -> bytes:
    return attribute(kind | _NESTED, b"".join(attributes))


def string_attribute(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind of each message, with the subsystem, and what follows its header; without the message that ends the
    answer."""
    for kind, _, start, end in _parts(answer):
        if kind not in (ERROR, DONE):
            yield kind, answer[start:end]


def error_number(answer: bytes) -> int:
    """The number of the error that ends an answer (`errno`); 0: there is none."""
    for kind, _, start, end in _parts(answer):
        if kind in (ERROR, DONE) and end - start >= _STATUS.size:
            (status,) = _STATUS.unpack_from(answer, start)
            if status:
                return -int(status)
    return 0


def is_consistent(answer: bytes) -> bool:
    """Whether nothing changed while the kernel dumped it (``NLM_F_DUMP_INTR``)."""
    return not any(flags & INTERRUPTED for _, flags, _, _ in _parts(answer))


def attributes(data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """The attributes in ``data``, from an offset on."""
    size, end = _ATTRIBUTE.size, len(data)
    while offset + size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < size:
            return
        # The upper bits say that there are attributes inside, or which end of a number comes first.
        yield kind & _KIND, data[offset + size : offset + length]
        offset += (length + 3) & ~3


def read_string(data: bytes) -> str:
    """A string as the kernel writes it."""
    return data.rstrip(b"\0").decode(errors="replace")


def _parts(answer: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Kind and flags of each message, and where what follows its header begins and ends."""
    offset = 0
    while offset + HEADER.size <= len(answer):
        length, kind, flags = struct.unpack_from("=IHH", answer, offset)
        if length < HEADER.size:
            return
        yield kind, flags, offset + HEADER.size, offset + length
        offset += (length + 3) & ~3
