"""Composes and runs a node's meter until it gets a signal. It changes nothing on the node."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from zoneward.client.api_errors import CallFailed
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.informers import WatchHealth, run_informers
from zoneward.client.resources import AnyWatchedResource
from zoneward.client.transport import Transport
from zoneward.daemon.listen_address import parse_listen_address
from zoneward.daemon.log import Log
from zoneward.daemon.metrics import MetricsPage
from zoneward.daemon.program import Program, collect_seldom
from zoneward.daemon.status_server import StatusPages, cache_is_synced, watches_are_open
from zoneward.daemon.unreadable_objects import log_unreadable_object
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import ObjectKey
from zoneward.meter.conntrack_reader import (
    ACCOUNTING_SYSCTL,
    ConntrackReader,
    ConntrackUnavailable,
    accounting_is_on,
    enable_accounting,
)
from zoneward.meter.flow_meter import FlowMeter
from zoneward.meter.meter_cache import MeterCache
from zoneward.meter.meter_configuration import MeterConfiguration
from zoneward.meter.meter_metrics import MeterMetrics
from zoneward.routing.selection.entry_budget import EntryBudget

_ACCOUNTING_LOOK: Final = 60.0
"""Seconds between two checks whether the kernel counts bytes."""


class MeterProgram:
    """`run` it once. ``node`` is the name of the Node that it runs on."""

    def __init__(
        self,
        access: ClientConfig,
        *,
        node: str,
        settings: MeterConfiguration,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access, self._node, self._settings, self._log = access, node, settings, log
        self._clock = clock
        self._metrics = MeterMetrics()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set. Raises InputError if connection tracking cannot be read, accounting cannot be
        enabled as requested, or an address is in use; CallFailed if the server refuses a required request; and any
        error of a part."""
        self._program = Program(self._access, log=self._log)
        async with AsyncExitStack() as stack:
            try:
                reader = stack.enter_context(ConntrackReader())
            except ConntrackUnavailable as error:
                raise InputError("the kernel", str(error)) from None
            self._begin_accounting()
            transport = await stack.enter_async_context(Transport(self._access))
            self._compose(transport, reader)
            await self._serve(stack)
            try:
                await self._work(stop)
            finally:
                await self._program.end_tasks()

    # --- parts --------------------------------------------------------------------------------------------------------

    def _begin_accounting(self) -> None:
        if self._settings.enable_accounting and not accounting_is_on():
            try:
                enable_accounting()
            except OSError as error:
                expected = f"expected to set {ACCOUNTING_SYSCTL} to 1, got: {error.strerror or error}"
                raise InputError("--enable-accounting", expected) from None
            self._log.info("enabled accounting: the kernel counts bytes", sysctl=ACCOUNTING_SYSCTL)

    def _compose(self, transport: Transport, reader: ConntrackReader) -> None:
        self.watch_health = WatchHealth(transport, clock=self._clock)
        settings = self._settings
        self.cache = MeterCache(
            self._node,
            budget=EntryBudget(most=settings.max_entries, most_of_namespace=settings.max_namespace_entries),
            on_unreadable=partial(log_unreadable_object, self._log),
            on_set_aside=self._on_set_aside,
            clock=self._clock,
        )
        self.meter = FlowMeter(
            reader,
            self.cache,
            limit=self._settings.max_series,
            dump_period=self._settings.dump_period,
            on_trouble=self._on_trouble,
            clock=self._clock,
        )

    async def _serve(self, stack: AsyncExitStack) -> None:
        self._metrics.declare_state(self.meter, self.cache, self.watch_health)
        self._program.ready |= {
            "cache": cache_is_synced(self.cache.synced.is_set),
            "watches": watches_are_open(self.watch_health),
            "connections": lambda: None if self.meter.flows.has_baseline else "connections have not been listed yet",
        }
        await self._program.serve_status(
            stack,
            StatusPages(metrics=MetricsPage(self._metrics.registry).text, pages={"/measured": self.meter.document}),
            listen=parse_listen_address(self._settings.listen),
            names=(self._node,),
            debug_for_all=False,
        )

    # --- running ------------------------------------------------------------------------------------------------------

    async def _work(self, stop: asyncio.Event) -> None:
        program = self._program
        start = partial(program.start, is_live_check=True)
        start(
            "the watches",
            run_informers(
                self.watch_health, self.cache, options=self.cache.list_options, on_error=self._on_watch_error
            ),
        )
        start("the meter", self._count())
        start("accounting", self._watch_accounting())
        start("the heartbeat", program.heartbeat.run())
        start("the garbage collector", collect_seldom(self.cache.synced.wait()))
        await program.wait(stop)
        self._log.info("shutting down")

    async def _count(self) -> None:
        # Flows can be assigned to Services after everything was listed.
        await self.cache.synced.wait()
        services, slices = self.cache.counts
        self._log.info("counting connections", services=services, slices=slices, zone=self.cache.node.zone)
        if self.cache.node.zone is None:
            self._log.warning("the Node has no zone or does not exist", node=self._node)
        await self.meter.run()

    async def _watch_accounting(self) -> None:
        was_on: bool | None = None
        while True:
            is_on = accounting_is_on()
            if was_on is not is_on and not is_on:
                self._log.warning(
                    "the kernel does not count bytes: only connections are counted", sysctl=f"{ACCOUNTING_SYSCTL}=0"
                )
            was_on = is_on
            await asyncio.sleep(_ACCOUNTING_LOOK)

    # --- reports ---------------------------------------------------------------------------------------------------

    def _on_set_aside(self, service: ObjectKey, why: str) -> None:
        self._log.error("a Service is not counted", service="/".join(service), error=why)

    def _on_trouble(self, why: str) -> None:
        self._metrics.read_errors.inc()
        self._log.error("failed to read connection tracking; retrying", error=why)

    def _on_watch_error(self, resource: AnyWatchedResource, error: CallFailed) -> None:
        self.watch_health.trouble(resource, error)
        self._metrics.watches.record_error(error, kind=resource.plural)
        self._program.log_watch_error(resource, error)
