"""The Services of one table: how they are wanted, how the kernel has them, and which a transaction programs next.

A transaction programs at most 500 Services, each as a whole, or some ports of one large Service, each port as a whole.
A Service that the kernel refuses keeps what the kernel accepted of it before. Services of a lost transaction come after
all others, a few at a time, then alone; after `MAX_LOST_TRANSACTIONS` the one at fault counts as refused.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from zoneward.proxy.model.node_service import NodeService, ServiceKey
from zoneward.proxy.ruleset.service_size import ServiceParts, count_entries, next_parts

MAX_SERVICES: Final = 500
"""Services in one transaction."""
MAX_ENTRIES: Final = 20_000
"""Entries (`zoneward.proxy.ruleset.service_size`) in one transaction: they take the process a tenth of a second."""
MAX_LOST_TRANSACTIONS: Final = 4
"""Transactions of a Service that may be lost in a row until it counts as refused: one with all others, one with a few
others, and two with it alone."""
_MAX_SERVICES_AFTER_LOSS: Final = 20
Batch = Mapping[ServiceKey, ServiceParts]
"""The Services of one transaction, each as it will be in the kernel."""


class PendingServices:
    """`set_service` records what shall be served; a transaction takes `next_batch` and reports what became of it.

    ``on_refused`` gets each Service that the kernel refuses, and the reason.
    """

    def __init__(self, *, on_refused: Callable[[ServiceKey, str], None]) -> None:
        self._on_refused = on_refused
        self._wanted: dict[ServiceKey, NodeService] = {}
        self._pending: dict[ServiceKey, None] = {}
        self._in_flight: frozenset[ServiceKey] = frozenset()
        self._programmed: dict[ServiceKey, ServiceParts] = {}
        """Services as they were programmed since the table was read."""
        self._accepted: dict[ServiceKey, ServiceParts] = {}
        """Services as the kernel last accepted them as a whole."""
        self._refused: dict[ServiceKey, str] = {}
        self._fallback: dict[ServiceKey, ServiceParts] = {}
        """What is programmed of refused Services, in place of what is wanted."""
        self._lost_transactions: dict[ServiceKey, int] = {}
        """In a row, by each Service that was part of them."""

    # --- what shall be served -----------------------------------------------------------------------------------------

    def set_service(self, service: ServiceKey, wanted: NodeService | None) -> bool:
        """Record a Service as it shall be served (None: not at all). Returns whether that has to be programmed."""
        if self._wanted.get(service) == wanted:
            return False
        if wanted is None:
            self._wanted.pop(service, None)
            self._lost_transactions.pop(service, None)
        else:
            self._wanted[service] = wanted
        if service in self._lost_transactions and service in self._fallback:
            # It costs the time of all others: only an audit tries it again.
            self._on_refused(service, self._refused[service])
            return False
        self._fallback.pop(service, None)
        self._pending[service] = None
        return True

    @property
    def refused(self) -> Mapping[ServiceKey, str]:
        """Services that the kernel refuses, and why."""
        return MappingProxyType(self._refused)

    def wanted_services(self) -> Mapping[ServiceKey, NodeService]:
        return self._wanted

    def is_pending(self, service: ServiceKey) -> bool:
        return service in self._pending or service in self._in_flight

    @property
    def pending(self) -> tuple[ServiceKey, ...]:
        """Services that wait for a transaction, in their order."""
        return tuple(self._pending)

    # --- transactions -------------------------------------------------------------------------------------------------

    def next_batch(self) -> dict[ServiceKey, ServiceParts]:
        """Take the Services of the next transaction: as many as it may have, and at least one."""
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
        """Take all Services that fit into one transaction as a whole: it replaces a table that serves."""
        batch = {service: self.wanted_parts(service) for service in self._pending}
        batch = {service: parts for service, parts in batch.items() if next_parts((), parts, most=MAX_ENTRIES) == parts}
        self._pending = {service: None for service in self._pending if service not in batch}
        return batch

    def put_back(self, batch: Iterable[ServiceKey]) -> None:
        """The transaction was not tried to its end: its Services come first in the next one."""
        self._pending = dict.fromkeys(batch) | self._pending

    def begin(self, batch: Batch) -> None:
        self._in_flight = frozenset(batch)

    def end(self) -> None:
        self._in_flight = frozenset()

    def wanted_parts(self, service: ServiceKey) -> ServiceParts:
        """A Service as the kernel shall have it: as wanted, or, where it was refused, as it was before."""
        wanted = self._wanted.get(service)
        return self._fallback.get(service, () if wanted is None else (wanted,))

    def whole_services(self, batch: Batch) -> dict[ServiceKey, ServiceParts]:
        """The Services of a batch that are complete with it."""
        return {service: parts for service, parts in batch.items() if parts == self.wanted_parts(service)}

    def programmed_services(self, batch: Iterable[ServiceKey]) -> dict[ServiceKey, NodeService | None]:
        """The Services of a batch as they are wanted, without those of which only the fallback is programmed."""
        return {service: self._wanted.get(service) for service in batch if service not in self._fallback}

    # --- results ------------------------------------------------------------------------------------------------------

    def mark_programmed(self, batch: Batch, whole: Batch) -> None:
        """The kernel took a transaction; ``whole``: the Services that are complete with it."""
        for service, parts in whole.items():
            self._programmed[service] = self._accepted[service] = parts
            if not parts:
                del self._programmed[service], self._accepted[service]
            if service not in self._fallback:
                self._refused.pop(service, None)
                self._lost_transactions.pop(service, None)
        for service in batch.keys() - whole.keys():
            self._programmed[service] = batch[service]
            # After all others.
            self._pending[service] = None

    def refuse(self, service: ServiceKey, why: str) -> None:
        """The kernel refuses a Service: what it accepted before stays, or comes back."""
        is_first = service not in self._fallback
        self._fallback[service] = self._accepted.get(service, ()) if is_first else ()
        if self._programmed.get(service, ()) != self._fallback[service]:
            self._pending[service] = None
        self._refused[service] = why
        self._on_refused(service, why)

    def mark_lost(self, batch: Batch, why: str) -> None:
        """Nobody knows what became of a transaction, and one of its Services may be the reason."""
        for service in batch:
            self._lost_transactions[service] = self._lost_transactions.get(service, 0) + 1
            if len(batch) == 1 and self._lost_transactions[service] >= MAX_LOST_TRANSACTIONS:
                self.refuse(service, why)

    def start_over(self) -> None:
        """The table was read again: every Service is pending, and so is what was refused, but for lost transactions."""
        self._programmed.clear()
        for service in [service for service in self._refused if service not in self._lost_transactions]:
            self._forget_refusal(service)
        self._pending = dict.fromkeys(sorted({*self._wanted, *self._pending}))

    def retry_refused(self) -> None:
        for service in tuple(self._refused):
            self._forget_refusal(service)
            self._pending[service] = None

    def _forget_refusal(self, service: ServiceKey) -> None:
        del self._refused[service]
        self._fallback.pop(service, None)
