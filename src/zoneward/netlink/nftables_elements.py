"""Elements of a set or a map as the kernel tells them over netlink, read into the words that nft has for them.

The numbers are those of ``linux/netfilter/nf_tables.h``.
"""

import struct
import sys
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from socket import inet_ntop, inet_pton
from typing import Final

from zoneward.netlink.messages import (
    GENERIC,
    Family,
    attribute,
    attributes,
    is_whole,
    messages,
    nested,
    request,
    text,
    words,
)
from zoneward.netlink.nftables import FAMILY_NUMBERS, SUBSYSTEM, Incomplete
from zoneward.proxy.ruleset.ruleset import Declared

PROTOCOLS: Final = {6: "tcp", 17: "udp", 132: "sctp"}
NEW_ELEMENTS, GET_ELEMENTS, DEL_ELEMENTS = 12, 13, 14
TABLE, SET, ELEMENTS = 1, 2, 3
ELEMENT: Final = 1
KEY, DATA = 1, 2
VALUE, VERDICT = 1, 2
CODE, CHAIN = 1, 2
VERDICTS: Final = {0: "drop", 1: "accept", -3: "jump", -4: "goto"}
ADDRESS, PROTOCOL, PORT, NUMBER, LEAD = "address", "protocol", "port", "number", "verdict"
_FIELDS: Final = {
    "ipv4_addr": ADDRESS,
    "ipv6_addr": ADDRESS,
    "inet_proto": PROTOCOL,
    "inet_service": PORT,
    "verdict": LEAD,
    "daddr": ADDRESS,
    "saddr": ADDRESS,
    "l4proto": PROTOCOL,
    "dport": PORT,
    "sport": PORT,
}
"""By the last word of a part of a declaration; what is not here is a number."""
_NUMBERS: Final = {name: number for number, name in PROTOCOLS.items()}
_CODES: Final = {name: code for code, name in VERDICTS.items()}
_NUMBER: Final = struct.Struct("=I")
_PORT: Final = struct.Struct(">HH")
_START: Final = 12
"""Bytes of an element before its key: three attributes begin, one inside of the other."""
Fields = tuple[str, ...]


@lru_cache(maxsize=256)
def fields(declared: Declared) -> tuple[Fields, Fields] | None:
    """The parts of keys and of values; None for a set that the kernel fills by itself."""
    spec, *others = declared.spec.split("; ")
    if any(each.startswith("flags") and "dynamic" in each for each in others):
        return None
    _, _, types = spec.partition(" ")
    key, _, data = types.partition(" : ")
    return _parts(key), _parts(data)


def _parts(types: str) -> Fields:
    return tuple(_FIELDS.get(each.split()[-1], NUMBER) for each in types.split(" . ") if each)


def elements_request(family: Family, table: str, name: str) -> bytes:
    """What asks the kernel for all elements of a set."""
    where = text(TABLE, table) + text(SET, name)
    return request(SUBSYSTEM, GET_ELEMENTS, FAMILY_NUMBERS[family], where, dump=True)


def raw_elements(answer: bytes) -> list[bytes]:
    """Each element of an answer, as the kernel has it. Raises Incomplete."""
    if not is_whole(answer):
        raise Incomplete("somebody changed the elements while they were read")
    return [
        element
        for kind, body in messages(answer)
        if kind == SUBSYSTEM << 8 | NEW_ELEMENTS
        for attribute, some in attributes(body, GENERIC.size)
        if attribute == ELEMENTS
        for _, element in attributes(some)
    ]


class ElementReader:
    """Reads elements of one set; ``parts`` are those of its keys and values, see `fields`."""

    def __init__(self, family: Family, parts: tuple[Fields, Fields]) -> None:
        self._family = family
        self._key, self._data = parts
        self._numbered = bool(self._key) and self._key[-1] == NUMBER
        self._heads: dict[bytes, str] = {}
        self._rests: dict[bytes, str] = {}

    def words(self, elements: Sequence[bytes]) -> dict[str, str]:
        """Elements by their keys, in nft's words."""
        found: dict[str, str] = {}
        numbered, heads, rests = self._numbered, self._heads, self._rests
        for element in elements:
            # The key comes first: an attribute with another one inside, which has the bytes.
            end = element[0] | element[1] << 8 if sys.byteorder == "little" else element[0] << 8 | element[1]
            head, rest = element[8 : end - 4 if numbered else end], element[end + 3 & ~3 :]
            key = heads.get(head)
            if key is None:
                key = heads[head] = _words(self._family, head, self._key[:-1] if numbered else self._key)
            if numbered:
                (number,) = _NUMBER.unpack_from(element, end - 4)
                key = f"{key} . {number}"
            value = rests.get(rest)
            if value is None:
                value = rests[rest] = self._value(rest)
            found[key] = value
        return found

    def _value(self, rest: bytes) -> str:
        if not (rest and self._data):
            return ""
        if self._data != (LEAD,):
            # An attribute with another one inside, as keys are.
            return _words(self._family, rest[8:], self._data)
        return _verdict(dict(attributes(dict(attributes(rest))[DATA]))[VERDICT])


def _verdict(verdict: bytes) -> str:
    parts = dict(attributes(verdict))
    (code,) = struct.unpack(">i", parts[CODE])
    return f"{VERDICTS.get(code, code)} {words(parts.get(CHAIN, b''))}".strip()


def _words(family: Family, data: bytes, parts: Fields) -> str:
    """Each part is filled up to four bytes."""
    found, place = [], 0
    for part in parts:
        if part == ADDRESS:
            size = 4 if family == "ip" else 16
            address = inet_ntop(FAMILY_NUMBERS[family], data[place : place + size])
            # Python has no IPv6 addresses that end as an IPv4 address.
            found.append(str(IPv6Address(address)) if size == 16 and "." in address else address)
            place += size
            continue
        if part == PROTOCOL:
            found.append(PROTOCOLS.get(data[place], str(data[place])))
        elif part == PORT:
            found.append(str(data[place] << 8 | data[place + 1]))
        else:
            found.append(str(_NUMBER.unpack_from(data, place)[0]))
        place += 4
    return " . ".join(found)


class ElementWriter:
    """Writes elements of one set; ``parts`` are those of its keys and values, see `fields`."""

    def __init__(self, family: Family, parts: tuple[Fields, Fields]) -> None:
        self._family = FAMILY_NUMBERS[family]
        self._key, self._data = parts
        self._numbered = bool(self._key) and self._key[-1] == NUMBER
        self._heads: dict[str, bytes] = {}
        self._values: dict[str, bytes] = {"": b""}
        self._starts: dict[tuple[int, int], bytes] = {}
        """What comes before the key, which depends on how long that and the value are."""

    def element(self, key: str, value: str) -> bytes:
        """One element, as an attribute; without a value where that is empty."""
        head, number = key, ""
        if self._numbered:
            head, _, number = key.rpartition(" . ")
        packed = self._heads.get(head)
        if packed is None:
            packed = self._heads[head] = self._packed(head, self._key[:-1] if self._numbered else self._key)
        if number:
            packed += _NUMBER.pack(int(number))
        data = self._values.get(value)
        if data is None:
            data = self._values[value] = nested(DATA, [self._value(value)])
        sizes = len(packed), len(data)
        start = self._starts.get(sizes)
        if start is None:
            start = self._starts[sizes] = nested(ELEMENT, (nested(KEY, (attribute(VALUE, packed),)), data))[:_START]
        return start + packed + data

    def _value(self, value: str) -> bytes:
        if self._data == (PORT,):
            # Alone it is not filled up.
            return attribute(VALUE, _PORT.pack(int(value), 0)[:2])
        if self._data != (LEAD,):
            return attribute(VALUE, self._packed(value, self._data))
        code, _, chain = value.partition(" ")
        found = [attribute(CODE, struct.pack(">i", _CODES[code]))]
        return nested(VERDICT, [*found, text(CHAIN, chain)] if chain else found)

    def _packed(self, value: str, parts: Fields) -> bytes:
        found = b""
        for part, each in zip(parts, value.split(" . "), strict=True):
            if part == ADDRESS:
                found += inet_pton(self._family, each)
            elif part == PROTOCOL:
                found += bytes((_NUMBERS[each], 0, 0, 0))
            elif part == PORT:
                found += _PORT.pack(int(each), 0)
            else:
                found += _NUMBER.pack(int(each))
        return found
