"""One sync of one Service: whose it is, what its slices should be, and the writes that make them so.

Two syncs of one Service never run at the same time; those of others may.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from zoneward.client.api_errors import CallFailed
from zoneward.client.cache import Cache
from zoneward.client.listing import list_all
from zoneward.client.resources import SERVICES, SLICES, Key, service_of
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.handover.adopting import Link
from zoneward.controller.handover.keeping_endpoints import EndpointsKeeper
from zoneward.controller.handover.releases import Releases
from zoneward.controller.handover.rivals import Rivals, Verdict, is_built_in, look
from zoneward.controller.leader.leading import Leading
from zoneward.controller.mode import Mode
from zoneward.controller.queue.queue import Queue
from zoneward.controller.queue.schedule import Given
from zoneward.controller.status.conditions import ours
from zoneward.controller.status.honoring import Honoring
from zoneward.controller.status.telling import Teller
from zoneward.controller.sync.ordering import Step, steps_of
from zoneward.controller.sync.reconciling import Ending, Reconciled, Reconciler
from zoneward.controller.sync.state import SliceNames, State, is_own
from zoneward.controller.sync.tracker import Tracker
from zoneward.controller.sync_counts import Operation
from zoneward.daemon.log import Log
from zoneward.kube.adoption import Course, course_of, selector_of
from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.service_events import ServiceEvent
from zoneward.slices.existing import is_owned
from zoneward.slices.plan import ServicePlan

CONTESTED: Final = ServiceEvent(
    "Warning",
    "EndpointSlicesContested",
    "The built-in EndpointSlice controller writes slices of this Service too; Zoneward keeps off until it is quiet",
)
ORPHANED: Final = ServiceEvent(
    "Warning",
    "EndpointSlicesOrphaned",
    "The annotation zoneward.dev/selector is gone and there is no selector: nobody keeps the EndpointSlices current",
)
_NOTHING: Final = Reconciled(Ending.WRITTEN, 0)


class Syncer:
    """What one sync does. All that it needs is given; it keeps nothing but events of plans that were not written."""

    def __init__(
        self,
        connection: Link,
        *,
        cache: Cache,
        queue: Queue[Key],
        state: State,
        tracker: Tracker,
        reconciler: Reconciler,
        rivals: Rivals,
        endpoints: EndpointsKeeper,
        releases: Releases,
        configuration: Configuration,
        mode: Mode,
        leading: Leading,
        metrics: ControllerMetrics,
        log: Log,
        teller: Teller | None,
        honoring: Honoring | None = None,
    ) -> None:
        self._connection, self._cache, self._queue = connection, cache, queue
        self._state, self._tracker, self._reconciler = state, tracker, reconciler
        self._rivals, self._endpoints, self._releases = rivals, endpoints, releases
        self._configuration, self._mode, self._leading = configuration, mode, leading
        self._metrics, self._log, self._teller = metrics, log, teller
        self._honoring = honoring
        self._events: dict[Key, tuple[ServiceEvent, ...]] = {}
        self._orphaned: set[Key] = set()
        self._clock = asyncio.get_running_loop().time

    async def sync(self, given: Given[Key]) -> Reconciled:
        """How it ended; OUTDATED too where the cache has not seen our own writes yet."""
        key = given.key
        if given.in_vain:
            try:
                await self._read_afresh(key)
            except CallFailed as error:
                self._metrics.record_api_error(error, kind=SLICES.plural)
                return Reconciled(Ending.FAILED, 0, error)
        slices = self._cache.slices_of(*key)
        self._tracker.tidy(key, slices)
        if self._tracker.is_stale(key, slices):
            return Reconciled(Ending.OUTDATED, 0)
        service = self._cache.services.get(*key)
        if service is None and key in self._cache.services.unreadable:
            # What is there of it stays as it is: nobody knows what it should be.
            self._forget(key)
            return _NOTHING
        if service is None:
            return await self._remove(key, slices)
        course = self.course(service, slices)
        if course is Course.SERVE:
            return await self._serve(key, service, slices)
        self._leave(key, service, course)
        return _NOTHING

    def course(self, service: Service, slices: Iterable[EndpointSlice]) -> Course:
        """What to do about a Service with these slices."""
        has_own = any(is_own(each, self._configuration) for each in slices)
        if self._mode is Mode.ONLY_MARKED:
            course = course_of(service, has_own=has_own)
            if course is Course.ORPHANED and not any(self._is_kept_of(service, each) for each in slices):
                # Those of an earlier Service of this name, or on their way out.
                return Course.LEAVE
            return course
        if service.spec.type == "ExternalName":
            return Course.SERVE if has_own else Course.LEAVE
        return Course.SERVE if selector_of(service) else Course.LEAVE

    def _is_kept_of(self, service: Service, each: EndpointSlice) -> bool:
        """Whether a slice is ours, of this very Service, and there to stay."""
        is_going = each.metadata.deletion_timestamp is not None
        return is_own(each, self._configuration) and is_owned(each, service) and not is_going

    def clear(self) -> None:
        """Somebody else leads from now on."""
        self._events.clear()
        self._orphaned.clear()

    # --- one that is ours ---------------------------------------------------------------------------------------------

    async def _serve(self, key: Key, service: Service, slices: Sequence[EndpointSlice]) -> Reconciled:
        taken = SliceNames(self._cache, key[0])
        told = service if self._teller is None else self._teller.as_told(service)
        plan = self._state.plan(key, told, taken=taken)
        trigger_time = self._state.times.time(key)
        if key in self._rivals.contested:
            return await self._keep_off(key, plan, slices)
        verdict = self._judge(key, plan)
        if verdict is Verdict.KEEP_OFF:
            self._contest(key, service)
            return await self._keep_off(key, plan, slices)
        before = {each.metadata.name: each for each in slices}
        steps: Sequence[Step] = steps_of(plan, before=before, taken=taken)
        if verdict is Verdict.WAIT:
            steps = [each for each in steps if not is_built_in(each.slice, self._configuration)]
        waiting = self._events.pop(key, ())
        # Beside conditions that say what was told last, a plan's own events are all there is to tell.
        events = plan.events if ours(told) else (*waiting, *plan.events)
        result = await self._reconciler.write(key, steps)
        if result.ending is not Ending.WRITTEN:
            if events and self._leading.is_set():
                # Another plan may find what they tell of done already.
                self._events[key] = tuple(dict.fromkeys(events))
            return result
        self._state.times.written(key)
        self._tracker.tidy(key, self._cache.slices_of(*key))
        # Whoever leads now tells and counts it.
        if self._leading.is_set():
            if verdict is Verdict.DELETE:
                self._rivals.holds(key)
            self._endpoints.add(key, trigger_time=trigger_time)
            if self._teller is not None:
                conditions = plan.conditions
                if self._honoring is not None:
                    has_deleted = any(each.operation is Operation.DELETE for each in steps)
                    conditions = self._honoring.conditions(service, conditions, has_deleted=has_deleted)
                self._teller.tell(service, conditions=conditions, events=dict.fromkeys(events))
            self._metrics.record_sync(plan)
        if service.spec.type == "ExternalName":
            # Nothing will ever tell of it again.
            self._forget(key)
        return result

    # --- one that somebody else writes too ----------------------------------------------------------------------------

    def _judge(self, key: Key, plan: ServicePlan) -> Verdict:
        replaced = (each for family in plan.families for each in family.replaced)
        if any(is_built_in(each, self._configuration) for each in (*replaced, *plan.surplus)):
            return self._rivals.found(key, now=self._clock())
        return Verdict.DELETE

    def _contest(self, key: Key, service: Service) -> None:
        self._metrics.forget_service(key)
        if self._honoring is not None:
            self._honoring.forget(key)
        name = "/".join(key)
        self._log.error("the built-in controller writes slices of a Service of ours: keeping off", service=name)
        if self._teller is not None and self._leading.is_set():
            # What our conditions said is true of our slices only.
            self._teller.tell(service, conditions=(), events=[CONTESTED])

    async def _keep_off(self, key: Key, plan: ServicePlan, slices: Sequence[EndpointSlice]) -> Reconciled:
        """Write nothing, but take away what is listed twice once all of it is."""
        found, now = look(plan, slices, configuration=self._configuration), self._clock()
        if found.is_gone:
            self._give_back([key], now)
            return _NOTHING
        if given_back := self._rivals.looked(key, is_current=found.is_current, now=now):
            self._give_back(given_back, now)
            return _NOTHING
        trigger_time = self._state.times.time(key)
        # The slices are written by somebody else, who tells it there.
        self._state.times.written(key)
        self._endpoints.add(key, trigger_time=trigger_time)
        doubles = [Step(Operation.DELETE, each) for each in found.doubles if each.metadata.deletion_timestamp is None]
        return await self._reconciler.write(key, doubles)

    def _give_back(self, keys: Sequence[Key], now: float) -> None:
        self._rivals.give_back(keys, now=now)
        for key in keys:
            self._log.info("the built-in controller is quiet: a Service is ours again", service="/".join(key))
        self._queue.add_all(keys)

    # --- one that is not ours, or is gone -----------------------------------------------------------------------------

    def _leave(self, key: Key, service: Service, course: Course) -> None:
        was_orphaned = key in self._orphaned
        self._forget(key)
        name = "/".join(key)
        if course is Course.ORPHANED:
            self._orphaned.add(key)
            if not was_orphaned:
                words = "a Service has lost its mark and has no selector: nobody keeps its slices current"
                self._log.warning(words, service=name)
        elif course is Course.RELEASE:
            self._releases.begin(key)
        elif course is Course.BROKEN:
            self._log.warning("a Service is marked as adopted, and its mark has no selector", service=name)
        if self._teller is not None and self._leading.is_set() and course in (Course.LEAVE, Course.ORPHANED):
            # One that was ours still has our conditions, which remember too that nothing was told yet.
            events = [ORPHANED] if course is Course.ORPHANED and ours(service) and not was_orphaned else []
            self._teller.tell(service, conditions=(), events=events)

    async def _remove(self, key: Key, slices: Iterable[EndpointSlice]) -> Reconciled:
        """A Service is gone: what is left of ours goes, though the garbage collector might do it too."""
        self._forget(key)
        if self._teller is not None:
            self._teller.forget(key)
        own = [each for each in slices if is_own(each, self._configuration)]
        gone = [Step(Operation.DELETE, each) for each in own if each.metadata.deletion_timestamp is None]
        if gone and (trouble := await self._is_there(key)):
            return Reconciled(Ending.FAILED, 0, trouble)
        result = await self._reconciler.write(key, gone)
        if result.ending is Ending.WRITTEN and not gone:
            self._tracker.forget(key)
        return result

    async def _is_there(self, key: Key) -> CallFailed | None:
        """What keeps us from taking a Service for deleted: slices may be heard of sooner than their Service, where the
        watch of Services has broken off."""
        try:
            found = await list_all(self._connection, SERVICES, namespace=key[0], fields=f"metadata.name={key[1]}")
        except CallFailed as error:
            self._metrics.record_api_error(error, kind=SERVICES.plural)
            return error
        return CallFailed("the Service is there, and the cache does not know it yet", sent=False) if found else None

    def _forget(self, key: Key) -> None:
        self._state.forget(key)
        self._rivals.forget(key)
        self._endpoints.add(key)
        self._events.pop(key, None)
        self._orphaned.discard(key)
        self._metrics.forget_service(key)
        if self._honoring is not None:
            self._honoring.forget(key)

    async def _read_afresh(self, key: Key) -> None:
        """The cache was waited for in vain: it has to come to what is there, not to what we believed."""
        cached = self._cache.slices_of(*key)
        awaited = self._tracker.awaited(key, cached)
        self._log.warning(
            "the cache did not show our own writes in time", service="/".join(key), slices=", ".join(awaited)
        )
        labels = f"{SERVICE_NAME_LABEL}={key[1]}"
        found = await list_all(self._connection, SLICES, namespace=key[0], labels=labels)
        fresh = [each for each in found if service_of(each) == key]
        self._tracker.read(key, fresh, self._cache.slices_of(*key))
