"""The meter's loop: it reads ended flows ten times a second and all live flows every 30 seconds, and adds both up.

A dump of connection tracking lists all live flows, and the kernel sends a message for each flow that ends, with its
last counters. So a flow that outlives a dump is counted at each dump, and a shorter one when it ends. Messages about
new flows are not needed.

Flows that existed before the first dump may have been counted by an earlier meter: their connections are not counted,
and only the bytes that they transfer from then on.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, NoReturn, Protocol

import msgspec

from zoneward.client.backoff import Backoff
from zoneward.kube.objects import ObjectKey
from zoneward.meter.conntrack_reader import ConntrackReader, ConntrackUnavailable
from zoneward.meter.traffic_totals import EXTERNAL, TrafficRoute, TrafficTotal, TrafficTotals
from zoneward.netlink.conntrack import Flow, read_flows
from zoneward.routing.selection.address_ownership import AddressKind


class _LiveFlow:
    """What has been counted of a flow, and the number of the last dump that had it."""

    __slots__ = ("dump", "request", "response", "total")

    def __init__(self, total: TrafficTotal, dump: int) -> None:
        self.total, self.dump = total, dump
        self.request = self.response = 0


class FlowTable:
    """Begin a dump with `begin_dump`, pass each of its flows to `add_dumped`, and end it with `end_dump`; in between
    and at all times pass flows that end to `add_ended`.

    ``total_of`` returns the total that a flow belongs to; None: it is not counted.
    """

    def __init__(self, total_of: Callable[[Flow], TrafficTotal | None]) -> None:
        self._total_of = total_of
        self._live: dict[bytes, _LiveFlow] = {}
        self._dump = 0
        self.has_baseline = False
        """Whether the first dump has ended. Everything after it is counted."""
        self._ended: set[bytes] | None = None
        """Flows that ended during this dump: the parts that are read later may still list them."""
        self.unannounced = 0
        """Flows that ended without a message: what they sent after the last dump is not counted."""
        self.without_counters = 0
        """Flows without byte counters: accounting was off when they began."""

    def __len__(self) -> int:
        return len(self._live)

    def begin_dump(self) -> None:
        self._dump += 1
        self._ended = set()

    def add_dumped(self, flow: Flow) -> None:
        key = flow.key
        if self._ended and key in self._ended:
            return
        live = self._live.get(key)
        if live is None:
            total = self._total_of(flow)
            if total is None:
                return
            live = self._live[key] = _LiveFlow(total, self._dump)
            if self.has_baseline:
                self._count_connection(total, flow)
                _count_bytes(live, flow)
            else:
                live.request, live.response = max(0, flow.request), max(0, flow.response)
            return
        if 0 <= flow.request < live.request or 0 <= flow.response < live.response:
            # Another flow with the same key: the message about the end of the first one was lost.
            self.unannounced += 1
            live.request = live.response = 0
            self._count_connection(live.total, flow)
        live.dump = self._dump
        _count_bytes(live, flow)

    def add_ended(self, flow: Flow) -> None:
        key = flow.key
        if self._ended is not None:
            self._ended.add(key)
        live = self._live.pop(key, None)
        if live is None:
            # Before the first dump has ended, it is unknown when the flow began.
            total = self._total_of(flow) if self.has_baseline else None
            if total is not None:
                self._count_connection(total, flow)
                if flow.request >= 0:
                    total.has_bytes = True
                    total.request += flow.request
                    total.response += flow.response
            return
        _count_bytes(live, flow)

    def end_dump(self) -> None:
        """Forget flows that two dumps in a row did not list: a dump may skip one while the kernel's table grows."""
        self._ended, self.has_baseline = None, True
        lost = [key for key, live in self._live.items() if live.dump < self._dump - 1]
        for key in lost:
            del self._live[key]
        self.unannounced += len(lost)

    def abandon_dump(self) -> None:
        """Discard a dump that broke off: it did not list all flows."""
        self._ended = None
        self._dump -= 1

    def _count_connection(self, total: TrafficTotal, flow: Flow) -> None:
        total.connections += 1
        if flow.request < 0:
            self.without_counters += 1


def _count_bytes(live: _LiveFlow, flow: Flow) -> None:
    """Count by how much a flow's counters grew. A flow has counters from its beginning or never."""
    request, response = flow.request, flow.response
    if request < 0:
        return
    total = live.total
    total.has_bytes = True
    if request > live.request:
        total.request += request - live.request
        live.request = request
    if response > live.response:
        total.response += response - live.response
        live.response = response


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
        self._dump_period, self._clock, self._sleep = dump_period, clock, sleep
        self.totals: Final = TrafficTotals(since=now(), limit=limit)
        self._began = clock()
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
        """The document for ``--measured``, as of now, on one line: a file may have those of several nodes.
        Before the first dump has ended it has no Services.
        """
        if self.flows.has_baseline:
            await self.poll()
        lacks_bytes = self.flows.without_counters > 0 and self.totals.has_bytes
        document = self.totals.document(
            node=self._index.node_name,
            zone=self._index.node_zone,
            # A node that starts may set its clock late, by years: amounts are divided by this time.
            until=self.totals.since + timedelta(seconds=self._clock() - self._began),
            complete=not (self.lost or lacks_bytes),
        )
        return msgspec.json.encode(document) + b"\n"

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
