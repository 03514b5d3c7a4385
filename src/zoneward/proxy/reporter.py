"""What happens to a node's proxy: it is counted, logged, and recorded as Events of the Services that it is about."""

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
from zoneward.proxy.ruleset.service_size import ServiceTooLarge


class ProxyReporter:
    """One method for everything that may happen. ``service`` returns a Service by its key, ``said`` words a failed
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

    def service_refused(self, family: Family, service: ServiceKey, why: str) -> None:
        """The kernel refuses a Service."""
        self._metrics.refusals[family].inc()
        self._log.error("a Service could not be programmed", service="/".join(service), family=family, error=why)
        self._record(service, NOT_PROGRAMMED, f"the kernel does not take it: {why}")

    def service_too_large(self, service: ServiceKey, error: ServiceTooLarge) -> None:
        """A Service has more entries than one may have."""
        self._metrics.refusals[error.family].inc()
        why = f"it is too large: {error}"
        self._log.error("a Service could not be programmed", service="/".join(service), family=error.family, error=why)
        self._record(service, NOT_PROGRAMMED, why)

    def service_set_aside(self, service: ServiceKey, why: str) -> None:
        """A Service exceeds the budget of its namespace or of the node."""
        self._log.error("a Service is not programmed", service="/".join(service), error=why)
        self._record(service, NOT_PROGRAMMED, why)

    def addresses_contested(self, family: Family, service: ServiceKey, what: tuple[str, ...]) -> None:
        """What a Service asks for and other Services own; nothing: it has all of it by now."""
        if what:
            taken = ", ".join(what)
            self._log.warning(
                "other Services have what a Service asks for", service="/".join(service), family=family, taken=taken
            )
            self._record(service, ADDRESS_CONTESTED, f"it does not get what is another Service's: {taken}")

    def values_left_out(self, service: ServiceKey, what: tuple[str, ...]) -> None:
        """What of a Service cannot be served; nothing: all of it can by now."""
        if what:
            values = "; ".join(what)
            self._log.warning("a part of a Service is left out", service="/".join(service), values=values)
            self._record(service, PARTLY_PROGRAMMED, f"not programmed: {values}")

    def selection_failed(self, service: ServiceKey, why: str) -> None:
        """A mistake in the program: the log has its place."""
        self._record(
            service, NOT_PROGRAMMED, f"a mistake in the program: {why}; it stays as it was, and is tried again"
        )

    def node_address_left_out(self, address: str) -> None:
        self._log.warning("an address of the Node is left out, being no IP address", address=show(address))

    def health_port_failed(self, service: ServiceKey, port: int, why: str) -> None:
        self._log.warning("a health check node port can't be served", service="/".join(service), port=port, error=why)
        self._record(service, NO_HEALTH_PORT, f"the health check node port {port} can't be served: {why}")

    def _record(self, key: ServiceKey, reason: str, note: str) -> None:
        service = self._service(key)
        if service is not None:
            self._recorder.record(service, reason, note)

    # --- the kernel ---------------------------------------------------------------------------------------------------

    def rules_repaired(self, family: Family, what: str, number: int) -> None:
        self._metrics.repairs.labels(what).inc(number)
        self._log.warning("rules that others changed were mended", family=family, what=what, number=number)

    def kernel_failed(self, why: str) -> None:
        self._log.warning("the kernel could not be programmed", error=why)

    def flows_removed(self, number: int) -> None:
        self._metrics.flows_removed.inc(number)

    def conntrack_failed(self, why: str) -> None:
        self._log.warning("flows could not be looked at", error=why)

    def counting_failed(self, why: str) -> None:
        self._log.warning("failed to read connection tracking", error=why)

    def unreadable(self, found: UnreadableObject) -> None:
        """An object cannot be read: what was programmed of it stays in force."""
        log_unreadable_object(self._log, found)
        if found.name:
            self._recorder.record_unreadable(found)

    # --- the API server -----------------------------------------------------------------------------------------------

    def lease_failed(self, error: CallFailed) -> None:
        self._log.warning("the node's Lease could not be written", error=self._said(error))
