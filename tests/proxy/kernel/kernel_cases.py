"""Transactions, and what a kernel makes of them: the same for the real one and for the one in memory."""

import errno
from collections.abc import Mapping
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


_NOT_THERE, _THERE, _IN_USE = "No such file or directory", "File exists", "Device or resource busy"
IN: Final = f"ip {TABLE}"
CASES: Final = (
    Case(
        name="an element that comes",
        lines=(f"add element {IN} services {{ 10.9.0.3 . sctp . 9 : goto c-2 }}",),
        services=_SERVICES | {"10.9.0.3 . sctp . 9": "goto c-2"},
    ),
    Case(
        name="an element that is there already, with the same value",
        lines=(f"add element {IN} services {{ 10.9.0.1 . tcp . 80 : goto c-1 }}",),
    ),
    Case(
        name="an element that is there already, with another value",
        lines=(f"add element {IN} services {{ 10.9.0.1 . tcp . 80 : goto c-2 }}",),
        refused=_THERE,
    ),
    Case(
        name="an endpoint that is there already, with another value",
        lines=(f"add element {IN} endpoints {{ 10.9.0.1 . tcp . 80 . 0 : 10.0.0.2 . 8080 }}",),
        refused=_THERE,
    ),
    Case(
        name="an element that gets another value",
        lines=(
            f"delete element {IN} services {{ 10.9.0.1 . tcp . 80 : goto c-1 }}",
            f"add element {IN} services {{ 10.9.0.1 . tcp . 80 : goto c-2 }}",
        ),
        services=_SERVICES | {"10.9.0.1 . tcp . 80": "goto c-2"},
    ),
    Case(
        name="an endpoint that gets another value",
        lines=(
            f"delete element {IN} endpoints {{ 10.9.0.1 . tcp . 80 . 0 : 10.0.0.1 . 8080 }}",
            f"add element {IN} endpoints {{ 10.9.0.1 . tcp . 80 . 0 : 10.0.0.2 . 8081 }}",
        ),
        endpoints={"10.9.0.1 . tcp . 80 . 0": "10.0.0.2 . 8081"},
    ),
    Case(
        name="an element that is not there goes",
        lines=(f"delete element {IN} services {{ 10.9.0.9 . tcp . 80 : goto c-1 }}",),
        refused=_NOT_THERE,
    ),
    Case(name="an element goes", lines=(f"delete element {IN} cluster-ips {{ 10.9.0.1 }}",), cluster_ips=frozenset()),
    Case(
        name="one of two elements is not there, and neither goes",
        lines=(f"delete element {IN} services {{ 10.9.0.1 . tcp . 80 : goto c-1, 10.9.0.9 . tcp . 80 : drop }}",),
        refused=_NOT_THERE,
    ),
    Case(
        name="a later line is refused, and the first is not done",
        lines=(f"add element {IN} cluster-ips {{ 10.9.0.7 }}", f"delete element {IN} cluster-ips {{ 10.9.0.8 }}"),
        refused=_NOT_THERE,
    ),
    Case(
        name="an element of a set that is not there",
        lines=(f"add element {IN} nobody {{ 10.9.0.1 }}",),
        refused=_NOT_THERE,
    ),
    Case(
        name="an element that leads to a chain that is not there",
        lines=(f"add element {IN} services {{ 10.9.0.3 . tcp . 80 : goto c-9 }}",),
        refused=_NOT_THERE,
    ),
    Case(
        name="a chain that elements lead to goes",
        lines=(f"flush chain {IN} c-1", f"delete chain {IN} c-1"),
        refused=_IN_USE,
    ),
    Case(
        name="a chain that a rule leads to goes",
        lines=(f"flush chain {IN} c-2", f"delete chain {IN} c-2"),
        refused=_IN_USE,
    ),
    Case(
        name="a chain goes with the element that led there",
        lines=(
            f"delete element {IN} services {{ 10.9.0.1 . tcp . 80 : goto c-1 }}",
            f"flush chain {IN} c-1",
            f"delete chain {IN} c-1",
        ),
        services={"10.9.0.2 . udp . 53": "drop"},
        chains={name: number for name, number in _CHAINS.items() if name != "c-1"},
    ),
    Case(
        name="two chains go, one of which led to the other",
        lines=(
            f"flush chain {IN} c-2",
            f"flush chain {IN} other",
            f"delete chain {IN} c-2",
            f"delete chain {IN} other",
        ),
        chains={"c-1": 0, "enters": 1},
    ),
    Case(name="a chain that is not there goes", lines=(f"delete chain {IN} nobody",), refused=_NOT_THERE),
    Case(
        name="a chain comes with an element that leads there",
        lines=(
            f"add chain {IN} c-3",
            f"add rule {IN} c-3 goto c-1",
            f"add element {IN} services {{ 10.9.0.3 . tcp . 80 : goto c-3 }}",
        ),
        services=_SERVICES | {"10.9.0.3 . tcp . 80": "goto c-3"},
        chains=_CHAINS | {"c-3": 1},
    ),
    Case(
        name="a chain that is there comes again, and keeps its rules",
        lines=(f"add chain {IN} other", f"add chain {IN} enters {{ type filter hook forward priority -5; }}"),
    ),
    Case(
        name="rules are written again",
        lines=(f"flush chain {IN} other", f"add rule {IN} other goto c-1", f"add rule {IN} other drop"),
        chains=_CHAINS | {"other": 2},
    ),
    Case(name="a rule in a chain that is not there", lines=(f"add rule {IN} nobody drop",), refused=_NOT_THERE),
    Case(
        name="a rule that leads to a chain that is not there",
        lines=(f"add rule {IN} other goto nobody",),
        refused=_NOT_THERE,
    ),
    Case(
        name="a rule that asks a set that is not there",
        lines=(f"add rule {IN} other ip daddr @nobody drop",),
        refused=_NOT_THERE,
    ),
    Case(name="a set that a rule asks goes", lines=(f"delete set {IN} services",), refused=_IN_USE),
    Case(
        name="a set that nobody asks goes, with its elements",
        lines=(f"delete set {IN} cluster-ips",),
        cluster_ips=frozenset(),
        sets=frozenset(SETS) - {"cluster-ips"},
    ),
    Case(
        name="a set that is there comes with another type",
        lines=(f"add set {IN} cluster-ips {{ type inet_service; }}",),
        refused=_THERE,
    ),
    Case(name="the table goes", lines=(f"delete table {IN}",), is_gone=True),
    Case(name="a table that is not there goes", lines=("delete table ip nobody",), refused=_NOT_THERE),
    Case(
        name="the table goes and comes at once, with what is new alone",
        lines=(
            f"add table {IN}",
            f"delete table {IN}",
            f"add table {IN}",
            f"add set {IN} cluster-ips {{ type ipv4_addr; }}",
            f"add element {IN} cluster-ips {{ 10.9.0.5 }}",
        ),
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
