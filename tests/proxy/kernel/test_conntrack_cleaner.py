"""Flows of UDP that go where nobody answers any more are forgotten, those of others never."""

import asyncio
import errno
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from tests.proxy.drawn_services import node_service, one_port

from zoneward.kube.objects import EndpointSlice, Service
from zoneward.netlink.conntrack import (
    AT_ONCE,
    Flow,
    SocketAddress,
    delete_requests,
    dump_request,
    flow_identity,
    pack_address,
    parse_flows,
)
from zoneward.netlink.messages import DONE, ERROR, FAMILIES, GENERIC, HEADER, Family, attribute, attributes, nested
from zoneward.proxy.kernel.conntrack_cleaner import (
    ConntrackCleaner,
    PendingFrontends,
    StaleFlowDetector,
    is_machine_address,
    udp_frontends,
)
from zoneward.proxy.kernel.nft_client import KernelOutcomeUnknown, KernelRefused
from zoneward.proxy.model.node_service import Backend, NodeService, ProxyNode, node_services
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD

A, B, C = (Backend(f"10.0.0.{number}", 8053) for number in (1, 2, 3))


def a_service(
    *serving: Backend,
    name: str = "dns",
    address: str = "10.96.0.10",
    node_port: int | None = None,
    protocol: str = "udp",
) -> NodeService:
    port = one_port(protocol=protocol, port=53, node_port=node_port, serving_endpoints=serving)
    return node_service(port, name=name, cluster_ip=address, external_ips=("192.0.2.7",))


# --- what has to be looked at -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "looked_at"),
    [
        pytest.param(None, a_service(A), True, id="new"),
        pytest.param(a_service(), a_service(A), True, id="first-endpoint"),
        pytest.param(a_service(A, B), a_service(A), True, id="one-goes"),
        pytest.param(a_service(A), a_service(B), True, id="another"),
        pytest.param(a_service(A), replace(a_service(A), load_balancer_ips=("192.0.2.8",)), True, id="new-address"),
        pytest.param(a_service(A), a_service(A, node_port=30_053), True, id="new-node-port"),
        pytest.param(a_service(A), a_service(A, B), False, id="one-more"),
        pytest.param(a_service(A, B), a_service(B, A), False, id="other-order"),
        pytest.param(a_service(A), a_service(), False, id="nobody-left"),
        pytest.param(a_service(A), None, False, id="gone"),
        pytest.param(None, a_service(), False, id="nobody-yet"),
        pytest.param(None, None, False, id="nothing"),
        pytest.param(a_service(A, B, protocol="tcp"), a_service(A, protocol="tcp"), False, id="tcp"),
    ],
)
def test_only_a_change_that_may_strand_a_flow_is_pending(
    before: NodeService | None, after: NodeService | None, looked_at: bool
) -> None:
    suspects = PendingFrontends()
    suspects.service_changed(before, after)
    assert bool(suspects) == looked_at
    assert bool(suspects.in_family("ip")) == looked_at
    assert not suspects.in_family("ip6")


def test_every_frontend_that_lost_an_endpoint_is_pending_and_no_other() -> None:
    suspects = PendingFrontends()
    before = replace(a_service(A, B, node_port=30_053), load_balancer_ips=("192.0.2.8",))
    suspects.service_changed(before, replace(before, ports=(replace(before.ports[0], serving_endpoints=(A,)),)))
    assert suspects.in_family("ip").keys() == {("10.96.0.10", 53), ("192.0.2.7", 53), ("192.0.2.8", 53), (None, 30_053)}
    suspects = PendingFrontends()
    suspects.service_changed(a_service(A), replace(a_service(A), load_balancer_ips=("192.0.2.8",)))
    assert suspects.in_family("ip").keys() == {("192.0.2.8", 53)}


def test_a_pending_frontend_has_its_latest_endpoints() -> None:
    suspects = PendingFrontends()
    suspects.service_changed(a_service(A, B), a_service(A))
    suspects.service_changed(a_service(A), a_service(A, C))
    assert suspects.in_family("ip")["10.96.0.10", 53] == (A, C)
    suspects.service_changed(a_service(A, C), a_service())
    assert not suspects


def test_an_address_that_moved_to_another_service_stays_pending() -> None:
    suspects = PendingFrontends()
    suspects.service_changed(None, a_service(A, name="old"))
    suspects.service_changed(None, a_service(B, name="new"))
    suspects.service_changed(a_service(A, name="old"), None)
    assert suspects.in_family("ip")["10.96.0.10", 53] == (B,)


def test_a_frontend_that_changes_during_a_check_is_checked_again() -> None:
    suspects = PendingFrontends()
    suspects.service_changed(None, a_service(A))
    looked_at = suspects.in_family("ip")
    suspects.service_changed(a_service(A), a_service(B))
    suspects.remove("ip", looked_at)
    assert suspects.in_family("ip") == udp_frontends(a_service(B))
    suspects.remove("ip", suspects.in_family("ip"))
    assert not suspects


def test_serving_endpoints_keep_their_flows_whether_selected_or_not() -> None:
    def an_endpoint(number: int, zone: str, **conditions: bool) -> dict[str, Any]:
        hints = {"forZones": [{"name": zone}]}
        return {"addresses": [f"10.0.0.{number}"], "zone": zone, "hints": hints, "conditions": conditions}

    endpoints = [
        an_endpoint(1, "a"),
        an_endpoint(2, "b"),
        an_endpoint(3, "a", ready=False, serving=True, terminating=True),
        an_endpoint(4, "a", ready=False, serving=False),
    ]
    slices = [
        {"metadata": {"name": "dns"}, "addressType": "IPv4", "endpoints": endpoints, "ports": [port]}
        for port in ({"name": "udp", "protocol": "UDP", "port": 8053}, {"name": "tcp", "protocol": "TCP", "port": 8053})
    ]
    ports = [{"name": name, "protocol": name.upper(), "port": 53} for name in ("udp", "tcp")]
    document = {"metadata": {"name": "dns"}, "spec": {"clusterIP": "10.96.0.10", "ports": ports}}
    (found,) = node_services(
        msgspec.convert(document, Service),
        msgspec.convert(slices, list[EndpointSlice]),
        node=ProxyNode(name="n", zone="a"),
        consumer=ZONEWARD,
        gates=FeatureGates(),
    )
    udp, tcp = found.ports
    assert udp.cluster_endpoints == (A,)
    assert udp.serving_endpoints == (A, B, C)
    assert tcp.serving_endpoints == ()


# --- which flows are stale --------------------------------------------------------------------------------------------


def a_flow(to: str, port: int, answers: str, answering_port: int) -> Flow:
    return Flow((pack_address("ip", to), port), (pack_address("ip", answers), answering_port), b"")


@pytest.mark.parametrize(
    ("flow", "stale"),
    [
        pytest.param(a_flow("10.96.0.10", 53, "10.0.0.2", 8053), True, id="gone"),
        pytest.param(a_flow("10.96.0.10", 53, "10.96.0.10", 53), True, id="never-translated"),
        pytest.param(a_flow("10.96.0.10", 53, "10.0.0.1", 8054), True, id="other-port-of-endpoint"),
        pytest.param(a_flow("192.0.2.7", 53, "10.0.0.2", 8053), True, id="external"),
        pytest.param(a_flow("198.51.100.1", 30_053, "10.0.0.2", 8053), True, id="node-port"),
        pytest.param(a_flow("10.96.0.10", 53, "10.0.0.1", 8053), False, id="serving"),
        pytest.param(a_flow("198.51.100.1", 30_053, "10.0.0.1", 8053), False, id="node-port-serving"),
        pytest.param(a_flow("10.96.0.10", 54, "10.96.0.10", 54), False, id="other-port"),
        pytest.param(a_flow("10.96.0.11", 53, "10.0.0.2", 8053), False, id="other-service"),
        pytest.param(a_flow("203.0.113.1", 30_053, "203.0.113.1", 30_053), False, id="port-of-another-machine"),
    ],
)
def test_a_flow_to_an_endpoint_that_does_not_serve_is_stale(flow: Flow, stale: bool) -> None:
    suspects = udp_frontends(a_service(A, node_port=30_053))
    judge = StaleFlowDetector("ip", suspects, lambda address: address == pack_address("ip", "198.51.100.1"))
    assert judge.is_stale(flow) == stale


@pytest.mark.parametrize(
    ("family", "address", "local"),
    [("ip", "127.0.0.1", False), ("ip6", "::1", False), ("ip", "192.0.2.1", False), ("ip6", "2001:db8::1", False)],
)
def test_loopback_and_other_machines_have_no_node_ports_of_this_node(family: Family, address: str, local: bool) -> None:
    assert is_machine_address(family, pack_address(family, address)) == local


# --- messages ---------------------------------------------------------------------------------------------------------

# A kernel's own answer: one flow to a Service's address, with its endpoint, and one that goes to that itself.
RECORDED = (
    "b4000000000100022300000000000000020000003400018014000180080001007f000001080002000a60000a1c00028005000100110000000600"
    "02000fa0000006000300003500003400028014000180080001007f000001080002007f0000011c00028005000100110000000600020014e90000"
    "060003000fa0000008000300000001a8080008000000000008000c00cb48c8be08000b0000000001080007000000001d"
)


def recorded() -> bytes:
    body = bytes.fromhex(RECORDED)[HEADER.size :]
    return HEADER.pack(HEADER.size + len(body), 1 << 8, 2, 0, 0) + body


def test_a_recorded_answer_of_the_kernel_is_read() -> None:
    (flow,) = parse_flows("ip", recorded())
    assert flow.destination == (pack_address("ip", "10.96.0.10"), 53)
    assert flow.reply_source == (pack_address("ip", "127.0.0.1"), 5353)
    named = dict(attributes(flow_identity(flow)))
    assert named.keys() == {1, 12}
    assert named[12] == bytes.fromhex("cb48c8be")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_attributes_does_not_matter(family: Family) -> None:
    address, endpoint = ("10.96.0.10", "10.0.0.2") if family == "ip" else ("fd00::10", "fd00:1::2")
    client = "10.9.0.1" if family == "ip" else "fd00::9"
    one = Tracked(family, client, (address, 53), (endpoint, 8053), 1)
    original, reply, number = one.body_parts()

    def read(*parts: bytes) -> list[tuple[SocketAddress, SocketAddress, bytes]]:
        said = GENERIC.pack(0, 0, 0) + b"".join(parts)
        answer = HEADER.pack(HEADER.size + len(said), 1 << 8, 2, 0, 0) + said
        return [(each.destination, each.reply_source, flow_identity(each)) for each in parse_flows(family, answer)]

    usual = read(original, reply, number)
    assert usual == [((pack_address(family, address), 53), (pack_address(family, endpoint), 8053), original + number)]
    assert read(number, original, reply) == usual
    zone = attribute(18, b"\0\7")
    assert read(original, reply, number, zone) == [(*usual[0][:2], original + number + zone)]
    assert not read(*replace(one, protocol=socket.IPPROTO_TCP).body_parts())


def test_many_flows_are_deleted_by_few_requests_and_each_once() -> None:
    some = [attribute(12, struct.pack(">I", number)) for number in range(2 * AT_ONCE + 1)]
    requests = list(delete_requests("ip", some))
    assert [count for count, _ in requests] == [AT_ONCE, AT_ONCE, 1]
    named = [body[GENERIC.size :] for _, request in requests for _, _, body in taken_apart(request)]
    assert named == some
    assert not list(delete_requests("ip", []))


# --- the work ---------------------------------------------------------------------------------------------------------


def taken_apart(request: bytes) -> Iterable[tuple[int, int, bytes]]:
    place = 0
    while place < len(request):
        length, kind, flags, _, _ = HEADER.unpack_from(request, place)
        yield kind, flags, request[place + HEADER.size : place + length]
        place += (length + 3) & ~3


@dataclass(frozen=True)
class Tracked:
    """A flow as a kernel has it. ``number`` is its own."""

    family: Family
    client: str
    to: tuple[str, int]
    answers: tuple[str, int]
    number: int
    protocol: int = socket.IPPROTO_UDP

    def tuples(self) -> tuple[bytes, bytes]:
        """Attributes of the original one and the reply, as the kernel writes them."""
        client = (self.client, 4000 + self.number)
        return self._tuple(client, self.to), self._tuple(self.answers, client)

    def body_parts(self) -> tuple[bytes, bytes, bytes]:
        original, reply = self.tuples()
        return nested(1, [original]), nested(2, [reply]), attribute(12, struct.pack(">I", self.number))

    def body(self) -> bytes:
        return b"".join(self.body_parts())

    def _tuple(self, source: tuple[str, int], destination: tuple[str, int]) -> bytes:
        kinds = (1, 2) if self.family == "ip" else (3, 4)
        ends = source, destination
        addresses = [attribute(kind, pack_address(self.family, end[0])) for kind, end in zip(kinds, ends, strict=True)]
        ports = [attribute(kind, struct.pack(">H", end[1])) for kind, end in zip((2, 3), ends, strict=True)]
        return nested(1, addresses) + nested(2, [attribute(1, bytes([self.protocol])), *ports])


class Kernel:
    """Tracks flows. ``filters``: as kernels since 5.8, it tells only what is asked for."""

    def __init__(self, *flows: Tracked, filters: bool = True) -> None:
        self.flows = list(flows)
        self.asked: list[int] = []
        self.failures: list[Exception] = []
        self.on_dump: Callable[[], None] = lambda: None
        self._filters = filters

    async def query(self, request: bytes) -> bytes:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        answer = b""
        for kind, flags, body in taken_apart(request):
            self.asked.append(kind & 0xFF)
            family: Family = "ip" if GENERIC.unpack_from(body)[0] == socket.AF_INET else "ip6"
            asked = dict(attributes(body, GENERIC.size))
            if kind == 1 << 8 | 1:
                answer += b"".join(
                    HEADER.pack(HEADER.size + GENERIC.size + len(each.body()), 1 << 8, 2, 0, 0)
                    + body[: GENERIC.size]
                    + each.body()
                    for each in self.flows
                    if each.family == family and (not self._filters or self._is_asked_for(each, asked))
                )
                self.on_dump()
            elif not self._delete(family, asked):
                raise KernelRefused("no such file", errno.ENOENT)
            elif flags & 0x4:
                answer += HEADER.pack(HEADER.size + 4, ERROR, 0, 0, 0) + struct.pack("=i", 0)
        return answer + HEADER.pack(HEADER.size + 4, DONE, 2, 0, 0) + b"\0\0\0\0"

    @staticmethod
    def _is_asked_for(flow: Tracked, asked: dict[int, bytes]) -> bool:
        (flags,) = struct.unpack("=I", dict(attributes(asked[25]))[1])
        wanted = dict(attributes(asked[1]))
        address, protocol = dict(attributes(wanted.get(1, b""))), dict(attributes(wanted[2]))
        if flags & 1 << 1 and address[2 if flow.family == "ip" else 4] != pack_address(flow.family, flow.to[0]):
            return False
        if flags & 1 << 5 and protocol[3] != struct.pack(">H", flow.to[1]):
            return False
        return not flags & 1 << 3 or protocol[1][0] == flow.protocol

    def _delete(self, family: Family, asked: dict[int, bytes]) -> bool:
        for each in self.flows:
            if each.family == family and each.tuples()[0] == asked[1] and struct.pack(">I", each.number) == asked[12]:
                self.flows.remove(each)
                return True
        return False


def tracked(number: int, answers: Backend, *, to: tuple[str, int] = ("10.96.0.10", 53), protocol: int = 17) -> Tracked:
    return Tracked("ip", "10.9.0.1", to, (answers.address, answers.port), number, protocol)


async def no_pause(_seconds: float) -> None:
    await asyncio.sleep(0)


def run(
    conntrack: ConntrackCleaner, until: Callable[[], bool], beside: Callable[[], Awaitable[None]] | None = None
) -> None:
    async def limited() -> None:
        running = asyncio.create_task(conntrack.run())
        try:
            async with asyncio.timeout(20):
                if beside is not None:
                    await beside()
                while not until():
                    await asyncio.sleep(0)
                # Whatever would be done too much is done in this time.
                for _ in range(100):
                    await asyncio.sleep(0)
                assert not running.done()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(limited())


@pytest.mark.parametrize("filters", [True, False], ids=["kernel-filters", "old-kernel"])
@pytest.mark.parametrize("services", [1, 40], ids=["one-service", "many-services"])
def test_stale_flows_go_and_others_stay(filters: bool, services: int) -> None:
    stale = [tracked(number, B) for number in range(1, 250)]
    others = [
        tracked(300, A),
        tracked(301, B, to=("203.0.113.9", 53)),
        tracked(302, B, protocol=socket.IPPROTO_TCP),
        replace(tracked(303, B), family="ip6", client="fd00::9", to=("fd00::10", 53), answers=("fd00::2", 8053)),
    ]
    kernel, removed = Kernel(*stale, *others, filters=filters), list[int]()
    conntrack = ConntrackCleaner(kernel, on_removed=removed.append, sleep=no_pause)
    for number in range(services):
        address = f"10.96.0.{10 + number}"
        conntrack.service_changed(a_service(A, B, address=address), a_service(A, address=address))
    run(conntrack, lambda: len(kernel.flows) == len(others))
    assert kernel.flows == others
    assert sum(removed) == len(stale)
    # One look at each of the few fronts, or one at all: the external address is the same one.
    assert kernel.asked.count(1) == (2 if services == 1 else 1)


def test_many_changes_cost_one_dump_a_second() -> None:
    pauses = list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    kernel = Kernel()
    conntrack = ConntrackCleaner(kernel, sleep=pause)
    for _ in range(100):
        conntrack.service_changed(a_service(A, B), a_service(A))
        conntrack.service_changed(a_service(A), a_service(A, B))
    run(conntrack, lambda: len(pauses) == 2)
    assert kernel.asked == [1, 1]
    assert pauses[1] >= 1.0


def test_a_failing_kernel_is_retried_with_growing_pauses() -> None:
    pauses, troubles = list[float](), list[str]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    kernel = Kernel(tracked(1, B))
    kernel.failures = [KernelOutcomeUnknown("it died"), KernelRefused("not permitted", errno.EPERM)]
    conntrack = ConntrackCleaner(kernel, on_trouble=troubles.append, sleep=pause)
    conntrack.service_changed(a_service(A, B), a_service(A))
    run(conntrack, lambda: not kernel.flows)
    assert troubles == ["not permitted", "it died"]
    assert pauses[1:4:2] == [2.0, 4.0]


def test_an_endpoint_that_comes_while_the_kernel_answers_keeps_its_flow() -> None:
    kernel, removed = Kernel(tracked(1, B), tracked(2, C)), list[int]()
    conntrack = ConntrackCleaner(kernel, on_removed=removed.append, sleep=no_pause)
    conntrack.service_changed(a_service(A, B), a_service(A))
    kernel.on_dump = lambda: conntrack.service_changed(a_service(A), a_service(A, C))
    run(conntrack, lambda: len(kernel.flows) == 1)
    assert [each.number for each in kernel.flows] == [2]
    assert removed == [1]


def test_a_flow_that_expired_meanwhile_is_not_an_error() -> None:
    kernel, removed, troubles = Kernel(tracked(1, B), tracked(2, B)), list[int](), list[str]()
    kernel.on_dump = lambda: kernel.flows.__delitem__(slice(1, None))
    conntrack = ConntrackCleaner(kernel, on_removed=removed.append, on_trouble=troubles.append, sleep=no_pause)
    conntrack.service_changed(a_service(A, B), a_service(A))
    run(conntrack, lambda: not kernel.flows)
    assert (sum(removed), troubles) == (1, [])


def test_a_dump_is_filtered_by_address_and_port() -> None:
    kernel = Kernel(tracked(1, A), tracked(2, A, to=("10.96.0.10", 54)), tracked(3, A, to=("192.0.2.7", 53)))

    async def told(request: bytes) -> list[tuple[bytes, int]]:
        return [each.destination for each in parse_flows("ip", await kernel.query(request))]

    async def test() -> None:
        assert len(await told(dump_request("ip"))) == 3
        assert await told(dump_request("ip", port=54)) == [(pack_address("ip", "10.96.0.10"), 54)]
        assert await told(dump_request("ip", address=pack_address("ip", "10.96.0.10"), port=53)) == [
            (pack_address("ip", "10.96.0.10"), 53)
        ]
        assert not await told(dump_request("ip6"))

    asyncio.run(test())
