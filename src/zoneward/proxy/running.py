"""A node's proxy: its parts put together, run until told to stop. The kernel's rules stay when it ends."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.json import encode

from zoneward import __version__
from zoneward.client.api_errors import CallFailed, NotFound
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.error_messages import log_message, to_input_error
from zoneward.client.informers import run_informers
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.reflector import ReflectorSettings
from zoneward.client.resources import NODES, SERVICES, AnyWatchedResource, LiveNode
from zoneward.client.transport import Transport
from zoneward.client.watch_health import WatchHealth
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.daemon.garbage import collected_seldom
from zoneward.daemon.health import Check, Health, Heartbeat, running, synced
from zoneward.daemon.listening import Listen
from zoneward.daemon.log import Log
from zoneward.daemon.metric_text import CONTENT_TYPE
from zoneward.daemon.status_server import StatusServer
from zoneward.daemon.unreadable import numbers
from zoneward.kube.input_error import InputError
from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import NodeAddress, ObjectKey, OwnerReference, node_zone
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.exposition import MetricsPage, Moment
from zoneward.proxy.health.health_ports import HealthPorts
from zoneward.proxy.health.healthz import HealthzServer, ProxyHealth, is_eligible
from zoneward.proxy.health.proxy_mode import ProxyModeServer
from zoneward.proxy.kernel.applying import NftProcess
from zoneward.proxy.kernel.conntrack_cleaning import Conntrack, is_local
from zoneward.proxy.kernel.programming import FamilyTable, Programmed
from zoneward.proxy.loop import ProxyLoop
from zoneward.proxy.machine import families
from zoneward.proxy.measure.counting import Counting
from zoneward.proxy.metrics import Metrics
from zoneward.proxy.model.known import Known
from zoneward.proxy.model.node_options import all_node_addresses, layout_options, node_port_addresses, serves_node_ports
from zoneward.proxy.model.selections import selections
from zoneward.proxy.model.served import Served
from zoneward.proxy.model.watermark import Watermark
from zoneward.proxy.node_lease import NodeLease
from zoneward.proxy.reports import Reports
from zoneward.proxy.ruleset.base_rules import LayoutOptions
from zoneward.proxy.settings import ProxySettings
from zoneward.proxy.telling import Teller
from zoneward.routing.configuration import Configuration

HEALTH_LIMIT: Final = 60.0
"""Seconds that something may wait for the kernel before this proxy is not well: kube-proxy's figure."""
LONGEST_PAUSE: Final = 4.0
"""Seconds between two attempts to hear of the cluster. A server that comes back may have to be asked twice, since it no
longer knows what was heard last; and ten seconds later a node is to be as it should be."""
_PAUSE: Final = 0.5


class NodeProxy:
    """`run` it once. ``lease_namespace`` is where this node's Lease is, ``instance`` names this process.

    ``kernel`` makes the one process that programs the kernel, which this one starts and ends; it tells its troubles.
    """

    def __init__(
        self,
        access: ClientConfig,
        *,
        node: str,
        configuration: Configuration,
        settings: ProxySettings,
        lease_namespace: str,
        log: Log,
        kernel: Callable[[Callable[[str], None]], NftProcess] = lambda told: NftProcess(on_trouble=told),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access, self._node, self._configuration, self._settings = access, node, configuration, settings
        self._lease_namespace, self._log, self._clock = lease_namespace, log, clock
        self._metrics = Metrics()
        self._kernel = kernel(self._restarted)
        self._own: LiveNode | None = None
        self._has_begun = False
        """Whether all that was listed is in the kernel, or was."""
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop`` is set. Raises InputError where the Node is not there, the kernel can't be programmed, or an
        address can't be had; CallFailed where the server refuses what nothing goes without; and whatever a part of it
        raises. Nothing is changed before all of that is known."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._kernel)
            transport = await stack.enter_async_context(Transport(self._access))
            self._own = await self._found(transport, stop)
            if self._own is None:
                return
            self._compose(transport)
            await self._listen(stack)
            try:
                await self._work(stop)
            finally:
                await self._end()

    # --- parts --------------------------------------------------------------------------------------------------------

    async def _found(self, transport: Transport, stop: asyncio.Event) -> LiveNode | None:
        """A server that is away is waited for, as long as we are not told to stop: nodes start when they can, and the
        rules of before serve meanwhile."""
        pause = _PAUSE
        while not stop.is_set():
            try:
                return await Writer(transport).read(NODES, namespace="", name=self._node)
            except NotFound as error:
                expected = f"expected the name of a Node of the cluster, got {self._node!r}"
                raise InputError("--node", expected, str(error)) from None
            except CallFailed as error:
                if write_outcome(error) is WriteOutcome.REFUSED:
                    raise to_input_error(error, self._access, now=datetime.now(UTC)) from error
                self._log.warning("the API server does not answer", error=self._said(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return None

    def _compose(self, transport: Transport) -> None:
        settings, gates, log = self._settings, self._configuration.gates, self._log
        self._standing = WatchHealth(transport, clock=self._clock)
        self._watermark = Watermark()
        self._health = ProxyHealth(limit=HEALTH_LIMIT, waiting=lambda family: self._loop.waiting_since(family))
        self._health.node(is_eligible(self._own))
        self._known = Known(
            self._node,
            zone=node_zone(self._own) if self._own is not None else None,
            gates=gates,
            proxy_name=settings.proxy_name,
            max_entries=settings.max_service_entries,
            service_ranges=settings.service_ranges,
            on_service=self._changed,
            on_node=self._node_is,
            on_left_out=lambda service, what: self._reports.left_out(service, what),
            on_unreadable=lambda found: self._reports.unreadable(found),
        )
        self._teller = Teller(Writer(transport), node=self._node, log=log, clock=self._clock)
        self._reports = Reports(
            self._metrics,
            log=log,
            teller=self._teller,
            service=lambda key: self._known.services.get(*key),
            said=self._said,
        )
        self._loop = ProxyLoop(
            self._known,
            metrics=self._metrics,
            log=log,
            after=self._is_programmed,
            on_too_large=self._reports.too_large,
            on_lost=self._reports.lost,
            on_selection_failed=self._reports.selection_failed,
            clock=self._clock,
        )
        options = layout_options(settings, self._own)
        self._tables = {family: self._table(family, options) for family in families()}
        for family, table in self._tables.items():
            self._loop.tables[family] = table
        self._look_at_addresses(options, self._own)
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
                self._kernel, self._tables, known=self._known, on_trouble=self._reports.connections_not_seen
            )
        self._heartbeat = Heartbeat()
        self._lease = NodeLease(
            transport,
            namespace=self._lease_namespace,
            node=self._node,
            proxy_name=settings.proxy_name or "",
            programmed=self._may_be_claimed,
            owner=self._owner,
            on_trouble=self._reports.no_lease,
            clock=self._clock,
        )

    async def _listen(self, stack: AsyncExitStack) -> None:
        settings = self._settings
        self._live: dict[str, Check] = {"event loop": self._heartbeat}
        ready: dict[str, Check] = {"cache": synced(self._known.synced.is_set), "kernel": self._is_in_time}
        server = StatusServer(
            Health(live=self._live, ready=ready),
            host=settings.listen.host,
            port=settings.listen.port,
            names=(self._node,),
            metrics=MetricsPage(self._metrics, self._moment).text,
            metrics_type=CONTENT_TYPE,
            pages={"/debug/selection": self._selections}
            | ({} if self._counting is None else {"/measured": self._counting.document}),
            debug_for_all=settings.debug_for_all,
            on_trouble=lambda error: self._log.error("an answer could not be made", error=f"{error!r}"),
        )
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            raise _taken("--listen", str(settings.listen), error) from error
        host, port = server.addresses[0]
        self._log.info("status server listens", host=host, port=port, version=__version__, context=self._access.context)
        if (listen := settings.healthz_listen) is not None:
            healthz = HealthzServer(self._health, host=listen.host, port=listen.port, clock=self._clock)
            try:
                await stack.enter_async_context(healthz)
            except OSError as error:
                raise _taken("--healthz-listen", str(listen), error) from error
            self._log.info("healthz server listens", port=healthz.port)

    # --- running ------------------------------------------------------------------------------------------------------

    async def _work(self, stop: asyncio.Event) -> None:
        self._begin(
            "the watches",
            run_informers(
                self._standing,
                self._known,
                options=self._known.list_options,
                settings=ReflectorSettings(longest_pause=LONGEST_PAUSE),
                on_error=self._not_heard,
                on_version=lambda resource, version: self._watermark.received(resource.kind, version),
            ),
        )
        self._begin("the loop", self._loop.run())
        self._begin("the tables", self._run_tables())
        self._begin("the heartbeat", self._heartbeat.run())
        self._begin("conntrack", self._conntrack.run())
        self._begin("health check ports", self._health_ports.run())
        self._begin("the Lease", self._lease.run())
        self._begin("the Events", self._teller.run())
        if (listen := self._settings.proxy_mode_address) is not None:
            self._begin("the proxy mode", self._proxy_mode(listen).run())
        if self._counting is not None:
            self._begin("counting", self._counted(self._counting))
        self._begin("the garbage collector", collected_seldom(self._begun()))
        self._live |= {name: running(task) for name, task in self._tasks.items()}
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({*self._tasks.values(), stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks.values():
                if task.done():
                    task.result()
            self._log.info("stops; the kernel's rules stay")
        finally:
            stopped.cancel()

    def _proxy_mode(self, listen: Listen) -> ProxyModeServer:
        return ProxyModeServer(
            listen,
            on_trouble=lambda why: self._log.warning(
                "the proxy mode can't be served: it is tried again", listen=str(listen), error=why
            ),
            on_listening=lambda port: self._log.info("proxy mode server listens", port=port),
        )

    def _begin(self, name: str, work: Any) -> None:
        self._tasks[name] = asyncio.create_task(work, name=name)

    async def _end(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run_tables(self) -> None:
        """A start programs only when all is known: what is there from before serves until then."""
        await self._loop.selected.wait()
        try:
            async with asyncio.TaskGroup() as group:
                for table in self._tables.values():
                    # Rules that all Services share are there without any of them.
                    table.audit()
                    group.create_task(table.run())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _counted(self, counting: Counting) -> None:
        await self._in_kernel()
        await counting.run()

    async def _in_kernel(self) -> None:
        """Until all that was listed is in the kernel."""
        await self._loop.selected.wait()
        for table in self._tables.values():
            await table.settled()

    async def _begun(self) -> None:
        """Until all that was listed is in the kernel; that is told."""
        begun = self._clock()
        await self._known.synced.wait()
        listed = self._clock()
        await self._in_kernel()
        self._has_begun = True
        now = self._clock()
        self._log.info(
            "all is in the kernel",
            services=len(self._known.services),
            slices=len(self._known.slices),
            zone=self._known.node.zone,
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
            on_programmed=lambda done: self._programmed(family, done),
            on_refused=lambda service, why: self._refused(family, service, why),
            on_mended=lambda what, number: self._reports.mended(family, what, number),
            on_trouble=self._reports.not_programmed,
        )

    def _changed(self, service: ObjectKey, trigger: str | None) -> None:
        self._watermark.changed(service)
        self._loop.changed(service, trigger)

    def _node_is(self, node: LiveNode | None) -> None:
        before, self._own = self._own, node or self._own
        self._health.node(is_eligible(node))
        if node is not None and self._known.node.zone is None:
            self._log.warning("the Node has no zone: all endpoints are used", node=self._node)
        if node is not None and before is not None:
            old, new = (layout_options(self._settings, each) for each in (before, node))
            if old != new:
                for table in self._tables.values():
                    table.options = new
            if _addresses(before) != _addresses(node):
                self._look_at_addresses(new, node)

    def _look_at_addresses(self, options: LayoutOptions, node: LiveNode | None) -> None:
        self._loop.set_node_addresses(node_port_addresses(options, node))
        all_node_addresses(node, left_out=self._reports.node_address_left_out)

    def _programmed(self, family: Family, done: Programmed) -> None:
        self._loop.programmed(family, done)
        self._health.programmed(self._clock(), family)

    def _is_programmed(self, service: ObjectKey, before: Served | None, after: Served | None) -> None:
        one = after or before
        if self._counting is not None and one is not None:
            self._counting.programmed(service, one.family, after)
        self._conntrack.changed(before, after)
        if any(each is not None and each.health_check_port is not None for each in (before, after)):
            families = [each for family in FAMILIES if (each := self._loop.served(family).get(service)) is not None]
            port = next((each.health_check_port for each in families if each.health_check_port is not None), None)
            self._health_ports.put(service, port, max((each.healthy for each in families), default=0))

    def _refused(self, family: Family, service: ObjectKey, why: str) -> None:
        self._loop.refused(family, service)
        self._reports.refused(family, service, why)

    def _not_heard(self, resource: AnyWatchedResource, error: CallFailed) -> None:
        self._standing.trouble(resource, error)
        self._reports.not_heard(resource, error)

    def _restarted(self, why: str) -> None:
        self._metrics.restarts += 1
        self._log.warning("the process that programs the kernel is started again", error=why)

    def _is_node_address(self, family: Family, address: bytes) -> bool:
        return serves_node_ports(self._tables[family].options, family, address) and is_local(family, address)

    # --- what is told -------------------------------------------------------------------------------------------------

    def _may_be_claimed(self) -> Any:
        refused = {service for table in self._tables.values() for service in table.refused}
        unreadable = {_service_of(found) for found in self._known.unreadable if found.resource.kind != NODES.kind}
        left_out = self._loop.left_out | self._loop.too_large.keys() | unreadable
        return self._watermark.programmed(waits=self._loop.waits, refused=refused | left_out)

    def _owner(self) -> OwnerReference | None:
        node = self._own
        if node is None or not node.metadata.uid:
            return None
        return OwnerReference(api_version="v1", kind="Node", name=self._node, uid=node.metadata.uid)

    def _is_in_time(self) -> str | None:
        if not self._has_begun:
            return "not all that was listed is in the kernel yet"
        since = self._loop.waiting_since()
        is_late = since is not None and not self._health.is_healthy(self._clock())
        return f"a change waits for {self._clock() - (since or 0.0):.0f} s" if is_late else None

    async def _selections(self) -> bytes:
        """Made in a thread: of many Services it takes long."""
        node, some = self._known.node, [each for family in FAMILIES for each in self._loop.served(family).values()]
        return await asyncio.get_running_loop().run_in_executor(None, lambda: encode(selections(node, some)))

    def _moment(self) -> Moment:
        lasting = self._standing.lasting
        opened, sealed = self._known.numbers
        return Moment(
            elements={family: table.elements for family, table in self._tables.items()},
            services={family: len(self._loop.served(family)) for family in FAMILIES},
            refused={
                family: len(table.refused) + sum(each.family == family for each in self._loop.too_large.values())
                for family, table in self._tables.items()
            },
            left_out=len(self._known.left_out),
            lost={family: len(some) for family, some in self._loop.lost.items()},
            served=tuple(each for family in FAMILIES for each in self._loop.served(family).values()),
            slices=opened,
            sealed_slices=sealed,
            is_synced=self._known.synced.is_set(),
            watch_trouble=0.0 if lasting is None else self._clock() - lasting[0],
            waiting=0.0 if (since := self._loop.waiting_since()) is None else self._clock() - since,
            zone=self._known.node.zone,
            unreadable=numbers(self._known.unreadable, (each.kind for each in self._known.resources)),
            connections=() if self._counting is None else tuple(self._counting.totals()),
        )

    def _said(self, error: CallFailed) -> str:
        return log_message(error, self._access, now=datetime.now(UTC))


def _addresses(node: LiveNode) -> tuple[NodeAddress, ...]:
    return (node.status.addresses if node.status is not None else None) or ()


def _service_of(found: UnreadableObject) -> ObjectKey:
    """The Service that an object that cannot be read is, or belongs to; with an empty name where it does not say."""
    if found.resource.kind == SERVICES.kind:
        return found.key
    return found.namespace, found.labels.get(SERVICE_NAME_LABEL, "")


def _taken(option: str, listen: str, error: OSError) -> InputError:
    return InputError(option, listen, f"expected an address that is free, got: {error.strerror or error}")
