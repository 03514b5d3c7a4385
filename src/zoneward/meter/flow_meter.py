"""The meter's loop: announcements many times a second, a dump now and then, and what both come to."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NoReturn, Protocol

import msgspec

from zoneward.meter.conntrack_reader import ConntrackReader, ConntrackUnavailable
from zoneward.meter.flow_table import FlowTable
from zoneward.meter.service_index import EndpointZones, MeteredNode, ServiceIndex
from zoneward.meter.traffic_totals import EXTERNAL, TrafficRoute, TrafficTotal, TrafficTotals
from zoneward.netlink.flow_counters import TranslatedFlow, translated_flows

DUMP_PERIOD: Final = 30.0
"""Seconds between two dumps. A hundred thousand flows take about a second of CPU."""
MIN_DUMP_PERIOD: Final = 2.0
"""Seconds between two dumps however often somebody asks, and where announcements were lost."""
_DRAIN_PERIOD: Final = 0.1
"""Seconds between two looks for announcements. To wait for each would cost more than to read it."""
_MOST_AT_ONCE: Final = 20_000
"""Announcements between two parts of a dump, which must end even where more are made than can be read."""
_MOST_ROUTES: Final = 50_000
"""Pairs of a Service's port and an endpoint whose total is remembered."""
_TURN: Final = 500
"""Announcements after which others get their turn."""


class FlowKnowledge(Protocol):
    """What is known of the cluster; `zoneward.meter.meter_cache.MeterCache` is one."""

    @property
    def name(self) -> str: ...
    @property
    def node(self) -> MeteredNode: ...
    @property
    def services(self) -> ServiceIndex: ...
    @property
    def endpoints(self) -> EndpointZones: ...
    @property
    def changes(self) -> int:
        """Another number whenever any of it changed."""
        ...


class FlowMeter:
    """`run` it within the block of its reader; read `document` or ``totals``.

    ``limit`` is that of totals. ``on_trouble`` gets why connection tracking could not be read; it is tried again.
    """

    def __init__(
        self,
        reader: ConntrackReader,
        known: FlowKnowledge,
        *,
        limit: int,
        dump_period: float = DUMP_PERIOD,
        on_trouble: Callable[[str], None] = lambda _why: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._reader, self._known = reader, known
        self._dump_period, self._now, self._clock, self._sleep = dump_period, now, clock, sleep
        self.totals: Final = TrafficTotals(since=now(), limit=limit)
        self.flows: Final = FlowTable(self._total_of)
        self._on_trouble = on_trouble
        self._routes: dict[bytes, TrafficTotal] = {}
        """By the route of flows to cluster IPs: to look each flow up anew would take as long as all the rest."""
        self._changes_seen = -1
        self._turn = asyncio.Lock()
        self._lost_before = 0
        self._dumped_at = float("-inf")
        self.dump_seconds = 0.0
        """How long the last dump took."""

    @property
    def lost(self) -> int:
        """Announcements of flows that ended for which there was no room."""
        return self._reader.lost

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            try:
                await self.poll()
                await self._follow()
            except ConntrackUnavailable as error:
                self._on_trouble(str(error))
                await self._sleep(MIN_DUMP_PERIOD)
            self._forget()

    async def poll(self) -> None:
        """Count what the kernel has counted by now, unless that was just done. Raises ConntrackUnavailable."""
        async with self._turn:
            began = self._clock()
            if began - self._dumped_at < MIN_DUMP_PERIOD:
                return
            self._lost_before = self.lost
            await self._drain()
            self.flows.begin_dump()
            try:
                for part in self._reader.dump():
                    for flow in translated_flows(part):
                        self.flows.add_dumped(flow)
                    await self._drain()
            except BaseException:
                self.flows.abandon_dump()
                raise
            self.flows.end_dump()
            self._dumped_at = self._clock()
            self.dump_seconds = self._dumped_at - began

    async def _follow(self) -> None:
        """Count flows that end, until it is time for a dump: sooner where announcements were lost."""
        while True:
            wait = self._dump_period if self.lost == self._lost_before else MIN_DUMP_PERIOD
            left = self._dumped_at + wait - self._clock()
            if left <= 0:
                return
            await self._sleep(min(left, _DRAIN_PERIOD))
            async with self._turn:
                await self._drain()

    async def document(self) -> bytes:
        """For ``--measured``, as of now."""
        await self.poll()
        node = self._known.node
        return msgspec.json.encode(
            self.totals.document(
                node=self._known.name,
                zone=node.zone,
                until=self._now(),
                complete=not (self.lost or self.flows.without_counters),
            )
        )

    async def _drain(self) -> None:
        """Count flows that were announced as ended."""
        add = self.flows.add_ended
        for number, announcement in enumerate(islice(self._reader.announcements(), _MOST_AT_ONCE)):
            for flow in translated_flows(announcement):
                add(flow)
            if not number % _TURN:
                await asyncio.sleep(0)

    def _forget(self) -> None:
        now = self._clock()
        self._routes.clear()
        self.totals.forget_services(lambda service: service not in self._known.services, now=now)
        self._known.endpoints.forget_gone(now=now)

    def _total_of(self, flow: TranslatedFlow) -> TrafficTotal | None:
        if self._known.changes != self._changes_seen or len(self._routes) > _MOST_ROUTES:
            self._changes_seen = self._known.changes
            self._routes.clear()
        route = flow.route
        found = self._routes.get(route)
        if found is None:
            found, is_internal = self._find_total(flow)
            if found is not None and is_internal:
                self._routes[route] = found
        return found

    def _find_total(self, flow: TranslatedFlow) -> tuple[TrafficTotal | None, bool]:
        """The total, and whether it is that of all flows of the same route."""
        known = self._known
        found = known.services.find(flow.destination, flow.protocol, flow.destination_port)
        if found is None:
            return None, False
        service, asked_for = found
        to_zone = known.endpoints.zone(service, flow.endpoint)
        if to_zone is None and asked_for == "node port":
            # Somebody else translates another address with the same port.
            return None, False
        by_cluster_ip = asked_for == "cluster IP"
        is_internal = by_cluster_ip or known.node.is_local(flow.source)
        from_zone = (known.node.zone or "") if is_internal else EXTERNAL
        return self.totals.total(TrafficRoute(service, flow.family, from_zone, to_zone or "")), by_cluster_ip
