"""The meter counts a flow for the requested Service, by where it started and which endpoint replies."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any, Final, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.objects import a_node, a_service, a_slice
from tests.netlink.flow_messages import FlowMessage

from zoneward.client.resources import NODES, RAW_SLICES
from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic
from zoneward.kube.objects import Service
from zoneward.meter.conntrack_reader import ConntrackReader, ConntrackUnavailable
from zoneward.meter.flow_meter import FlowMeter, FlowTable
from zoneward.meter.meter_cache import MeterCache, MeteredNode
from zoneward.meter.traffic_totals import TrafficTotal
from zoneward.netlink.conntrack import Flow, read_flows
from zoneward.snapshots.measured_traffic_files import read_measured_traffic

VIP, BALANCER, NODE = (socket.inet_aton(name) for name in ("10.96.0.1", "198.51.100.1", "192.0.2.1"))
POD, STRANGER = (socket.inet_aton(name) for name in ("10.1.0.5", "203.0.113.9"))
NEAR, FAR, UNKNOWN = (socket.inet_aton(name) for name in ("10.1.0.1", "10.2.0.1", "10.9.0.1"))
CART: Final = ("shop", "cart")


class Kernel:
    """What a kernel would announce and dump."""

    def __init__(self) -> None:
        self.announced: list[bytes] = []
        self.live: list[bytes] = []
        self.lost = 0
        self.refuses = ""

    def ended_flows(self) -> Iterator[bytes]:
        while self.announced:
            yield self.announced.pop(0)

    def dump(self) -> Iterator[bytes]:
        if self.refuses:
            raise ConntrackUnavailable(self.refuses)
        yield b"".join(self.live)


class Site:
    """A meter of node n1 in zone a, and a clock that is always late enough for another dump."""

    def __init__(self) -> None:
        self.kernel, self.now = Kernel(), 0.0
        self.cache = MeterCache("n1", clock=lambda: self.now)
        self.cache.node = MeteredNode("a", frozenset({b"\xc0\0\2\1"}), (ip_network("10.1.0.0/16"),))
        port = {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30_080}
        service = a_service("cart", namespace="shop", clusterIP="10.96.0.1", externalIPs=["198.51.100.1"], ports=[port])
        self.cache.services.set_service(CART, msgspec.convert(service, Service))
        endpoints = [("10.1.0.1", "a"), ("10.2.0.1", "b"), ("10.1.0.3", None)]
        self.cache.endpoints.set_slice(("shop", "cart-1"), CART, endpoints, now=0.0)
        self.time = datetime(2026, 3, 1, tzinfo=UTC)
        self.meter = self.new_meter()

    def new_meter(self) -> FlowMeter:
        kernel = cast(ConntrackReader, self.kernel)
        return FlowMeter(kernel, self.cache, limit=10, now=lambda: self.time, clock=self._later)

    def _later(self) -> float:
        self.now += 100.0
        return self.now

    async def ends(self, *flows: FlowMessage) -> ServiceTraffic:
        """What the meter counts for the Service after these flows ended."""
        await self.meter.poll()
        self.kernel.announced += [flow.but(ended=True).message() for flow in flows]
        (traffic,) = (await self.document()).services
        return traffic

    async def document(self) -> MeasuredTraffic:
        return msgspec.json.decode(await self.meter.document(), type=MeasuredTraffic)


def to(destination: bytes, port: int, *, source: bytes = POD, endpoint: bytes = FAR, **more: Any) -> FlowMessage:
    ports = b"\x80\0", port.to_bytes(2)
    return FlowMessage(destination=destination, ports=ports, source=source, endpoint=endpoint, **more)


@pytest.mark.parametrize(
    ("flow", "from_outside"),
    [
        (to(VIP, 80), False),
        # A cluster IP is not reachable from outside.
        (to(VIP, 80, source=STRANGER), False),
        (to(BALANCER, 80), False),
        (to(BALANCER, 80, source=STRANGER), True),
        (to(NODE, 30_080, source=STRANGER), True),
        (to(NODE, 30_080, source=NODE), False),
    ],
)
async def test_traffic_starts_on_the_node_or_outside(flow: FlowMessage, from_outside: bool) -> None:
    traffic = await Site().ends(flow)
    assert (traffic.zones, traffic.external) == (({}, {"b": 1}) if from_outside else ({"b": 1}, {}))


async def test_traffic_goes_to_the_zone_of_the_endpoint_as_far_as_it_is_known() -> None:
    flows = (
        to(VIP, 80, endpoint=endpoint, identity=endpoint)
        for endpoint in (NEAR, FAR, socket.inet_aton("10.1.0.3"), UNKNOWN)
    )
    traffic = await Site().ends(*flows)
    assert traffic.zones == {"a": 1, "b": 1, "": 2}
    assert not isinstance(traffic.bytes, msgspec.UnsetType)
    assert {zone: (byte_counts.request, byte_counts.response) for zone, byte_counts in traffic.bytes.items()} == {
        "a": (100, 1000),
        "b": (100, 1000),
        "": (200, 2000),
    }


async def test_flows_after_a_change_of_a_slice_or_of_the_node_are_counted_by_what_is_known_then() -> None:
    site = Site()
    await site.ends(to(VIP, 80, identity=b"one_"))
    moved = a_slice("cart-1", namespace="shop", service="cart", addresses=["10.2.0.1"], zone="c", version=2)
    decoded = msgspec.json.decode(msgspec.json.encode(moved), type=RAW_SLICES.struct)
    site.cache.store(RAW_SLICES).put(decoded)
    assert (await site.ends(to(VIP, 80, identity=b"two_"))).zones == {"b": 1, "c": 1}
    node = a_node("n1", "z", version=3)
    site.cache.store(NODES).put(msgspec.json.decode(msgspec.json.encode(node), type=NODES.struct))
    await site.ends(to(VIP, 80, identity=b"three"[:4]))
    assert {(route.from_zone, route.to_zone) for route, _ in site.meter.totals.totals()} == {
        ("a", "b"),
        ("a", "c"),
        ("z", "c"),
    }


async def test_what_somebody_else_translates_is_not_counted() -> None:
    site = Site()
    await site.meter.poll()
    for flow in (to(NODE, 30_080, endpoint=UNKNOWN), to(VIP, 81), to(VIP, 80, protocol=socket.IPPROTO_UDP)):
        site.kernel.announced.append(flow.but(ended=True).message())
    assert not (await site.document()).services


async def test_documents_can_be_appended_to_one_file() -> None:
    site = Site()
    lines = [await site.meter.document(), await site.meter.document()]
    assert len(list(read_measured_traffic("measured.jsonl", b"".join(lines)))) == 2


async def test_a_clock_that_is_set_while_the_meter_runs_does_not_change_for_how_long_it_counted() -> None:
    site = Site()
    site.time = datetime(1970, 1, 1, tzinfo=UTC)
    began, meter = site.now, site.new_meter()
    site.time = datetime(2026, 3, 1, tzinfo=UTC)
    document = msgspec.json.decode(await meter.document(), type=MeasuredTraffic)
    assert (document.until - document.since).total_seconds() == pytest.approx(site.now - began, abs=100)


async def test_a_document_says_when_something_is_missing() -> None:
    site = Site()
    await site.meter.poll()
    site.kernel.live = [to(VIP, 80, counts=None).message()]
    assert (await site.document()).complete, "a flow without counters is not a gap"
    site.kernel.live += [to(VIP, 80, identity=b"two_").message()]
    assert not (await site.document()).complete
    site = Site()
    await site.meter.poll()
    site.kernel.lost = 7
    assert not (await site.document()).complete


async def test_a_kernel_that_refuses_a_dump_is_asked_again_and_nothing_is_lost() -> None:
    site = Site()
    await site.meter.poll()
    site.kernel.live = [to(VIP, 80).message()]
    site.kernel.refuses = "no memory"
    with pytest.raises(ConntrackUnavailable, match="no memory"):
        await site.meter.poll()
    site.kernel.refuses = ""
    (traffic,) = (await site.document()).services
    assert traffic.zones == {"b": 1}


# --- each connection and each byte is counted once --------------------------------------------------------------------


@dataclass(slots=True)
class LiveFlow:
    identity: int
    sent: int = 0
    counts: bool = True

    def as_reported(self) -> Flow:
        counts = (self.sent, 2 * self.sent) if self.counts else None
        (flow,) = read_flows(FlowMessage(identity=self.identity.to_bytes(4), counts=counts).message())
        return flow


class TrackedFlows:
    """A table of flows beside the real one, and what a meter counts of it."""

    def __init__(self) -> None:
        self.total = TrafficTotal()
        self.table = FlowTable(lambda _flow: self.total)
        self.live: dict[int, LiveFlow] = {}
        self._next = 0
        self._written: list[Flow] = []

    def begin(self, sent: int = 0, *, counts: bool = True) -> LiveFlow:
        self._next += 1
        flow = self.live[self._next] = LiveFlow(self._next, sent, counts)
        return flow

    def end(self, flow: LiveFlow, *, announced: bool = True) -> None:
        del self.live[flow.identity]
        if announced:
            self.table.add_ended(flow.as_reported())

    def dump(self) -> None:
        self.begin_dump()
        self.end_dump()

    def begin_dump(self) -> None:
        """The kernel writes the whole dump now; the meter reads it at the end."""
        self.table.begin_dump()
        self._written = [flow.as_reported() for flow in self.live.values()]

    def end_dump(self) -> None:
        for flow in self._written:
            self.table.add_dumped(flow)
        self.table.end_dump()

    @property
    def counted(self) -> tuple[int, int, int]:
        return self.total.connections, self.total.request, self.total.response


STEPS: Final = st.lists(
    st.tuples(st.sampled_from(("begin", "send", "end", "dump", "begin dump", "end dump")), st.integers(0, 99)),
    max_size=40,
)


@given(STEPS, st.integers(0, 3))
def test_every_connection_and_byte_after_the_first_dump_is_counted_once(
    steps: list[tuple[str, int]], before: int
) -> None:
    kernel = TrackedFlows()
    for index in range(before):
        kernel.begin(sent=1000 * index)
    kernel.dump()
    connections = sent = 0
    is_dumping = False
    for step, amount in steps:
        flows = list(kernel.live.values())
        if step == "begin":
            kernel.begin(sent=amount)
            connections, sent = connections + 1, sent + amount
        elif step in ("send", "end") and flows:
            flow = flows[amount % len(flows)]
            flow.sent, sent = flow.sent + amount, sent + amount
            if step == "end":
                kernel.end(flow)
        elif step == "begin dump" and not is_dumping:
            kernel.begin_dump()
            is_dumping = True
        elif step == "end dump" and is_dumping:
            kernel.end_dump()
            is_dumping = False
        elif step == "dump" and not is_dumping:
            kernel.dump()
    if is_dumping:
        kernel.end_dump()
    kernel.dump()
    assert kernel.counted == (connections, sent, 2 * sent)
    assert len(kernel.table) == len(kernel.live)


def test_before_the_first_dump_nothing_is_counted() -> None:
    kernel = TrackedFlows()
    kernel.end(kernel.begin(sent=10))
    assert not kernel.table.has_baseline
    assert kernel.counted == (0, 0, 0)


def test_a_flow_that_ends_unannounced_is_forgotten_after_two_dumps_and_reported() -> None:
    kernel = TrackedFlows()
    kernel.dump()
    flow = kernel.begin(sent=10)
    kernel.dump()
    flow.sent = 50
    kernel.end(flow, announced=False)
    kernel.dump()
    assert (len(kernel.table), kernel.table.unannounced) == (1, 0)
    kernel.dump()
    assert (len(kernel.table), kernel.table.unannounced) == (0, 1)
    assert kernel.counted == (1, 10, 20)


def test_another_flow_in_the_place_of_one_whose_end_was_lost_is_another_connection() -> None:
    kernel = TrackedFlows()
    kernel.dump()
    flow = kernel.begin(sent=100)
    kernel.dump()
    flow.sent = 30
    kernel.dump()
    assert kernel.counted == (2, 130, 260)
    assert kernel.table.unannounced == 1


def test_flows_without_counters_are_counted_as_connections_alone() -> None:
    kernel = TrackedFlows()
    old = kernel.begin(sent=5, counts=False)
    kernel.dump()
    kernel.begin(sent=5, counts=False)
    for _ in range(2):
        kernel.dump()
    kernel.end(old)
    assert kernel.counted == (1, 0, 0)
    assert not kernel.total.has_bytes
    assert (kernel.table.without_counters, kernel.table.unannounced) == (1, 0)


def test_a_dump_that_broke_off_forgets_no_flow() -> None:
    kernel = TrackedFlows()
    kernel.dump()
    kernel.begin(sent=5)
    kernel.dump()
    for _ in range(3):
        kernel.table.begin_dump()
        kernel.table.abandon_dump()
    kernel.dump()
    assert (kernel.counted, kernel.table.unannounced) == ((1, 5, 10), 0)
