"""What a kernel answers over netlink about tables that are kept in memory."""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from zoneward.netlink.messages import (
    DONE,
    ERROR,
    GENERIC,
    HEADER,
    Family,
    attribute,
    attributes,
    error_text,
    messages,
    nested,
    text,
    words,
)
from zoneward.netlink.nftables import (
    CHAIN_HOOK,
    CHAIN_NAME,
    CHAIN_POLICY,
    CHAIN_TABLE,
    CHAIN_TYPE,
    FAMILY_NUMBERS,
    GENERATION_ID,
    GET_CHAIN,
    GET_GENERATION,
    GET_RULE,
    GET_SET,
    GET_TABLE,
    HOOK_NUMBER,
    HOOK_PRIORITY,
    HOOKS,
    IS_MAP,
    NEW_CHAIN,
    NEW_GENERATION,
    NEW_RULE,
    NEW_SET,
    NEW_TABLE,
    RULE_CHAIN,
    RULE_EXPRESSIONS,
    RULE_HANDLE,
    RULE_TABLE,
    SET_COUNT,
    SET_FLAGS,
    SET_NAME,
    SET_TABLE,
    SUBSYSTEM,
    TABLE_FLAGS,
    TABLE_NAME,
    TABLE_USE,
)
from zoneward.netlink.nftables_elements import (
    DEL_ELEMENTS,
    ELEMENTS,
    GET_ELEMENTS,
    NEW_ELEMENTS,
    SET,
    TABLE,
    ElementReader,
    ElementWriter,
    fields,
)
from zoneward.proxy.kernel.element_batch import BEGIN, END
from zoneward.proxy.kernel.nft_client import Refused
from zoneward.proxy.ruleset.ruleset import Declared, Hook

_VERBS: Final = {SUBSYSTEM << 8 | NEW_ELEMENTS: "add", SUBSYSTEM << 8 | DEL_ELEMENTS: "delete"}
_FAMILIES: Final = {number: family for family, number in FAMILY_NUMBERS.items()}


@dataclass
class Table:
    """``chains`` have their rules, each with a number that no other rule has; ``flags`` 1: it sleeps."""

    sets: dict[str, Declared] = field(default_factory=dict)
    chains: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    hooks: dict[str, Hook] = field(default_factory=dict)
    elements: dict[str, dict[str, str]] = field(default_factory=dict)
    flags: int = 0

    def copy(self) -> "Table":
        """Another one, that is as this one is now."""
        return Table(
            sets=dict(self.sets),
            chains={name: list(rules) for name, rules in self.chains.items()},
            hooks=dict(self.hooks),
            elements={name: dict(some) for name, some in self.elements.items()},
            flags=self.flags,
        )


Tables = Mapping[tuple[str, str], Table]


def answer(request: bytes, tables: Tables, generation: int) -> bytes:
    """The answer to one request, with what ends it. What is not of nf_tables is done, and nothing is told."""
    _, kind, flags, _, _ = HEADER.unpack_from(request)
    number, _, _ = GENERIC.unpack_from(request, HEADER.size)
    asked = {kind: words(data) for kind, data in attributes(request, HEADER.size + GENERIC.size)}
    end = _message(DONE if flags & 0x300 else ERROR, struct.pack("=i", 0))
    if kind >> 8 != SUBSYSTEM:
        return end
    if kind & 0xFF == GET_GENERATION:
        told = [attribute(GENERATION_ID, struct.pack(">I", generation % (1 << 32)))]
        return _messages(NEW_GENERATION, socket.AF_UNSPEC, told) + end
    family = _FAMILIES[number]
    found = _found(kind & 0xFF, family, asked, tables)
    return _message(ERROR, struct.pack("=i", -errno.ENOENT)) if found is None else found + end


def commands_of(batch: bytes, tables: Tables) -> str:
    """A transaction of elements alone as nft would have it."""
    found = []
    kinds = []
    for kind, body in messages(batch):
        kinds.append(kind)
        if kind in (BEGIN, END):
            continue
        assert kind in _VERBS, f"not a message of ours: {kind}"
        family = _FAMILIES[GENERIC.unpack_from(body)[0]]
        parts = dict(attributes(body, GENERIC.size))
        table, name = words(parts[TABLE]), words(parts[SET])
        there = tables.get((family, table))
        declared = None if there is None else there.sets.get(name)
        known = None if declared is None else fields(declared)
        if known is None:
            raise Refused(error_text(errno.ENOENT), errno.ENOENT)
        raw = [element for _, element in attributes(parts[ELEMENTS])]
        some = ElementReader(family, known).words(raw)
        elements = ", ".join(f"{key} : {value}" if value else key for key, value in some.items())
        found.append(f"{_VERBS[kind]} element {family} {table} {name} {{ {elements} }}\n")
    assert (kinds[0], kinds[-1]) == (BEGIN, END), "a transaction has a beginning and an end"
    return "".join(found)


def _found(kind: int, family: Family, asked: Mapping[int, str], tables: Tables) -> bytes | None:
    number = FAMILY_NUMBERS[family]
    if kind == GET_CHAIN:
        every = (
            _chain(name, chain, table) for (of, name), table in tables.items() if of == family for chain in table.chains
        )
        return _messages(NEW_CHAIN, number, every)
    name = asked[TABLE_NAME]
    table = tables.get((family, name))
    if kind == GET_RULE:
        return _messages(NEW_RULE, number, () if table is None else _rules(name, table, asked.get(RULE_CHAIN)))
    if table is None:
        return None
    if kind == GET_TABLE:
        flags = attribute(TABLE_FLAGS, struct.pack(">I", table.flags))
        use = attribute(TABLE_USE, struct.pack(">I", len(table.chains) + len(table.sets)))
        return _messages(NEW_TABLE, number, [text(TABLE_NAME, name) + flags + use])
    if kind == GET_SET:
        return _messages(NEW_SET, number, (_set(name, each, table) for each in table.sets))
    assert kind == GET_ELEMENTS, f"not a request of ours: {kind}"
    if asked[SET] not in table.sets:
        return None
    return _messages(NEW_ELEMENTS, number, _elements(family, name, asked[SET], table))


def _messages(kind: int, family: int, bodies: Iterable[bytes]) -> bytes:
    return b"".join(_message(SUBSYSTEM << 8 | kind, GENERIC.pack(family, 0, 0) + body) for body in bodies)


def _message(kind: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, 2, 1, 0) + body + b"\0" * (-len(body) % 4)


def _chain(name: str, chain: str, table: Table) -> bytes:
    found = text(CHAIN_TABLE, name) + text(CHAIN_NAME, chain)
    hook = table.hooks.get(chain)
    if hook is not None:
        number = attribute(HOOK_NUMBER, struct.pack(">I", HOOKS.index(hook.name)))
        found += nested(CHAIN_HOOK, [number, attribute(HOOK_PRIORITY, struct.pack(">i", hook.priority))])
        found += attribute(CHAIN_POLICY, struct.pack(">I", 1)) + text(CHAIN_TYPE, hook.type)
    return found


def _rules(name: str, table: Table, of: str | None) -> Iterator[bytes]:
    for chain, rules in table.chains.items():
        if of in (None, chain):
            for handle, rule in rules:
                where = text(RULE_TABLE, name) + text(RULE_CHAIN, chain)
                what = attribute(RULE_EXPRESSIONS, rule.encode())
                yield where + attribute(RULE_HANDLE, struct.pack(">Q", handle)) + what


def _set(name: str, each: str, table: Table) -> bytes:
    flags = attribute(SET_FLAGS, struct.pack(">I", IS_MAP if table.sets[each].kind == "map" else 0))
    count = attribute(SET_COUNT, struct.pack(">I", len(table.elements[each])))
    return text(SET_TABLE, name) + text(SET_NAME, each) + flags + count


def _elements(family: Family, table: str, name: str, there: Table) -> Iterator[bytes]:
    parts = fields(there.sets[name])
    if parts is None:
        return
    writer = ElementWriter(family, parts)
    for key, value in there.elements[name].items():
        yield text(TABLE, table) + text(SET, name) + nested(ELEMENTS, [writer.element(key, value)])
