"""Counts and logs what the parts of the proxy report, and records Events of Services."""

from collections.abc import Callable

from zoneward.client.api_errors import CallFailed
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.daemon.log import Log
from zoneward.daemon.unreadable_objects import log_unreadable_object
from zoneward.kube.input_error import show
from zoneward.kube.objects import Service
from zoneward.netlink.messages import Family
from zoneward.proxy.model.node_service import ServiceKey
from zoneward.proxy.proxy_events import (
    ADDRESS_CONTESTED,
    NO_HEALTH_PORT,
    NOT_PROGRAMMED,
    PARTLY_PROGRAMMED,
    ProxyEventRecorder,
)
from zoneward.proxy.proxy_metrics import ProxyMetrics
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.service_size import ServiceTooLarge


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
        self._metrics.refusals[family].inc()
        self._log.error("failed to program a Service", service="/".join(service), family=family, error=why)
        self._record(service, NOT_PROGRAMMED, f"the kernel rejected the rules: {why}")

    def service_too_large(self, service: ServiceKey, error: ServiceTooLarge) -> None:
        self._metrics.refusals[error.family].inc()
        why = f"it is too large: {error}"
        self._log.error("failed to program a Service", service="/".join(service), family=error.family, error=why)
        self._record(service, NOT_PROGRAMMED, why)

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
