"""The meter's loop: it reads ended flows ten times a second and all live flows every 30 seconds, and adds both up."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NoReturn, Protocol

import msgspec

from zoneward.client.backoff import Backoff
from zoneward.kube.objects import ObjectKey
from zoneward.meter.conntrack_reader import ConntrackReader, ConntrackUnavailable
from zoneward.meter.flow_table import FlowTable
from zoneward.meter.traffic_totals import EXTERNAL, TrafficRoute, TrafficTotal, TrafficTotals
from zoneward.netlink.conntrack import Flow, read_flows
from zoneward.routing.selection.address_ownership import AddressKind

DUMP_PERIOD: Final = 30.0
"""Seconds between two dumps. A hundred thousand flows take about a second of CPU."""
MIN_DUMP_PERIOD: Final = 2.0
"""Minimum seconds between two dumps, and the period while messages are lost."""
_BACKOFF: Final = Backoff(initial=MIN_DUMP_PERIOD, cap=60.0)
"""After connection tracking could not be read."""
_DRAIN_PERIOD: Final = 0.1
"""Seconds between two reads of ended flows. Waking up for each message costs more than reading it."""
_MAX_DRAINED: Final = 20_000
"""Ended flows that are read between two parts of a dump, so that a dump ends even under load."""
_MOST_ROUTES: Final = 50_000
"""Size of the cache from a Service's port and an endpoint to their total."""
_TURN: Final = 500
"""Messages after which the loop yields to other tasks."""


class TrafficIndex(Protocol):
    """Finds the Service and the zones of a flow. Addresses and ports are bytes, as in a packet.

    `zoneward.meter.meter_cache.MeterCache` is the meter's; the proxy has another.
    """

    @property
    def node_name(self) -> str: ...
    @property
    def node_zone(self) -> str | None: ...
    @property
    def changes(self) -> int:
        """A number that differs after each change of the index."""
        ...

    def __contains__(self, service: ObjectKey) -> bool: ...

    def find_service(self, destination: bytes, protocol: int, port: bytes) -> tuple[ObjectKey, AddressKind] | None:
        """The Service with this address and port, and the kind of the address; None: no Service has it."""
        ...

    def endpoint_zone(self, service: ObjectKey, endpoint: bytes) -> str | None:
        """The zone of an endpoint, ``""`` if it has none; None if it is not, and was not lately, an endpoint."""
        ...

    def is_local(self, source: bytes) -> bool:
        """Whether traffic from an address starts on this node."""
        ...

    def forget_gone(self) -> None:
        """Forget endpoints that have been gone for long."""
        ...


class FlowMeter:
    """`run` it inside the ``with`` block of its reader; read `document` or ``totals``.

    ``limit`` is the maximum number of totals. ``on_trouble`` gets the reason when connection tracking cannot be read;
    the meter retries.
    """

    def __init__(
        self,
        reader: ConntrackReader,
        index: TrafficIndex,
        *,
        limit: int,
        dump_period: float = DUMP_PERIOD,
        on_trouble: Callable[[str], None] = lambda _why: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._reader, self._index = reader, index
        self._dump_period, self._now, self._clock, self._sleep = dump_period, now, clock, sleep
        self.totals: Final = TrafficTotals(since=now(), limit=limit)
        self.flows: Final = FlowTable(self._total_of)
        self._on_trouble = on_trouble
        self._routes: dict[bytes, TrafficTotal] = {}
        """By the route of flows to cluster IPs. Looking up every flow would double the CPU time."""
        self._changes_seen = -1
        self._turn = asyncio.Lock()
        self._lost_before = 0
        self._dumped_at = float("-inf")
        self.dump_seconds = 0.0
        """How long the last dump took."""

    @property
    def lost(self) -> int:
        """Number of messages about ended flows that the kernel dropped because the buffer was full."""
        return self._reader.lost

    async def run(self) -> NoReturn:
        """Run until cancelled."""
        failures = 0
        while True:
            try:
                await self.poll()
                failures = 0
                await self._follow()
            except ConntrackUnavailable as error:
                self._on_trouble(str(error))
                failures += 1
                await self._sleep(_BACKOFF.delay(failures))
            self._forget()

    async def poll(self) -> None:
        """Read all counters, unless that happened less than `MIN_DUMP_PERIOD` ago. Raises ConntrackUnavailable."""
        async with self._turn:
            began = self._clock()
            if began - self._dumped_at < MIN_DUMP_PERIOD:
                return
            self._lost_before = self.lost
            await self._drain()
            self.flows.begin_dump()
            try:
                for part in self._reader.dump():
                    for flow in read_flows(part, only_translated=True):
                        self.flows.add_dumped(flow)
                    await self._drain()
            except BaseException:
                self.flows.abandon_dump()
                raise
            self.flows.end_dump()
            self._dumped_at = self._clock()
            self.dump_seconds = self._dumped_at - began

    async def _follow(self) -> None:
        """Count flows that end, until the next dump is due; sooner if messages were lost."""
        while True:
            wait = self._dump_period if self.lost == self._lost_before else MIN_DUMP_PERIOD
            left = self._dumped_at + wait - self._clock()
            if left <= 0:
                return
            await self._sleep(min(left, _DRAIN_PERIOD))
            async with self._turn:
                await self._drain()

    async def document(self) -> bytes:
        """The document for ``--measured``, as of now; before the first dump has ended it has no Services."""
        if self.flows.has_baseline:
            await self.poll()
        lacks_bytes = self.flows.without_counters > 0 and self.totals.has_bytes
        return msgspec.json.encode(
            self.totals.document(
                node=self._index.node_name,
                zone=self._index.node_zone,
                until=self._now(),
                complete=not (self.lost or lacks_bytes),
            )
        )

    async def _drain(self) -> None:
        """Count flows that the kernel reported as ended."""
        add = self.flows.add_ended
        for count, message in enumerate(islice(self._reader.ended_flows(), _MAX_DRAINED)):
            for flow in read_flows(message, only_translated=True):
                add(flow)
            if not count % _TURN:
                await asyncio.sleep(0)

    def _forget(self) -> None:
        now = self._clock()
        self._routes.clear()
        self.totals.forget_services(lambda service: service not in self._index, now=now)
        self._index.forget_gone()

    def _total_of(self, flow: Flow) -> TrafficTotal | None:
        if self._index.changes != self._changes_seen or len(self._routes) > _MOST_ROUTES:
            self._changes_seen = self._index.changes
            self._routes.clear()
        route = flow.route
        total = self._routes.get(route)
        if total is None:
            total, is_same_for_route = self._find_total(flow)
            if total is not None and is_same_for_route:
                self._routes[route] = total
        return total

    def _find_total(self, flow: Flow) -> tuple[TrafficTotal | None, bool]:
        """The total, and whether it is that of all flows of the same route."""
        index = self._index
        match = index.find_service(flow.destination, flow.protocol, flow.destination_port)
        if match is None:
            return None, False
        service, kind = match
        to_zone = index.endpoint_zone(service, flow.endpoint)
        if to_zone is None and kind == "node port":
            # Another program translates this port on an address that is not a node port's.
            return None, False
        by_cluster_ip = kind == "cluster IP"
        is_internal = by_cluster_ip or index.is_local(flow.source)
        from_zone = (index.node_zone or "") if is_internal else EXTERNAL
        return self.totals.total(TrafficRoute(service, flow.family, from_zone, to_zone or "")), by_cluster_ip
