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
    for fields in _messages_of(answer, NEW_GENERATION):
        return _number(fields[GENERATION_ID])
    return 0


def parse_table(answer: bytes) -> FoundTable:
    for fields in _messages_of(answer, NEW_TABLE):
        return FoundTable(bool(_number(fields.get(TABLE_FLAGS, b""))), _number(fields.get(TABLE_USE, b"")))
    return FoundTable(False, 0)


def parse_chains(answer: bytes, table: str) -> dict[str, Hook | None]:
    """The chains of a table with their hooks. Raises DumpInterrupted."""
    chains: dict[str, Hook | None] = {}
    for fields in _messages_of(answer, NEW_CHAIN):
        if read_string(fields[CHAIN_TABLE]) == table:
            chains[read_string(fields[CHAIN_NAME])] = _hook(fields)
    return chains


def parse_sets(answer: bytes, table: str) -> dict[str, FoundSet]:
    """The sets and maps of a table that have a name. Raises DumpInterrupted."""
    sets: dict[str, FoundSet] = {}
    for fields in _messages_of(answer, NEW_SET):
        name = read_string(fields[SET_NAME])
        if read_string(fields[SET_TABLE]) == table and not name.startswith(_ANONYMOUS):
            kind = "map" if _number(fields.get(SET_FLAGS, b"\0\0\0\0")) & IS_MAP else "set"
            sets[name] = FoundSet(kind, _number(fields[SET_COUNT]) if SET_COUNT in fields else None)
    return sets


def parse_rules(answer: bytes, table: str) -> dict[str, tuple[FoundRule, ...]]:
    """The rules of each chain of a table that has any. Raises DumpInterrupted."""
    rules: dict[str, list[FoundRule]] = {}
    for fields in _messages_of(answer, NEW_RULE):
        if read_string(fields[RULE_TABLE]) == table:
            chain = read_string(fields[RULE_CHAIN])
            expressions, unnamed = _with_uniform_names(fields.get(RULE_EXPRESSIONS, b""))
            rules.setdefault(chain, []).append(FoundRule(fields[RULE_HANDLE], expressions, unnamed))
    return {chain: tuple(chain_rules) for chain, chain_rules in rules.items()}


def _messages_of(answer: bytes, message: int) -> Iterator[Mapping[int, bytes]]:
    if not is_consistent(answer):
        raise DumpInterrupted("another program changed the rules while they were read")
    for kind, body in messages(answer):
        if kind == SUBSYSTEM << 8 | message:
            yield dict(attributes(body, GENERIC.size))


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _hook(chain: Mapping[int, bytes]) -> Hook | None:
    if CHAIN_HOOK not in chain:
        return None
    hook = dict(attributes(chain[CHAIN_HOOK]))
    hook_number = _number(hook[HOOK_NUMBER])
    (priority,) = struct.unpack(">i", hook[HOOK_PRIORITY])
    kind = read_string(chain[CHAIN_TYPE])
    if _number(chain.get(CHAIN_POLICY, b"\1")) != _ACCEPT:
        # No chain of Zoneward has this policy, so that the chain counts as changed.
        kind += " policy drop"
    return Hook(kind, HOOKS[hook_number] if hook_number < len(HOOKS) else str(hook_number), priority)


def _with_uniform_names(expressions: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Expressions with one name for all anonymous sets, and the names that the kernel gave these sets."""
    if _ANONYMOUS.encode() not in expressions:
        return expressions, ()
    same, unnamed = [], []
    for kind, expression in attributes(expressions):
        parts = dict(attributes(expression))
        if kind == EXPRESSION and read_string(parts.get(EXPRESSION_NAME, b"")) == "lookup":
            inside = dict(attributes(parts[EXPRESSION_DATA]))
            name = read_string(inside[LOOKUP_SET])
            if name.startswith(_ANONYMOUS):
                unnamed.append(name)
                inside[LOOKUP_SET] = _ANONYMOUS.encode()
                same.append(repr(sorted(inside.items())).encode())
                continue
        same.append(expression)
    return b"|".join(same), tuple(unnamed)


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
_NUMBERS: Final = {name: code for code, name in PROTOCOLS.items()}
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
    if any(other.startswith("flags") and "dynamic" in other for other in others):
        return None
    _, _, types = types_of.partition(" ")
    key, _, data = types.partition(" : ")
    return _parts(key), _parts(data)


def _parts(types: str) -> FieldTypes:
    return tuple(_FIELDS.get(word.split()[-1], NUMBER) for word in types.split(" . ") if word)


def elements_request(family: Family, table: str, name: str) -> bytes:
    where = string_attribute(TABLE, table) + string_attribute(SET, name)
    return request(SUBSYSTEM, GET_ELEMENTS, FAMILY_NUMBERS[family], where, dump=True)


def split_elements(answer: bytes) -> list[bytes]:
    """Each element of an answer, as the kernel writes it. Raises DumpInterrupted."""
    if not is_consistent(answer):
        raise DumpInterrupted("another program changed the elements while they were read")
    return [
        element
        for kind, body in messages(answer)
        if kind == SUBSYSTEM << 8 | NEW_ELEMENTS
        for attribute, elements in attributes(body, GENERIC.size)
        if attribute == ELEMENTS
        for _, element in attributes(elements)
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
        by_key: dict[str, str] = {}
        numbered, heads, rests = self._numbered, self._heads, self._rests
        for element in elements:
            # The key comes first: an attribute with another one inside, which has the bytes.
            end = element[0] | element[1] << 8 if sys.byteorder == "little" else element[0] << 8 | element[1]
            head, rest = element[8 : end - 4 if numbered else end], element[end + 3 & ~3 :]
            key = heads.get(head)
            if key is None:
                key = heads[head] = _words(self._family, head, self._key[:-1] if numbered else self._key)
            if numbered:
                (slot,) = _NUMBER.unpack_from(element, end - 4)
                key = f"{key} . {slot}"
            value = rests.get(rest)
            if value is None:
                value = rests[rest] = self._value(rest)
            by_key[key] = value
        return by_key

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
    """Each part is padded to four bytes."""
    words, offset = [], 0
    for part in parts:
        if part == ADDRESS:
            size = 4 if family == "ip" else 16
            address = inet_ntop(FAMILY_NUMBERS[family], data[offset : offset + size])
            # Python has no IPv6 addresses that end as an IPv4 address.
            words.append(str(IPv6Address(address)) if size == 16 and "." in address else address)
            offset += size
            continue
        if part == PROTOCOL:
            words.append(PROTOCOLS.get(data[offset], str(data[offset])))
        elif part == PORT:
            words.append(str(data[offset] << 8 | data[offset + 1]))
        else:
            words.append(str(_NUMBER.unpack_from(data, offset)[0]))
        offset += 4
    return " . ".join(words)


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
        head, slot = key, ""
        if self._numbered:
            head, _, slot = key.rpartition(" . ")
        packed = self._heads.get(head)
        if packed is None:
            packed = self._heads[head] = self._packed(head, self._key[:-1] if self._numbered else self._key)
        if slot:
            packed += _NUMBER.pack(int(slot))
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
            # A single port is not padded.
            return attribute(VALUE, _PORT.pack(int(value), 0)[:2])
        if self._data != (LEAD,):
            return attribute(VALUE, self._packed(value, self._data))
        code, _, chain = value.partition(" ")
        parts = [attribute(CODE, struct.pack(">i", _CODES[code]))]
        return nested(VERDICT, [*parts, string_attribute(CHAIN, chain)] if chain else parts)

    def _packed(self, value: str, parts: FieldTypes) -> bytes:
        packed = b""
        for part, word in zip(parts, value.split(" . "), strict=True):
            if part == ADDRESS:
                packed += inet_pton(self._family, word)
            elif part == PROTOCOL:
                packed += bytes((_NUMBERS[word], 0, 0, 0))
            elif part == PORT:
                packed += _PORT.pack(int(word), 0)
            else:
                packed += _NUMBER.pack(int(word))
        return packed
