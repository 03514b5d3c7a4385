"""The Services of one table: their wanted and programmed versions, and the batch that a transaction programs next.

A transaction programs at most 500 Services, each as a whole, or some ports of one large Service, each port as a whole.
A Service that the kernel refuses keeps its last accepted rules. Services of a lost transaction are retried after all
others, a few at a time, then alone; after `MAX_LOST_TRANSACTIONS` the one at fault counts as refused.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from zoneward.proxy.model.node_service import NodeService, ServiceKey
from zoneward.proxy.ruleset.service_rules import ServiceParts, count_entries, next_parts

MAX_SERVICES: Final = 500
"""The maximum number of Services in one transaction."""
MAX_ENTRIES: Final = 20_000
"""The maximum number of entries (`zoneward.proxy.ruleset.service_rules`) in one transaction: a tenth of a second."""
MAX_LOST_TRANSACTIONS: Final = 4
"""A Service counts as refused after this number of lost transactions in a row: one with all others, one with a few
others, and two with it alone."""
_MAX_SERVICES_AFTER_LOSS: Final = 20
Batch = Mapping[ServiceKey, ServiceParts]
"""The Services of one transaction, as the kernel will have them."""


class PendingServices:
    """Records wanted Services with `set_service`; a transaction takes `next_batch` and reports its result.

    ``on_refused`` gets each Service that the kernel refuses, and the reason.
    """

    def __init__(self, *, on_refused: Callable[[ServiceKey, str], None]) -> None:
        self._on_refused = on_refused
        self.wanted: Final[dict[ServiceKey, NodeService]] = {}
        self._pending: dict[ServiceKey, None] = {}
        self.in_flight: Batch = {}
        """The Services of the current transaction."""
        self._programmed: dict[ServiceKey, ServiceParts] = {}
        """Services as programmed since the table was read."""
        self._accepted: dict[ServiceKey, ServiceParts] = {}
        """The last version of each Service that the kernel accepted as a whole."""
        self.refused: Final[dict[ServiceKey, str]] = {}
        """The Services that the kernel refuses, and the reasons."""
        self._fallback: dict[ServiceKey, ServiceParts] = {}
        """The parts of refused Services to program instead of the wanted version."""
        self._lost_transactions: dict[ServiceKey, int] = {}
        """The number of lost transactions in a row, by Service."""

    # --- wanted Services ----------------------------------------------------------------------------------------------

    def set_service(self, service: ServiceKey, wanted: NodeService | None) -> bool:
        """Record the wanted version of a Service (None: not served). Returns whether it has to be programmed."""
        if self.wanted.get(service) == wanted:
            return False
        if wanted is None:
            self.wanted.pop(service, None)
            self._lost_transactions.pop(service, None)
        else:
            self.wanted[service] = wanted
        if service in self._lost_transactions and service in self._fallback:
            # Each attempt delays all other Services, so only an audit retries it.
            self._on_refused(service, self.refused[service])
            return False
        self._fallback.pop(service, None)
        self._pending[service] = None
        return True

    def is_pending(self, service: ServiceKey) -> bool:
        return service in self._pending or service in self.in_flight

    @property
    def pending(self) -> tuple[ServiceKey, ...]:
        """The Services that wait for a transaction, in order."""
        return tuple(self._pending)

    # --- transactions -------------------------------------------------------------------------------------------------

    def next_batch(self) -> dict[ServiceKey, ServiceParts]:
        """Take the Services of the next transaction: as many as fit, and at least one."""
        candidates: Sequence[ServiceKey] = [
            service for service in self._pending if service not in self._lost_transactions
        ]
        max_services, room, batch = MAX_SERVICES, MAX_ENTRIES, dict[ServiceKey, ServiceParts]()
        if not candidates:
            least = min(self._lost_transactions[service] for service in self._pending)
            candidates = [service for service in self._pending if self._lost_transactions[service] == least]
            max_services = _MAX_SERVICES_AFTER_LOSS if least == 1 else 1
        for service in candidates[:max_services]:
            before = self._programmed.get(service, ())
            after = next_parts(before, self.wanted_parts(service), most=MAX_ENTRIES)
            room -= min(MAX_ENTRIES, sum(map(count_entries, (*before, *after))))
            if batch and room < 0:
                break
            batch[service] = after
        for service in batch:
            del self._pending[service]
        return batch

    def first_batch(self) -> dict[ServiceKey, ServiceParts]:
        """Take all Services that fit into one transaction as a whole. It replaces a table that serves traffic."""
        batch = {service: self.wanted_parts(service) for service in self._pending}
        batch = {service: parts for service, parts in batch.items() if next_parts((), parts, most=MAX_ENTRIES) == parts}
        self._pending = {service: None for service in self._pending if service not in batch}
        return batch

    def put_back(self, batch: Iterable[ServiceKey]) -> None:
        """Put the Services of an incomplete transaction back; they are first in the next one."""
        self._pending = dict.fromkeys(batch) | self._pending

    def wanted_parts(self, service: ServiceKey) -> ServiceParts:
        """The parts of a Service to program: the wanted version, or the fallback of a refused Service."""
        wanted = self.wanted.get(service)
        return self._fallback.get(service, () if wanted is None else (wanted,))

    def whole_services(self, batch: Batch) -> dict[ServiceKey, ServiceParts]:
        """The Services that are complete after this batch."""
        return {service: parts for service, parts in batch.items() if parts == self.wanted_parts(service)}

    def programmed_services(self, batch: Iterable[ServiceKey]) -> dict[ServiceKey, NodeService | None]:
        """The wanted versions of the Services of a batch, without those that use their fallback."""
        return {service: self.wanted.get(service) for service in batch if service not in self._fallback}

    # --- results ------------------------------------------------------------------------------------------------------

    def mark_programmed(self, batch: Batch, whole: Batch) -> None:
        """Record that the kernel accepted a transaction; ``whole``: the Services that are complete after it."""
        for service, parts in whole.items():
            self._programmed[service] = self._accepted[service] = parts
            if not parts:
                del self._programmed[service], self._accepted[service]
            if service not in self._fallback:
                self.refused.pop(service, None)
                self._lost_transactions.pop(service, None)
        for service in batch.keys() - whole.keys():
            self._programmed[service] = batch[service]
            # After all others.
            self._pending[service] = None

    def refuse(self, service: ServiceKey, why: str) -> None:
        """Record that the kernel refuses a Service. Its last accepted version stays, or is programmed again."""
        is_first = service not in self._fallback
        self._fallback[service] = self._accepted.get(service, ()) if is_first else ()
        if self._programmed.get(service, ()) != self._fallback[service]:
            self._pending[service] = None
        self.refused[service] = why
        self._on_refused(service, why)

    def mark_lost(self, batch: Batch, why: str) -> None:
        """Record that the outcome of a transaction is unknown. One of its Services may be the reason."""
        for service in batch:
            self._lost_transactions[service] = self._lost_transactions.get(service, 0) + 1
            if len(batch) == 1 and self._lost_transactions[service] >= MAX_LOST_TRANSACTIONS:
                self.refuse(service, why)

    def start_over(self) -> None:
        """Make every Service pending, because the table was read again. Retries refused Services, except those with
        lost transactions."""
        self._programmed.clear()
        for service in [service for service in self.refused if service not in self._lost_transactions]:
            self._forget_refusal(service)
        self._pending = dict.fromkeys(sorted({*self.wanted, *self._pending}))

    def retry_refused(self) -> None:
        for service in tuple(self.refused):
            self._forget_refusal(service)
            self._pending[service] = None

    def _forget_refusal(self, service: ServiceKey) -> None:
        del self.refused[service]
        self._fallback.pop(service, None)
