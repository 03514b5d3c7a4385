"""The cleaner deletes UDP flows to endpoints that no longer serve, and no others."""

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

import pytest
from tests.netlink.flow_messages import FlowMessage
from tests.proxy.background import in_background
from tests.proxy.drawn_services import node_service, one_port

from zoneward.netlink.conntrack import (
    SocketAddress,
    pack_address,
)
from zoneward.netlink.messages import DONE, ERROR, GENERIC, HEADER, Family, attributes
from zoneward.proxy.kernel.conntrack_cleaner import (
    ConntrackCleaner,
    stale_flow_check,
    udp_frontends,
)
from zoneward.proxy.kernel.nft_client import KernelClient, KernelOutcomeUnknown, KernelRefused
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.proxy.reporter import Reporter

NO_KERNEL = cast(KernelClient, None)
A, B, C = (Backend(f"10.0.0.{host}", 8053) for host in (1, 2, 3))


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
        pytest.param(a_service(A, B), a_service(A), True, id="one-fewer"),
        pytest.param(a_service(A), a_service(B), True, id="another"),
        pytest.param(a_service(A), replace(a_service(A), load_balancer_ips=("192.0.2.8",)), True, id="new-address"),
        pytest.param(a_service(A), a_service(A, node_port=30_053), True, id="new-node-port"),
        pytest.param(a_service(A), a_service(A, B), False, id="one-more"),
        pytest.param(a_service(A, B), a_service(B, A), False, id="other-order"),
        pytest.param(a_service(A), a_service(), True, id="nobody-left"),
        pytest.param(a_service(), a_service(), False, id="still-nobody"),
        pytest.param(a_service(A), None, False, id="gone"),
        pytest.param(None, a_service(), True, id="nobody-yet"),
        pytest.param(None, None, False, id="nothing"),
        pytest.param(a_service(A, B, protocol="tcp"), a_service(A, protocol="tcp"), False, id="tcp"),
    ],
)
def test_only_a_change_that_may_strand_a_flow_is_pending(
    before: NodeService | None, after: NodeService | None, looked_at: bool
) -> None:
    cleaner = ConntrackCleaner(NO_KERNEL)
    cleaner.service_changed(before, after)
    assert bool(cleaner.pending_frontends("ip")) == looked_at
    assert not cleaner.pending_frontends("ip6")


def test_every_frontend_that_lost_an_endpoint_is_pending_and_no_other() -> None:
    cleaner = ConntrackCleaner(NO_KERNEL)
    before = replace(a_service(A, B, node_port=30_053), load_balancer_ips=("192.0.2.8",))
    cleaner.service_changed(before, replace(before, ports=(replace(before.ports[0], serving_endpoints=(A,)),)))
    assert cleaner.pending_frontends("ip").keys() == {
        ("10.96.0.10", 53),
        ("192.0.2.7", 53),
        ("192.0.2.8", 53),
        (None, 30_053),
    }
    cleaner = ConntrackCleaner(NO_KERNEL)
    cleaner.service_changed(a_service(A), replace(a_service(A), load_balancer_ips=("192.0.2.8",)))
    assert cleaner.pending_frontends("ip").keys() == {("192.0.2.8", 53)}


def test_an_address_that_moved_to_another_service_stays_pending() -> None:
    cleaner = ConntrackCleaner(NO_KERNEL)
    cleaner.service_changed(None, a_service(A, name="old"))
    cleaner.service_changed(None, a_service(B, name="new"))
    cleaner.service_changed(a_service(A, name="old"), None)
    assert cleaner.pending_frontends("ip")["10.96.0.10", 53] == (B,)


# --- which flows are stale --------------------------------------------------------------------------------------------


def a_flow(to: str, port: int, answers: str, answering_port: int) -> tuple[SocketAddress, SocketAddress]:
    return (pack_address("ip", to), port), (pack_address("ip", answers), answering_port)


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
def test_a_flow_to_an_endpoint_that_does_not_serve_is_stale(
    flow: tuple[SocketAddress, SocketAddress], stale: bool
) -> None:
    frontends = udp_frontends(a_service(A, node_port=30_053))
    is_stale = stale_flow_check("ip", frontends, lambda address: address == pack_address("ip", "198.51.100.1"))
    assert is_stale(*flow) == stale


# --- the work ---------------------------------------------------------------------------------------------------------


def taken_apart(request: bytes) -> Iterable[tuple[int, int, bytes]]:
    offset = 0
    while offset < len(request):
        length, kind, flags, _, _ = HEADER.unpack_from(request, offset)
        yield kind, flags, request[offset + HEADER.size : offset + length]
        offset += (length + 3) & ~3


class Kernel:
    """Tracks flows, and dumps all flows of a family for any filter, as kernels before 5.8 do."""

    def __init__(self, *flows: FlowMessage) -> None:
        self.flows = list(flows)
        self.asked: list[int] = []
        self.failures: list[Exception] = []
        self.on_dump: Callable[[], None] = lambda: None

    async def query(self, request: bytes) -> bytes:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        answer = b""
        for kind, flags, body in taken_apart(request):
            self.asked.append(kind & 0xFF)
            family: Family = "ip" if GENERIC.unpack_from(body)[0] == socket.AF_INET else "ip6"
            of_family = [flow for flow in self.flows if flow.family == family]
            if kind == 1 << 8 | 1:
                answer += b"".join(flow.message() for flow in of_family)
                self.on_dump()
                continue
            asked = dict(attributes(body, GENERIC.size))
            matches = [flow for flow in of_family if flow.identity == asked[12] and flow.destination in asked[1]]
            if not matches:
                raise KernelRefused("no such file", errno.ENOENT)
            self.flows.remove(matches[0])
            if flags & 0x4:
                answer += HEADER.pack(HEADER.size + 4, ERROR, 0, 0, 0) + struct.pack("=i", 0)
        return answer + HEADER.pack(HEADER.size + 4, DONE, 2, 0, 0) + b"\0\0\0\0"


def tracked(
    index: int, answers: Backend, *, to: tuple[str, int] = ("10.96.0.10", 53), protocol: int = socket.IPPROTO_UDP
) -> FlowMessage:
    return FlowMessage(
        protocol=protocol,
        destination=pack_address("ip", to[0]),
        ports=((4000 + index).to_bytes(2), to[1].to_bytes(2)),
        endpoint=pack_address("ip", answers.address),
        endpoint_port=answers.port.to_bytes(2),
        identity=index.to_bytes(4),
    )


class Work(Reporter):
    """A cleaner on a kernel with some flows, after B stopped serving; with its reports and pauses."""

    def __init__(self, *flows: FlowMessage) -> None:
        self.kernel = Kernel(*flows)
        self.removed: list[int] = []
        self.troubles: list[str] = []
        self.pauses: list[float] = []
        self.cleaner = ConntrackCleaner(cast(KernelClient, self.kernel), reporter=self, sleep=self._sleep)
        self.cleaner.service_changed(a_service(A, B), a_service(A))

    def flows_removed(self, count: int) -> None:
        self.removed.append(count)

    def conntrack_failed(self, why: str) -> None:
        self.troubles.append(why)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def run(self, until: Callable[[], bool]) -> None:
        async with in_background(self.cleaner.run()):
            while not until():
                await asyncio.sleep(0)
            # Any excess work would be done in this time.
            for _ in range(100):
                await asyncio.sleep(0)


@pytest.mark.parametrize("services", [1, 40], ids=["one-service", "many-services"])
async def test_stale_flows_go_and_others_stay(services: int) -> None:
    stale = [tracked(identity, B) for identity in range(1, 250)]
    others = [
        tracked(300, A),
        tracked(301, B, to=("203.0.113.9", 53)),
        tracked(302, B, protocol=socket.IPPROTO_TCP),
        FlowMessage.of("ip6").but(protocol=socket.IPPROTO_UDP, ports=(b"\x0f\xa0", b"\0\x35")),
    ]
    work = Work(*stale, *others)
    for index in range(1, services):
        address = f"10.96.0.{10 + index}"
        work.cleaner.service_changed(a_service(A, B, address=address), a_service(A, address=address))
    await work.run(lambda: len(work.kernel.flows) == len(others))
    assert work.kernel.flows == others
    assert sum(work.removed) == len(stale)
    # A dump for each of a few frontends, or one dump for many: all share the external address.
    assert work.kernel.asked.count(1) == (2 if services == 1 else 1)


async def test_many_changes_cost_one_dump_a_second() -> None:
    work = Work()
    for _ in range(100):
        work.cleaner.service_changed(a_service(A), a_service(A, B))
        work.cleaner.service_changed(a_service(A, B), a_service(A))
    await work.run(lambda: len(work.pauses) == 2)
    assert work.kernel.asked == [1, 1]
    assert work.pauses[1] >= 1.0


async def test_a_failing_kernel_is_retried_with_growing_pauses() -> None:
    work = Work(tracked(1, B))
    work.kernel.failures = [KernelOutcomeUnknown("it died"), KernelRefused("not permitted", errno.EPERM)]
    await work.run(lambda: not work.kernel.flows)
    assert work.troubles == ["not permitted", "it died"]
    assert work.pauses[1:4:2] == [2.0, 4.0]


async def test_an_endpoint_that_comes_while_the_kernel_answers_keeps_its_flow() -> None:
    work = Work(tracked(1, B), tracked(2, C))
    work.kernel.on_dump = lambda: work.cleaner.service_changed(a_service(A), a_service(A, C))
    await work.run(lambda: len(work.kernel.flows) == 1)
    assert work.kernel.flows == [tracked(2, C)]
    assert work.removed == [1]


async def test_a_flow_that_expired_meanwhile_is_not_an_error() -> None:
    work = Work(tracked(1, B), tracked(2, B))
    work.kernel.on_dump = lambda: work.kernel.flows.__delitem__(slice(1, None))
    await work.run(lambda: not work.kernel.flows)
    assert (sum(work.removed), work.troubles) == (1, [])
