"""Counts of the kernel come to totals by Service and zone, whatever the kernel forgets meanwhile."""

import socket
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import msgspec
import pytest
from tests.proxy.drawn_services import node_service, one_port

from zoneward.netlink.messages import GENERIC, HEADER, Family, attribute, nested, string_attribute
from zoneward.netlink.nftables import ELEMENT, ELEMENTS, KEY, NEW_ELEMENTS, SUBSYSTEM, VALUE
from zoneward.proxy.measure import connection_totals as measured
from zoneward.proxy.measure.connection_collector import ServiceLookup, service_lookups
from zoneward.proxy.measure.connection_set import (
    EXPRESSION,
    EXPRESSION_DATA,
    EXPRESSIONS,
    PACKETS,
    CountedConnection,
    parse_connection,
    parse_counts,
)
from zoneward.proxy.measure.connection_totals import ConnectionTotals, ZoneTotal
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.snapshots.measured_traffic_files import read_measured_traffic

START = datetime(2026, 3, 1, tzinfo=UTC)
CART = ("shop", "cart")
ZONES = {"10.1.0.1": "a", "10.2.0.1": "b", "fd00::1": "a"}
PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}


def an_answer(
    found: Mapping[tuple[str, str], int], *, port: int = 80, protocol: str = "tcp", expressions: int = 1
) -> bytes:
    """What the kernel tells: counts by endpoint and address. ``expressions``: how many an element may have."""
    elements = [_element(*each, port, protocol, number, expressions) for each, number in found.items()]
    body = GENERIC.pack(socket.AF_INET, 0, 0) + string_attribute(1, "zoneward") + nested(ELEMENTS, elements)
    kind = SUBSYSTEM << 8 | NEW_ELEMENTS
    return HEADER.pack(HEADER.size + len(body), kind, 2, 1, 0) + body + HEADER.pack(20, 3, 2, 1, 0) + b"\0" * 4


def _element(endpoint: str, address: str, port: int, protocol: str, number: int, expressions: int) -> bytes:
    key = ip_address(endpoint).packed + ip_address(address).packed + struct.pack("!HxxBxxx", port, PROTOCOLS[protocol])
    counter = [attribute(1, struct.pack(">Q", number * 60)), attribute(PACKETS, struct.pack(">Q", number))]
    expression = [attribute(1, b"counter\0"), nested(EXPRESSION_DATA, counter)]
    told = nested(EXPRESSION, expression) if expressions == 1 else nested(EXPRESSIONS, [nested(1, expression)])
    return nested(ELEMENT, [nested(KEY, [attribute(VALUE, key)]), attribute(5, struct.pack(">Q", 1000)), told])


def served(family: Family, *, cluster_ip: str, node_port: int | None = None) -> NodeService:
    target = Backend("10.1.0.1" if family == "ip" else "fd00::1", 8080)
    outer = ("192.0.2.9",) if family == "ip" else ()
    port = one_port(target, node_port=node_port)
    return node_service(port, name="cart", family=family, cluster_ip=cluster_ip, load_balancer_ips=outer)


@pytest.fixture
def known() -> dict[Family, ServiceLookup]:
    found = service_lookups()
    found["ip"].set_service(CART, served("ip", cluster_ip="10.96.0.1", node_port=30_080))
    found["ip6"].set_service(CART, served("ip6", cluster_ip="fd00::96"))
    return found


def measuring(known: Mapping[Family, ServiceLookup]) -> ConnectionTotals:
    return ConnectionTotals(
        since=START,
        service_of=lambda family, one: known[family].find(one.address, one.protocol, one.port),
        zone_of=lambda _service, endpoint: ZONES.get(endpoint),
    )


def taken(known: Mapping[Family, ServiceLookup], *answers: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Totals of internal traffic by zone after the kernel's answers; the first is what was there before."""
    some = measuring(known)
    for each in answers:
        some.add_counts("ip", an_answer(each), now=START)
    return {each.zone: each.connections for each in some.totals() if each.internal}


A, B, UNKNOWN = ("10.1.0.1", "10.96.0.1"), ("10.2.0.1", "10.96.0.1"), ("10.9.9.9", "10.96.0.1")


@pytest.mark.parametrize("expressions", [1, 2])
@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
@pytest.mark.parametrize(("endpoint", "address"), [("10.1.0.1", "10.96.0.1"), ("fd00::1", "fd00::96")])
def test_the_kernels_answer_is_read(endpoint: str, address: str, protocol: str, expressions: int) -> None:
    # Counts of which each looks as if it began where another does.
    wanted = {(endpoint, address): 7, (address, endpoint): 2**40, (address, address): 0}
    found = parse_counts(an_answer(wanted, port=443, protocol=protocol, expressions=expressions))
    family: Family = "ip6" if ":" in endpoint else "ip"
    assert {parse_connection(family, key): number for key, number in found.items()} == {
        CountedConnection(one, asked, 443, protocol): number for (one, asked), number in wanted.items()
    }


@pytest.mark.parametrize(
    ("answers", "counted"),
    [
        pytest.param([{A: 100, B: 7}, {A: 130, B: 7}], {"a": 30}, id="counts from before the start are not ours"),
        pytest.param([{}, {A: 3}, {A: 5, B: 1}], {"a": 5, "b": 1}, id="later ones count from nothing"),
        pytest.param([{}, {A: 10}, {A: 4}], {"a": 14}, id="a counter that begins again adds up"),
        pytest.param([{}, {A: 10}, {}, {}, {A: 12}], {"a": 22}, id="a forgotten counter stays counted"),
        pytest.param([{}, {A: 10}, {}, {A: 12}], {"a": 12}, id="a counter missing once is not counted twice"),
        pytest.param([{}, {UNKNOWN: 2, A: 1}], {"": 2, "a": 1}, id="an unknown endpoint has no zone"),
        pytest.param([{}, {("10.1.0.1", "203.0.113.5"): 9}], {}, id="forwarding of others is not counted"),
    ],
)
def test_counts_of_the_kernel_come_to_totals_by_zone(
    known: dict[Family, ServiceLookup], answers: list[dict[tuple[str, str], int]], counted: dict[str, int]
) -> None:
    assert taken(known, *answers) == counted


def test_an_endpoint_that_was_known_keeps_its_zone(known: dict[Family, ServiceLookup]) -> None:
    zones: dict[str, str] = dict(ZONES)
    some = ConnectionTotals(
        since=START,
        service_of=lambda family, one: known[family].find(one.address, one.protocol, one.port),
        zone_of=lambda _service, endpoint: zones.get(endpoint),
    )
    for each in ({}, {A: 1}, {A: 5}):
        some.add_counts("ip", an_answer(each), now=START)
        zones = {} if each else zones
    assert [each.connections for each in some.totals()] == [5]


def test_a_service_that_gets_the_address_of_one_that_is_gone_gets_its_connections(
    known: dict[Family, ServiceLookup],
) -> None:
    some, other = measuring(known), ("shop", "basket")
    for each in ({}, {A: 1}):
        some.add_counts("ip", an_answer(each), now=START)
    known["ip"].set_service(CART, None)
    known["ip"].set_service(other, served("ip", cluster_ip="10.96.0.1", node_port=30_080))
    some.forget_services(lambda service: service == CART)
    some.add_counts("ip", an_answer({A: 5}), now=START)
    assert list(some.totals()) == [ZoneTotal(other, "ip", True, "a", 4)]


def test_the_document_is_what_plan_reads(known: dict[Family, ServiceLookup]) -> None:
    some = measuring(known)
    some.add_counts("ip6", an_answer({}), now=START)
    for number in (0, 6):
        some.add_counts(
            "ip", an_answer({A: number, ("10.2.0.1", "192.0.2.9"): number}), now=START + timedelta(seconds=9)
        )
    some.add_counts("ip6", an_answer({("fd00::1", "fd00::96"): 3}), now=START + timedelta(seconds=8))
    told = some.document(node="n1", zone="a")
    assert list(read_measured_traffic("it", msgspec.json.encode(told))) == [told]
    assert (told.since, told.until, told.complete) == (START, START + timedelta(seconds=9), True)
    assert [(each.address_type, each.zones, each.external) for each in told.services] == [
        ("IPv4", {"a": 6}, {"b": 6}),
        ("IPv6", {"a": 3}, {}),
    ]


def test_a_full_set_is_reported_as_incomplete(
    known: dict[Family, ServiceLookup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "MAX_ELEMENTS", 2)
    some = measuring(known)
    for there, complete in (({A: 1}, True), ({A: 1, B: 1}, False), ({A: 2}, False)):
        some.add_counts("ip", an_answer(there), now=START)
        assert some.document(node="n1", zone=None).complete is complete
