"""Removes stale flows of UDP from the kernel's connection tracking after the rules have changed.

The kernel remembers where each flow goes, as long as packets come. A flow of TCP ends when its endpoint does, one of
UDP does not: its client would go on to send where nobody answers. So flows through a Service are removed when they go
to an endpoint that does not serve any more, and those that went to the Service's own address when it gets its first
endpoint. As in kube-proxy 1.37 (``CleanStaleEntries``), flows stay as long as their endpoint serves at all, whether
this node still selects it or not. Flows through the addresses of a Service without endpoints are removed too: its
rejecting rule never sees a packet of a flow that is already translated. Those through its node port stay, because a
port alone does not say whose a flow is.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Final, Protocol

from zoneward.client.backoff import Backoff
from zoneward.netlink.conntrack import (
    SocketAddress,
    delete_requests,
    pack_address,
    read_flows,
    udp_flows_request,
)
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.nft_client import KernelOutcomeUnknown, KernelRefused
from zoneward.proxy.model.node_service import Backend, NodeService
from zoneward.proxy.reporter import Reporter

Frontend = tuple[str | None, int]
"""Where clients send to: an address and a port. Without an address: a port of the node."""
ServingEndpoints = tuple[Backend, ...]
_UDP: Final = "udp"


def udp_frontends(served: NodeService | None) -> dict[Frontend, ServingEndpoints]:
    """Where clients of UDP send to, and the endpoints that serve each."""
    frontends: dict[Frontend, ServingEndpoints] = {}
    for port in served.ports if served is not None else ():
        if served is not None and port.protocol == _UDP:
            for address in served.addresses(port):
                frontends[address, port.port] = port.serving_endpoints
            if port.node_port and port.serving_endpoints:
                frontends[None, port.node_port] = port.serving_endpoints
    return frontends


class PendingFrontends:
    """The frontends whose flows have to be checked, with the endpoints that serve them now."""

    def __init__(self) -> None:
        self._frontends: dict[Family, dict[Frontend, tuple[tuple[str, str], ServingEndpoints]]] = {
            family: {} for family in FAMILIES
        }

    def __bool__(self) -> bool:
        return any(self._frontends.values())

    def service_changed(self, before: NodeService | None, after: NodeService | None) -> None:
        """A Service changed, and the kernel's rules with it. Either may be None, and both are of one family."""
        one = after or before
        if one is None:
            return
        was, now = udp_frontends(before), udp_frontends(after)
        if not was and not now:
            return
        pending, service = self._frontends[one.family], (one.namespace, one.name)
        for front, serving in now.items():
            if front in pending or front not in was or _has_lost_endpoints(was[front], serving):
                pending[front] = service, serving
        for front in was:
            # Another Service may have got the address since.
            if front not in now and front in pending and pending[front][0] == service:
                del pending[front]

    def in_family(self, family: Family) -> dict[Frontend, ServingEndpoints]:
        return {front: serving for front, (_, serving) in self._frontends[family].items()}

    def remove(self, family: Family, looked_at: Mapping[Frontend, ServingEndpoints]) -> None:
        """These were checked; what changed meanwhile stays."""
        pending = self._frontends[family]
        for front, serving in looked_at.items():
            if front in pending and pending[front][1] is serving:
                del pending[front]


class StaleFlowDetector:
    """Says which flows are stale. ``is_node_address``: whether an address, by its bytes, is one of the node's."""

    def __init__(
        self, family: Family, frontends: Mapping[Frontend, ServingEndpoints], is_node_address: Callable[[bytes], bool]
    ) -> None:
        by_identity: dict[int, frozenset[SocketAddress]] = {}

        def addresses_of(serving: ServingEndpoints) -> frozenset[SocketAddress]:
            if id(serving) not in by_identity:
                by_identity[id(serving)] = frozenset(_socket_addresses(family, serving))
            return by_identity[id(serving)]

        self._by_address = {
            (pack_address(family, address), port): addresses_of(serving)
            for (address, port), serving in frontends.items()
            if address is not None
        }
        self._by_port = {
            port: addresses_of(serving) for (address, port), serving in frontends.items() if address is None
        }
        self._is_node_address = cache(is_node_address)

    def is_stale(self, destination: SocketAddress, endpoint: SocketAddress) -> bool:
        """Whether a flow is stale whose client sends to ``destination`` and gets replies from ``endpoint``."""
        serving = self._by_address.get(destination)
        if serving is None:
            address, port = destination
            serving = self._by_port.get(port)
            if serving is None or not self._is_node_address(address):
                return False
        return endpoint not in serving


def _socket_addresses(family: Family, serving: ServingEndpoints) -> Iterator[SocketAddress]:
    """Endpoints as flows name them; one whose address is invalid answers nobody."""
    for endpoint in serving:
        with suppress(OSError):
            yield pack_address(family, endpoint.address), endpoint.port


def _has_lost_endpoints(before: ServingEndpoints, now: ServingEndpoints) -> bool:
    """Whether flows may be there that none of those who serve now answers."""
    return before is not now and (not before or not set(before) <= set(now))


_GATHER_SECONDS: Final = 0.1
"""Seconds before flows are looked at: changes seldom come alone, and packets under way met the rules of before."""
_BACKOFF: Final = Backoff(initial=1.0, cap=60.0)
"""Between two checks; the first delay follows a check that went well."""
_MAX_SINGLE_QUERIES: Final = 16
"""Frontends up to which the kernel is asked for the flows of each. It goes through all of its flows each time, but
returns few."""
_AT_ONCE: Final = 500
"""Flows that are read before others get their turn: some milliseconds."""
_ADDRESSES: Final[dict[Family, socket.AddressFamily]] = {"ip": socket.AF_INET, "ip6": socket.AF_INET6}


class NetlinkClient(Protocol):
    """The part of a `zoneward.proxy.kernel.nft_client.KernelClient` that is needed here."""

    async def query(self, request: bytes) -> bytes:
        """Return everything that the kernel answers to one netlink request. Raises as `KernelClient` does."""
        ...


def is_machine_address(family: Family, address: bytes) -> bool:
    """Whether an address is this machine's, and not loopback, on which no node port is served."""
    if address[0] == 127 if family == "ip" else address == b"\0" * 15 + b"\1":
        return False
    # The kernel lets a socket have just those, and needs no permission.
    with socket.socket(_ADDRESSES[family], socket.SOCK_DGRAM) as attempt:
        try:
            attempt.bind((socket.inet_ntop(_ADDRESSES[family], address), 0))
        except OSError:
            return False
    return True


class ConntrackCleaner:
    """Removes stale flows of UDP while it `run`s. Report changes with `service_changed`.

    After a failure it retries, up to a minute later. ``is_node_address``: whether node ports are served on an address.
    ``sleep`` waits for seconds.
    """

    def __init__(
        self,
        kernel: NetlinkClient,
        *,
        is_node_address: Callable[[Family, bytes], bool] = is_machine_address,
        reporter: Reporter | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kernel, self._is_node_address, self._sleep = kernel, is_node_address, sleep
        self._reporter = reporter or Reporter()
        self._pending_frontends = PendingFrontends()
        self._has_work = asyncio.Event()

    def service_changed(self, before: NodeService | None, after: NodeService | None) -> None:
        """The kernel has new rules of a Service, in one family; either is None where it was or is not served.

        Call it once the rules are in the kernel: flows that began under the old rules would come back.
        """
        self._pending_frontends.service_changed(before, after)
        if self._pending_frontends:
            self._has_work.set()

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
        frontends = self._pending_frontends.in_family(family)
        if not frontends:
            return
        stale: dict[bytes, None] = {}
        for request in _requests(family, frontends):
            await self._find(family, await self._kernel.query(request), stale)
        for count, request in delete_requests(family, stale):
            removed = await self._delete(count, request)
            if removed:
                self._reporter.flows_removed(removed)
        self._pending_frontends.remove(family, frontends)

    async def _find(self, family: Family, answer: bytes, stale: dict[bytes, None]) -> None:
        """Add the identity of each stale flow: the kernel may report one for several frontends."""
        # Endpoints may have come since it was asked for.
        detector = StaleFlowDetector(
            family, self._pending_frontends.in_family(family), lambda address: self._is_node_address(family, address)
        )
        for count, flow in enumerate(read_flows(answer), start=1):
            if (flow.family, flow.protocol) == (family, socket.IPPROTO_UDP):
                destination = flow.destination, int.from_bytes(flow.destination_port)
                if detector.is_stale(destination, (flow.endpoint, int.from_bytes(flow.endpoint_port))):
                    stale[flow.identity] = None
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _delete(self, count: int, request: bytes) -> int:
        """How many were removed; where some had gone by themselves, one of them is known."""
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
