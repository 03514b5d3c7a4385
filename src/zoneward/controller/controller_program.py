"""One replica of the controller: builds its parts, runs them until it is stopped, and ends them in a safe order.

At shutdown the replica starts nothing new, finishes in-flight writes while it renews the Lease, cancels the rest, stops
renewing, and only then releases the Lease, so that another replica can lead at once. It does not release the Lease if
the API server may still apply an unanswered write: then the Lease expires, as after a crash.

`ReplicaObserver` logs changes of the replica and controls Python's garbage collector. A large cluster takes millions of
long-lived values with hardly any cycles. The collector would visit them again and again while they are created, and
need not visit them afterwards.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from typing import Any, Final, NoReturn

from zoneward.client.api_errors import ApiError, CallFailed, Conflict, Forbidden, Unauthorized
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.informers import WatchHealth
from zoneward.client.prometheus import Prometheus, PrometheusUnavailable
from zoneward.client.resources import EVENTS, LEASES, SERVICES, AnyWatchedResource
from zoneward.client.transport import Transport
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.controller.context import ControllerContext, ControllerOptions, FiguresSource, FiguresUnavailable
from zoneward.controller.controller_configuration import ControllerConfiguration, Mode
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.leader_elector import (
    LeaderElector,
    UnansweredWrites,
    always_leading,
    new_identity,
)
from zoneward.controller.predictions import Predictions, PredictionsByFamily, predictions_of
from zoneward.controller.queue.work_queue import Batching
from zoneward.controller.status.status_writer import LONGEST_PAUSE, StatusWriter
from zoneward.controller.sync.requirements import (
    PERMISSIONS,
    check_permissions,
    has_policy,
    require_admission_policies,
)
from zoneward.daemon.listen_address import parse_listen_address
from zoneward.daemon.log import Log, RepeatFilter
from zoneward.daemon.metrics import MetricsPage
from zoneward.daemon.program import Program, named_error
from zoneward.daemon.status_server import StatusPages, Work, cache_is_synced, watches_are_open
from zoneward.kube import names
from zoneward.kube.demand import DemandFigures
from zoneward.kube.gc_tuning import disable_gc, enable_gc, freeze_objects, restore_gc
from zoneward.kube.objects import ObjectKey
from zoneward.kube.overlay_objects import OVERLAY
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan

OBSERVE_PERIOD: Final = 0.5
LONGEST_WITHOUT_GC: Final = 60.0
"""Seconds without garbage collection, at most: before the cluster is listed, which may never happen, and in the first
syncs after that, which may never end."""


class ReplicaObserver:
    """``elector`` None: there are no other replicas. ``error_text`` describes a failed call; ``clock`` is that of
    ``watch_health``."""

    def __init__(
        self,
        controller: EndpointSliceController,
        *,
        watch_health: WatchHealth,
        elector: LeaderElector | None,
        log: Log,
        error_text: Callable[[CallFailed], str],
        clock: Callable[[], float],
    ) -> None:
        self._controller, self._watch_health, self._elector = controller, watch_health, elector
        self._log, self._error_text, self._clock = log, error_text, clock
        self._started_at = clock()
        self._is_synced = False
        self._frozen_as: bool | None = None
        """Whether this replica led when the existing values were last excluded from garbage collection."""
        self._busy_since: float | None = None
        self._lost_since: float | None = None
        self._other = ""

    async def run(self) -> NoReturn:
        """Run until cancelled. Afterwards the garbage collector has its default settings."""
        disable_gc()
        try:
            while True:
                self._observe()
                if self._is_synced:
                    await asyncio.sleep(OBSERVE_PERIOD)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(OBSERVE_PERIOD):
                        await self._controller.cache.synced.wait()
        finally:
            restore_gc()

    def _observe(self) -> None:
        self._observe_cache()
        self._control_gc()
        self._observe_watch()
        self._observe_leader()

    def _observe_cache(self) -> None:
        cache = self._controller.cache
        if cache.synced.is_set() and not self._is_synced:
            self._is_synced = True
            self._log.info(
                "cache synced",
                services=len(cache.services),
                nodes=len(cache.nodes),
                pods=len(cache.pods),
                slices=len(cache.slices),
                seconds=round(self._clock() - self._started_at, 3),
            )

    def _control_gc(self) -> None:
        """The listed values are long-lived, and so are the plans of a leader's first syncs."""
        is_leader = self._elector is None or self._elector.is_leader
        if not self._is_synced and self._clock() - self._started_at >= LONGEST_WITHOUT_GC:
            enable_gc()
        if not self._is_synced or self._frozen_as in (is_leader, True):
            return
        depth, now = self._controller.queue.depth(), self._clock()
        self._busy_since = now if self._busy_since is None else self._busy_since
        if is_leader and (depth.due or depth.working) and now - self._busy_since < LONGEST_WITHOUT_GC:
            disable_gc()
            return
        self._frozen_as, self._busy_since = is_leader, None
        freeze_objects()
        enable_gc()

    def _observe_watch(self) -> None:
        lasting = self._watch_health.lasting
        if lasting is not None and self._lost_since is None:
            self._lost_since = lasting[0]
            self._log.warning("watch failed", error=self._error_text(lasting[1]))
        elif lasting is None and self._lost_since is not None:
            self._log.info("watch recovered", seconds=round(self._clock() - self._lost_since, 1))
            self._lost_since = None

    def _observe_leader(self) -> None:
        if self._elector is None:
            return
        leader = self._elector.leader_identity
        other = "" if leader == self._elector.identity else leader
        if other and other != self._other:
            self._log.info("another replica became leader", leader=other)
        self._other = other


DRAIN: Final = 10.0
"""Seconds for in-flight writes at shutdown."""
_STATUS_DRAIN: Final = 1.0
"""Seconds of these for Events and conditions."""
_RELEASE_POLL_PERIOD: Final = 0.1
"""Seconds between two checks whether all Services left the overlay."""
_CONTROLLER: Final = "the controller"
_ELECTION: Final = "leader election"


class _ReadWriteLink(WatchHealth):
    """The controller reads through it, and releases Services through it."""

    def __init__(self, transport: Transport, *, clock: Callable[[], float]) -> None:
        super().__init__(transport, clock=clock)
        self.send = transport.send


def _ask_prometheus(configuration: Configuration) -> FiguresSource | None:
    """None if the configuration does not read demand from Prometheus."""
    settings = configuration.demand
    if settings.source != "prometheus" or settings.prometheus is None:
        return None
    prometheus = Prometheus(settings.prometheus)

    async def read(nodes: Collection[str]) -> DemandFigures:
        try:
            return await prometheus.read_demand(nodes=nodes)
        except PrometheusUnavailable as error:
            raise FiguresUnavailable(str(error)) from error

    return FiguresSource(read, settings.prometheus.window)


class ControllerProgram:
    """`run` it once. ``lease`` is the Lease's namespace and name, ``instance`` the name of this process among its kind,
    ``to_json`` what `/debug/decisions` shows of a plan. ``figures`` are read for demand instead of Prometheus.
    ``is_releasing``: all Services leave the overlay, and the program ends.
    """

    def __init__(
        self,
        access: ClientConfig,
        *,
        configuration: Configuration,
        settings: ControllerConfiguration,
        lease: ObjectKey,
        instance: str,
        log: Log,
        to_json: Callable[[ServicePlan], bytes],
        figures: FiguresSource | None = None,
        is_releasing: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert settings.mode is not None
        self._is_releasing = is_releasing
        self._access, self._configuration, self._settings, self._mode = access, configuration, settings, settings.mode
        self._lease, self._instance, self._log, self._as_json, self._clock = lease, instance, log, to_json, clock
        self._figures = figures or _ask_prometheus(configuration)
        self._stepped_down, self._refused = asyncio.Event(), asyncio.Event()
        self._refusal: CallFailed | None = None
        self._has_seen_lease = False
        self._lease_error: str | None = None
        self._refusals = RepeatFilter(burst=1, period=LONGEST_PAUSE)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set.

        Raises InputError if it cannot listen on the status address, CallFailed if the API server refuses a call that
        the controller cannot work without, and any error of one of its parts.
        """
        async with AsyncExitStack() as stack:
            transport = Transport(self._access)
            self._program = Program(self._access, log=self._log)
            self._compose(transport)
            await self._serve(stack)
            await stack.enter_async_context(transport)
            try:
                await self._work(stop, transport)
            finally:
                await self._end()

    # --- parts --------------------------------------------------------------------------------------------------------

    def _compose(self, transport: Transport) -> None:
        settings, log = self._settings, self._log
        self.watch_health = _ReadWriteLink(transport, clock=self._clock)
        self._unanswered = UnansweredWrites(transport, clock=self._clock)
        self._elector: LeaderElector | None = None
        writer, leading = Writer(self._unanswered), always_leading()
        if settings.leader_election.leader_elect:
            self._elector = LeaderElector(
                transport,
                key=self._lease,
                identity=new_identity(),
                timing=settings.leader_election,
                annotations={names.MODE_ANNOTATION: self._mode},
                on_change=self._on_leader_change,
                on_error=self._on_lease_error,
            )
            leading, limit = self._elector.leading, self._elector.timing.write_timeout
            writer = Writer(self._unanswered, limit=limit, may_write=self._elector.may_write)
        self._predictions = Predictions() if settings.predictions else None
        metrics = ControllerMetrics(
            max_endpoints=self._configuration.max_endpoints_per_slice, predictions=self._predictions
        )
        self._status_writer = StatusWriter(writer, instance=self._instance, log=log, on_error=self._on_status_error)
        context = ControllerContext(
            connection=self.watch_health,
            writer=writer,
            configuration=self._configuration,
            mode=self._mode,
            leading=leading,
            status_writer=self._status_writer,
            is_releasing=self._is_releasing,
            figures=self._figures,
            metrics=metrics,
            log=log,
        )
        options = ControllerOptions(
            workers=settings.concurrent_syncs,
            batching=Batching(period=settings.batch_period),
            # In an overlay, any kube-proxy reads the hints.
            node_proxy_namespace=None if self._mode is Mode.OVERLAY else self._lease[0],
        )
        self.controller = EndpointSliceController(context, options, on_watch_error=self._on_watch_error)
        self._observer = ReplicaObserver(
            self.controller,
            watch_health=self.watch_health,
            elector=self._elector,
            log=log,
            error_text=self._program.error_message,
            clock=self._clock,
        )
        metrics.declare_state(self)

    async def _serve(self, stack: AsyncExitStack) -> None:
        self._program.ready |= {
            "cache": cache_is_synced(self.controller.cache.synced.is_set),
            "watches": watches_are_open(self.watch_health),
        }
        if self._elector is not None:
            self._program.ready[_ELECTION] = self._lease_check
        await self._program.serve_status(
            stack,
            StatusPages(
                metrics=MetricsPage(self.controller.metrics.registry).text,
                values={"/debug/queue": self._queue_page},
                of_service={"/debug/decisions": self._decisions_page},
            ),
            listen=parse_listen_address(self._settings.listen),
            debug_for_all=self._settings.debug_for_all,
            mode=self._mode.value,
        )

    # --- running ------------------------------------------------------------------------------------------------------

    async def _work(self, stop: asyncio.Event, transport: Transport) -> None:
        program = self._program
        if self._mode is Mode.OVERLAY:
            await require_admission_policies(transport, server=self._access.cluster.server)
        program.start(_CONTROLLER, self.controller.run(), is_live_check=True)
        program.start("the observer", self._observer.run())
        program.start("the heartbeat", program.heartbeat.run())
        if self._elector is not None:
            program.start(_ELECTION, self._elector.run(), is_live_check=True)
        else:
            self._log.info("leader election is disabled")
        if self._predictions is not None:
            program.start("predictions", self._predictions.run(self._predict, on_error=self._on_prediction_error))
        if self._is_releasing:
            program.start("releasing", self._stop_when_released(stop))
        checking = asyncio.create_task(self._check_installation(transport))
        try:
            await program.wait(stop, self._refused)
            if self._refusal is not None:
                raise self._refusal
            await self._drain()
        finally:
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)

    async def _drain(self) -> None:
        """Finish in-flight writes while this replica leads."""
        if not self.is_leader or not self.controller.cache.synced.is_set():
            self._log.info("shutting down")
            return
        started_at = self._clock()
        self._log.info("shutting down: waiting for in-flight writes", limit=DRAIN)
        drained = asyncio.create_task(self._finish_writes())
        lost = asyncio.create_task(self._stepped_down.wait())
        await self._program.wait_for_tasks(drained, lost, timeout=DRAIN)
        if not drained.done():
            self._log.warning(
                "shutting down before all in-flight writes finished", seconds=round(self._clock() - started_at, 3)
            )
        for task in (drained, lost):
            task.cancel()
        await asyncio.gather(drained, lost, return_exceptions=True)

    async def _finish_writes(self) -> None:
        await self.controller.drain(DRAIN)
        await self._status_writer.wait_until_written(_STATUS_DRAIN)

    async def _end(self) -> None:
        # No other replica may lead before the last write is done or given up: do not change this order.
        await self._program.end_tasks(_CONTROLLER, _ELECTION)
        if self._elector is None:
            return
        holds = self._elector.leader_identity == self._elector.identity
        if holds and self._unanswered.age < self._settings.leader_election.lease_duration:
            self._log.warning("not releasing the Lease: the API server may still apply an unanswered write")
            return
        await self._elector.release()
        if not holds:
            return
        if self._elector.leader_identity == self._elector.identity:
            self._log.warning("failed to release the Lease: it expires by itself")
        else:
            self._log.info("released the Lease")

    async def _stop_when_released(self, stop: asyncio.Event) -> None:
        while not self.controller.is_released:
            await asyncio.sleep(_RELEASE_POLL_PERIOD)
        stop.set()
        await asyncio.Event().wait()

    async def _check_installation(self, connection: Transport) -> None:
        """Log each missing permission once, not with every Service that needs it; and a missing policy."""
        if self._mode is Mode.OVERLAY and not await has_policy(connection):
            self._log.warning(
                "missing the MutatingAdmissionPolicy of the overlay: no hints will be set", policy=OVERLAY
            )
        for permission in PERMISSIONS[self._mode]:
            try:
                await check_permissions(connection, [permission], namespace="")
            except Forbidden as error:
                method, resource, *rest = permission
                what = "/".join([resource.plural, *rest])
                self._log.warning(
                    "missing permission", reason=f"{method} {what}", error=self._program.error_message(error)
                )
            except CallFailed:
                return

    # --- handlers -----------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self._elector is None or self._elector.is_leader

    def _on_leader_change(self, leads: bool) -> None:
        if leads:
            # Earlier changes were written by other leaders.
            self.controller.queue.restart_waiting()
            self._has_seen_lease = True
            self._stepped_down.clear()
            self._log.info("became leader", lease="/".join(self._lease))
            return
        self._stepped_down.set()
        self.controller.stepped_down()
        self._log.info("stopped leading", lease="/".join(self._lease))

    def _on_lease_error(self, error: CallFailed) -> None:
        assert self._elector is not None
        if isinstance(error, Conflict):
            # Another replica was faster.
            return
        self.controller.metrics.record_api_error(error, kind=LEASES.plural)
        self._has_seen_lease = self._has_seen_lease or bool(self._elector.leader_identity)
        if isinstance(error, Forbidden | Unauthorized) and not self._has_seen_lease:
            # It would remain a standby forever, and look healthy.
            self._refusal = error
            self._refused.set()
            return
        self._lease_error = self._program.error_message(error)
        self._log.warning("failed to read or write the Lease", reason=type(error).__name__, error=self._lease_error)

    def _lease_check(self) -> str | None:
        """A standby is as ready as a leader, unless it can never become the leader."""
        assert self._elector is not None
        if self._elector.leader_identity:
            self._lease_error = None
        return self._lease_error

    def _on_watch_error(self, resource: AnyWatchedResource, error: CallFailed) -> None:
        if resource.kind != LEASES.kind:
            # Slices do not depend on the Leases of node proxies.
            self.watch_health.trouble(resource, error)
        self.controller.metrics.watches.record_error(error, kind=resource.plural)
        self._program.log_watch_error(resource, error, reason=type(error).__name__)

    def _on_status_error(self, service: ObjectKey, error: CallFailed) -> None:
        is_event = isinstance(error, ApiError) and f"/{EVENTS.plural}" in error.path
        kind = EVENTS.plural if is_event else SERVICES.plural
        self.controller.metrics.record_api_error(error, kind=kind)
        outcome = write_outcome(error)
        if outcome in (WriteOutcome.REFUSED, WriteOutcome.TERMINATING):
            self._log_refusal(service, error, kind, outcome)
            return
        self._log.warning(
            "failed to write an Event or condition",
            service="/".join(service),
            reason=type(error).__name__,
            error=self._program.error_message(error),
        )

    def _log_refusal(self, service: ObjectKey, error: CallFailed, kind: str, outcome: WriteOutcome) -> None:
        """A call that is refused for one Service is refused for most: log one of them."""
        # A namespace that is being deleted must not hide that permissions are missing.
        what = "terminating namespace" if outcome is WriteOutcome.TERMINATING else type(error).__name__
        left_out = self._refusals.decide((kind, what), now=self._clock())
        if left_out is not None:
            more = {"left_out": left_out} if left_out else {}
            write = self._log.info if outcome is WriteOutcome.TERMINATING else self._log.warning
            write(
                "the API server refuses Events or conditions",
                service="/".join(service),
                reason=f"{what} {kind}",
                error=self._program.error_message(error),
                **more,
            )

    def _on_prediction_error(self, service: ObjectKey, error: Exception) -> None:
        self._log.warning("failed to predict traffic", service="/".join(service), error=named_error(error))

    def _queue_page(self) -> Mapping[str, Any]:
        queue = self.controller.queue
        return {**asdict(queue.depth()), "oldestSeconds": round(queue.longest_wait(), 3), "leads": self.is_leader}

    def _decisions_page(self, namespace: str, name: str) -> Work | None:
        work = self.controller.decision_work(namespace, name)
        return None if work is None else lambda: self._as_json(work())

    def _predict(self, service: ObjectKey) -> Callable[[], PredictionsByFamily] | None:
        work = self.controller.decision_work(*service)
        return None if work is None else lambda: predictions_of(work())
