"""What is told about Services, beside the slices: Events, and conditions in their status.

Telling never holds up a sync and never fails one: what is to be told is kept by Service, written by workers of its own
at a limited rate, tried again with growing pauses, and given up where it is refused: conditions until others are
wanted, or for `LONGEST_TRUCE`. Events of a Service keep their order; of conditions only the latest matter. Both are
written only when they say something new.

Each write of a Service's status wakes every kube-proxy, and the words of a condition have numbers in them that change
with every Pod. So words alone are written at most once in `CALM` seconds, and the last of them in the end.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from zoneward.client.api_errors import ApiError, CallFailed, NotFound
from zoneward.client.backoff import Backoff
from zoneward.client.resources import EVENTS, SERVICES, Event, Key, key_of, version_of
from zoneward.client.unreadable import Unreadable
from zoneward.client.writer import Outcome, PatchForm, Writer, outcome_of
from zoneward.controller.queue.batching import RequeueDelay
from zoneward.controller.queue.queue import Queue
from zoneward.controller.status.conditions import means_the_same, ours, patch_of, says_the_same, timed, with_ours
from zoneward.daemon.event_recorder import EventRecorder
from zoneward.daemon.log import Log, SilentLog, UnexpectedErrorLog
from zoneward.daemon.rate_limiter import RateLimiter
from zoneward.daemon.unreadable_objects import involved_kind, reference_to, unreadable_event
from zoneward.kube.names import DOMAIN
from zoneward.kube.objects import Condition, Service
from zoneward.routing import service_events as routing_events

CONTROLLER: Final = f"{DOMAIN}/endpointslice-controller"
"""As Events name it."""
_ACTION: Final = "Decide"
MOST_WAITING: Final = 10
"""Events of one Service that wait for an API server; then the oldest are given up."""
LONGEST_TRUCE: Final = 600.0
"""Seconds, at most, until conditions are written again that somebody else takes away, or that were refused."""
CALM: Final = 30.0
"""Seconds between two writes of conditions of a Service of which the second brings nothing but other words."""
_Trouble = Callable[[Key, CallFailed], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TellingRate:
    """Writes a second, and how many at once, of all Services together: what is told must not crowd out slices."""

    per_second: float = 20.0
    burst: float = 50.0


@dataclass(slots=True)
class _Matter:
    """What is to be told of one Service, and what was."""

    service: Service
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    wanted: tuple[Condition, ...] | None = None
    """Conditions that wait to be written."""
    told: tuple[Condition, ...] = ()
    """What was told last, written or not."""
    in_flight: tuple[Condition, ...] | None = None
    """Conditions that are being written: nobody knows yet what the Service has."""
    written: tuple[Condition, ...] | None = None
    """What was written last, as long as nobody took it away."""
    version: int = 0
    """Of the Service with what was written."""
    taken_away: int = 0
    refused: tuple[Condition, ...] | None = None
    """What the server does not let us write."""
    refused_until: float = 0.0
    not_before: float = 0.0

    @property
    def wants_conditions(self) -> bool:
        return self.wanted is not None

    @property
    def waits(self) -> bool:
        return bool(self.events) or (self.wants_conditions and self.refused is None)


class Teller:
    """Everything happens in one event loop. `run` as many workers as may write at once; `tell` after each plan.

    ``instance`` names this process, among several of its kind. ``clock`` counts seconds (the loop's unless told),
    ``now`` is the time of day, ``calm`` as `CALM`. What fails is told to ``on_trouble``, mistakes in the program to
    ``log``.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        instance: str,
        rate: TellingRate | None = None,
        back_off: RequeueDelay | None = None,
        calm: float = CALM,
        log: Log | None = None,
        on_trouble: _Trouble = lambda _key, _trouble: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._writer, self._rate, self._on_trouble = writer, rate or TellingRate(), on_trouble
        self._now, self._sleep, self._calm = now, sleep, calm
        self._unexpected = UnexpectedErrorLog(log or SilentLog())
        self._clock = clock or asyncio.get_running_loop().time
        self._queue = Queue[Key](back_off=back_off or RequeueDelay(), clock=self._clock)
        self._recorder = EventRecorder(controller=CONTROLLER, action=_ACTION, instance=instance, now=now)
        self._matters: dict[Key, _Matter] = {}
        self._limiter = RateLimiter(per_second=self._rate.per_second, burst=self._rate.burst, now=self._clock())
        self._nothing_waits = asyncio.Event()
        self._nothing_waits.set()
        self._waiting: set[Key] = set()
        self._given_up = 0
        self._written_at: dict[str, float] = {}
        """When conditions were last written, by the uid of their Service, in this order; of the last `CALM` seconds."""
        self._in_haste = 0
        """How many wait for all to be told, for whom there is no calm."""

    def __len__(self) -> int:
        """Services of which something is to be told, be it later."""
        return len(self._waiting)

    @property
    def dropped(self) -> int:
        """Events that nobody will see: refused, or one too many."""
        return self._given_up + self._recorder.dropped

    # --- what is to be told -------------------------------------------------------------------------------------------

    def as_told(self, service: Service) -> Service:
        """A Service of the cache with the conditions that were told last, be they written yet or not.

        Plan with this one: its events are then those that nobody was told of.
        """
        matter = self._matter_of(service)
        return service if matter is None else with_ours(service, matter.told)

    def tell(
        self, service: Service, *, conditions: Iterable[Condition], events: Iterable[routing_events.ServiceEvent] = ()
    ) -> None:
        """What a plan says; ``service`` as it is in the cache."""
        conditions, events = tuple(conditions), tuple(events)
        there, matter = ours(service), self._matter_of(service)
        if matter is None:
            # What waits for another Service that had this name can be told no more.
            self.forget(key_of(service))
            if not events and says_the_same(there, conditions):
                return
            matter = self._matters[key_of(service)] = _Matter(service, told=there)
        matter.service = service
        for event in events:
            self._add_event(matter, self._recorder.record(service, event))
        self._want(matter, there, conditions)
        self._note(key_of(service), matter)

    def tell_unreadable(self, found: Unreadable) -> None:
        """An object of any kind cannot be read."""
        about = reference_to(found)
        # No Service has a key like that.
        key = "", f"{found.resource.kind}/{found.namespace}/{found.name}"
        matter = self._matters.setdefault(key, _Matter(about))
        event = unreadable_event(found)
        self._add_event(matter, self._recorder.record(about, event, **involved_kind(found)))
        self._note(key, matter)

    def forget(self, key: Key) -> None:
        """A Service is gone: nothing can be told of it any more."""
        if self._matters.pop(key, None) is not None:
            self._settle(key)

    def clear(self) -> None:
        """Somebody else leads from now on: what was to be told is theirs to tell."""
        self._matters.clear()
        self._waiting.clear()
        self._nothing_waits.set()

    def _matter_of(self, service: Service) -> _Matter | None:
        matter = self._matters.get(key_of(service))
        if matter is None or matter.service.metadata.uid != service.metadata.uid:
            return None
        return matter

    def _add_event(self, matter: _Matter, recorded: Event | None) -> None:
        if recorded is None:
            return
        for place, waiting in enumerate(matter.events):
            if waiting.series is not None and waiting.metadata.name == recorded.metadata.name:
                matter.events[place] = recorded
                return
        if len(matter.events) == MOST_WAITING:
            self._given_up += 1
        matter.events.append(recorded)

    def _want(self, matter: _Matter, there: tuple[Condition, ...], conditions: tuple[Condition, ...]) -> None:
        before = matter.told
        version = version_of(matter.service.metadata.resource_version)
        is_current = version is None or version >= matter.version
        if not is_current and matter.written is not None:
            there = matter.written
        is_known = matter.in_flight is None
        if is_known and is_current and matter.written is not None and not says_the_same(there, matter.written):
            self._was_taken_away(matter)
        if is_known and says_the_same(there, conditions):
            matter.wanted, matter.told, matter.refused = None, there, None
            if is_current and not matter.events and self._clock() >= matter.not_before + LONGEST_TRUCE:
                matter.taken_away = 0
        elif not says_the_same(matter.told, conditions) or matter.wanted is None:
            now = f"{self._now().astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            matter.wanted = matter.told = timed(conditions, before=before or there, now=now)
            if matter.refused is not None and not means_the_same(matter.refused, conditions):
                matter.refused = None

    def _was_taken_away(self, matter: _Matter) -> None:
        """Whoever did it may do it again: two who write in turn would do so for ever."""
        matter.written = None
        matter.taken_away += 1
        # The first time it may have been a person, or somebody who wrote over it unseen.
        backoff = Backoff(initial=2.0, cap=LONGEST_TRUCE)
        matter.not_before = self._clock() + (0.0 if matter.taken_away == 1 else backoff.delay(matter.taken_away))

    def _note(self, key: Key, matter: _Matter) -> None:
        if matter.waits:
            self._waiting.add(key)
            self._nothing_waits.clear()
            self._queue.add(key)
            if matter.events or self._pause(matter) <= 0:
                # A truce is about conditions, and calm about words.
                self._queue.wake(key)
            return
        self._settle(key)
        version = version_of(matter.service.metadata.resource_version)
        is_over = not matter.taken_away and matter.refused is None
        if is_over and (version is None or version >= matter.version):
            # The Service says it all itself.
            del self._matters[key]

    def _settle(self, key: Key) -> None:
        self._waiting.discard(key)
        if not self._waiting:
            self._nothing_waits.set()

    # --- telling it ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """A worker, until `close` or cancelled."""
        while (given := await self._queue.next()) is not None:
            key = given.key
            matter = self._matters.get(key)
            if matter is None:
                self._queue.done(key)
                continue
            try:
                pause = await self._tell(matter)
            except CallFailed as error:
                self._on_trouble(key, error)
                asked = error.retry_after if isinstance(error, ApiError) else None
                self._queue.failed(key, retry_after=asked)
                continue
            except Exception as error:
                self._unexpected.error("a mistake in the program kept something from being told", key, error)
                self._queue.failed(key)
                continue
            if pause > 0 and self._matters.get(key) is matter and not matter.events:
                self._queue.stale(key, limit=pause)
            else:
                # Events that came meanwhile do not pause, nor does another Service that has this name by now.
                self._queue.done(key)
            if not matter.waits and self._matters.get(key) is matter:
                self._settle(key)

    async def settled(self, limit: float) -> bool:
        """Wait until all is told, or for so many seconds; whether it is. Meanwhile words are told as they come."""
        self._in_haste += 1
        for key in self._waiting:
            self._queue.wake(key)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await self._nothing_waits.wait()
        finally:
            self._in_haste -= 1
        return self._nothing_waits.is_set()

    def close(self) -> None:
        """Workers come to their end."""
        self._queue.close()

    async def _tell(self, matter: _Matter) -> float:
        """Seconds until the rest may be told. Raises CallFailed for what has to be tried again."""
        trouble: CallFailed | None = None
        try:
            await self._write_events(matter)
        except CallFailed as error:
            trouble = error
        # They tell how things are, whether or not somebody may write Events.
        pause = await self._write_conditions(matter)
        if trouble is not None:
            raise trouble
        return pause

    async def _write_events(self, matter: _Matter) -> None:
        while matter.events:
            event, instead = matter.events[0], None
            try:
                await self._write_event(event)
            except CallFailed as error:
                outcome = outcome_of(error)
                if event.series is not None and outcome is Outcome.MISSING:
                    # Events live for an hour; a series may be longer.
                    instead = self._recorder.renewed(event)
                elif outcome in (Outcome.REFUSED, Outcome.MISSING, Outcome.TERMINATING):
                    self._given_up += 1
                    self._on_trouble(key_of(matter.service), error)
                # Nobody else has this name: where it is taken, an answer was lost.
                elif outcome is not Outcome.EXISTS:
                    raise
            if matter.events and matter.events[0] is event:
                matter.events.popleft()
                if instead is not None:
                    matter.events.appendleft(instead)

    async def _write_event(self, event: Event) -> None:
        await self._pace()
        if event.series is None:
            await self._writer.create(EVENTS, event)
            return
        change = {"series": {"count": event.series.count, "lastObservedTime": event.series.last_observed_time}}
        await self._writer.patch(EVENTS, change, namespace=event.metadata.namespace, name=event.metadata.name)

    async def _write_conditions(self, matter: _Matter) -> float:
        pause = self._pause(matter)
        if pause > 0:
            return pause
        if matter.wants_conditions:
            await self._pace()
        wanted, matter.refused = matter.wanted, None
        if wanted is None:
            return 0.0
        key, uid = key_of(matter.service), matter.service.metadata.uid
        namespace, name = key
        change = patch_of(uid, wanted)
        matter.in_flight = wanted
        try:
            metadata = await self._writer.patch(
                SERVICES, change, namespace=namespace, name=name, form=PatchForm.STRATEGIC, subresource="status"
            )
        except NotFound:
            matter.wanted = None
            return 0.0
        except CallFailed as error:
            outcome = outcome_of(error)
            if outcome is Outcome.UNKNOWN:
                matter.written = None
                self._note_write(uid)
            if outcome is not Outcome.REFUSED:
                raise
            self._on_trouble(key, error)
            return self._refuse(matter, wanted)
        finally:
            matter.in_flight = None
        self._note_write(uid)
        matter.written, matter.version = wanted, version_of(metadata.resource_version) or 0
        if matter.wanted is wanted:
            matter.wanted = None
        return max(0.0, self._pause(matter))

    def _refuse(self, matter: _Matter, refused: tuple[Condition, ...]) -> float:
        """Seconds until what is wanted now may be tried."""
        if matter.wanted is None or not means_the_same(matter.wanted, refused):
            return 0.0
        matter.refused, matter.refused_until = refused, self._clock() + LONGEST_TRUCE
        return LONGEST_TRUCE

    def _pause(self, matter: _Matter) -> float:
        """Seconds until the conditions that wait may be written; none is 0, or less."""
        if matter.wanted is None:
            return 0.0
        now, due = self._clock(), matter.not_before
        if matter.refused is not None:
            due = max(due, matter.refused_until)
        stand = ours(matter.service) if matter.written is None else matter.written
        if not self._in_haste and matter.in_flight is None and means_the_same(stand, matter.wanted):
            due = max(due, self._written_at.get(matter.service.metadata.uid, now - self._calm) + self._calm)
        return due - now

    def _note_write(self, uid: str) -> None:
        now = self._clock()
        self._written_at.pop(uid, None)
        self._written_at[uid] = now
        while self._written_at[oldest := next(iter(self._written_at))] <= now - self._calm and oldest != uid:
            del self._written_at[oldest]

    async def _pace(self) -> None:
        if (wait := self._limiter.reserve(self._clock())) > 0:
            await self._sleep(wait)
