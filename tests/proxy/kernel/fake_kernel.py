"""A kernel's nf_tables in memory: it runs the proxy's commands, rejects what a kernel rejects, and answers requests.

Each transaction is applied as a whole or not at all. The fake supports only the commands and requests that the proxy
uses; the same tests run on it and on the real kernel. Faults make it die, hang and refuse, so that users of a
`zoneward.proxy.kernel.nft_client.KernelClient` can be tested without permissions.
"""

import asyncio
import errno
import os
import re
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
    encode_message,
    error_number,
    messages,
    nested,
    read_string,
    string_attribute,
)
from zoneward.netlink.nftables import (
    CHAIN_HOOK,
    CHAIN_NAME,
    CHAIN_POLICY,
    CHAIN_TABLE,
    CHAIN_TYPE,
    DEL_ELEMENTS,
    ELEMENTS,
    FAMILY_NUMBERS,
    GENERATION_ID,
    GET_CHAIN,
    GET_ELEMENTS,
    GET_GENERATION,
    GET_RULE,
    GET_SET,
    GET_TABLE,
    HOOK_NUMBER,
    HOOK_PRIORITY,
    HOOKS,
    IS_MAP,
    NEW_CHAIN,
    NEW_ELEMENTS,
    NEW_GENERATION,
    NEW_RULE,
    NEW_SET,
    NEW_TABLE,
    RULE_CHAIN,
    RULE_EXPRESSIONS,
    RULE_HANDLE,
    RULE_TABLE,
    SET,
    SET_COUNT,
    SET_FLAGS,
    SET_NAME,
    SET_TABLE,
    SUBSYSTEM,
    TABLE,
    TABLE_FLAGS,
    TABLE_NAME,
    TABLE_USE,
    ElementReader,
    ElementWriter,
    Hook,
    parse_field_types,
)
from zoneward.proxy.kernel.nft_client import KernelOutcomeUnknown, KernelRefused
from zoneward.proxy.kernel.table_reader import LEADS, NAMES
from zoneward.proxy.kernel.table_writer import BEGIN, END
from zoneward.proxy.ruleset.ruleset import SetDeclaration

_MULTIPART: Final = 2
_VERBS: Final = {SUBSYSTEM << 8 | NEW_ELEMENTS: "add", SUBSYSTEM << 8 | DEL_ELEMENTS: "delete"}
_FAMILIES: Final = {family_number: family for family, family_number in FAMILY_NUMBERS.items()}


@dataclass
class FakeTable:
    """One table. ``chains`` have their rules, each with a unique handle; ``flags`` 1: the table is dormant."""

    sets: dict[str, SetDeclaration] = field(default_factory=dict)
    chains: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    hooks: dict[str, Hook] = field(default_factory=dict)
    elements: dict[str, dict[str, str]] = field(default_factory=dict)
    flags: int = 0

    def copy(self) -> "FakeTable":
        """An independent copy."""
        return FakeTable(
            sets=dict(self.sets),
            chains={name: list(rules) for name, rules in self.chains.items()},
            hooks=dict(self.hooks),
            elements={name: dict(elements) for name, elements in self.elements.items()},
            flags=self.flags,
        )


FakeTables = Mapping[tuple[str, str], FakeTable]


def answer_request(request: bytes, tables: FakeTables, generation: int) -> bytes:
    """The answer to one netlink request, with the message that ends it; without content if the request is not for
    nf_tables."""
    _, kind, flags, _, _ = HEADER.unpack_from(request)
    family_number, _, _ = GENERIC.unpack_from(request, HEADER.size)
    asked = {kind: read_string(data) for kind, data in attributes(request, HEADER.size + GENERIC.size)}
    end = encode_message(DONE if flags & 0x300 else ERROR, _MULTIPART, struct.pack("=i", 0))
    if kind >> 8 != SUBSYSTEM:
        return end
    if kind & 0xFF == GET_GENERATION:
        generation_attribute = [attribute(GENERATION_ID, struct.pack(">I", generation % (1 << 32)))]
        return _messages(NEW_GENERATION, socket.AF_UNSPEC, generation_attribute) + end
    family = _FAMILIES[family_number]
    body = _answer_body(kind & 0xFF, family, asked, tables)
    return encode_message(ERROR, _MULTIPART, struct.pack("=i", -errno.ENOENT)) if body is None else body + end


def decode_transaction(batch: bytes, tables: FakeTables) -> str:
    """A transaction of element messages as nft commands."""
    commands, kinds = [], []
    for kind, body in messages(batch):
        kinds.append(kind)
        if kind in (BEGIN, END):
            continue
        assert kind in _VERBS, f"expected a message that the proxy sends, got {kind}"
        family = _FAMILIES[GENERIC.unpack_from(body)[0]]
        parts = dict(attributes(body, GENERIC.size))
        table, name = read_string(parts[TABLE]), read_string(parts[SET])
        known_table = tables.get((family, table))
        declared = None if known_table is None else known_table.sets.get(name)
        known = None if declared is None else parse_field_types(declared.spec)
        if known is None:
            raise KernelRefused(os.strerror(errno.ENOENT), errno.ENOENT)
        raw = [element for _, element in attributes(parts[ELEMENTS])]
        decoded = ElementReader(family, known).read(raw)
        elements = ", ".join(f"{key} : {value}" if value else key for key, value in decoded.items())
        commands.append(f"{_VERBS[kind]} element {family} {table} {name} {{ {elements} }}\n")
    assert (kinds[0], kinds[-1]) == (BEGIN, END), "a transaction has a beginning and an end"
    return "".join(commands)


def _answer_body(kind: int, family: Family, asked: Mapping[int, str], tables: FakeTables) -> bytes | None:
    family_number = FAMILY_NUMBERS[family]
    if kind == GET_CHAIN:
        chains = (
            _chain(name, chain, table) for (of, name), table in tables.items() if of == family for chain in table.chains
        )
        return _messages(NEW_CHAIN, family_number, chains)
    name = asked[TABLE_NAME]
    table = tables.get((family, name))
    if kind == GET_RULE:
        return _messages(NEW_RULE, family_number, () if table is None else _rules(name, table, asked.get(RULE_CHAIN)))
    if table is None:
        return None
    if kind == GET_TABLE:
        flags = attribute(TABLE_FLAGS, struct.pack(">I", table.flags))
        use = attribute(TABLE_USE, struct.pack(">I", len(table.chains) + len(table.sets)))
        return _messages(NEW_TABLE, family_number, [string_attribute(TABLE_NAME, name) + flags + use])
    if kind == GET_SET:
        return _messages(NEW_SET, family_number, (_set(name, set_, table) for set_ in table.sets))
    assert kind == GET_ELEMENTS, f"expected a request that the proxy sends, got {kind}"
    if asked[SET] not in table.sets:
        return None
    return _messages(NEW_ELEMENTS, family_number, _elements(family, name, asked[SET], table))


def _messages(kind: int, family: int, bodies: Iterable[bytes]) -> bytes:
    head = GENERIC.pack(family, 0, 0)
    return b"".join(encode_message(SUBSYSTEM << 8 | kind, _MULTIPART, head + body) for body in bodies)


def _chain(name: str, chain: str, table: FakeTable) -> bytes:
    body = string_attribute(CHAIN_TABLE, name) + string_attribute(CHAIN_NAME, chain)
    hook = table.hooks.get(chain)
    if hook is not None:
        hook_number = attribute(HOOK_NUMBER, struct.pack(">I", HOOKS.index(hook.name)))
        body += nested(CHAIN_HOOK, [hook_number, attribute(HOOK_PRIORITY, struct.pack(">i", hook.priority))])
        body += attribute(CHAIN_POLICY, struct.pack(">I", 1)) + string_attribute(CHAIN_TYPE, hook.type)
    return body


def _rules(name: str, table: FakeTable, of: str | None) -> Iterator[bytes]:
    for chain, rules in table.chains.items():
        if of in (None, chain):
            for handle, rule in rules:
                where = string_attribute(RULE_TABLE, name) + string_attribute(RULE_CHAIN, chain)
                what = attribute(RULE_EXPRESSIONS, rule.encode())
                yield where + attribute(RULE_HANDLE, struct.pack(">Q", handle)) + what


def _set(name: str, set_name: str, table: FakeTable) -> bytes:
    flags = attribute(SET_FLAGS, struct.pack(">I", IS_MAP if table.sets[set_name].kind == "map" else 0))
    count = attribute(SET_COUNT, struct.pack(">I", len(table.elements[set_name])))
    return string_attribute(SET_TABLE, name) + string_attribute(SET_NAME, set_name) + flags + count


def _elements(family: Family, table: str, name: str, held: FakeTable) -> Iterator[bytes]:
    parts = parse_field_types(held.sets[name].spec)
    if parts is None:
        return
    writer = ElementWriter(family, parts)
    for key, value in held.elements[name].items():
        yield (
            string_attribute(TABLE, table) + string_attribute(SET, name) + nested(ELEMENTS, [writer.write(key, value)])
        )


_COMMAND: Final = re.compile(r"(add|delete|flush) (table|chain|rule|set|map|element) (\S+) (\S+)(?: (\S+))?(?: (.*))?")
_HOOK: Final = re.compile(r"\{ type (\S+) hook (\S+) priority (-?\d+); \}")
_NOT_THERE, _THERE, _IN_USE = errno.ENOENT, errno.EEXIST, errno.EBUSY


@dataclass(slots=True)
class KernelFaults:
    """The faults of the next transactions.

    ``refused_words``: a transaction that contains one of them is refused. ``lost_words``: a transaction that contains
    one of them times out and is not applied. ``deaths``: the number of transactions at which the process dies before
    it applies them; ``done_deaths``: after it applied them. ``hold_until``: transactions wait until it is set; None:
    they do not wait.
    """

    refused_words: set[str] = field(default_factory=set)
    lost_words: set[str] = field(default_factory=set)
    deaths: int = 0
    done_deaths: int = 0
    hold_until: asyncio.Event | None = None


class FakeKernel:
    """A KernelClient. ``tables`` by family and name; ``transactions``: those of ``transactions_begun`` that it
    applied."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], FakeTable] = {}
        self.faults = KernelFaults()
        self.transactions: list[str] = []
        self.transactions_begun = self.transactions_done = 0
        self.generation = 1
        self._handle = 0

    # --- a Kernel -----------------------------------------------------------------------------------------------------

    async def run_commands(self, commands: str) -> None:
        faults = self.faults
        self.transactions_begun += 1
        await asyncio.sleep(0)
        if faults.hold_until is not None:
            await faults.hold_until.wait()
        if faults.deaths:
            faults.deaths -= 1
            raise KernelOutcomeUnknown("it died")
        if any(word in commands for word in faults.lost_words):
            raise KernelOutcomeUnknown("it did not answer")
        for word in faults.refused_words:
            if word in commands:
                raise KernelRefused(f"refused: {word}", errno.EINVAL)
        self.load(commands)
        if faults.done_deaths:
            faults.done_deaths -= 1
            raise KernelOutcomeUnknown("it died after it was done")
        self.transactions_done += 1
        self.transactions.append(commands)

    async def send_batch(self, batch: bytes) -> None:
        await self.run_commands(decode_transaction(batch, self.tables))

    async def query(self, request: bytes) -> bytes:
        await asyncio.sleep(0)
        answer = answer_request(request, self.tables, self.generation)
        code = error_number(answer)
        if code:
            raise KernelRefused(os.strerror(code), code)
        return answer

    # --- for tests ----------------------------------------------------------------------------------------------------

    def elements(self, family: Family, table: str) -> Mapping[str, Mapping[str, str]]:
        """The elements by set, without empty sets."""
        return {name: elements for name, elements in self.tables[family, table].elements.items() if elements}

    def chains(self, family: Family, table: str) -> Mapping[str, tuple[str, ...]]:
        """The chains with their rules."""
        return {name: tuple(rule for _, rule in rules) for name, rules in self.tables[family, table].chains.items()}

    def load(self, commands: str) -> None:
        """Run one transaction, of the proxy or another program. Raises KernelRefused, and then nothing has changed."""
        before = {key: table.copy() for key, table in self.tables.items()}
        try:
            for line in commands.splitlines():
                self._run_line(line)
        except KernelRefused:
            self.tables = before
            raise
        self.generation += 1

    # --- commands -----------------------------------------------------------------------------------------------------

    def _run_line(self, line: str) -> None:
        command = _COMMAND.fullmatch(line)
        assert command, f"expected a command that the proxy sends, got {line}"
        verb, kind, family, name, what, rest = command.groups()
        if kind == "table" and verb == "add":
            self.tables.setdefault((family, name), FakeTable())
            return
        table = self.tables.get((family, name))
        if table is None:
            raise _refusal(_NOT_THERE, line)
        rest = rest or ""
        match verb, kind:
            case "delete", "table":
                del self.tables[family, name]
            case "add", "set" | "map":
                declared = SetDeclaration(kind, rest.strip("{} ").removesuffix(";"))
                if table.sets.setdefault(what, declared) != declared:
                    raise _refusal(_THERE, line)
                table.elements.setdefault(what, {})
            case "delete", "set" | "map":
                if what not in table.sets:
                    raise _refusal(_NOT_THERE, line)
                if _is_named(table, what):
                    raise _refusal(_IN_USE, line)
                del table.sets[what], table.elements[what]
            case _, "element":
                _element(table, verb, what, rest, line)
            case _:
                self._chain(table, verb, kind, what, rest, line)

    def _chain(self, table: FakeTable, verb: str, kind: str, what: str, rest: str, line: str) -> None:
        if verb == "add" and kind == "chain":
            _add_chain(table, what, rest, line)
            return
        if what not in table.chains:
            raise _refusal(_NOT_THERE, line)
        match verb, kind:
            case "add", "rule":
                _known(table, rest, line)
                self._handle += 1
                table.chains[what].append((self._handle, rest))
            case "flush", "chain":
                table.chains[what] = []
            case "delete", "chain":
                if _is_led_to(table, what):
                    raise _refusal(_IN_USE, line)
                del table.chains[what]
                table.hooks.pop(what, None)
            case _:
                raise AssertionError(line)


def _refusal(code: int, line: str) -> KernelRefused:
    return KernelRefused(f"{os.strerror(code)}: {line}", code)


def _add_chain(table: FakeTable, name: str, rest: str, line: str) -> None:
    hook = None
    if rest:
        hook_match = _HOOK.fullmatch(rest)
        assert hook_match, f"expected a hook that the proxy uses, got {line}"
        hook = Hook(hook_match[1], hook_match[2], int(hook_match[3]))
    if name not in table.chains:
        table.chains[name] = []
        if hook is not None:
            table.hooks[name] = hook
    elif hook is not None and table.hooks.get(name) != hook:
        raise _refusal(_THERE, line)


def _element(table: FakeTable, verb: str, name: str, rest: str, line: str) -> None:
    elements = table.elements.get(name)
    if elements is None:
        raise _refusal(_NOT_THERE, line)
    for word in rest.strip("{} ").split(", "):
        key, _, value = word.partition(" : ")
        if verb == "delete":
            if elements.pop(key, None) is None:
                raise _refusal(_NOT_THERE, f"{key}: {line}")
            continue
        _known(table, value, line)
        if elements.get(key, value) != value:
            raise _refusal(_THERE, f"{key}: {line}")
        elements[key] = value


def _known(table: FakeTable, text: str, line: str) -> None:
    for name in (*LEADS.findall(text), *NAMES.findall(text)):
        if name not in table.chains and name not in table.sets:
            raise _refusal(_NOT_THERE, f"{name}: {line}")


def _is_led_to(table: FakeTable, chain: str) -> bool:
    """Whether a rule or an element jumps to a chain."""
    every = (rule for rules in table.chains.values() for _, rule in rules)
    values = (value for elements in table.elements.values() for value in elements.values())
    return any(chain in LEADS.findall(text) for text in (*every, *values))


def _is_named(table: FakeTable, name: str) -> bool:
    return any(name in NAMES.findall(rule) for rules in table.chains.values() for _, rule in rules)
