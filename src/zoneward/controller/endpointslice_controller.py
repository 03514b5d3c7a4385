"""The EndpointSlice controller: from a change in the cluster to the EndpointSlices of the Services that it affects.

An informer cache follows the cluster. Each change adds the keys of the affected Services to a work queue. A worker
takes a key, plans the Service and writes the differences (`ServiceReconciler`). Two workers never reconcile the same
Service at once, and no Service is planned before the cache has seen the controller's own writes of it.

A failed reconciliation is requeued with a growing backoff: see `EndpointSliceController._retry_later`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final

from zoneward.client.informer_cache import InformerCache, affected_services
from zoneward.client.informers import ErrorHandler, WatchedStores, run_informers
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.object_store import EventHandler
from zoneward.client.reflector import ReflectorRuntime
from zoneward.client.resources import (
    CONFIG_MAPS,
    LEASES,
    SLICES,
    AnyWatchedResource,
    LiveNode,
    LivePod,
    WatchedT,
    object_key_of,
    service_key_of,
)
from zoneward.controller.context import RESYNC_PERIOD, ControllerContext, ControllerOptions
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.controller_metrics import SyncResult
from zoneward.controller.demand_follower import DemandFollower
from zoneward.controller.handover.conflict_detector import ConflictDetector, is_built_in, is_built_in_write
from zoneward.controller.handover.endpoints_object import EndpointsObjectWriter
from zoneward.controller.handover.service_handover import ReleaseTasks
from zoneward.controller.overlay_reconciler import OverlayParameters, OverlayReconciler, OverlayStores
from zoneward.controller.queue.work_queue import Urgency, WorkItem, WorkQueue, namespace_of, urgency_of
from zoneward.controller.status.honored_condition import HonoredCondition
from zoneward.controller.status.node_proxies import NodeProxies
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker, HintsProbe
from zoneward.controller.sync.reconciler import ServiceReconciler
from zoneward.controller.sync.service_states import ServiceStates
from zoneward.controller.sync.slice_writer import ReconcileResult, SyncOutcome
from zoneward.daemon.log import UnexpectedErrorLog
from zoneward.daemon.unreadable_objects import log_unreadable_object
from zoneward.kube.adoption_marks import AdoptionAction
from zoneward.kube.names import OVERLAY_MARK
from zoneward.kube.objects import EndpointSlice, Namespace, ObjectKey, Service, has_address, has_ready_condition
from zoneward.routing.configuration import StoredHints, compatibility_of
from zoneward.slices.plan import ServicePlan

_RECHECK_PERIOD: Final = 0.5
"""Seconds between two checks for Services to reconcile without an event."""
_CHECK_TIME: Final = 0.005
_CHECK_PAUSE: Final = 0.015
"""Seconds of checking decisions after a change of demand, and between two turns: a quarter of a core at most."""
_SLICE_WAIT: Final = 0.2
"""Seconds in which the built-in controller writes the slice of a Pod that changed, as a rule."""
_POLL_PERIOD: Final = 0.01
"""Seconds between two checks whether the controller is idle."""


class EndpointSliceController:
    """Call `run`, and `stepped_down` when this replica no longer leads.

    While another replica leads, the cache stays current, changes wait in the queue, and nothing is written.
    ``on_watch_error`` gets the kind and the error when a list or a watch fails.
    """

    def __init__(
        self,
        context: ControllerContext,
        options: ControllerOptions | None = None,
        *,
        conflicts: ConflictDetector | None = None,
        on_watch_error: ErrorHandler = lambda _resource, _error: None,
    ) -> None:
        options = options or ControllerOptions()
        self._context, self._options, self._on_watch_error = context, options, on_watch_error
        self._leading, self._log, self._status_writer = context.leading, context.log, context.status_writer
        self.metrics: Final = context.metrics
        on_unreadable = partial(log_unreadable_object, self._log)
        self.cache: Final = InformerCache(on_unreadable=on_unreadable)
        self._reported_unreadable: set[tuple[str, ObjectKey, str]] = set()
        """Kind, key and version of the unreadable objects that have an Event."""
        self.queue: Final = WorkQueue[ObjectKey](
            batching=options.batching,
            back_off=options.back_off,
            chance=options.random.random,
            group_of=namespace_of,
            workers=options.workers,
        )
        self._tracker = EndpointSliceTracker(on_dropped_hints=self._hints_dropped)
        follows_proxies = options.node_proxy_namespace is not None and self._status_writer is not None
        self._parameters: OverlayParameters | None = None
        if context.mode is Mode.OVERLAY:
            stores = OverlayStores(on_unreadable=on_unreadable)
            stores.namespaces.subscribe(self._guarded(self._namespace_changed))
            self._parameters = OverlayParameters(
                stores,
                context.writer,
                on_change=self.queue.add_all,
                on_approach=lambda key: self._states.plan_afresh(key),
            )
        self._states = ServiceStates(
            self.cache,
            configuration=context.configuration,
            wall_clock=context.wall_clock,
            slice_groups_seen=None if follows_proxies else True,
            as_planned=None if self._parameters is None else self._parameters.as_planned,
        )
        self._hints_probe = HintsProbe(context, self._states.dropped_hints, cache=self.cache, queue=self.queue)
        self._conflicts = ConflictDetector() if conflicts is None else conflicts
        self.contested: Final = self._conflicts.contested
        """Services that are left to the built-in controller, which writes them too. Never replaced."""
        self._resync = PeriodicResync(period=options.resync_period)
        self._releases = ReleaseTasks(
            context.connection,
            configuration=context.configuration,
            writer=context.writer,
            log=self._log,
            on_end=lambda key: self.queue.add(key, urgency=Urgency.BACKGROUND),
        )
        self._endpoints = EndpointsObjectWriter(
            self.cache,
            context.writer,
            leading=self._leading,
            metrics=self.metrics,
            log=self._log,
            back_off=options.back_off,
        )
        self._honored: HonoredCondition | None = None
        if follows_proxies and self._status_writer is not None:
            self._honored = HonoredCondition(
                NodeProxies(
                    has_node=lambda name: self.cache.nodes.get("", name) is not None,
                    clock=asyncio.get_running_loop().time,
                    on_unreadable=on_unreadable,
                ),
                cache=self.cache,
                tracker=self._tracker,
                status_writer=self._status_writer,
                leading=self._leading,
                log=self._log,
            )
        self._demand: DemandFollower | None = None
        if context.figures is not None and compatibility_of(context.configuration).reads_own_settings:
            self._demand = DemandFollower(
                context.figures,
                configuration=context.configuration,
                cache=self.cache,
                states=self._states,
                queue=self.queue,
                leading=self._leading,
                metrics=self.metrics,
                log=self._log,
                is_ours=self._is_ours,
            )
        self._reconciler: ServiceReconciler | OverlayReconciler
        if self._parameters is not None:
            self._reconciler = OverlayReconciler(
                context,
                cache=self.cache,
                queue=self.queue,
                states=self._states,
                parameters=self._parameters,
                demand=self._demand,
            )
        else:
            self._reconciler = ServiceReconciler(
                context,
                cache=self.cache,
                queue=self.queue,
                states=self._states,
                tracker=self._tracker,
                conflicts=self._conflicts,
                endpoints=self._endpoints,
                releases=self._releases,
                honored=self._honored,
                demand=self._demand,
            )
        self._unexpected = UnexpectedErrorLog(self._log)
        self._workers: set[asyncio.Task[None]] = set()
        self._nodes_changed = False
        self._awaited_slices: dict[ObjectKey, asyncio.TimerHandle] = {}
        """In an overlay, Services with a changed Pod, whose slices the built-in controller is about to write."""
        self.cache.services.subscribe(self._guarded(self._service_changed))
        self.cache.pods.subscribe(self._guarded(self._pod_changed))
        self.cache.nodes.subscribe(self._guarded(self._node_changed))
        self.cache.slices.subscribe(self._guarded(self._slice_changed))

    # --- run and stop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled. Raises CallFailed if the cluster cannot be listed or watched at all."""
        try:
            async with asyncio.TaskGroup() as group:
                following = self._follow(self.cache, on_version=self._current)
                group.create_task(following, name="following the cluster")
                if self._parameters is not None:
                    stores = self._parameters.stores
                    following = self._follow(stores, options=stores.list_options, on_version=self._current)
                    group.create_task(following, name="following the overlay")
                for index in range(self._options.workers):
                    self._start_worker(group.create_task(self._work(), name=f"worker {index}"))
                self._start_worker(group.create_task(self._endpoints.run(), name="writing Endpoints objects"))
                group.create_task(self._recheck(), name="rechecking Services")
                group.create_task(self._check_demand(), name="checking decisions after a change of demand")
                group.create_task(self._hints_probe.run(), name="testing whether hints are stored")
                if self._status_writer is not None:
                    group.create_task(self._status_writer.run(), name="writing conditions and Events")
                if self._demand is not None:
                    group.create_task(self._demand.run(), name="following measured demand")
                if self._honored is not None:
                    following = self._honored.proxies.follow(
                        self._context.connection,
                        namespace=self._options.node_proxy_namespace or "",
                        timing=self._options.watch_timing,
                        on_watch_error=lambda error: self._on_watch_error(LEASES, error),
                    )
                    group.create_task(following, name="following node proxies")
                    group.create_task(self._honored.run(), name="deciding TrafficDistributionHonored")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            # The Lease may be released after this, so nothing may be written any more.
            await self._releases.end()

    def _follow(self, stores: WatchedStores, **more: Any) -> Coroutine[Any, Any, None]:
        return run_informers(
            self._context.connection,
            stores,
            settings=self._options.watch_timing,
            runtime=ReflectorRuntime(random=self._options.random, clock=asyncio.get_running_loop().time),
            on_error=self._on_watch_error,
            **more,
        )

    def _start_worker(self, worker: asyncio.Task[None]) -> None:
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def drain(self, limit: float) -> bool:
        """Start nothing new, and wait up to ``limit`` seconds for in-flight writes. Returns whether all are done."""
        self.queue.shut_down()
        self._endpoints.shut_down()
        if not self._leading.is_set():
            return True
        _, unfinished = await asyncio.wait(self._workers, timeout=limit) if self._workers else (None, ())
        return not unfinished

    def stepped_down(self) -> None:
        """Forget the controller's own writes: they are no longer the last ones."""
        self._releases.cancel()
        self._states.clear()
        self._reconciler.clear()
        self._conflicts.clear()
        self._endpoints.clear()
        for timer in self._awaited_slices.values():
            timer.cancel()
        self._awaited_slices.clear()
        self.metrics.forget_all_services()
        if self._demand is not None:
            self._demand.stepped_down()
        if self._status_writer is not None:
            self._status_writer.clear()
        if self._honored is not None:
            self._honored.clear()
        # Once this replica leads again, it has to check what others wrote.
        self.queue.add_all([object_key_of(service) for service in self.cache.services], urgency=Urgency.BACKGROUND)

    @property
    def is_idle(self) -> bool:
        """Whether everything is written that follows from the cache, and the cache has seen it."""
        if not self.cache.synced.is_set() or self._nodes_changed or self._releases:
            return False
        if self._states.has_unchecked.is_set() or self._awaited_slices:
            return False
        depth = self.queue.depth()
        if depth.waiting or depth.working or not self._endpoints.is_idle:
            return False
        keys = {object_key_of(service) for service in self.cache.services} | {
            service_key_of(slice_) for slice_ in self.cache.slices
        }
        return not any(self._tracker.is_stale(key, self.cache.slices_of(*key)) for key in keys)

    async def wait_until_idle(self, limit: float) -> bool:
        """Wait up to ``limit`` seconds until the controller is idle. Returns whether it is."""
        end = asyncio.get_running_loop().time() + limit
        while not self.is_idle and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_POLL_PERIOD)
        return self.is_idle

    # --- plans on request ---------------------------------------------------------------------------------------------

    def decision(self, namespace: str, name: str) -> ServicePlan | None:
        """A fresh plan of a Service; None for a Service that does not exist or is not managed."""
        work = self.decision_work(namespace, name)
        return None if work is None else work()

    def decision_work(self, namespace: str, name: str) -> Callable[[], ServicePlan] | None:
        """The same as work for a thread, with everything that it needs already taken from the cache."""
        service = self.cache.services.get(namespace, name)
        slices = self.cache.slices_of(namespace, name)
        if service is None or self._reconciler.course(service, slices) is not AdoptionAction.SERVE:
            return None
        self._refresh_nodes()
        return self._states.fresh_plan((namespace, name), service)

    def _is_ours(self, service: Service) -> bool:
        """Whether this controller writes the slices of a Service."""
        key = object_key_of(service)
        if key in self.contested:
            return False
        return self._reconciler.course(service, self.cache.slices_of(*key)) is AdoptionAction.SERVE

    @property
    def is_released(self) -> bool:
        """Whether no Service is in the overlay, as far as the API server has shown it."""
        parameters = self._parameters
        return parameters is not None and parameters.stores.synced.is_set() and parameters.is_empty

    @property
    def services_without_stored_hints(self) -> int:
        """The number of Services whose hints the API server dropped."""
        return len(self._states.dropped_hints)

    @property
    def unreadable(self) -> tuple[UnreadableObject, ...]:
        """The objects that cannot be read, including those of an overlay and Leases of node proxies."""
        overlay = () if self._parameters is None else self._parameters.stores.unreadable
        leases = () if self._honored is None else self._honored.proxies.leases.unreadable.values()
        return (*self.cache.unreadable, *overlay, *leases)

    # --- event handlers -----------------------------------------------------------------------------------------------
    # Keys are sorted, so that equal changes lead to equal writes in the same order.

    def _guarded(self, handler: EventHandler[WatchedT]) -> EventHandler[WatchedT]:
        """The handler, whose exceptions are logged: the periodic resync makes up for the lost change."""

        def guarded(old: WatchedT | None, new: WatchedT | None) -> None:
            try:
                handler(old, new)
            except Exception as error:
                changed = new if new is not None else old
                assert changed is not None
                self._unexpected.error("internal error while handling a change", object_key_of(changed), error)

        return guarded

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        self._states.service_changed(old, new)
        if self._demand is not None:
            self._demand.service_changed(old, new)
        self.queue.add_all(sorted(affected_services(self.cache, old, new)))

    def _pod_changed(self, old: LivePod | None, new: LivePod | None) -> None:
        self._states.pod_changed(old, new)
        keys = affected_services(self.cache, old, new)
        if not keys:
            return
        if self._parameters is not None and self.cache.synced.is_set():
            self._await_slices(keys)
            return
        is_synced, takes_away = self.cache.synced.is_set(), _is_serving(old) and not _is_serving(new)
        for key in sorted(keys):
            ready = self._states.ready_endpoints(key)
            urgency = urgency_of(takes_away=takes_away, ready=ready) if is_synced else Urgency.NORMAL
            self.queue.add(key, urgency=urgency)

    def _await_slices(self, keys: Iterable[ObjectKey]) -> None:
        """One plan for a Pod and for the slice that the built-in controller writes because of it."""

        def give_up(key: ObjectKey) -> None:
            del self._awaited_slices[key]
            self.queue.add(key)

        loop = asyncio.get_running_loop()
        for key in keys:
            if key not in self._awaited_slices:
                self._awaited_slices[key] = loop.call_later(_SLICE_WAIT, give_up, key)

    def _node_changed(self, old: LiveNode | None, new: LiveNode | None) -> None:
        if self._states.node_changed(old, new) and not self._nodes_changed:
            self._nodes_changed = True
            # Nodes change together: check the Services once for all of them.
            asyncio.get_running_loop().call_soon(self._refresh_nodes)
        self.queue.add_all(sorted(affected_services(self.cache, old, new)))

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        self._states.slice_changed(old, new)
        self._note_built_in_write(old, new)
        change = self._tracker.observe(old, new)
        if change.is_news:
            self.queue.add_all(sorted(change.services))
        for key in sorted(change.services):
            timer = self._awaited_slices.pop(key, None)
            if timer is not None:
                timer.cancel()
            if self.queue.is_stale(key) and not self._tracker.is_stale(key, self.cache.slices_of(*key)):
                self.queue.wake(key)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        """The label of a namespace puts its Services into the overlay. They may be in the cache before it is."""
        if new is None or self._parameters is None or not self._parameters.stores.synced.is_set():
            return
        before, after = (
            None if namespace is None else (namespace.metadata.labels or {}).get(OVERLAY_MARK)
            for namespace in (old, new)
        )
        if before != after:
            name = new.metadata.name
            keys = (object_key_of(service) for service in self.cache.services)
            self.queue.add_all(sorted(key for key in keys if key[0] == name), urgency=Urgency.BACKGROUND)

    def _hints_dropped(self, key: ObjectKey, stored: StoredHints) -> None:
        """The API server stored a slice without some of its hints: plan its Service without them."""
        if compatibility_of(self._context.configuration).sets_hints_in_slices:
            return
        known = self._states.dropped_hints
        if known.get(key) not in ("none", stored):
            known[key] = stored
            self._log.warning("the API server dropped hints", service="/".join(key), stored=stored)
            self.queue.add(key)

    def _note_built_in_write(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if (
            new is not None
            and self.cache.synced.is_set()
            and is_built_in(new, self._context.configuration)
            and is_built_in_write(old, new)
        ):
            self._conflicts.slice_changed(service_key_of(new), now=asyncio.get_running_loop().time())

    def _refresh_nodes(self) -> None:
        self._nodes_changed = False
        self.queue.add_all(self._states.refresh_nodes(), urgency=Urgency.BACKGROUND)

    def _current(self, resource: AnyWatchedResource, version: int) -> None:
        if self._honored is not None and resource.kind == SLICES.kind:
            self._honored.slices_version = version
        if self._parameters is not None and resource.kind == CONFIG_MAPS.kind:
            self._parameters.seen(version)

    # --- workers ------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        await self.cache.synced.wait()
        while True:
            await self._leading.wait()
            item = await self.queue.get()
            if item is None:
                return
            if not self._leading.is_set():
                self.queue.done(item.key)
                self.queue.add(item.key, urgency=item.urgency)
                continue
            try:
                self._refresh_nodes()
                result = await self.queue.run(item.key, self._reconciler.reconcile(item))
            except Exception as error:
                # A bug. The state of the Service may be wrong.
                self._unexpected.error("internal error while syncing a Service", item.key, error)
                self._states.plan_afresh(item.key)
                self._retry_later(item, 0, error)
            else:
                self._finish(item, result)

    async def _recheck(self) -> None:
        """Requeue Services without an event: for the resync, and to recheck contested ones."""
        while True:
            await asyncio.sleep(_RECHECK_PERIOD)
            await self._leading.wait()
            now = asyncio.get_running_loop().time()
            if self._states.expire_grace():
                self._refresh_nodes()
            self._report_unreadable()
            keys = self._conflicts.due_rechecks(now=now)
            if self._honored is not None:
                keys += self._states.set_slice_groups_seen(self._honored.slice_groups_seen)
            for key in self._resync.due(lambda: map(object_key_of, self.cache.services), now=now):
                self._states.plan_afresh(key)
                self._endpoints.read_afresh(key)
                keys.append(key)
            self.queue.add_all(keys, urgency=Urgency.BACKGROUND)

    def _report_unreadable(self) -> None:
        """An Event about each object that cannot be read now, and again for its next version."""
        by_version = {(obj.resource.kind, obj.key, obj.version): obj for obj in self.unreadable if obj.name}
        if self._status_writer is not None:
            for version, unreadable in by_version.items():
                if version not in self._reported_unreadable:
                    self._status_writer.report_unreadable(unreadable)
        self._reported_unreadable = set(by_version)

    async def _check_demand(self) -> None:
        """Requeue the Services whose decision another demand changes."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._states.has_unchecked.wait()
            await self._leading.wait()
            began = clock()
            while self._states.has_unchecked.is_set() and clock() - began < _CHECK_TIME:
                key = self._states.check_next()
                if key is not None:
                    self.queue.add(key, urgency=Urgency.BACKGROUND)
            await asyncio.sleep(_CHECK_PAUSE)

    def _finish(self, item: WorkItem[ObjectKey], result: ReconcileResult) -> None:
        key = item.key
        match result.outcome:
            case SyncOutcome.WRITTEN:
                waited = self.queue.done(key, writes=result.writes)
                if result.writes:
                    self.metrics.latency.observe(waited)
            case SyncOutcome.OUTDATED:
                self.metrics.record_failed_sync(SyncResult.STALE)
                self.queue.wait_for_cache(key)
                if not self._tracker.is_stale(key, self.cache.slices_of(*key)):
                    self.queue.wake(key)
            case SyncOutcome.NAMESPACE_TERMINATING:
                self.metrics.record_failed_sync()
                self.queue.done(key, writes=result.writes)
            case _:
                self._retry_later(item, result.writes, result.error)

    def _retry_later(self, item: WorkItem[ObjectKey], writes: int, error: Exception | None) -> None:
        """Requeue a Service with a growing backoff."""
        self.metrics.record_failed_sync()
        self.metrics.retries.inc()
        pause = self.queue.retry(item.key, writes=writes, error=error)
        self._log.warning(
            "failed to sync a Service",
            service="/".join(item.key),
            reason=type(error).__name__,
            error=str(error),
            tries=item.failures + 1,
            again_in=round(pause, 3),
        )


def _is_serving(pod: LivePod | None) -> bool:
    """Whether a Pod becomes a ready endpoint."""
    return (
        pod is not None
        and has_address(pod)
        and pod.metadata.deletion_timestamp is None
        and has_ready_condition(pod.status.conditions)
    )


class PeriodicResync:
    """The Services that are due for the full resync: each once a period, spread evenly.

    The resync repairs what no event reports: a wrong state of a Service, or an object that is not watched. It costs one
    plan of each Service, and writes only differences.
    """

    def __init__(self, *, period: float = RESYNC_PERIOD) -> None:
        if not period > 0:
            raise ValueError(f"period: expected a number of seconds above 0, got {period}")
        self._period = period
        self._left: deque[ObjectKey] = deque()
        self._number = 0
        self._began: float | None = None

    def due(self, keys: Callable[[], Iterable[ObjectKey]], *, now: float) -> list[ObjectKey]:
        """The keys to reconcile now; some Services may no longer exist. ``keys`` lists all Services, once a period.

        The first call returns nothing, because all Services were just listed.
        """
        if self._began is None or (not self._left and now - self._began >= self._period):
            self._left = deque(keys())
            self._number, self._began = len(self._left), now
        share = min(1.0, (now - self._began) / self._period)
        left = self._number - int(self._number * share)
        return [self._left.popleft() for _ in range(len(self._left) - left)]
