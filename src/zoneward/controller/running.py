"""One replica of the controller: its parts put together, run until told to stop, and ended in an order that is safe.

The order of the end: nothing new is begun; what was begun is written, while the Lease is renewed; whatever is left is
cut off; renewing ends; and only then the Lease is let go, so that another may lead at once. It is not let go where a
write was cut off that the server may still do: then it runs out in its own time, as it would after a crash.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from zoneward import __version__
from zoneward.client.api_errors import ApiError, CallFailed, Conflict, Forbidden, Gone, Unauthorized
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.error_messages import log_message
from zoneward.client.resources import CACHED_RESOURCES, EVENTS, LEASES, SERVICES, AnyWatchedResource
from zoneward.client.transport import Transport
from zoneward.client.watch_health import WatchHealth
from zoneward.client.writer import TIME_LIMIT, WriteOutcome, Writer, write_outcome
from zoneward.controller.exposition import MetricsPage
from zoneward.controller.handover.alone import alone
from zoneward.controller.leader.candidate import Candidate, new_identity
from zoneward.controller.leader.observing import Observer
from zoneward.controller.loop import Controller
from zoneward.controller.metrics import Metrics, Moment
from zoneward.controller.mode import Mode
from zoneward.controller.predictions import ByFamily, Predictions, predictions_of
from zoneward.controller.queue.batching import Batching
from zoneward.controller.settings import Settings
from zoneward.controller.status.telling import LONGEST_TRUCE, Teller
from zoneward.controller.sync.permissions import RIGHTS, RIGHTS_OF_MARKED, check_rights
from zoneward.controller.sync.unanswered import Unanswered
from zoneward.daemon.health import Check, Health, Heartbeat, running, synced
from zoneward.daemon.log import Log
from zoneward.daemon.metric_text import CONTENT_TYPE
from zoneward.daemon.repetition import Repetition
from zoneward.daemon.status_server import StatusServer, Work
from zoneward.daemon.unreadable import numbers
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import ObjectKey
from zoneward.routing.configuration import Configuration
from zoneward.slices.planned import ServicePlan

DRAIN: Final = 10.0
"""Seconds for what was begun when we are told to stop."""
_LAST_WORDS: Final = 1.0
"""Seconds, of these, for Events and conditions."""
_CONTROLLER: Final = "the controller"
_ELECTION: Final = "leader election"


class _Link(WatchHealth):
    """What the controller reads by, and lets go of a Service by."""

    def __init__(self, transport: Transport, *, clock: Callable[[], float]) -> None:
        super().__init__(transport, clock=clock)
        self.send = transport.send


class Replica:
    """`run` it once. ``lease`` is the Lease's namespace and name, ``instance`` the name of this process among its kind,
    ``as_json`` what `/debug/decisions` shows of a plan.
    """

    def __init__(
        self,
        access: ClientConfig,
        *,
        configuration: Configuration,
        settings: Settings,
        lease: ObjectKey,
        instance: str,
        log: Log,
        as_json: Callable[[ServicePlan], bytes],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert settings.mode is not None
        self._access, self._configuration, self._settings, self._mode = access, configuration, settings, settings.mode
        self._lease, self._instance, self._log, self._as_json, self._clock = lease, instance, log, as_json, clock
        self._stepped_down, self._refused = asyncio.Event(), asyncio.Event()
        self._refusal: CallFailed | None = None
        self._has_seen_lease = False
        self._lease_fault: str | None = None
        self._refused_words = Repetition(burst=1, period=LONGEST_TRUCE)

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop`` is set. Raises InputError where the status port can't be had, CallFailed where the server
        refuses what nothing goes without, and whatever a part of it raises."""
        async with AsyncExitStack() as stack:
            transport = Transport(self._access)
            self._compose(transport)
            await self._listen(stack)
            await stack.enter_async_context(transport)
            try:
                await self._work(stop, transport)
            finally:
                await self._end()

    # --- parts --------------------------------------------------------------------------------------------------------

    def _compose(self, transport: Transport) -> None:
        settings, log = self._settings, self._log
        self._standing = _Link(transport, clock=self._clock)
        self._candidate = self._made_candidate(transport) if settings.leader_elect else None
        self._unanswered = Unanswered(transport, clock=self._clock)
        if self._candidate is None:
            writer = Writer(self._unanswered, limit=TIME_LIMIT)
        else:
            writer = Writer(self._unanswered, limit=settings.timing.write, may_write=self._candidate.may_write)
        self._predictions = Predictions() if settings.predictions else None
        metrics = Metrics(max_endpoints=self._configuration.max_endpoints_per_slice, predictions=self._predictions)
        self._teller = Teller(writer, instance=self._instance, log=log, on_trouble=self._not_told)
        self._controller = Controller(
            self._standing,
            configuration=self._configuration,
            mode=self._mode,
            writer=writer,
            leading=None if self._candidate is None else self._candidate.leading,
            teller=self._teller,
            metrics=metrics,
            log=log,
            workers=settings.concurrent_syncs,
            batching=Batching(period=settings.batch_period),
            proxies=self._lease[0],
            on_trouble=self._not_heard,
        )
        self._observer = Observer(
            self._controller,
            standing=self._standing,
            candidate=self._candidate,
            log=log,
            said=self._said,
            clock=self._clock,
        )
        self._heartbeat = Heartbeat()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def _made_candidate(self, connection: Transport) -> Candidate:
        return Candidate(
            connection,
            key=self._lease,
            identity=new_identity(),
            timing=self._settings.timing,
            on_change=self._leads_or_not,
            on_trouble=self._lease_trouble,
        )

    async def _listen(self, stack: AsyncExitStack) -> None:
        controller, listen = self._controller, self._settings.listen
        self._live: dict[str, Check] = {"event loop": self._heartbeat}
        self._ready: dict[str, Check] = {
            "cache": synced(controller.cache.synced.is_set),
            "alone": alone(controller.contested),
        }
        if self._candidate is not None:
            self._ready[_ELECTION] = self._lease_is_there
        server = StatusServer(
            Health(live=self._live, ready=self._ready),
            host=listen.host,
            port=listen.port,
            metrics=MetricsPage(controller.metrics, self._moment).text,
            metrics_type=CONTENT_TYPE,
            values={"/debug/queue": self._queue},
            of_service={"/debug/decisions": self._decisions},
            debug_for_all=self._settings.debug_for_all,
            on_trouble=lambda error: self._log.error("an answer could not be made", error=_worded(error)),
        )
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            problem = error.strerror or error
            raise InputError("--listen", str(listen), f"expected an address that is free, got: {problem}") from error
        host, port = server.addresses[0]
        self._log.info(
            "status server listens",
            host=host,
            port=port,
            version=__version__,
            mode=self._mode.value,
            context=self._access.context,
        )

    # --- running ------------------------------------------------------------------------------------------------------

    async def _work(self, stop: asyncio.Event, transport: Transport) -> None:
        self._begin(_CONTROLLER, self._controller.run())
        self._begin("the observer", self._observer.run())
        self._begin("the heartbeat", self._heartbeat.run())
        if self._candidate is not None:
            self._begin(_ELECTION, self._candidate.run())
        else:
            self._log.info("leads", others="not looked for")
        if self._predictions is not None:
            self._begin("predictions", self._predictions.run(self._predicting, on_trouble=self._not_predicted))
        self._live |= {name: running(self._tasks[name]) for name in (_CONTROLLER, _ELECTION) if name in self._tasks}
        checking = asyncio.create_task(self._check_rights(transport))
        ends = [asyncio.create_task(event.wait()) for event in (stop, self._refused)]
        try:
            await asyncio.wait({*self._tasks.values(), *ends}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks.values():
                if task.done():
                    task.result()
            if self._refusal is not None:
                raise self._refusal
            await self._drain()
        finally:
            for waiting in (checking, *ends):
                waiting.cancel()
            await asyncio.gather(checking, *ends, return_exceptions=True)

    def _begin(self, name: str, work: Any) -> None:
        self._tasks[name] = asyncio.create_task(work, name=name)

    async def _drain(self) -> None:
        """Lets be written what was begun, as long as we lead."""
        if not self._leads or not self._controller.cache.synced.is_set():
            self._log.info("stops")
            return
        begun = self._clock()
        self._log.info("stops when what was begun is written", limit=DRAIN)
        drained = asyncio.create_task(self._all_written())
        lost = asyncio.create_task(self._stepped_down.wait())
        ends: set[asyncio.Task[Any]] = {drained, lost, *self._tasks.values()}
        await asyncio.wait(ends, timeout=DRAIN, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            self._log.warning("not all that was begun is written", seconds=round(self._clock() - begun, 3))
        for task in (drained, lost):
            task.cancel()
        await asyncio.gather(drained, lost, return_exceptions=True)

    async def _all_written(self) -> None:
        await self._controller.drain(DRAIN)
        await self._teller.settled(_LAST_WORDS)

    async def _end(self) -> None:
        # Nobody else may lead before the last write of ours is done or given up: this order is not to be changed.
        await self._ended(_CONTROLLER)
        await self._ended(_ELECTION)
        for name in self._tasks:
            await self._ended(name)
        if self._candidate is None:
            return
        holds = self._candidate.leader == self._candidate.identity
        if holds and self._unanswered.age < self._settings.lease_duration:
            self._log.warning("the Lease is left to run out: a write was cut off that may still be done")
            return
        await self._candidate.let_go()
        if not holds:
            return
        if self._candidate.leader == self._candidate.identity:
            self._log.warning("the Lease is left to run out: it could not be let go")
        else:
            self._log.info("the Lease is let go")

    async def _ended(self, name: str) -> None:
        task = self._tasks.get(name)
        if task is not None:
            task.cancel()
            with suppress(BaseException):
                await task

    async def _check_rights(self, connection: Transport) -> None:
        """Told once, in one line each, rather than with every Service that they are needed for."""
        asked = RIGHTS + (RIGHTS_OF_MARKED if self._mode is Mode.ONLY_MARKED else ())
        for right in asked:
            try:
                await check_rights(connection, [right], namespace="")
            except Forbidden as error:
                method, place, *rest = right
                what = "/".join([place.plural, *rest])
                self._log.warning("a right is missing", reason=f"{method} {what}", error=self._said(error))
            except CallFailed:
                return

    # --- what is told -------------------------------------------------------------------------------------------------

    @property
    def _leads(self) -> bool:
        return self._candidate is None or self._candidate.leads

    def _leads_or_not(self, leads: bool) -> None:
        if leads:
            # What changed while others led was theirs to write.
            self._controller.queue.begin()
            self._has_seen_lease = True
            self._stepped_down.clear()
            self._log.info("leads", lease="/".join(self._lease))
            return
        self._stepped_down.set()
        self._controller.stepped_down()
        self._log.info("stepped down", lease="/".join(self._lease))

    def _lease_trouble(self, error: CallFailed) -> None:
        assert self._candidate is not None
        if isinstance(error, Conflict):
            # Another was faster.
            return
        self._controller.metrics.call_failed(error, kind=LEASES.plural)
        self._has_seen_lease = self._has_seen_lease or bool(self._candidate.leader)
        if isinstance(error, Forbidden | Unauthorized) and not self._has_seen_lease:
            # It would stand by for ever, and look well.
            self._refusal = error
            self._refused.set()
            return
        self._lease_fault = self._said(error)
        self._log.warning("the Lease could not be read or written", reason=_kind(error), error=self._lease_fault)

    def _lease_is_there(self) -> str | None:
        """A standby is as ready as a leader, but not one that could never become one."""
        assert self._candidate is not None
        if self._candidate.leader:
            self._lease_fault = None
        return self._lease_fault

    def _not_heard(self, resource: AnyWatchedResource, error: CallFailed) -> None:
        if resource.kind != LEASES.kind:
            # Without those of nodes' proxies slices are as right as with them.
            self._standing.trouble(resource, error)
        self._controller.metrics.watch_failed(error, kind=resource.plural)
        write = self._log.debug if isinstance(error, Gone) else self._log.warning
        write("a list or watch broke off", kind=resource.plural, reason=_kind(error), error=self._said(error))

    def _not_told(self, service: ObjectKey, error: CallFailed) -> None:
        is_event = isinstance(error, ApiError) and f"/{EVENTS.plural}" in error.path
        kind = EVENTS.plural if is_event else SERVICES.plural
        self._controller.metrics.call_failed(error, kind=kind)
        outcome = write_outcome(error)
        if outcome in (WriteOutcome.REFUSED, WriteOutcome.TERMINATING):
            self._refused_to_tell(service, error, kind, outcome)
            return
        self._log.warning(
            "an Event or condition could not be written",
            service="/".join(service),
            reason=_kind(error),
            error=self._said(error),
        )

    def _refused_to_tell(self, service: ObjectKey, error: CallFailed, kind: str, outcome: WriteOutcome) -> None:
        """What is refused for one Service is for most others too: one line tells of it, with one of them."""
        # Whose namespace is being deleted must not hide that permissions are missing.
        what = "terminating namespace" if outcome is WriteOutcome.TERMINATING else _kind(error)
        verdict = self._refused_words.ask((kind, what), now=self._clock())
        if verdict.is_written:
            more = {"left_out": verdict.left_out} if verdict.left_out else {}
            write = self._log.info if outcome is WriteOutcome.TERMINATING else self._log.warning
            write(
                "Events or conditions are refused",
                service="/".join(service),
                reason=f"{what} {kind}",
                error=self._said(error),
                **more,
            )

    def _not_predicted(self, service: ObjectKey, error: Exception) -> None:
        self._log.warning("traffic could not be predicted", service="/".join(service), error=_worded(error))

    def _said(self, error: CallFailed) -> str:
        return told(error, self._access)

    def _moment(self) -> Moment:
        queue, lasting = self._controller.queue, self._standing.lasting
        return Moment(
            depth=queue.depth(),
            oldest=queue.oldest(),
            leads=self._leads,
            is_synced=self._controller.cache.synced.is_set(),
            watch_trouble=0.0 if lasting is None else self._clock() - lasting[0],
            contested=len(self._controller.contested),
            unreadable=numbers(self._controller.unreadable, (each.kind for each in (*CACHED_RESOURCES, LEASES))),
        )

    def _queue(self) -> Mapping[str, Any]:
        queue = self._controller.queue
        return {**asdict(queue.depth()), "oldestSeconds": round(queue.oldest(), 3), "leads": self._leads}

    def _decisions(self, namespace: str, name: str) -> Work | None:
        work = self._controller.deciding(namespace, name)
        return None if work is None else lambda: self._as_json(work())

    def _predicting(self, service: ObjectKey) -> Callable[[], ByFamily] | None:
        work = self._controller.deciding(*service)
        return None if work is None else lambda: predictions_of(work())


def told(error: CallFailed, access: ClientConfig) -> str:
    """What is wrong, and what to do about it; without the server and the context, which no line needs again."""
    return log_message(error, access, now=datetime.now(UTC))


def _worded(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _kind(error: Exception) -> str:
    return type(error).__name__
