"""Totals of the traffic that a node sent to Services, by where it started and where it went."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import UNSET

from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, TrafficBytes
from zoneward.kube.objects import ObjectKey
from zoneward.netlink.messages import ADDRESS_TYPES, Family

EXTERNAL: Final = "external"
"""In place of a zone: traffic from outside. No zone may have this name."""
MAX_TOTALS: Final = 20_000
"""Number of totals: Services times pairs of zones. Each is a series of connections and two of bytes."""
MAX_TOTALS_OF_SERVICE: Final = 64
"""Totals of one Service in one family: EndpointSlices may name any number of zones."""
GONE_SERVICE_AGE: Final = 300.0
"""Seconds for which the totals of a deleted Service are still shown, for the next scrapes."""


class TrafficRoute(NamedTuple):
    """``from_zone`` is `EXTERNAL` for traffic from outside, ``""`` on a node without a zone; ``to_zone``
    is ``""`` if it is unknown."""

    service: ObjectKey
    family: Family
    from_zone: str
    to_zone: str


@dataclass(slots=True)
class TrafficTotal:
    """Connections that began, and bytes of IP packets. ``has_bytes``: some of its flows have counters."""

    connections: int = 0
    request: int = 0
    response: int = 0
    has_bytes: bool = False


class TrafficTotals:
    """Ask for a `total` and add to it. Totals only grow, until their Service has been gone for `GONE_SERVICE_AGE`.

    Users can create any number of Services and zones. So traffic beyond ``limit`` totals is added to one total,
    `unlisted`, and traffic to more than `MAX_TOTALS_OF_SERVICE` zones of a Service to its unknown zone.
    """

    def __init__(self, *, since: datetime, limit: int = MAX_TOTALS) -> None:
        self.since: Final = since
        self.limit: Final = limit
        self.unlisted: Final = TrafficTotal()
        self._totals: dict[TrafficRoute, TrafficTotal] = {}
        self._number_of: Counter[tuple[ObjectKey, Family]] = Counter()
        self._gone_since: dict[ObjectKey, float] = {}

    def __len__(self) -> int:
        return len(self._totals)

    @property
    def has_bytes(self) -> bool:
        """Whether bytes of any flow were counted."""
        return any(total.has_bytes for total in self._totals.values())

    def total(self, route: TrafficRoute) -> TrafficTotal:
        total = self._totals.get(route)
        if total is not None:
            return total
        service = route.service, route.family
        if self._number_of[service] >= MAX_TOTALS_OF_SERVICE and route.to_zone:
            return self.total(route._replace(to_zone=""))
        if len(self._totals) >= self.limit:
            return self.unlisted
        self._number_of[service] += 1
        total = self._totals[route] = TrafficTotal()
        return total

    def forget_services(self, is_gone: Callable[[ObjectKey], bool], *, now: float) -> None:
        """Forget the totals of Services that have been gone for long. ``now`` in seconds, of any clock."""
        gone = {route.service for route in self._totals if is_gone(route.service)}
        self._gone_since = {service: self._gone_since.get(service, now) for service in gone}
        late = {service for service, since in self._gone_since.items() if now - since >= GONE_SERVICE_AGE}
        if late:
            self._totals = {route: total for route, total in self._totals.items() if route.service not in late}
            self._number_of = Counter((route.service, route.family) for route in self._totals)

    def totals(self) -> Iterator[tuple[TrafficRoute, TrafficTotal]]:
        """All of them, by Service; without those with nothing in them."""
        return ((route, total) for route, total in sorted(self._totals.items()) if total.connections or total.has_bytes)

    def document(self, *, node: str, zone: str | None, until: datetime, complete: bool) -> MeasuredTraffic:
        """The document for ``--measured``. ``zones`` has all traffic that started on the node, under any zone of it."""
        services: dict[tuple[ObjectKey, Family], list[tuple[TrafficRoute, TrafficTotal]]] = {}
        for route, total in self.totals():
            services.setdefault((route.service, route.family), []).append((route, total))
        return MeasuredTraffic(
            node=node,
            zone=zone,
            since=self.since,
            until=until,
            complete=complete and not self.unlisted.connections,
            services=tuple(_service_traffic(*key, totals) for key, totals in services.items()),
        )


def _service_traffic(
    service: ObjectKey, family: Family, totals: list[tuple[TrafficRoute, TrafficTotal]]
) -> ServiceTraffic:
    zones: dict[str, int] = {}
    external: dict[str, int] = {}
    zone_bytes: dict[str, TrafficBytes] = {}
    external_bytes: dict[str, TrafficBytes] = {}
    for route, total in totals:
        counts, sizes = (external, external_bytes) if route.from_zone == EXTERNAL else (zones, zone_bytes)
        zone = route.to_zone
        counts[zone] = counts.get(zone, 0) + total.connections
        if total.has_bytes:
            before = sizes.get(zone, TrafficBytes())
            sizes[zone] = TrafficBytes(before.request + total.request, before.response + total.response)
    has_bytes = bool(zone_bytes or external_bytes)
    namespace, name = service
    return ServiceTraffic(
        namespace=namespace,
        service=name,
        address_type=ADDRESS_TYPES[family],
        zones=zones,
        external=external,
        bytes=zone_bytes if has_bytes else UNSET,
        external_bytes=external_bytes if has_bytes else UNSET,
    )
