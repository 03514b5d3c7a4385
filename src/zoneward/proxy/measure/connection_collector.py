"""Collects the connections that the kernel counted, and returns their totals by Service and zone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, NoReturn

import msgspec

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import elements_request
from zoneward.proxy.kernel.nft_client import KernelClient, KernelOutcomeUnknown, KernelRefused
from zoneward.proxy.measure.connection_set import CONNECTIONS_SET, CountedConnection
from zoneward.proxy.measure.connection_totals import POLL_PERIOD, ConnectionTotals, ZoneTotal
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.model.node_service import NodeService, ServiceAddress, ServiceKey
from zoneward.proxy.ruleset.base_rules import TABLE

_MIN_PERIOD: Final = 1.0
"""Seconds for which a look is not repeated, however often somebody asks."""


class ConnectionCollector:
    """Report Services with `service_programmed`, and `run` it once the tables are there; read `document` or `totals`.

    ``on_trouble`` gets why the kernel could not be asked; it is asked again. ``now`` is the time of day.
    """

    def __init__(
        self,
        kernel: KernelClient,
        families: Iterable[Family],
        *,
        cache: NodeCache,
        on_trouble: Callable[[str], None] = lambda _why: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kernel, self._families, self._cache = kernel, tuple(families), cache
        self._on_trouble, self._now, self._sleep = on_trouble, now, sleep
        self._clock = clock or asyncio.get_running_loop().time
        self._lookups = service_lookups()
        self._zones: dict[ServiceKey, dict[str, str | None]] = {}
        """Of endpoints, as long as a look takes: a Service of thousands is gone through once."""
        self._totals = ConnectionTotals(since=now(), service_of=self._service_of, zone_of=self._zone_of)
        self._lock = asyncio.Lock()
        self._polled_at = float("-inf")

    def service_programmed(self, service: ServiceKey, family: Family, served: NodeService | None) -> None:
        """The kernel has a Service like this now; None: it is gone."""
        self._lookups[family].set_service(service, served)

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            await self.poll()
            await self._sleep(POLL_PERIOD)

    async def poll(self) -> None:
        """Add what the kernel has counted since the last poll."""
        async with self._lock:
            if self._clock() - self._polled_at < _MIN_PERIOD:
                return
            try:
                for family in self._families:
                    answer = await self._kernel.query(elements_request(family, TABLE, CONNECTIONS_SET))
                    self._totals.add_counts(family, answer, now=self._now())
            except (KernelOutcomeUnknown, KernelRefused) as error:
                self._on_trouble(str(error))
            self._totals.forget_services(lambda service: self._cache.services.get(*service) is None)
            self._zones.clear()
            self._polled_at = self._clock()

    async def document(self) -> bytes:
        """For ``plan --measured``, as of now."""
        await self.poll()
        return msgspec.json.encode(self._totals.document(node=self._cache.node.name, zone=self._cache.node.zone))

    def totals(self) -> Iterator[ZoneTotal]:
        """As of the last look."""
        return self._totals.totals()

    def _service_of(self, family: Family, connection: CountedConnection) -> tuple[ServiceKey, bool] | None:
        return self._lookups[family].find(connection.address, connection.protocol, connection.port)

    def _zone_of(self, service: ServiceKey, address: str) -> str | None:
        zones = self._zones.get(service)
        if zones is None:
            zones = self._zones[service] = {
                each: endpoint.zone for endpoint in self._cache.endpoints(service) for each in endpoint.addresses or ()
            }
        return zones.get(address)


class ServiceLookup:
    """Finds the Service of an address, in one family. A port of the node is an address that is empty."""

    def __init__(self) -> None:
        self._services: dict[ServiceAddress, tuple[ServiceKey, bool]] = {}
        self._addresses: dict[ServiceKey, list[ServiceAddress]] = {}

    def set_service(self, service: ServiceKey, served: NodeService | None) -> None:
        """Record a Service as it is served now; None: it is gone."""
        for each in self._addresses.pop(service, ()):
            if self._services.get(each, (None,))[0] == service:
                del self._services[each]
        if served is None:
            return
        asked = self._addresses[service] = []
        for port in served.ports:
            asked.extend((address, port.protocol, port.port) for address in served.addresses(port))
            if port.node_port is not None:
                asked.append(("", port.protocol, port.node_port))
        for each in asked:
            self._services[each] = service, each[0] == served.cluster_ip

    def find(self, address: str, protocol: str, port: int) -> tuple[ServiceKey, bool] | None:
        """The Service, and whether the address is its own (a cluster IP); None: no known Service has it."""
        return self._services.get((address, protocol, port)) or self._services.get(("", protocol, port))


def service_lookups() -> dict[Family, ServiceLookup]:
    """One for each family."""
    return {"ip": ServiceLookup(), "ip6": ServiceLookup()}
