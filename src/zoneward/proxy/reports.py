"""What happens to a node's proxy: counted, written to its log, and told to those whose Service it is."""

from collections.abc import Callable, Mapping

from zoneward.daemon.log import Log
from zoneward.kube.objects import Service
from zoneward.proxy.large_services import TooLarge
from zoneward.proxy.metrics import Metrics
from zoneward.proxy.served import Family
from zoneward.proxy.telling import ADDRESS_CONTESTED, NO_HEALTH_PORT, NOT_PROGRAMMED, Teller
from zoneward.sources.api_errors import CallFailed, Gone
from zoneward.sources.resources import AnyResource, Key


class Reports:
    """One method for each that may happen. ``service`` finds one by its key, ``said`` words a failed call."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        log: Log,
        teller: Teller,
        service: Callable[[Key], Service | None],
        said: Callable[[CallFailed], str],
    ) -> None:
        self._metrics, self._log, self._teller, self._service, self._said = metrics, log, teller, service, said
        self._contested: dict[Family, Mapping[Key, tuple[str, ...]]] = {}

    # --- Services -----------------------------------------------------------------------------------------------------

    def refused(self, family: Family, service: Key, why: str) -> None:
        """The kernel does not take one."""
        self._metrics.refused[family] += 1
        self._log.error("a Service could not be programmed", service="/".join(service), family=family, error=why)
        self._tell(service, NOT_PROGRAMMED, f"the kernel does not take it: {why}")

    def too_large(self, service: Key, error: TooLarge) -> None:
        """One asks for more than one may have."""
        self._metrics.refused[error.family] += 1
        why = f"it is too large: {error}"
        self._log.error("a Service could not be programmed", service="/".join(service), family=error.family, error=why)
        self._tell(service, NOT_PROGRAMMED, why)

    def contested(self, family: Family, found: Mapping[Key, tuple[str, ...]]) -> None:
        """All that do not get what others have; told of each when that changes."""
        before = self._contested.get(family, {})
        self._contested[family] = found
        for service, what in found.items():
            if before.get(service) != what:
                taken = ", ".join(each.replace(" . ", " ") for each in what)
                self._log.warning(
                    "other Services have what a Service asks for",
                    service="/".join(service),
                    family=family,
                    taken=taken,
                )
                self._tell(service, ADDRESS_CONTESTED, f"others, which come first by name, have {taken}")

    def no_health_port(self, service: Key, port: int, why: str) -> None:
        self._log.warning("a health check node port can't be served", service="/".join(service), port=port, error=why)
        self._tell(service, NO_HEALTH_PORT, f"the health check node port {port} can't be served: {why}")

    def _tell(self, key: Key, reason: str, note: str) -> None:
        service = self._service(key)
        if service is not None:
            self._teller.tell(service, reason, note)

    # --- the kernel ---------------------------------------------------------------------------------------------------

    def mended(self, family: Family, what: str, number: int) -> None:
        self._metrics.mended[what] += number
        self._log.warning("rules that others changed were mended", family=family, what=what, number=number)

    def not_programmed(self, why: str) -> None:
        self._log.warning("the kernel could not be programmed", error=why)

    def flows_removed(self, number: int) -> None:
        self._metrics.flows_removed += number

    def flows_not_seen(self, why: str) -> None:
        self._log.warning("flows could not be looked at", error=why)

    def connections_not_seen(self, why: str) -> None:
        self._log.warning("connections could not be counted", error=why)

    # --- the API server -----------------------------------------------------------------------------------------------

    def not_heard(self, resource: AnyResource, error: CallFailed) -> None:
        """A list or watch broke off."""
        self._metrics.watch_failed(error, kind=resource.plural)
        write = self._log.debug if isinstance(error, Gone) else self._log.warning
        write("a list or watch broke off", kind=resource.plural, error=self._said(error))

    def no_lease(self, error: CallFailed) -> None:
        self._log.warning("the node's Lease could not be written", error=self._said(error))
