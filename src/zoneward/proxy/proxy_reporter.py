"""Counts and logs what the parts of the proxy report, and records Events of Services that a node cannot program.

All nodes see the same Services, so each records few Events: one for a Service and a reason in `QUIET` seconds, and
`PER_MINUTE` in total. It drops Events that exceed this; the log and the metrics still have them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NoReturn

from zoneward.client.api_errors import ApiError, CallFailed
from zoneward.client.backoff import Backoff
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import EVENTS
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.daemon.event_recorder import EventRecorder
from zoneward.daemon.log import Log, SilentLog
from zoneward.daemon.rate_limiter import RateLimiter
from zoneward.daemon.unreadable_objects import involved_kind, log_unreadable_object, reference_to, unreadable_event
from zoneward.kube.input_error import show
from zoneward.kube.names import DOMAIN
from zoneward.kube.objects import Event as Written
from zoneward.kube.objects import Service, ServiceEvent
from zoneward.netlink.messages import Family
from zoneward.proxy.model.node_service import ServiceKey
from zoneward.proxy.proxy_metrics import ProxyMetrics
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.service_rules import ServiceTooLarge

CONTROLLER: Final = f"{DOMAIN}/node-proxy"
"""The reporting controller of Events."""
NOT_PROGRAMMED: Final = "ServiceNotProgrammed"
"""The kernel refused the Service. Its last accepted rules stay."""
ADDRESS_CONTESTED: Final = "ServiceAddressContested"
"""Another Service owns an address or a node port that this one requests."""
PARTLY_PROGRAMMED: Final = "ServicePartlyProgrammed"
"""Some values of the Service cannot be programmed, for example an invalid or a reserved address."""
NO_HEALTH_PORT: Final = "HealthCheckNodePortUnavailable"
QUIET: Final = 600.0
PER_MINUTE: Final = 10
MOST_WAITING: Final = 50
_ACTION: Final = "Program"
_BACKOFF: Final = Backoff(initial=1.0, cap=60.0)
_EventKey = tuple[str, str]
"""The uid of a Service, and a reason."""


class ProxyEventRecorder:
    """Writes Events while it `run`s. Add Events with `record`. ``node`` is the node of this proxy.

    It logs failures to ``log`` and retries them, except those that the server refuses. ``clock`` counts seconds;
    ``now`` is the time of day.
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
        self._recorded: dict[_EventKey, float] = {}
        """The times of Events in the last `QUIET` seconds, in order."""
        self._pending: dict[_EventKey, Written] = {}
        self._has_work = asyncio.Event()
        self._limiter = RateLimiter(per_second=PER_MINUTE / 60, burst=PER_MINUTE, now=clock())

    def record(self, service: Service, reason: str, note: str) -> None:
        """Record an Event without blocking."""
        self._record(service, ServiceEvent("Warning", reason, f"Node {self._node}: {note}"))

    def record_unreadable(self, unreadable: UnreadableObject) -> None:
        """Record an Event for an object of any kind that cannot be decoded."""
        event = unreadable_event(unreadable)
        note = replace(event, message=f"Node {self._node}: {event.message}")
        self._record(reference_to(unreadable), note, **involved_kind(unreadable))

    def _record(self, service: Service, event: ServiceEvent, **kind: str) -> None:
        uid = service.metadata.uid or f"{service.metadata.namespace}/{service.metadata.name}"
        now, key = self._clock(), (uid, event.reason)
        while self._recorded and now - next(iter(self._recorded.values())) >= QUIET:
            del self._recorded[next(iter(self._recorded))]
        if key in self._recorded or len(self._pending) >= MOST_WAITING:
            return
        recorded = self._recorder.record(service, event, **kind)
        if recorded is None:
            return
        self._recorded[key] = now
        # A series starts only if the time of day was set back. It is not continued: that needs another permission.
        self._pending[key] = recorded if recorded.series is None else self._recorder.renewed(recorded)
        self._has_work.set()

    async def run(self) -> NoReturn:
        """Write Events until cancelled. Pending Events are then lost."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._pending:
                if (wait := self._limiter.reserve(self._clock())) > 0:
                    await self._sleep(wait)
                # Removed first: the same Event may be recorded again during the write.
                await self._write(self._pending.pop(next(iter(self._pending))))

    async def _write(self, event: Written) -> None:
        failures = 0
        while True:
            try:
                await self._writer.create(EVENTS, event)
            except CallFailed as error:
                outcome = write_outcome(error)
                if outcome is WriteOutcome.EXISTS:
                    # The name is unique, so the response to an earlier attempt was lost.
                    return
                service = event.regarding
                is_over = outcome in (WriteOutcome.REFUSED, WriteOutcome.MISSING, WriteOutcome.TERMINATING)
                # Events of a namespace that is being deleted are not needed.
                write = self._log.info if outcome is WriteOutcome.TERMINATING else self._log.warning
                write(
                    "an Event could not be written",
                    service=f"{service.namespace}/{service.name}",
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


class ProxyReporter(Reporter):
    """A Reporter that counts and logs. ``service`` returns a Service by its key, ``said`` the message for a failed
    call."""

    def __init__(
        self,
        metrics: ProxyMetrics,
        *,
        log: Log,
        recorder: ProxyEventRecorder,
        service: Callable[[ServiceKey], Service | None],
        said: Callable[[CallFailed], str],
    ) -> None:
        self._metrics, self._log, self._recorder, self._service, self._said = metrics, log, recorder, service, said

    # --- Services -----------------------------------------------------------------------------------------------------

    def service_synced(self, seconds: float) -> None:
        self._metrics.sync_duration.observe(seconds)

    def endpoints_programmed(self, seconds: float) -> None:
        self._metrics.programming_duration.observe(seconds)

    def service_refused(self, family: Family, service: ServiceKey, why: str) -> None:
        self._not_programmed(family, service, why, note="the kernel rejected the rules: ")

    def service_too_large(self, service: ServiceKey, error: ServiceTooLarge) -> None:
        self._not_programmed(error.family, service, f"it is too large: {error}")

    def service_set_aside(self, service: ServiceKey, why: str) -> None:
        self._log.error("a Service is not programmed", service="/".join(service), error=why)
        self._record(service, NOT_PROGRAMMED, why)

    def addresses_contested(self, family: Family, service: ServiceKey, what: tuple[str, ...]) -> None:
        if what:
            taken = ", ".join(what)
            self._log.warning(
                "conflict: addresses belong to other Services", service="/".join(service), family=family, taken=taken
            )
            self._record(service, ADDRESS_CONTESTED, f"conflict, owned by other Services: {taken}")

    def values_left_out(self, service: ServiceKey, what: tuple[str, ...]) -> None:
        if what:
            values = "; ".join(what)
            self._log.warning("ignoring invalid values of a Service", service="/".join(service), values=values)
            self._record(service, PARTLY_PROGRAMMED, f"not programmed: {values}")

    def selection_failed(self, service: ServiceKey, why: str) -> None:
        self._record(service, NOT_PROGRAMMED, f"internal error: {why}; the Service keeps its rules and is retried")

    def node_address_left_out(self, address: str) -> None:
        self._log.warning("ignoring an invalid address of the Node", address=show(address))

    def health_port_failed(self, service: ServiceKey, port: int, why: str) -> None:
        self._log.warning(
            "failed to listen on a health check node port", service="/".join(service), port=port, error=why
        )
        self._record(service, NO_HEALTH_PORT, f"the health check node port {port} can't be served: {why}")

    def _not_programmed(self, family: Family, service: ServiceKey, why: str, *, note: str = "") -> None:
        self._metrics.refusals[family].inc()
        self._log.error("failed to program a Service", service="/".join(service), family=family, error=why)
        self._record(service, NOT_PROGRAMMED, f"{note}{why}")

    def _record(self, key: ServiceKey, reason: str, note: str) -> None:
        service = self._service(key)
        if service is not None:
            self._recorder.record(service, reason, note)

    # --- the kernel ---------------------------------------------------------------------------------------------------

    def transaction_committed(self, family: Family, *, elements: int, seconds: float) -> None:
        self._metrics.transaction_duration.observe(seconds)
        self._metrics.transactions[family].inc()
        self._metrics.changed_elements[family].inc(elements)

    def rules_repaired(self, family: Family, what: str, count: int) -> None:
        self._metrics.repairs.labels(what).inc(count)
        self._log.warning("repaired rules that another program had changed", family=family, what=what, count=count)

    def kernel_failed(self, why: str) -> None:
        self._log.warning("failed to program the kernel", error=why)

    def flows_removed(self, count: int) -> None:
        self._metrics.flows_removed.inc(count)

    def conntrack_failed(self, why: str) -> None:
        self._log.warning("failed to read conntrack entries", error=why)

    def counting_failed(self, why: str) -> None:
        self._log.warning("failed to read connection tracking", error=why)

    def unreadable(self, unreadable: UnreadableObject) -> None:
        log_unreadable_object(self._log, unreadable)
        if unreadable.name:
            self._recorder.record_unreadable(unreadable)

    # --- the API server -----------------------------------------------------------------------------------------------

    def lease_failed(self, error: CallFailed) -> None:
        self._log.warning("failed to write the node's Lease", error=self._said(error))
