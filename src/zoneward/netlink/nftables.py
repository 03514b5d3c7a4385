"""Tables, chains, sets and rules as the kernel tells them over netlink.

nft itself lists in seconds what the kernel tells in a moment, and needs hundreds of megabytes for it. The numbers are
those of ``linux/netfilter/nf_tables.h``.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zoneward.netlink.messages import GENERIC, Family, attributes, is_whole, messages, request, text, words
from zoneward.proxy.ruleset.ruleset import Hook

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


class Incomplete(Exception):  # noqa: N818 -- it is an answer
    """Somebody changed something while the kernel told of it."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """``is_odd``: it has flags, and ours has none: it sleeps, or is a process' own. ``use``: its chains and sets."""

    is_odd: bool
    use: int


@dataclass(frozen=True, slots=True)
class FoundSet:
    """``number`` of elements; None: this kernel does not say."""

    kind: str
    number: int | None


@dataclass(frozen=True, slots=True)
class FoundRule:
    """``expressions`` are the kernel's own words, with all names of sets without a name made the same.

    ``handle`` is another one for each rule that was ever made; ``unnamed`` are the sets that this rule alone has.
    """

    chain: str
    handle: bytes
    expressions: bytes
    unnamed: tuple[str, ...] = ()


# --- requests ---------------------------------------------------------------------------------------------------------


def generation_request() -> bytes:
    return request(SUBSYSTEM, GET_GENERATION, socket.AF_UNSPEC)


def table_request(family: Family, table: str) -> bytes:
    """For one table; the kernel refuses where there is none (ENOENT)."""
    return request(SUBSYSTEM, GET_TABLE, FAMILY_NUMBERS[family], text(TABLE_NAME, table))


def chains_request(family: Family) -> bytes:
    """For the chains of all tables: the kernel has no way to ask for those of one."""
    return request(SUBSYSTEM, GET_CHAIN, FAMILY_NUMBERS[family], dump=True)


def sets_request(family: Family, table: str) -> bytes:
    return request(SUBSYSTEM, GET_SET, FAMILY_NUMBERS[family], text(SET_TABLE, table), dump=True)


def rules_request(family: Family, table: str, chain: str | None = None) -> bytes:
    """For the rules of a table, or of one of its chains."""
    where = text(RULE_TABLE, table) + (b"" if chain is None else text(RULE_CHAIN, chain))
    return request(SUBSYSTEM, GET_RULE, FAMILY_NUMBERS[family], where, dump=True)


# --- answers ----------------------------------------------------------------------------------------------------------


def generation(answer: bytes) -> int:
    """The number of transactions that this network namespace has seen, from a beginning of the kernel's choice."""
    for _, found in _told(answer, NEW_GENERATION):
        return _number(found[GENERATION_ID])
    return 0


def found_table(answer: bytes) -> FoundTable:
    """Of one table."""
    for _, found in _told(answer, NEW_TABLE):
        return FoundTable(bool(_number(found.get(TABLE_FLAGS, b""))), _number(found.get(TABLE_USE, b"")))
    return FoundTable(False, 0)


def chains(answer: bytes, table: str) -> dict[str, Hook | None]:
    """The chains of a table with their hooks. Raises Incomplete."""
    found: dict[str, Hook | None] = {}
    for _, each in _told(answer, NEW_CHAIN):
        if words(each[CHAIN_TABLE]) == table:
            found[words(each[CHAIN_NAME])] = _hook(each)
    return found


def sets(answer: bytes, table: str) -> dict[str, FoundSet]:
    """The sets and maps of a table that have a name. Raises Incomplete."""
    found: dict[str, FoundSet] = {}
    for _, each in _told(answer, NEW_SET):
        name = words(each[SET_NAME])
        if words(each[SET_TABLE]) == table and not name.startswith(_ANONYMOUS):
            kind = "map" if _number(each.get(SET_FLAGS, b"\0\0\0\0")) & IS_MAP else "set"
            found[name] = FoundSet(kind, _number(each[SET_COUNT]) if SET_COUNT in each else None)
    return found


def rules(answer: bytes, table: str) -> dict[str, tuple[FoundRule, ...]]:
    """The rules of each chain of a table that has some. Raises Incomplete."""
    found: dict[str, list[FoundRule]] = {}
    for _, each in _told(answer, NEW_RULE):
        if words(each[RULE_TABLE]) == table:
            chain = words(each[RULE_CHAIN])
            expressions, unnamed = _alike(each.get(RULE_EXPRESSIONS, b""))
            found.setdefault(chain, []).append(FoundRule(chain, each[RULE_HANDLE], expressions, unnamed))
    return {chain: tuple(some) for chain, some in found.items()}


def _told(answer: bytes, message: int) -> Iterator[tuple[int, Mapping[int, bytes]]]:
    if not is_whole(answer):
        raise Incomplete("somebody changed the rules while they were read")
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
    kind = words(chain[CHAIN_TYPE])
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
        if kind == EXPRESSION and words(parts.get(EXPRESSION_NAME, b"")) == "lookup":
            inside = dict(attributes(parts[EXPRESSION_DATA]))
            name = words(inside[LOOKUP_SET])
            if name.startswith(_ANONYMOUS):
                unnamed.append(name)
                inside[LOOKUP_SET] = _ANONYMOUS.encode()
                found.append(repr(sorted(inside.items())).encode())
                continue
        found.append(expression)
    return b"|".join(found), tuple(unnamed)
