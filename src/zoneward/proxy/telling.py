"""What a node cannot program, told as Events of the Services that it is about.

All nodes see the same, so that each tells little: one Event for a Service and a reason in `QUIET` seconds, and
`PER_MINUTE` of all together. What is one too many is left out; the log and the metrics have it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NoReturn

from zoneward.client.api_errors import ApiError, CallFailed
from zoneward.client.backoff import Backoff
from zoneward.client.resources import EVENTS
from zoneward.client.resources import Event as Written
from zoneward.client.unreadable import Unreadable
from zoneward.client.writer import Outcome, Writer, outcome_of
from zoneward.daemon.event_recorder import EventRecorder
from zoneward.daemon.log import Log, SilentLog
from zoneward.daemon.rate_limiter import RateLimiter
from zoneward.daemon.unreadable_objects import involved_kind, reference_to, unreadable_event
from zoneward.kube.names import DOMAIN
from zoneward.kube.objects import Service
from zoneward.routing.service_events import ServiceEvent

CONTROLLER: Final = f"{DOMAIN}/node-proxy"
"""As Events name it."""
NOT_PROGRAMMED: Final = "ServiceNotProgrammed"
"""The kernel refused it. What it had of the Service before is still there."""
ADDRESS_CONTESTED: Final = "ServiceAddressContested"
"""Another Service has an address or a node port that this one asks for."""
PARTLY_PROGRAMMED: Final = "ServicePartlyProgrammed"
"""Some of its values cannot be served: no address, or one that may not be a Service's."""
NO_HEALTH_PORT: Final = "HealthCheckNodePortUnavailable"
QUIET: Final = 600.0
PER_MINUTE: Final = 10
MOST_WAITING: Final = 50
_ACTION: Final = "Program"
_MINUTE: Final = 60.0
_BACKOFF: Final = Backoff(initial=1.0, cap=_MINUTE)
_Told = tuple[str, str]
"""The uid of a Service, and a reason."""


class Teller:
    """`tell` what is to be told, and `run`. ``node`` is whose proxy this is.

    Failures are for ``log``; they are tried again, but for what the server refuses. ``clock`` counts seconds; ``now``
    is the time of day.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        node: str,
        log: Log | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._writer, self._node, self._log = writer, node, log or SilentLog()
        self._clock, self._sleep = clock, sleep
        self._recorder = EventRecorder(controller=CONTROLLER, action=_ACTION, instance=node, now=now)
        self._told: dict[_Told, float] = {}
        """When, in this order; of the last `QUIET` seconds."""
        self._waiting: dict[_Told, Written] = {}
        self._something = asyncio.Event()
        self._limiter = RateLimiter(per_second=PER_MINUTE / _MINUTE, burst=PER_MINUTE, now=clock())

    def tell(self, service: Service, reason: str, note: str) -> None:
        """At once, and without waiting for anything."""
        self._tell(service, ServiceEvent("Warning", reason, f"Node {self._node}: {note}"))

    def tell_unreadable(self, found: Unreadable) -> None:
        """As `tell`, of an object of any kind."""
        event = unreadable_event(found)
        note = replace(event, message=f"Node {self._node}: {event.message}")
        self._tell(reference_to(found), note, **involved_kind(found))

    def _tell(self, about: Service, event: ServiceEvent, **kind: str) -> None:
        uid = about.metadata.uid or f"{about.metadata.namespace}/{about.metadata.name}"
        now, told = self._clock(), (uid, event.reason)
        while self._told and now - next(iter(self._told.values())) >= QUIET:
            del self._told[next(iter(self._told))]
        if told in self._told or len(self._waiting) >= MOST_WAITING:
            return
        recorded = self._recorder.record(about, event, **kind)
        if recorded is None:
            return
        self._told[told] = now
        # A series begins only where the time of day was set back. None goes on: that would be one more right.
        self._waiting[told] = recorded if recorded.series is None else self._recorder.renewed(recorded)
        self._something.set()

    async def run(self) -> NoReturn:
        """Until cancelled. What was not written then is not told."""
        while True:
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                await self._pace()
                # While it is written the next one of its kind may come.
                await self._write(self._waiting.pop(next(iter(self._waiting))))

    async def _write(self, event: Written) -> None:
        failures = 0
        while True:
            try:
                await self._writer.create(EVENTS, event)
            except CallFailed as error:
                outcome = outcome_of(error)
                if outcome is Outcome.EXISTS:
                    # Nobody else has this name: an answer was lost.
                    return
                about = event.regarding
                is_over = outcome in (Outcome.REFUSED, Outcome.MISSING, Outcome.TERMINATING)
                # Events of a namespace that is being deleted are nobody's loss.
                write = self._log.info if outcome is Outcome.TERMINATING else self._log.warning
                write(
                    "an Event could not be written",
                    service=f"{about.namespace}/{about.name}",
                    reason=event.reason,
                    error=str(error),
                    is_given_up=is_over,
                )
                if is_over:
                    return
                asked = error.retry_after if isinstance(error, ApiError) else None
                failures += 1
                await self._sleep(max(_BACKOFF.delay(failures), asked or 0.0))
            else:
                return

    async def _pace(self) -> None:
        """`PER_MINUTE` at once after a quiet minute, and as many a minute."""
        if (wait := self._limiter.reserve(self._clock())) > 0:
            await self._sleep(wait)
