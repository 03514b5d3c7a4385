"""Selects the endpoints of each changed Service from the node's cache, and sets it in the tables.

A Service whose selection fails with an internal error keeps its rules, is retried, and does not block the others.
Everything that depends on the rules happens after they are in the kernel: stale UDP flows are removed, health check
node ports are updated, and durations are observed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from zoneward.client.backoff import Backoff
from zoneward.daemon.log import Log, SilentLog, UnexpectedErrorLog
from zoneward.daemon.rate_limiter import RateLimiter
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.table_syncer import ProgrammedTransaction, TableSyncer
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.model.node_service import NodeService, OwnedServices, ServiceKey
from zoneward.proxy.proxy_health import ProxyHealth
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.service_rules import (
    ServiceTooLarge,
    keep_endpoints,
    set_entries,
)
from zoneward.routing.selection.address_ownership import AddressKind, Port
from zoneward.routing.selection.entry_budget import EntryBudget, ExceededLimit

GATHERED: Final = 0.05
"""Seconds for which frequent changes are batched: a transaction costs more than a change in it."""
CALM: Final = 50.0
"""The rate of selections per second, in the long run, up to which changes are not delayed."""
BURST: Final = 100.0
ENTRIES_PER_SECOND: Final = 50_000.0
"""The rate limit for the selected entries of one namespace, in the long run: an entry takes 3 µs of CPU, so one
namespace takes a sixth of a core. The burst is the namespace's budget of entries."""
BACKOFF: Final = Backoff(initial=1.0, cap=300.0)
"""After the selection for a Service failed."""
_MOST_LIMITERS: Final = 1000
"""The maximum number of namespaces with a rate limiter."""
_SLICE_SECONDS: Final = 0.01
"""Seconds of selecting after which other tasks run, for example probes."""


class Proxier:
    """Selects and sets changed Services while it `run`s. Report changes with `service_changed`. It is the listener of
    its ``tables``.

    ``on_programmed`` gets each Service whose rules in a family are in the kernel: its previous and its current version
    there. ``health`` records each transaction.
    ``clock`` counts seconds, ``now`` is the time of day: the times in EndpointSlices are compared with it.
    """

    def __init__(
        self,
        cache: NodeCache,
        *,
        budget: EntryBudget | None = None,
        log: Log | None = None,
        reporter: Reporter | None = None,
        health: ProxyHealth | None = None,
        on_programmed: Callable[[ServiceKey, NodeService | None, NodeService | None], None] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cache, self._clock, self._now = cache, clock, now
        self._sleep, self._reporter, self._on_programmed = sleep, reporter or Reporter(), on_programmed
        self._health = health
        self.budget: Final = budget or EntryBudget()
        self._unexpected = UnexpectedErrorLog(log or SilentLog())
        self.tables: Final[dict[Family, TableSyncer]] = {}
        self._started_at = now()
        self._pending: dict[ServiceKey, float] = {}
        """Services that wait for a selection, and since when."""
        self._paced: dict[ServiceKey, float] = {}
        """The same for namespaces that exceed their rate."""
        self._limiters: dict[str, RateLimiter] = {}
        """By namespace, for those with recent selections."""
        self._in_flight: dict[Family, dict[ServiceKey, float]] = {family: {} for family in FAMILIES}
        """Services that are set in a table but not programmed yet, and since when."""
        self._triggers: dict[ServiceKey, datetime] = {}
        self._owned = {family: OwnedServices() for family in FAMILIES}
        self.conflicts: Final[dict[Family, dict[ServiceKey, tuple[str, ...]]]] = {family: {} for family in FAMILIES}
        """Descriptions of the requests of each Service that other Services own (`AddressOwnership.conflicts`)."""
        self._node_services: dict[Family, dict[ServiceKey, NodeService]] = {family: {} for family in FAMILIES}
        """Services as last set in the tables."""
        self._programmed: dict[Family, dict[ServiceKey, NodeService]] = {family: {} for family in FAMILIES}
        """Services as programmed in the kernel."""
        self._has_work = asyncio.Event()
        self.failed_selections: Final[set[ServiceKey]] = set()
        """Services whose selection failed. They keep their rules in the kernel."""
        self._failures: dict[ServiceKey, int] = {}
        """The number of failed selections in a row."""
        self.too_large: Final[dict[ServiceKey, ServiceTooLarge]] = {}
        """Services that keep their rules in the kernel, without endpoints that were deleted."""
        self.set_aside: Final[dict[ServiceKey, ExceededLimit]] = {}
        """Services that are not programmed because they exceed a budget."""
        self.all_selected: Final = asyncio.Event()
        """Set after all listed Services were set in the tables; it stays set."""

    # --- state --------------------------------------------------------------------------------------------------------

    def node_services(self, family: Family) -> Mapping[ServiceKey, NodeService]:
        """All Services of a family as this node serves them."""
        return self._node_services[family]

    def find_service(self, address: str, port: Port) -> tuple[ServiceKey, AddressKind] | None:
        """The Service that owns a port of an address, and the kind of the address."""
        return self._owned["ip6" if ":" in address else "ip"].ownership.find(address, port)

    def is_pending(self, service: ServiceKey) -> bool:
        """Whether a change of a Service is not in the kernel yet."""
        return (
            service in self._pending
            or service in self._paced
            or any(table.is_pending(service) for table in self.tables.values())
        )

    def pending_since(self, family: Family | None = None) -> float | None:
        """When the oldest pending change was received, by the clock, in one family or in any; None: no change is
        pending.

        Before the first list is complete nothing can be programmed, and nothing is pending.
        """
        if not self._cache.synced.is_set() or (family is not None and family not in self.tables):
            return None
        waiting = [
            self._pending,
            self._paced,
            *(in_flight for table_family, in_flight in self._in_flight.items() if family in (None, table_family)),
        ]
        return min((min(changes.values()) for changes in waiting if changes), default=None)

    def waiting_seconds(self) -> float:
        """Seconds for which the oldest change has waited for the kernel."""
        since = self.pending_since()
        return 0.0 if since is None else self._clock() - since

    # --- what happens -------------------------------------------------------------------------------------------------

    def service_changed(self, service: ServiceKey, trigger: str | None = None) -> None:
        """Record that a Service or one of its slices changed. ``trigger``: the time of the change according to a
        slice."""
        if service not in self._pending and service not in self._paced:
            self._pending[service] = self._clock()
        if trigger is not None and (when := _time(trigger)) is not None and when >= self._started_at:
            # Changes from before the start of this proxy would distort the metric.
            self._triggers.setdefault(service, when)
        self._has_work.set()

    def set_node_addresses(self, addresses: Mapping[Family, frozenset[str]]) -> None:
        """Record the addresses of the node that serve node ports."""
        for family in self.tables:
            services = self._owned[family].set_node_addresses(addresses.get(family, frozenset()))
            self._set_in_family(family, services, self._clock())

    def transaction_done(self, family: Family, done: ProgrammedTransaction) -> None:
        """Record that the kernel accepted a transaction."""
        now, in_flight, programmed = self._clock(), self._in_flight[family], self._programmed[family]
        self._reporter.transaction_committed(family, elements=done.elements, seconds=done.seconds)
        for service, after in done.services.items():
            since = in_flight.pop(service, None)
            if since is not None:
                self._reporter.service_synced(now - since)
            if self._node_services[family].get(service) != after:
                # It changed again during the transaction.
                in_flight[service] = now
            elif (trigger := self._triggers.pop(service, None)) is not None:
                self._reporter.endpoints_programmed(max(0.0, (self._now() - trigger).total_seconds()))
            before = programmed.get(service)
            if after is None:
                programmed.pop(service, None)
            else:
                programmed[service] = after
            if before is not after:
                self._on_programmed(service, before, after)
        if self._health is not None:
            self._health.programmed_at[family] = now

    def service_refused(self, family: Family, service: ServiceKey, why: str) -> None:
        """Record that the kernel refused a Service, which is then no longer pending."""
        self._in_flight[family].pop(service, None)
        self._triggers.pop(service, None)
        self._reporter.service_refused(family, service, why)

    # --- work ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled. It starts after every kind was listed."""
        await self._cache.synced.wait()
        limiter = RateLimiter(per_second=CALM, burst=BURST, now=self._clock())
        while True:
            await self._select()
            self.all_selected.set()
            await self._has_work.wait()
            if not limiter.try_accept(self._clock()):
                await self._sleep(GATHERED)
            self._has_work.clear()

    async def _select(self) -> None:
        slice_began = time.perf_counter()
        while self._pending:
            service, since = next(iter(self._pending.items()))
            del self._pending[service]
            limiter = self._limiters.get(service[0])
            if limiter is not None and (wait := limiter.reserve(self._clock(), tokens=0)) > 0:
                self._pace(service, since, wait)
            else:
                self._select_service(service, since)
            if time.perf_counter() - slice_began > _SLICE_SECONDS:
                await asyncio.sleep(0)
                slice_began = time.perf_counter()

    def _pace(self, service: ServiceKey, since: float, wait: float) -> None:
        """Delay the selection of a Service, to batch it with others of its namespace."""
        self._paced[service] = since

        def resume() -> None:
            self._pending[service] = self._paced.pop(service)
            self._has_work.set()

        asyncio.get_running_loop().call_later(max(wait, GATHERED), resume)

    def _charge(self, namespace: str, entries: int) -> None:
        """Charge the entries of a selected Service to its namespace, except for the first selection at the start."""
        if not self.all_selected.is_set():
            return
        now, burst = self._clock(), float(self.budget.most_of_namespace)
        if len(self._limiters) > _MOST_LIMITERS:
            self._limiters = {name: limiter for name, limiter in self._limiters.items() if not limiter.is_full(now)}
        if namespace not in self._limiters:
            self._limiters[namespace] = RateLimiter(per_second=ENTRIES_PER_SECOND, burst=burst, now=now)
        self._limiters[namespace].reserve(now, tokens=entries)

    def _select_service(self, service: ServiceKey, since: float) -> None:
        try:
            services = self._cache.node_services(service)
        except ServiceTooLarge as error:
            services = self._keep_too_large(service, error)
        except Exception as error:
            self._unexpected.error("internal error while selecting endpoints; the rules stay", service, error)
            if service not in self.failed_selections:
                self._reporter.selection_failed(service, f"{type(error).__name__}: {error}")
            self.failed_selections.add(service)
            self._failures[service] = tries = self._failures.get(service, 0) + 1
            asyncio.get_running_loop().call_later(BACKOFF.delay(tries), self.service_changed, service)
            return
        else:
            self.too_large.pop(service, None)
        self.failed_selections.discard(service)
        self._failures.pop(service, None)
        if not self._fits(service, services):
            services = {}
        self._charge(service[0], self.budget.entries(service))
        for family in self.tables:
            self._set_in_family(family, self._owned[family].set_service(service, services.get(family)), since)
        if not any(service in in_flight for in_flight in self._in_flight.values()):
            self._triggers.pop(service, None)

    def _keep_too_large(self, service: ServiceKey, error: ServiceTooLarge) -> dict[Family, NodeService]:
        """A Service that is too large, with its previous ports and addresses, and the endpoints that still exist."""
        is_new = service not in self.too_large
        self.too_large[service] = error
        if is_new:
            self._reporter.service_too_large(service, error)
        return {
            family: keep_endpoints(requested, error.addresses)
            for family, owned in self._owned.items()
            if (requested := owned.requested.get(service)) is not None
        }

    def _fits(self, service: ServiceKey, families: Mapping[Family, NodeService]) -> bool:
        """Whether a Service is within the budgets. Other Services for which that changes are selected again."""
        for other in sorted(set_entries(self.budget, service, families) - {service}):
            self.service_changed(other)
        before, limit = self.set_aside.get(service), self.budget.set_aside(service)
        if limit is None:
            self.set_aside.pop(service, None)
            return True
        self.set_aside[service] = limit
        if limit != before:
            self._reporter.service_set_aside(service, self.budget.reason(service))
        return False

    def _set_in_family(self, family: Family, services: Mapping[ServiceKey, NodeService | None], since: float) -> None:
        before, table = self._node_services[family], self.tables[family]
        for service, served in services.items():
            self._check_conflicts(family, service)
            if served == before.get(service):
                continue
            if served is None:
                del before[service]
            else:
                before[service] = served
            # Recorded first: `set_service` may refuse it at once.
            self._in_flight[family].setdefault(service, since)
            table.set_service(service, served)

    def _check_conflicts(self, family: Family, service: ServiceKey) -> None:
        before, what = self.conflicts[family], self._owned[family].ownership.conflicts(service)
        if what == before.get(service, ()):
            return
        if what:
            before[service] = what
        else:
            del before[service]
        self._reporter.addresses_contested(family, service, what)


def _time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
