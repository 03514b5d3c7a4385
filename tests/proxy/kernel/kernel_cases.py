"""Transactions, and what a kernel makes of them: the same for the real one and for the one in memory."""

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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
        *(f"add {each.kind} ip {TABLE} {name} {{ {each.spec}; }}" for name, each in SETS.items()),
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
_SERVICES: Final = {"10.9.0.1 . tcp . 80": "goto c-1", "10.9.0.2 . udp . 53": "drop"}
_ENDPOINTS: Final = {"10.9.0.1 . tcp . 80 . 0": "10.0.0.1 . 8080"}
_CHAINS: Final = {"c-1": 0, "c-2": 0, "other": 1, "enters": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``lines`` are one transaction; ``refused`` is a part of the reason; what is not given is as it was before.

    ``chains`` have as many rules.
    """

    name: str
    lines: tuple[str, ...]
    refused: str | None = None
    services: Mapping[str, str] = field(default_factory=lambda: _SERVICES)
    endpoints: Mapping[str, str] = field(default_factory=lambda: _ENDPOINTS)
    cluster_ips: frozenset[str] = frozenset({"10.9.0.1"})
    chains: Mapping[str, int] = field(default_factory=lambda: _CHAINS)
    sets: frozenset[str] = frozenset(SETS)
    is_gone: bool = False


IN: Final = f"ip {TABLE}"


def _done(name: str, *lines: str, **after: Any) -> Case:
    """Lines name no table where it is ours."""
    return Case(name=name, lines=tuple(re.sub(_COMMAND, rf"\1 {IN} ", each) for each in lines), **after)


def _refused(name: str, *lines: str, why: str) -> Case:
    return _done(name, *lines, refused=why)


_COMMAND: Final = r"^(\w+ (?:element|chain|rule|set)) "
_NOT_THERE, _THERE, _IN_USE = "No such file or directory", "File exists", "Device or resource busy"
_FIRST: Final = "10.9.0.1 . tcp . 80"
_FIRST_GOES: Final = f"delete element services {{ {_FIRST} : goto c-1 }}"
CASES: Final = (
    _done(
        "an element that comes",
        "add element services { 10.9.0.3 . sctp . 9 : goto c-2 }",
        services=_SERVICES | {"10.9.0.3 . sctp . 9": "goto c-2"},
    ),
    _done(
        "an element that is there already, with the same value",
        f"add element services {{ {_FIRST} : goto c-1 }}",
    ),
    _refused(
        "an element that is there already, with another value",
        f"add element services {{ {_FIRST} : goto c-2 }}",
        why=_THERE,
    ),
    _refused(
        "an endpoint that is there already, with another value",
        f"add element endpoints {{ {_FIRST} . 0 : 10.0.0.2 . 8080 }}",
        why=_THERE,
    ),
    _done(
        "an element that gets another value",
        _FIRST_GOES,
        f"add element services {{ {_FIRST} : goto c-2 }}",
        services=_SERVICES | {_FIRST: "goto c-2"},
    ),
    _done(
        "an endpoint that gets another value",
        f"delete element endpoints {{ {_FIRST} . 0 : 10.0.0.1 . 8080 }}",
        f"add element endpoints {{ {_FIRST} . 0 : 10.0.0.2 . 8081 }}",
        endpoints={f"{_FIRST} . 0": "10.0.0.2 . 8081"},
    ),
    _refused(
        "an element that is not there goes",
        "delete element services { 10.9.0.9 . tcp . 80 : goto c-1 }",
        why=_NOT_THERE,
    ),
    _done("an element goes", "delete element cluster-ips { 10.9.0.1 }", cluster_ips=frozenset()),
    _refused(
        "one of two elements is not there, and neither goes",
        f"delete element services {{ {_FIRST} : goto c-1, 10.9.0.9 . tcp . 80 : drop }}",
        why=_NOT_THERE,
    ),
    _refused(
        "a later line is refused, and the first is not done",
        "add element cluster-ips { 10.9.0.7 }",
        "delete element cluster-ips { 10.9.0.8 }",
        why=_NOT_THERE,
    ),
    _refused("an element of a set that is not there", "add element nobody { 10.9.0.1 }", why=_NOT_THERE),
    _refused(
        "an element that leads to a chain that is not there",
        "add element services { 10.9.0.3 . tcp . 80 : goto c-9 }",
        why=_NOT_THERE,
    ),
    _refused("a chain that elements lead to goes", "flush chain c-1", "delete chain c-1", why=_IN_USE),
    _refused("a chain that a rule leads to goes", "flush chain c-2", "delete chain c-2", why=_IN_USE),
    _done(
        "a chain goes with the element that led there",
        _FIRST_GOES,
        "flush chain c-1",
        "delete chain c-1",
        services={"10.9.0.2 . udp . 53": "drop"},
        chains={name: number for name, number in _CHAINS.items() if name != "c-1"},
    ),
    _done(
        "two chains go, one of which led to the other",
        "flush chain c-2",
        "flush chain other",
        "delete chain c-2",
        "delete chain other",
        chains={"c-1": 0, "enters": 1},
    ),
    _refused("a chain that is not there goes", "delete chain nobody", why=_NOT_THERE),
    _done(
        "a chain comes with an element that leads there",
        "add chain c-3",
        "add rule c-3 goto c-1",
        "add element services { 10.9.0.3 . tcp . 80 : goto c-3 }",
        services=_SERVICES | {"10.9.0.3 . tcp . 80": "goto c-3"},
        chains=_CHAINS | {"c-3": 1},
    ),
    _done(
        "a chain that is there comes again, and keeps its rules",
        "add chain other",
        "add chain enters { type filter hook forward priority -5; }",
    ),
    _done(
        "rules are written again",
        "flush chain other",
        "add rule other goto c-1",
        "add rule other drop",
        chains=_CHAINS | {"other": 2},
    ),
    _refused("a rule in a chain that is not there", "add rule nobody drop", why=_NOT_THERE),
    _refused("a rule that leads to a chain that is not there", "add rule other goto nobody", why=_NOT_THERE),
    _refused("a rule that asks a set that is not there", "add rule other ip daddr @nobody drop", why=_NOT_THERE),
    _refused("a set that a rule asks goes", "delete set services", why=_IN_USE),
    _done(
        "a set that nobody asks goes, with its elements",
        "delete set cluster-ips",
        cluster_ips=frozenset(),
        sets=frozenset(SETS) - {"cluster-ips"},
    ),
    _refused("a set that is there comes with another type", "add set cluster-ips { type inet_service; }", why=_THERE),
    _done("the table goes", f"delete table {IN}", is_gone=True),
    _refused("a table that is not there goes", "delete table ip nobody", why=_NOT_THERE),
    _done(
        "the table goes and comes at once, with what is new alone",
        f"add table {IN}",
        f"delete table {IN}",
        f"add table {IN}",
        "add set cluster-ips { type ipv4_addr; }",
        "add element cluster-ips { 10.9.0.5 }",
        services={},
        endpoints={},
        cluster_ips=frozenset({"10.9.0.5"}),
        chains={},
        sets=frozenset({"cluster-ips"}),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A transaction of elements alone, in the kernel's own words; otherwise as `Case`."""

    name: str
    removed: Elements = field(default_factory=dict)
    added: Elements = field(default_factory=dict)
    refused: int | None = None
    services: Mapping[str, str] = field(default_factory=lambda: _SERVICES)
    endpoints: Mapping[str, str] = field(default_factory=lambda: _ENDPOINTS)


_MANY: Final = {f"10.8.{number // 200}.{number % 200} . tcp . 80": "goto c-2" for number in range(3000)}
BATCHES: Final = (
    Batch(
        name="elements that come",
        added={"services": {"10.9.0.3 . sctp . 9": "goto c-2", "10.9.0.4 . tcp . 65535": "drop"}},
        services=_SERVICES | {"10.9.0.3 . sctp . 9": "goto c-2", "10.9.0.4 . tcp . 65535": "drop"},
    ),
    Batch(name="more elements than one message holds", added={"services": _MANY}, services=_SERVICES | _MANY),
    Batch(
        name="elements that get another value",
        removed={"services": {"10.9.0.1 . tcp . 80": "goto c-1"}, "endpoints": _ENDPOINTS},
        added={
            "services": {"10.9.0.1 . tcp . 80": "goto c-2"},
            "endpoints": {"10.9.0.1 . tcp . 80 . 0": "10.0.0.2 . 8081", "10.9.0.1 . tcp . 80 . 4711": "10.0.0.3 . 1"},
        },
        services=_SERVICES | {"10.9.0.1 . tcp . 80": "goto c-2"},
        endpoints={"10.9.0.1 . tcp . 80 . 0": "10.0.0.2 . 8081", "10.9.0.1 . tcp . 80 . 4711": "10.0.0.3 . 1"},
    ),
    Batch(
        name="an element that is there already, with the same value",
        added={"services": {"10.9.0.1 . tcp . 80": "goto c-1"}},
    ),
    Batch(
        name="an element that is there already, with another value",
        added={"services": {"10.9.0.3 . tcp . 80": "drop", "10.9.0.1 . tcp . 80": "goto c-2"}},
        refused=errno.EEXIST,
    ),
    Batch(
        name="an element that is not there goes, and others would have come",
        removed={"services": {"10.9.0.9 . tcp . 80": "drop"}},
        added={"services": {"10.9.0.3 . tcp . 80": "drop"}},
        refused=errno.ENOENT,
    ),
    Batch(
        name="an element that leads to a chain that is not there",
        added={"services": {"10.9.0.3 . tcp . 80": "goto c-9"}},
        refused=errno.ENOENT,
    ),
    Batch(
        name="an element of a set that is not there",
        added={"nobody": {"10.9.0.3 . tcp . 80": "goto c-1"}},
        refused=errno.ENOENT,
    ),
)
