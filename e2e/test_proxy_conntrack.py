"""In a real kernel, UDP clients that keep their port reach current endpoints: the proxy deletes stale flows."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Container, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Self

import pytest
from e2e.nodes import Bed, Namespace, Node, kernel_of
from tests.proxy.drawn_services import node_service, one_port

from zoneward.netlink.conntrack import SocketAddress, pack_address, read_flows, udp_flows_request
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.conntrack_cleaner import ConntrackCleaner
from zoneward.proxy.kernel.nft_client import NftClient
from zoneward.proxy.kernel.table_syncer import TableSyncer
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.base_rules import RulesetOptions

PORT, NODE_PORT = 53, 30_053
SOON = 0.3
"""Seconds that a client waits for an answer that may not come."""
ADDRESSES: dict[Family, str] = {"ip": "10.96.0.10", "ip6": "fd00:96::10"}
OTHERS: dict[Family, str] = {"ip": "10.96.0.11", "ip6": "fd00:96::11"}
CLIENT = "10.1.200.1", "fd00:1::c8:1"
PODS: dict[Family, tuple[str, ...]] = {
    "ip": tuple(f"10.1.0.{index}" for index in range(1, 4)),
    "ip6": tuple(f"fd00:1::{index}" for index in range(1, 4)),
}


pytestmark = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture
def bed() -> Iterator[Bed]:
    with Bed() as bed:
        yield bed


@pytest.fixture
def node(bed: Bed) -> Node:
    return bed.node("a", pods=("10.1.0.0/16", "fd00:1::/64"))


class Client:
    """A UDP socket that keeps its port."""

    def __init__(self, namespace: Namespace, address: str, port: int, *, source: int) -> None:
        self._namespace, self._to = namespace, (address, port)
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket: socket.socket = namespace.call(socket.socket, kind, socket.SOCK_DGRAM)
        self._socket.bind(("::" if ":" in address else "0.0.0.0", source))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    async def ask(self, *, limit: float = 30.0) -> str | None:
        """The address that answers; None if none does within ``limit`` seconds, or the kernel rejects the datagram."""
        return await asyncio.to_thread(self._ask, limit)

    def _ask(self, limit: float) -> str | None:
        self._socket.settimeout(limit)
        self._socket.sendto(b"?", self._to)
        with suppress(TimeoutError, ConnectionRefusedError):
            return self._socket.recv(256).decode().split()[0]
        return None


class Proxy(Reporter):
    """Syncs a node's rules and cleans up its flows. ``removed`` counts the flows that were deleted."""

    def __init__(self, node: Node, kernel: NftClient, family: Family) -> None:
        self.kernel, self.family = kernel, family
        self.removed = 0
        self.troubles: list[str] = []
        here = pack_address(family, node.addresses[family == "ip6"])
        self.table = TableSyncer(kernel, family, options=RulesetOptions(), reporter=self)
        self.conntrack = ConntrackCleaner(
            kernel,
            is_node_address=lambda _family, address: address == here,
            reporter=self,
        )
        self._served: dict[str, NodeService] = {}

    async def serve(self, name: str, address: str, *serving: str, node_port: int | None = None) -> None:
        """Returns when the kernel has the rules."""
        targets = tuple(Backend(endpoint, 8080, is_local=True) for endpoint in serving)
        port = one_port(*targets, protocol="udp", port=PORT, node_port=node_port, serving_endpoints=targets)
        served = node_service(port, name=name, family=self.family, cluster_ip=address)
        before, self._served[name] = self._served.get(name), served
        self.table.set_service(("shop", name), served)
        await self.table.wait_until_synced()
        self.conntrack.service_changed(before, served)

    async def flows(self, addresses: Container[bytes]) -> Counter[SocketAddress]:
        """Count the kernel's flows to ``addresses``, by address and port."""
        flows = read_flows(await self.kernel.query(udp_flows_request(self.family)))
        return Counter(
            (flow.destination, int.from_bytes(flow.destination_port)) for flow in flows if flow.destination in addresses
        )

    def flows_removed(self, count: int) -> None:
        self.removed += count

    def kernel_failed(self, why: str) -> None:
        self.troubles.append(why)

    def conntrack_failed(self, why: str) -> None:
        self.troubles.append(why)


@asynccontextmanager
async def proxying(node: Node, family: Family) -> AsyncIterator[Proxy]:
    async with kernel_of(node) as kernel:
        proxy = Proxy(node, kernel, family)
        tasks = [asyncio.create_task(proxy.table.run()), asyncio.create_task(proxy.conntrack.run())]
        try:
            yield proxy
            assert not proxy.troubles
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for_answer(client: Client, *by: str) -> None:
    """Wait until one of these addresses answers."""
    while await client.ask(limit=SOON) not in by:
        await asyncio.sleep(0.02)


async def wait_for_removed(proxy: Proxy) -> int:
    """The number of deleted flows, once there is one."""
    while not proxy.removed:
        await asyncio.sleep(0.02)
    return proxy.removed


async def test_client_reaches_another_endpoint_when_its_own_is_removed(node: Node, family: Family) -> None:
    address, pods = ADDRESSES[family], PODS[family]
    async with proxying(node, family) as proxy:
        await proxy.serve("dns", address, *pods[:2])
        with Client(node.pod(*CLIENT), address, PORT, source=4001) as client:
            first = await client.ask()
            assert first in pods[:2]
            # A new endpoint does not move it.
            await proxy.serve("dns", address, *pods)
            assert {await client.ask() for _ in range(10)} == {first}
            rest = [pod for pod in pods if pod != first]
            await proxy.serve("dns", address, *rest)
            await wait_for_answer(client, *rest)
        assert await wait_for_removed(proxy) == 1


async def test_client_that_started_before_the_service_reaches_its_first_endpoint(node: Node, family: Family) -> None:
    address, pods = ADDRESSES[family], PODS[family]
    async with proxying(node, family) as proxy:
        # The kernel tracks flows only while a rule needs it.
        await proxy.serve("other", OTHERS[family], pods[0])
        with Client(node.pod(*CLIENT), address, PORT, source=4001) as client:
            # The Service does not exist yet: datagrams leave the node, and are tracked.
            assert await client.ask(limit=SOON) is None
            assert (await proxy.flows({pack_address(family, address)})).total() == 1
            await proxy.serve("dns", address)
            assert await client.ask(limit=SOON) is None
            await proxy.serve("dns", address, pods[0])
            await wait_for_answer(client, pods[0])


async def test_a_client_is_rejected_once_its_service_has_no_endpoint(node: Node, family: Family) -> None:
    address, pod = ADDRESSES[family], PODS[family][0]
    async with proxying(node, family) as proxy:
        await proxy.serve("dns", address, pod)
        with Client(node.pod(*CLIENT), address, PORT, source=4001) as client:
            assert await client.ask() == pod
            await proxy.serve("dns", address)
            while await client.ask(limit=SOON) is not None:
                await asyncio.sleep(0.02)
        assert await wait_for_removed(proxy) == 1


async def test_client_at_a_node_port_reaches_another_endpoint(node: Node, bed: Bed, family: Family) -> None:
    async with proxying(node, family) as proxy:
        with Client(bed.outside(), node.addresses[family == "ip6"], NODE_PORT, source=4001) as client:
            for pod in PODS[family][:2]:
                await proxy.serve("dns", ADDRESSES[family], pod, node_port=NODE_PORT)
                await wait_for_answer(client, pod)


async def test_flows_of_other_services_are_kept(node: Node, family: Family) -> None:
    address, other, pods = ADDRESSES[family], OTHERS[family], PODS[family]
    namespace = node.pod(*CLIENT)
    with ExitStack() as sockets:

        def a_client(to: str, port: int, source: int) -> Client:
            return sockets.enter_context(Client(namespace, to, port, source=source))

        async with proxying(node, family) as proxy:
            await proxy.serve("dns", address, *pods[:2], node_port=NODE_PORT)
            client = a_client(address, PORT, 4001)
            first = await client.ask()
            assert first in pods[:2]
            await proxy.serve("log", other, first)
            # To another Service's port, directly to the same Pod, and to a node port without a Service.
            others = [a_client(other, PORT, 4100 + index) for index in range(8)]
            assert {await other.ask() for other in others} == {first}
            direct = a_client(first, 8080, 4200)
            assert await direct.ask() == first
            await a_client(pods[2], NODE_PORT, 4201).ask(limit=SOON)
            of_others = {pack_address(family, address_of_other) for address_of_other in (other, first, pods[2])}
            before = await proxy.flows(of_others)
            (left,) = set(pods[:2]) - {first}
            await proxy.serve("dns", address, left, node_port=NODE_PORT)
            await wait_for_answer(client, left)
            assert await wait_for_removed(proxy) == 1
            assert before.total() == 10
            assert before == await proxy.flows(of_others)
            assert {await other.ask() for other in others} == {first}
            assert await direct.ask() == first
