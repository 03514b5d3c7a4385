"""What became of the connections from this node, by Service and by the zone of the endpoint, since the proxy began.

The kernel counts (`zoneward.proxy.measure.connections`) and forgets what is not used for an hour; here its counts are
added up, by what they grew since they were last looked at. What it counted before that first look is not in here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from zoneward.kube.measured_traffic import MeasuredTraffic, ServiceTraffic
from zoneward.netlink.messages import Family
from zoneward.proxy.measure.connection_counts import Connection, connection, counts
from zoneward.proxy.measure.connections import MOST
from zoneward.proxy.model.served import ADDRESS_TYPES, ObjectKey

EVERY: Final = 15.0
"""Seconds between two looks. An endpoint is told of for longer than that after its last connection, as one that
terminates: so its zone is still known.
"""
ServiceOf = Callable[[Family, Connection], tuple[ObjectKey, bool] | None]
"""The Service that was asked for, and whether it was asked for by its own address (a cluster IP); None: nobody's."""
ZoneOf = Callable[[ObjectKey, str], str | None]
"""The zone of an endpoint of a Service, by its address; None: nobody knows it."""


@dataclass(slots=True)
class _Seen:
    """An element: its count as it was last seen, and what it turned out to be."""

    count: int
    service: tuple[ObjectKey, bool] | None = None
    zone: str | None = None
    is_absent: bool = False


@dataclass(slots=True)
class _Totals:
    internal: dict[str, int] = field(default_factory=dict)
    external: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Total:
    """Connections to endpoints of one zone (``""``: nobody knows it). ``internal``: by the Service's own address."""

    service: ObjectKey
    family: Family
    internal: bool
    zone: str
    connections: int


class Measuring:
    """`take` what the kernel tells, every `EVERY` seconds, and once as soon as the tables are there."""

    def __init__(self, *, since: datetime, service_of: ServiceOf, zone_of: ZoneOf) -> None:
        self._since = self._until = since
        self._service_of, self._zone_of = service_of, zone_of
        self._seen: dict[Family, dict[bytes, _Seen]] = {}
        self._totals: dict[tuple[ObjectKey, Family], _Totals] = {}
        self._is_complete = True

    def take(self, family: Family, answer: bytes, *, now: datetime) -> None:
        """An answer to a request for the elements of the set `CONNECTIONS`."""
        found = counts(answer)
        self._until = max(self._until, now)
        if len(found) >= MOST:
            self._is_complete = False
        seen = self._seen.get(family)
        if seen is None:
            self._seen[family] = {key: _Seen(count) for key, count in found.items()}
            return
        for key, count in found.items():
            last = seen.get(key)
            if last is None:
                last = seen[key] = _Seen(0)
            last.is_absent = False
            if count != last.count:
                # One that is less than before began anew.
                self._add(family, key, last, count - last.count if count > last.count else count)
                last.count = count
        for key in [key for key in seen if key not in found]:
            # A kernel that makes room meanwhile may leave one out by chance, but not twice.
            if seen[key].is_absent:
                del seen[key]
            else:
                seen[key].is_absent = True

    def forget(self, is_gone: Callable[[ObjectKey], bool]) -> None:
        """What was counted for Services that are gone; also what of theirs was counted after they were."""
        gone = [each for each in self._totals if is_gone(each[0])]
        for each in gone:
            del self._totals[each]
        if gone:
            for last in (one for seen in self._seen.values() for one in seen.values()):
                # Another Service may have the address by now.
                if last.service is not None and is_gone(last.service[0]):
                    last.service = None

    def totals(self) -> Iterator[Total]:
        """Each only grows, until its Service is forgotten."""
        for (service, family), totals in sorted(self._totals.items()):
            for internal, zones in ((True, totals.internal), (False, totals.external)):
                for zone, number in sorted(zones.items()):
                    yield Total(service, family, internal, zone, number)

    def document(self, *, node: str, zone: str | None) -> MeasuredTraffic:
        """What there is to tell by the last look, for ``plan --measured``."""
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
                    address_type="IPv4" if ADDRESS_TYPES[family] == "IPv4" else "IPv6",
                    zones=dict(sorted(totals.internal.items())),
                    external=dict(sorted(totals.external.items())),
                )
                for ((namespace, name), family), totals in sorted(self._totals.items())
            ),
        )

    def _add(self, family: Family, key: bytes, seen: _Seen, number: int) -> None:
        if seen.service is None or seen.zone is None:
            one = connection(family, key)
            seen.service = seen.service or self._service_of(family, one)
            if seen.service is None:
                # Sent on by somebody else's rules.
                return
            seen.zone = self._zone_of(seen.service[0], one.endpoint)
        service, internal = seen.service
        totals = self._totals.setdefault((service, family), _Totals())
        zones = totals.internal if internal else totals.external
        zone = seen.zone or ""
        zones[zone] = zones.get(zone, 0) + number
