"""Removes stale UDP flows from the kernel's connection tracking after the rules have changed.

The kernel keeps the destination of each flow as long as packets arrive. A TCP flow ends with its endpoint; a UDP flow
does not, and its client would continue to send to an endpoint that no longer exists. So the cleaner removes flows
through a Service whose endpoint no longer serves, and flows to the Service's own address when it gets its first
endpoint. As in kube-proxy 1.37 (``CleanStaleEntries``), flows stay as long as their endpoint serves, whether this node
still selects it or not. Flows through the addresses of a Service without endpoints are removed too: its rejecting rule
never sees a packet of a flow that is already translated. Flows through its node port stay, because a port alone does
not identify the Service of a flow.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Final

from zoneward.client.backoff import Backoff
from zoneward.netlink.conntrack import (
    SocketAddress,
    delete_requests,
    pack_address,
    read_flows,
    udp_flows_request,
)
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.nft_client import KernelClient, KernelOutcomeUnknown, KernelRefused
from zoneward.proxy.model.node_service import Backend, NodeService, ServiceKey
from zoneward.proxy.reporter import Reporter

Frontend = tuple[str | None, int]
"""The destination of clients: an address and a port. Without an address: a node port."""
ServingEndpoints = tuple[Backend, ...]
_UDP: Final = "udp"


def udp_frontends(served: NodeService | None) -> dict[Frontend, ServingEndpoints]:
    """The UDP frontends of a Service, and the endpoints that serve each of them."""
    frontends: dict[Frontend, ServingEndpoints] = {}
    for port in served.ports if served is not None else ():
        if served is not None and port.protocol == _UDP:
            for address in served.addresses(port):
                frontends[address, port.port] = port.serving_endpoints
            if port.node_port and port.serving_endpoints:
                frontends[None, port.node_port] = port.serving_endpoints
    return frontends


def stale_flow_check(
    family: Family, frontends: Mapping[Frontend, ServingEndpoints], is_node_address: Callable[[bytes], bool]
) -> Callable[[SocketAddress, SocketAddress], bool]:
    """A function that returns whether a flow from a client of the first address, with replies from the second one, is
    stale. ``is_node_address``: whether an address, by its bytes, is one of the node's."""
    by_identity: dict[int, frozenset[SocketAddress]] = {}

    def addresses_of(serving: ServingEndpoints) -> frozenset[SocketAddress]:
        if id(serving) not in by_identity:
            by_identity[id(serving)] = frozenset(_socket_addresses(family, serving))
        return by_identity[id(serving)]

    by_address = {
        (pack_address(family, address), port): addresses_of(serving)
        for (address, port), serving in frontends.items()
        if address is not None
    }
    by_port = {port: addresses_of(serving) for (address, port), serving in frontends.items() if address is None}
    is_node_address = cache(is_node_address)

    def is_stale(destination: SocketAddress, endpoint: SocketAddress) -> bool:
        serving = by_address.get(destination)
        if serving is None:
            address, port = destination
            serving = by_port.get(port)
            if serving is None or not is_node_address(address):
                return False
        return endpoint not in serving

    return is_stale


def _socket_addresses(family: Family, serving: ServingEndpoints) -> Iterator[SocketAddress]:
    """The endpoints as flows have them, without those with an invalid address."""
    for endpoint in serving:
        with suppress(OSError):
            yield pack_address(family, endpoint.address), endpoint.port


def _has_lost_endpoints(before: ServingEndpoints, now: ServingEndpoints) -> bool:
    """Whether flows may exist that no current endpoint answers."""
    return before is not now and (not before or not set(before) <= set(now))


_GATHER_SECONDS: Final = 0.1
"""Seconds before flows are read: this batches changes, and in-flight packets may have passed the old rules."""
_BACKOFF: Final = Backoff(initial=1.0, cap=60.0)
"""Between two checks; the first delay follows a successful check."""
_MAX_SINGLE_QUERIES: Final = 16
"""The maximum number of frontends for one query each. The kernel scans all of its flows for each query, but returns
few."""
_AT_ONCE: Final = 500
"""The number of flows to read before other tasks run: some milliseconds."""
_ADDRESSES: Final[dict[Family, socket.AddressFamily]] = {"ip": socket.AF_INET, "ip6": socket.AF_INET6}


def is_machine_address(family: Family, address: bytes) -> bool:
    """Whether an address is this machine's, and not loopback, which serves no node ports."""
    if address[0] == 127 if family == "ip" else address == b"\0" * 15 + b"\1":
        return False
    # The kernel binds a socket only to the machine's own addresses, and this needs no permission.
    with socket.socket(_ADDRESSES[family], socket.SOCK_DGRAM) as attempt:
        try:
            attempt.bind((socket.inet_ntop(_ADDRESSES[family], address), 0))
        except OSError:
            return False
    return True


class ConntrackCleaner:
    """Removes stale UDP flows while it `run`s. Report changes with `service_changed`.

    After a failure it retries, at most a minute later. ``is_node_address``: whether an address serves node ports.
    ``sleep`` waits for seconds.
    """

    def __init__(
        self,
        kernel: KernelClient,
        *,
        is_node_address: Callable[[Family, bytes], bool] = is_machine_address,
        reporter: Reporter | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kernel, self._is_node_address, self._sleep = kernel, is_node_address, sleep
        self._reporter = reporter or Reporter()
        self._pending: dict[Family, dict[Frontend, tuple[ServiceKey, ServingEndpoints]]] = {
            family: {} for family in FAMILIES
        }
        """The frontends whose flows have to be checked, with their Services and current endpoints."""
        self._has_work = asyncio.Event()

    def service_changed(self, before: NodeService | None, after: NodeService | None) -> None:
        """Record that the kernel has new rules of a Service, in one family; a version that is not served is None.

        Call it after the rules are in the kernel: before, new flows could still start under the old rules.
        """
        one = after or before
        if one is None:
            return
        was, now = udp_frontends(before), udp_frontends(after)
        pending, service = self._pending[one.family], (one.namespace, one.name)
        for front, serving in now.items():
            if front in pending or front not in was or _has_lost_endpoints(was[front], serving):
                pending[front] = service, serving
        for front in was:
            # Another Service may own the address by now.
            if front not in now and front in pending and pending[front][0] == service:
                del pending[front]
        if pending:
            self._has_work.set()

    def pending_frontends(self, family: Family) -> dict[Frontend, ServingEndpoints]:
        """The frontends whose flows have to be checked, with their current endpoints."""
        return {front: serving for front, (_, serving) in self._pending[family].items()}

    async def run(self) -> None:
        """Run until cancelled. It checks at most once a second."""
        failures = 0
        while True:
            await self._has_work.wait()
            await self._sleep(_GATHER_SECONDS)
            self._has_work.clear()
            try:
                for family in FAMILIES:
                    await self._clean(family)
                failures = 0
            except (KernelRefused, KernelOutcomeUnknown) as error:
                self._reporter.conntrack_failed(str(error))
                failures += 1
                self._has_work.set()
            await self._sleep(_BACKOFF.delay(failures + 1))

    async def _clean(self, family: Family) -> None:
        frontends = self.pending_frontends(family)
        if not frontends:
            return
        stale: dict[bytes, None] = {}
        for request in _requests(family, frontends):
            await self._find(family, await self._kernel.query(request), stale)
        for count, request in delete_requests(family, stale):
            removed = await self._delete(count, request)
            if removed:
                self._reporter.flows_removed(removed)
        pending = self._pending[family]
        for front, serving in frontends.items():
            # It may have changed meanwhile.
            if front in pending and pending[front][1] is serving:
                del pending[front]

    async def _find(self, family: Family, answer: bytes, stale: dict[bytes, None]) -> None:
        """Add the identity of each stale flow to ``stale``: the kernel may report a flow for several frontends."""
        # Endpoints may have been added since the query.
        is_stale = stale_flow_check(
            family, self.pending_frontends(family), lambda address: self._is_node_address(family, address)
        )
        for count, flow in enumerate(read_flows(answer), start=1):
            if (flow.family, flow.protocol) == (family, socket.IPPROTO_UDP):
                destination = flow.destination, int.from_bytes(flow.destination_port)
                if is_stale(destination, (flow.endpoint, int.from_bytes(flow.endpoint_port))):
                    stale[flow.identity] = None
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _delete(self, count: int, request: bytes) -> int:
        """The number of removed flows. If any had ended by itself, the kernel reports only one of those."""
        try:
            await self._kernel.query(request)
        except KernelRefused as error:
            if error.number != errno.ENOENT:
                raise
            return count - 1
        return count


def _requests(family: Family, frontends: dict[Frontend, ServingEndpoints]) -> list[bytes]:
    if len(frontends) > _MAX_SINGLE_QUERIES:
        return [udp_flows_request(family)]
    requests = (
        udp_flows_request(family, address=None if address is None else pack_address(family, address), port=port)
        for address, port in frontends
    )
    return list(dict.fromkeys(requests))
