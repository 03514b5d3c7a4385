"""Requests to nf_tables and its answers: tables, chains, sets, rules and elements.

nft itself lists in seconds what the kernel dumps in a moment, and needs hundreds of megabytes for it. Elements are read
into the words that nft has for them, and written from these. The numbers are those of ``linux/netfilter/nf_tables.h``.
"""

import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from socket import inet_ntop, inet_pton
from typing import Final

from zoneward.netlink.messages import (
    GENERIC,
    Family,
    attribute,
    attributes,
    is_consistent,
    messages,
    nested,
    read_string,
    request,
    string_attribute,
)

SUBSYSTEM: Final = 10
FAMILY_NUMBERS: Final[dict[Family, int]] = {"ip": socket.AF_INET, "ip6": socket.AF_INET6}
NEW_TABLE, GET_TABLE = 0, 1
NEW_CHAIN, GET_CHAIN = 3, 4
NEW_RULE, GET_RULE = 6, 7
NEW_SET, GET_SET = 9, 10
NEW_GENERATION, GET_GENERATION = 15, 16
GENERATION_ID: Final = 1
TABLE_NAME, TABLE_FLAGS, TABLE_USE = 1, 2, 3
CHAIN_TABLE, CHAIN_NAME, CHAIN_HOOK, CHAIN_POLICY, CHAIN_TYPE = 1, 3, 4, 5, 7
HOOK_NUMBER, HOOK_PRIORITY = 1, 2
RULE_TABLE, RULE_CHAIN, RULE_HANDLE, RULE_EXPRESSIONS = 1, 2, 3, 4
SET_TABLE, SET_NAME, SET_FLAGS, SET_COUNT = 1, 2, 3, 20
EXPRESSION, EXPRESSION_NAME, EXPRESSION_DATA = 1, 1, 2
LOOKUP_SET: Final = 1
HOOKS: Final = ("prerouting", "input", "forward", "output", "postrouting")
IS_MAP: Final = 1 << 3
_ACCEPT: Final = 1
_ANONYMOUS: Final = "__"


@dataclass(frozen=True, slots=True)
class Hook:
    """Where the kernel enters a chain: the chain's type, the hook's name, and the priority among chains there."""

    type: str
    name: str
    priority: int


class DumpInterrupted(Exception):  # noqa: N818 -- it is an answer
    """Somebody changed something while the kernel dumped it."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """``has_flags``: it is dormant, or a process' own; our tables have no flags. ``use``: its number of chains and
    sets."""

    has_flags: bool
    use: int


@dataclass(frozen=True, slots=True)
class FoundSet:
    """``element_count`` None: this kernel does not report it."""

    kind: str
    element_count: int | None


@dataclass(frozen=True, slots=True)
class FoundRule:
    """``expressions`` are the kernel's bytes, in which all names of anonymous sets are made the same.

    ``handle`` differs for all rules that were ever made; ``unnamed`` are the anonymous sets that this rule alone has.
    """

    chain: str
    handle: bytes
    expressions: bytes
    unnamed: tuple[str, ...] = ()


# --- requests ---------------------------------------------------------------------------------------------------------


def generation_request() -> bytes:
    return request(SUBSYSTEM, GET_GENERATION, socket.AF_UNSPEC)


def table_request(family: Family, table: str) -> bytes:
    """Asks for one table; the kernel refuses where there is none (ENOENT)."""
    return request(SUBSYSTEM, GET_TABLE, FAMILY_NUMBERS[family], string_attribute(TABLE_NAME, table))


def chains_request(family: Family) -> bytes:
    """Asks for the chains of all tables: the kernel has no request for those of one."""
    return request(SUBSYSTEM, GET_CHAIN, FAMILY_NUMBERS[family], dump=True)


def sets_request(family: Family, table: str) -> bytes:
    return request(SUBSYSTEM, GET_SET, FAMILY_NUMBERS[family], string_attribute(SET_TABLE, table), dump=True)


def rules_request(family: Family, table: str, chain: str | None = None) -> bytes:
    """Asks for the rules of a table, or of one of its chains."""
    where = string_attribute(RULE_TABLE, table) + (b"" if chain is None else string_attribute(RULE_CHAIN, chain))
    return request(SUBSYSTEM, GET_RULE, FAMILY_NUMBERS[family], where, dump=True)


# --- answers ----------------------------------------------------------------------------------------------------------


def parse_generation(answer: bytes) -> int:
    """The number of transactions that this network namespace has seen, from some beginning."""
    for _, found in _told(answer, NEW_GENERATION):
        return _number(found[GENERATION_ID])
    return 0


def parse_table(answer: bytes) -> FoundTable:
    """The table of an answer about one table."""
    for _, found in _told(answer, NEW_TABLE):
        return FoundTable(bool(_number(found.get(TABLE_FLAGS, b""))), _number(found.get(TABLE_USE, b"")))
    return FoundTable(False, 0)


def parse_chains(answer: bytes, table: str) -> dict[str, Hook | None]:
    """The chains of a table with their hooks. Raises DumpInterrupted."""
    found: dict[str, Hook | None] = {}
    for _, each in _told(answer, NEW_CHAIN):
        if read_string(each[CHAIN_TABLE]) == table:
            found[read_string(each[CHAIN_NAME])] = _hook(each)
    return found


def parse_sets(answer: bytes, table: str) -> dict[str, FoundSet]:
    """The sets and maps of a table that have a name. Raises DumpInterrupted."""
    found: dict[str, FoundSet] = {}
    for _, each in _told(answer, NEW_SET):
        name = read_string(each[SET_NAME])
        if read_string(each[SET_TABLE]) == table and not name.startswith(_ANONYMOUS):
            kind = "map" if _number(each.get(SET_FLAGS, b"\0\0\0\0")) & IS_MAP else "set"
            found[name] = FoundSet(kind, _number(each[SET_COUNT]) if SET_COUNT in each else None)
    return found


def parse_rules(answer: bytes, table: str) -> dict[str, tuple[FoundRule, ...]]:
    """The rules of each chain of a table that has some. Raises DumpInterrupted."""
    found: dict[str, list[FoundRule]] = {}
    for _, each in _told(answer, NEW_RULE):
        if read_string(each[RULE_TABLE]) == table:
            chain = read_string(each[RULE_CHAIN])
            expressions, unnamed = _alike(each.get(RULE_EXPRESSIONS, b""))
            found.setdefault(chain, []).append(FoundRule(chain, each[RULE_HANDLE], expressions, unnamed))
    return {chain: tuple(some) for chain, some in found.items()}


def _told(answer: bytes, message: int) -> Iterator[tuple[int, Mapping[int, bytes]]]:
    if not is_consistent(answer):
        raise DumpInterrupted("somebody changed the rules while they were read")
    for kind, body in messages(answer):
        if kind == SUBSYSTEM << 8 | message:
            yield kind, dict(attributes(body, GENERIC.size))


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _hook(chain: Mapping[int, bytes]) -> Hook | None:
    if CHAIN_HOOK not in chain:
        return None
    hook = dict(attributes(chain[CHAIN_HOOK]))
    number = _number(hook[HOOK_NUMBER])
    (priority,) = struct.unpack(">i", hook[HOOK_PRIORITY])
    kind = read_string(chain[CHAIN_TYPE])
    if _number(chain.get(CHAIN_POLICY, b"\1")) != _ACCEPT:
        # None of ours has another policy: so it equals none of ours.
        kind += " policy drop"
    return Hook(kind, HOOKS[number] if number < len(HOOKS) else str(number), priority)


def _alike(expressions: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Expressions without the names that the kernel gave to sets of theirs, and these names."""
    if _ANONYMOUS.encode() not in expressions:
        return expressions, ()
    found, unnamed = [], []
    for kind, expression in attributes(expressions):
        parts = dict(attributes(expression))
        if kind == EXPRESSION and read_string(parts.get(EXPRESSION_NAME, b"")) == "lookup":
            inside = dict(attributes(parts[EXPRESSION_DATA]))
            name = read_string(inside[LOOKUP_SET])
            if name.startswith(_ANONYMOUS):
                unnamed.append(name)
                inside[LOOKUP_SET] = _ANONYMOUS.encode()
                found.append(repr(sorted(inside.items())).encode())
                continue
        found.append(expression)
    return b"|".join(found), tuple(unnamed)


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
FieldTypes = tuple[str, ...]


@lru_cache(maxsize=256)
def parse_field_types(declaration: str) -> tuple[FieldTypes, FieldTypes] | None:
    """The fields of keys and of values, from what nft has between the braces of a set; None for a set that the kernel
    fills."""
    types_of, *others = declaration.split("; ")
    if any(each.startswith("flags") and "dynamic" in each for each in others):
        return None
    _, _, types = types_of.partition(" ")
    key, _, data = types.partition(" : ")
    return _parts(key), _parts(data)


def _parts(types: str) -> FieldTypes:
    return tuple(_FIELDS.get(each.split()[-1], NUMBER) for each in types.split(" . ") if each)


def elements_request(family: Family, table: str, name: str) -> bytes:
    """Asks for all elements of a set."""
    where = string_attribute(TABLE, table) + string_attribute(SET, name)
    return request(SUBSYSTEM, GET_ELEMENTS, FAMILY_NUMBERS[family], where, dump=True)


def split_elements(answer: bytes) -> list[bytes]:
    """Each element of an answer, as the kernel writes it. Raises DumpInterrupted."""
    if not is_consistent(answer):
        raise DumpInterrupted("somebody changed the elements while they were read")
    return [
        element
        for kind, body in messages(answer)
        if kind == SUBSYSTEM << 8 | NEW_ELEMENTS
        for attribute, some in attributes(body, GENERIC.size)
        if attribute == ELEMENTS
        for _, element in attributes(some)
    ]


class ElementReader:
    """Reads elements of one set; ``parts`` are the fields of its keys and values (`parse_field_types`)."""

    def __init__(self, family: Family, parts: tuple[FieldTypes, FieldTypes]) -> None:
        self._family = family
        self._key, self._data = parts
        self._numbered = bool(self._key) and self._key[-1] == NUMBER
        self._heads: dict[bytes, str] = {}
        self._rests: dict[bytes, str] = {}

    def read(self, elements: Sequence[bytes]) -> dict[str, str]:
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
    return f"{VERDICTS.get(code, code)} {read_string(parts.get(CHAIN, b''))}".strip()


def _words(family: Family, data: bytes, parts: FieldTypes) -> str:
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
    """Writes elements of one set; ``parts`` are the fields of its keys and values (`parse_field_types`)."""

    def __init__(self, family: Family, parts: tuple[FieldTypes, FieldTypes]) -> None:
        self._family = FAMILY_NUMBERS[family]
        self._key, self._data = parts
        self._numbered = bool(self._key) and self._key[-1] == NUMBER
        self._heads: dict[str, bytes] = {}
        self._values: dict[str, bytes] = {"": b""}
        self._starts: dict[tuple[int, int], bytes] = {}
        """What comes before the key, which depends on how long that and the value are."""

    def write(self, key: str, value: str) -> bytes:
        """One element as an attribute; without a value where that is empty."""
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
        return nested(VERDICT, [*found, string_attribute(CHAIN, chain)] if chain else found)

    def _packed(self, value: str, parts: FieldTypes) -> bytes:
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
