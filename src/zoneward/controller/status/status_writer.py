"""Writes the conditions of Services and Events about them.

Reporting never delays or fails a sync. Reports wait by Service, and a worker writes them at a limited rate. A failed
write is retried with growing backoff. A refused Event is dropped; refused conditions are retried after `LONGEST_PAUSE`,
or when they change. Events of a Service stay in order; only the latest conditions are written. Neither is written
without a change.

Each write of a Service's status wakes every kube-proxy, and messages of conditions have counts that change with every
Pod. So a change of messages alone is written at most once in `MESSAGE_PERIOD` seconds, the latest one at the end.

Conditions are written by a strategic merge patch: an API server treats conditions of a Service as a map by type, so the
patch changes only the entries that it names. It has no resourceVersion, because other writers would cause conflicts;
the uid makes sure that the Service is not another one with the same name. Server-side apply would not remove conditions
that were written in another way, and costs the server more CPU (3.2 ms instead of 2.3 on Kubernetes v1.36).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, replace

from zoneward.client.api_errors import CallFailed, NotFound
from zoneward.client.backoff import Backoff
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import EVENTS, SERVICES, object_key_of
from zoneward.client.writer import PatchType, WriteOutcome, Writer, write_outcome
from zoneward.controller.queue.work_queue import RequeueDelay, WorkQueue, namespace_of
from zoneward.daemon.event_recorder import EventRecorder
from zoneward.daemon.log import Log, SilentLog, UnexpectedErrorLog
from zoneward.daemon.rate_limiter import RateLimiter
from zoneward.daemon.unreadable_objects import involved_kind, reference_to, unreadable_event
from zoneward.kube import names
from zoneward.kube.names import DOMAIN
from zoneward.kube.objects import (
    Condition,
    Event,
    ObjectKey,
    Service,
    ServiceEvent,
    ServiceStatus,
    parse_resource_version,
)

OWN_CONDITION_TYPES: Final = (
    names.ACCEPTED_CONDITION,
    names.PROGRAMMED_CONDITION,
    names.HONORED_CONDITION,
    names.MEASURED_CONDITION,
)
"""The types of Zoneward's conditions."""
ANNOTATIONS: Final = {
    names.PROGRAMMED_CONDITION: names.REQUESTED_APPROACH_ANNOTATION,
    names.MEASURED_CONDITION: names.MEASURED_DEMAND_ANNOTATION,
}
"""By type of a condition, the annotation of the Service that is written together with it."""
CONTROLLER: Final = f"{DOMAIN}/endpointslice-controller"
"""The reporting controller of the Events."""
_ACTION: Final = "Decide"
MAX_WAITING_EVENTS: Final = 10
"""Waiting Events of one Service; beyond that the oldest are dropped."""
LONGEST_PAUSE: Final = 600.0
"""Seconds, at most, until conditions are written again that another writer removed, or that were refused."""
MESSAGE_PERIOD: Final = 30.0
"""Seconds between two writes of a Service's conditions of which the second changes nothing but messages."""
_POLL_PERIOD: Final = 0.005
"""Seconds between two checks whether everything is written."""
_OnError = Callable[[ObjectKey, CallFailed], None]


class AnnotatedCondition(Condition, frozen=True, gc=False):
    """A condition with the annotation of `ANNOTATIONS` that is written together with it; None: none is."""

    annotation: str | None = None


def own_conditions(service: Service) -> tuple[Condition, ...]:
    """Zoneward's conditions in the status of a Service."""
    conditions = (service.status.conditions or ()) if service.status is not None else ()
    annotations = service.metadata.annotations or {}
    return tuple(
        annotated(condition, annotations.get(ANNOTATIONS[condition.type]))
        if condition.type in ANNOTATIONS
        else condition
        for condition in conditions
        if condition.type in OWN_CONDITION_TYPES
    )


def with_requested(conditions: Iterable[Condition], requested: str | None) -> tuple[Condition, ...]:
    """The conditions of a plan, with the approach that it was requested for."""
    return tuple(
        annotated(condition, requested or "") if condition.type == names.PROGRAMMED_CONDITION else condition
        for condition in conditions
    )


def annotated(condition: Condition, annotation: str | None) -> AnnotatedCondition:
    return AnnotatedCondition(**{**asdict(condition), "annotation": annotation})


def with_own_conditions(service: Service, conditions: Iterable[Condition]) -> Service:
    """The Service with these conditions of Zoneward, and those of other writers."""
    conditions, metadata, status = tuple(conditions), service.metadata, service.status or ServiceStatus()
    others = tuple(condition for condition in status.conditions or () if condition.type not in OWN_CONDITION_TYPES)
    annotations = (metadata.annotations or {}) | _annotations_of(conditions)
    present = {name: value for name, value in annotations.items() if value is not None}
    if present != (metadata.annotations or {}):
        metadata = replace(metadata, annotations=present)
    plain = (_without_annotation(condition) for condition in conditions)
    return replace(service, metadata=metadata, status=replace(status, conditions=(*others, *plain)))


def _without_annotation(condition: Condition) -> Condition:
    if not isinstance(condition, AnnotatedCondition):
        return condition
    values = asdict(condition)
    del values["annotation"]
    return Condition(**values)


def _annotations_of(conditions: Iterable[Condition]) -> dict[str, str | None]:
    """Every annotation of `ANNOTATIONS`; None: it is removed."""
    values = {
        condition.type: condition.annotation for condition in conditions if isinstance(condition, AnnotatedCondition)
    }
    return {name: values.get(type_) for type_, name in ANNOTATIONS.items()}


def are_equal(one: Iterable[Condition], other: Iterable[Condition]) -> bool:
    """Whether two sets of conditions differ at most in order and times."""
    return _untimed(one) == _untimed(other)


def have_equal_meaning(one: Iterable[Condition], other: Iterable[Condition]) -> bool:
    """Whether two sets of conditions differ at most in the counts of their messages."""
    return set(map(_meaning, one)) == set(map(_meaning, other))


def with_transition_times(
    wanted: Iterable[Condition], *, before: Iterable[Condition], now: str
) -> tuple[Condition, ...]:
    """The conditions with their transition times: a time changes only with the status."""
    known = {condition.type: condition for condition in before}

    def since(condition: Condition) -> str:
        old = known.get(condition.type)
        return (old.last_transition_time if old is not None and old.status == condition.status else None) or now

    return tuple(replace(condition, last_transition_time=since(condition)) for condition in wanted)


def status_patch(uid: str, wanted: Iterable[Condition]) -> dict[str, Any]:
    """The strategic merge patch of a Service's status after which it has these of Zoneward's conditions, and no others.

    ``wanted`` have their times. The patch does not depend on what the Service has. An API server lets a patch of the
    status change annotations too.
    """
    wanted = tuple(wanted)
    # With empty fields too, because they may replace other values.
    entries = {
        item.type: {"reason": "", "message": "", **msgspec.to_builtins(_without_annotation(item))} for item in wanted
    }
    gone = [{"$patch": "delete", "type": type_} for type_ in OWN_CONDITION_TYPES if type_ not in entries]
    return {
        "metadata": {"uid": uid, "annotations": _annotations_of(wanted)},
        "status": {"conditions": [*entries.values(), *gone]},
    }


def _meaning(condition: Condition) -> tuple[str, str, str, str]:
    # These messages count endpoints or nodes, and change with each of them.
    counts = condition.type in (names.PROGRAMMED_CONDITION, names.HONORED_CONDITION)
    return condition.type, condition.status, condition.reason, "" if counts else condition.message


def _untimed(conditions: Iterable[Condition]) -> dict[str, Condition]:
    return {condition.type: replace(condition, last_transition_time=None) for condition in conditions}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWriteRate:
    """The rate of all writes: ``per_second``, and ``burst`` at once. They must not crowd out writes of slices.
    ``message_period`` as `MESSAGE_PERIOD`."""

    per_second: float = 20.0
    burst: float = 50.0
    message_period: float = MESSAGE_PERIOD


@dataclass(slots=True)
class _ServiceStatus:
    """The waiting and the written reports about one Service."""

    service: Service
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MAX_WAITING_EVENTS))
    wanted: tuple[Condition, ...] | None = None
    """Conditions that wait to be written."""
    reported: tuple[Condition, ...] = ()
    """The conditions of the last `report`, written or not."""
    in_flight: tuple[Condition, ...] | None = None
    """Conditions of an in-flight write: the Service may or may not have them."""
    written: tuple[Condition, ...] | None = None
    """The conditions that were written last, until another writer removes them."""
    version: int = 0
    """The version of the Service with them."""
    removals: int = 0
    """How often another writer removed or changed them."""
    refused: tuple[Condition, ...] | None = None
    """Conditions that the server refused."""
    refused_until: float = 0.0
    not_before: float = 0.0

    @property
    def is_waiting(self) -> bool:
        return bool(self.events) or (self.wanted is not None and self.refused is None)


class StatusWriter:
    """`run` as many workers as may write at once; `report` after each plan. Everything happens in one event loop.

    ``instance`` names this process among its replicas. ``clock`` counts seconds (the loop's by default), ``now`` is the
    time of day. ``on_error`` gets failed writes; ``log`` gets unexpected exceptions.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        instance: str,
        rate: StatusWriteRate | None = None,
        back_off: RequeueDelay | None = None,
        log: Log | None = None,
        on_error: _OnError = lambda _key, _error: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._writer, self._rate, self._on_error = writer, rate or StatusWriteRate(), on_error
        self._now, self._sleep = now, sleep
        self._unexpected = UnexpectedErrorLog(log or SilentLog())
        self._clock = clock or asyncio.get_running_loop().time
        self._queue = WorkQueue[ObjectKey](
            back_off=back_off or RequeueDelay(), clock=self._clock, group_of=namespace_of
        )
        self._recorder = EventRecorder(controller=CONTROLLER, action=_ACTION, instance=instance, now=now)
        self._services: dict[ObjectKey, _ServiceStatus] = {}
        self._limiter = RateLimiter(per_second=self._rate.per_second, burst=self._rate.burst, now=self._clock())
        self._written_at: dict[str, float] = {}
        """By a Service's uid, when its conditions were last written, the oldest first, in the last message period."""
        self._flushes = 0
        """The number of callers of `wait_until_written`: meanwhile messages do not wait for their period."""

    @property
    def is_idle(self) -> bool:
        """Whether no Service has a waiting write."""
        return not any(status.is_waiting for status in self._services.values())

    # --- what is to be reported ---------------------------------------------------------------------------------------

    def as_reported(self, service: Service) -> Service:
        """A Service of the cache with the conditions of the last `report`, written or not.

        Plan with this Service, so that the plan has only Events that were not reported yet.
        """
        status = self._status_of(service)
        return service if status is None else with_own_conditions(service, status.reported)

    def report(self, service: Service, *, conditions: Iterable[Condition], events: Iterable[ServiceEvent] = ()) -> None:
        """Write the conditions and events of a plan, soon; ``service`` is as in the cache."""
        conditions, events = tuple(conditions), tuple(events)
        existing, status = own_conditions(service), self._status_of(service)
        if status is None:
            # Reports about an earlier Service of this name are obsolete.
            self.forget(object_key_of(service))
            if not events and are_equal(existing, conditions):
                return
            status = self._services[object_key_of(service)] = _ServiceStatus(service, reported=existing)
        status.service = service
        for event in events:
            self._add_event(status, self._recorder.record(service, event))
        self._set_wanted(status, existing, conditions)
        self._enqueue_or_forget(object_key_of(service), status)

    def report_unreadable(self, unreadable: UnreadableObject) -> None:
        """Write an Event about an object of any kind that cannot be read."""
        about = reference_to(unreadable)
        # No Service has a key like that.
        key = "", f"{unreadable.resource.kind}/{unreadable.namespace}/{unreadable.name}"
        status = self._services.setdefault(key, _ServiceStatus(about))
        event = unreadable_event(unreadable)
        self._add_event(status, self._recorder.record(about, event, **involved_kind(unreadable)))
        self._enqueue_or_forget(key, status)

    def forget(self, key: ObjectKey) -> None:
        """A Service was deleted: drop its reports."""
        self._services.pop(key, None)

    def clear(self) -> None:
        """Another replica leads and reports from now on."""
        self._services.clear()

    def _status_of(self, service: Service) -> _ServiceStatus | None:
        status = self._services.get(object_key_of(service))
        if status is None or status.service.metadata.uid != service.metadata.uid:
            return None
        return status

    def _add_event(self, status: _ServiceStatus, recorded: Event | None) -> None:
        if recorded is None:
            return
        for index, waiting in enumerate(status.events):
            if waiting.series is not None and waiting.metadata.name == recorded.metadata.name:
                status.events[index] = recorded
                return
        status.events.append(recorded)

    def _set_wanted(
        self, status: _ServiceStatus, existing: tuple[Condition, ...], conditions: tuple[Condition, ...]
    ) -> None:
        previous = status.reported
        version = parse_resource_version(status.service.metadata.resource_version)
        is_current = version is None or version >= status.version
        if not is_current and status.written is not None:
            existing = status.written
        is_known = status.in_flight is None
        if is_known and is_current and status.written is not None and not are_equal(existing, status.written):
            self._note_removal(status)
        if is_known and are_equal(existing, conditions):
            status.wanted, status.reported, status.refused = None, existing, None
            if is_current and not status.events and self._clock() >= status.not_before + LONGEST_PAUSE:
                status.removals = 0
        elif not are_equal(status.reported, conditions) or status.wanted is None:
            now = f"{self._now().astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            status.wanted = status.reported = with_transition_times(conditions, before=previous or existing, now=now)
            if status.refused is not None and not have_equal_meaning(status.refused, conditions):
                status.refused = None

    def _note_removal(self, status: _ServiceStatus) -> None:
        """Another writer that removed Zoneward's conditions may do it again: both would write in turn forever."""
        status.written = None
        status.removals += 1
        # The first time may be a person, or an unintended overwrite.
        backoff = Backoff(initial=2.0, cap=LONGEST_PAUSE)
        status.not_before = self._clock() + (0.0 if status.removals == 1 else backoff.delay(status.removals))

    def _enqueue_or_forget(self, key: ObjectKey, status: _ServiceStatus) -> None:
        if status.is_waiting:
            self._queue.add(key)
            if status.events or self._pause(status) <= 0:
                # The pause is for conditions, not for Events.
                self._queue.wake(key)
            return
        version = parse_resource_version(status.service.metadata.resource_version)
        is_done = not status.removals and status.refused is None
        if is_done and (version is None or version >= status.version):
            # The Service has all conditions.
            del self._services[key]

    # --- writing it ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run a worker until `shut_down` or cancelled."""
        while (item := await self._queue.get()) is not None:
            key = item.key
            status = self._services.get(key)
            if status is None:
                self._queue.done(key)
                continue
            try:
                pause = await self._write(key, status)
            except CallFailed as error:
                self._on_error(key, error)
                self._queue.retry(key, error=error)
                continue
            except Exception as error:
                self._unexpected.error("internal error while writing a condition or Event", key, error)
                self._queue.retry(key)
                continue
            if pause > 0 and self._services.get(key) is status and not status.events:
                self._queue.wait_for_cache(key, limit=pause)
            else:
                # New Events do not wait for the pause, nor does a new Service of this name.
                self._queue.done(key)
                if not key[0] and not status.is_waiting:
                    # The object that cannot be read has no conditions.
                    self.forget(key)

    async def wait_until_written(self, limit: float) -> bool:
        """Wait up to ``limit`` seconds until everything is written. Returns whether it is; messages do not wait."""
        self._flushes += 1
        for key, status in self._services.items():
            if status.is_waiting:
                self._queue.wake(key)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    while not self.is_idle:
                        await asyncio.sleep(_POLL_PERIOD)
        finally:
            self._flushes -= 1
        return self.is_idle

    def shut_down(self) -> None:
        """End the workers."""
        self._queue.shut_down()

    async def _write(self, key: ObjectKey, status: _ServiceStatus) -> float:
        """Returns the seconds until the rest may be written. Raises CallFailed if the write has to be retried."""
        failure: CallFailed | None = None
        try:
            await self._write_events(key, status)
        except CallFailed as error:
            failure = error
        # Conditions do not depend on the permission to write Events.
        pause = await self._write_conditions(key, status)
        if failure is not None:
            raise failure
        return pause

    async def _write_events(self, key: ObjectKey, status: _ServiceStatus) -> None:
        while status.events:
            event, renewed = status.events[0], None
            try:
                await self._write_event(key, event)
            except CallFailed as error:
                outcome = write_outcome(error)
                if event.series is not None and outcome is WriteOutcome.MISSING:
                    # Events live for an hour; a series may be longer.
                    renewed = self._recorder.renewed(event)
                elif outcome in (WriteOutcome.REFUSED, WriteOutcome.MISSING, WriteOutcome.TERMINATING):
                    self._on_error(object_key_of(status.service), error)
                # No other Event has this name: if it exists, only the answer to the write was lost.
                elif outcome is not WriteOutcome.EXISTS:
                    raise
            if status.events and status.events[0] is event:
                status.events.popleft()
                if renewed is not None:
                    status.events.appendleft(renewed)

    async def _write_event(self, key: ObjectKey, event: Event) -> None:
        await self._limit_rate(key)
        if event.series is None:
            await self._writer.create(EVENTS, event)
            return
        change = {"series": {"count": event.series.count, "lastObservedTime": event.series.last_observed_time}}
        await self._writer.patch(EVENTS, change, namespace=event.metadata.namespace, name=event.metadata.name)

    async def _write_conditions(self, key: ObjectKey, status: _ServiceStatus) -> float:
        pause = self._pause(status)
        if pause > 0:
            return pause
        if status.wanted is not None:
            await self._limit_rate(key)
        wanted, status.refused = status.wanted, None
        if wanted is None:
            return 0.0
        uid = status.service.metadata.uid
        namespace, name = key
        change = status_patch(uid, wanted)
        status.in_flight = wanted
        try:
            metadata = await self._writer.patch(
                SERVICES, change, namespace=namespace, name=name, form=PatchType.STRATEGIC, subresource="status"
            )
        except NotFound:
            status.wanted = None
            return 0.0
        except CallFailed as error:
            outcome = write_outcome(error)
            if outcome is WriteOutcome.UNKNOWN:
                status.written = None
                self._record_write(uid)
            if outcome is not WriteOutcome.REFUSED:
                raise
            self._on_error(key, error)
            return self._refuse(status, wanted)
        finally:
            status.in_flight = None
        self._record_write(uid)
        status.written, status.version = wanted, parse_resource_version(metadata.resource_version) or 0
        if status.wanted is wanted:
            status.wanted = None
        return max(0.0, self._pause(status))

    def _refuse(self, status: _ServiceStatus, refused: tuple[Condition, ...]) -> float:
        """Returns the seconds until the conditions that are wanted now may be tried."""
        if status.wanted is None or not have_equal_meaning(status.wanted, refused):
            return 0.0
        status.refused, status.refused_until = refused, self._clock() + LONGEST_PAUSE
        return LONGEST_PAUSE

    def _pause(self, status: _ServiceStatus) -> float:
        """Seconds until the waiting conditions may be written; 0 or less: now."""
        if status.wanted is None:
            return 0.0
        now, due = self._clock(), status.not_before
        if status.refused is not None:
            due = max(due, status.refused_until)
        current = own_conditions(status.service) if status.written is None else status.written
        if not self._flushes and status.in_flight is None and have_equal_meaning(current, status.wanted):
            period = self._rate.message_period
            due = max(due, self._written_at.get(status.service.metadata.uid, now - period) + period)
        return due - now

    def _record_write(self, uid: str) -> None:
        now, period = self._clock(), self._rate.message_period
        self._written_at.pop(uid, None)
        self._written_at[uid] = now
        while self._written_at[oldest := next(iter(self._written_at))] <= now - period and oldest != uid:
            del self._written_at[oldest]

    async def _limit_rate(self, key: ObjectKey) -> None:
        self._queue.charge(key, 1 / self._rate.per_second)
        if (wait := self._limiter.reserve(self._clock())) > 0:
            await self._sleep(wait)
