"""Traffic to Services: what is expected from the endpoints that each node's proxy selects, and what nodes measured.

Traffic is what Pods send to the Service's own address; traffic from outside the cluster is not included. Expected
traffic starts in zones (and on nodes) in proportion to demand, and the proxy there spreads it over what it selects,
evenly or by weights.

Measured shares are of connections, each counted alike, whichever node or zone it came from: the share that stayed in
its zone is the one that a bill for traffic between zones shows. `predicted_in_zone_share` is what is expected where
traffic starts as it really did.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from types import MappingProxyType

import msgspec

from zoneward.kube.demand import DemandFigures, MeasuredTraffic, ServiceTraffic, Time
from zoneward.kube.objects import Endpoint, EndpointSlice, ObjectKey, Service, is_ready, is_serving, is_terminating
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.demand import Demand, NodeDemand
from zoneward.routing.phrases import counted
from zoneward.routing.selection.endpoint_selection import (
    Consumer,
    EndpointSelector,
    HonoredHints,
    Policies,
    endpoints_of_all_ports,
    honored_hints,
    is_proxied,
    policies_of,
    slice_groups,
    usable_zone_weights,
)
from zoneward.routing.zone_groups import ZoneGroup

# --- expected ---------------------------------------------------------------------------------------------------------


class ExpectedZoneTraffic(msgspec.Struct, frozen=True, gc=False):
    """One zone: its share of all traffic, the endpoints located there, and those its proxies select.

    ``consumed`` counts every endpoint that some proxy of the zone selects. ``expected`` is the fair number, demand
    times all endpoints; ``overload`` is expected / consumed - 1, negative where the zone has more than its fair part,
    and None where it has no demand or selects nothing. ``in_zone``: the share of the zone's traffic that stays in the
    zone; None where it has no demand, and where the zone of the clients or of every endpoint in use is not known.
    ``load``: what an endpoint located there gets on the mean, over a fair part (1.0); None where none is located.
    ``selected`` and ``to``: the endpoints that its proxies select and the shares of the zone's traffic, by the zone of
    the endpoints. ``dropped``: the share of the zone's traffic for which there is no endpoint.
    """

    demand: float
    located: int
    consumed: int
    expected: float
    overload: float | None
    in_zone: float | None = None
    load: float | None = None
    selected: Mapping[str, int] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    to: Mapping[str, float] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    dropped: float = 0.0


class ExpectedTraffic(msgspec.Struct, frozen=True, gc=False):
    """The zones where traffic to a Service starts and ends. Shares are of all requests; ``served`` and ``dropped`` add
    up to 1, and each is exactly 0 or 1 where it is nothing or all.

    ``in_zone`` is None where it is not known: no node from which traffic starts has a zone, or no endpoint in use.
    ``load`` has a share for every endpoint in use, and the overload of an endpoint is its load over a fair one, minus
    1: ``max_overload`` is the worst, never below 0; ``mean_overload`` the mean distance from fair, in both directions.
    """

    zones: dict[str, ExpectedZoneTraffic]
    load: tuple[float, ...]
    in_zone: float | None
    served: float
    dropped: float
    max_overload: float
    mean_overload: float

    @property
    def busiest_load(self) -> float:
        """The share of the endpoint that gets the most; 0 where none gets any."""
        return max(self.load, default=0.0)


@dataclass(frozen=True, slots=True)
class ConsumerDemand:
    """The proxies of one kind, and the demand of their nodes."""

    consumer: Consumer
    demand: Demand


def split_demand(
    demand: Demand, consumer: Consumer, consumer_by_node: Mapping[str, Consumer] = MappingProxyType({})
) -> tuple[ConsumerDemand, ...]:
    """Demand by the kind of proxy: that of its node in ``consumer_by_node``, ``consumer`` on all other nodes.

    Kinds are in the order of their first node. Demand without Nodes behind it is that of ``consumer``.
    """
    by_kind: dict[Consumer, list[NodeDemand]] = {}
    for node in demand.nodes:
        by_kind.setdefault(consumer_by_node.get(node.name, consumer), []).append(node)
    if len(by_kind) < 2:
        return (ConsumerDemand(next(iter(by_kind), consumer), demand),)
    return tuple(ConsumerDemand(kind, demand.only(nodes)) for kind, nodes in by_kind.items())


def predict_service_traffic(
    service: Service, slices: Sequence[EndpointSlice], *, consumers: Iterable[ConsumerDemand], gates: FeatureGates
) -> ExpectedTraffic | None:
    """What proxies do with all slices of a Service in one address family. None for a Service that they ignore
    (headless), and without demand.
    """
    if not is_proxied(service):
        return None
    readings = []
    for consumer in consumers:
        honored = honored_hints(service, consumer.consumer, gates)
        groups, weights = slice_groups(slices, consumer.consumer, gates), usable_zone_weights(slices, honored)
        readings.append(SliceReading(consumer.demand, honored, groups, weights))
    return predict_traffic(endpoints_of_all_ports(slices), readings=readings, policies=policies_of(service, gates))


class SliceReading(msgspec.Struct, frozen=True, gc=False):
    """What the proxies of one kind read in the slices of a Service, and the demand of their nodes."""

    demand: Demand
    honored: HonoredHints
    groups: Mapping[int, ZoneGroup] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    zone_weights: ZoneWeights | None = None


def predict_traffic(
    endpoints: Sequence[Endpoint], *, readings: Sequence[SliceReading], policies: Policies
) -> ExpectedTraffic | None:
    """Predict for the endpoints of a Service (each address once), as every kind of proxy reads their slices. None
    where no demand is known.

    Demand of nodes without a zone counts as that of the zone ``""``.
    """
    total = sum(sum(reading.demand.weight_by_zone.values()) for reading in readings)
    if not total:
        return None
    selectors = {
        id(reading): EndpointSelector(
            endpoints,
            policies=policies,
            honored=reading.honored,
            groups=reading.groups,
            zone_weights=reading.zone_weights,
        )
        for reading in readings
    }
    picked: dict[int, int] = {id(endpoint): index for index, endpoint in enumerate(endpoints)}
    located_in = [endpoint.zone or "" for endpoint in endpoints]
    load = [0.0] * len(endpoints)
    zone_weight: dict[str, int] = {}
    dropped_weight: dict[str, int] = {}
    zone_picks: dict[str, set[int]] = {}
    # Sums do not depend on the order of endpoints, to the last digit.
    zone_to: dict[str, dict[str, list[float]]] = {}
    for reading, zone, node, weight in _consumers(endpoints, readings, policies):
        selection = selectors[id(reading)].select(node, zone or None)
        chosen = (selection.local if policies.internal_local else selection.cluster) or ()
        share = weight / total
        zone_weight[zone] = zone_weight.get(zone, 0) + weight
        numbers = list(map(picked.__getitem__, map(id, chosen)))
        zone_picks.setdefault(zone, set()).update(numbers)
        if not chosen:
            dropped_weight[zone] = dropped_weight.get(zone, 0) + weight
            continue
        weights = None if policies.internal_local else selection.weights
        to = zone_to.setdefault(zone, {})
        if weights:
            per_endpoint = share / fsum(weights)
            for index, endpoint_weight in zip(numbers, weights, strict=True):
                part = per_endpoint * endpoint_weight
                load[index] += part
                to.setdefault(located_in[index], []).append(part)
        else:
            per_endpoint = share / len(chosen)
            for index in numbers:
                load[index] += per_endpoint
            for located, count in Counter(map(located_in.__getitem__, numbers)).items():
                to.setdefault(located, []).append(count * per_endpoint)
    flows = {zone: {located: fsum(parts) for located, parts in to.items()} for zone, to in zone_to.items()}
    return _traffic(endpoints, located_in, load, total, zone_weight, dropped_weight, zone_picks, flows)


def _consumers(
    endpoints: Sequence[Endpoint], readings: Sequence[SliceReading], policies: Policies
) -> Iterator[tuple[SliceReading, str, str, int]]:
    """(reading, zone, node, weight) of every proxy, or of every group of proxies that must select the same.

    Only where nodes matter (node hints, or an internal policy of Local) nodes select for themselves, and then only
    those that have an endpoint: all others of a zone are one group, on a node without a name.
    """
    located = {endpoint.node_name for endpoint in endpoints if endpoint.node_name} if policies.internal_local else set()
    for reading in readings:
        named = located
        if not policies.internal_local and reading.honored.nodes:
            named = {hint.name for endpoint in endpoints if endpoint.hints for hint in endpoint.hints.for_nodes or ()}
        grouped = dict(reading.demand.weight_by_zone)
        for name in sorted(named):
            node = reading.demand.node_of.get(name)
            if node is not None:
                grouped[node.zone or ""] -= node.weight
                yield reading, node.zone or "", node.name, node.weight
        for zone, weight in grouped.items():
            if weight:
                yield reading, zone, "", weight


def _traffic(
    endpoints: Sequence[Endpoint],
    located_in: Sequence[str],
    load: Sequence[float],
    total: int,
    weights: dict[str, int],
    dropped: dict[str, int],
    picks: dict[str, set[int]],
    flows: dict[str, dict[str, float]],
) -> ExpectedTraffic:
    usable = [is_ready(endpoint) for endpoint in endpoints]
    if not any(usable):
        usable = [is_serving(endpoint) and is_terminating(endpoint) for endpoint in endpoints]
    used = [share for share, use in zip(load, usable, strict=True) if use]
    has_zones = not used or any(zone for zone, use in zip(located_in, usable, strict=True) if use)
    located: dict[str, int] = dict.fromkeys(weights, 0)
    received: dict[str, float] = {}
    for zone, use, part in zip(located_in, usable, load, strict=True):
        if use:
            located[zone] = located.get(zone, 0) + 1
            received[zone] = received.get(zone, 0.0) + part
    zones = {}
    selected = {
        zone: dict(sorted(Counter(map(located_in.__getitem__, picked)).items())) for zone, picked in picks.items()
    }
    for zone in sorted(located):
        weight = weights.get(zone, 0)
        share = weight / total
        consumed = len(picks.get(zone, ()))
        expected = share * len(used)
        flow = flows.get(zone, {})
        zones[zone] = ExpectedZoneTraffic(
            demand=share,
            located=located[zone],
            consumed=consumed,
            expected=expected,
            overload=expected / consumed - 1 if share and consumed else None,
            in_zone=flow.get(zone, 0.0) / share if share and zone and has_zones else None,
            load=received[zone] * len(used) / located[zone] if located[zone] else None,
            selected=selected.get(zone, {}),
            to={located: part / share for located, part in sorted(flow.items())} if share else {},
            dropped=dropped.get(zone, 0) / weight if weight else 0.0,
        )
    dropped_weight = sum(dropped.values())
    deviations = [share * len(used) - 1 for share in used]
    return ExpectedTraffic(
        zones=zones,
        load=tuple(load),
        in_zone=fsum(flow.get(zone, 0.0) for zone, flow in flows.items() if zone)
        if has_zones and any(zone for zone, weight in weights.items() if weight)
        else None,
        served=(total - dropped_weight) / total,
        dropped=dropped_weight / total,
        max_overload=max(0.0, *deviations) if deviations else 0.0,
        mean_overload=fsum(map(abs, deviations)) / len(used) if used else 0.0,
    )


# --- measured ---------------------------------------------------------------------------------------------------------


_Service = tuple[str, str, str]
"""Namespace, name, type of addresses."""


@dataclass(frozen=True, slots=True)
class ZoneMeasurement:
    """Connections that started in one zone. ``to``: by the zone of the endpoint, ``""`` where it is unknown.
    ``in_zone``: those that stayed there; None for nodes without a zone, of which nobody knows. ``started``: as many as
    if all nodes had counted for as long as the one that did for the longest time.
    """

    to: Mapping[str, int]
    in_zone: int | None
    started: int

    @property
    def connections(self) -> int:
        return sum(self.to.values())

    @property
    def share(self) -> float | None:
        """The share that stayed in the zone; None without connections, and where it is unknown."""
        return self.in_zone / self.connections if self.in_zone is not None and self.connections else None


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
    def from_known_zones(self) -> int:
        return sum(zone.connections for zone in self.zones.values() if zone.in_zone is not None)

    @property
    def share(self) -> float | None:
        """The share of the connections `from_known_zones` that stayed in their zone; None without any."""
        total = self.from_known_zones
        return sum(zone.in_zone or 0 for zone in self.zones.values()) / total if total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficMeasurements:
    """All documents together. ``nodes``: by zone; ``incomplete``: nodes that did not count everything."""

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


def hours_counted(documents: Iterable[MeasuredTraffic]) -> dict[str, float]:
    """By node; one counted for the time of all of its documents."""
    hours: dict[str, float] = {}
    for document in documents:
        duration = max((document.until - document.since).total_seconds(), 0.0) / 3600
        hours[document.node] = hours.get(document.node, 0.0) + duration
    return hours


def started_in(service: ServiceTraffic, hours: float, longest: float) -> int:
    """The connections that a node counted in some hours, as many as if it had counted for the ``longest`` time of any
    node; as they are where it counted for no time."""
    return round(sum(service.zones.values()) * (longest / hours if hours else 1.0))


def combine_measurements(documents: Iterable[MeasuredTraffic]) -> TrafficMeasurements | None:
    """Combine all `latest_documents`; None where there are none."""
    last = latest_documents(documents)
    if not last:
        return None
    hours = hours_counted(last)
    longest = max(hours.values())
    nodes: dict[str, set[str]] = {}
    counts: dict[_Service, dict[str, dict[str, int]]] = {}
    started: dict[tuple[_Service, str], int] = {}
    external: dict[_Service, int] = {}
    for document in last:
        zone = document.zone or ""
        nodes.setdefault(zone, set()).add(document.node)
        for service in document.services:
            key = service.namespace, service.service, service.address_type
            to = counts.setdefault(key, {}).setdefault(zone, {})
            for located, count in service.zones.items():
                to[located] = to.get(located, 0) + count
            started[key, zone] = started.get((key, zone), 0) + started_in(service, hours[document.node], longest)
            external[key] = external.get(key, 0) + sum(service.external.values())
    return TrafficMeasurements(
        services={
            key: ServiceMeasurement(
                {
                    zone: ZoneMeasurement(to, to.get(zone, 0) if zone else None, started[key, zone])
                    for zone, to in sorted(zones.items())
                },
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
    """Where the connections to each Service start, in the same time on all nodes, both families together.

    Those that came from outside the cluster are not in it, nor those that started on nodes without a zone.
    """
    amounts: dict[ObjectKey, dict[str, float]] = {}
    without_zone = 0
    for (namespace, name, _), service in measurements.services.items():
        for zone, zone_measurement in service.zones.items():
            if not zone:
                without_zone += zone_measurement.connections
            elif zone_measurement.started:
                sums = amounts.setdefault((namespace, name), {})
                sums[zone] = sums.get(zone, 0.0) + zone_measurement.started
    notes = []
    if without_zone:
        notes.append(f"{counted(without_zone, 'connection')} from nodes without a zone count for nothing")
    if measurements.incomplete:
        notes.append(f"{counted(len(measurements.incomplete), 'node')} did not count everything")
    return DemandFigures(amounts, tuple(notes))
