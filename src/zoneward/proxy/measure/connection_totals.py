"""Totals of the connections from this node, by Service and by the zone of the endpoint, since the proxy began.

The kernel counts (`zoneward.proxy.measure.connection_set`) and forgets what is not used for an hour; the totals add up
by how much its counts grew since they were last read. They do not include what it counted before the first reading.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from zoneward.kube.measured_traffic import MeasuredTraffic, ServiceTraffic
from zoneward.netlink.messages import ADDRESS_TYPES, Family
from zoneward.proxy.measure.connection_set import MAX_ELEMENTS, CountedConnection, parse_connection, parse_counts
from zoneward.proxy.model.node_service import ServiceKey

POLL_PERIOD: Final = 15.0
"""Seconds between two polls. A slice names an endpoint for longer than that after its last connection, as one that
terminates: so its zone is still known.
"""
ServiceOf = Callable[[Family, CountedConnection], tuple[ServiceKey, bool] | None]
"""The Service that was asked for, and whether it was asked for by its own address (a cluster IP); None: unknown."""
ZoneOf = Callable[[ServiceKey, str], str | None]
"""The zone of an endpoint of a Service, by its address; None: unknown."""


@dataclass(slots=True)
class _CountedElement:
    """An element: its count as it was last read, and the Service and zone that it belongs to."""

    count: int
    service: tuple[ServiceKey, bool] | None = None
    zone: str | None = None
    is_absent: bool = False


@dataclass(slots=True)
class _ServiceTotals:
    internal: dict[str, int] = field(default_factory=dict)
    external: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ZoneTotal:
    """Connections to endpoints of one zone (``""``: unknown). ``internal``: to the Service's own address."""

    service: ServiceKey
    family: Family
    internal: bool
    zone: str
    connections: int


class ConnectionTotals:
    """`add_counts` of what the kernel counted, every `POLL_PERIOD` seconds, and once when the tables are there."""

    def __init__(self, *, since: datetime, service_of: ServiceOf, zone_of: ZoneOf) -> None:
        self._since = self._until = since
        self._service_of, self._zone_of = service_of, zone_of
        self._counted: dict[Family, dict[bytes, _CountedElement]] = {}
        self._totals: dict[tuple[ServiceKey, Family], _ServiceTotals] = {}
        self._is_complete = True

    def add_counts(self, family: Family, answer: bytes, *, now: datetime) -> None:
        """Add an answer to a request for the elements of `CONNECTIONS_SET`."""
        found = parse_counts(answer)
        self._until = max(self._until, now)
        if len(found) >= MAX_ELEMENTS:
            self._is_complete = False
        counted = self._counted.get(family)
        if counted is None:
            self._counted[family] = {key: _CountedElement(count) for key, count in found.items()}
            return
        for key, count in found.items():
            last = counted.get(key)
            if last is None:
                last = counted[key] = _CountedElement(0)
            last.is_absent = False
            if count != last.count:
                # One that is less than before began anew.
                self._add_element(family, key, last, count - last.count if count > last.count else count)
                last.count = count
        for key in [key for key in counted if key not in found]:
            # A kernel that makes room meanwhile may leave one out by chance, but not twice.
            if counted[key].is_absent:
                del counted[key]
            else:
                counted[key].is_absent = True

    def forget_services(self, is_gone: Callable[[ServiceKey], bool]) -> None:
        """Forget the totals of Services that are gone, and what was counted for them after they were."""
        gone = [each for each in self._totals if is_gone(each[0])]
        for each in gone:
            del self._totals[each]
        if gone:
            for last in (one for counted in self._counted.values() for one in counted.values()):
                # Another Service may have the address by now.
                if last.service is not None and is_gone(last.service[0]):
                    last.service = None

    def totals(self) -> Iterator[ZoneTotal]:
        """Each total only grows, until its Service is forgotten."""
        for (service, family), totals in sorted(self._totals.items()):
            for internal, zones in ((True, totals.internal), (False, totals.external)):
                for zone, number in sorted(zones.items()):
                    yield ZoneTotal(service, family, internal, zone, number)

    def document(self, *, node: str, zone: str | None) -> MeasuredTraffic:
        """The document for ``plan --measured``, as of the last reading."""
        return MeasuredTraffic(
            node=node,
            zone=zone,
            since=self._since,
            until=self._until,
            complete=self._is_complete,
            services=tuple(
                ServiceTraffic(
                    namespace=namespace,
                    service=name,
                    address_type=ADDRESS_TYPES[family],
                    zones=dict(sorted(totals.internal.items())),
                    external=dict(sorted(totals.external.items())),
                )
                for ((namespace, name), family), totals in sorted(self._totals.items())
            ),
        )

    def _add_element(self, family: Family, key: bytes, counted: _CountedElement, number: int) -> None:
        if counted.service is None or counted.zone is None:
            one = parse_connection(family, key)
            counted.service = counted.service or self._service_of(family, one)
            if counted.service is None:
                # Sent on by somebody else's rules.
                return
            counted.zone = self._zone_of(counted.service[0], one.endpoint)
        service, internal = counted.service
        totals = self._totals.setdefault((service, family), _ServiceTotals())
        zones = totals.internal if internal else totals.external
        zone = counted.zone or ""
        zones[zone] = zones.get(zone, 0) + number
