"""A kernel's tables in memory: it takes the commands that the proxy writes, refuses what a kernel refuses, and answers.

All or nothing, as one transaction of nft. It knows the commands and forms that the proxy uses, and no others; the same
tables of tests are run on it and on the real one. It can be told to die, to hang and to refuse, so that whoever uses a
`zoneward.proxy.kernel.nft_client.Kernel` can be tested without any rights.
"""

import asyncio
import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zoneward.netlink.messages import Family, error_text, status
from zoneward.proxy.kernel.fake_answers import Table, answer, commands_of
from zoneward.proxy.kernel.nft_client import Lost, Refused
from zoneward.proxy.ruleset.ruleset import Declared, Hook

_COMMAND: Final = re.compile(r"(add|delete|flush) (table|chain|rule|set|map|element) (\S+) (\S+)(?: (\S+))?(?: (.*))?")
_LEADS: Final = re.compile(r"\b(?:goto|jump) ([^\s},]+)")
_NAMES: Final = re.compile(r"@([^\s},]+)")
_HOOK: Final = re.compile(r"\{ type (\S+) hook (\S+) priority (-?\d+); \}")
_NOT_THERE, _THERE, _IN_USE = errno.ENOENT, errno.EEXIST, errno.EBUSY


@dataclass(slots=True)
class Faults:
    """What goes wrong with the next requests. ``refused``: words; a transaction that has one of them is refused.

    ``lost``: words; a transaction that has one of them is not done, and takes longer than anybody waits.
    ``deaths``: as many transactions end with the process, of which ``done_deaths`` are done before. ``held`` holds
    transactions up until it is set; None: it does not.
    """

    refused: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    deaths: int = 0
    done_deaths: int = 0
    held: asyncio.Event | None = None


class FakeKernel:
    """A Kernel. ``tables`` by family and name; ``ran``: the transactions that it took, of as many as were ``begun``."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], Table] = {}
        self.faults = Faults()
        self.ran: list[str] = []
        self.begun = self.taken = 0
        self.generation = 1
        self._handle = 0

    # --- a Kernel -----------------------------------------------------------------------------------------------------

    async def run(self, commands: str) -> None:
        faults = self.faults
        self.begun += 1
        await asyncio.sleep(0)
        if faults.held is not None:
            await faults.held.wait()
        if faults.deaths:
            faults.deaths -= 1
            raise Lost("it died")
        if any(word in commands for word in faults.lost):
            raise Lost("it did not answer")
        for word in faults.refused:
            if word in commands:
                raise Refused(f"refused: {word}", errno.EINVAL)
        self.load(commands)
        if faults.done_deaths:
            faults.done_deaths -= 1
            raise Lost("it died after it was done")
        self.taken += 1
        self.ran.append(commands)

    async def send(self, batch: bytes) -> None:
        await self.run(commands_of(batch, self.tables))

    async def ask(self, request: bytes) -> bytes:
        await asyncio.sleep(0)
        found = answer(request, self.tables, self.generation)
        number = status(found)
        if number:
            raise Refused(error_text(number), number)
        return found

    # --- for tests ----------------------------------------------------------------------------------------------------

    def elements(self, family: Family, table: str) -> Mapping[str, Mapping[str, str]]:
        """Those that there are, without empty sets."""
        return {name: some for name, some in self.tables[family, table].elements.items() if some}

    def chains(self, family: Family, table: str) -> Mapping[str, tuple[str, ...]]:
        """Chains with their rules."""
        return {name: tuple(rule for _, rule in rules) for name, rules in self.tables[family, table].chains.items()}

    def load(self, commands: str) -> None:
        """One transaction by whoever may. Raises Refused, and then nothing has changed."""
        before = {each: table.copy() for each, table in self.tables.items()}
        try:
            for line in commands.splitlines():
                self._one(line)
        except Refused:
            self.tables = before
            raise
        self.generation += 1

    # --- commands -----------------------------------------------------------------------------------------------------

    def _one(self, line: str) -> None:
        found = _COMMAND.fullmatch(line)
        assert found, f"not a command of ours: {line}"
        verb, kind, family, name, what, rest = found.groups()
        if kind == "table" and verb == "add":
            self.tables.setdefault((family, name), Table())
            return
        table = self.tables.get((family, name))
        if table is None:
            raise _refusal(_NOT_THERE, line)
        rest = rest or ""
        match verb, kind:
            case "delete", "table":
                del self.tables[family, name]
            case "add", "set" | "map":
                declared = Declared(kind, rest.strip("{} ").removesuffix(";"))
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

    def _chain(self, table: Table, verb: str, kind: str, what: str, rest: str, line: str) -> None:
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


def _refusal(number: int, line: str) -> Refused:
    return Refused(f"{error_text(number)}: {line}", number)


def _add_chain(table: Table, name: str, rest: str, line: str) -> None:
    hook = None
    if rest:
        found = _HOOK.fullmatch(rest)
        assert found, f"not a hook of ours: {line}"
        hook = Hook(found[1], found[2], int(found[3]))
    if name not in table.chains:
        table.chains[name] = []
        if hook is not None:
            table.hooks[name] = hook
    elif hook is not None and table.hooks.get(name) != hook:
        raise _refusal(_THERE, line)


def _element(table: Table, verb: str, name: str, rest: str, line: str) -> None:
    there = table.elements.get(name)
    if there is None:
        raise _refusal(_NOT_THERE, line)
    for each in rest.strip("{} ").split(", "):
        key, _, value = each.partition(" : ")
        if verb == "delete":
            if there.pop(key, None) is None:
                raise _refusal(_NOT_THERE, f"{key}: {line}")
            continue
        _known(table, value, line)
        if there.get(key, value) != value:
            raise _refusal(_THERE, f"{key}: {line}")
        there[key] = value


def _known(table: Table, words: str, line: str) -> None:
    for name in (*_LEADS.findall(words), *_NAMES.findall(words)):
        if name not in table.chains and name not in table.sets:
            raise _refusal(_NOT_THERE, f"{name}: {line}")


def _is_led_to(table: Table, chain: str) -> bool:
    """Whether a rule or an element leads to a chain, or it has rules that are not gone."""
    every = (rule for rules in table.chains.values() for _, rule in rules)
    values = (value for some in table.elements.values() for value in some.values())
    return any(chain in _LEADS.findall(words) for words in (*every, *values))


def _is_named(table: Table, name: str) -> bool:
    return any(name in _NAMES.findall(rule) for rules in table.chains.values() for _, rule in rules)
