"""Measured traffic by Service, from zone to zone, as an amount a month: bytes, or connections where there are none.

A month is 730 hours, a twelfth of a year. What a node counted is scaled by the time in which it did. Nodes that counted
nothing are not made up: all amounts are of the nodes that did.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Final, Protocol, TypeVar

from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, Time
from zoneward.kube.objects import ObjectKey
from zoneward.routing.demand import Demand
from zoneward.routing.selection.traffic import hours_counted, latest_documents, started_in

HOURS_IN_MONTH: Final = 730
_HOURS_IN_DAY: Final = 24
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

    def __add__(self, other: "Flow") -> "Flow":
        return Flow(self.connections + other.connections, self.request + other.request, self.response + other.response)

    @property
    def amount(self) -> float:
        return self.request + self.response


_NO_FLOW: Final = Flow(0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ServiceFlows:
    """One Service in one family. ``flows`` start on nodes; ``external`` came from outside of the cluster, and are by
    the zone of the node that took them in. ``started``: connections by the known zone where they start, also of nodes
    that count no bytes, as many as if all nodes had counted for as long as the one that did for the longest time; at
    least one where something starts.
    """

    flows: Mapping[ZonePair, Flow]
    external: Mapping[ZonePair, Flow]
    started: Mapping[str, int]

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

    ``connections``: those that start on nodes, by Service, node and the zone of the endpoint, of all documents.
    ``has_bytes``: amounts are bytes, and ``without_bytes`` are the nodes that count none, which are in no amount.
    ``zone_of`` has the zone of every node with a document, by the latest one, ``timeless`` those whose documents cover
    no time. ``shortest`` and ``longest``: hours that a node's documents cover. ``incomplete``: nodes whose kernel had
    no room for all counters.
    """

    services: Mapping[ServiceFamily, ServiceFlows]
    connections: Mapping[ServiceFamily, Mapping[str, Mapping[str, int]]]
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
    def shortness(self) -> str | None:
        """That some node counted for less than a day, in words; None where all counted for longer."""
        if not 0 < self.shortest < _HOURS_IN_DAY:
            return None
        return f"some nodes measured for {self.shortest:.3g} h only: a month has hours that are not like these"

    @property
    def counting(self) -> frozenset[str]:
        """The nodes whose documents are in amounts."""
        return frozenset(self.zone_of) - self.without_bytes - self.timeless

    def known_of(self, key: ObjectKey) -> dict[ZonePair, Flow] | None:
        """The flows of a Service between known zones, both families together; None where it was not measured."""
        families = self._families(key)
        together: dict[ZonePair, Flow] = {}
        for service in families:
            for pair, flow in service.known.items():
                together[pair] = together.get(pair, _NO_FLOW) + flow
        return together if families else None

    def sizes_of(self, key: ObjectKey) -> Mapping[str, float]:
        """The amount of a connection to a Service, by the zone where it starts: only ratios matter. In zones where
        nothing is measured it is the mean."""
        amounts, started = defaultdict[str, float](float), Counter[str]()
        for service in self._families(key):
            started.update(service.started)
            for (start, _), flow in service.known.items():
                amounts[start] += flow.amount
        sizes = {start: amount / started[start] for start, amount in amounts.items() if amount}
        mean = sum(amounts.values()) / max(sum(started[start] for start in sizes), 1)
        return defaultdict(lambda: mean, sizes)

    def _families(self, key: ObjectKey) -> list[ServiceFlows]:
        return [self.services[(*key, family)] for family in ("IPv4", "IPv6") if (*key, family) in self.services]

    def demand_parts(self, demand: Demand) -> dict[ObjectKey, dict[str, Fraction]]:
        """Where the traffic of each Service starts, in connections: this is what loads its endpoints.

        A zone whose connections all began before it was measured has one. Where only some nodes of a zone were
        measured, the others are expected to be like them, and zones of which nothing is measured like all others, in
        proportion to their weight in the ``demand`` of the cluster.
        """
        parts: dict[ObjectKey, dict[str, Fraction]] = {}
        for (namespace, name, _), service in self.services.items():
            own = parts.setdefault((namespace, name), {})
            for zone, count in service.started.items():
                own[zone] = own.get(zone, Fraction(0)) + count
        weights = self._measured_weights(demand)
        return {key: _whole_cluster(own, weights, demand) for key, own in parts.items() if own}

    def _measured_weights(self, demand: Demand) -> dict[str, int]:
        """The weight of the nodes in each zone that counted connections, also those that counted no bytes."""
        counting = self.zone_of.keys() - self.timeless
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


def measure_flows(documents: Iterable[MeasuredTraffic]) -> MeasuredFlows | None:
    """Take documents together; None where there are none.

    Where some of them have bytes, only those count. Several documents of a node are one after the other, and what it
    sends in an hour is the mean over all of them.
    """
    latest = latest_documents(documents)
    if not latest:
        return None
    has_bytes = any(service.bytes or service.external_bytes for document in latest for service in document.services)
    counting = [document for document in latest if not has_bytes or _counts_bytes(document)]
    hours, all_hours = hours_counted(counting), hours_counted(latest)
    timed = ((document, hours[document.node]) for document in counting if hours[document.node])
    covered = [duration for duration in hours.values() if duration]
    return MeasuredFlows(
        services=_add_up(timed, _count_started(latest, all_hours), has_bytes=has_bytes),
        connections=_count_connections(latest),
        has_bytes=has_bytes,
        zone_of={document.node: document.zone for document in sorted(latest, key=attrgetter("until"))},
        since=min(document.since for document in latest),
        until=max(document.until for document in latest),
        shortest=min(covered, default=0.0),
        longest=max(hours.values(), default=0.0),
        without_bytes=frozenset(document.node for document in latest) - hours.keys(),
        timeless=frozenset(node for node, duration in all_hours.items() if not duration),
        incomplete=frozenset(document.node for document in latest if not document.complete),
    )


def _counts_bytes(document: MeasuredTraffic) -> bool:
    """A document without any Service may count them, too."""
    return not document.services or any(_has_bytes(service) for service in document.services)


def _has_bytes(service: ServiceTraffic) -> bool:
    return isinstance(service.bytes, dict) or isinstance(service.external_bytes, dict)


def _add_up(
    documents: Iterable[tuple[MeasuredTraffic, float]],
    started: Mapping[ServiceFamily, Mapping[str, int]],
    *,
    has_bytes: bool,
) -> dict[ServiceFamily, ServiceFlows]:
    """Each document with the hours of all documents of its node."""
    flows: dict[ServiceFamily, dict[ZonePair, Flow]] = {}
    external: dict[ServiceFamily, dict[ZonePair, Flow]] = {}
    for document, hours in documents:
        start, factor = document.zone or "", HOURS_IN_MONTH / hours
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
                    flow = Flow(count, request * factor, response * factor)
                    sums[start, end] = sums.get((start, end), _NO_FLOW) + flow
    return {
        key: ServiceFlows(own, external[key], _with_traffic(started[key], own)) for key, own in sorted(flows.items())
    }


def _count_started(
    documents: Sequence[MeasuredTraffic], hours: Mapping[str, float]
) -> dict[ServiceFamily, Counter[str]]:
    """Connections by the zone where they start, in the same time on all nodes that counted for some ``hours``."""
    longest = max(hours.values())
    started: dict[ServiceFamily, Counter[str]] = defaultdict(Counter)
    for document in documents:
        for service in document.services if hours[document.node] else ():
            key = service.namespace, service.service, service.address_type
            started[key][document.zone or ""] += started_in(service, hours[document.node], longest)
    return started


def _count_connections(documents: Iterable[MeasuredTraffic]) -> dict[ServiceFamily, dict[str, dict[str, int]]]:
    connections: dict[ServiceFamily, dict[str, dict[str, int]]] = {}
    for document in documents:
        for service in document.services:
            key = service.namespace, service.service, service.address_type
            to = connections.setdefault(key, {}).setdefault(document.node, {})
            for end, count in service.zones.items():
                to[end] = to.get(end, 0) + count
    return dict(sorted(connections.items()))


def _with_traffic(started: Mapping[str, int], flows: Mapping[ZonePair, Flow]) -> dict[str, int]:
    starts = {start: 1 for (start, _), flow in flows.items() if flow.amount}
    counted = {start: count for start, count in started.items() if count}
    return {start: count for start, count in (starts | counted).items() if start}


class _OfFamily(Protocol):
    @property
    def key(self) -> ServiceFamily: ...


_OfFamilyT = TypeVar("_OfFamilyT", bound=_OfFamily)


def other_family(last: _OfFamilyT | None, one: _OfFamilyT) -> _OfFamilyT | None:
    """The ``last`` one, where it is of the same Service in the other address family."""
    return last if last is not None and last.key != one.key and last.key[:2] == one.key[:2] else None
