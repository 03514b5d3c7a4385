"""Transactions that `kernel_checks` gives to a kernel: to the real one and to the one in memory."""

import errno
import re
from dataclasses import dataclass, field
from typing import Final

from zoneward.proxy.ruleset.ruleset import Elements, SetDeclaration

TABLE: Final = "tested"
SETS: Final = {
    "services": SetDeclaration("map", "type ipv4_addr . inet_proto . inet_service : verdict"),
    "endpoints": SetDeclaration(
        "map", "typeof ip daddr . meta l4proto . th dport . numgen random mod 65536 : ip daddr . tcp dport"
    ),
    "cluster-ips": SetDeclaration("set", "type ipv4_addr"),
}
BEGIN: Final = "\n".join(
    (
        f"add table ip {TABLE}",
        *(f"add {declaration.kind} ip {TABLE} {name} {{ {declaration.spec}; }}" for name, declaration in SETS.items()),
        f"add chain ip {TABLE} c-1",
        f"add chain ip {TABLE} c-2",
        f"add chain ip {TABLE} other",
        f"add chain ip {TABLE} enters {{ type filter hook forward priority -5; }}",
        f"add rule ip {TABLE} enters ip daddr . meta l4proto . th dport vmap @services",
        f"add rule ip {TABLE} other goto c-2",
        f"add element ip {TABLE} services {{ 10.9.0.1 . tcp . 80 : goto c-1, 10.9.0.2 . udp . 53 : drop }}",
        f"add element ip {TABLE} endpoints {{ 10.9.0.1 . tcp . 80 . 0 : 10.0.0.1 . 8080 }}",
        f"add element ip {TABLE} cluster-ips {{ 10.9.0.1 }}",
        "",
    )
)
IN: Final = f"ip {TABLE}"
_FIRST, _NOBODYS = "10.9.0.1 . tcp . 80", "10.9.0.9 . tcp . 80"
_DELETE_FIRST: Final = f"delete element services {{ {_FIRST} : goto c-1 }}"
_DONE: Final = {
    "an element that comes": ["add element services { 10.9.0.3 . sctp . 9 : goto c-2 }"],
    "an element that is there already, with the same value": [f"add element services {{ {_FIRST} : goto c-1 }}"],
    "an element that gets another value": [_DELETE_FIRST, f"add element services {{ {_FIRST} : goto c-2 }}"],
    "an endpoint that gets another value": [
        f"delete element endpoints {{ {_FIRST} . 0 : 10.0.0.1 . 8080 }}",
        f"add element endpoints {{ {_FIRST} . 0 : 10.0.0.2 . 8081 }}",
    ],
    "an element is deleted": ["delete element cluster-ips { 10.9.0.1 }"],
    "a chain is deleted with the element that leads there": [_DELETE_FIRST, "flush chain c-1", "delete chain c-1"],
    "two chains are deleted, one of which leads to the other": [
        *("flush chain c-2", "flush chain other"),
        *("delete chain c-2", "delete chain other"),
    ],
    "a chain comes with an element that leads there": [
        *("add chain c-3", "add rule c-3 goto c-1"),
        "add element services { 10.9.0.3 . tcp . 80 : goto c-3 }",
    ],
    "a chain that is there comes again, and keeps its rules": [
        *("add chain other", "add chain enters { type filter hook forward priority -5; }"),
    ],
    "rules are written again": ["flush chain other", "add rule other goto c-1", "add rule other drop"],
    "a set that no rule uses is deleted, with its elements": ["delete set cluster-ips"],
    "the table is deleted": [f"delete table {IN}"],
    "the table is deleted and added at once, with new contents only": [
        *(f"add table {IN}", f"delete table {IN}", f"add table {IN}"),
        *("add set cluster-ips { type ipv4_addr; }", "add element cluster-ips { 10.9.0.5 }"),
    ],
}
_REFUSED: Final = {
    "No such file or directory": {
        "an element that is not there is deleted": [f"delete element services {{ {_NOBODYS} : goto c-1 }}"],
        "one of two elements is not there, and neither is deleted": [
            f"delete element services {{ {_FIRST} : goto c-1, {_NOBODYS} : drop }}"
        ],
        "a later line is refused, and the first is not done": [
            *("add element cluster-ips { 10.9.0.7 }", "delete element cluster-ips { 10.9.0.8 }"),
        ],
        "an element of a set that is not there": ["add element nobody { 10.9.0.1 }"],
        "an element that leads to a chain that is not there": [f"add element services {{ {_NOBODYS} : goto c-9 }}"],
        "a chain that is not there is deleted": ["delete chain nobody"],
        "a rule in a chain that is not there": ["add rule nobody drop"],
        "a rule that leads to a chain that is not there": ["add rule other goto nobody"],
        "a rule that asks a set that is not there": ["add rule other ip daddr @nobody drop"],
        "a table that is not there is deleted": ["delete table ip nobody"],
    },
    "File exists": {
        "an element that is there already, with another value": [f"add element services {{ {_FIRST} : goto c-2 }}"],
        "an endpoint that is there already, with another value": [
            f"add element endpoints {{ {_FIRST} . 0 : 10.0.0.2 . 8080 }}"
        ],
        "a set that is there comes with another type": ["add set cluster-ips { type inet_service; }"],
    },
    "Device or resource busy": {
        "a chain that elements lead to is deleted": ["flush chain c-1", "delete chain c-1"],
        "a chain that a rule leads to is deleted": ["flush chain c-2", "delete chain c-2"],
        "a set that a rule uses is deleted": ["delete set services"],
    },
}


@dataclass(frozen=True, slots=True)
class Case:
    """A transaction, with a part of the error if the kernel refuses it."""

    name: str
    commands: str
    refused: str | None = None


def _case(name: str, lines: list[str], refused: str | None = None) -> Case:
    """Lines do not name the table under test; it is inserted here."""
    commands = [re.sub(r"^(\w+ (?:element|chain|rule|set)) ", rf"\1 {IN} ", line) for line in lines]
    return Case(name, "\n".join((*commands, "")), refused)


CASES: Final = (
    *(_case(*item) for item in _DONE.items()),
    *(_case(*item, refused=why) for why, lines_by_name in _REFUSED.items() for item in lines_by_name.items()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A transaction of elements alone, in the kernel's format, with the error number if the kernel refuses it."""

    name: str
    removed: Elements = field(default_factory=dict)
    added: Elements = field(default_factory=dict)
    refused: int | None = None


_MANY: Final = {f"10.8.{index // 200}.{index % 200} . tcp . 80": "goto c-2" for index in range(3000)}
_NEW: Final = {"services": {"10.9.0.3 . tcp . 80": "drop"}}
BATCHES: Final = (
    Batch(name="elements that come", added={"services": {"10.9.0.3 . sctp . 9": "goto c-2", _NOBODYS: "drop"}}),
    Batch(name="more elements than one message holds", added={"services": _MANY}),
    Batch(
        name="elements that get another value",
        removed={"services": {_FIRST: "goto c-1"}, "endpoints": {f"{_FIRST} . 0": "10.0.0.1 . 8080"}},
        added={
            "services": {_FIRST: "goto c-2"},
            "endpoints": {f"{_FIRST} . 0": "10.0.0.2 . 8081", f"{_FIRST} . 4711": "10.0.0.3 . 1"},
        },
    ),
    Batch(name="an element that is there already, with the same value", added={"services": {_FIRST: "goto c-1"}}),
    Batch(
        name="an element that is there already, with another value",
        added={"services": _NEW["services"] | {_FIRST: "goto c-2"}},
        refused=errno.EEXIST,
    ),
    Batch(
        name="an element that is not there is deleted, and others are added",
        removed={"services": {_NOBODYS: "drop"}},
        added=_NEW,
        refused=errno.ENOENT,
    ),
    Batch(
        name="an element that leads to a chain that is not there",
        added={"services": {_NOBODYS: "goto c-9"}},
        refused=errno.ENOENT,
    ),
    Batch(name="an element of a set that is not there", added={"nobody": _NEW["services"]}, refused=errno.ENOENT),
)
