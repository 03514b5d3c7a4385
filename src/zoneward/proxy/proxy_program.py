"""A node's proxy: its parts put together, and run until it is told to stop. The kernel's rules stay when it ends."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from msgspec.json import encode

from zoneward.client.api_errors import CallFailed, NotFound
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.backoff import Backoff
from zoneward.client.error_messages import to_input_error
from zoneward.client.informers import run_informers
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.reflector import ReflectorSettings
from zoneward.client.resources import NODES, SERVICES, AnyWatchedResource, LiveNode
from zoneward.client.transport import Transport
from zoneward.client.watch_health import WatchHealth
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.daemon.configuration_file import ListenAddress
from zoneward.daemon.health import cache_is_synced
from zoneward.daemon.log import Log
from zoneward.daemon.metrics import MetricsPage
from zoneward.daemon.program import Program, enter_server
from zoneward.daemon.status_server import StatusPages
from zoneward.kube.gc_tuning import collect_seldom
from zoneward.kube.input_error import InputError
from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import NodeAddress, ObjectKey, OwnerReference, node_zone
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.health.health_ports import HealthPorts
from zoneward.proxy.health.healthz import HealthzServer, ProxyHealth, is_eligible
from zoneward.proxy.health.proxy_mode import ProxyModeServer
from zoneward.proxy.kernel.applying import NftProcess
from zoneward.proxy.kernel.conntrack_cleaning import Conntrack, is_local
from zoneward.proxy.kernel.programming import FamilyTable, Programmed
from zoneward.proxy.loop import ProxyLoop
from zoneward.proxy.machine import families
from zoneward.proxy.measure.counting import Counting
from zoneward.proxy.measure.measured import Total
from zoneward.proxy.model.known import Known
from zoneward.proxy.model.node_options import all_node_addresses, layout_options, node_port_addresses, serves_node_ports
from zoneward.proxy.model.selections import selections
from zoneward.proxy.model.served import Served
from zoneward.proxy.model.watermark import Watermark
from zoneward.proxy.node_lease import NodeLease
from zoneward.proxy.proxy_configuration import ProxyConfiguration
from zoneward.proxy.proxy_metrics import ProxyMetrics
from zoneward.proxy.reports import Reports
from zoneward.proxy.ruleset.base_rules import LayoutOptions
from zoneward.proxy.telling import Teller
from zoneward.routing.configuration import Configuration

HEALTH_LIMIT: Final = 60.0
"""Seconds that a change may wait for the kernel before this proxy is unhealthy: kube-proxy's figure."""
BACKOFF: Final = Backoff(initial=0.5, cap=4.0)
"""After the API server could not be reached. A server that comes back may have to be asked twice, since it no longer
has the last version seen; and ten seconds later a node has to be up to date."""


class ProxyProgram:
    """`run` it once. ``lease_namespace`` is where this node's Lease is, ``instance`` names this process.

    ``kernel`` makes the one process that programs the kernel, which this one starts and ends; it reports its errors.
    """

    def __init__(
        self,
        access: ClientConfig,
        *,
        node: str,
        configuration: Configuration,
        settings: ProxyConfiguration,
        lease_namespace: str,
        log: Log,
        kernel: Callable[[Callable[[str], None]], NftProcess] = lambda on_trouble: NftProcess(on_trouble=on_trouble),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access, self._node, self._configuration, self._settings = access, node, configuration, settings
        self._lease_namespace, self._log, self._clock = lease_namespace, log, clock
        self._metrics = ProxyMetrics()
        self._kernel = kernel(self._on_process_restart)
        self._own: LiveNode | None = None
        self._has_started = False
        """Whether all that was listed is in the kernel, or was."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop`` is set. Raises InputError where the Node is not there, the kernel cannot be programmed, or an
        address cannot be had; CallFailed where the server refuses what nothing goes without; and whatever a part of it
        raises. Nothing is changed before all of that is known."""
        self._program = Program(self._access, log=self._log)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._kernel)
            transport = await stack.enter_async_context(Transport(self._access))
            self._own = await self._read_own_node(transport, stop)
            if self._own is None:
                return
            self._compose(transport)
            await self._serve(stack)
            try:
                await self._work(stop)
            finally:
                await self._program.end_tasks()

    # --- parts --------------------------------------------------------------------------------------------------------

    async def _read_own_node(self, transport: Transport, stop: asyncio.Event) -> LiveNode | None:
        """Waits for a server that is away, until the program is told to stop: nodes start when they can, and the rules
        in the kernel serve meanwhile."""
        failures = 0
        while not stop.is_set():
            try:
                return await Writer(transport).read(NODES, namespace="", name=self._node)
            except NotFound as error:
                expected = f"expected the name of a Node of the cluster, got {self._node!r}"
                raise InputError("--node", expected, str(error)) from None
            except CallFailed as error:
                if write_outcome(error) is WriteOutcome.REFUSED:
                    raise to_input_error(error, self._access, now=datetime.now(UTC)) from error
                self._log.warning("the API server does not answer", error=self._program.error_message(error))
            with suppress(TimeoutError):
                failures += 1
                await asyncio.wait_for(stop.wait(), BACKOFF.delay(failures))
        return None

    def _compose(self, transport: Transport) -> None:
        settings, gates, log = self._settings, self._configuration.gates, self._log
        self._standing = WatchHealth(transport, clock=self._clock)
        self._watermark = Watermark()
        self._health = ProxyHealth(limit=HEALTH_LIMIT, waiting=lambda family: self.loop.waiting_since(family))
        self._health.node(is_eligible(self._own))
        self.node_cache = Known(
            self._node,
            zone=node_zone(self._own) if self._own is not None else None,
            gates=gates,
            proxy_name=settings.proxy_name,
            max_entries=settings.max_service_entries,
            service_ranges=settings.service_ranges,
            on_service=self._on_service_change,
            on_node=self._on_node_change,
            on_left_out=lambda service, what: self._reports.left_out(service, what),
            on_unreadable=lambda found: self._reports.unreadable(found),
        )
        self._teller = Teller(Writer(transport), node=self._node, log=log, clock=self._clock)
        self._reports = Reports(
            self._metrics,
            log=log,
            teller=self._teller,
            service=lambda key: self.node_cache.services.get(*key),
            said=self._program.error_message,
        )
        self.loop = ProxyLoop(
            self.node_cache,
            metrics=self._metrics,
            log=log,
            after=self._on_service_programmed,
            on_too_large=self._reports.too_large,
            on_lost=self._reports.lost,
            on_selection_failed=self._reports.selection_failed,
            clock=self._clock,
        )
        options = layout_options(settings, self._own)
        self.tables = {family: self._table(family, options) for family in families()}
        for family, table in self.tables.items():
            self.loop.tables[family] = table
        self._update_node_addresses(options, self._own)
        self._conntrack = Conntrack(
            self._kernel,
            is_node_address=self._is_node_address,
            on_removed=self._reports.flows_removed,
            on_trouble=self._reports.flows_not_seen,
        )
        self._health_ports = HealthPorts(
            proxy_is_healthy=lambda: self._health.is_healthy(self._clock()), on_trouble=self._reports.no_health_port
        )
        self._counting = None
        if settings.count_connections:
            self._counting = Counting(
                self._kernel, self.tables, known=self.node_cache, on_trouble=self._reports.connections_not_seen
            )
        self._lease = NodeLease(
            transport,
            namespace=self._lease_namespace,
            node=self._node,
            proxy_name=settings.proxy_name or "",
            programmed=self._programmed_version,
            owner=self._owner_reference,
            on_trouble=self._reports.no_lease,
            clock=self._clock,
        )

    async def _serve(self, stack: AsyncExitStack) -> None:
        settings = self._settings
        self._metrics.declare_state(self)
        self._program.ready |= {"cache": cache_is_synced(self.node_cache.synced.is_set), "kernel": self._kernel_check}
        await self._program.serve_status(
            stack,
            StatusPages(
                metrics=MetricsPage(self._metrics.registry).text,
                pages={"/debug/selection": self._selection_page}
                | ({} if self._counting is None else {"/measured": self._counting.document}),
            ),
            listen=settings.listen,
            names=(self._node,),
            debug_for_all=settings.debug_for_all,
        )
        if (listen := settings.healthz_listen) is not None:
            healthz = HealthzServer(self._health, host=listen.host, port=listen.port, clock=self._clock)
            await enter_server(stack, healthz, option="--healthz-listen", listen=listen)
            self._log.info("healthz server listens", port=healthz.port)

    # --- running ------------------------------------------------------------------------------------------------------

    async def _work(self, stop: asyncio.Event) -> None:
        program = self._program
        start = partial(program.start, is_live_check=True)
        start(
            "the watches",
            run_informers(
                self._standing,
                self.node_cache,
                options=self.node_cache.list_options,
                settings=ReflectorSettings(backoff=replace(BACKOFF, jitter=0.5)),
                on_error=self._on_watch_error,
                on_version=lambda resource, version: self._watermark.received(resource.kind, version),
            ),
        )
        start("the loop", self.loop.run())
        start("the tables", self._run_tables())
        start("the heartbeat", program.heartbeat.run())
        start("conntrack", self._conntrack.run())
        start("health check ports", self._health_ports.run())
        start("the Lease", self._lease.run())
        start("the Events", self._teller.run())
        if (listen := self._settings.proxy_mode_address) is not None:
            start("the proxy mode", self._proxy_mode(listen).run())
        if self._counting is not None:
            start("counting", self._count_connections(self._counting))
        start("the garbage collector", collect_seldom(self._log_start()))
        await program.wait(stop)
        self._log.info("stops; the kernel's rules stay")

    def _proxy_mode(self, listen: ListenAddress) -> ProxyModeServer:
        return ProxyModeServer(
            listen,
            on_trouble=lambda why: self._log.warning(
                "the proxy mode can't be served: it is tried again", listen=str(listen), error=why
            ),
            on_listening=lambda port: self._log.info("proxy mode server listens", port=port),
        )

    async def _run_tables(self) -> None:
        """A start programs only when all is known: what is there from before serves until then."""
        await self.loop.selected.wait()
        try:
            async with asyncio.TaskGroup() as group:
                for table in self.tables.values():
                    # Rules that all Services share are there without any of them.
                    table.audit()
                    group.create_task(table.run())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _count_connections(self, counting: Counting) -> None:
        await self._all_programmed()
        await counting.run()

    async def _all_programmed(self) -> None:
        """Wait until all that was listed is in the kernel."""
        await self.loop.selected.wait()
        for table in self.tables.values():
            await table.settled()

    async def _log_start(self) -> None:
        """Wait until all that was listed is in the kernel, and log it."""
        begun = self._clock()
        await self.node_cache.synced.wait()
        listed = self._clock()
        await self._all_programmed()
        self._has_started = True
        now = self._clock()
        self._log.info(
            "all is in the kernel",
            services=len(self.node_cache.services),
            slices=len(self.node_cache.slices),
            zone=self.node_cache.node.zone,
            seconds=round(now - begun, 3),
            since_listed=round(now - listed, 3),
        )

    # --- what happens -------------------------------------------------------------------------------------------------

    def _table(self, family: Family, options: LayoutOptions) -> FamilyTable:
        return FamilyTable(
            self._kernel,
            family,
            options=options,
            audit_every=self._settings.audit_period,
            on_programmed=lambda done: self._on_programmed(family, done),
            on_refused=lambda service, why: self._on_refused(family, service, why),
            on_mended=lambda what, number: self._reports.mended(family, what, number),
            on_trouble=self._reports.not_programmed,
        )

    def _on_service_change(self, service: ObjectKey, trigger: str | None) -> None:
        self._watermark.changed(service)
        self.loop.changed(service, trigger)

    def _on_node_change(self, node: LiveNode | None) -> None:
        before, self._own = self._own, node or self._own
        self._health.node(is_eligible(node))
        if node is not None and self.node_cache.node.zone is None:
            self._log.warning("the Node has no zone: all endpoints are used", node=self._node)
        if node is not None and before is not None:
            old, new = (layout_options(self._settings, each) for each in (before, node))
            if old != new:
                for table in self.tables.values():
                    table.options = new
            if _addresses(before) != _addresses(node):
                self._update_node_addresses(new, node)

    def _update_node_addresses(self, options: LayoutOptions, node: LiveNode | None) -> None:
        self.loop.set_node_addresses(node_port_addresses(options, node))
        all_node_addresses(node, left_out=self._reports.node_address_left_out)

    def _on_programmed(self, family: Family, done: Programmed) -> None:
        self.loop.programmed(family, done)
        self._health.programmed(self._clock(), family)

    def _on_service_programmed(self, service: ObjectKey, before: Served | None, after: Served | None) -> None:
        one = after or before
        if self._counting is not None and one is not None:
            self._counting.programmed(service, one.family, after)
        self._conntrack.changed(before, after)
        if any(each is not None and each.health_check_port is not None for each in (before, after)):
            families = [each for family in FAMILIES if (each := self.loop.served(family).get(service)) is not None]
            port = next((each.health_check_port for each in families if each.health_check_port is not None), None)
            self._health_ports.put(service, port, max((each.healthy for each in families), default=0))

    def _on_refused(self, family: Family, service: ObjectKey, why: str) -> None:
        self.loop.refused(family, service)
        self._reports.refused(family, service, why)

    def _on_watch_error(self, resource: AnyWatchedResource, error: CallFailed) -> None:
        self._standing.trouble(resource, error)
        self._reports.not_heard(resource, error)

    def _on_process_restart(self, why: str) -> None:
        self._metrics.process_restarts.inc()
        self._log.warning("the process that programs the kernel is started again", error=why)

    def _is_node_address(self, family: Family, address: bytes) -> bool:
        return serves_node_ports(self.tables[family].options, family, address) and is_local(family, address)

    # --- what others read ---------------------------------------------------------------------------------------------

    def _programmed_version(self) -> Any:
        refused = {service for table in self.tables.values() for service in table.refused}
        unreadable = {_service_of(found) for found in self.node_cache.unreadable if found.resource.kind != NODES.kind}
        left_out = self.loop.left_out | self.loop.too_large.keys() | unreadable
        return self._watermark.programmed(waits=self.loop.waits, refused=refused | left_out)

    def _owner_reference(self) -> OwnerReference | None:
        node = self._own
        if node is None or not node.metadata.uid:
            return None
        return OwnerReference(api_version="v1", kind="Node", name=self._node, uid=node.metadata.uid)

    def _kernel_check(self) -> str | None:
        if not self._has_started:
            return "not all that was listed is in the kernel yet"
        since = self.loop.waiting_since()
        is_late = since is not None and not self._health.is_healthy(self._clock())
        return f"a change waits for {self._clock() - (since or 0.0):.0f} s" if is_late else None

    async def _selection_page(self) -> bytes:
        """Made in a thread: many Services take long."""
        node, some = self.node_cache.node, [each for family in FAMILIES for each in self.loop.served(family).values()]
        return await asyncio.get_running_loop().run_in_executor(None, lambda: encode(selections(node, some)))

    # --- what metrics read --------------------------------------------------------------------------------------------

    @property
    def watch_trouble_seconds(self) -> float:
        """For how long some kind has not been heard of; 0: all are."""
        lasting = self._standing.lasting
        return 0.0 if lasting is None else self._clock() - lasting[0]

    @property
    def waiting_seconds(self) -> float:
        """For how long the oldest change has waited for the kernel."""
        since = self.loop.waiting_since()
        return 0.0 if since is None else self._clock() - since

    def connection_totals(self) -> tuple[Total, ...]:
        return () if self._counting is None else tuple(self._counting.totals())


def _addresses(node: LiveNode) -> tuple[NodeAddress, ...]:
    return (node.status.addresses if node.status is not None else None) or ()


def _service_of(found: UnreadableObject) -> ObjectKey:
    """The Service that an object that cannot be read is, or belongs to; with an empty name where it does not say."""
    if found.resource.kind == SERVICES.kind:
        return found.key
    return found.namespace, found.labels.get(SERVICE_NAME_LABEL, "")
