"""Reconciles one Service: whether the controller manages it, its desired EndpointSlices, and the writes.

Two reconciliations of one Service never run at the same time; those of different Services may.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from zoneward.client.api_errors import CallFailed
from zoneward.client.informer_cache import InformerCache
from zoneward.client.list_pager import ListScope, list_all
from zoneward.client.resources import SERVICES, SLICES, service_key_of
from zoneward.controller.context import ControllerContext
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.controller_metrics import Operation
from zoneward.controller.demand_follower import DemandFollower
from zoneward.controller.handover.conflict_detector import (
    CONTESTED,
    ConflictDetector,
    ConflictVerdict,
    is_built_in,
    slices_of_contested,
)
from zoneward.controller.handover.endpoints_object import EndpointsObjectWriter
from zoneward.controller.handover.service_handover import ReleaseTasks
from zoneward.controller.queue.work_queue import WorkItem, WorkQueue
from zoneward.controller.status.honored_condition import HonoredCondition
from zoneward.controller.status.status_writer import own_conditions, with_requested
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker
from zoneward.controller.sync.service_states import ExistingSliceNames, ServiceStates, is_own
from zoneward.controller.sync.slice_writer import (
    NOTHING_TO_WRITE,
    ReconcileResult,
    SliceWrite,
    SliceWriter,
    SyncOutcome,
    ordered_writes,
)
from zoneward.kube.adoption_marks import AdoptionAction, adoption_action, effective_selector
from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import EndpointSlice, ObjectKey, Service, ServiceEvent
from zoneward.routing.service_events import last_reported
from zoneward.slices.existing import is_owned
from zoneward.slices.plan import ServicePlan

ORPHANED: Final = ServiceEvent(
    "Warning",
    "EndpointSlicesOrphaned",
    "The annotation zoneward.dev/selector was removed and there is no selector: no controller updates the"
    " EndpointSlices",
)


class ServiceReconciler:
    """Reconciles one Service per call. Its only state is the Events of plans whose writes failed.

    ``honored`` None: the condition ``TrafficDistributionHonored`` is not written; ``demand`` None: nor is
    ``TrafficDemandMeasured``.
    """

    def __init__(
        self,
        context: ControllerContext,
        *,
        cache: InformerCache,
        queue: WorkQueue[ObjectKey],
        states: ServiceStates,
        tracker: EndpointSliceTracker,
        conflicts: ConflictDetector,
        endpoints: EndpointsObjectWriter,
        releases: ReleaseTasks,
        honored: HonoredCondition | None = None,
        demand: DemandFollower | None = None,
    ) -> None:
        self._connection, self._configuration, self._mode = context.connection, context.configuration, context.mode
        self._leading, self._status_writer = context.leading, context.status_writer
        self._is_stand_in = context.is_stand_in
        self._metrics, self._log = context.metrics, context.log
        self._cache, self._queue, self._states, self._tracker = cache, queue, states, tracker
        self._conflicts, self._endpoints, self._releases, self._honored = conflicts, endpoints, releases, honored
        self._demand = demand
        self._slice_writer = SliceWriter(
            context.writer, tracker=tracker, metrics=context.metrics, on_news=queue.add_all
        )
        self._unreported_events: dict[ObjectKey, tuple[ServiceEvent, ...]] = {}
        self._orphaned: set[ObjectKey] = set()
        self._clock = asyncio.get_running_loop().time

    async def reconcile(self, item: WorkItem[ObjectKey]) -> ReconcileResult:
        """Write the desired slices of a Service. OUTDATED also if the cache has not seen the own writes."""
        key = item.key
        if item.cache_timed_out:
            try:
                await self._read_from_server(key)
            except CallFailed as error:
                self._metrics.record_api_error(error, kind=SLICES.plural)
                return ReconcileResult(SyncOutcome.FAILED, 0, error)
        slices = self._cache.slices_of(*key)
        self._tracker.drop_seen_deletions(key, slices)
        if self._tracker.is_stale(key, slices):
            return ReconcileResult(SyncOutcome.OUTDATED, 0)
        service = self._cache.services.get(*key)
        if service is None and key in self._cache.services.unreadable:
            # Its desired slices are unknown: do not modify them.
            self._forget(key)
            return NOTHING_TO_WRITE
        if service is None:
            return await self._remove(key, slices)
        course = self.course(service, slices)
        if course is AdoptionAction.SERVE:
            return await self._serve(key, service, slices)
        self._leave(key, service, course)
        return NOTHING_TO_WRITE

    def course(self, service: Service, slices: Iterable[EndpointSlice]) -> AdoptionAction:
        """What to do about a Service with these slices."""
        has_own = any(is_own(slice_, self._configuration) for slice_ in slices)
        if self._mode is Mode.ONLY_MARKED:
            course = adoption_action(service, has_own=has_own)
            if course is AdoptionAction.ORPHANED and not any(self._is_permanent(service, slice_) for slice_ in slices):
                # The slices are of an earlier Service of this name, or are being deleted.
                return AdoptionAction.LEAVE
            return course
        if service.spec.type == "ExternalName":
            return AdoptionAction.SERVE if has_own else AdoptionAction.LEAVE
        selector = service.spec.selector if self._is_stand_in else effective_selector(service)
        return AdoptionAction.SERVE if selector else AdoptionAction.LEAVE

    def _is_permanent(self, service: Service, slice_: EndpointSlice) -> bool:
        """Whether a slice is Zoneward's, is owned by this Service, and is not being deleted."""
        is_deleted = slice_.metadata.deletion_timestamp is not None
        return is_own(slice_, self._configuration) and is_owned(slice_, service) and not is_deleted

    def clear(self) -> None:
        """Another replica leads from now on."""
        self._unreported_events.clear()
        self._orphaned.clear()

    # --- a managed Service --------------------------------------------------------------------------------------------

    async def _serve(self, key: ObjectKey, service: Service, slices: Sequence[EndpointSlice]) -> ReconcileResult:
        taken = ExistingSliceNames(self._cache, key[0])
        reported = service if self._status_writer is None else self._status_writer.as_reported(service)
        plan = self._states.plan(key, reported, taken=taken)
        trigger_time = self._states.trigger_times.time(key)
        if key in self._conflicts.contested:
            return await self._yield(key, plan, slices)
        verdict = self._conflict_verdict(key, plan)
        if verdict is ConflictVerdict.YIELD:
            self._start_to_yield(key, service)
            return await self._yield(key, plan, slices)
        previous = {slice_.metadata.name: slice_ for slice_ in slices}
        writes: Sequence[SliceWrite] = ordered_writes(plan, previous=previous, taken=taken)
        if verdict is ConflictVerdict.WAIT:
            writes = [write for write in writes if not is_built_in(write.slice, self._configuration)]
        if self._is_stand_in:
            writes = [write for write in writes if is_own(write.slice, self._configuration)]
        unreported = self._unreported_events.pop(key, ())
        # Without a last report, its Events are about changes of what is in force, which are gone with the next plan.
        events = plan.events if last_reported(reported) is not None else (*unreported, *plan.events)
        result = await self._slice_writer.write(key, writes)
        if result.outcome is not SyncOutcome.WRITTEN:
            if events and self._leading.is_set():
                # The next plan may not have these Events again.
                self._unreported_events[key] = tuple(dict.fromkeys(events))
            return result
        self._states.trigger_times.written(key)
        self._tracker.drop_seen_deletions(key, self._cache.slices_of(*key))
        # Otherwise the new leader reports and counts it.
        if self._leading.is_set():
            if verdict is ConflictVerdict.DELETE:
                self._conflicts.taken_over(key)
            self._update_endpoints(key, trigger_time=trigger_time)
            if self._status_writer is not None:
                measured = None if self._demand is None else self._demand.condition(service)
                own = () if measured is None else (measured,)
                conditions = (*with_requested(plan.conditions, plan.requested), *own)
                if self._honored is not None:
                    planned = conditions if plan.conditions else ()
                    has_deleted = any(write.operation is Operation.DELETE for write in writes)
                    conditions = (
                        self._honored.conditions(service, planned, requested=plan.requested, has_deleted=has_deleted)
                        or own
                    )
                self._status_writer.report(service, conditions=conditions, events=dict.fromkeys(events))
            self._metrics.record_sync(plan)
        if service.spec.type == "ExternalName":
            # No event is expected for it any more.
            self._forget(key)
        return result

    # --- a Service that the built-in controller writes too ------------------------------------------------------------

    def _conflict_verdict(self, key: ObjectKey, plan: ServicePlan) -> ConflictVerdict:
        replaced = (slice_ for family in plan.families for slice_ in family.replaced)
        if any(is_built_in(slice_, self._configuration) for slice_ in (*replaced, *plan.surplus)):
            return self._conflicts.verdict(key, now=self._clock())
        return ConflictVerdict.DELETE

    def _start_to_yield(self, key: ObjectKey, service: Service) -> None:
        self._metrics.forget_service(key)
        if self._honored is not None:
            self._honored.forget(key)
        name = "/".join(key)
        self._log.error("backing off: the built-in controller writes slices of the same Service", service=name)
        if self._status_writer is not None and self._leading.is_set():
            # Zoneward's conditions describe its own slices only.
            self._status_writer.report(service, conditions=(), events=[CONTESTED])

    async def _yield(self, key: ObjectKey, plan: ServicePlan, slices: Sequence[EndpointSlice]) -> ReconcileResult:
        """Only delete Zoneward's slices, once those of the built-in controller list all of their ready endpoints."""
        contested = slices_of_contested(plan, slices, configuration=self._configuration)
        if self._conflicts.retry(key, contested, now=self._clock()):
            self._log.info("managing a contested Service again", service="/".join(key))
            self._queue.add(key)
            return NOTHING_TO_WRITE
        trigger_time = self._states.trigger_times.time(key)
        # The built-in controller writes the slices, with its own trigger time.
        self._states.trigger_times.written(key)
        self._update_endpoints(key, trigger_time=trigger_time)
        return await self._slice_writer.write(key, _deletions(contested.duplicates))

    # --- a Service that is not managed, or was deleted ----------------------------------------------------------------

    def _leave(self, key: ObjectKey, service: Service, course: AdoptionAction) -> None:
        was_orphaned = key in self._orphaned
        self._forget(key)
        name = "/".join(key)
        if course is AdoptionAction.ORPHANED:
            self._orphaned.add(key)
            if not was_orphaned:
                message = "no controller updates the slices of a Service: it lost its annotation and has no selector"
                self._log.warning(message, service=name)
        elif course is AdoptionAction.RELEASE:
            self._releases.start(key)
        elif course is AdoptionAction.BROKEN:
            self._log.warning(
                "the annotation zoneward.dev/selector of an adopted Service has no valid selector", service=name
            )
        if (
            self._status_writer is not None
            and self._leading.is_set()
            and course in (AdoptionAction.LEAVE, AdoptionAction.ORPHANED)
        ):
            # A Service that was managed has Zoneward's conditions until this is reported.
            is_new = course is AdoptionAction.ORPHANED and own_conditions(service) and not was_orphaned
            self._status_writer.report(service, conditions=(), events=[ORPHANED] if is_new else [])

    async def _remove(self, key: ObjectKey, slices: Iterable[EndpointSlice]) -> ReconcileResult:
        """A Service was deleted: delete its slices, though the garbage collector may do so too."""
        self._forget(key)
        if self._status_writer is not None:
            self._status_writer.forget(key)
        deletions = _deletions(slice_ for slice_ in slices if is_own(slice_, self._configuration))
        if deletions and (error := await self._reason_to_keep(key)):
            return ReconcileResult(SyncOutcome.FAILED, 0, error)
        result = await self._slice_writer.write(key, deletions)
        if result.outcome is SyncOutcome.WRITTEN and not deletions:
            self._tracker.forget(key)
        return result

    async def _reason_to_keep(self, key: ObjectKey) -> CallFailed | None:
        """Why a missing Service may still exist: if the watch of Services has failed, the cache may get its slices
        first."""
        try:
            services = await list_all(
                self._connection, SERVICES, ListScope(namespace=key[0], field_selector=f"metadata.name={key[1]}")
            )
        except CallFailed as error:
            self._metrics.record_api_error(error, kind=SERVICES.plural)
            return error
        return CallFailed("the Service exists, and is not in the cache yet", sent=False) if services else None

    def _forget(self, key: ObjectKey) -> None:
        self._states.forget(key)
        self._conflicts.forget(key)
        self._update_endpoints(key)
        self._unreported_events.pop(key, None)
        self._orphaned.discard(key)
        self._metrics.forget_service(key)
        if self._honored is not None:
            self._honored.forget(key)

    def _update_endpoints(self, key: ObjectKey, *, trigger_time: str | None = None) -> None:
        """The Endpoints object of an adopted Service is Zoneward's."""
        if not self._is_stand_in:
            self._endpoints.add(key, trigger_time=trigger_time)

    async def _read_from_server(self, key: ObjectKey) -> None:
        """The cache did not show the controller's writes in time: it has to catch up with the server's state."""
        cached = self._cache.slices_of(*key)
        awaited = self._tracker.awaited(key, cached)
        self._log.warning(
            "the cache has not shown Zoneward's own writes in time", service="/".join(key), slices=", ".join(awaited)
        )
        labels = f"{SERVICE_NAME_LABEL}={key[1]}"
        slices = await list_all(self._connection, SLICES, ListScope(namespace=key[0], label_selector=labels))
        fresh = [slice_ for slice_ in slices if service_key_of(slice_) == key]
        self._tracker.read(key, fresh, self._cache.slices_of(*key))


def _deletions(slices: Iterable[EndpointSlice]) -> list[SliceWrite]:
    return [SliceWrite(Operation.DELETE, slice_) for slice_ in slices if slice_.metadata.deletion_timestamp is None]
