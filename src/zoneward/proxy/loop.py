"""From what a node knows to what its kernel has: Services that changed are selected anew, and put into the tables.

A Service whose selection fails by a mistake keeps the rules that it has, is tried again, and holds up no other. What
happens after the rules are in the kernel, and not before: flows of UDP are looked at, health check node ports answer
anew, and what was waited for is counted.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from zoneward.client.backoff import Backoff
from zoneward.daemon.log import Log, SilentLog, UnexpectedErrorLog
from zoneward.daemon.rate_limiter import RateLimiter
from zoneward.kube.objects import ObjectKey
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.programming import Programmed
from zoneward.proxy.model.claims import Claims
from zoneward.proxy.model.known import Known
from zoneward.proxy.model.served import Served
from zoneward.proxy.proxy_metrics import ProxyMetrics
from zoneward.proxy.ruleset.large_services import TooLarge, with_endpoints

GATHERED: Final = 0.05
"""Seconds for which changes are gathered where they come too fast: a transaction costs more than a change in it."""
CALM: Final = 50.0
"""How often in a second, in the long run, changes are put without delay."""
BURST: Final = 100.0
BACKOFF: Final = Backoff(initial=1.0, cap=300.0)
"""After a Service could not be selected for."""
_AT_ONCE: Final = 200
"""Services that are selected before others get their turn: some ten milliseconds."""


class Table(Protocol):
    """Where the Services of one family are put; `zoneward.proxy.kernel.programming.FamilyTable` is one."""

    def put(self, service: ObjectKey, served: Served | None) -> None: ...
    def waits(self, service: ObjectKey) -> bool: ...


class ProxyLoop:
    """`changed` what changed, and `run`. ``tables`` may call `programmed` at any time.

    ``on_too_large`` is told once of a Service that is too large, and why: it keeps what it had, but for endpoints that
    are gone. ``on_selection_failed`` is told of each that could not be selected for, and why. ``after`` is told of each
    Service whose rules in a family are in the kernel: as it was there before, and is now; ``on_lost`` what other
    Services have of all that one asks for, each time that changes (`Claims.lost`).
    ``clock`` counts seconds, ``now`` is the time of day: the times of slices are told in it.
    """

    def __init__(
        self,
        known: Known,
        *,
        metrics: ProxyMetrics,
        log: Log | None = None,
        after: Callable[[ObjectKey, Served | None, Served | None], None] = lambda *_: None,
        on_too_large: Callable[[ObjectKey, TooLarge], None] = lambda *_: None,
        on_lost: Callable[[Family, ObjectKey, tuple[str, ...]], None] = lambda *_: None,
        on_selection_failed: Callable[[ObjectKey, str], None] = lambda _service, _why: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._known, self._metrics, self._after, self._clock, self._now = known, metrics, after, clock, now
        self._sleep, self._on_too_large, self._on_selection_failed, self._on_lost = (
            sleep,
            on_too_large,
            on_selection_failed,
            on_lost,
        )
        self._unexpected = UnexpectedErrorLog(log or SilentLog())
        self.tables: Final[dict[Family, Table]] = {}
        self._begun = now()
        self._changed: dict[ObjectKey, float] = {}
        """Not selected anew yet, and since when."""
        self._put: dict[Family, dict[ObjectKey, float]] = {family: {} for family in FAMILIES}
        """On the way to the kernel, and since when."""
        self._triggers: dict[ObjectKey, datetime] = {}
        self._claims = {family: Claims() for family in FAMILIES}
        self.lost: Final[dict[Family, dict[ObjectKey, tuple[str, ...]]]] = {family: {} for family in FAMILIES}
        """What other Services have of all that one asks for, in words (`Claims.lost`)."""
        self._served: dict[Family, dict[ObjectKey, Served]] = {family: {} for family in FAMILIES}
        """As last put."""
        self._programmed: dict[Family, dict[ObjectKey, Served]] = {family: {} for family in FAMILIES}
        """As the kernel has it."""
        self._something = asyncio.Event()
        self.left_out: Final[set[ObjectKey]] = set()
        """Services that could not be selected for, and are in the kernel as they were before."""
        self._tries: dict[ObjectKey, int] = {}
        """Of these, in a row."""
        self.too_large: Final[dict[ObjectKey, TooLarge]] = {}
        """Services that are in the kernel as they were before, but for endpoints that are gone."""
        self.selected: Final = asyncio.Event()
        """Set once all Services that were listed are put into the tables; it stays set."""

    # --- what is asked ------------------------------------------------------------------------------------------------

    def served(self, family: Family) -> Mapping[ObjectKey, Served]:
        """All Services as they are served."""
        return self._served[family]

    def waits(self, service: ObjectKey) -> bool:
        """Whether a Service is on its way to the kernel."""
        return service in self._changed or any(table.waits(service) for table in self.tables.values())

    def waiting_since(self, family: Family | None = None) -> float | None:
        """Of what waits longest, in a family or in any, by the clock; None where nothing waits.

        Until everything was listed nothing can be programmed, and nothing waits.
        """
        if not self._known.synced.is_set() or (family is not None and family not in self.tables):
            return None
        some = [self._changed, *(put for each, put in self._put.items() if family in (None, each))]
        return min((next(iter(each.values())) for each in some if each), default=None)

    # --- what is told -------------------------------------------------------------------------------------------------

    def changed(self, service: ObjectKey, trigger: str | None = None) -> None:
        """A Service or what belongs to it is another one now. ``trigger``: since when, as a slice tells it."""
        if service not in self._changed:
            self._changed[service] = self._clock()
        if trigger is not None and (when := _time(trigger)) is not None and when >= self._begun:
            # What happened before we were there was not ours to program in time.
            self._triggers.setdefault(service, when)
        self._something.set()

    def set_node_addresses(self, addresses: Mapping[Family, frozenset[str]]) -> None:
        """The addresses of the node that node ports are served on."""
        for family in self.tables:
            found = self._claims[family].set_node_addresses(addresses.get(family, frozenset()))
            self._put_in(family, found, self._clock())

    def programmed(self, family: Family, done: Programmed) -> None:
        """A transaction is in the kernel."""
        metrics, now, put = self._metrics, self._clock(), self._put[family]
        metrics.transaction_duration.observe(done.seconds)
        metrics.transactions[family].inc()
        metrics.changed_elements[family].inc(done.elements)
        there = self._programmed[family]
        for service, after in done.services.items():
            since = put.pop(service, None)
            if since is not None:
                metrics.sync_duration.observe(now - since)
            if (trigger := self._triggers.pop(service, None)) is not None:
                metrics.programming_duration.observe(max(0.0, (self._now() - trigger).total_seconds()))
            before = there.get(service)
            if after is None:
                there.pop(service, None)
            else:
                there[service] = after
            if before is not after:
                self._after(service, before, after)

    def refused(self, family: Family, service: ObjectKey) -> None:
        """The kernel does not take a Service as it is: that is told, and nothing waits for it."""
        self._put[family].pop(service, None)
        self._triggers.pop(service, None)

    # --- work ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. Begins once every kind was listed."""
        await self._known.synced.wait()
        limiter = RateLimiter(per_second=CALM, burst=BURST, now=self._clock())
        while True:
            await self._select()
            self.selected.set()
            await self._something.wait()
            if not limiter.try_accept(self._clock()):
                await self._sleep(GATHERED)
            self._something.clear()

    async def _select(self) -> None:
        number = 0
        while self._changed:
            service, since = next(iter(self._changed.items()))
            del self._changed[service]
            self._put_one(service, since)
            number += 1
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    def _put_one(self, service: ObjectKey, since: float) -> None:
        try:
            found = self._known.served(service)
        except TooLarge as error:
            found = self._left(service, error)
        except Exception as error:
            self._unexpected.error("a Service could not be selected for: it stays as it was", service, error)
            if service not in self.left_out:
                self._on_selection_failed(service, f"{type(error).__name__}: {error}")
            self.left_out.add(service)
            self._tries[service] = tries = self._tries.get(service, 0) + 1
            asyncio.get_running_loop().call_later(BACKOFF.delay(tries), self.changed, service)
            return
        else:
            self.too_large.pop(service, None)
        self.left_out.discard(service)
        self._tries.pop(service, None)
        for family in self.tables:
            self._put_in(family, self._claims[family].put(service, found.get(family)), since)
        if not any(service in put for put in self._put.values()):
            self._triggers.pop(service, None)

    def _left(self, service: ObjectKey, error: TooLarge) -> dict[Family, Served]:
        """What stays of one that is too large: the ports and addresses that it had, and those of its endpoints that are
        still there."""
        is_new = service not in self.too_large
        self.too_large[service] = error
        if is_new:
            self._on_too_large(service, error)
        return {
            family: with_endpoints(asked, error.addresses)
            for family, claims in self._claims.items()
            if (asked := claims.asked(service)) is not None
        }

    def _put_in(self, family: Family, found: Mapping[ObjectKey, Served | None], since: float) -> None:
        """Services as they are served from now on, in one family."""
        before, table = self._served[family], self.tables[family]
        for service, served in found.items():
            self._look_at_lost(family, service)
            if served == before.get(service):
                continue
            if served is None:
                del before[service]
            else:
                before[service] = served
            # It may be refused at once.
            self._put[family].setdefault(service, since)
            table.put(service, served)

    def _look_at_lost(self, family: Family, service: ObjectKey) -> None:
        before, what = self.lost[family], self._claims[family].lost(service)
        if what == before.get(service, ()):
            return
        if what:
            before[service] = what
        else:
            del before[service]
        self._on_lost(family, service, what)


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
