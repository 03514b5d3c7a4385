"""Measured traffic by Service, from zone to zone, as an amount a month: bytes, or connections where there are none.

A month is 730 hours, a twelfth of a year. What a node counted is scaled by the time in which it did. Nodes that counted
nothing are not made up: all amounts are of the nodes that did.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, Time
from zoneward.kube.objects import ObjectKey
from zoneward.routing.demand import Demand
from zoneward.routing.selection.traffic import latest_documents

HOURS_IN_MONTH: Final = 730
ServiceFamily = tuple[str, str, str]
"""Namespace, name, type of addresses."""
ZonePair = tuple[str, str]
"""Where traffic starts and where its endpoint is; ``""`` is unknown."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic from one zone to one zone. ``connections``: those counted, not a month's; ``request`` and ``response``:
    bytes a month. Without bytes ``request`` is connections a month, and ``response`` nothing."""

    connections: int
    request: float
    response: float

    @property
    def amount(self) -> float:
        return self.request + self.response


@dataclass(frozen=True, slots=True)
class ServiceFlows:
    """One Service in one family. ``flows`` start on nodes; ``external`` came from outside of the cluster, and are by
    the zone of the node that took them in. ``connections``: of ``flows``, by node and by the zone of the endpoint.
    """

    flows: Mapping[ZonePair, Flow]
    external: Mapping[ZonePair, Flow]
    connections: Mapping[str, Mapping[str, int]]

    @property
    def known(self) -> dict[ZonePair, Flow]:
        """The flows between known zones."""
        return between_known_zones(self.flows)

    @property
    def unknown(self) -> float:
        """The amount that starts or ends in an unknown zone."""
        return sum(flow.amount for pair, flow in self.flows.items() if not all(pair))


def between_known_zones(flows: Mapping[ZonePair, Flow]) -> dict[ZonePair, Flow]:
    return {pair: flow for pair, flow in flows.items() if all(pair)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFlows:
    """All documents together.

    ``has_bytes``: amounts are bytes, and ``without_bytes`` are the nodes that count none, which are in no amount.
    ``zone_of`` has the zone of every node with a document, ``timeless`` those whose documents cover no time.
    ``shortest`` and ``longest``: hours that a node's documents cover. ``incomplete``: nodes whose kernel had no room
    for all counters.
    """

    services: Mapping[ServiceFamily, ServiceFlows]
    has_bytes: bool
    zone_of: Mapping[str, str | None]
    since: Time
    until: Time
    shortest: float
    longest: float
    without_bytes: frozenset[str] = frozenset()
    timeless: frozenset[str] = frozenset()
    incomplete: frozenset[str] = frozenset()

    @property
    def counting(self) -> frozenset[str]:
        """The nodes whose documents are in amounts."""
        return frozenset(self.zone_of) - self.without_bytes - self.timeless

    def demand_parts(self, demand: Demand) -> dict[ObjectKey, dict[str, Fraction]]:
        """Where the traffic of each Service starts, in connections: this is what loads its endpoints.

        A zone whose connections all began before it was measured has one. Where only some nodes of a zone were
        measured, the others are expected to be like them, and zones of which nothing is measured like all others, in
        proportion to their weight in the ``demand`` of the cluster.
        """
        parts: dict[ObjectKey, dict[str, Fraction]] = {}
        for (namespace, name, _), service in self.services.items():
            own = parts.setdefault((namespace, name), {})
            for zone, count in _started(service).items():
                own[zone] = own.get(zone, Fraction(0)) + count
        weights = self._measured_weights(demand)
        return {key: _whole_cluster(own, weights, demand) for key, own in parts.items() if own}

    def _measured_weights(self, demand: Demand) -> dict[str, int]:
        """The weight of the measured nodes in each zone; all of the demand where there is none."""
        counting = self.counting
        weights: dict[str, int] = {}
        for node in demand.nodes:
            if node.zone and node.name in counting:
                weights[node.zone] = weights.get(node.zone, 0) + node.weight
        return weights


def _whole_cluster(parts: Mapping[str, Fraction], measured: Mapping[str, int], demand: Demand) -> dict[str, Fraction]:
    whole = {
        zone: part * Fraction(demand.weight_of.get(zone, 0) or 1, measured[zone]) if measured.get(zone) else part
        for zone, part in parts.items()
    }
    weight = sum(demand.weight_of.get(zone, 0) for zone in measured)
    if weight:
        mean = sum(whole.values(), Fraction(0)) / weight
        whole |= {
            zone: mean * own for zone, own in demand.weight_of.items() if zone not in measured and zone not in parts
        }
    return whole


def _started(service: ServiceFlows) -> dict[str, int]:
    started: dict[str, int] = {}
    for (start, _), flow in service.flows.items():
        if start and (flow.connections or flow.amount):
            started[start] = started.get(start, 0) + flow.connections
    return {zone: max(count, 1) for zone, count in started.items()}


def measure_flows(documents: Iterable[MeasuredTraffic]) -> MeasuredFlows | None:
    """Take documents together; None where there are none.

    Where some of them have bytes, only those count. Several documents of a node are one after the other, and what it
    sends in an hour is the mean over all of them.
    """
    latest = latest_documents(documents)
    if not latest:
        return None
    has_bytes = any(service.bytes for document in latest for service in document.services)
    counting = [document for document in latest if not has_bytes or _counts_bytes(document)]
    hours: dict[str, float] = {}
    for document in counting:
        hours[document.node] = (
            hours.get(document.node, 0.0) + max((document.until - document.since).total_seconds(), 0.0) / 3600
        )
    in_month = ((document, HOURS_IN_MONTH / hours[document.node]) for document in counting if hours[document.node])
    covered = [duration for duration in hours.values() if duration]
    return MeasuredFlows(
        services=_add_up(in_month, has_bytes=has_bytes),
        has_bytes=has_bytes,
        zone_of={document.node: document.zone for document in latest},
        since=min(document.since for document in latest),
        until=max(document.until for document in latest),
        shortest=min(covered, default=0.0),
        longest=max(covered, default=0.0),
        without_bytes=frozenset(document.node for document in latest) - hours.keys(),
        timeless=frozenset(node for node, duration in hours.items() if not duration),
        incomplete=frozenset(document.node for document in latest if not document.complete),
    )


def _counts_bytes(document: MeasuredTraffic) -> bool:
    """A document without any Service may count them, too."""
    return not document.services or any(_has_bytes(service) for service in document.services)


def _has_bytes(service: ServiceTraffic) -> bool:
    return isinstance(service.bytes, dict) or isinstance(service.external_bytes, dict)


def _add_up(
    documents: Iterable[tuple[MeasuredTraffic, float]], *, has_bytes: bool
) -> dict[ServiceFamily, ServiceFlows]:
    """Each document with the factor that makes of the amount of all documents of its node the amount of a month."""
    flows: dict[ServiceFamily, dict[ZonePair, Flow]] = {}
    external: dict[ServiceFamily, dict[ZonePair, Flow]] = {}
    connections: dict[ServiceFamily, dict[str, dict[str, int]]] = {}
    for document, factor in documents:
        start = document.zone or ""
        for service in document.services:
            key = service.namespace, service.service, service.address_type
            for sums, counts, bytes_ in (
                (flows.setdefault(key, {}), service.zones, service.bytes),
                (external.setdefault(key, {}), service.external, service.external_bytes),
            ):
                sizes = bytes_ if isinstance(bytes_, dict) else {}
                for end in sorted({*counts, *sizes}):
                    count = counts.get(end, 0)
                    request, response = float(count), 0.0
                    if has_bytes:
                        request, response = (sizes[end].request, sizes[end].response) if end in sizes else (0.0, 0.0)
                    before = sums.get((start, end), Flow(0, 0.0, 0.0))
                    sums[start, end] = Flow(
                        before.connections + count,
                        before.request + request * factor,
                        before.response + response * factor,
                    )
            to = connections.setdefault(key, {}).setdefault(document.node, {})
            for end, count in service.zones.items():
                to[end] = to.get(end, 0) + count
    return {key: ServiceFlows(own, external[key], connections[key]) for key, own in sorted(flows.items())}
