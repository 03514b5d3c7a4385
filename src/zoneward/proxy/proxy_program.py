"""Composes and runs the proxy of a node. The kernel's rules stay when it ends."""

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
from zoneward.client.informers import WatchHealth, run_informers
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.reflector import ReflectorSettings
from zoneward.client.resources import NODES, SERVICES, AnyWatchedResource, LiveNode
from zoneward.client.transport import Transport
from zoneward.client.transport_interface import all_results
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.daemon.listen_address import parse_listen_address
from zoneward.daemon.log import Log
from zoneward.daemon.metrics import MetricsPage
from zoneward.daemon.program import Program, collect_seldom, enter_server
from zoneward.daemon.status_server import StatusPages, cache_is_synced, watches_are_open
from zoneward.kube.input_error import InputError
from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import NodeAddress, ObjectKey, OwnerReference, node_zone
from zoneward.meter.conntrack_reader import ACCOUNTING_SYSCTL, ConntrackReader, ConntrackUnavailable, accounting_is_on
from zoneward.meter.flow_meter import FlowMeter
from zoneward.meter.meter_cache import MeteredNode
from zoneward.meter.traffic_totals import MAX_TOTALS
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.conntrack_cleaner import ConntrackCleaner, is_machine_address
from zoneward.proxy.kernel.nft_client import NftClient
from zoneward.proxy.kernel.table_syncer import TableSyncer
from zoneward.proxy.machine import address_families, with_capability
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.model.node_service import NodeService, selection_document
from zoneward.proxy.node_lease import NodeLease, ProgrammedVersion
from zoneward.proxy.proxier import Proxier
from zoneward.proxy.proxy_configuration import (
    ProxyConfiguration,
    all_node_addresses,
    is_node_port_address,
    node_port_addresses,
    ruleset_options,
)
from zoneward.proxy.proxy_health import (
    ProxyHealth,
    ServiceHealthServer,
    is_node_eligible,
    serve_health,
    serve_proxy_mode,
)
from zoneward.proxy.proxy_metrics import ProxyMetrics
from zoneward.proxy.proxy_reporter import ProxyEventRecorder, ProxyReporter
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.traffic_index import ProxyTrafficIndex
from zoneward.routing.configuration import Configuration
from zoneward.routing.selection.entry_budget import EntryBudget

_COUNTING_RETRY: Final = 60.0
"""Seconds until the next attempt after connection tracking could not be opened."""
HEALTH_LIMIT: Final = 60.0
"""Seconds that a change may wait for the kernel before the proxy is unhealthy, as in kube-proxy."""
BACKOFF: Final = Backoff(initial=0.5, cap=4.0)
"""After the API server could not be reached. A server that restarts may need two requests, because it no longer has the
last version seen; and the node has to be up to date within ten seconds."""


class ProxyProgram:
    """The proxy; `run` it once. ``lease_namespace`` is the namespace of this node's Lease.

    ``kernel`` returns the client of the process that programs the kernel, given a callback for its errors.
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
        kernel: Callable[[Callable[[str], None]], NftClient] = lambda on_trouble: NftClient(on_trouble=on_trouble),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access, self._node, self._configuration, self._settings = access, node, configuration, settings
        self._lease_namespace, self._log, self._clock = lease_namespace, log, clock
        self._metrics = ProxyMetrics()
        self._kernel = kernel(self._on_process_restart)
        self._has_started = False
        """Whether the kernel had all listed Services at some time."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set. Raises InputError if the Node does not exist, the kernel cannot be programmed, or
        an address cannot be opened; CallFailed if the server refuses an essential request; and any error of a part. It
        changes nothing before these checks."""
        self._program = Program(self._access, log=self._log)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._kernel)
            transport = await stack.enter_async_context(Transport(self._access))
            own = await self._read_own_node(transport, stop)
            if own is None:
                return
            self._own = own
            self._compose(transport)
            await self._serve(stack)
            try:
                await self._work(stop)
            finally:
                await self._program.end_tasks()

    # --- parts --------------------------------------------------------------------------------------------------------

    async def _read_own_node(self, transport: Transport, stop: asyncio.Event) -> LiveNode | None:
        """Read the Node, and wait for an unreachable server until ``stop`` is set: a node may start first, and the
        rules in the kernel serve traffic meanwhile. Returns None if stopped."""
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
                self._log.warning("failed to reach the API server", error=self._program.error_message(error))
            with suppress(TimeoutError):
                failures += 1
                await asyncio.wait_for(stop.wait(), BACKOFF.delay(failures))
        return None

    def _compose(self, transport: Transport) -> None:
        settings, gates, log = self._settings, self._configuration.gates, self._log
        self.watch_health = WatchHealth(transport, clock=self._clock)
        self._programmed = ProgrammedVersion()
        self._health = ProxyHealth(limit=HEALTH_LIMIT, waiting=self._waiting_since)
        self._health.is_eligible = is_node_eligible(self._own)
        writer = Writer(transport)
        self._recorder = ProxyEventRecorder(writer, node=self._node, log=log, clock=self._clock)
        self._reporter = ProxyReporter(
            self._metrics,
            log=log,
            recorder=self._recorder,
            service=lambda key: self.node_cache.services.get(*key),
            said=self._program.error_message,
        )
        self.node_cache = NodeCache(
            self._node,
            zone=node_zone(self._own),
            gates=gates,
            proxy_name=settings.proxy_name,
            max_entries=settings.max_service_entries,
            service_ranges=settings.service_ranges,
            reporter=self._reporter,
            on_service=self._on_service_change,
            on_node=self._on_node_change,
        )
        self.loop = Proxier(
            self.node_cache,
            budget=EntryBudget(most=settings.max_entries, most_of_namespace=settings.max_namespace_entries),
            log=log,
            reporter=self._reporter,
            health=self._health,
            on_programmed=self._on_service_programmed,
            clock=self._clock,
        )
        options = ruleset_options(settings, self._own)
        for family in address_families():
            self.loop.tables[family] = TableSyncer(
                self._kernel,
                family,
                options=options,
                audit_period=settings.audit_period,
                listener=self.loop,
                reporter=self._reporter,
            )
        self._update_node_addresses(options, self._own)
        self._conntrack = ConntrackCleaner(self._kernel, is_node_address=self._is_node_address, reporter=self._reporter)
        self._health_ports = ServiceHealthServer(
            proxy_is_healthy=lambda: self._health.is_healthy(self._clock()), reporter=self._reporter
        )
        self._traffic_index = ProxyTrafficIndex(self.node_cache, self.loop, MeteredNode.of_node(self._own))
        self._conntrack_reader = ConntrackReader(privilege=with_capability)
        self._meter = FlowMeter(
            self._conntrack_reader,
            self._traffic_index,
            limit=MAX_TOTALS,
            on_trouble=self._reporter.counting_failed,
            clock=self._clock,
        )
        self._lease = NodeLease(
            writer,
            namespace=self._lease_namespace,
            node=self._node,
            proxy_name=settings.proxy_name or "",
            programmed=self._programmed_version,
            owner=self._owner_reference,
            reporter=self._reporter,
            clock=self._clock,
        )

    async def _serve(self, stack: AsyncExitStack) -> None:
        settings = self._settings
        self._metrics.declare_state(
            self.loop, self.node_cache, watch_health=self.watch_health, totals=self._meter.totals
        )
        self._program.ready |= {
            "cache": cache_is_synced(self.node_cache.synced.is_set),
            "watches": watches_are_open(self.watch_health),
            "kernel": self._kernel_check,
        }
        await self._program.serve_status(
            stack,
            StatusPages(
                metrics=MetricsPage(self._metrics.registry).text,
                pages={"/debug/selection": self._selection_page}
                | ({"/measured": self._meter.document} if settings.count_connections else {}),
            ),
            listen=parse_listen_address(settings.listen),
            names=(self._node,),
            debug_for_all=settings.debug_for_all,
        )
        if settings.healthz_listen is not None:
            listen = parse_listen_address(settings.healthz_listen)
            healthz = serve_health(self._health, host=listen.host, port=listen.port, clock=self._clock)
            port = await enter_server(stack, healthz, option="--healthz-listen", listen=listen)
            self._log.info("healthz server listens", port=port)

    # --- running ------------------------------------------------------------------------------------------------------

    async def _work(self, stop: asyncio.Event) -> None:
        program = self._program
        start = partial(program.start, is_live_check=True)
        start(
            "the watches",
            run_informers(
                self.watch_health,
                self.node_cache,
                options=self.node_cache.list_options,
                settings=ReflectorSettings(backoff=replace(BACKOFF, jitter=0.5)),
                on_error=self._on_watch_error,
                on_version=lambda resource, version: self._programmed.mark_received(resource.kind, version),
            ),
        )
        start("the loop", self.loop.run())
        start("the tables", self._run_tables())
        start("the heartbeat", program.heartbeat.run())
        start("conntrack", self._conntrack.run())
        start("health check ports", self._health_ports.run())
        start("the Lease", self._lease.run())
        start("the Events", self._recorder.run())
        if (listen := self._settings.proxy_mode_address) is not None:
            start("the proxy mode", serve_proxy_mode(listen, log=self._log))
        if self._settings.count_connections:
            start("counting", self._count_connections())
        start("the garbage collector", collect_seldom(self._log_start()))
        await program.wait(stop)
        self._log.info("shutting down; nftables rules stay in place")

    async def _run_tables(self) -> None:
        """Run the tables after all Services were selected. The existing rules serve traffic until then."""
        await self.loop.all_selected.wait()
        for table in self.loop.tables.values():
            # The rules that all Services share are needed even without Services.
            table.request_audit()
        await all_results(table.run() for table in self.loop.tables.values())

    async def _count_connections(self) -> None:
        await self._all_programmed()
        if not accounting_is_on():
            self._log.warning(
                "the kernel does not count bytes: only connections are counted", sysctl=f"{ACCOUNTING_SYSCTL}=0"
            )
        while True:
            try:
                with self._conntrack_reader:
                    await self._meter.run()
            except ConntrackUnavailable as error:
                self._reporter.counting_failed(str(error))
            await asyncio.sleep(_COUNTING_RETRY)

    async def _all_programmed(self) -> None:
        """Wait until all listed Services are in the kernel."""
        await self.loop.all_selected.wait()
        for table in self.loop.tables.values():
            await table.wait_until_synced()

    async def _log_start(self) -> None:
        started_at = self._clock()
        await self.node_cache.synced.wait()
        listed = self._clock()
        await self._all_programmed()
        self._has_started = True
        now = self._clock()
        self._log.info(
            "all Services are programmed",
            services=len(self.node_cache.services),
            slices=len(self.node_cache.slices),
            zone=self.node_cache.node.zone,
            seconds=round(now - started_at, 3),
            since_listed=round(now - listed, 3),
        )

    # --- callbacks ----------------------------------------------------------------------------------------------------

    def _on_service_change(self, service: ObjectKey, trigger: str | None) -> None:
        self._programmed.mark_changed(service)
        self._traffic_index.mark_changed(service)
        self.loop.service_changed(service, trigger)

    def _on_node_change(self, node: LiveNode | None) -> None:
        self._health.is_eligible = is_node_eligible(node)
        if node is None:
            return
        before, self._own = self._own, node
        self._traffic_index.set_node(MeteredNode.of_node(node))
        if self.node_cache.node.zone is None:
            self._log.warning("the Node has no zone; using all endpoints", node=self._node)
        options = ruleset_options(self._settings, node)
        for table in self.loop.tables.values():
            table.options = options
        if _addresses(before) != _addresses(node):
            self._update_node_addresses(options, node)

    def _update_node_addresses(self, options: RulesetOptions, node: LiveNode) -> None:
        self.loop.set_node_addresses(node_port_addresses(options, node))
        all_node_addresses(node, left_out=self._reporter.node_address_left_out)

    def _on_service_programmed(self, service: ObjectKey, before: NodeService | None, after: NodeService | None) -> None:
        self._traffic_index.mark_changed(service)
        self._conntrack.service_changed(before, after)
        if any(served is not None and served.health_check_port is not None for served in (before, after)):
            services = [
                served for family in FAMILIES if (served := self.loop.node_services(family).get(service)) is not None
            ]
            port = next((served.health_check_port for served in services if served.health_check_port is not None), None)
            self._health_ports.set_service(
                service, port, max((served.ready_local_endpoints for served in services), default=0)
            )

    def _on_watch_error(self, resource: AnyWatchedResource, error: CallFailed) -> None:
        self.watch_health.trouble(resource, error)
        self._metrics.watches.record_error(error, kind=resource.plural)
        self._program.log_watch_error(resource, error)

    def _on_process_restart(self, why: str) -> None:
        self._metrics.process_restarts.inc()
        self._log.warning("restarting the nftables process", error=why)

    def _is_node_address(self, family: Family, address: bytes) -> bool:
        return is_node_port_address(self.loop.tables[family].options, family, address) and is_machine_address(
            family, address
        )

    # --- state for other parts ----------------------------------------------------------------------------------------

    def _programmed_version(self) -> Any:
        refused = {service for table in self.loop.tables.values() for service in table.refused_services}
        unreadable = {
            _service_of(unreadable_object)
            for unreadable_object in self.node_cache.unreadable
            if unreadable_object.resource.kind != NODES.kind
        }
        left_out = self.loop.failed_selections | self.loop.too_large.keys() | self.loop.set_aside.keys() | unreadable
        return self._programmed.current(is_pending=self.loop.is_pending, refused=refused | left_out)

    def _owner_reference(self) -> OwnerReference | None:
        uid = self._own.metadata.uid
        return OwnerReference(api_version="v1", kind="Node", name=self._node, uid=uid) if uid else None

    def _waiting_since(self, family: Family) -> float | None:
        """The result of `Proxier.pending_since`. During the start, at least the time of the last transaction: a large
        start may take more than a minute, and a restart would start over."""
        since = self.loop.pending_since(family)
        if since is None or self._has_started:
            return since
        return max(since, self._health.programmed_at.get(family, since))

    def _kernel_check(self) -> str | None:
        if not self._has_started:
            return "not all that was listed is in the kernel yet"
        waiting = self.loop.waiting_seconds()
        return f"a change waits for {waiting:.0f} s" if waiting and not self._health.is_healthy(self._clock()) else None

    async def _selection_page(self) -> bytes:
        """The page is encoded in a thread, because many Services take long."""
        node, services = (
            self.node_cache.node,
            [service for family in FAMILIES for service in self.loop.node_services(family).values()],
        )
        return await asyncio.get_running_loop().run_in_executor(
            None, lambda: encode(selection_document(node, services))
        )


def _addresses(node: LiveNode) -> tuple[NodeAddress, ...]:
    return (node.status.addresses if node.status is not None else None) or ()


def _service_of(unreadable: UnreadableObject) -> ObjectKey:
    """The Service of an object that cannot be decoded; with an empty name if the object has no label for it."""
    if unreadable.resource.kind == SERVICES.kind:
        return unreadable.key
    return unreadable.namespace, unreadable.labels.get(SERVICE_NAME_LABEL, "")
