"""Measured traffic: where real connections went, from what nodes counted, to compare with expected traffic.

Shares are of connections, each counted alike, whichever node or zone it came from: the share that stayed in its zone is
the one that a bill for traffic between zones shows. Expected traffic starts in proportion to demand;
`predicted_in_zone_share` is what is expected where it starts as it really did.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zoneward.kube.demand import DemandFigures, MeasuredTraffic, Time
from zoneward.kube.objects import ObjectKey
from zoneward.routing.phrases import counted
from zoneward.routing.selection.expected_traffic import ExpectedTraffic

_Service = tuple[str, str, str]
"""Namespace, name, type of addresses."""


@dataclass(frozen=True, slots=True)
class ZoneMeasurement:
    """Connections that started in one zone. ``to``: by the zone of the endpoint, ``""`` where it is unknown."""

    to: Mapping[str, int]
    in_zone: int

    @property
    def connections(self) -> int:
        return sum(self.to.values())

    @property
    def share(self) -> float | None:
        """The share that stayed in the zone; None without connections."""
        return self.in_zone / self.connections if self.connections else None


@dataclass(frozen=True, slots=True)
class ServiceMeasurement:
    """One Service in one family. ``zones``: by where connections started (``""``: on nodes without a zone).

    ``external``: connections to other addresses than the Service's own; no other figure includes them.
    """

    zones: Mapping[str, ZoneMeasurement]
    external: int = 0

    @property
    def connections(self) -> int:
        return sum(zone.connections for zone in self.zones.values())

    @property
    def share(self) -> float | None:
        """The share of all connections that stayed in their zone; None without connections."""
        total = self.connections
        return sum(zone.in_zone for zone in self.zones.values()) / total if total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficMeasurements:
    """All documents together. ``nodes``: by zone; ``incomplete``: nodes whose kernel had no room for all counters."""

    services: Mapping[_Service, ServiceMeasurement]
    nodes: Mapping[str, frozenset[str]]
    since: Time
    until: Time
    incomplete: frozenset[str] = frozenset()

    def of(self, namespace: str, name: str, address_type: str) -> ServiceMeasurement | None:
        """The measurement of one Service; None without connections."""
        return self.services.get((namespace, name, address_type))

    def missing(self, zones: Iterable[str]) -> tuple[str, ...]:
        """The zones of ``zones`` that no document covers."""
        return tuple(zone for zone in zones if zone not in self.nodes)


def latest_documents(documents: Iterable[MeasuredTraffic]) -> tuple[MeasuredTraffic, ...]:
    """Of one node's documents that begin at the same moment only the last one: it continues the others."""
    last: dict[tuple[str, Time], MeasuredTraffic] = {}
    for document in documents:
        other = last.get((document.node, document.since))
        if other is None or other.until <= document.until:
            last[document.node, document.since] = document
    return tuple(last.values())


def combine_measurements(documents: Iterable[MeasuredTraffic]) -> TrafficMeasurements | None:
    """Combine all `latest_documents`; None where there are none."""
    last = latest_documents(documents)
    if not last:
        return None
    nodes: dict[str, set[str]] = {}
    counts: dict[_Service, dict[str, dict[str, int]]] = {}
    external: dict[_Service, int] = {}
    for document in last:
        zone = document.zone or ""
        nodes.setdefault(zone, set()).add(document.node)
        for service in document.services:
            key = service.namespace, service.service, service.address_type
            to = counts.setdefault(key, {}).setdefault(zone, {})
            for there, count in service.zones.items():
                to[there] = to.get(there, 0) + count
            external[key] = external.get(key, 0) + sum(service.external.values())
    return TrafficMeasurements(
        services={
            key: ServiceMeasurement(
                {zone: ZoneMeasurement(to, to.get(zone, 0) if zone else 0) for zone, to in sorted(zones.items())},
                external[key],
            )
            for key, zones in counts.items()
        },
        nodes={zone: frozenset(names) for zone, names in sorted(nodes.items())},
        since=min(document.since for document in last),
        until=max(document.until for document in last),
        incomplete=frozenset(document.node for document in last if not document.complete),
    )


def predicted_in_zone_share(measured: ServiceMeasurement, traffic: ExpectedTraffic) -> float | None:
    """The share of connections expected to stay in their zone if they start where the measured ones did.

    None where no connection was measured in a zone with expected traffic.
    """
    total, in_zone = 0, 0.0
    for zone, zone_measurement in measured.zones.items():
        predicted = traffic.zones.get(zone)
        if predicted is not None and predicted.in_zone is not None:
            total += zone_measurement.connections
            in_zone += zone_measurement.connections * predicted.in_zone
    return in_zone / total if total else None


def demand_figures(measurements: TrafficMeasurements) -> DemandFigures:
    """Where the connections to each Service started, both families together.

    Those that came from outside the cluster are not in it, nor those that started on nodes without a zone.
    """
    amounts: dict[ObjectKey, dict[str, float]] = {}
    without_zone = 0
    for (namespace, name, _), service in measurements.services.items():
        for zone, zone_measurement in service.zones.items():
            if not zone:
                without_zone += zone_measurement.connections
            elif zone_measurement.connections:
                sums = amounts.setdefault((namespace, name), {})
                sums[zone] = sums.get(zone, 0.0) + zone_measurement.connections
    notes = []
    if without_zone:
        notes.append(f"{counted(without_zone, 'connection')} from nodes without a zone count for nothing")
    if measurements.incomplete:
        notes.append(f"{counted(len(measurements.incomplete), 'node')} had no room for all counters")
    return DemandFigures(amounts, tuple(notes))
