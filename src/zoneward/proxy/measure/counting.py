"""Connections that the kernel counted, gathered from it now and then, and told by Service and zone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, NoReturn

import msgspec

from zoneward.kube.objects import ObjectKey
from zoneward.netlink.messages import Family
from zoneward.proxy.kernel.applying import Kernel, Lost, Refused
from zoneward.proxy.kernel.kernel_elements import elements_request
from zoneward.proxy.measure.connection_counts import Connection
from zoneward.proxy.measure.connections import CONNECTIONS
from zoneward.proxy.measure.measured import EVERY, Measuring, Total
from zoneward.proxy.model.known import Known
from zoneward.proxy.model.places import places
from zoneward.proxy.model.served import Served
from zoneward.proxy.ruleset.base_rules import TABLE

_FRESH: Final = 1.0
"""Seconds for which a look is not repeated, however often somebody asks."""


class Counting:
    """Tell it what is `programmed`, and `run` it once the tables are there. Ask for a `document`, or for `totals`.

    ``on_trouble`` is told why the kernel could not be asked; it is asked again. ``now`` is the time of day.
    """

    def __init__(
        self,
        kernel: Kernel,
        families: Iterable[Family],
        *,
        known: Known,
        on_trouble: Callable[[str], None] = lambda _why: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kernel, self._families, self._known = kernel, tuple(families), known
        self._on_trouble, self._now, self._sleep = on_trouble, now, sleep
        self._clock = clock or asyncio.get_running_loop().time
        self._places = places()
        self._zones: dict[ObjectKey, dict[str, str | None]] = {}
        """Of endpoints, as long as a look takes: a Service of thousands is gone through once."""
        self._measuring = Measuring(since=now(), service_of=self._service_of, zone_of=self._zone_of)
        self._turn = asyncio.Lock()
        self._looked = float("-inf")

    def programmed(self, service: ObjectKey, family: Family, served: Served | None) -> None:
        """A Service as the kernel has it now; None: it is gone."""
        self._places[family].put(service, served)

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            await self.look()
            await self._sleep(EVERY)

    async def look(self) -> None:
        """Add what the kernel has counted since the last look."""
        async with self._turn:
            if self._clock() - self._looked < _FRESH:
                return
            try:
                for family in self._families:
                    answer = await self._kernel.ask(elements_request(family, TABLE, CONNECTIONS))
                    self._measuring.take(family, answer, now=self._now())
            except (Lost, Refused) as error:
                self._on_trouble(str(error))
            self._measuring.forget(lambda service: self._known.services.get(*service) is None)
            self._zones.clear()
            self._looked = self._clock()

    async def document(self) -> bytes:
        """For ``plan --measured``, as of now."""
        await self.look()
        return msgspec.json.encode(self._measuring.document(node=self._known.node.name, zone=self._known.node.zone))

    def totals(self) -> Iterator[Total]:
        """As of the last look."""
        return self._measuring.totals()

    def _service_of(self, family: Family, connection: Connection) -> tuple[ObjectKey, bool] | None:
        return self._places[family].service(connection.address, connection.protocol, connection.port)

    def _zone_of(self, service: ObjectKey, address: str) -> str | None:
        zones = self._zones.get(service)
        if zones is None:
            zones = self._zones[service] = {
                each: endpoint.zone for endpoint in self._known.endpoints(service) for each in endpoint.addresses or ()
            }
        return zones.get(address)
